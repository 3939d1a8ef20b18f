"""evertally: independent noise with Poisson sampling; the best of Poisson sampling at every step and fixed order; the
best random allocation; and the best per-epoch random allocation. For the largest error: the best of these."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import evertally as et
import numpy as np

from . import Add, Run, TrainingOption

EXAMPLES = 1_000_000  # the plan needs a number; its noise depends only on the rate


def options(run: Run, objective: str = "mean") -> Iterator[TrainingOption]:
    given: dict[str, Any] = {"epsilon": run.epsilon, "delta": run.delta, "objective": objective}
    yield option(
        et.training.plan_vector(run.steps, mechanism="input", sampling="poisson", sampled_fraction=run.rate, **given),
        "Poisson",
        "none",
    )
    batch = round(EXAMPLES * run.rate)
    # Sorted by their errors.
    found = et.training.plan_training(EXAMPLES, batch, run.participations, max_memory=2000, **given)
    kinds = [("poisson", "cyclic-poisson", None), ("random-allocation",), ("per-epoch-random-allocation",)]
    of_kind = [[one for one in found if one.sampling in schemes] for schemes in kinds]
    for ranked in of_kind if objective == "mean" else [found]:
        if len(ranked) > 0:
            yield option(ranked[0].plan, *ranked[0].description.rsplit(", ", 1))


def option(plan: et.training.VectorPlan, sampling: str, matrix: str) -> TrainingOption:
    def start(examples: int, size: int, seed: int) -> tuple[Iterator[Any], Add]:
        # A key made from a seed makes the experiment repeatable, and protects nobody.
        key = et.SecretKey.insecure_from_test_seed(et.TestSeed(seed))
        noise = et.VectorNoise(plan, key, "peers", coordinates=size)
        if plan.sampling:
            return iter(et.training.Batches(plan, key, "peers", examples=examples)), noise.add_next
        epoch = plan.separation
        parts = np.array_split(np.arange(examples), epoch)
        return (parts[step % epoch] for step in range(plan.horizon)), noise.add_next

    # Columns differ in length: the multiplier is that of the longest.
    longest = np.linalg.norm(np.linalg.inv(plan.noise_matrix()), axis=0).max()
    return TrainingOption("evertally", sampling, matrix, 1 / float(longest), plan.mean_std_error, "bound", start)
