"""jax-privacy: DP-SGD, and banded Toeplitz matrices under cyclic Poisson sampling with its PLD accountant, combined as
in its `BandMFExecutionPlanConfig`; groups are drawn independently, as its promise for added examples requires."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import dp_accounting
import jax
import numpy as np
from dp_accounting.pld import PLDAccountant
from jax_privacy import batch_selection, noise_addition
from jax_privacy.experimental import accounting
from jax_privacy.matrix_factorization import dense, toeplitz

from . import Add, Run, TrainingOption, least, least_noise, toeplitz_error

DENSE_STEPS = 60  # of L-BFGS
COARSE = 2e-3  # for finding the number of bands: never less noise than with finer intervals
ADDED = dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE


def options(run: Run) -> Iterator[TrainingOption]:
    yield _option(run, 1)
    bands = least(run.bands(), lambda bands: _error(bands, run.steps) * multiplier(run, bands, COARSE), _start(run))
    if bands > 1:
        yield _option(run, bands)
    if (most := run.bands()[-1]) > bands and run.rate * most >= 1:
        yield _option(run, most)


def slow_options(run: Run) -> Iterator[TrainingOption]:
    """A dense matrix, optimised for a fixed order; takes minutes for each number of epochs."""
    yield _dense(run)


def _start(run: Run) -> int:
    """A start for the search: more bands for larger ε."""
    return max(0, int(4 + 2 * np.log2(run.epsilon)) * len(run.bands()) // 14)


@functools.cache
def multiplier(run: Run, bands: int, interval: float = 1e-4) -> float:
    event = functools.partial(
        accounting.amplified_bandmf_event,
        iterations=run.steps,
        num_bands=bands,
        sampling_prob=min(1.0, run.rate * bands),
    )

    def keeps(sigma: float) -> bool:
        accountant = PLDAccountant(ADDED, value_discretization_interval=interval)
        return bool(accountant.compose(event(sigma)).get_epsilon(run.delta) <= run.epsilon)

    if interval == COARSE:
        return least_noise(keeps, 2 / run.epsilon**0.5, 1.4, 1.003)
    return least_noise(keeps, multiplier(run, bands, COARSE), 1.01, 1.0001)


@functools.cache
def coefficients(bands: int, steps: int) -> np.ndarray:
    return np.asarray(toeplitz.optimize_banded_toeplitz(steps, bands), np.float64)


@functools.cache
def _error(bands: int, steps: int) -> float:
    """The error with all columns normalized to length 1."""
    column = coefficients(bands, steps)
    lengths = np.sqrt(np.cumsum(np.pad(column, (0, steps - bands)) ** 2))[::-1]
    return toeplitz_error(column, steps, lengths)


@functools.cache
def _dense_matrix(steps: int, epochs: int) -> np.ndarray:
    return np.asarray(dense.optimize(steps, epochs=epochs, max_optimizer_steps=DENSE_STEPS))


def _dense(run: Run) -> TrainingOption:
    """The columns of an example's steps are orthogonal and have a total length of 1: the release is a Gaussian
    mechanism with that sensitivity."""
    sigma = multiplier(Run(1, 1, run.epsilon, run.delta), 1)
    matrix = _dense_matrix(run.steps, round(run.participations))
    inverse = np.linalg.inv(matrix)
    error = float(np.sqrt((np.cumsum(inverse, axis=0) ** 2).sum(axis=1).mean()))

    def start(examples: int, size: int, seed: int) -> tuple[Iterator[Any], Add]:
        bins = round(run.steps / run.participations)
        sampler = batch_selection.CyclicPoissonSampling(1.0, run.steps, cycle_length=bins)
        return sampler.batch_iterator(examples, rng=seed), _adding(inverse.astype(np.float32), sigma, size, seed)

    longest = float(np.linalg.norm(matrix, axis=0).max())
    return TrainingOption("jax-privacy", "fixed order", "dense", sigma / longest, error * sigma, "bound", start)


def _adding(noising: Any, sigma: float, size: int, seed: int) -> Add:
    privatizer = noise_addition.matrix_factorization_privatizer(noising, stddev=sigma, prng_key=seed, dtype=np.float32)
    state, update = privatizer.init(np.zeros(size, np.float32)), jax.jit(privatizer.update)

    def add(total: np.ndarray) -> np.ndarray:
        nonlocal state
        noisy, state = update(total, state)
        return np.asarray(noisy)

    return add


def _option(run: Run, bands: int) -> TrainingOption:
    sigma = multiplier(run, bands)
    fixed = run.rate * bands >= 1
    sampling = "fixed order" if fixed else "Poisson" if bands == 1 else f"cyclic Poisson, {bands} groups"
    matrix = "none" if bands == 1 else f"Toeplitz, {bands} bands, columns normalized"

    def start(examples: int, size: int, seed: int) -> tuple[Iterator[Any], Add]:
        sampler = batch_selection.CyclicPoissonSampling(
            min(1.0, run.rate * bands),
            run.steps,
            cycle_length=bands,
            partition_type=batch_selection.PartitionType.INDEPENDENT,
        )
        column = coefficients(bands, run.steps).astype(np.float32)
        noising = toeplitz.inverse_as_streaming_matrix(column, run.steps)
        return sampler.batch_iterator(examples, rng=seed), _adding(noising, sigma, size, seed)

    return TrainingOption("jax-privacy", sampling, matrix, sigma, _error(bands, run.steps) * sigma, "bound", start)
