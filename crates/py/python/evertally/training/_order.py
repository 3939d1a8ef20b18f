"""The order in which a run uses its examples (sampled with the key, or fixed), and the participations so far."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

import evertally

from .._evertally import Batches

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["Attendance", "FixedBatches", "Order", "check_batches", "one_at_a_time", "order_of", "steps_per_epoch"]

Step = TypeVar("Step", bound=Callable[..., Any])


class FixedBatches:
    """The batches of a plan without sampling: all of one size, in the order of the data, the same in every epoch.

    Examples have the numbers 0 to ``examples - 1``; those left over at the end of an epoch are not used. Like
    :class:`Batches`, it is a sequence of arrays, one for each step of the plan. It is not secret.

    Raises :class:`InvalidError` if an example would take part in more steps than the plan's ``participations``, or
    again after fewer steps than its ``separation``: the plan's noise would not suffice.

    >>> import evertally as et
    >>> plan = et.training.plan_vector(40, rho=0.5, participations=2, separation=20)
    >>> batches = et.training.FixedBatches(plan, examples=1000, batch_size=50)
    >>> len(batches), batches.batch(21)[:3].tolist()
    (40, [0, 1, 2])
    >>> et.training.FixedBatches(plan, examples=1000, batch_size=100)  # four epochs
    Traceback (most recent call last):
    ...
    evertally.InvalidError: 40 steps of 100 examples out of 1000 are 4 epochs of 10 steps, but the plan allows an ...
    """

    def __init__(self, plan: evertally.training.VectorPlan, *, examples: int, batch_size: int) -> None:
        if plan.sampling is not None:
            raise evertally.InvalidError(
                "the plan's guarantee requires sampled batches: use evertally.training.Batches(plan, key, name, "
                "examples=…)"
            )
        if not 1 <= batch_size <= examples:
            raise evertally.InvalidError(
                f"batch_size must be 1 to {examples}, the number of examples, got {batch_size}"
            )
        steps_per_epoch = examples // batch_size
        epochs = -(-plan.horizon // steps_per_epoch)
        if epochs > plan.participations or (steps_per_epoch < plan.separation and epochs > 1):
            raise evertally.InvalidError(
                f"{plan.horizon} steps of {batch_size} examples out of {examples} are {epochs} epochs of "
                f"{steps_per_epoch} steps, but the plan allows an example at most {plan.participations} steps, at "
                f"least {plan.separation} apart: plan with participations={epochs}, separation={steps_per_epoch}"
            )
        self.plan, self.examples = plan, examples
        self._size, self._steps_per_epoch = batch_size, steps_per_epoch

    @property
    def steps_per_epoch(self) -> int:
        """The number of batches after which the order begins again."""
        return self._steps_per_epoch

    @property
    def expected_size(self) -> float:
        """The number of examples in a batch."""
        return float(self._size)

    def batch(self, step: int) -> npt.NDArray[np.int64]:
        """The numbers of the examples of a step (from 1), in order."""
        if not 1 <= step <= self.plan.horizon:
            raise evertally.InvalidError(f"step {step} is not one of the plan's {self.plan.horizon} steps")
        import numpy as np

        first = (step - 1) % self._steps_per_epoch * self._size
        return np.arange(first, first + self._size, dtype=np.int64)

    def is_of(self, plan: evertally.training.VectorPlan, key: evertally.SecretKey, name: str) -> bool:
        """Whether these batches belong to this plan; they are the same for every key and name."""
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

#: The examples of each step.
Order: TypeAlias = Batches | FixedBatches


def order_of(
    plan: evertally.training.VectorPlan, key: evertally.SecretKey, name: str, examples: int, batch_size: int | None
) -> Order:
    """The plan's sampled batches, or batches of `batch_size` in a fixed order, if the plan allows them."""
    if plan.sampling is not None:
        batches = Batches(plan, key, name, examples=examples)
        # With random allocation, an epoch has the nearest whole number of steps.
        is_nearest = batch_size is not None and plan.steps_per_epoch == int(examples / max(batch_size, 1) + 0.5)
        if batch_size is not None and abs(batch_size - batches.expected_size) >= 1 and not is_nearest:
            raise ValueError(
                f"this plan samples {batches.expected_size:g} of {examples} examples per batch on average, not "
                f"{batch_size}: plan again for this number of examples, or omit batch_size"
            )
        return batches
    if batch_size is None:
        raise ValueError("batch_size is missing: the plan has batches in a fixed order")
    return FixedBatches(plan, examples=examples, batch_size=batch_size)


def steps_per_epoch(order: Order) -> int:
    """The number of steps in which an example takes part once: exactly, or on average if batches are sampled."""
    return order.steps_per_epoch or max(1, round(order.examples / order.expected_size))


def check_batches(plan: evertally.training.VectorPlan, batches: Any, key: evertally.SecretKey, name: str) -> None:
    """Refuses batches that do not belong to a plan; a plan with sampling needs its own batches."""
    if batches is None:
        if getattr(plan, "sampled_fraction", None) is not None:
            raise ValueError(
                "the plan's guarantee requires sampled batches: give batches=evertally.training.Batches(plan, key, "
                "name, examples=…) with this plan, key and name, and train on them"
            )
        return
    if not isinstance(batches, Order):
        raise TypeError(
            "batches must be evertally.training.Batches for a plan with sampling, or evertally.training.FixedBatches "
            f"for one without, got {type(batches).__name__}"
        )
    if not batches.is_of(plan, key, name):
        raise ValueError("these batches belong to another plan, key or name")


class Attendance:
    """The participations so far, for a plan without sampling: refuses an example that takes part more often, or sooner
    again, than the plan allows."""

    def __init__(self, plan: Any) -> None:
        self._most, self._separation = plan.participations, plan.separation
        self._seen: dict[int, tuple[int, int]] = {}

    def check(self, examples: Iterable[int], step: int) -> None:
        """Refuses a step if the plan does not allow one of its examples to take part."""
        for example in examples:
            times, last = self._seen.get(example, (0, 0))
            if times >= self._most or (times and step - last < self._separation):
                raise evertally.InvalidError(
                    f"example {example} takes part in step {step}; it has taken part {times} times before, last in "
                    f"step {last}: the plan allows an example at most {self._most} steps, at least {self._separation} "
                    "apart. Keep to that order, or plan with the participations and the separation of the run"
                )

    def note(self, examples: Iterable[int], step: int) -> None:
        """Records that these examples have taken part."""
        for example in examples:
            self._seen[example] = (self._seen.get(example, (0, 0))[0] + 1, step)

    def state(self) -> list[list[int]]:
        """The state for `restore`: each example's number, its participations and its last step."""
        return [[example, *seen] for example, seen in self._seen.items()]

    def restore(self, state: Iterable[Iterable[int]]) -> None:
        """Continues from a `state`."""
        self._seen = {example: (times, last) for example, times, last in state}


def one_at_a_time(step: Step) -> Step:
    """Refuses a call while another one of the same object is in progress (`_in_progress`, a lock). Otherwise both could
    be checked as the same step of the plan, and examples would take part in steps that are not theirs."""

    @functools.wraps(step)
    def alone(self: Any, *args: Any, **options: Any) -> Any:
        if not self._in_progress.acquire(blocking=False):
            raise RuntimeError(
                "another step is in progress, in another thread or around this call: the steps of a run follow each "
                "other, so take each after the last has returned"
            )
        try:
            return step(self, *args, **options)
        finally:
            self._in_progress.release()

    return cast(Step, alone)
