"""Where correlated noise pays: accuracies with independent and with planned noise of equal guarantees, and with the
noise of Opacus and jax-privacy where batches are sampled.

    python worth.py

README.md describes the settings and the picture.
"""

from __future__ import annotations

import argparse
import csv
import functools
import importlib
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # small matrices

import evertally as et  # noqa: E402
import numpy as np  # noqa: E402
from evertally.training import federated  # noqa: E402
from train import CLASSES, TRAINING, clipped_sum, split  # noqa: E402

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1] / "benches" / "peers"))
DELTA = 1e-5
EPSILONS = (0.5, 2.0, 8.0)
SEEDS, TUNING = 10, (100, 101)  # seeds that are measured, and others that choose the learning rate
METHODS = {"independent": "independent noise", "planned": "planned noise"}
# Other programs, with their own accountant, sampling and noise. Their modules are in benches/peers/promises.
PEERS = {"opacus": "Opacus", "jax-privacy": "jax-privacy"}
USERS, COHORT, LOCAL_STEPS = 480, 48, 5
COLORS = dict(zip(EPSILONS, ("#D55E00", "#0072B2", "#009E73"), strict=True))
MARKERS = {"planned": "o", "opacus": "s", "jax-privacy": "^"}


@dataclass(frozen=True)
class Setting:
    """A way to train. `batch` counts users if it is federated, and `epochs` their rounds."""

    name: str
    kind: str  # "sampled", "fixed" or "federated"
    epochs: int
    batch: int
    rates: tuple[float, ...]

    @property
    def methods(self) -> tuple[str, ...]:
        """Other programs are compared where batches are sampled."""
        return (*METHODS, *PEERS) if self.kind == "sampled" else tuple(METHODS)

    @property
    def steps(self) -> int:
        return self.epochs * (USERS if self.kind == "federated" else TRAINING) // self.batch


RATES = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0)
SETTINGS = (
    Setting("sampled, 10 epochs", "sampled", 10, 120, RATES),
    Setting("sampled, 40 epochs", "sampled", 40, 120, RATES),
    Setting("sampled, batches of 480", "sampled", 10, 480, RATES),
    Setting("fixed order, one pass", "fixed", 1, 16, RATES),
    Setting("fixed order, 10 epochs", "fixed", 10, 120, RATES),
    Setting("federated, 100 rounds", "federated", 10, COHORT, (0.05, 0.1, 0.2, 0.4, 0.8)),
)


@functools.cache
def plan_of(setting: Setting, method: str, epsilon: float) -> tuple[Any, float]:
    """The plan, and the largest standard error of the running sums, in units of the norm."""
    budget = {"epsilon": epsilon, "delta": DELTA}
    if setting.kind == "federated":
        mechanism = "input" if method == "independent" else "blt"
        plan = federated.plan_rounds(
            setting.steps, population=USERS, cohort=COHORT, mechanism=mechanism, learning_rate=0.2, momentum=0.9,
            **budget,
        )  # fmt: skip
        return plan, float(np.linalg.norm(np.cumsum(plan.noise.noise_matrix(), axis=0), axis=1).max())
    steps = TRAINING // setting.batch
    if setting.kind == "fixed":
        own = {"mechanism": "input"} if method == "independent" else {}
        plan = et.training.plan_vector(
            setting.steps, participations=setting.epochs, separation=steps, max_memory=64, **own, **budget
        )
    elif method == "independent":  # DP-SGD
        plan = et.training.plan_vector(
            setting.steps, sampling="poisson", sampled_fraction=1 / steps, mechanism="input", **budget
        )
    else:
        plan = et.training.plan_training(TRAINING, setting.batch, setting.epochs, **budget).plan
    return plan, plan.max_std_error


@functools.cache
def peer_option(setting: Setting, method: str, epsilon: float) -> Any:
    """The training option of another program with the least mean error of those it offers."""
    from promises import Run

    module = importlib.import_module(f"promises.of_{method.replace('-', '_')}")
    run = Run(setting.steps, setting.epochs, epsilon, DELTA)
    return min(module.options(run), key=lambda option: option.error)


@functools.cache
def noise_of(setting: Setting, method: str, epsilon: float) -> dict[str, Any]:
    """The columns of a row that describe the noise."""
    if method in PEERS:
        option = peer_option(setting, method, epsilon)
        return {"sampling": option.sampling, "mechanism": option.matrix, "error": ""}
    plan, error = plan_of(setting, method, epsilon)
    noise = getattr(plan, "noise", plan)
    sampling = getattr(noise, "sampling", None) or "none"
    return {"sampling": sampling, "mechanism": noise.mechanism, "error": f"{error:.4g}"}


