"""Noise made on the device, next to the gradients.

A step is a short program (`evertally_training::Programs`): a few operations on vectors that have an element for every
coordinate. The host sends the program, together with the key of the stream's normal variables, in response to "step t,
for these gradients": only a few hundred bytes. So the host still refuses a step that it already made for other
gradients, and without its response there is no noise. **The key is in no program**: it is passed as an argument, and is
in no compiled code, in no cache of compiled code, and in no state.

The data that programs keep between steps (the buffers of a BLT, the bands of a banded matrix, the partial sums of a
tree) are in the state of the transformation, as the bits of numbers, so that they are not rounded to another type by
mistake. They carry a tag, a keyed hash of stream and step: buffers of another run or another step are refused.
"""

from __future__ import annotations

import functools
import hashlib
import threading
from typing import Any, NamedTuple

import evertally
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .. import _evertally
from ..training._order import Order
from ._keystream import EXPANDED, GROUP, Node, expanded
from ._normals import bits, draw, product, singles
from ._sums import Sums

__all__ = ["Device", "Kept", "Shape", "noise_of"]

U32 = jnp.uint32
# The codes of `evertally::vector::Code`.
CLEAR, LOAD, ADD, DRAW, DRAW_THROUGH, SCALE, STORE = range(7)
ACCUMULATE, DIFFERENCE, SAVE, RESTORE, SUBTRACT, UNDO_BUFFERS = range(7, 13)
CODES = 13
REGISTERS = 2
# Numbers of an instruction: code, place, level, the halves of an index, and the bits of a weight.
NUMBERS = 6
# The first words of an order: a word that is 0, the number of instructions, and the tag of the state after the step.
HEAD = 4
# Number of coordinates with which a device is tested: about eight of them are in the tail.
TRIED = 1 << 18


class Kept(NamedTuple):
    """The data kept between steps. **As secret as the key.**"""

    tag: jax.Array  # uint32[2]: of stream and step
    vectors: jax.Array  # uint32[buffers, coordinates]: the bits of float32


class Shape(NamedTuple):
    """The common structure of the programs of all steps, which is compiled."""

    cipher: str
    buffers: int
    # The maximum number of instructions, and the codes that occur.
    longest: int
    codes: tuple[int, ...]
    # The codes of every program, if all programs have the same.
    template: tuple[int, ...] | None
    # Buffers of the recurrence.
    recurrence: int

    @property
    def words(self) -> int:
        """Words of an order."""
        return HEAD + EXPANDED + 2 * self.recurrence + NUMBERS * self.longest


