"""Adam with second moments without the noise, as a gradient transformation for Optax; public in `evertally.jax`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

__all__ = ["DPAdamState", "GradientTransformation", "scale_by_dp_adam"]


class DPAdamState(NamedTuple):
    """Moving averages of gradients and squares, of the noise's variance, and of the squared standard error due to
    it."""

    step: jax.Array
    mean: Any
    square: Any
    noise: jax.Array
    error: jax.Array


class GradientTransformation(NamedTuple):
    """The interface that Optax needs."""

    init: Callable[[Any], DPAdamState]
    update: Callable[..., tuple[Any, DPAdamState]]


def scale_by_dp_adam(
    noise_stds: npt.ArrayLike, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8, *, floor: float = 1.0
) -> GradientTransformation:
    """Adam's scaling, with second moments that do not count the noise: `optax.scale_by_adam` for noisy gradients. The
    formulas are those of `evertally.torch.DPAdam`.

    `noise_stds` are the standard deviations of the gradients' noise, one number for each step or one for all, in units
    of the incoming gradients: those of the plan divided by the batch size, if the sum was divided before. After the
    last step of the array, its last value is used.

    Raises ``ValueError`` for numbers outside their ranges.

        stds = plan.noise_stds() / expected_batch_size
        optimizer = optax.chain(
            et.jax.correlated_noise(plan, key, "run 1"),
            optax.scale(1 / expected_batch_size),
            et.jax.scale_by_dp_adam(stds),
            optax.add_decayed_weights(0.01),          # as in AdamW
            optax.scale_by_learning_rate(1e-3),
        )
    """
    stds = np.atleast_1d(np.asarray(noise_stds, np.float64))
    if stds.ndim != 1 or not len(stds) or not (np.isfinite(stds).all() and (stds >= 0).all()):
        raise ValueError("noise_stds are standard deviations: give one number for each step, or one for all")
    if not (0 <= b1 < 1 and 0 <= b2 < 1):
        raise ValueError(f"b1 and b2 are {b1} and {b2}: give two numbers from 0, below 1")
    for name, value in {"eps": eps, "floor": floor}.items():
        if not (value >= 0 and math.isfinite(value)):
            raise ValueError(f"{name} is {value}: give a number from 0")
    variances = jnp.asarray(stds * stds, jnp.float32)

    def init(params: Any) -> DPAdamState:
        zeros = jax.tree.map(jnp.zeros_like, params)
        none = jnp.zeros((), jnp.float32)
        return DPAdamState(jnp.zeros((), jnp.int32), zeros, zeros, none, none)

    def update(updates: Any, state: DPAdamState, params: Any = None) -> tuple[Any, DPAdamState]:
        del params
        variance = variances[jnp.minimum(state.step, len(stds) - 1)]
        step = state.step + 1
        mean = jax.tree.map(lambda m, g: b1 * m + (1 - b1) * g, state.mean, updates)
        square = jax.tree.map(lambda v, g: b2 * v + (1 - b2) * g * g, state.square, updates)
        noise = b2 * state.noise + (1 - b2) * variance
        error = b2**2 * state.error + 2 * ((1 - b2) * variance) ** 2
        whole = 1 - b2**step
        least = floor * jnp.sqrt(error) / whole

        def scaled(m: jax.Array, v: jax.Array) -> jax.Array:
            return m / (1 - b1**step) / (jnp.sqrt(jnp.maximum((v - noise) / whole, least)) + eps)

        return jax.tree.map(scaled, mean, square), DPAdamState(step, mean, square, noise, error)

    return GradientTransformation(init, update)
