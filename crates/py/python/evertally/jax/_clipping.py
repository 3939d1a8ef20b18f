"""Clipping of gradients, example by example."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

__all__ = ["clip_and_sum"]

# Squares are summed in blocks of this size, and the sums of blocks again, so that the relative error of a float32 sum
# is at most 63·2⁻²⁴ per level in any order of the compiler: below 2·10⁻⁵ for up to 2³⁰ coordinates in five levels.
BLOCK = 64
# Half that error in a norm, and the rounding of the clipped coordinates, stay below 2⁻¹⁵.
SHRINK = 1.0 - 2.0**-15


def clip_and_sum(per_example_grads: Any, norm: float) -> Any:
    """Clips each example's gradient over all leaves together to `norm` and sums over the examples.

    Every leaf has the examples along its first axis. The sums are float32. An example whose gradient is not finite
    counts as zero: otherwise the sum, and the whole model, would reveal it. Can be compiled.
    """
    leaves, tree = jax.tree.flatten(per_example_grads)
    examples = {leaf.shape[0] for leaf in leaves}
    if len(examples) != 1:
        raise ValueError(f"leaves have {sorted(examples)} examples: all must have the same number")
    rows = [leaf.reshape(leaf.shape[0], -1).astype(jnp.float32) for leaf in leaves]
    largest = jnp.max(jnp.stack([jnp.max(jnp.abs(row), axis=1, initial=0) for row in rows]), axis=0)
    finite = jnp.isfinite(largest)
    scale = jnp.where(finite & (largest > 0), largest, 1.0)[:, None]
    squares = jnp.stack([sum_of_squares(jnp.where(finite[:, None], row, 0.0) / scale) for row in rows])
    relative = jnp.sqrt(squares.sum(axis=0))[:, None]
    # norm/(scale·relative), in an order that cannot overflow in relevant cases.
    factor = jnp.minimum(1.0, norm / scale / jnp.maximum(relative, 1.0)) * SHRINK
    sums = [jnp.where(finite[:, None], row * factor, 0.0).sum(axis=0) for row in rows]
    return jax.tree.unflatten(tree, [total.reshape(leaf.shape[1:]) for total, leaf in zip(sums, leaves)])


def sum_of_squares(rows: jax.Array) -> jax.Array:
    """Row sums of squares, block by block."""
    sums = rows * rows
    while sums.shape[1] > 1:
        padded = jnp.pad(sums, ((0, 0), (0, -sums.shape[1] % BLOCK)))
        sums = padded.reshape(len(rows), -1, BLOCK).sum(axis=2)
    return sums.sum(axis=1)