class Device:
    """Makes the orders of steps. Several threads may call it."""

    def __init__(
        self, plan: Any, key: evertally.SecretKey, name: str, memory: str, batches: Order | None = None
    ) -> None:
        self._arguments = (plan, key, name)
        self._sums = Sums(plan, batches)
        self._memory = memory
        self._lock = threading.Lock()
        self._programs: dict[int, Any] = {}
        programs = self._of(1)
        codes, template = tuple(programs.codes), programs.template
        self._recurrence = np.array(programs.recurrence, np.float32).reshape(-1).view(np.uint32)
        self.shape = Shape(
            programs.cipher,
            programs.buffers,
            programs.longest,
            codes,
            None if template is None else tuple(template),
            len(self._recurrence) // 2,
        )
        self._key = expanded(programs.cipher, programs.subkey())

    def kept(self, size: int, sharding: Any = None) -> Kept | tuple[()]:
        """The data kept before the first step, for `size` coordinates."""
        if not self.shape.buffers:
            return ()
        zeros = jnp.zeros((self.shape.buffers, size), U32, device=sharding)
        return Kept(jnp.asarray(self.tag(0, size)), zeros)

    def tag(self, step: int, size: int) -> np.ndarray:
        """The tag of the data kept after a step: two words that reveal nothing without the key."""
        said = f"{step} {size} {self._memory}".encode()
        digest = hashlib.blake2b(said, key=self._key.tobytes()[:32], digest_size=8, person=b"evertally state")
        return np.frombuffer(digest.digest(), "<u4").astype(np.uint32)

    def order(self, size: int, length: int, step: Any, mark: Any, long: Any, tag: Any) -> np.ndarray:
        """The order for the step after `step` steps, for a sum of `size` coordinates with a mark and a length `long`.
        `length` is the number of coordinates that are kept, and `tag` is their tag."""
        before = int(step)
        self._sums.check(before + 1, np.asarray(long))
        with self._lock:
            if self.shape.buffers and not np.array_equal(np.asarray(tag), self.tag(before, length)):
                raise evertally.StateError(
                    f"the state is not that of this transformation after {before} steps: it belongs to another key, "
                    "name, plan or size, or its vectors were mixed with another step. Restore all of the optimizer's "
                    "state together, from the same run"
                )
            rows = self._of(size).program(before + 1, np.asarray(mark).tobytes())
        rows = self._padded(rows)
        head = np.array([0, len(rows)], np.uint32)
        body = np.zeros((self.shape.longest, NUMBERS), np.uint32)
        body[: len(rows)] = rows
        parts = [head, self.tag(before + 1, length), self._key, self._recurrence, body.reshape(-1)]
        return np.concatenate(parts)

    def _of(self, size: int) -> Any:
        if size not in self._programs:
            self._programs[size] = _evertally._Programs(*self._arguments, coordinates=size, memory=self._memory)
        return self._programs[size]

    def _padded(self, rows: list[list[int]]) -> list[list[int]]:
        """Inserts the missing additions of the template: they add nothing to an accumulator that is not 0."""
        if self.shape.template is None:
            return rows
        left = iter([*rows, [-1]])
        padded, row = [], next(left)
        for code in self.shape.template:
            if row[0] == code:
                padded.append(row)
                row = next(left)
            else:
                padded.append([code, 0, 0, 0, 0, 0])
        return padded


def noise_of(shape: Shape, order: jax.Array, vectors: Any, first: Any, count: int) -> tuple[Any, Any]:
    """The noise of a step for `count` coordinates from `first` on, and the data to keep: `float32[count]`, and
    `uint32[buffers, count]`, the same shape as the vectors kept before."""
    machine = _Machine(shape, order, first, count)
    registers = jnp.zeros((REGISTERS if SAVE in shape.codes else 0, count), jnp.float32)
    state = (jnp.zeros(count, jnp.float32), registers, vectors)
    if shape.template is not None:
        for place, code in enumerate(shape.template):
            state = machine.perform(code, machine.rows[place], state)
    else:
        numbers = jnp.asarray([shape.codes.index(code) if code in shape.codes else 0 for code in range(CODES)])
        branches = [functools.partial(machine.perform, code) for code in shape.codes]

        def instruction(place: Any, state: Any) -> Any:
            row = machine.rows[place]
            return lax.switch(numbers[row[0]], branches, row, state)

        state = lax.fori_loop(0, order[1].astype(jnp.int32), instruction, state)
    return state[0], state[2]


