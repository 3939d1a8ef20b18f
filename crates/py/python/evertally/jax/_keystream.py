"""The keystreams of `evertally_kernels::Keystream`, computed by XLA: the same words in the same order on every device.

It uses only additions, exclusive ors, ands and shifts of 32-bit words: no compiler may change their results. Secrets
are arguments, never constants of a program, and never index a table.

Words come in groups of 256. With ChaCha (Bernstein: a counter and a nonce of 64 bits each) a group is 16 blocks side by
side, row after row. With AES-128 it is 64 blocks one after the other. AES is bitsliced: bit i of a word belongs to
block i of 32, so that the S-box is a circuit: that of J. Boyar and R. Peralta (A depth-16 circuit for the AES S-box,
2012, IACR ePrint 2011/332), in the order that bitsliced programs use.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

__all__ = ["GROUP", "Node", "expanded", "rounds_of", "tails", "words"]

# Number of words made together.
GROUP = 256
# Bit 7 of a level marks the blocks of tails.
TAIL = 0x80
# "expand 32-byte k".
CONSTANTS = (0x61707865, 0x3320646E, 0x79622D32, 0x6B206574)
# Double rounds: each mixes all words by columns and by diagonals.
ROUNDS = {"chacha8": 4, "chacha20": 10}
# Number of words of an expanded key: for ChaCha the key itself, for AES its round keys.
EXPANDED = 44

U32 = jnp.uint32


class Node(NamedTuple):
    """The node whose noise is drawn, as words of 32 bits, which may be on a device."""

    level: Any
    low: Any  # of the index
    high: Any


def rounds_of(cipher: str) -> int:
    """The number of double rounds of a kind of ChaCha; 0 for AES."""
    return ROUNDS.get(cipher, 0)


def words(cipher: str, key: Any, node: Node, group: Any, groups: int) -> Any:
    """A number of groups of a node's words, from a group on: `uint32[groups * 256]`.

    `key` is the result of `expanded`. Groups are numbered below 2^24, so that counters fit in a word.
    """
    if cipher in ROUNDS:
        counters = (_iota(groups) + group)[:, None] * U32(16) + _iota(16)[None]
        return jnp.stack(_chacha(cipher, key, node, counters), axis=1).reshape(-1)
    # Groups of 64 blocks, 32 in a word.
    chunks = _iota(2 * groups) + U32(2) * group
    return _aes(key, node, chunks, None)


def tails(cipher: str, key: Any, node: Node, coordinates: Any) -> list[Any]:
    """128 more bits for each of some coordinates: four arrays of words, the least significant first."""
    tail = node._replace(level=node.level | U32(TAIL))
    if cipher in ROUNDS:
        return _chacha(cipher, key, tail, coordinates)[:4]
    padded = jnp.pad(coordinates, (0, -len(coordinates) % 32))
    found = _aes(key, tail, None, padded).reshape(-1, 4)[: len(coordinates)]
    return [found[:, place] for place in range(4)]


def expanded(cipher: str, key: bytes) -> np.ndarray:
    """The expansion of a key of 32 bytes: `uint32[44]` for every cipher, as secret as the key."""
    if cipher in ROUNDS:
        return np.concatenate([np.frombuffer(key, "<u4"), np.zeros(EXPANDED - 8, np.uint32)]).astype(np.uint32)
    # FIPS 197, with the first 16 bytes.
    round_words = [list(key[4 * i : 4 * i + 4]) for i in range(4)]
    constant = 1
    for place in range(4, EXPANDED):
        last = round_words[place - 1]
        if place % 4 == 0:
            last = [S_BOX[byte] for byte in last[1:] + last[:1]]
            last[0] ^= constant
            constant = constant << 1 ^ (0x11B if constant & 0x80 else 0)
        round_words.append([a ^ b for a, b in zip(round_words[place - 4], last)])
    return np.frombuffer(bytes(sum(round_words, [])), "<u4").astype(np.uint32)


def _iota(count: int) -> Any:
    return lax.iota(U32, count)


# ChaCha.


def _chacha(cipher: str, key: Any, node: Node, counters: Any) -> list[Any]:
    """The 16 words of the blocks with these counters, which are below 2^32; the level is in the bits above them."""
    zeros = jnp.zeros_like(counters)
    start = [zeros + U32(constant) for constant in CONSTANTS]
    start += [zeros + key[place] for place in range(8)]
    start += [counters, zeros + (node.level << U32(24)), zeros + node.low, zeros + node.high]
    mixed = lax.fori_loop(0, ROUNDS[cipher], lambda _, state: _double_round(state), tuple(start))
    return [a + b for a, b in zip(mixed, start)]


def _double_round(state: tuple[Any, ...]) -> tuple[Any, ...]:
    x = list(state)
    for turn in range(2):
        for i in range(4):
            a, b, c, d = i, 4 + (i + turn) % 4, 8 + (i + 2 * turn) % 4, 12 + (i + 3 * turn) % 4
            for p, q, r, bits in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
                x[p] = x[p] + x[q]
                x[r] = _rotated(x[r] ^ x[p], bits)
    return tuple(x)


def _rotated(word: Any, bits: int) -> Any:
    return (word << U32(bits)) | (word >> U32(32 - bits))


# AES-128, bitsliced: a state is eight arrays, one for each bit of a byte (the least significant first), of shape
# (16 bytes, chunks of 32 blocks).


def _aes(key: Any, node: Node, chunks: Any, counters: Any) -> Any:
    """Words of the blocks of these chunks of 32, or of the blocks with these counters."""
    state = _names(node, chunks) if counters is None else _named(node, counters)
    keys = _planes(key)
    state = [plane ^ keys[0, bit] for bit, plane in enumerate(state)]

    def one_round(number: Any, planes: Any) -> Any:
        shifted = _shifted(_substituted(list(planes)))
        # The last round does not mix columns. The S-box is compiled only once.
        pairs = zip(_mixed(shifted), shifted)
        return tuple(jnp.where(number < 10, *pair) ^ keys[number, bit] for bit, pair in enumerate(pairs))

    return _unsliced(jnp.stack(lax.fori_loop(1, 11, one_round, tuple(state))))


def _planes(key: Any) -> Any:
    """The round keys: all ones or zeros for every bit, in the shape (11 rounds, 8 bits, 16 bytes, 1)."""
    by_byte = (key[:, None] >> (_iota(4) * U32(8))[None]).reshape(11, 1, 16, 1)
    return U32(0) - (by_byte >> _iota(8).reshape(1, 8, 1, 1) & U32(1))


def _constant_bytes(node: Node) -> Any:
    """The bits of the name's bytes that are the same for all blocks, as masks (8 bits, 16 bytes)."""
    four = jnp.stack([U32(0) + node.low, U32(0) + node.high, U32(0), U32(0) + (node.level << U32(24))])
    by_byte = (four[:, None] >> (_iota(4) * U32(8))[None]).reshape(1, 16)
    return U32(0) - (by_byte >> _iota(8)[:, None] & U32(1))


