"""Private training with JAX: correlated noise as a gradient transformation for Optax.

    import evertally as et
    import evertally.jax

    plan = et.plan_vector(steps, norm=1.0, epsilon=4.0, delta=1e-6, mechanism="smooth", series="increments")
    optimizer = optax.chain(
        et.jax.correlated_noise(plan, key, "digits, run 1"),
        optax.scale(1 / expected_batch_size),
        optax.adam(1e-3),
    )
    gradients = jax.vmap(jax.grad(loss), in_axes=(None, 0))(params, batch)   # one for each example
    total = et.jax.clip_and_sum(gradients, plan.norm)
    updates, state = optimizer.update(total, state, params)

`scale_by_dp_adam` in the place of `optax.adam` takes the noise off the second moments.

What the caller has to see to is said in `evertally.torch`: participations, separation, a declared batch size.

**The noise is a pure function of the step.** The transformation's state is the number of steps taken and nothing
else; the noise comes from a callback to the host, which is asked for "the noise of step t, for these gradients". So the
transformation may be compiled, scanned, donated, rematerialized or run twice, and its state may be saved and restored
like any array: the same step always gets the same bytes, and asking twice spends nothing. The host keeps its place in
the stream:

- the next step is made as usual; the step it made last is handed out again (one vector is kept for this);
- any other step, after a restored state, is sought out, which costs trees about as much as a step. The noise of BLTs
  depends on all steps before: there those in between are made and left, and an earlier step is reached from the
  beginning again. Start a resumed process with `saved=`, and it begins there.

**One transformation is for one run.** A training that begins again with `init` meets the noise that it met before. With the
same gradients that is right. With others it is another run, and needs a transformation with a name of its own: the device
sends a hash of each step's gradients to the host, and a step that was handed out for others is refused
(`evertally.StateError`, in JAX's words the error of a callback).

**Under `vmap`** models of a batch would share one noise, whose difference shows the exact difference of their data.
That is refused: give each model a transformation with a name of its own. Differentiating through the noise is
refused by JAX.

**Devices.** The noise is made on the host's CPU as one float32 vector over all leaves, in the order of
`jax.tree.leaves`, and then moved to the device. One process must see all of the gradient; gradients that
are sharded over devices were not tried. Leaves of another type get the sum of gradient and noise rounded to their
type.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import evertally
import numpy as np

try:
    import jax
    import jax.numpy as jnp
except ImportError as missing:
    raise ImportError("evertally.jax needs JAX: pip install jax") from missing

from evertally._optax import DPAdamState, scale_by_dp_adam

__all__ = ["CorrelatedNoise", "DPAdamState", "NoiseState", "clip_and_sum", "correlated_noise", "scale_by_dp_adam"]

# Squares are summed in blocks of this many, and the sums of blocks again, so that the relative error of a float32 sum
# is at most 63·2⁻²⁴ a level whatever order the compiler takes: below 2·10⁻⁵ for up to 2³⁰ coordinates in five levels.
BLOCK = 64
# Half that error in a norm, and the rounding of the clipped coordinates, stay below 2⁻¹⁵.
SHRINK = 1.0 - 2.0**-15


class NoiseState(NamedTuple):
    """State of the transformation."""

    step: jax.Array  # steps taken


class CorrelatedNoise(NamedTuple):
    """A gradient transformation (Optax needs no more than `init` and `update`), with access to its noise on the
    host."""

    init: Callable[[Any], NoiseState]
    update: Callable[..., tuple[Any, NoiseState]]
    save: Callable[[], bytes]  # the host's place in the stream; secret, like the noise


def correlated_noise(
    plan: evertally.VectorPlan,
    key: evertally.SecretKey,
    name: str,
    *,
    threads: int = 1,
    memory: str = "keep",
    saved: bytes | None = None,
    batches: evertally.Batches | None = None,
) -> CorrelatedNoise:
    """Adds the increment of the plan's noise to sums of clipped gradients, one step of its horizon for each update.

    Chain it before anything else that changes gradients. `saved` is what `save()` gave in an earlier process; it
    must be of this plan, key and name, and only saves time. A plan with `sampled` needs its `batches`: which examples are
    in a sum cannot be seen here, so take those of step t for update t. A step beyond the horizon raises an error.
    """
    if plan.series != "increments":
        raise ValueError(f'the plan\'s series is "{plan.series}": gradients need series="increments"')
    if getattr(plan, "sampled", None) is not None and (batches is None or not batches.is_of(plan, key, name)):
        raise ValueError(
            "the plan's promise is for batches that are drawn by lot: give batches=evertally.Batches(plan, key, name, "
            "examples=…) of this plan, key and name, and take them"
        )
    host = _Host(plan, key, name, {"threads": threads, "memory": memory}, saved)

    def init(params: Any) -> NoiseState:
        del params
        return NoiseState(jnp.zeros((), jnp.int32))

    def update(updates: Any, state: NoiseState, params: Any = None) -> tuple[Any, NoiseState]:
        del params
        leaves, tree = jax.tree.flatten(updates)
        noisy = _never_batched(host)(state.step, *leaves)
        return jax.tree.unflatten(tree, noisy), NoiseState(state.step + 1)

    return CorrelatedNoise(init, update, host.save)


def _never_batched(host: _Host) -> Callable[..., list[jax.Array]]:
    """Adds the host's noise to leaves; an error under `vmap`."""

    @jax.custom_batching.custom_vmap
    def add(step: jax.Array, *leaves: jax.Array) -> list[jax.Array]:
        size = sum(leaf.size for leaf in leaves)
        shape = jax.ShapeDtypeStruct((size,), jnp.float32)
        noise = jax.pure_callback(functools.partial(host.noise_of, size), shape, step, _mark(leaves))
        parts = jnp.split(noise, np.cumsum([leaf.size for leaf in leaves])[:-1])
        return [
            (leaf.astype(jnp.promote_types(leaf.dtype, jnp.float32)) + part.reshape(leaf.shape)).astype(leaf.dtype)
            for leaf, part in zip(leaves, parts)
        ]

    @add.def_vmap
    def refuse(axis_size: int, in_batched: Any, *arguments: Any) -> Any:
        raise ValueError(
            f"correlated_noise under vmap would give {axis_size} models the same noise, and their difference would "
            "show their data: make one transformation for each, with a name of its own"
        )

    return add


