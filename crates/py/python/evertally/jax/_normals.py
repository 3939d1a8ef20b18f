"""The normal variables of `evertally_kernels::Normals` in single precision, computed by XLA: the same bytes on every
device.

Most words become a normal by a polynomial in single precision, each of whose products and sums the host rounds by
itself. **Compilers fuse a product and the sum after it** into one operation that rounds once: XLA does on CPUs,
whatever `optimization_barrier` or `reduce_precision` stand between the two. So the bits of every product go through an
exclusive or with a word that is 0 when the program runs, but that no compiler can know to be (`rounded`). What comes
between a product and a sum is then an operation on whole numbers, and nothing is left to be fused.

About one word in 2^15 lies in the tail. It takes 128 more bits and is computed in double precision (`_tails`), in a
loop that few words enter.
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
# Magnitudes below are in the tail.
RARE = 1 << 16
# Of how many words one is expected to be.
ONE_IN = 1 << 15
LEAST_AT_ONCE = 8


def bits(values: Any) -> Any:
    """Of single precision numbers."""
    return lax.bitcast_convert_type(values, jnp.uint32)


def singles(words: Any) -> Any:
    """Numbers of these bits."""
    return lax.bitcast_convert_type(words, jnp.float32)


def rounded(values: Any, zero: Any) -> Any:
    """The same numbers, made before anything is done with them. `zero` is a word that is 0, and no constant."""
    return singles(bits(values) ^ zero)


def product(x: Any, y: Any, zero: Any) -> Any:
    """x y, rounded before it is added to anything."""
    return rounded(x * y, zero)


def draw(cipher: str, key: Any, node: Node, first: Any, count: int, zero: Any) -> Any:
    """Standard normal variables of a node for `count` coordinates from `first` on: `float32[count]`.

    `first` is a number or, where devices share the work, a word of the device's.
    """
    if isinstance(first, int):
        start, skipped = first // GROUP, first % GROUP
        groups = -(-(skipped + count) // GROUP)
        whole = normals(cipher, key, node, U32(start), groups, zero)
        return whole[skipped : skipped + count]
    whole = normals(cipher, key, node, first // U32(GROUP), -(-count // GROUP) + 1, zero)
    return lax.dynamic_slice_in_dim(whole, (first % U32(GROUP)).astype(jnp.int32), count)


def normals(cipher: str, key: Any, node: Node, group: Any, groups: int, zero: Any) -> Any:
    """Those of whole groups of 256 coordinates, from a group on: `float32[groups * 256]`."""
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
    """The normals of words that are not rare; of others anything."""
    # Leading zeros of the magnitude: below 15, or else anything below 32.
    octave = lax.clz(words << U32(1) | U32(2))
    # The leading one is shifted out; the next bit tells the half, and as a sign it counts the offset from the nearer
    # end.
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
    """The coefficients of the polynomials, the constants first, with one for each of 32 segments."""
    return list(np.array(_evertally._normal_tables()[0], np.float32).T[: DEGREE + 1])
