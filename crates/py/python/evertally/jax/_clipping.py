"""Clipping of gradients, example by example, or user by user."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp

__all__ = ["clip_and_sum", "user_loss"]

# Squares are summed in blocks of this size, and the sums of blocks again, so that the relative error of a float32 sum
# is at most 63·2⁻²⁴ per level in any order of the compiler: below 2·10⁻⁵ for up to 2³⁰ coordinates in five levels.
BLOCK = 64
# Half that error in a norm, and the rounding of the clipped coordinates, stay below 2⁻¹⁵.
SHRINK = 1.0 - 2.0**-15
# Compilers divide by multiplying with the reciprocal, and take numbers below the normal ones as zero. Between these
# limits reciprocals are normal: above 2^126 one would be zero, and so would the length of the gradient.
SMALLEST, LARGEST = 2.0**-120, 2.0**120
# The smallest normal number of float32: smaller factors have large rounding errors.
NORMAL = 2.0**-126


def clip_and_sum(per_example_grads: Any, norm: float) -> Any:
    """Clips each example's gradient over all leaves together to `norm` and sums over the examples.

    Every leaf has the examples along its first axis. The sums are float32. An example whose gradient is not finite, or
    has a number above 2^120, counts as zero: otherwise the sum, and the whole model, would reveal it. Can be compiled.

    Raises ``ValueError`` for leaves with different numbers of examples, ``TypeError`` for complex gradients.
    """
    leaves, tree = jax.tree.flatten(per_example_grads)
    examples = {leaf.shape[0] for leaf in leaves}
    if len(examples) != 1:
        raise ValueError(f"leaves have {sorted(examples)} examples: all must have the same number")
    refuse_complex(leaves)
    if examples == {0}:
        return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape[1:], jnp.float32), per_example_grads)
    rows = [leaf.reshape(leaf.shape[0], -1).astype(jnp.float32) for leaf in leaves]
    largest = jnp.max(jnp.stack([jnp.max(jnp.abs(row), axis=1, initial=0) for row in rows]), axis=0)
    finite = largest <= LARGEST  # not if it is NaN
    scale = jnp.clip(jnp.where(finite, largest, 1.0), SMALLEST)[:, None]
    squares = jnp.stack([sum_of_squares(jnp.where(finite[:, None], row, 0.0) / scale) for row in rows])
    relative = jnp.sqrt(squares.sum(axis=0))[:, None]
    # norm/(scale·relative), in an order that cannot overflow in relevant cases.
    factor = norm / scale / jnp.maximum(relative, 1.0)
    factor = jnp.where(factor >= NORMAL, jnp.minimum(1.0, factor), 0.0) * SHRINK
    sums = [jnp.where(finite[:, None], row * factor, 0.0).sum(axis=0) for row in rows]
    return jax.tree.unflatten(tree, [total.reshape(leaf.shape[1:]) for total, leaf in zip(sums, leaves)])


def refuse_complex(leaves: Iterable[Any]) -> None:
    """Refuses complex gradients: their imaginary parts would get no noise."""
    for leaf in leaves:
        if jnp.issubdtype(leaf.dtype, jnp.complexfloating):
            raise TypeError(
                f"a gradient has the type {leaf.dtype}, and noise is for real numbers: use real parameters with a last "
                "dimension of size 2, and jax.lax.complex in the model"
            )


def user_loss(loss: Callable[..., Any]) -> Callable[..., Any]:
    """The mean loss of a user's examples, for runs whose privacy unit is a user: `clip_and_sum` then clips the gradient
    of all of them as a whole. See `evertally.training.Users`, whose `batch` returns their numbers and `real`.

    `loss` is that of one example: of parameters and the example's arrays. The result takes parameters, the same arrays
    with a user's examples along their first axis, and `real`, which of them count. It is zero if none does. Can be
    compiled; takes time and memory for all examples, also those that do not count.

    >>> import jax, jax.numpy as jnp, evertally.jax
    >>> loss = lambda weight, x: (weight - x) ** 2
    >>> of_user = evertally.jax.user_loss(loss)
    >>> float(jax.grad(of_user)(0.0, jnp.array([1.0, 3.0, 1.0]), jnp.array([True, True, False])))
    -4.0
    """

    def of_user(params: Any, *examples_and_real: Any) -> Any:
        *examples, real = examples_and_real
        losses = jax.vmap(lambda *example: loss(params, *example))(*examples)
        if losses.shape != real.shape:
            raise ValueError(
                f"the losses of {real.shape} examples have the shape {losses.shape}: the loss of one example must be a "
                "single number, and real must have one entry for each example"
            )
        return jnp.where(real, losses, 0.0).sum() / jnp.maximum(real.sum(), 1)

    return of_user


def sum_of_squares(rows: jax.Array) -> jax.Array:
    """Row sums of squares, block by block."""
    sums = rows * rows
    while sums.shape[1] > 1:
        padded = jnp.pad(sums, ((0, 0), (0, -sums.shape[1] % BLOCK)))
        sums = padded.reshape(len(rows), -1, BLOCK).sum(axis=2)
    return sums.sum(axis=1)
