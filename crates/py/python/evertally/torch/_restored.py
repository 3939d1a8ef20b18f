"""The state from which a run was resumed, and hints about it when a step is refused."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import evertally
import torch


class Restored:
    """The step from which a run was resumed, and the fingerprint of its parameters."""

    def __init__(self, step: int = 0, parameters: str | None = None) -> None:
        self._step, self._parameters = step, parameters

    def hinted(self, problem: evertally.StateError, step: int, parameters: Sequence[torch.Tensor]) -> Exception:
        """The error of a refused step, with a hint at the part that was not restored."""
        hints = [str(problem), self._hint(step, parameters)]
        if any(parameter.is_cuda for parameter in parameters) and not torch.are_deterministic_algorithms_enabled():
            hints.append(
                "On a GPU some operations return other last bits each time: call "
                "torch.use_deterministic_algorithms(True) at the start of every run that you may have to resume."
            )
        return type(problem)(" ".join(hints))

    def _hint(self, step: int, parameters: Sequence[torch.Tensor]) -> str:
        if step > self._step:
            same = f"Steps {self._step + 1} to {step} were the same as before"
            return f"{same}: check what has changed since, such as the data, their order, or torch's random numbers."
        if self._step == 0:
            return "Nothing was restored here: load the last state of the run's module and optimizer."
        loaded = f"Optimizer and noise were restored as after step {step}"
        if self._parameters is not None and self._parameters != fingerprint(parameters):
            return f"{loaded}, but the module's parameters differ from that step: restore the module's state, too."
        return (
            f"{loaded}, and the parameters are those of that step. Something else that affects gradients differs: "
            "buffers, the data and their order, or in a loop of your own torch's random numbers (dropout), which no "
            "state of ours holds."
        )


def fingerprint(parameters: Sequence[Any]) -> str | None:
    """A hash that is equal for equal parameters; None for shards, which differ between ranks."""
    if any(hasattr(parameter, "to_local") for parameter in parameters):
        return None
    known = hashlib.sha256()
    for parameter in parameters:
        known.update(parameter.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return known.hexdigest()