def _names(node: Node, chunks: Any) -> list[Any]:
    """Names of the blocks 32 c ..: the lower five bits of their counters are the same in every chunk."""
    patterns = [0xAAAAAAAA, 0xCCCCCCCC, 0xF0F0F0F0, 0xFF00FF00, 0xFFFF0000]
    bits = [jnp.full_like(chunks, pattern) for pattern in patterns]
    bits += [U32(0) - (chunks >> U32(bit) & U32(1)) for bit in range(32)]
    return _with_counter(node, bits, chunks)


def _named(node: Node, counters: Any) -> list[Any]:
    """Names with these counters, 32 in a chunk."""
    rows = counters.reshape(-1, 32)
    place = _iota(32)[None]
    bits = [((rows >> U32(bit) & U32(1)) << place).sum(axis=1, dtype=U32) for bit in range(32)]
    return _with_counter(node, bits, rows[:, 0])


def _with_counter(node: Node, bits: list[Any], like: Any) -> list[Any]:
    constant = _constant_bytes(node)
    zeros = jnp.zeros_like(like)
    bits = bits + [zeros] * (64 - len(bits))
    state = []
    for bit in range(8):
        upper = jnp.stack([bits[8 * byte + bit] for byte in range(8)])
        state.append(jnp.concatenate([jnp.zeros_like(upper), upper]) | constant[bit][:, None])
    return state


def _shifted(state: list[Any]) -> list[Any]:
    order = np.array([(place + 4 * (place % 4)) % 16 for place in range(16)])
    return [plane[order] for plane in state]


def _mixed(state: list[Any]) -> list[Any]:
    """Columns of four bytes times (2, 3, 1, 1), rotated: 2 (a + b) + b + c + d in each row."""
    columns = [plane.reshape(4, 4, -1) for plane in state]
    turned = [[jnp.roll(plane, -by, axis=1) for plane in columns] for by in range(4)]
    sums = [a ^ b for a, b in zip(columns, turned[1])]
    doubled = [sums[7]] + sums[:7]
    for bit in (1, 3, 4):
        doubled[bit] = doubled[bit] ^ sums[7]
    rest = zip(doubled, *turned[1:])
    return [(two ^ b ^ c ^ d).reshape(16, -1) for two, b, c, d in rest]