def peer_accuracy(setting: Setting, method: str, epsilon: float, rate: float, seed: int) -> float:
    """As `accuracy`, with batches and noise of another program."""
    data = split(seed)
    weights = np.zeros((data.features.shape[1], CLASSES), np.float32)
    batches, add = peer_option(setting, method, epsilon).start(TRAINING, weights.size, seed)
    for batch in batches:
        chosen = np.sort(np.asarray(batch, np.int64))
        total = clipped_sum(weights, data.features[chosen], data.classes[chosen])
        weights -= rate / setting.batch * add(total.reshape(-1)).reshape(weights.shape)
    return float((np.argmax(data.test_features @ weights, axis=1) == data.test_classes).mean())


def accuracy(setting: Setting, method: str, epsilon: float, rate: float, seed: int) -> float:
    """Accuracy after the last step. A seed decides split, order, batches and noise."""
    if method in PEERS:
        return peer_accuracy(setting, method, epsilon, rate, seed)
    plan, _ = plan_of(setting, method, epsilon)
    # A key from a seed makes the experiment reproducible, and protects nobody. These pictures are public.
    key = et.SecretKey.insecure_from_test_seed(et.TestSeed(seed))
    name = f"{setting.name}, {method}, {epsilon}, {rate}"
    if setting.kind == "federated":
        return federated_accuracy(plan, key, name, rate, seed)
    data = split(seed)
    if plan.sampling is None:
        batches = et.training.FixedBatches(plan, examples=TRAINING, batch_size=setting.batch)
    else:
        batches = et.training.Batches(plan, key, name, examples=TRAINING)
    weights = np.zeros((data.features.shape[1], CLASSES), np.float32)
    noise = et.VectorNoise(plan, key, name, coordinates=weights.size)
    for batch in batches:
        gradient = clipped_sum(weights, data.features[batch], data.classes[batch])
        noise.add_next(gradient.reshape(-1))
        weights -= rate / setting.batch * gradient
    return float((np.argmax(data.test_features @ weights, axis=1) == data.test_classes).mean())


def federated_accuracy(plan: Any, key: et.SecretKey, name: str, rate: float, seed: int) -> float:
    """Users have three pictures each, sorted by digit. They train on them, and send their updates."""
    data = split(seed)
    order = np.argsort(data.classes, kind="stable").reshape(USERS, -1)
    server = federated.Server(plan, key, name, np.zeros((data.features.shape[1], CLASSES), np.float32))
    factor = rate / plan.rate(1)  # of the plan's own rate
    weights = server.weights.astype(np.float64)
    start = weights
    for _ in range(plan.rounds):
        cohort = server.sample(range(USERS))
        total = np.zeros(weights.size)
        for user in cohort:
            features, classes = data.features[order[user]].astype(np.float64), data.classes[order[user]]
            total += server.clip(local(weights, features, classes) - weights)
        # The server's weights are linear in the noisy sums, and so a rate is a factor.
        weights = start + factor * server.step(total, cohort)
    return float((np.argmax(data.test_features @ weights, axis=1) == data.test_classes).mean())


