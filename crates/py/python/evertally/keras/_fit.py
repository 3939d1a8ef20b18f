"""The loop of a run, with the arguments of Keras' `fit`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import keras
import numpy as np

__all__ = ["REMEDIES", "count_steps", "fit"]

#: Arguments of `keras.Model.fit` that a private run does not take, and what to do instead.
REMEDIES = {
    "x": "the data are those of make_private",
    "y": "the data are those of make_private",
    "batch_size": "the plan determines the batches; give batch_size to make_private if they have a fixed order",
    "validation_split": "a part of the private data would be used without noise; give validation_data",
    "validation_batch_size": "validation data are evaluated in batches of 256",
    "validation_steps": "all validation data are evaluated",
    "shuffle": "the plan determines the order of the examples",
    "class_weight": "put weights into the loss; examples are clipped afterwards",
    "sample_weight": "put weights into the targets and the loss; examples are clipped afterwards",
    "initial_epoch": "a run continues after its last step",
    "steps_per_epoch": "the plan determines it; steps= is the number of steps to take",
}
#: The number of validation examples that are evaluated at once.
AT_ONCE = 256


def count_steps(left: int, done: int, per_epoch: int, steps: int | None, epochs: int | None) -> int:
    """The number of steps that a call of `fit` takes."""
    if steps is not None and epochs is not None:
        raise ValueError("give steps or epochs, not both")
    if steps is not None and steps < 0:
        raise ValueError(f"steps is {steps}: give the number of steps to take")
    if epochs is None:
        return left if steps is None else steps
    if epochs < 1:
        raise ValueError(f"epochs is {epochs}: give the number of epochs to train")
    wanted = epochs * per_epoch - done % per_epoch
    whole = -(-(done + left) // per_epoch) * per_epoch - done  # the last epoch of a plan may be shorter
    if wanted > whole:
        raise ValueError(
            f"{epochs} epochs are {wanted} steps of {per_epoch} each epoch, but the plan has {left} steps left: plan "
            "for all epochs of the run"
        )
    return min(wanted, left)


def fit(
    run: Any, count: int, per_epoch: int, callbacks: Sequence[Any] | None, validation_data: Any, verbose: Any
) -> keras.callbacks.History:
    """Takes steps, and calls the callbacks as Keras does. Their logs have metrics of the validation data, and nothing
    of the training data."""
    validation = None if validation_data is None else _checked(validation_data)
    done = run.step_number
    last = -(-(done + count) // per_epoch)
    shown = 1 if verbose == "auto" else int(verbose)
    options = {"verbose": shown, "epochs": last, "steps": per_epoch}
    several = keras.callbacks.CallbackList(
        callbacks, add_history=True, add_progbar=shown != 0, model=run.model, **options
    )
    run.model.stop_training = False
    several.on_train_begin()
    logs: dict[str, float] = {}
    while count and not run.model.stop_training:
        epoch, first = run.step_number // per_epoch, run.step_number % per_epoch
        several.on_epoch_begin(epoch)
        for step in range(first, min(per_epoch, first + count)):
            several.on_train_batch_begin(step)
            run.step()
            several.on_train_batch_end(step, {})
            count -= 1
            if run.model.stop_training:
                break
        logs = {} if validation is None else _metrics(run, *validation)
        several.on_epoch_end(epoch, logs)
    several.on_train_end(logs)
    history: keras.callbacks.History = run.model.history
    return history


def _checked(data: Any) -> tuple[Any, Any]:
    if not (isinstance(data, (tuple, list)) and len(data) == 2):
        raise TypeError("validation_data must be a pair of arrays, (inputs, targets)")
    return data[0], data[1]


def _metrics(run: Any, inputs: Any, targets: Any) -> dict[str, float]:
    """The loss on the validation data, and the metrics of the model if it was compiled with a loss."""
    if run.model.compiled and run.model._compile_loss is not None:
        found = run.model.evaluate(inputs, targets, batch_size=AT_ONCE, verbose=0, return_dict=True)
        return {f"val_{name}": value for name, value in found.items()}
    outputs = run.model.predict(inputs, batch_size=AT_ONCE, verbose=0)
    return {"val_loss": float(np.mean(np.asarray(run.loss(jax.tree.map(np.asarray, targets), outputs))))}
