"""The normal variables of `evertally_kernels::Normals` in single precision, computed by XLA: the same bytes on every
device.

Most words become a normal by a polynomial in single precision; the host rounds each of its products and sums
separately. **Compilers fuse a product and the sum after it** into one operation that rounds once: XLA does so on CPUs,
even with an `optimization_barrier` or `reduce_precision` between the two. So the bits of every product go through an
exclusive or with a word that is 0 when the program runs, but that no compiler can know to be 0 (`rounded`). Then an
operation on integers separates product and sum, and the compiler has nothing to fuse.

About one word in 2^15 lies in the tail. It needs 128 more bits and is computed in double precision (`_tails`), in a
loop for these few words.
"""

from __future__ import annotations

import functools
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from .. import _evertally
from ._keystream import GROUP, Node, tails, words
from ._tails import of_rare_words

__all__ = ["draw", "normals", "product", "rounded"]

U32 = jnp.uint32
SIGN = 1 << 31
# The degree of the polynomials.
DEGREE = 6
# Smaller magnitudes are in the tail.
RARE = 1 << 16
# One word in this many is expected to be in the tail.
ONE_IN = 1 << 15
LEAST_AT_ONCE = 8


def bits(values: Any) -> Any:
    """The bits of single precision numbers."""
    return lax.bitcast_convert_type(values, jnp.uint32)


def singles(words: Any) -> Any:
    """The single precision numbers with these bits."""
    return lax.bitcast_convert_type(words, jnp.float32)


def rounded(values: Any, zero: Any) -> Any:
    """The same numbers, rounded before any further operation. `zero` is a word that is 0 but not a constant."""
    return singles(bits(values) ^ zero)


def product(x: Any, y: Any, zero: Any) -> Any:
    """x y, rounded before it is added to anything."""
    return rounded(x * y, zero)


def draw(cipher: str, key: Any, node: Node, first: Any, count: int, zero: Any) -> Any:
    """Standard normal variables of a node for `count` coordinates from `first` on: `float32[count]`.

    `first` is a number or, if devices share the work, a word on the device.
    """
    if isinstance(first, int):
        start, skipped = first // GROUP, first % GROUP
        groups = -(-(skipped + count) // GROUP)
        whole = normals(cipher, key, node, U32(start), groups, zero)
        return whole[skipped : skipped + count]
    whole = normals(cipher, key, node, first // U32(GROUP), -(-count // GROUP) + 1, zero)
    return lax.dynamic_slice_in_dim(whole, (first % U32(GROUP)).astype(jnp.int32), count)


def normals(cipher: str, key: Any, node: Node, group: Any, groups: int, zero: Any) -> Any:
    """Standard normal variables for whole groups of 256 coordinates, from a group on: `float32[groups * 256]`."""
    drawn = words(cipher, key, node, group, groups)
    values = of_words(drawn, zero)
    rows = drawn.reshape(groups, GROUP)
    rare = (is_rare(rows)).astype(jnp.int32).sum(axis=1)
    at_once = min(groups, groups * GROUP // ONE_IN * 3 // 2 + LEAST_AT_ONCE)

    def mend(state: tuple[Any, Any]) -> tuple[Any, Any]:
        values, done = state
        row = jnp.nonzero(done < rare, size=at_once, fill_value=groups)[0]
        some, before = rows.at[row].get(mode="clip"), done.at[row].get(mode="clip")
        nth = jnp.cumsum(is_rare(some).astype(jnp.int32), axis=1)
        place = jnp.argmax(nth == before[:, None] + 1, axis=1)
        word = jnp.take_along_axis(some, place[:, None], axis=1)[:, 0]
        coordinate = (group + row.astype(U32)) * U32(GROUP) + place.astype(U32)
        mended = of_rare_words(word, tails(cipher, key, node, coordinate), zero)
        return values.at[row, place].set(mended, mode="drop"), done.at[row].add(1, mode="drop")

    def is_left(state: tuple[Any, Any]) -> Any:
        return (state[1] < rare).any()

    mended, _ = lax.while_loop(is_left, mend, (values.reshape(groups, GROUP), jnp.zeros_like(rare)))
    return mended.reshape(-1)


def is_rare(words: Any) -> Any:
    """Whether words are in the tail."""
    return (words << U32(1)) < U32(2 * RARE)


def of_words(words: Any, zero: Any) -> Any:
    """The normals of words that are not rare; arbitrary values for the others."""
    # Leading zeros of the magnitude: below 15, or for rare words anything below 32.
    octave = lax.clz(words << U32(1) | U32(2))
    # The leading one is shifted out; the next bit selects the half, and as a sign it makes the offset count from the
    # nearer end.
    offset = (words << U32(2)) << octave
    row = (octave | offset >> U32(27) & U32(16)).astype(jnp.int32)
    unit = np.float32(2.0**-31)
    u = lax.bitcast_convert_type(offset, jnp.int32).astype(jnp.float32) * unit  # exact: a power of two
    highest, *rest = (jnp.asarray(column).at[row].get(mode="promise_in_bounds") for column in reversed(columns()))
    total = highest
    for coefficient in rest:
        total = product(total, u, zero) + coefficient
    return singles(bits(total) ^ words & U32(SIGN))


@functools.cache
def columns() -> list[np.ndarray]:
    """The coefficients of the polynomials, the constants first, each with one value for each of 32 segments."""
    return list(np.array(_evertally._normal_tables()[0], np.float32).T[: DEGREE + 1])