def local(weights: np.ndarray, features: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """The weights after some steps of softmax regression on the pictures of one user."""
    for _ in range(LOCAL_STEPS):
        scores = np.exp(features @ weights)
        scores /= scores.sum(axis=1, keepdims=True)
        scores[np.arange(len(classes)), classes] -= 1
        weights = weights - features.T @ scores / len(classes)
    return weights


def experiment(seeds: int, methods: list[str]) -> Iterator[dict[str, Any]]:
    """A row for each setting, ε, method and seed."""
    for setting in SETTINGS:
        for epsilon in EPSILONS:
            for method in (each for each in setting.methods if each in methods):
                tuned = {
                    rate: np.mean([accuracy(setting, method, epsilon, rate, seed) for seed in TUNING])
                    for rate in setting.rates
                }
                rate = max(tuned, key=lambda each: tuned[each])
                for seed in range(seeds):
                    yield {
                        "setting": setting.name, "epsilon": epsilon, "method": method,
                        **noise_of(setting, method, epsilon), "rate": rate, "seed": seed,
                        "accuracy": f"{accuracy(setting, method, epsilon, rate, seed):.4f}",
                    }  # fmt: skip
                print(setting.name, epsilon, method, *noise_of(setting, method, epsilon).values(), flush=True)


def accuracies(rows: list[dict[str, Any]]) -> dict[tuple[str, float, str], np.ndarray]:
    """For each setting, ε and method: the accuracies of all seeds, in the order of seeds."""
    found: dict[tuple[str, float, str], dict[int, float]] = {}
    for row in rows:
        place = row["setting"], float(row["epsilon"]), row["method"]
        found.setdefault(place, {})[int(row["seed"])] = float(row["accuracy"])
    return {place: np.array([by_seed[seed] for seed in sorted(by_seed)]) for place, by_seed in found.items()}


def gain(first: np.ndarray, second: np.ndarray) -> tuple[float, float]:
    """The mean of the differences for the same split, and its standard error."""
    differences = second - first
    error = float(differences.std(ddof=1) / np.sqrt(len(differences))) if len(differences) > 1 else float("nan")
    return float(differences.mean()), error


def table(rows: list[dict[str, Any]]) -> str:
    """Markdown: all accuracies, the gain of planned noise with its standard error, and the ratio of the errors."""
    found = accuracies(rows)
    errors = {(row["setting"], float(row["epsilon"]), row["method"]): row["error"] for row in rows}
    lines = [
        f"| setting | ε | independent | planned | {' | '.join(PEERS.values())} | gain | planned error |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for setting in SETTINGS:
        for epsilon in EPSILONS:
            own = {method: found.get((setting.name, epsilon, method)) for method in (*METHODS, *PEERS)}
            cells = " | ".join("–" if each is None else f"{each.mean():.3f}" for each in own.values())
            mean, error = gain(own["independent"], own["planned"])
            ratio = float(errors[setting.name, epsilon, "planned"]) / float(
                errors[setting.name, epsilon, "independent"]
            )
            lines.append(f"| {setting.name} | {epsilon:g} | {cells} | {mean:+.3f} ± {error:.3f} | × {ratio:.2f} |")
    return "\n".join(lines)


def draw(rows: list[dict[str, Any]], folder: Path) -> None:
    """The gains over independent noise: of planned noise in a fixed order and in federated learning, and of all methods
    with sampled batches. Writes worth.svg and worth.png."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update(
        {"svg.hashsalt": "evertally", "font.size": 10, "axes.spines.top": False, "axes.spines.right": False}
    )
    found = accuracies(rows)
    figure, panels = plt.subplots(1, 2, figsize=(10, 4.6), layout="constrained")
    draw_panel(panels[0], found, [setting for setting in SETTINGS if setting.kind != "sampled"])
    draw_panel(panels[1], found, [setting for setting in SETTINGS if setting.kind == "sampled"])
    panels[0].set_title("Not sampled", fontsize=10, loc="left")
    panels[1].set_title("Sampled (another scale)", fontsize=10, loc="left")
    handles = [
        *(plt.Line2D([], [], color=color, linewidth=3, label=f"ε = {epsilon:g}") for epsilon, color in COLORS.items()),
        *(
            plt.Line2D([], [], color="0.3", marker=MARKERS[method], linewidth=0, label=label, **face(method, "0.3"))
            for method, label in {"planned": METHODS["planned"], **PEERS}.items()
        ),
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles), frameon=False)
    figure.supxlabel("test accuracy, minus that with evertally's independent noise", fontsize=10)
    figure.savefig(folder / "worth.svg", metadata={"Date": None})
    figure.savefig(folder / "worth.png", dpi=140, metadata={"Software": None})


def face(method: str, color: str) -> dict[str, str]:
    """Markers of other programs are hollow."""
    return {"markerfacecolor": "white" if method in PEERS else color}


def draw_panel(panel: Any, found: dict[tuple[str, float, str], np.ndarray], settings: list[Setting]) -> None:
    """The gains in some settings with twice their standard errors, one below the other."""
    methods = [method for method in settings[0].methods if method != "independent"]
    cases = [(epsilon, method) for epsilon in EPSILONS for method in methods]
    places = np.arange(len(settings))[::-1]
    for place, (epsilon, method) in enumerate(cases):
        base = [found[setting.name, epsilon, "independent"] for setting in settings]
        gains = np.array([gain(one, found[s.name, epsilon, method]) for one, s in zip(base, settings)])
        look = {"fmt": MARKERS[method], "color": COLORS[epsilon], "capsize": 2, **face(method, COLORS[epsilon])}
        panel.errorbar(gains[:, 0], places + 0.4 - 0.8 * (place + 0.5) / len(cases), xerr=2 * gains[:, 1], **look)
    panel.axvline(0, color="0.5", linewidth=1)
    panel.set_yticks(places, [setting.name.removeprefix("sampled, ") for setting in settings])
    panel.grid(axis="x", color="0.92")
    panel.set_axisbelow(True)


def read(path: Path) -> list[dict[str, Any]]:
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def main() -> None:
    every = [*METHODS, *PEERS]
    parser = argparse.ArgumentParser(description="Accuracies with independent and with planned noise.")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="repetitions, each with its own split and noise")
    parser.add_argument("--out", type=Path, default=HERE, help="folder for worth.csv, worth.svg and worth.png")
    parser.add_argument(
        "--methods", nargs="*", choices=every, default=list(METHODS), help="others are copied from worth.csv"
    )
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    rows = [row for row in read(HERE / "worth.csv") if row["method"] not in args.methods]
    rows += list(experiment(args.seeds, args.methods))
    order = {setting.name: place for place, setting in enumerate(SETTINGS)}
    rows.sort(key=lambda row: (order[row["setting"]], float(row["epsilon"]), every.index(row["method"])))
    with open(args.out / "worth.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    print(table(rows))
    draw(rows, args.out)


if __name__ == "__main__":
    main()
