"""JAX's normals: the default counter-based generator (threefry) and the inverse error function, compiled."""

import jax
import jax.numpy as jnp

from case import Case, Work

PACKAGES = ("jax", "jaxlib")
REPEATS = 50


def prepare(case: Case) -> Work:
    key = jax.random.key(1, impl="threefry2x32")

    @jax.jit
    def draw(step: jax.Array) -> jax.Array:
        return jax.random.normal(jax.random.fold_in(key, step), (case.coordinates,), jnp.float32)

    def one_round() -> None:
        for step in range(REPEATS):
            draw(step).block_until_ready()

    return Work("JAX normal, threefry", one_round, REPEATS * case.coordinates)
