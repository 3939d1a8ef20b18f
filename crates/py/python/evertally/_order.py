"""The order in which a run takes its examples: drawn by lot from the key, or fixed."""

from __future__ import annotations

from typing import Protocol

import evertally
import numpy as np
import numpy.typing as npt

__all__ = ["FixedOrder", "Order", "order_of"]


class Order(Protocol):
    """Who takes part when."""

    @property
    def expected_size(self) -> float: ...

    def batch(self, step: int) -> npt.NDArray[np.int64]:
        """The numbers of a step's examples; steps count from 1."""
        ...


class FixedOrder:
    """The same batches in the same order in every epoch; what is left at its end takes no part."""

    def __init__(self, examples: int, size: int) -> None:
        self._starts = examples // size
        self.expected_size = float(size)

    def batch(self, step: int) -> npt.NDArray[np.int64]:
        size = int(self.expected_size)
        first = (step - 1) % self._starts * size
        return np.arange(first, first + size)


def order_of(
    plan: evertally.VectorPlan, key: evertally.SecretKey, name: str, examples: int, batch_size: int | None
) -> Order:
    """The plan's lots, or batches of `batch_size` in a fixed order if they keep to what the plan allows."""
    if plan.sampled is not None:
        batches = evertally.Batches(plan, key, name, examples=examples)
        if batch_size is not None and abs(batch_size - batches.expected_size) >= 1:
            raise ValueError(
                f"the plan draws batches by lot, of {batches.expected_size:g} examples on average where there are "
                f"{examples}, not {batch_size}: plan for the number of examples, or leave batch_size away"
            )
        return batches
    if batch_size is None:
        raise ValueError("batch_size is missing: the plan is one of batches in a fixed order")
    starts = examples // batch_size if 0 < batch_size <= examples else 0
    epochs = -(-plan.horizon // starts) if starts else 0
    if not epochs or epochs > plan.participations or (starts < plan.separation and epochs > 1):
        raise ValueError(
            f"{plan.horizon} steps of {batch_size} examples of {examples} are more often or nearer than the plan "
            f"allows: {plan.participations} times, {plan.separation} steps apart"
        )
    return FixedOrder(examples, batch_size)
