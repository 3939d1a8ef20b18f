"""Ensures that an optimizer of a private run updates weights only inside its run."""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import keras

__all__ = ["MARK", "install", "of_run"]

#: The end of an optimizer's name, which Keras saves: identifies the run whose steps it has taken.
MARK = re.compile(r"_private_[0-9a-f]{32}$")

_inside = threading.local()


@contextmanager
def of_run() -> Iterator[None]:
    """Marks that this thread is inside the update of a private run."""
    _inside.depth = getattr(_inside, "depth", 0) + 1
    try:
        yield
    finally:
        _inside.depth -= 1


def install() -> None:
    """Checks every update of every optimizer, and every model before it starts to train: Keras moves the weights out of
    a model while `fit` runs, and an error in its first step would lose them. Optimizers are recognized by their names,
    which copies and loaded ones have, too."""
    optimizer, model = keras.optimizers.Optimizer, keras.Model
    if not hasattr(optimizer.apply, "__evertally__"):
        optimizer.apply = _guarded(optimizer.apply, lambda self: self)
        model.make_train_function = _guarded(model.make_train_function, lambda self: self.optimizer)


def _guarded(method: Callable[..., Any], optimizer_of: Callable[[Any], Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def of_private_runs_inside(self: Any, *args: Any, **options: Any) -> Any:
        name = str(getattr(optimizer_of(self), "name", ""))
        if MARK.search(name) and not getattr(_inside, "depth", 0):
            raise RuntimeError(
                "this optimizer is that of a private run, and an update elsewhere, such as by model.fit, would apply "
                "exact gradients: call fit() or step() of the run that make_private returned. For training that is not "
                "private compile the model with a new optimizer"
            )
        return method(self, *args, **options)

    of_private_runs_inside.__evertally__ = True  # type: ignore[attr-defined]
    return of_private_runs_inside