def _mark(leaves: tuple[jax.Array, ...]) -> jax.Array:
    """Two words that tell gradients apart: sums, the same in whatever order the device adds, of all bits mixed with
    their place."""
    sums = jnp.zeros(2, jnp.uint32)
    for number, leaf in enumerate(leaves):
        wide = leaf.astype(jnp.promote_types(leaf.dtype, jnp.float32))
        bits = jax.lax.bitcast_convert_type(wide, jnp.uint32).reshape(-1)
        place = jax.lax.iota(jnp.uint32, bits.size) * np.uint32(0x9E3779B1) + np.uint32(0x7FEB352D * number & 0xFFFFFFFF)
        words = []
        for one, other in ((0x85EBCA6B, 0xC2B2AE35), (0x21F0AAAD, 0x735A2D97)):
            mixed = (bits ^ place) + np.uint32(one)
            mixed = (mixed ^ (mixed >> 16)) * np.uint32(one)
            mixed = (mixed ^ (mixed >> 13)) * np.uint32(other)
            words.append((mixed ^ (mixed >> 16)).sum(dtype=jnp.uint32))
        sums = sums + jnp.stack(words)
    return sums


class _Host:
    """The noise stream on the host; gives the noise of any step. Callbacks may come from several threads."""

    def __init__(self, plan: Any, key: evertally.SecretKey, name: str, options: dict[str, Any], saved: bytes | None) -> None:
        self._identity = (plan, key, name)
        self._options = options
        self._saved = saved
        self._lock = threading.Lock()
        self._noise: Any = None
        self._last: tuple[int, bytes, np.ndarray] | None = None  # what was handed out last: step, mark, noise

    def noise_of(self, size: int, step: jax.Array, mark: jax.Array) -> np.ndarray:
        """Noise, of so many coordinates, of the update after `step` earlier ones, for gradients with a mark."""
        wanted, of = int(step) + 1, np.asarray(mark).tobytes()
        with self._lock:
            if self._last is None or self._last[:2] != (wanted, of):
                self._move_before(wanted, size)
                out = np.empty(size, dtype=np.float32)
                self._noise.next_into(out, of=of)
                out.flags.writeable = False
                self._last = wanted, of, out
            return self._last[2]

    def save(self) -> bytes:
        """State of the stream after the last step that was made, for a later process."""
        with self._lock:
            if self._noise is None:
                raise ValueError("no step was taken yet: there is nothing to save")
            return self._noise.save()

    def _move_before(self, wanted: int, size: int) -> None:
        """Makes the stream stand just before a step."""
        if self._noise is None:
            self._noise = self._start(size)
        if self._noise.step == wanted - 1:
            return
        try:
            self._noise.seek(wanted - 1)
        except ValueError:
            if self._noise.step < wanted:
                raise
            # A mechanism whose noise depends on all steps before: from the beginning.
            self._noise = self._start(size)
            if self._noise.step >= wanted:
                self._noise = self._new(size)
            self._noise.seek(wanted - 1)

    def _start(self, size: int) -> Any:
        if self._saved is None:
            return self._new(size)
        return evertally.VectorNoise.restore(
            *self._identity, self._saved, coordinates=size, dtype="float32", **self._options
        )

    def _new(self, size: int) -> Any:
        return evertally.VectorNoise(*self._identity, coordinates=size, dtype="float32", **self._options)


