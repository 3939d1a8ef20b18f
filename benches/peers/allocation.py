"""The least noise of random allocation in one epoch, by Monte Carlo, and what accountants certify: `python
allocation.py`. See README.md.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular, toeplitz
from scipy.special import ndtr

BLOCK = 1 << 21  # entries of a block of draws
STEP = 0.01  # the relative distance of the two amounts of noise that give the slope of δ
SLOPE_DRAWS = 1_000_000  # at most, for the slope, and for an added example
TILTS = (1.0, 1.25, 1.5, 2.0)
LIFTS = np.arange(4.0)
PLAIN = 0.1  # of the draws: of importance sampling without tilt, which bounds the weights
PILOTS = 100_000

Values = np.ndarray[tuple[int, ...], np.dtype[np.float64]]
Floats = np.ndarray[tuple[int, ...], np.dtype[np.float32]]
Noises = tuple[float, ...]


@dataclass(frozen=True)
class Case:
    """One epoch, with one band (independent noise) or `banded-sqrt`."""

    bins: int
    bands: int
    epsilon: float
    delta: float


CASES = (
    Case(40, 1, 1.0, 1e-5),
    Case(100, 1, 0.5, 1e-5),
    Case(500, 1, 0.5, 1e-5),
    Case(1000, 1, 0.5, 1e-6),
    Case(64, 1, 0.3, 1e-6),
    Case(200, 8, 1.0, 1e-5),
    Case(1000, 64, 1.0, 1e-5),
)


class IndependentNoise:
    """δ for a removed example is E_Q(M - e^ε)⁺ with M = ΣY_i/b. The terms of the b bins of the largest Y_i are equal,
    and that of the last bin has a closed form, given the others: their sum S and maximum m. With K = b e^ε - S it is
    E Y 1{Y > k} - K P(Y > k), k = max(K, m).
    """

    def __init__(self, case: Case) -> None:
        self.case = case

    def weights(self, rows: int, noises: Noises, coins: np.random.Generator) -> Iterator[tuple[Values, Values]]:
        """For each noise: the weights of a removed example, and of an added one, by plain Monte Carlo."""
        bins, ratio = self.case.bins, math.exp(self.case.epsilon)
        normals = coins.standard_normal((rows, bins), dtype=np.float32)
        for noise in noises:
            terms = np.exp(normals * np.float32(1 / noise) - np.float32(0.5 / noise**2))
            others = terms[:, 1:].sum(axis=1, dtype=np.float64)
            strike = bins * ratio - others
            least = np.log(np.maximum(strike, terms[:, 1:].max(axis=1)))
            above = ndtr(0.5 / noise - noise * least)
            removed = above - strike * ndtr(-0.5 / noise - noise * least)
            added = np.maximum(1 - ratio * (others + terms[:, 0]) / bins, 0)
            yield removed, added


class CorrelatedNoise:
    """Importance sampling: a bin i is drawn, and noise around c times its vector, and also around the direction in
    which all bins move alike, by one of several distances. The weight is (M - e^ε)⁺ over the ratio of the densities, so
    every c is right. A tenth of the draws has c = 1 and no such direction, the density M: so no weight is above ten.
    Nothing is taken from the accounting of the library: vectors are columns of the square root of the matrix of prefix
    sums.
    """

    def __init__(self, case: Case) -> None:
        self.case = case
        column = np.ones(case.bins)
        for step in range(1, case.bins):
            column[step] = column[step - 1] * (2 * step - 1) / (2 * step)
        column[case.bands :] = 0
        right = np.tril(toeplitz(column))
        self.right = right.astype(np.float32)
        self.squares = (right**2).sum(axis=0)
        self.products = (right.T @ right).astype(np.float32)
        common = solve_triangular(right, np.ones(case.bins), trans="T", lower=True)
        self.size = 1 / float(np.linalg.norm(common))  # every bin moves this far in the direction
        self.direction = (common * self.size).astype(np.float32)
        self.tilt = 1.5

    def by_columns(self, normals: Floats) -> Floats:
        """The products with the columns of the matrix, which has few bands: block by block."""
        bands, products = self.case.bands, np.empty_like(normals)
        for first in range(0, self.case.bins, bands):
            rows, columns = slice(first, first + 2 * bands), slice(first, first + bands)
            products[:, columns] = normals[:, rows] @ self.right[rows, columns]
        return products

    def tune(self, noise: float, coins: np.random.Generator) -> None:
        """The c with the smallest spread."""
        spreads = {}
        for tilt in TILTS:
            self.tilt = tilt
            parts = [next(self.weights(rows, (noise,), coins))[0] for rows in blocks(self.case, PILOTS)]
            removed = np.concatenate(parts)
            spreads[tilt] = removed.std() / max(removed.mean(), 1e-300)
        self.tilt = min(spreads, key=lambda tilt: spreads[tilt])

    def weights(self, rows: int, noises: Noises, coins: np.random.Generator) -> Iterator[tuple[Values, Values]]:
        """Of an added example with more than one noise only."""
        bins, ratio = self.case.bins, math.exp(self.case.epsilon)
        normals = coins.standard_normal((rows, bins), dtype=np.float32)
        drawn = coins.integers(bins, size=rows)
        plain = coins.random(rows) < PLAIN
        tilts, lifts = np.where(plain, 1.0, self.tilt), np.where(plain, 0.0, coins.choice(LIFTS, rows))
        alone, along = (self.by_columns(normals), (normals @ self.direction).astype(np.float64))
        for noise in noises:
            half = (self.squares / (2 * noise**2)).astype(np.float32)
            # Without the example, for the other direction; then with the mean of the proposal.
            moves = alone * np.float32(1 / noise)
            without = mean_of_exponentials(moves - half) if len(noises) > 1 else np.ones(rows)
            moves += self.products[drawn] * (tilts / noise**2).astype(np.float32)[:, None]
            moves += (lifts * self.size / noise).astype(np.float32)[:, None]
            ratios = mean_of_exponentials(moves - half)
            # The density of noise around c m_i/σ + s d, in units of the noise, over that without a mean.
            moved = along + (tilts - self.tilt) * self.size / noise + lifts
            lifted = sum(np.exp(lift * (moved - lift / 2)) for lift in LIFTS) / len(LIFTS)
            tilted = mean_of_exponentials(np.float32(self.tilt) * moves - np.float32(self.tilt**2) * half)
            density = PLAIN * ratios + (1 - PLAIN) * tilted * lifted
            yield (np.maximum(ratios - ratio, 0) / density, np.maximum(1 - ratio * without, 0))


def mean_of_exponentials(values: Floats) -> Values:
    """Of each row."""
    return np.exp(values).mean(axis=1, dtype=np.float64)


def blocks(case: Case, draws: int) -> Iterator[int]:
    """Numbers of rows that add up to the draws."""
    rows = max(BLOCK // case.bins, 1)
    for first in range(0, draws, rows):
        yield min(rows, draws - first)


@dataclass(frozen=True)
class Estimate:
    """Of the least noise: the relative standard error, the exponent of the noise in δ, and δ of an added example over
    the given one.
    """

    noise: float
    error: float
    slope: float
    added: float


def least_noise(case: Case, near: float, draws: int, seed: int) -> Estimate:
    """The noise with the given δ, close to another one."""
    coins = np.random.Generator(np.random.SFC64(seed))
    law: IndependentNoise | CorrelatedNoise = IndependentNoise(case)
    if case.bands > 1:
        law = CorrelatedNoise(case)
        law.tune(near, coins)
    both = min(draws, SLOPE_DRAWS)
    sums, squares, added = np.zeros(2), 0.0, 0.0
    for rows in blocks(case, both):
        of_both = list(law.weights(rows, (near, near * (1 - STEP)), coins))
        sums += [removed.sum() for removed, _ in of_both]
        squares += (of_both[0][0] ** 2).sum()
        added += of_both[0][1].sum()
    slope = math.log(sums[1] / sums[0]) / -math.log1p(-STEP)
    total = sums[0]
    for rows in blocks(case, draws - both):
        ((removed, _),) = law.weights(rows, (near,), coins)
        total += removed.sum()
        squares += (removed**2).sum()
    mean = total / draws
    spread = math.sqrt((squares / draws / mean**2 - 1) / draws)
    noise = near * float(mean / case.delta) ** (1 / slope)
    return Estimate(noise, spread / slope, slope, float(added / both / case.delta))


def of_evertally(case: Case, sampling: str) -> float:
    """The noise of a plan of this project."""
    from evertally.training import plan_vector

    name = "input" if case.bands == 1 else f"banded-sqrt(bands={case.bands})"
    options: dict[str, Any] = {"sampling": sampling, "steps_per_epoch": case.bins}
    if sampling == "poisson":
        options = {"sampling": sampling, "sampled_fraction": 1 / case.bins}
    return plan_vector(case.bins, epsilon=case.epsilon, delta=case.delta, norm=1.0, mechanism=name, **options).sigma


def of_pld_accounting(case: Case, noise: float) -> float:
    """δ by PLD_accounting (Feldman and Shenfeld), on its default grid."""
    from PLD_accounting import AllocationSchemeConfig, PrivacyParams, gaussian_allocation_delta_configurable

    params = PrivacyParams(sigma=noise, num_steps=case.bins, epsilon=case.epsilon)
    return float(gaussian_allocation_delta_configurable(params=params, config=AllocationSchemeConfig()))


def of_opake(case: Case, noise: float) -> float:
    """δ by opake, on a grid of 0.001: the default of 0.0001 takes many minutes."""
    from opake.api.accounting.core.opake_accounting import DiscretizationConfig, random_allocation_gaussian_pld

    losses = random_allocation_gaussian_pld(noise, case.bins, 1, DiscretizationConfig(discretization=1e-3))
    return float(losses.delta_at(case.epsilon))


PEERS = {"PLD_accounting": of_pld_accounting, "opake": of_opake}


def of_peer(peer: str, case: Case, near: float, slope: float) -> str:
    """The noise that a program certifies, from its δ at a noise close to it."""
    if case.bands > 1:  # not offered
        return "–"
    try:
        return f"{near * (PEERS[peer](case, near) / case.delta) ** (1 / slope):.4f}"
    except (ImportError, TypeError) as error:  # opake 0.16 raises a TypeError on Python 3.11
        print(f"skipping {peer}: {error}")
        return "–"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--draws", type=int, default=10_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, nargs="+", default=range(len(CASES)), help="by number, from 0")
    parser.add_argument("--peers", nargs="*", default=PEERS, choices=PEERS)
    args = parser.parse_args()
    heads = ["steps", "bands", "ε", "δ", "Monte Carlo", "evertally", "over it", *PEERS, "Poisson"]
    print("| " + " | ".join(heads) + " | added | seconds |", "|--:" * 12 + "|", sep="\n", flush=True)
    for case in (CASES[number] for number in args.cases):
        began = time.monotonic()
        ours = of_evertally(case, "random-allocation")
        poisson = f"{of_evertally(case, 'poisson'):.4f}" if case.bands == 1 else "–"
        least = least_noise(case, ours, args.draws, args.seed)
        peers = [of_peer(peer, case, ours, least.slope) if peer in args.peers else "–" for peer in PEERS]
        numbers = [f"{least.noise:.4f} ± {least.noise * least.error:.4f}", f"{ours:.4f}"]
        numbers.append(f"{100 * (ours / least.noise - 1):+.2f} %")
        row = [f"{case.bins}", f"{case.bands}", f"{case.epsilon}", f"{case.delta:g}", *numbers, *peers, poisson]
        seconds = time.monotonic() - began
        print("| " + " | ".join([*row, f"{least.added:.3f}", f"{seconds:.0f}"]) + " |", flush=True)


if __name__ == "__main__":
    main()
