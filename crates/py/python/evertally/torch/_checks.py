"""Checks that refuse invalid input before anything changes."""

from __future__ import annotations

import math
from typing import Any

import evertally
import torch


#: The smallest norm times scale: gradients clipped to it are far above the smallest numbers of float32, where rounding
#: could make them longer.
SMALLEST = 2.0**-100


def check_scale(scale: float, norm: float) -> None:
    """Refuses a scale that is not a power of two, which cause no rounding, and one that makes the norm too small."""
    if not (0 < scale < math.inf and math.frexp(scale)[0] == 0.5):
        raise ValueError(f"scale is {scale}: give a power of two, such as 1024")
    if scale * norm < SMALLEST:
        raise ValueError(f"scale is {scale}, which makes gradients too small for float32: give a larger power of two")


def refuse_copy(*_: Any) -> Any:
    raise TypeError(
        "this optimizer is wrapped in a DPFTRL and is not copied or pickled: a copy would take steps on exact "
        "gradients. Its state is in state_dict()"
    )


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
