"""jax-privacy: a buffered linear Toeplitz mechanism, as its gradient privatizer, compiled, its state donated."""

import jax
import jax.numpy as jnp
from jax_privacy import noise_addition
from jax_privacy.matrix_factorization.buffered_toeplitz import BufferedToeplitz

from case import Case, Work
from peer.blt import parameters

PACKAGES = ("jax_privacy", "jax", "jaxlib", "optax")
SIGMA = 1.5


def prepare(case: Case) -> Work:
    decays, scales = parameters(case.horizon)
    blt = BufferedToeplitz.build(decays, scales, dtype=jnp.float32)
    privatizer = noise_addition.matrix_factorization_privatizer(
        blt.inverse_as_streaming_matrix(), stddev=SIGMA, prng_key=jax.random.key(1)
    )
    update = jax.jit(privatizer.update, donate_argnums=(0, 1))
    gradient = jnp.zeros(case.coordinates, jnp.float32)
    held = [gradient, jax.tree.map(jnp.copy, privatizer.init(gradient))]
    del gradient

    def one_round() -> None:
        for _ in range(case.steps):
            held[:] = jax.block_until_ready(update(*held))

    label = f"jax-privacy, BLT of {len(decays)} buffers"
    return Work(label, one_round, case.steps * case.coordinates, gradient=lambda: held[0])
