"""Normal variables far out in the tail: in double precision, the same bits as those of `evertally_kernels::quantile`.

About one word in 2^15 is in the tail. IEEE 754 defines the result of every operation; as in `_normals`, no product is
fused with a sum. JAX has doubles only under `jax.enable_x64`, and converts numbers of the host to single precision on
their way into a program: so they are passed as the words of their bits.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.experimental
import jax.numpy as jnp
import numpy as np
from jax import lax

from .. import _evertally

__all__ = ["of_rare_words"]

U32 = jnp.uint32
SIGN = 1 << 31


def of_rare_words(words: Any, more: list[Any], zero: Any) -> Any:
    """The normals of words whose magnitude is below 2^16, each with 128 additional bits in four arrays of words, the
    least significant first: `float32`."""
    with _doubles():
        size = lax.convert_element_type(_in_the_tail(_probability(words & U32(SIGN - 1), more), zero), jnp.float32)
    return lax.bitcast_convert_type(lax.bitcast_convert_type(size, jnp.uint32) | words & U32(SIGN), jnp.float32)


def _doubles() -> Any:
    owner: Any = jax if hasattr(jax, "enable_x64") else jax.experimental  # before JAX 0.8
    return owner.enable_x64(True)


def _probability(magnitude: Any, more: list[Any]) -> Any:
    """(magnitude + (more + 1/2) / 2^128) / 2^32, sums rounded."""
    w0, w1, w2, w3 = more
    skipped = jnp.zeros_like(w3)
    for _ in range(3):  # whole words of zeros at the upper end
        empty = w3 == 0
        w3, w2, w1, w0 = (lax.select(empty, b, a) for a, b in ((w3, w2), (w2, w1), (w1, w0), (w0, jnp.zeros_like(w0))))
        skipped = skipped + lax.select(empty, jnp.full_like(w0, 32), jnp.zeros_like(w0))
    by = lax.clz(w3) & U32(31)  # 0 for 0, too
    # 64 bits from the leading one on; the bits below them only affect the rounding.
    high = w3 << by | _shifted_right(w2, by)
    low = w2 << by | _shifted_right(w1, by)
    rest = w1 << by | w0
    low = low | lax.select(rest != 0, jnp.ones_like(low), jnp.zeros_like(low))
    # Times 2^64 / 2^(skipped + by): exact.
    power = _of_bits(jnp.zeros_like(high), (U32(1023 + 64) - skipped - by) << U32(20))
    whole = (_double(high) * _constant(2.0**32, high) + _double(low)) * power
    half = whole + _constant(0.5, high)
    return (_double(magnitude) + half * _constant(2.0**-128, high)) * _constant(2.0**-32, high)


def _shifted_right(word: Any, left: Any) -> Any:
    """Shifts by 32 - left bits: by one first, because a shift by all bits is not defined on every device."""
    return word >> U32(1) >> (U32(31) - left)


def _double(word: Any) -> Any:
    return lax.convert_element_type(word, jnp.float64)


def _constant(value: float, like: Any) -> Any:
    return _of_bits(*(jnp.full_like(like, int(half)) for half in np.array([value]).view(np.uint32)))


def _of_bits(low: Any, high: Any) -> Any:
    return lax.bitcast_convert_type(jnp.stack([low, high], axis=-1), jnp.float64)


def _in_the_tail(tail: Any, zero: Any) -> Any:
    """The x > 0 beyond which a normal variable is with this probability: AS 241."""

    def product(x: Any, y: Any) -> Any:
        return lax.bitcast_convert_type(lax.bitcast_convert_type(x * y, jnp.uint32) ^ zero, jnp.float64)

    def constant(value: float) -> Any:
        return _constant(value, zero + jnp.zeros(tail.shape, jnp.uint32))

    def chosen(where: Any, near: float, far: float) -> Any:
        return lax.select(where, constant(near), constant(far))

    r = lax.sqrt(-_logarithm(tail, product, constant))
    near = r <= constant(5.0)
    x = r + chosen(near, -1.6, -5.0)
    values = []
    for rows in zip(*_rationals()):  # numerators, denominators
        highest, *rest = zip(*(row[::-1] for row in rows))
        total = chosen(near, *highest)
        for coefficients in rest:
            total = product(total, x) + chosen(near, *coefficients)
        values.append(total)
    return values[0] / values[1]


def _logarithm(x: Any, product: Any, constant: Any) -> Any:
    """The algorithm of FreeBSD's msun, also used by musl and Rust's `libm`; 0 < x < 1."""
    bits = lax.bitcast_convert_type(x, jnp.uint32)
    # x = 2^k m, sqrt(1/2) <= m < sqrt(2)
    high = bits[..., 1] + U32(0x3FF00000 - 0x3FE6A09E)
    k = lax.convert_element_type(lax.convert_element_type(high >> U32(20), jnp.int32) - jnp.int32(0x3FF), jnp.float64)
    m = _of_bits(bits[..., 0], (high & U32(0x000FFFFF)) + U32(0x3FE6A09E))
    f = m - constant(1.0)
    half_square = product(product(constant(0.5), f), f)
    s = f / (constant(2.0) + f)
    z = product(s, s)
    w = product(z, z)
    totals = []
    for coefficients, last in (LOGARITHM_EVEN, w), (LOGARITHM_ODD, z):
        total = constant(coefficients[0])
        for coefficient in coefficients[1:]:
            total = product(w, total) + constant(coefficient)
        totals.append(product(last, total))
    both = product(s, half_square + (totals[1] + totals[0]))
    return both + product(k, constant(LN2_LOW)) - half_square + f + product(k, constant(LN2_HIGH))


LN2_HIGH, LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
LOGARITHM_EVEN = (1.531383769920937332e-01, 2.222219843214978396e-01, 3.999999999940941908e-01)
LOGARITHM_ODD = (1.479819860511658591e-01, 1.818357216161805012e-01, 2.857142874366239149e-01, 6.666666666666735130e-01)


@functools.cache
def _rationals() -> list[list[list[float]]]:
    """Numerator and denominator, near and far."""
    return _evertally._normal_tables()[1]
