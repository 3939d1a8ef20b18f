"""Optimizers and clipping thresholds under the same guarantees: momentum, Adam, Adam without the noise, second moments
from the same release, and adaptive thresholds.

    python moments.py

README.md describes the comparison and the picture.
"""

from __future__ import annotations

import argparse
import csv
import functools
import itertools
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import evertally as et
import numpy as np
import torch
from evertally.torch import AdaptiveClipping, DPAdam, SecondMoments, make_private
from sklearn.datasets import load_breast_cancer, load_digits
from torch import nn
from torch.utils.data import TensorDataset

HERE = Path(__file__).parent
DELTA = 1e-5
EPSILONS = (1.0, 2.0, 8.0)
SEEDS = 3
TUNING_SEEDS = range(1000, 1002)
RATES_OF = {1.0: 1.0, 2.0: 2.0, 8.0: 2.0}  # by ε: the ε for which the learning rate was chosen
LOSS = nn.functional.cross_entropy
LADDER = [float(f"{digit}e{power}") for power in range(-4, 3) for digit in (1, 3)]
STARTS = {"sgd": (0.1, 10.0), "adam": (0.003, 0.1)}  # first and last rate to try; extended while the best is at an end


@dataclass(frozen=True)
class Data:
    """The number of training examples, the batch size, and the widths of a network with one hidden layer."""

    label: str
    training: int
    batch: int
    epochs: int
    widths: tuple[int, int, int]


DATA = {
    "digits": Data("digits, 120 steps", 1440, 120, 10, (64, 32, 10)),
    "cancer": Data("breast cancer, 160 steps", 456, 57, 20, (30, 16, 2)),
}


@dataclass(frozen=True)
class Method:
    """`threshold` is the clipping threshold, or the initial one if it follows a `quantile`; `rates_of` names the method
    whose learning rate is used, without tuning."""

    label: str
    optimizer: str
    threshold: float = 1.0
    planned: bool = False
    quantile: float | None = None
    moments: SecondMoments | None = None
    rates_of: str | None = None


BLOCKS = SecondMoments(share=0.05)
COORDINATES = SecondMoments(share=0.1, per="coordinate", scale=20.0)
METHODS = {
    "momentum": Method("momentum", "sgd"),
    "momentum-planned": Method("momentum, planned noise", "sgd", planned=True),
    "adam": Method("Adam", "adam"),
    "dpadam": Method("DPAdam", "dpadam"),
    "dpadam-planned": Method("DPAdam, planned noise", "dpadam", planned=True),
    "moments-block": Method("DPAdam, second moments of tensors", "dpadam", moments=BLOCKS),
    "moments-coordinate": Method("DPAdam, second moments of coordinates", "dpadam", moments=COORDINATES),
    "clip-low": Method("threshold 0.1", "sgd", threshold=0.1),
    "clip-high": Method("threshold 10", "sgd", threshold=10.0),
    "clip-low-same": Method("threshold 0.1, rate of 1", "sgd", threshold=0.1, rates_of="momentum"),
    "clip-high-same": Method("threshold 10, rate of 1", "sgd", threshold=10.0, rates_of="momentum"),
    "median": Method("median from 1", "sgd", quantile=0.5),
    "median-low": Method("median from 0.1", "sgd", threshold=0.1, quantile=0.5, rates_of="median"),
    "median-high": Method("median from 10", "sgd", threshold=10.0, quantile=0.5, rates_of="median"),
    "upper": Method("quantile 0.8 from 1", "sgd", quantile=0.8),
    "upper-low": Method("quantile 0.8 from 0.1", "sgd", threshold=0.1, quantile=0.8, rates_of="upper"),
    "upper-high": Method("quantile 0.8 from 10", "sgd", threshold=10.0, quantile=0.8, rates_of="upper"),
}
PANELS = {
    "optimizers": ("momentum", "adam", "dpadam", "moments-block", "moments-coordinate"),
    "thresholds": ("momentum", "clip-low", "clip-high", "median", "upper", "upper-low", "upper-high"),
}
# Okabe and Ito's colours, which colour-blind readers can distinguish; the markers differ for prints in grey.
STYLES = {
    "momentum": ("#000000", "s"),
    "adam": ("#E69F00", "^"),
    "dpadam": ("#D55E00", "v"),
    "moments-block": ("#0072B2", "o"),
    "moments-coordinate": ("#009E73", "D"),
    "clip-low": ("#E69F00", "v"),
    "clip-high": ("#E69F00", "^"),
    "median": ("#CC79A7", "o"),
    "upper": ("#0072B2", "o"),
    "upper-low": ("#56B4E9", "v"),
    "upper-high": ("#56B4E9", "^"),
}


