"""Trains three models privately with the noise of Opacus, jax-privacy, opake and evertally, under the same guarantees.

    python peers.py

README.md describes the comparison and the picture.
"""

from __future__ import annotations

import argparse
import csv
import functools
import importlib
import itertools
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from tasks import TASKS

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1] / "benches" / "peers"))
from promises import Run, TrainingOption  # noqa: E402

DELTA = 1e-5
EPSILONS = (1.0, 2.0, 4.0, 8.0)
SEEDS = 3
MOMENTA = (0.0, 0.9)
TUNING_SEED = 1000  # and those after it
METHODS = {
    "opacus": "Opacus, DP-SGD",
    "jax-privacy": "jax-privacy, bands, sampled",
    "opake": "opake, bands, sampled",
    "opake-bins": "opake, BLT in bins (from samples)",
    "independent": "evertally, DP-SGD",
    "evertally": "evertally, least mean error",
    "evertally-max": "evertally, least maximal error",
}
MODULES = {"opake-bins": "opake", "jax-privacy": "jax_privacy", "independent": "evertally", "evertally-max": "evertally"}
# Okabe and Ito's colours, which colour-blind readers can distinguish; the markers differ for prints in grey.
STYLES = {
    "opacus": ("#0072B2", "o"),
    "jax-privacy": ("#E69F00", "^"),
    "opake": ("#CC79A7", "v"),
    "opake-bins": ("#56B4E9", "<"),
    "independent": ("#000000", "s"),
    "evertally": ("#009E73", "D"),
    "evertally-max": ("#D55E00", "X"),
}


@functools.cache
def module_of(method: str) -> Any:
    """None if it is not installed."""
    try:
        return importlib.import_module(f"promises.of_{MODULES.get(method, method)}")
    except (ImportError, TypeError) as error:  # opake 0.16 ends with a TypeError on Python 3.11
        print(f"{METHODS[method]}: its rows are copied from the existing peers.csv ({error})")
        return None


@functools.cache
def option_of(method: str, data: str, epsilon: float) -> TrainingOption:
    """The training option of a method: DP-SGD, or the best noise that the library offers for the mean error."""
    task, module = TASKS[data], module_of(method)
    run = Run(task.steps, task.epochs, epsilon, DELTA)
    if method == "opake-bins":
        return module.in_bins(run, module.STRATEGIES["BLT"], "BLT")
    options = module.options(run, *["max"] * (method == "evertally-max"))
    if method == "evertally-max":
        return list(options)[-1]
    if method == "independent":
        return next(options)
    # If independent noise is best, no other noise is trained.
    return min(options, key=lambda option: option.error)


def accuracy(method: str, data: str, epsilon: float, rate: float, momentum: float, seed: int) -> float:
    """The same loop for all: sum of clipped gradients, noise, descent. Split and initial weights are the same for all
    methods."""
    task = TASKS[data]
    model = task.make(seed)
    batches, add = option_of(method, data, epsilon).start(task.training, len(model.parameters), seed)
    velocity = np.zeros_like(model.parameters)
    for batch in batches:
        velocity *= momentum
        velocity += add(model.clipped_sum(np.sort(np.asarray(batch, np.int64))))
        model.parameters -= rate * (1 - momentum) / task.batch * model.strides * velocity
    return model.accuracy()


