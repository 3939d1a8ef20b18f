"""The batches of a run, epoch by epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any


class Epoch:
    """The batches of one epoch that remain; iterate once."""

    def __init__(self, number: int, batches: Iterator[Any], count: int) -> None:
        self.number, self._batches, self._count = number, batches, count

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Any]:
        return islice(self._batches, self._count)


def epochs(
    loader: Iterable[Any], steps: int, per_epoch: int, step: Callable[[], int]
) -> Iterator[tuple[int, Epoch]]:
    """The epochs after the current step, with their numbers from 1. An epoch that was left early is resumed."""
    batches = iter(loader)
    while (done := step()) < steps:
        count = min(per_epoch - done % per_epoch, steps - done)
        number = done // per_epoch + 1
        yield number, Epoch(number, batches, count)
        if step() == done:
            raise RuntimeError(f"epoch {number} took no steps: call step() with each of its batches")
