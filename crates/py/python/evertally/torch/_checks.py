"""Checks that refuse invalid input before anything changes."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

import evertally
import torch


def check_scale(scale: float) -> None:
    """Refuses a scale that is not a power of two: powers of two cause no rounding."""
    if not (0 < scale < math.inf and math.frexp(scale)[0] == 0.5):
        raise ValueError(f"scale is {scale}: give a power of two, such as 1024")


def refuse_copy(*_: Any) -> Any:
    raise TypeError(
        "this optimizer is wrapped in a DPFTRL and is not copied or pickled: a copy would take steps on exact "
        "gradients. Its state is in state_dict()"
    )


Given = ParamSpec("Given")
Result = TypeVar("Result")


def one_at_a_time(step: Callable[Concatenate[Any, Given], Result]) -> Callable[Concatenate[Any, Given], Result]:
    """Refuses a call while another one of the same object is in progress (`_in_progress`, a lock). Otherwise both could
    be checked as the same step of the plan, and examples would take part in steps that are not theirs."""

    @functools.wraps(step)
    def alone(self: Any, *args: Given.args, **options: Given.kwargs) -> Result:
        if not self._in_progress.acquire(blocking=False):
            raise RuntimeError(
                "another step is in progress, in another thread or around this call: the steps of a run follow each "
                "other, so take each after the last has returned"
            )
        try:
            return step(self, *args, **options)
        finally:
            self._in_progress.release()

    return alone


#: Relative tolerance: sums in single precision may be this much longer than exact ones.
TOLERANCE = 1e-3


def check_sum(vector: torch.Tensor, norm: float, examples: int | None) -> None:
    """Refuses a vector that cannot be a sum of `examples` clipped gradients, as `evertally.VectorNoise` does for its
    coordinates."""
    length = float(torch.linalg.vector_norm(vector, dtype=torch.float64))
    if not math.isfinite(length):
        raise evertally.InvalidError(
            "the sum has a number that is NaN or infinite: clip every example's gradient before it is added, and "
            "count an example whose gradient is not finite as zero"
        )
    if examples is not None and length > norm * examples * (1 + TOLERANCE):
        raise evertally.InvalidError(
            f"the sum is longer than the gradients of its examples allow, each at most of the plan's norm {norm}: clip "
            "the gradient of every example before they are added"
        )