@functools.cache
def examples(data: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Scales every example independently of the others: pixels in sixteenths, logarithms of cell measurements."""
    if data == "digits":
        inputs, targets = load_digits(return_X_y=True)
        inputs = inputs / 16
    else:
        inputs, targets = load_breast_cancer(return_X_y=True)
        inputs = np.log1p(inputs)
    return torch.tensor(inputs, dtype=torch.float32), torch.tensor(targets)


def network(data: str, seed: int) -> nn.Module:
    inputs, hidden, classes = DATA[data].widths
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(inputs, hidden), nn.Tanh(), nn.Linear(hidden, classes))


@functools.cache
def plan_for(data: str, epsilon: float, planned: bool, norm: float) -> et.training.VectorPlan:
    """Independent noise with Poisson sampling (DP-SGD), or the best option of `plan_training` for the mean error."""
    own = DATA[data]
    given: dict[str, Any] = {"norm": norm, "epsilon": epsilon, "delta": DELTA}
    if planned:
        return et.training.plan_training(own.training, own.batch, own.epochs, objective="mean", **given).plan
    steps = own.epochs * own.training // own.batch
    return et.training.plan_vector(
        steps, mechanism="input", sampling="poisson", sampled_fraction=own.batch / own.training, **given
    )


def optimizer_of(method: Method, model: nn.Module, rate: float) -> torch.optim.Optimizer:
    if method.optimizer == "sgd":
        return torch.optim.SGD(model.parameters(), lr=0.1 * rate, momentum=0.9)
    return (DPAdam if method.optimizer == "dpadam" else torch.optim.Adam)(model.parameters(), lr=rate)


def accuracy(data: str, name: str, epsilon: float, rate: float, seed: int) -> float:
    """Test accuracy after the last step. Split and initial weights are the same for all methods."""
    method, own = METHODS[name], DATA[data]
    inputs, targets = examples(data)
    order = torch.randperm(len(inputs), generator=torch.Generator().manual_seed(seed))
    train, test = order[: own.training], order[own.training :]
    model = network(data, seed)
    # An adaptive threshold starts at `initial`; the norm is then only a unit.
    follows = None if method.quantile is None else AdaptiveClipping(method.quantile, initial=method.threshold)
    plan = plan_for(data, epsilon, method.planned, 1.0 if follows else method.threshold)
    # A key from a seed makes the experiment reproducible, and protects nobody. These data are public.
    key = et.SecretKey.insecure_from_test_seed(et.TestSeed(seed))
    run = make_private(
        model,
        LOSS,
        optimizer_of(method, model, rate),
        TensorDataset(inputs[train], targets[train]),
        plan,
        key,
        f"{data}, {name}, {epsilon}, {rate}",
        adaptive_clipping=follows,
        second_moments=method.moments,
        **({} if plan.sampling else {"batch_size": own.batch}),
    )
    for batch in run.loader:
        run.step(*batch)
    with torch.no_grad():
        return float((model(inputs[test]).argmax(dim=1) == targets[test]).float().mean())


def cases() -> Iterator[tuple[str, str, float]]:
    yield from itertools.product(DATA, METHODS, EPSILONS)


@functools.cache
def tuning_mean(data: str, name: str, epsilon: float, rate: float) -> float:
    return statistics.mean(accuracy(data, name, epsilon, rate, seed) for seed in TUNING_SEEDS)


def best_rate(data: str, name: str, epsilon: float) -> float:
    """The rate with the best mean accuracy over other seeds."""
    first, last = (LADDER.index(end) for end in STARTS["sgd" if METHODS[name].optimizer == "sgd" else "adam"])
    while True:
        tried = LADDER[first : last + 1]
        best = LADDER.index(max(tried, key=lambda rate: tuning_mean(data, name, epsilon, rate)))
        wider = max(0, best - 1), min(len(LADDER) - 1, best + 1)
        if first <= wider[0] and wider[1] <= last:
            break
        first, last = min(first, wider[0]), max(last, wider[1])
    means = "  ".join(f"{rate:g}: {tuning_mean(data, name, epsilon, rate):.3f}" for rate in tried)
    print(f"{data:7} {name:19} ε = {epsilon:g}  {means}", flush=True)
    return LADDER[best]


def tune(folder: Path) -> None:
    """Chooses a rate for each method, data set and ε of `RATES_OF`; writes moments-rates.csv."""
    cases = itertools.product(DATA, METHODS, dict.fromkeys(RATES_OF.values()))
    rows = [
        {"data": data, "method": name, "epsilon": epsilon, "rate": best_rate(data, name, epsilon)}
        for data, name, epsilon in cases
        if not METHODS[name].rates_of
    ]
    write(rows, folder / "moments-rates.csv")


def rates() -> dict[tuple[str, str, float], float]:
    with open(HERE / "moments-rates.csv", newline="") as file:
        return {(row["data"], row["method"], float(row["epsilon"])): float(row["rate"]) for row in csv.DictReader(file)}


def experiment(seeds: int) -> Iterator[dict[str, Any]]:
    """One row for each data set, method and ε."""
    tuned = rates()
    for data, name, epsilon in cases():
        method = METHODS[name]
        rate = tuned[data, method.rates_of or name, RATES_OF[epsilon]]
        found = [accuracy(data, name, epsilon, rate, seed) for seed in range(seeds)]
        plan = plan_for(data, epsilon, method.planned, 1.0)
        row = {
            "data": data,
            "method": name,
            "epsilon": epsilon,
            "median": round(statistics.median(found), 4),
            "lowest": round(min(found), 4),
            "highest": round(max(found), 4),
            "seeds": seeds,
            "rate": rate,
            "mechanism": plan.mechanism,
            "groups": plan.groups or "",
        }
        print(" ".join(str(value) for value in row.values()), flush=True)
        yield row


def write(rows: list[dict[str, Any]], path: Path) -> None:
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def read(path: Path) -> list[dict[str, Any]]:
    with open(path, newline="") as file:
        rows: list[dict[str, Any]] = list(csv.DictReader(file))
    for row in rows:
        row |= {name: float(row[name]) for name in ("epsilon", "median", "lowest", "highest", "rate")}
        row["seeds"] = int(row["seeds"])
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    """Markdown: median, with lowest and highest."""
    found = {(row["data"], row["method"], row["epsilon"]): row for row in rows}
    heads = [f"{data}, ε = {epsilon:g}" for data in DATA for epsilon in EPSILONS]
    lines = ["| | " + " | ".join(heads) + " |", "|---" * (len(heads) + 1) + "|"]
    for name, method in METHODS.items():
        mine = [found[data, name, epsilon] for data in DATA for epsilon in EPSILONS]
        cells = " | ".join(f"{row['median']:.3f} ({row['lowest']:.3f}–{row['highest']:.3f})" for row in mine)
        lines.append(f"| {method.label} | {cells} |")
    return "\n".join(lines)


def draw(rows: list[dict[str, Any]], folder: Path) -> None:
    """Medians with lowest and highest, data sets across, questions down; writes moments.svg and moments.png."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update(
        {"svg.hashsalt": "evertally", "font.size": 10, "axes.spines.top": False, "axes.spines.right": False}
    )
    figure, panels = plt.subplots(len(PANELS), len(DATA), figsize=(12, 7.6), sharey="col", layout="constrained")
    for (question, names), line in zip(PANELS.items(), panels):
        for data, panel in zip(DATA, line):
            for place, name in enumerate(names):
                mine = [row for row in rows if (row["data"], row["method"]) == (data, name)]
                draw_method(panel, mine, name, place - (len(names) - 1) / 2)
            panel.set_xscale("log", base=2)
            panel.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
            panel.grid(axis="y", color="0.92")
            panel.set_axisbelow(True)
            panel.set_title(f"{DATA[data].label}: {question}", fontsize=11)
            panel.set_xlabel("ε (δ = 10⁻⁵)")
        line[0].set_ylabel("test accuracy")
        line[-1].legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    figure.savefig(folder / "moments.svg", metadata={"Date": None})
    figure.savefig(folder / "moments.png", dpi=140, metadata={"Software": None})


