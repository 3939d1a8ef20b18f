"""What is refused before anything changes."""

from __future__ import annotations

import math
from typing import Any

import evertally


def check_scale(scale: float) -> None:
    """Powers of two round nothing."""
    if not (0 < scale < math.inf and math.frexp(scale)[0] == 0.5):
        raise ValueError(f"scale is {scale}: give a power of two, such as 1024")


def refuse_copy(*_: Any) -> Any:
    raise TypeError(
        "this optimizer is wrapped in a DPFTRL and is not copied or pickled: a copy would step on exact gradients. Its "
        "state is in state_dict()"
    )


def check_batches(
    plan: evertally.VectorPlan, batches: evertally.Batches | None, key: evertally.SecretKey, name: str
) -> None:
    if getattr(plan, "sampled", None) is None:
        if batches is not None:
            raise ValueError("the plan is one without sampling: its batches are in a fixed order, not drawn by lot")
        return
    if batches is None:
        raise ValueError(
            "the plan's promise is for batches that are drawn by lot: give batches=evertally.Batches(plan, key, name, "
            "examples=…), and take them"
        )
    if not batches.is_of(plan, key, name):
        raise ValueError("these batches are those of another plan, key or name")
