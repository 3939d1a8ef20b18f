"""Checks whether a sum can be a sum of clipped gradients."""

from __future__ import annotations

import math
from typing import Any

import evertally
import jax
import jax.numpy as jnp

from ..training._order import Order
from ._clipping import LARGEST, SMALLEST, sum_of_squares

__all__ = ["Sums", "sum_length"]

# Relative tolerance: sums in single precision may be this much longer than exact ones.
TOLERANCE = 1e-3


class Sums:
    """Checks the sums of a run."""

    def __init__(self, plan: evertally.training.VectorPlan, batches: Order | None) -> None:
        self._plan, self._batches = plan, batches

    def check(self, step: int, length: Any) -> None:
        """Refuses the sum of a step (from 1) if it is too long; `length` is the result of `sum_length`: the length and
        the relative rounding."""
        long, rounding = (float(number) for number in length)
        if not math.isfinite(long):
            raise evertally.InvalidError(
                "the sum has a number that is NaN or infinite: clip the gradient of every example before they are "
                "added, and count an example whose gradient is not finite as zero, as clip_and_sum does"
            )
        if self._batches is None or step > self._plan.horizon:
            return
        examples = len(self._batches.batch(step))
        if long > self._plan.norm * examples * (1 + TOLERANCE + rounding):
            raise evertally.InvalidError(
                f"the sum is longer than the gradients of the batch of step {step} allow, each at most of the plan's "
                f"norm {self._plan.norm}: clip them before they are added, and change the sum only after adding the "
                "noise"
            )


def sum_length(leaves: tuple[jax.Array, ...]) -> jax.Array:
    """The length of a sum (not finite if any of its numbers is not), and the relative rounding of its type."""
    rows = [leaf.reshape(1, -1).astype(jnp.float32) for leaf in leaves]
    largest = jnp.max(jnp.stack([jnp.max(jnp.abs(row), initial=0) for row in rows]))
    scale = jnp.clip(largest, SMALLEST, LARGEST)
    squares = jnp.stack([sum_of_squares(row / scale)[0] for row in rows]).sum()
    rounding = max(float(jnp.finfo(leaf.dtype).eps) for leaf in leaves)
    return jnp.stack([scale * jnp.sqrt(squares), jnp.asarray(rounding, jnp.float32)])
