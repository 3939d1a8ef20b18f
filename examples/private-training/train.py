"""Trains a small classifier privately, with five kinds of noise at equal budgets, and draws the accuracies.

    python train.py

README.md describes the comparison and the picture.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import evertally as et
import numpy as np
from sklearn.datasets import load_digits

HERE = Path(__file__).parent
DELTA = 1e-5
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
NORM = 1.0
CLASSES = 10
TRAINING = 1440  # of 1797 pictures; the others measure the accuracy
MECHANISMS = {
    "input": "independent noise (DP-SGD)",
    "binary": "binary tree",
    "subtract": "tree with subtraction",
    "smooth": "smooth binary",
    "blt": "BLT",
}


@dataclass(frozen=True)
class Setting:
    """Epochs, batches and learning rate. Chosen once for all kinds of noise, by their accuracies: see
    README.md."""

    name: str
    epochs: int
    batch: int
    rate: float

    @property
    def batches(self) -> int:
        """Batches per epoch. They stay the same, so this is the distance between two uses of a picture."""
        return TRAINING // self.batch

    @property
    def steps(self) -> int:
        return self.epochs * self.batches


SETTINGS = (
    Setting("one pass, batches of 16", epochs=1, batch=16, rate=0.5),
    Setting("ten epochs, batches of 120", epochs=10, batch=120, rate=1.0),
    Setting("ten epochs, batches of 240", epochs=10, batch=240, rate=2.0),
)


@dataclass(frozen=True)
class Split:
    """Pictures as vectors of length 1, each scaled independently of the others, in a random order."""

    features: np.ndarray
    classes: np.ndarray
    test_features: np.ndarray
    test_classes: np.ndarray


def split(seed: int) -> Split:
    pixels, classes = load_digits(return_X_y=True)
    features = np.hstack([pixels / 16 - 0.3, np.ones((len(pixels), 1))]).astype(np.float32)
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    order = np.random.default_rng(seed).permutation(len(features))
    train, test = order[:TRAINING], order[TRAINING:]
    return Split(features[train], classes[train], features[test], classes[test])


def clipped_sum(weights: np.ndarray, features: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Sum of the examples' gradients of softmax regression, each clipped to NORM.

    The gradient of an example is the outer product of its features and its residuals, so its length is the product of
    theirs, and scaling the residuals clips it: no gradient of a single example is ever built.
    """
    scores = features @ weights
    residuals = np.exp(scores - scores.max(axis=1, keepdims=True))
    residuals /= residuals.sum(axis=1, keepdims=True)
    residuals[np.arange(len(classes)), classes] -= 1
    lengths = np.linalg.norm(features, axis=1) * np.linalg.norm(residuals, axis=1)
    # A little less than the norm, so that rounding to float32 does not exceed it.
    residuals *= np.minimum(1, NORM * (1 - 2**-18) / np.maximum(lengths, 1e-12))[:, None]
    return features.T @ residuals


def train(data: Split, setting: Setting, noise: et.VectorNoise | None) -> float:
    """Accuracy on the test pictures after the last step."""
    weights = np.zeros((data.features.shape[1], CLASSES), dtype=np.float32)
    for step in range(setting.steps):
        start = step % setting.batches * setting.batch
        batch = slice(start, start + setting.batch)
        gradient = clipped_sum(weights, data.features[batch], data.classes[batch])
        if noise is not None:
            noise.add_next(gradient.reshape(-1))
        weights -= setting.rate / setting.batch * gradient
    return float((np.argmax(data.test_features @ weights, axis=1) == data.test_classes).mean())


def plan_for(mechanism: str, setting: Setting, epsilon: float) -> et.training.VectorPlan:
    return et.training.plan_vector(
        setting.steps,
        norm=NORM,
        epsilon=epsilon,
        delta=DELTA,
        mechanism=mechanism,
        series="increments",
        participations=setting.epochs,
        separation=setting.batches,
    )


def accuracies(setting: Setting, mechanism: str | None, epsilon: float, seeds: int) -> tuple[list[float], float]:
    """Accuracy for each seed (its split, order and noise), and the largest standard error of the gradients' sum."""
    plan = None if mechanism is None else plan_for(mechanism, setting, epsilon)
    found = []
    for seed in range(seeds):
        data = split(seed)
        noise = None
        if plan is not None:
            # A key from a seed makes the experiment reproducible, and protects nobody. These pictures are public.
            key = et.SecretKey.insecure_from_test_seed(et.TestSeed(seed))
            name = f"{setting.name}, {mechanism}, {epsilon}"
            noise = et.VectorNoise(plan, key, name, coordinates=data.features.shape[1] * CLASSES)
        found.append(train(data, setting, noise))
    return found, 0.0 if plan is None else plan.max_std_error


def experiment(seeds: int) -> Iterator[dict]:
    """One row for each setting, kind of noise and ε; the row without noise has an empty ε."""
    for setting in SETTINGS:
        cases = [(None, 0.0)] + [(mechanism, epsilon) for mechanism in MECHANISMS for epsilon in EPSILONS]
        for mechanism, epsilon in cases:
            found, error = accuracies(setting, mechanism, epsilon, seeds)
            low, median, high = np.quantile(found, [0.25, 0.5, 0.75])
            yield {
                "setting": setting.name,
                "mechanism": mechanism or "none",
                "epsilon": epsilon or "",
                "median": round(median, 4),
                "lower_quartile": round(low, 4),
                "upper_quartile": round(high, 4),
                "seeds": seeds,
                "max_std_error": round(error, 3),
            }


def table(rows: list[dict]) -> str:
    """Markdown: medians, one line for each kind of noise."""
    lines = []
    for setting in SETTINGS:
        mine = {(row["mechanism"], row["epsilon"]): row["median"] for row in rows if row["setting"] == setting.name}
        lines.append(f"\n{setting.name} ({setting.steps} steps; without noise {mine['none', '']:.3f})\n")
        lines.append("| noise \\ ε | " + " | ".join(f"{epsilon:g}" for epsilon in EPSILONS) + " |")
        lines.append("|---" * (len(EPSILONS) + 1) + "|")
        for mechanism, label in MECHANISMS.items():
            cells = " | ".join(f"{mine[mechanism, epsilon]:.3f}" for epsilon in EPSILONS)
            lines.append(f"| {label} | {cells} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="Private training of a classifier with five kinds of noise.")
    parser.add_argument("--seeds", type=int, default=20, help="repetitions, each with its own split and noise")
    parser.add_argument("--out", type=Path, default=HERE, help="folder for accuracy.csv, accuracy.svg and accuracy.png")
    args = parser.parse_args()
    rows = list(experiment(args.seeds))
    args.out.mkdir(parents=True, exist_ok=True)
    with open(args.out / "accuracy.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    print(table(rows))
    from picture import draw

    draw(rows, SETTINGS, MECHANISMS, EPSILONS, args.out)


if __name__ == "__main__":
    main()
