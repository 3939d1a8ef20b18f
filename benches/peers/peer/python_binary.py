"""The binary mechanism in plain Python: one running sum of noise, one Gaussian per step."""

import random
from collections.abc import Iterator

from case import Case, Work

PACKAGES = ()


def binary_noise(horizon: int, sigma: float, seed: int) -> Iterator[float]:
    """Noise of steps 1 … horizon. A step removes the nodes below its lowest one bit and adds the node of that bit."""
    gauss = random.Random(seed).gauss
    nodes = [0.0] * horizon.bit_length()
    total = 0.0
    for step in range(1, horizon + 1):
        level = (step & -step).bit_length() - 1
        for below in range(level):
            total -= nodes[below]
        nodes[level] = gauss(0.0, sigma)
        total += nodes[level]
        yield total


def prepare(case: Case) -> Work:
    def one_round() -> None:
        for _, _ in zip(range(case.steps), binary_noise(case.horizon, 1.0, 1)):
            pass

    return Work("plain Python, binary tree", one_round, case.steps)