def draw_method(panel: Any, rows: list[dict[str, Any]], name: str, place: float) -> None:
    """Draws a method next to the others, so that no bar hides another."""
    color, marker = STYLES[name]
    across = [row["epsilon"] * 1.05**place for row in rows]
    medians = [row["median"] for row in rows]
    ends = [[row["median"] - row["lowest"] for row in rows], [row["highest"] - row["median"] for row in rows]]
    look = {"color": color, "marker": marker, "markersize": 6, "linewidth": 1.2, "elinewidth": 1.2, "capsize": 2}
    label = "momentum, threshold 1" if name == "momentum" else METHODS[name].label
    panel.errorbar(across, medians, yerr=ends, label=label, **look)


def main() -> None:
    parser = argparse.ArgumentParser(description="Private training with several optimizers and clipping thresholds.")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="repetitions, each with its own split and noise")
    parser.add_argument("--out", type=Path, default=HERE, help="folder for moments.csv, moments.svg and moments.png")
    parser.add_argument("--tune", action="store_true", help="choose learning rates with other seeds instead")
    args = parser.parse_args()
    torch.set_num_threads(1)
    args.out.mkdir(parents=True, exist_ok=True)
    if args.tune:
        return tune(args.out)
    rows = list(experiment(args.seeds))
    write(rows, args.out / "moments.csv")
    print(table(rows))
    draw(rows, args.out)


if __name__ == "__main__":
    main()
