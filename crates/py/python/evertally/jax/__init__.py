"""Private training with JAX: correlated noise as a gradient transformation for Optax.

    import evertally as et
    import evertally.jax

    plan = et.training.plan_vector(steps, norm=1.0, epsilon=4.0, delta=1e-6, mechanism="smooth", series="increments")
    optimizer = optax.chain(
        et.jax.correlated_noise(plan, key, "digits, run 1"),
        optax.scale(1 / expected_batch_size),
        optax.adam(1e-3),
    )
    gradients = jax.vmap(jax.grad(loss), in_axes=(None, 0))(params, batch)   # one for each example
    total = et.jax.clip_and_sum(gradients, plan.norm)
    updates, state = optimizer.update(total, state, params)

If a user has many examples, `user_loss` makes the user's gradient the one that is clipped.

`scale_by_dp_adam` instead of `optax.adam` removes the noise from the second moments.

`evertally.torch` lists the responsibilities of the caller: participations, separation, a declared batch size.

**The noise is a pure function of the step.** With noise made on the host, the transformation's state is only the number
of steps taken; the noise comes from a callback to the host, which requests "the noise of step t, for these gradients".
So the transformation may be compiled, scanned, donated, rematerialized or run twice, and its state may be saved and
restored like any array: the same step always gets the same bytes, and repeated requests spend no budget. The host keeps
the position in the noise stream:

- the next step is made as usual; the last step can be returned again (one vector is kept for this);
- for any other step, after a restored state, the host seeks the stream, which for trees costs about as much as a step.
  The noise of BLTs depends on all earlier steps: there the host makes and discards the steps in between, and reaches an
  earlier step from the beginning. A resumed process that gets `saved=` starts at the saved position.

**One transformation is for one run.** A training that starts again with `init` gets the same noise as before. With the
same gradients that is right. With other gradients it is another run, and needs a transformation with its own name: the
device sends a hash of each step's gradients to the host, which refuses a step that it already made for other gradients
(`evertally.StateError`, which JAX reports as the error of a callback).

**Under `vmap`** the models of a batch would share one noise, and the difference of two models would reveal the exact
difference of their data. That is refused: give each model a transformation with its own name. JAX refuses to
differentiate through the noise.

**Host or device.** By default the host's CPU makes the noise, as one float32 vector over all leaves, in the order of
`jax.tree.leaves`, which is then moved to the device. With `on="device"` XLA computes the same bytes where the gradients
are, and the host provides only the instructions of each step: see `docs/guide/train/jax-and-keras.md`. One process must
see the whole gradient. Leaves of another type get the sum of gradient and noise rounded to their type.
"""

from __future__ import annotations

try:
    import jax  # noqa: F401
except ImportError as missing:
    raise ImportError("evertally.jax needs JAX: pip install jax") from missing

from ._adam import DPAdamState, scale_by_dp_adam
from ._clipping import clip_and_sum, user_loss
from ._noise import CorrelatedNoise, NoiseState, correlated_noise

__all__ = [
    "CorrelatedNoise",
    "DPAdamState",
    "NoiseState",
    "clip_and_sum",
    "correlated_noise",
    "scale_by_dp_adam",
    "user_loss",
]