@functools.cache
def accuracy_without(data: str, seed: int) -> float:
    """Without privacy: no noise, the same clipping and descent, the highest rate."""
    task = TASKS[data]
    model, random = task.make(seed), np.random.default_rng(seed)
    for _ in range(task.epochs):
        for batch in np.split(random.permutation(task.training), task.training // task.batch):
            model.parameters -= task.rates[-1] / task.batch * model.strides * model.clipped_sum(batch)
    return model.accuracy()


def best_descent(method: str, data: str, epsilon: float) -> tuple[float, float]:
    """Learning rate (scaled to the same final step size with momentum) and momentum, by accuracies with other seeds."""
    task = TASKS[data]
    seeds = range(TUNING_SEED, TUNING_SEED + task.tuning_seeds)

    def mean(descent: tuple[float, float]) -> float:
        return statistics.mean(accuracy(method, data, epsilon, *descent, seed) for seed in seeds)

    return max(itertools.product(task.rates, MOMENTA), key=mean)


def experiment(seeds: int, methods: list[str], datas: list[str]) -> Iterator[dict[str, Any]]:
    """One row for each data set, method and ε; those without privacy have an empty ε."""
    for data in datas:
        yield row_of("none", data, "", ("", ""), [accuracy_without(data, seed) for seed in range(seeds)])
        for method, epsilon in itertools.product(methods, EPSILONS):
            descent = best_descent(method, data, epsilon)
            found = [accuracy(method, data, epsilon, *descent, seed) for seed in range(seeds)]
            yield row_of(method, data, epsilon, descent, found)


def row_of(
    method: str, data: str, epsilon: float | str, descent: tuple[float | str, float | str], found: list[float]
) -> dict[str, Any]:
    option = option_of(method, data, float(epsilon)) if method in METHODS else None
    return {
        "data": data,
        "method": method,
        "epsilon": epsilon,
        "median": round(statistics.median(found), 4),
        "lowest": round(min(found), 4),
        "highest": round(max(found), 4),
        "seeds": len(found),
        "rate": descent[0],
        "momentum": descent[1],
        "multiplier": f"{option.multiplier:.5g}" if option else "",
        "error": f"{option.error:.5g}" if option else "",
        "sampling": option.sampling if option else "",
        "matrix": option.matrix if option else "",
        "promise": option.promise if option else "",
    }


def read(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    with open(path, newline="") as file:
        rows: list[dict[str, Any]] = list(csv.DictReader(file))
    for row in rows:
        row["epsilon"] = float(row["epsilon"]) if row["epsilon"] else ""
        row |= {name: float(row[name]) for name in ("median", "lowest", "highest")}
    return rows


def write(rows: list[dict[str, Any]], path: Path) -> None:
    places = {method: place for place, method in enumerate(("none", *METHODS))}
    order = sorted(rows, key=lambda row: (list(TASKS).index(row["data"]), places[row["method"]], row["epsilon"] or 0))
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(order)


def table(rows: list[dict[str, Any]], data: str) -> str:
    """Markdown: error of prefix sums, then median accuracy with lowest and highest."""
    found = {(row["method"], row["epsilon"]): row for row in rows if row["data"] == data}
    heads = [f"{what}ε = {epsilon:g}" for what in ("error, ", "") for epsilon in EPSILONS]
    lines = [f"| {data} | " + " | ".join(heads) + " |", "|---" + "|--:" * 4 + "|---" * 4 + "|"]
    for method, label in METHODS.items():
        mine = [found[method, epsilon] for epsilon in EPSILONS if (method, epsilon) in found]
        if len(mine) == len(EPSILONS):
            cells = [f"{float(row['error']):.2f}" for row in mine]
            cells += [f"{row['median']:.3f} ({row['lowest']:.3f}–{row['highest']:.3f})" for row in mine]
            lines.append(f"| {label} | " + " | ".join(cells) + " |")
    without = found["none", ""]
    return "\n".join(lines) + f"\n\nwithout privacy {without['median']:.3f}\n"


def draw(rows: list[dict[str, Any]], folder: Path) -> None:
    """Medians with lowest and highest, one panel for each data set; writes peers.svg and peers.png."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update(
        {"svg.hashsalt": "evertally", "font.size": 10, "axes.spines.top": False, "axes.spines.right": False}
    )
    shown = [data for data in TASKS if any(row["data"] == data for row in rows)]
    figure, panels = plt.subplots(1, len(shown), figsize=(4.4 * len(shown), 4.4), layout="constrained", squeeze=False)
    for data, panel in zip(shown, panels[0]):
        mine = [row for row in rows if row["data"] == data]
        without = next(row["median"] for row in mine if row["method"] == "none")
        panel.axhline(without, color="0.5", linestyle=":", linewidth=1)
        note = {"xytext": (0, 3), "textcoords": "offset points", "color": "0.35", "fontsize": 9}
        panel.annotate("without privacy", (EPSILONS[0], without), **note)
        for place, method in enumerate(METHODS):
            draw_method(panel, [row for row in mine if row["method"] == method], method, place - (len(METHODS) - 1) / 2)
        panel.set_xscale("log", base=2)
        panel.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
        panel.grid(axis="y", color="0.92")
        panel.set_axisbelow(True)
        panel.set_title(f"{data} ({TASKS[data].steps} steps)", fontsize=11)
        panel.set_xlabel("ε (δ = 10⁻⁵)")
    panels[0][0].set_ylabel("test accuracy")
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    figure.savefig(folder / "peers.svg", metadata={"Date": None})
    figure.savefig(folder / "peers.png", dpi=140, metadata={"Software": None})


def draw_method(panel: Any, rows: list[dict[str, Any]], method: str, place: float) -> None:
    """Draws a method next to the others, so that no bar hides another."""
    if not rows:
        return
    color, marker = STYLES[method]
    across = [row["epsilon"] * 1.04**place for row in rows]
    medians = [row["median"] for row in rows]
    ends = [[row["median"] - row["lowest"] for row in rows], [row["highest"] - row["median"] for row in rows]]
    look = {"color": color, "marker": marker, "markersize": 5, "linewidth": 1.2, "elinewidth": 1.2, "capsize": 2}
    panel.errorbar(across, medians, yerr=ends, label=METHODS[method], **look)


def main() -> None:
    parser = argparse.ArgumentParser(description="Private training with the noise of four programs.")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="repetitions, each with its own split and noise")
    parser.add_argument("--methods", nargs="+", choices=METHODS, help="others keep their rows")
    parser.add_argument("--data", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--out", type=Path, default=HERE, help="folder for peers.csv, peers.svg and peers.png")
    args = parser.parse_args()
    asked = args.methods or [method for method in METHODS if method != "opake-bins"]
    methods = [method for method in asked if module_of(method)]
    args.out.mkdir(parents=True, exist_ok=True)
    for row in experiment(args.seeds, methods, args.data):
        print(*row.values(), sep="; ", flush=True)
        place = {name: row[name] for name in ("data", "method", "epsilon")}
        old = read(args.out / "peers.csv") or read(HERE / "peers.csv")
        write([*(other for other in old if not place.items() <= other.items()), row], args.out / "peers.csv")
    rows = read(args.out / "peers.csv")
    print("\n".join(table(rows, data) for data in TASKS if any(row["data"] == data for row in rows)))
    draw(rows, args.out)


if __name__ == "__main__":
    main()
