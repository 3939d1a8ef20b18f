"""What a run was taken up with, and what is said of it where a step is refused."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import evertally
import torch


class Restored:
    """Since when a run goes on, and from which parameters."""

    def __init__(self, step: int = 0, parameters: str | None = None) -> None:
        self._step, self._parameters = step, parameters

    def hinted(self, problem: evertally.StateError, step: int, parameters: Sequence[torch.Tensor]) -> Exception:
        """A refusal after a step, with what was not restored."""
        return type(problem)(f"{problem} {self._hint(step, parameters)}")

    def _hint(self, step: int, parameters: Sequence[torch.Tensor]) -> str:
        if step > self._step:
            same = f"Steps {self._step + 1} to {step} were what they had been"
            return f"{same}: look at what has changed since, such as the data, their order, or torch's random numbers."
        if self._step == 0:
            return "Nothing was restored here: load the run's last state, of module and optimizer."
        loaded = f"Optimizer and noise were restored as after step {step}"
        if self._parameters is not None and self._parameters != fingerprint(parameters):
            return f"{loaded}, and the module's parameters are others than then: restore the module's state, too."
        return (
            f"{loaded}, and the parameters are those of then. What else makes gradients is not: buffers, the data and "
            "their order, or torch's random numbers (dropout, augmentation), which no state of ours holds."
        )


def fingerprint(parameters: Sequence[Any]) -> str | None:
    """Equal for equal parameters; None for shards, which are others on other ranks."""
    if any(hasattr(parameter, "to_local") for parameter in parameters):
        return None
    known = hashlib.sha256()
    for parameter in parameters:
        known.update(parameter.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return known.hexdigest()