def _unsliced(planes: Any) -> Any:
    """Words of blocks, one block after the other, from planes of shape (8, 16, chunks)."""
    # Bit b of byte 4 w + y of a block is bit 8 y + b of its word w.
    x = planes.reshape(8, 4, 4, -1).transpose(1, 2, 0, 3).reshape(4, 32, -1)
    for distance, mask in ((16, 0x0000FFFF), (8, 0x00FF00FF), (4, 0x0F0F0F0F), (2, 0x33333333), (1, 0x55555555)):
        halves = x.reshape(4, 16 // distance, 2, distance, -1)
        low, high = halves[:, :, 0], halves[:, :, 1]
        swapped = (low >> U32(distance) ^ high) & U32(mask)
        x = jnp.stack([low ^ swapped << U32(distance), high ^ swapped], axis=2).reshape(4, 32, -1)
    return x.transpose(2, 1, 0).reshape(-1)


def _substituted(state: list[Any]) -> list[Any]:
    """The S-box, for all bytes at once. The names of wires are those of the paper."""
    x7, x6, x5, x4, x3, x2, x1, x0 = state
    # The linear layer before the inversion.
    y14, y13, y9, y8, t0 = x3 ^ x5, x0 ^ x6, x0 ^ x3, x0 ^ x5, x1 ^ x2
    y1 = t0 ^ x7
    y4, y12, y2, y5 = y1 ^ x3, y13 ^ y14, y1 ^ x0, y1 ^ x6
    y3, t1 = y5 ^ y8, x4 ^ y12
    y15, y20 = t1 ^ x5, t1 ^ x1
    y6, y10, y11 = y15 ^ x7, y15 ^ t0, y20 ^ y9
    y7, y17, y19, y16 = x7 ^ y11, y10 ^ y11, y10 ^ y8, t0 ^ y11
    y21, y18 = y13 ^ y16, x0 ^ y16
    # The inversion.
    t2, t7, t12 = y12 & y15, y13 & y16, y9 & y11
    t4, t6 = y3 & y6 ^ t2, y4 & x7 ^ t2
    t9, t11 = y5 & y1 ^ t7, y2 & y7 ^ t7
    t14, t16 = y14 & y17 ^ t12, y8 & y10 ^ t12
    t21, t22, t23, t24 = t4 ^ t14 ^ y20, t6 ^ t16 ^ y19, t9 ^ t14 ^ y21, t11 ^ t16 ^ y18
    t25, t26 = t21 ^ t22, t21 & t23
    t27, t30, t31 = t24 ^ t26, t23 ^ t24, t22 ^ t26
    t29, t33 = t25 & t27 ^ t22, t31 & t30 ^ t24
    t34, t35 = t23 ^ t33, t27 ^ t33
    t36 = t24 & t35
    t37, t38 = t36 ^ t34, t27 ^ t36
    t40 = t25 ^ t29 & t38
    t41, t42, t43, t44 = t40 ^ t37, t29 ^ t33, t29 ^ t40, t33 ^ t37
    t45 = t42 ^ t41
    z0, z1, z2, z3, z4, z5 = t44 & y15, t37 & y6, t33 & x7, t43 & y16, t40 & y1, t29 & y7
    z6, z7, z8, z9, z10, z11 = t42 & y11, t45 & y17, t41 & y10, t44 & y12, t37 & y3, t33 & y4
    z12, z13, z14, z15, z16, z17 = t43 & y13, t40 & y5, t29 & y2, t42 & y9, t45 & y14, t41 & y8
    # The linear layer after it, and the constant.
    t46, t47, t48, t49, t50, t51 = z15 ^ z16, z10 ^ z11, z5 ^ z13, z9 ^ z10, z2 ^ z12, z2 ^ z5
    t52, t53, t54, t55 = z7 ^ z8, z0 ^ z3, z6 ^ z7, z16 ^ z17
    t56, t57, t58, t59 = z12 ^ t48, t50 ^ t53, z4 ^ t46, z3 ^ t54
    t60, t61, t62, t63, t64 = t46 ^ t57, z14 ^ t57, t52 ^ t58, t49 ^ t58, z4 ^ t59
    t65, t66 = t61 ^ t62, z1 ^ t63
    s3 = t53 ^ t66
    s0, s1, s2 = t59 ^ t63, ~(t64 ^ s3), ~(t55 ^ t64 ^ t65)
    return [~(t48 ^ t60), ~(t56 ^ t62), t47 ^ t65, t51 ^ t66, s3, s2, s1, s0]


def _s_box() -> list[int]:
    """The S-box from its definition (FIPS 197, 5.1.1), for key expansion."""
    powers = [1]
    for _ in range(254):
        powers.append(powers[-1] ^ powers[-1] << 1 ^ (0x11B if powers[-1] & 0x80 else 0))
    inverses = {power: powers[-place % 255] for place, power in enumerate(powers)}
    turned = [[inverses.get(byte, 0) << k | inverses.get(byte, 0) >> 8 - k for k in range(5)] for byte in range(256)]
    return [(a ^ b ^ c ^ d ^ e ^ 0x63) & 0xFF for a, b, c, d, e in turned]


S_BOX = _s_box()
