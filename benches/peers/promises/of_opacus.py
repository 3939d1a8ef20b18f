"""Opacus: DP-SGD, with its accountant `prv`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from opacus.accountants.utils import get_noise_multiplier
from opacus.optimizers.optimizer import _generate_noise
from opacus.utils.uniform_sampler import UniformWithReplacementSampler

from . import Add, Run, TrainingOption, independent_error


def options(run: Run) -> Iterator[TrainingOption]:
    sigma = get_noise_multiplier(
        target_epsilon=run.epsilon, target_delta=run.delta, sample_rate=run.rate, steps=run.steps, accountant="prv"
    )

    def start(examples: int, size: int, seed: int) -> tuple[Iterator[Any], Add]:
        generator = torch.Generator().manual_seed(seed)
        sampler = UniformWithReplacementSampler(
            num_samples=examples, sample_rate=run.rate, generator=generator, steps=run.steps
        )

        def add(total: np.ndarray) -> np.ndarray:
            noise = _generate_noise(std=sigma, reference=torch.zeros(size), generator=generator)
            return total + noise.numpy()

        return map(np.array, sampler), add

    yield TrainingOption("Opacus", "Poisson", "none", sigma, independent_error(run.steps) * sigma, "bound", start)
