"""The order in which a run takes its examples: drawn by lot from the key, or fixed; and who has taken part so far."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

import evertally
import numpy as np
import numpy.typing as npt

from ._evertally import Batches

__all__ = ["Attendance", "FixedBatches", "Order", "check_batches", "order_of"]


class FixedBatches:
    """The batches of a plan without sampling: of one size, in the order of the data, the same in every epoch.

    Examples have the numbers 0 to ``examples - 1``; those that are left over at the end of an epoch take no part. It is a
    sequence of arrays, one for each step of the plan, as :class:`Batches` is. Nothing is secret about it.

    Raises :class:`InvalidError` if an example would take part in more steps than the plan's ``participations``, or sooner
    again than its ``separation``: the plan's noise is not enough then.

    >>> import evertally as et
    >>> plan = et.plan_vector(40, rho=0.5, participations=2, separation=20)
    >>> batches = et.FixedBatches(plan, examples=1000, batch_size=50)
    >>> len(batches), batches.batch(21)[:3].tolist()
    (40, [0, 1, 2])
    >>> et.FixedBatches(plan, examples=1000, batch_size=100)  # four epochs
    Traceback (most recent call last):
    ...
    evertally.InvalidError: 40 steps of 100 examples of 1000 are 4 epochs of 10 steps, and the plan is for at most 2 ...
    """

    def __init__(self, plan: evertally.VectorPlan, *, examples: int, batch_size: int) -> None:
        if plan.sampled is not None:
            raise evertally.InvalidError(
                "the plan's promise is for batches that are drawn by lot: take evertally.Batches(plan, key, name, "
                "examples=…)"
            )
        if not 1 <= batch_size <= examples:
            raise evertally.InvalidError(f"a batch has 1 to {examples} of the {examples} examples, got {batch_size}")
        apart = examples // batch_size
        epochs = -(-plan.horizon // apart)
        if epochs > plan.participations or (apart < plan.separation and epochs > 1):
            raise evertally.InvalidError(
                f"{plan.horizon} steps of {batch_size} examples of {examples} are {epochs} epochs of {apart} steps, and the "
                f"plan is for at most {plan.participations} steps of an example, {plan.separation} apart: plan with "
                f"participations={epochs}, separation={apart}"
            )
        self.plan, self.examples = plan, examples
        self._size, self._apart = batch_size, apart

    @property
    def expected_size(self) -> float:
        """The number of examples in a batch."""
        return float(self._size)

    def batch(self, step: int) -> npt.NDArray[np.int64]:
        """The numbers of the examples of a step (from 1), in order."""
        if not 1 <= step <= self.plan.horizon:
            raise evertally.InvalidError(f"step {step} is not one of the plan's {self.plan.horizon} steps")
        first = (step - 1) % self._apart * self._size
        return np.arange(first, first + self._size, dtype=np.int64)

    def is_of(self, plan: evertally.VectorPlan, key: evertally.SecretKey, name: str) -> bool:
        """Whether they are those of this plan; they are the same for every key and name."""
        del key, name
        return self.plan == plan

    def __len__(self) -> int:
        return self.plan.horizon

    def __getitem__(self, place: int) -> npt.NDArray[np.int64]:
        if not -len(self) <= place < len(self):
            raise IndexError(f"there are {len(self)} batches")
        return self.batch(place % len(self) + 1)

    def __iter__(self) -> Iterator[npt.NDArray[np.int64]]:
        return (self.batch(step) for step in range(1, len(self) + 1))

    def __repr__(self) -> str:
        return f"FixedBatches({len(self)} batches of {self._size} of {self.examples} examples)"


FixedBatches.__module__ = "evertally"

#: Who takes part when.
Order: TypeAlias = Batches | FixedBatches


def order_of(
    plan: evertally.VectorPlan, key: evertally.SecretKey, name: str, examples: int, batch_size: int | None
) -> Order:
    """The plan's lots, or batches of `batch_size` in a fixed order if they keep to what the plan allows."""
    if plan.sampled is not None:
        batches = Batches(plan, key, name, examples=examples)
        if batch_size is not None and abs(batch_size - batches.expected_size) >= 1:
            raise ValueError(
                f"the plan draws batches by lot, of {batches.expected_size:g} examples on average where there are "
                f"{examples}, not {batch_size}: plan for the number of examples, or leave batch_size away"
            )
        return batches
    if batch_size is None:
        raise ValueError("batch_size is missing: the plan is one of batches in a fixed order")
    return FixedBatches(plan, examples=examples, batch_size=batch_size)


def check_batches(plan: evertally.VectorPlan, batches: Any, key: evertally.SecretKey, name: str) -> None:
    """Refuses batches that are not those of a plan; a plan with sampling needs its own."""
    if batches is None:
        if getattr(plan, "sampled", None) is not None:
            raise ValueError(
                "the plan's promise is for batches that are drawn by lot: give batches=evertally.Batches(plan, key, name, "
                "examples=…) of this plan, key and name, and take them"
            )
        return
    if not isinstance(batches, Order):
        raise TypeError(
            f"batches are evertally.Batches of a plan with sampling, or evertally.FixedBatches of one without, got "
            f"{type(batches).__name__}"
        )
    if not batches.is_of(plan, key, name):
        raise ValueError("these batches are those of another plan, key or name")


class Attendance:
    """Who has taken part when, of a plan without sampling: refuses an example that comes more often, or sooner again, than
    the plan allows."""

    def __init__(self, plan: Any) -> None:
        self._most, self._apart = plan.participations, plan.separation
        self._seen: dict[int, tuple[int, int]] = {}

    def check(self, examples: Iterable[int], step: int) -> None:
        """Refuses examples of a step that the plan has no room for."""
        for example in examples:
            times, last = self._seen.get(example, (0, 0))
            if times >= self._most or (times and step - last < self._apart):
                raise evertally.InvalidError(
                    f"example {example} takes part in step {step}, the last time was in step {last}, and {times} times so "
                    f"far: the plan is for at most {self._most} steps of an example, at least {self._apart} apart. Keep to "
                    "that order, or plan with the participations and the separation that the run has"
                )

    def note(self, examples: Iterable[int], step: int) -> None:
        """These have taken part."""
        for example in examples:
            self._seen[example] = (self._seen.get(example, (0, 0))[0] + 1, step)

    def state(self) -> list[list[int]]:
        """For `restore`: numbers, times and last steps."""
        return [[example, *seen] for example, seen in self._seen.items()]

    def restore(self, state: Iterable[Iterable[int]]) -> None:
        """Goes on from a `state`."""
        self._seen = {example: (times, last) for example, times, last in state}
