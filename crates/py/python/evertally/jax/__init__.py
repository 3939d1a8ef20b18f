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

**The noise is a pure function of the step.** The transformation's state is the number of steps taken and, where it is
made on the host, nothing else; the noise comes from a callback to the host, which is asked for "the noise of step t,
for these gradients". So the transformation may be compiled, scanned, donated, rematerialized or run twice, and its
state may be saved and restored like any array: the same step always gets the same bytes, and asking twice spends
nothing. Noise that the host makes has its place in the stream there:

- the next step is made as usual; the step it made last is handed out again (one vector is kept for this);
- any other step, after a restored state, is sought out, which costs trees about as much as a step. The noise of BLTs
  depends on all steps before: there those in between are made and left, and an earlier step is reached from the
  beginning again. Start a resumed process with `saved=`, and it begins there.

**One transformation is for one run.** A training that begins again with `init` meets the noise that it met before.
With the same gradients that is right. With others it is another run, and needs a transformation with a name of its own:
the device sends a hash of each step's gradients to the host, and a step that was handed out for others is refused
(`evertally.StateError`, in JAX's words the error of a callback).

**Under `vmap`** models of a batch would share one noise, whose difference shows the exact difference of their data.
That is refused: give each model a transformation with a name of its own. Differentiating through the noise is
refused by JAX.

**Where it is made.** By default on the host's CPU, as one float32 vector over all leaves, in the order of
`jax.tree.leaves`, that is then moved to the device. With `on="device"` XLA computes the same bytes where the gradients
are, and the host gives no more than the order of each step: see `docs/guide/jax.md`. One process must see all of the
gradient. Leaves of another type get the sum of gradient and noise rounded to their type.
"""

from __future__ import annotations

try:
    import jax  # noqa: F401
except ImportError as missing:
    raise ImportError("evertally.jax needs JAX: pip install jax") from missing

from ._adam import DPAdamState, scale_by_dp_adam
from ._clipping import clip_and_sum
from ._noise import CorrelatedNoise, NoiseState, correlated_noise

__all__ = ["CorrelatedNoise", "DPAdamState", "NoiseState", "clip_and_sum", "correlated_noise", "scale_by_dp_adam"]
