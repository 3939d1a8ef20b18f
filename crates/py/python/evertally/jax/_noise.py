"""Correlated noise as a gradient transformation."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, cast

import evertally
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from ..training._order import Order, check_batches
from ._device import Device, Kept, noise_of, tried
from ._host import Host
from ._keystream import GROUP
from ._sums import sum_length

__all__ = ["CorrelatedNoise", "NoiseState", "correlated_noise"]


class NoiseState(NamedTuple):
    """State of the transformation."""

    step: jax.Array  # steps taken
    # With noise made on the device, some mechanisms keep vectors here: then the state is as secret as the key.
    kept: Kept | tuple[()] = ()


class CorrelatedNoise(NamedTuple):
    """A gradient transformation (Optax needs only `init` and `update`), with access to its noise on the host."""

    init: Callable[[Any], NoiseState]
    update: Callable[..., tuple[Any, NoiseState]]
    save: Callable[[], bytes]  # the host's position in the noise stream; secret, like the noise


def correlated_noise(
    plan: evertally.training.VectorPlan,
    key: evertally.SecretKey,
    name: str,
    *,
    on: Literal["host", "device"] = "host",
    threads: int = 1,
    memory: str = "keep",
    saved: bytes | None = None,
    batches: Order | None = None,
    mesh: Mesh | None = None,
) -> CorrelatedNoise:
    """Adds the increment of the plan's noise to sums of clipped gradients, one step of its horizon for each update.

    Chain it before anything else that changes gradients. A plan with `sampling` needs its `batches`: the transformation
    cannot see which examples are in a sum, so use the batch of step t for update t. For a plan without sampling,
    `batches=evertally.training.FixedBatches(…)` checks that the run keeps the plan. With batches, a sum that is longer
    than the clipped gradients of its step allow raises an error. A number that is NaN or infinite and a step beyond the
    horizon always raise errors.

    `on` chooses where the noise is made; its bytes are the same. The host has the faster kernels, on `threads` threads;
    there `saved`, the result of `save()` in an earlier process with this plan, key and name, only saves time. On the
    device no noise is transferred, and the state keeps everything that the mechanism needs: a run resumes from the
    saved state alone, which is **as secret as the key**. `memory="recompute"` keeps as little as possible. With a
    `mesh` each device makes a range of the coordinates.

    Raises `ValueError` for a plan of running sums, for a plan whose batches are missing, and on the device for `sqrt`
    and `normalized-sqrt`, whose noise only the host computes; `RuntimeError` if the device computes other bytes than
    the host.

    >>> import evertally as et, evertally.jax, jax.numpy as jnp
    >>> plan = et.training.plan_vector(100, norm=1.0, rho=0.5, mechanism="blt(buffers=2)")
    >>> noise = et.jax.correlated_noise(plan, et.SecretKey.generate(), "run 1", on="device")
    >>> state = noise.init(jnp.zeros(1000))
    >>> updates, state = noise.update(jnp.zeros(1000), state)
    >>> updates.shape, int(state.step), state.kept.vectors.shape
    ((1000,), 1, (2, 1000))
    """
    if plan.series != "increments":
        raise ValueError(f'the plan\'s series is "{plan.series}": gradients need series="increments"')
    check_batches(plan, batches, key, name)
    if on == "host":
        if mesh is not None:
            raise ValueError('the host makes the noise of all coordinates: a mesh is for on="device"')
        return _on_host(Host(plan, key, name, {"threads": threads, "memory": memory}, saved, batches))
    if on != "device":
        raise ValueError(f'noise is made on "host" or on "device", not on {on!r}')
    if saved is not None:
        raise ValueError('`saved` is for noise made on the host; on="device" all that is kept is in the state')
    device = Device(plan, key, name, memory, batches)
    tried(device.shape.cipher, jax.default_backend())
    return _on_device(device, mesh)


def _on_host(host: Host) -> CorrelatedNoise:
    def init(params: Any) -> NoiseState:
        del params
        return NoiseState(jnp.zeros((), jnp.int32))

    def noise(state: NoiseState, leaves: tuple[jax.Array, ...]) -> tuple[jax.Array, Any]:
        size = sum(leaf.size for leaf in leaves)
        shape = jax.ShapeDtypeStruct((size,), jnp.float32)
        noise_of = functools.partial(host.noise_of, size)
        made = jax.pure_callback(noise_of, shape, state.step, _mark(leaves), sum_length(leaves))
        return made, ()

    return CorrelatedNoise(init, _update(noise), host.save)


def _on_device(device: Device, mesh: Mesh | None) -> CorrelatedNoise:
    """All devices of a mesh have the same number of coordinates, in whole groups; those after the last leaf are
    unused."""
    devices = 1 if mesh is None else mesh.size
    shape = device.shape
    spec = PartitionSpec(None if mesh is None else mesh.axis_names)

    def length_of(size: int) -> int:
        return size if mesh is None else devices * GROUP * -(-size // (devices * GROUP))

    def init(params: Any) -> NoiseState:
        size = sum(leaf.size for leaf in jax.tree.leaves(params))
        sharding = None if mesh is None else NamedSharding(mesh, PartitionSpec(None, *spec))
        return NoiseState(jnp.zeros((), jnp.int32), device.kept(length_of(size), sharding))

    def made(order: jax.Array, vectors: jax.Array) -> tuple[jax.Array, jax.Array]:
        count, first = vectors.shape[1], cast(Any, 0)
        if mesh is not None:
            first = jax.lax.axis_index(mesh.axis_names).astype(jnp.uint32) * np.uint32(count)
        return noise_of(shape, order, vectors, first, count)

    if mesh is not None:
        rows = PartitionSpec(None, *spec)
        specs: dict[str, Any] = {"in_specs": (PartitionSpec(), rows), "out_specs": (spec, rows)}
        made = jax.shard_map(made, mesh=mesh, check_vma=False, **specs)
    compiled = jax.jit(made)  # compiled even if the update is not

    def noise(state: NoiseState, leaves: tuple[jax.Array, ...]) -> tuple[jax.Array, Any]:
        size = sum(leaf.size for leaf in leaves)
        length = length_of(size)
        tag, vectors = state.kept or (jnp.zeros(2, jnp.uint32), jnp.zeros((0, length), jnp.uint32))
        if vectors.shape != (shape.buffers, length):
            raise ValueError(
                f"the state keeps vectors of shape {vectors.shape}, but gradients of {size} coordinates need "
                f"{(shape.buffers, length)}: restore the state of the same model, plan, memory and mesh"
            )
        words = jax.ShapeDtypeStruct((shape.words,), jnp.uint32)
        give = functools.partial(device.order, size, length)
        order = jax.pure_callback(give, words, state.step, _mark(leaves), sum_length(leaves), tag)
        values, vectors = compiled(order, vectors)
        return values[:size], Kept(order[2:4], vectors) if shape.buffers else ()

    def save() -> bytes:
        raise ValueError('with on="device" the optimizer\'s state has all that is kept: save that')

    return CorrelatedNoise(init, _update(noise), save)


def _update(
    noise: Callable[[NoiseState, tuple[jax.Array, ...]], tuple[jax.Array, Any]],
) -> Callable[..., tuple[Any, NoiseState]]:
    """Adds noise to gradients."""

    @jax.custom_batching.custom_vmap
    def add(state: NoiseState, *leaves: jax.Array) -> tuple[list[jax.Array], Any]:
        values, kept = noise(state, leaves)
        parts = jnp.split(values, np.cumsum([leaf.size for leaf in leaves])[:-1])
        noisy = [
            (leaf.astype(jnp.promote_types(leaf.dtype, jnp.float32)) + part.reshape(leaf.shape)).astype(leaf.dtype)
            for leaf, part in zip(leaves, parts)
        ]
        return noisy, kept

    @add.def_vmap
    def refuse(axis_size: int, in_batched: Any, *arguments: Any) -> Any:
        raise ValueError(
            f"correlated_noise under vmap would give {axis_size} models the same noise, and their difference would "
            "reveal their data: make a separate transformation for each, each with its own name"
        )

    def update(updates: Any, state: NoiseState, params: Any = None) -> tuple[Any, NoiseState]:
        del params
        leaves, tree = jax.tree.flatten(updates)
        for leaf in leaves:
            if not jnp.issubdtype(leaf.dtype, jnp.floating):
                raise TypeError(f"a gradient has the type {leaf.dtype}, and noise is for real floating-point numbers")
        noisy, kept = add(state, *leaves)
        return jax.tree.unflatten(tree, noisy), NoiseState(state.step + 1, kept)

    return update


def _mark(leaves: tuple[jax.Array, ...]) -> jax.Array:
    """Two words that distinguish gradients: sums of all bits mixed with their place, the same in whatever order the
    device adds."""
    sums = jnp.zeros(2, jnp.uint32)
    for number, leaf in enumerate(leaves):
        wide = leaf.astype(jnp.promote_types(leaf.dtype, jnp.float32))
        bits = jax.lax.bitcast_convert_type(wide, jnp.uint32).reshape(-1)
        start = np.uint32(0x7FEB352D * number & 0xFFFFFFFF)
        place = jax.lax.iota(jnp.uint32, bits.size) * np.uint32(0x9E3779B1) + start
        words = []
        for one, other in ((0x85EBCA6B, 0xC2B2AE35), (0x21F0AAAD, 0x735A2D97)):
            mixed = (bits ^ place) + np.uint32(one)
            mixed = (mixed ^ (mixed >> 16)) * np.uint32(one)
            mixed = (mixed ^ (mixed >> 13)) * np.uint32(other)
            words.append((mixed ^ (mixed >> 16)).sum(dtype=jnp.uint32))
        sums = sums + jnp.stack(words)
    return sums