class _Machine:
    """Performs instructions like the kernels of `evertally::vector`: every operation is rounded separately."""

    def __init__(self, shape: Shape, order: jax.Array, first: Any, count: int) -> None:
        self.cipher, self.first, self.count = shape.cipher, first, count
        self.zero = order[0]
        parts = jnp.split(order[HEAD:], np.cumsum([EXPANDED, shape.recurrence, shape.recurrence]))
        self.key = parts[0]
        self.gaps, self.echoes = singles(parts[1]), singles(parts[2])
        self.rows = parts[3].reshape(shape.longest, NUMBERS)

    def perform(self, code: int, row: Any, state: Any) -> Any:
        acc, registers, vectors = state
        place, weight = row[1].astype(jnp.int32), singles(row[5])
        if code == CLEAR:
            acc = jnp.zeros_like(acc)
        elif code == LOAD:
            acc = self.buffer(vectors, place)
        elif code == ADD:
            acc = acc + product(weight, self.buffer(vectors, place), self.zero)
        elif code == DRAW:
            acc = self.drawn(acc, weight, Node(row[2], row[3], row[4]))
        elif code == DRAW_THROUGH:
            through = lambda index, acc: self.drawn(acc, weight, Node(U32(0), index.astype(U32), U32(0)))
            acc = lax.fori_loop(0, place, through, acc)
        elif code == SCALE:
            acc = product(acc, weight, self.zero)
        elif code == STORE:
            vectors = self.stored(vectors, place, acc)
        elif code == ACCUMULATE:
            acc = self.buffer(vectors, place) + acc
            vectors = self.stored(vectors, place, acc)
        elif code == DIFFERENCE:
            before = self.buffer(vectors, place)
            vectors = self.stored(vectors, place, acc)
            acc = acc - before
        elif code == SAVE:
            registers = lax.dynamic_update_index_in_dim(registers, acc, place, 0)
        elif code == RESTORE:
            acc = lax.dynamic_index_in_dim(registers, place, keepdims=False)
        elif code == SUBTRACT:
            acc = acc - lax.dynamic_index_in_dim(registers, place, keepdims=False)
        elif code == UNDO_BUFFERS:
            acc, vectors = self.undone(acc, weight, vectors)
        else:
            raise ValueError(f"no instruction has the code {code}")
        return acc, registers, vectors

    def drawn(self, acc: Any, weight: Any, node: Node) -> Any:
        z = draw(self.cipher, self.key, node, self.first, self.count, self.zero)
        return acc + product(weight, z, self.zero)

    def undone(self, acc: Any, factor: Any, vectors: Any) -> tuple[Any, Any]:
        """One step of the inverse of a BLT: see `evertally_kernels::Real::undo_buffers`."""
        buffers = [singles(vectors[place]) for place in range(len(self.gaps))]
        known = jnp.zeros_like(acc)
        for echo, buffer in zip(self.echoes, buffers):
            known = known + product(echo, buffer, self.zero)
        u = acc - known
        for place, (gap, buffer) in enumerate(zip(self.gaps, buffers)):
            vectors = vectors.at[place].set(bits(buffer + (u - product(gap, buffer, self.zero))))
        return product(u, factor, self.zero), vectors

    @staticmethod
    def buffer(vectors: Any, place: Any) -> Any:
        return singles(lax.dynamic_index_in_dim(vectors, place, keepdims=False))

    @staticmethod
    def stored(vectors: Any, place: Any, acc: Any) -> Any:
        return lax.dynamic_update_index_in_dim(vectors, bits(acc), place, 0)


@functools.cache
def tried(cipher: Any, platform: str) -> None:
    """Tests whether this platform computes the same bytes as the host; raises `RuntimeError` if it does not."""
    plan = evertally.training.plan_vector(1, rho=0.5, mechanism="input", cipher=cipher)
    key = evertally.SecretKey.insecure_from_test_seed(evertally.TestSeed(1))
    device = Device(plan, key, "try", "keep")
    nothing = np.zeros(2, np.uint32)
    order = jnp.asarray(device.order(TRIED, TRIED, np.int32(0), nothing, nothing, nothing))
    vectors = jnp.zeros((0, TRIED), U32)
    made = jax.jit(lambda order, vectors: noise_of(device.shape, order, vectors, 0, TRIED)[0])(order, vectors)
    expected = evertally.VectorNoise(plan, key, "try", coordinates=TRIED).next()
    wrong = int((np.asarray(made).view(np.uint32) != expected.view(np.uint32)).sum())
    if wrong:
        raise RuntimeError(
            f"of {TRIED} normal variables this device ({platform}) computes {wrong} with other bits than the host, so "
            'its noise would not be that of the plan: use on="host"'
        )
