"""Model, optimizer and data of a run, wrapped in one call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import evertally
import torch

from evertally.moments import AdaptiveClipping, SecondMoments
from evertally.torch._gradients import grad_samples, refuse_mixing
from evertally.torch._optimizer import DPFTRL


class PrivateRun:
    """A model, its private optimizer and the loader of the plan's batches, made by `make_private`.

    The loader gives inputs, targets and numbers of the examples of the steps that are left: after a `load_state_dict`
    of the `optimizer`, a loop over it goes on where the run was.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        loss: Callable[..., torch.Tensor],
        optimizer: DPFTRL,
        loader: torch.utils.data.DataLoader[Any],
    ) -> None:
        self.module, self.loss, self.optimizer, self.loader = module, loss, optimizer, loader

    def step(self, inputs: Any, targets: Any, examples: Iterable[int]) -> None:
        """One step of the run on the loader's batch: per-example gradients, and a step of the optimizer. Other examples
        than those of the step are refused."""
        grad_samples(self.module, self.loss, inputs, targets)
        try:
            self.optimizer.step(examples=examples)
        finally:
            self.optimizer.zero_grad()

    def epsilon_at(self, delta: float) -> float:
        """The least ε of (ε, δ)-differential privacy that the whole run has at this δ."""
        return self.optimizer.plan.guarantee.epsilon_at(delta)


def make_private(
    module: torch.nn.Module,
    loss: Callable[..., torch.Tensor],
    optimizer: torch.optim.Optimizer,
    dataset: Any,
    plan: evertally.VectorPlan,
    key: evertally.SecretKey,
    name: str,
    *,
    batch_size: int | None = None,
    adaptive_clipping: AdaptiveClipping | None = None,
    second_moments: SecondMoments | None = None,
    **options: Any,
) -> PrivateRun:
    """Wraps model, optimizer and data in one call: a run whose loader gives the batches that the plan is made for.

    `dataset` has a length, and pairs of an input and a target. Where the plan has `sampled`, batches are drawn by lot
    from the key. Otherwise they are in the order of the data set, `batch_size` at a time, the same in every epoch; what
    is left at its end takes no part. `options` go to the `DataLoader`, `adaptive_clipping` and `second_moments` to the
    :class:`DPFTRL`.
    """
    extras: dict[str, Any] = {"adaptive_clipping": adaptive_clipping, "second_moments": second_moments}
    refuse_mixing(module)
    examples = len(dataset)
    if plan.sampled is not None:
        if batch_size is not None:
            raise ValueError("the plan draws batches by lot: leave batch_size away")
        batches = evertally.Batches(plan, key, name, examples=examples)
        private = DPFTRL(optimizer, plan, key, name, batches=batches, **extras)
    else:
        if batch_size is None:
            raise ValueError("batch_size is missing: the plan is one of batches in a fixed order")
        epochs = -(-plan.horizon // (examples // batch_size)) if 0 < batch_size <= examples else 0
        if not epochs or epochs > plan.participations or (examples // batch_size < plan.separation and epochs > 1):
            raise ValueError(
                f"{plan.horizon} steps of {batch_size} examples of {examples} are more often or nearer than the plan "
                f"allows: {plan.participations} times, {plan.separation} steps apart"
            )
        private = DPFTRL(optimizer, plan, key, name, expected_batch_size=batch_size, **extras)
        private.batches = _Fixed(examples, batch_size)
    collate = _collated(dataset, options.pop("collate_fn", None) or torch.utils.data.default_collate)
    sampler: Any = _Remaining(private)
    loader = torch.utils.data.DataLoader(_Numbered(dataset), batch_sampler=sampler, collate_fn=collate, **options)
    return PrivateRun(module, loss, private, loader)


class _Fixed:
    """The same batches in the same order in every epoch."""

    def __init__(self, examples: int, size: int) -> None:
        self._starts = examples // size
        self._size = size

    def batch(self, step: int) -> Iterable[int]:
        """The examples of a step, from 1."""
        first = (step - 1) % self._starts * self._size
        return range(first, first + self._size)


class _Remaining:
    """The batches of the steps that are left: those after the last that the noise has given out."""

    def __init__(self, private: DPFTRL) -> None:
        self._private = private

    def __len__(self) -> int:
        return self._private.plan.horizon - self._private.noise.step

    def __iter__(self) -> Iterator[list[int]]:
        for step in range(self._private.noise.step + 1, self._private.plan.horizon + 1):
            assert self._private.batches is not None
            yield [int(example) for example in self._private.batches.batch(step)]


class _Numbered(torch.utils.data.Dataset):
    """Examples with their numbers."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, number: int) -> tuple[int, Any]:
        return number, self._dataset[number]


def _collated(dataset: Any, collate_pairs: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    """Inputs, targets and numbers; empty batches have the shapes of an example."""

    def collate(items: list[tuple[int, Any]]) -> Any:
        numbers = torch.tensor([number for number, _ in items], dtype=torch.long)
        inputs, targets = collate_pairs([pair for _, pair in items] or [dataset[0]])
        return (inputs, targets, numbers) if items else (inputs[:0], targets[:0], numbers)

    return collate
