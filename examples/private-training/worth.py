"""Where correlated noise pays: accuracies with independent and with planned noise of equal guarantees.

    python worth.py

README.md describes the settings and the picture.
"""

from __future__ import annotations

import argparse
import csv
import functools
import os
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
DELTA = 1e-5
EPSILONS = (0.5, 2.0, 8.0)
SEEDS, TUNING = 10, (100, 101)  # seeds that are measured, and others that choose the learning rate
METHODS = {"independent": "independent noise", "planned": "planned noise"}
USERS, COHORT, LOCAL_STEPS = 480, 48, 5


@dataclass(frozen=True)
class Setting:
    """A way to train. `batch` counts users if it is federated, and `epochs` their rounds."""

    name: str
    kind: str  # "sampled", "fixed" or "federated"
    epochs: int
    batch: int
    rates: tuple[float, ...]

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


def accuracy(setting: Setting, method: str, epsilon: float, rate: float, seed: int) -> float:
    """Accuracy after the last step. A seed decides split, order, batches and noise."""
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


def experiment(seeds: int) -> Iterator[dict[str, Any]]:
    """A row for each setting, ε, method and seed."""
    for setting in SETTINGS:
        for epsilon in EPSILONS:
            for method in METHODS:
                plan, error = plan_of(setting, method, epsilon)
                tuned = {
                    rate: np.mean([accuracy(setting, method, epsilon, rate, seed) for seed in TUNING])
                    for rate in setting.rates
                }
                rate = max(tuned, key=lambda each: tuned[each])
                noise = getattr(plan, "noise", plan)
                for seed in range(seeds):
                    yield {
                        "setting": setting.name, "epsilon": epsilon, "method": method,
                        "sampling": getattr(noise, "sampling", None) or "none", "mechanism": noise.mechanism,
                        "error": f"{error:.4g}", "rate": rate, "seed": seed,
                        "accuracy": f"{accuracy(setting, method, epsilon, rate, seed):.4f}",
                    }  # fmt: skip


def summary(rows: list[dict[str, Any]]) -> dict[tuple[str, float], tuple[float, float, float, float, float]]:
    """For each setting and ε: mean accuracies of both methods, the mean of the paired differences with its standard
    error, and the ratio of the errors."""
    found = {}
    for setting in SETTINGS:
        for epsilon in EPSILONS:
            own = [row for row in rows if row["setting"] == setting.name and float(row["epsilon"]) == epsilon]
            by = {method: [row for row in own if row["method"] == method] for method in METHODS}
            first, second = (np.array([float(row["accuracy"]) for row in by[method]]) for method in METHODS)
            gain = second - first
            error = float(gain.std(ddof=1) / np.sqrt(len(gain))) if len(gain) > 1 else float("nan")
            ratio = float(by["planned"][0]["error"]) / float(by["independent"][0]["error"])
            found[setting.name, epsilon] = (first.mean(), second.mean(), gain.mean(), error, ratio)
    return found


def table(rows: list[dict[str, Any]]) -> str:
    """Markdown: both accuracies, the gain with its standard error, and the ratio of the errors."""
    lines = ["| setting | ε | independent | planned | gain | planned error |", "|---|--:|--:|--:|--:|--:|"]
    for (name, epsilon), (first, second, gain, error, ratio) in summary(rows).items():
        lines.append(
            f"| {name} | {epsilon:g} | {first:.3f} | {second:.3f} | {gain:+.3f} ± {error:.3f} | × {ratio:.2f} |"
        )
    return "\n".join(lines)


def draw(rows: list[dict[str, Any]], folder: Path) -> None:
    """The gain in each setting, with twice its standard error; writes worth.svg and worth.png."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update(
        {"svg.hashsalt": "evertally", "font.size": 10, "axes.spines.top": False, "axes.spines.right": False}
    )
    figure, panel = plt.subplots(figsize=(8, 3.8), layout="constrained")
    found = summary(rows)
    looks = zip(EPSILONS, ("#D55E00", "#0072B2", "#009E73"), ("o", "s", "^"), (0.22, 0.0, -0.22), strict=True)
    for epsilon, color, marker, shift in looks:
        gains = np.array([found[setting.name, epsilon][2:4] for setting in SETTINGS])
        places = np.arange(len(SETTINGS))[::-1] + shift
        panel.errorbar(
            gains[:, 0], places, xerr=2 * gains[:, 1], fmt=marker, color=color, capsize=2, label=f"ε = {epsilon:g}"
        )
    panel.axvline(0, color="0.5", linewidth=1)
    panel.set_yticks(np.arange(len(SETTINGS))[::-1], [setting.name for setting in SETTINGS])
    panel.set_xlabel("test accuracy with planned noise, minus that with independent noise")
    panel.grid(axis="x", color="0.92")
    panel.set_axisbelow(True)
    panel.legend(frameon=False, loc="upper right")
    figure.savefig(folder / "worth.svg", metadata={"Date": None})
    figure.savefig(folder / "worth.png", dpi=140, metadata={"Software": None})


def main() -> None:
    parser = argparse.ArgumentParser(description="Accuracies with independent and with planned noise.")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="repetitions, each with its own split and noise")
    parser.add_argument("--out", type=Path, default=HERE, help="folder for worth.csv, worth.svg and worth.png")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    rows = list(experiment(args.seeds))
    with open(args.out / "worth.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    print(table(rows))
    draw(rows, args.out)


if __name__ == "__main__":
    main()
