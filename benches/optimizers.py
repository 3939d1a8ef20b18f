"""Correlated noise under SGD with momentum, Adam and Muon: test accuracy at equal guarantees.

    python benches/optimizers.py [--seeds 5] [--epsilons 0.5 2 8]

Needs NumPy and scikit-learn. A network with one hidden layer on scikit-learn's digits: 1440 examples, batches of 120,
20 epochs, δ = 1e-5, gradients clipped to norm 1. Two orders of the examples, each with independent noise and with the
noise that `plan_training` ranks first (by the largest error of running sums). The learning rate of every combination is
the best of a ladder, by the mean over separate seeds; this choice is not private. Prints a table in Markdown: mean and
standard deviation over the seeds.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable
from typing import Any

import evertally as et
import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

Array = NDArray[np.float64]
EXAMPLES, BATCH, EPOCHS, HIDDEN = 1440, 120, 20, 32
SHAPES = [(64, HIDDEN), (HIDDEN,), (HIDDEN, 10), (10,)]
SIZES = [int(np.prod(shape)) for shape in SHAPES]
TUNING_SEEDS = range(1000, 1003)
ORDERS = {"fixed order": None, "random batches": "random-allocation"}


def split(vector: Array) -> list[Array]:
    """The parameters in a vector."""
    pieces = np.split(vector, np.cumsum(SIZES)[:-1])
    return [piece.reshape(shape) for piece, shape in zip(pieces, SHAPES, strict=True)]


def joined(pieces: list[Array]) -> Array:
    return np.concatenate([piece.ravel() for piece in pieces])


def clipped_sum(vector: Array, inputs: Array, classes: NDArray[np.int64]) -> Array:
    """The sum of the examples' gradients, each clipped to norm 1."""
    first, shift, second, offset = split(vector)
    hidden = np.tanh(inputs @ first + shift)
    scores = hidden @ second + offset
    scores = np.exp(scores - scores.max(axis=1, keepdims=True))
    by_scores = scores / scores.sum(axis=1, keepdims=True)
    by_scores[np.arange(len(classes)), classes] -= 1
    by_hidden = (by_scores @ second.T) * (1 - hidden**2)
    squares = ((inputs**2).sum(1) + 1) * (by_hidden**2).sum(1) + (
        (hidden**2).sum(1) + 1
    ) * (by_scores**2).sum(1)
    factors = 1 / np.maximum(1, np.sqrt(squares))[:, None]
    by_hidden, by_scores = by_hidden * factors, by_scores * factors
    return joined(
        [inputs.T @ by_hidden, by_hidden.sum(0), hidden.T @ by_scores, by_scores.sum(0)]
    )


def orthogonal(matrix: Array) -> Array:
    """Muon's five Newton-Schulz steps towards the nearest matrix with orthogonal rows or columns."""
    x = matrix / (np.linalg.norm(matrix) + 1e-7)
    x = x.T if x.shape[0] > x.shape[1] else x
    for _ in range(5):
        product = x @ x.T
        x = 3.4445 * x + (-4.7750 * product + 2.0315 * product @ product) @ x
    return x.T if matrix.shape[0] > matrix.shape[1] else x


def momentum() -> Callable[[Array], Array]:
    """SGD with momentum 0.9."""
    state = np.zeros(sum(SIZES))

    def update(gradient: Array) -> Array:
        state[:] = 0.9 * state + gradient
        return state

    return update


def adam() -> Callable[[Array], Array]:
    """Adam with its usual constants."""
    first, second, steps = (
        np.zeros(sum(SIZES)),
        np.zeros(sum(SIZES)),
        itertools.count(1),
    )

    def update(gradient: Array) -> Array:
        step = next(steps)
        first[:] = 0.9 * first + 0.1 * gradient
        second[:] = 0.999 * second + 0.001 * gradient**2
        return (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)

    return update