def clip_and_sum(per_example_grads: Any, norm: float) -> Any:
    """Clips each example's gradient over all leaves together to `norm` and sums over the examples.

    Every leaf has the examples along its first axis. The sums are float32. An example whose gradient is not finite
    counts as zero: it would make the sum, and the whole model, tell of it. Can be compiled.
    """
    leaves, tree = jax.tree.flatten(per_example_grads)
    examples = {leaf.shape[0] for leaf in leaves}
    if len(examples) != 1:
        raise ValueError(f"leaves have {sorted(examples)} examples: give all the same number")
    rows = [leaf.reshape(leaf.shape[0], -1).astype(jnp.float32) for leaf in leaves]
    largest = jnp.max(jnp.stack([jnp.max(jnp.abs(row), axis=1, initial=0) for row in rows]), axis=0)
    finite = jnp.isfinite(largest)
    scale = jnp.where(finite & (largest > 0), largest, 1.0)[:, None]
    squares = jnp.stack([_sum_of_squares(jnp.where(finite[:, None], row, 0.0) / scale) for row in rows])
    relative = jnp.sqrt(squares.sum(axis=0))[:, None]
    # norm/(scale·relative), in an order that cannot overflow where it matters.
    factor = jnp.minimum(1.0, norm / scale / jnp.maximum(relative, 1.0)) * SHRINK
    sums = [jnp.where(finite[:, None], row * factor, 0.0).sum(axis=0) for row in rows]
    return jax.tree.unflatten(tree, [total.reshape(leaf.shape[1:]) for total, leaf in zip(sums, leaves)])


def _sum_of_squares(rows: jax.Array) -> jax.Array:
    """Row sums of squares, block by block."""
    sums = rows * rows
    while sums.shape[1] > 1:
        padded = jnp.pad(sums, ((0, 0), (0, -sums.shape[1] % BLOCK)))
        sums = padded.reshape(len(rows), -1, BLOCK).sum(axis=2)
    return sums.sum(axis=1)
