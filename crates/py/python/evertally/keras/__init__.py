"""Private training of Keras models, on the JAX backend.

    import os; os.environ["KERAS_BACKEND"] = "jax"     # before Keras is imported
    import evertally as et, evertally.keras, keras

    options = et.training.plan_training(len(inputs), 64, 10, epsilon=2.0, delta=1e-5)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = keras.optimizers.Adam(1e-3)
    run = et.keras.make_private(
        model, loss, optimizer, (inputs, targets), options.plan, key, "run 1", batch_size=64
    )
    run.fit()                                          # all steps of the plan
    model.evaluate(public_inputs, public_targets)      # the model's variables are those after the last step

`docs/guide/train/choose-a-plan.md` lists the responsibilities of the caller; `docs/guide/train/jax-and-keras.md`
describes this module.
"""

from __future__ import annotations

try:
    import keras
except ImportError as missing:
    raise ImportError("evertally.keras needs Keras and JAX: pip install keras jax") from missing

if keras.backend.backend() != "jax":
    raise ImportError(
        f"evertally.keras needs Keras on JAX, but it runs on {keras.backend.backend()}: set the environment variable "
        'KERAS_BACKEND to "jax" before Keras is imported'
    )

from ._guard import install as _install
from ._run import PrivateRun, make_private

__all__ = ["PrivateRun", "make_private"]

# Installed on import, so that a loaded model of a private run is guarded, too.
_install()