def muon() -> Callable[[Array], Array]:
    """Muon with momentum 0.95 on the matrices, and Adam on the rest."""
    state, other = np.zeros(sum(SIZES)), adam()

    def update(gradient: Array) -> Array:
        state[:] = 0.95 * state + gradient
        rest = split(other(gradient))
        ahead = split(0.95 * state + gradient)
        for place, own in enumerate(ahead):
            if own.ndim == 2:
                rest[place] = (
                    orthogonal(own) * max(1, own.shape[0] / own.shape[1]) ** 0.5
                )
        return joined(rest)

    return update


OPTIMIZERS: dict[str, tuple[Callable[[], Callable[[Array], Array]], list[float]]] = {
    "SGD, momentum 0.9": (momentum, [0.025, 0.05, 0.1, 0.2, 0.4, 0.8]),
    "Adam": (adam, [0.001, 0.002, 0.005, 0.01, 0.02, 0.05]),
    "Muon": (muon, [0.002, 0.005, 0.01, 0.02, 0.05, 0.1]),
}


def plans(epsilon: float) -> dict[tuple[str, str], Any]:
    """By order: the plan with independent noise, and the best plan."""
    options = et.training.plan_training(
        EXAMPLES, BATCH, EPOCHS, epsilon=epsilon, delta=1e-5
    )
    found: dict[tuple[str, str], Any] = {}
    for option in options:  # least error first
        order = "fixed order" if option.sampling is None else "random batches"
        noise = "independent" if option.plan.mechanism == "input" else "planned"
        if option.fits:
            found.setdefault((order, noise), option.plan)
    return found


def accuracy(plan: Any, optimizer: str, rate: float, seed: int) -> float:
    """The test accuracy after one run."""
    pixels, classes = load_digits(return_X_y=True)
    generator = np.random.default_rng(seed)
    order = generator.permutation(len(pixels))
    inputs, classes = pixels[order] / 16, classes[order]
    key, name = (
        et.SecretKey.insecure_from_test_seed(et.TestSeed(seed)),
        f"{optimizer} {rate}",
    )
    if plan.sampling is None:
        batches = et.training.FixedBatches(plan, examples=EXAMPLES, batch_size=BATCH)
    else:
        batches = et.training.Batches(plan, key, name, examples=EXAMPLES)
    noise = et.VectorNoise(plan, key, name, coordinates=sum(SIZES), dtype="float64")
    starts = [
        generator.normal(0, shape[0] ** -0.5, shape)
        if len(shape) == 2
        else np.zeros(shape)
        for shape in SHAPES
    ]
    vector = joined(starts)
    update = OPTIMIZERS[optimizer][0]()
    for batch in batches:
        noisy = clipped_sum(vector, inputs[batch], classes[batch])
        noise.add_next(noisy)
        vector = vector - rate * update(noisy / BATCH)
    first, shift, second, offset = split(vector)
    scores = np.tanh(inputs[EXAMPLES:] @ first + shift) @ second + offset
    return float((scores.argmax(1) == classes[EXAMPLES:]).mean())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.5, 2.0, 8.0])
    arguments = parser.parse_args()
    print(
        "| optimizer | order | "
        + " | ".join(f"ε = {epsilon:g}" for epsilon in arguments.epsilons)
        + " |"
    )
    print("|---|---|" + "---|" * len(arguments.epsilons))
    found = {epsilon: plans(epsilon) for epsilon in arguments.epsilons}
    with et.allow_noise_reuse("rates are compared by the same noise"):
        for optimizer, order in itertools.product(OPTIMIZERS, ORDERS):
            cells = []
            for epsilon in arguments.epsilons:
                means = []
                for noise in ("independent", "planned"):
                    plan = found[epsilon][order, noise]
                    tuned = {
                        rate: np.mean(
                            [
                                accuracy(plan, optimizer, rate, seed)
                                for seed in TUNING_SEEDS
                            ]
                        )
                        for rate in OPTIMIZERS[optimizer][1]
                    }
                    rate = max(tuned, key=lambda rate, tuned=tuned: tuned[rate])
                    runs = [
                        accuracy(plan, optimizer, rate, seed)
                        for seed in range(arguments.seeds)
                    ]
                    means.append(f"{np.mean(runs):.3f} ± {np.std(runs, ddof=1):.3f}")
                cells.append(" → ".join(means))
            print(f"| {optimizer} | {order} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
