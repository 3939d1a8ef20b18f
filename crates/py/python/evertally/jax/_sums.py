"""Sums that cannot be those of clipped gradients."""

from __future__ import annotations

import math
from typing import Any

import evertally
import jax
import jax.numpy as jnp

from .._order import Order
from ._clipping import sum_of_squares

__all__ = ["Sums", "sum_length"]

# Sums in single precision may be longer than the exact ones by this part.
TOLERANCE = 1e-3


class Sums:
    """What the sums of a run can be."""

    def __init__(self, plan: evertally.VectorPlan, batches: Order | None) -> None:
        self._plan, self._batches = plan, batches

    def check(self, step: int, length: Any) -> None:
        """Refuses the sum of a step (from 1) by its length, and by what rounds in it: both of `sum_length`."""
        long, rounding = (float(number) for number in length)
        if not math.isfinite(long):
            raise evertally.InvalidError(
                "the sum has a number that is NaN or infinite: clip the gradient of every example before they are added, "
                "and count an example whose gradient is not finite as zero, as clip_and_sum does"
            )
        if self._batches is None or step > self._plan.horizon:
            return
        examples = len(self._batches.batch(step))
        if long > self._plan.norm * examples * (1 + TOLERANCE + rounding):
            raise evertally.InvalidError(
                f"the sum is longer than the gradients of the batch of step {step} can make it, each of the plan's norm "
                f"{self._plan.norm} at most: clip them before they are added, and change the sum only after the noise"
            )


def sum_length(leaves: tuple[jax.Array, ...]) -> jax.Array:
    """The length of a sum, which is not finite if a number of it is not, and the relative rounding of its type."""
    rows = [leaf.reshape(1, -1).astype(jnp.float32) for leaf in leaves]
    largest = jnp.max(jnp.stack([jnp.max(jnp.abs(row), initial=0) for row in rows]))
    scale = jnp.where(largest > 0, largest, 1.0)
    squares = jnp.stack([sum_of_squares(row / scale)[0] for row in rows]).sum()
    rounding = max(float(jnp.finfo(leaf.dtype).eps) for leaf in leaves)
    return jnp.stack([scale * jnp.sqrt(squares), jnp.asarray(rounding, jnp.float32)])
