"""opake: DP-SGD with Poisson sampling and with random allocation; bands with cyclic Poisson and b-min-sep sampling;
BLTs, square roots and their inverses with balls in bins.

If its accountant draws samples (b-min-sep; balls in bins with correlated noise), its ε is an upper bound except with
probability one in a million, for each amount of noise that is tried. That probability is not part of its δ.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import opake.accounting as accounting
import opake.dpftrl.accounting as correlated
import opake.dpsgd.accounting as plain
import torch
from opake.api.dpftrl.sampling._poisson import PartitionType
from opake.dpftrl.noise import (
    band_mf_strategy,
    bisr_strategy,
    blt_strategy,
    identity_strategy,
    lambda_cgd_strategy,
    mf_gaussian_noise,
)
from opake.dpftrl.sampling import BallsInBinsSampler, BMinSepSampler, CyclicPoissonSampler
from opake.dpsgd.sampling import KOutOfTSampler
from opake.random import key
from opake.types import clipped

from . import Add, Run, TrainingOption, column_lengths, independent_error, least, least_noise, toeplitz_error

COARSE = 2e-3  # for finding the number of bands: never less noise than with finer intervals
SAMPLED = "bound but for a chance of 1e-6, from {samples} samples in each direction"


def options(run: Run) -> Iterator[TrainingOption]:
    """The options whose promise needs no samples and is found in seconds."""
    yield cyclic(run, 1)
    if (bands := _best_bands(run)) > 1:
        yield cyclic(run, bands)
    if (most := run.bands()[-1]) > bands and run.rate * most >= 1:
        yield cyclic(run, most)


def slow_options(run: Run) -> Iterator[TrainingOption]:
    """The options that take minutes to hours each: random allocation, and those that draw samples."""
    yield allocated(run)
    yield from (in_bins(run, strategy, words) for words, strategy in STRATEGIES.items())
    bands = _best_bands(run)
    if bands > 1 and run.rate * bands < 1:
        yield b_min_sep(run, bands)


def _best_bands(run: Run) -> int:
    """The best number of bands under cyclic Poisson sampling."""
    return least(run.bands(), lambda bands: cyclic(run, bands, coarse=True).error, len(run.bands()) // 3)


STRATEGIES = {
    "BLT": blt_strategy(max_buffers=4),
    "λ-CGD, λ = 0.5": lambda_cgd_strategy(lambda_=0.5),
    "λ-CGD, λ = 0.9": lambda_cgd_strategy(lambda_=0.9),
    "BISR, 4 bands": bisr_strategy(bandwidth=4),
    "BISR, 16 bands": bisr_strategy(bandwidth=16),
}


def cyclic(run: Run, bands: int, coarse: bool = False) -> TrainingOption:
    strategy = _strategy(bands)
    chance = min(1.0, run.rate * bands)

    def process(sigma: float) -> Any:
        if bands == 1:
            return plain.poisson(plain.gaussian(sigma), sample_rate=run.rate) * run.steps
        return correlated.poisson(correlated.mf_gaussian(sigma, strategy), chance, n_steps=run.steps)

    def batches(examples: int, seed: int) -> Any:
        independent = PartitionType.INDEPENDENT
        return CyclicPoissonSampler(range(examples), chance, bands, run.steps, independent, key=key(seed))

    sampling = "fixed order" if chance == 1 else "Poisson" if bands == 1 else f"cyclic Poisson, {bands} groups"
    matrix = "none" if bands == 1 else f"Toeplitz, {bands} bands"
    sigma = _multiplier(process, run, coarse)
    return _option(run, sampling, matrix, strategy, sigma, {}, batches)


def allocated(run: Run) -> TrainingOption:
    """Independent noise; each example once per epoch, at a newly drawn step."""
    times = round(run.participations)

    def process(sigma: float) -> Any:
        return plain.k_out_of_t(plain.gaussian(sigma), k=times, t=run.steps, allocation="block")

    def batches(examples: int, seed: int) -> Any:
        return KOutOfTSampler(range(examples), k=times, t=run.steps, allocation="block", key=key(seed))

    sigma = _multiplier(process, run, coarse=True)
    return _option(run, "random allocation", "none", identity_strategy(), sigma, {}, batches)


def b_min_sep(run: Run, bands: int) -> TrainingOption:
    strategy = _strategy(bands)

    def process(sigma: float) -> Any:
        return correlated.b_min_sep(correlated.mf_gaussian(sigma, strategy), n_steps=run.steps, p0=run.rate)

    def batches(examples: int, seed: int) -> Any:
        chance = process(1.0).sampling_prob
        return BMinSepSampler(range(examples), bands, chance, run.steps, key=key(seed))

    sigma = _multiplier(process, run, sampled=True)
    return _option(run, f"{bands}-min-sep", f"Toeplitz, {bands} bands", strategy, sigma, {}, batches, _samples(run))


def in_bins(run: Run, strategy: Any, words: str) -> TrainingOption:
    """Balls in bins: the same bin in every epoch."""
    pattern = {"min_sep": round(run.steps / run.participations), "max_participations": round(run.participations)}

    def process(sigma: float) -> Any:
        mechanism = correlated.mf_gaussian(sigma, strategy)
        return correlated.balls_in_bins(mechanism, num_bins=pattern["min_sep"], n_steps=run.steps)

    def batches(examples: int, seed: int) -> Any:
        return BallsInBinsSampler(range(examples), pattern["min_sep"], run.steps, key=key(seed))

    sigma = _multiplier(process, run, sampled=True)
    return _option(run, "balls in bins", words, strategy, sigma, pattern, batches, _samples(run))


@functools.cache
def _strategy(bands: int) -> Any:
    return identity_strategy() if bands == 1 else band_mf_strategy(bands=bands)


def _samples(run: Run) -> str:
    config = accounting.get_discretization(mc_resolution=min(1e-5, run.delta / 2))
    return SAMPLED.format(samples=config.resolved_num_mc_samples)


def _multiplier(process: Callable[[float], Any], run: Run, coarse: bool = False, sampled: bool = False) -> float:
    interval = COARSE if coarse else 1e-3 if sampled else 1e-4

    def keeps(sigma: float) -> bool:
        return bool(process(sigma).epsilon_at(run.delta, discretization=interval) <= run.epsilon)

    if coarse or sampled:
        return least_noise(keeps, 2 / run.epsilon**0.5, 1.4, 1.003)
    return least_noise(keeps, _multiplier(process, run, coarse=True), 1.01, 1.0001)


def _option(
    run: Run,
    sampling: str,
    matrix: str,
    strategy: Any,
    sigma: float,
    pattern: dict[str, int],
    batches: Callable[[int, int], Any],
    promise: str = "bound",
) -> TrainingOption:
    def start(examples: int, size: int, seed: int) -> tuple[Iterator[Any], Add]:
        noise, state = mf_gaussian_noise(
            torch.zeros(size), strategy, n_steps=run.steps, noise_multiplier=sigma, key=key(seed), **pattern
        )

        def add(total: np.ndarray) -> np.ndarray:
            nonlocal state
            noisy, state = noise(clipped(torch.from_numpy(total), max_norm=1.0), state)
            return noisy.pytree.numpy()

        return map(np.array, batches(examples, seed)), add

    length, error = _errors(strategy, run.steps, tuple(pattern.items()))
    return TrainingOption("opake", sampling, matrix, sigma / length, error * sigma, promise, start)


@functools.cache
def _errors(strategy: Any, steps: int, pattern: tuple[tuple[str, int], ...]) -> tuple[float, float]:
    """The length of the longest column, and the error of prefix sums, for noise of variance 1."""
    if strategy == identity_strategy():
        return 1.0, independent_error(steps)
    column = np.asarray(strategy.coefficients(n_steps=steps, **dict(pattern)), np.float64)
    scales = column_lengths(column, steps) if getattr(strategy, "normalized", False) else None
    length = 1.0 if scales is not None else float(np.linalg.norm(column))
    return length, toeplitz_error(column, steps, scales)
