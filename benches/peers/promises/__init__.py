"""The training options of each program for a promise: the smallest noise that its own accountant allows, its matrix,
its sampling, and the resulting error of prefix sums.

The module of each program has `options(run)`, which yields at least its DP-SGD and its best correlated noise. All
promises are (ε, δ) for one example added or removed, all sums are of gradients clipped to norm 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

#: Adds the next step's noise to a sum of clipped gradients.
Add = Callable[[np.ndarray], np.ndarray]


MOST_BANDS = 512  # optimising more takes too long


@dataclass(frozen=True)
class Run:
    steps: int
    participations: float  # expected: epochs
    epsilon: float
    delta: float = 1e-5

    @property
    def rate(self) -> float:
        """The expected share of all examples in a step."""
        return self.participations / self.steps

    def bands(self) -> list[int]:
        """Numbers of bands to try, up to the fixed order, in which each example takes part in all of its turns."""
        most = int(self.steps / self.participations)
        ladder = sorted({round(base * 2**power) for power in range(12) for base in (1, 1.5)})
        some = [bands for bands in ladder if bands < min(most, MOST_BANDS)]
        return [*some, most] if most <= MOST_BANDS else some


@dataclass(frozen=True)
class TrainingOption:
    """A training option: program, sampling and noise."""

    peer: str
    sampling: str
    matrix: str
    multiplier: float  # standard deviation of the noise before it is correlated, for columns of length 1
    error: float  # root mean square standard error of prefix sums
    promise: str  # "bound", or another basis of the figure
    #: Batches and noise, from a number of examples, a number of coordinates and a seed.
    start: Callable[[int, int, int], tuple[Iterator[Any], Add]]


def independent_error(steps: int) -> float:
    return float(np.sqrt((steps + 1) / 2))


def toeplitz_error(coefficients: Any, steps: int, scales: Any = None) -> float:
    """Root mean square error of prefix sums, noise of variance 1, for C with these coefficients (and its columns
    divided by `scales`)."""
    return float(np.sqrt(toeplitz_variances(coefficients, steps, scales).mean()))


def toeplitz_variances(coefficients: Any, steps: int, scales: Any = None) -> np.ndarray:
    """The variance of the prefix sum of each step, for the same noise."""
    column = np.zeros(steps)
    column[: len(coefficients)] = coefficients
    inverse = np.zeros(steps)
    inverse[0] = 1 / column[0]
    for step in range(1, steps):
        width = min(step, len(coefficients) - 1)
        inverse[step] = -(column[1 : width + 1] @ inverse[step - width : step][::-1]) / column[0]
    if scales is None:
        return np.cumsum(np.cumsum(inverse) ** 2)
    places = np.subtract.outer(np.arange(steps), np.arange(steps))
    noise = np.where(places >= 0, inverse[places], 0.0) * np.asarray(scales)[:, None]
    return (np.cumsum(noise, axis=0) ** 2).sum(axis=1)


def column_lengths(coefficients: Any, steps: int) -> np.ndarray:
    """The lengths of the columns of a lower triangular Toeplitz matrix."""
    squares = np.pad(np.asarray(coefficients) ** 2, (0, steps - len(coefficients)))
    return np.sqrt(np.cumsum(squares))[::-1]


def least_noise(keeps: Callable[[float], bool], start: float, factor: float, close: float) -> float:
    """The least noise that keeps a promise, from above, within a factor `close`; `factor` is the factor of the first
    steps. Much less noise than needed is never tried, because accountants take longest for that."""
    high = start
    while not keeps(high):
        high *= factor
    low = high / factor
    while keeps(low):
        low, high = low / factor, low
    while high / low > close:
        middle = float(np.sqrt(low * high))
        low, high = (low, middle) if keeps(middle) else (middle, high)
    return high


def least(candidates: list[int], error_of: Callable[[int], float], start: int) -> int:
    """The candidate with the least error, searched downhill from `start`: errors have a single minimum."""
    errors: dict[int, float] = {}

    def error(place: int) -> float:
        if not 0 <= place < len(candidates):
            return float("inf")
        if place not in errors:
            errors[place] = error_of(candidates[place])
        return errors[place]

    place = min(start, len(candidates) - 1)
    while True:
        best = min((place, place - 1, place + 1), key=error)
        if best == place:
            return candidates[place]
        place = best
