"""Processes that train together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


class Ranks:
    """The processes of a group, or without one this process alone. What is refused on one is refused on all."""

    def __init__(self, group: Any = None) -> None:
        self.group, self.rank, self.size = group, 0, 1
        if group is None:
            return
        distributed = torch.distributed
        if not (distributed.is_available() and distributed.is_initialized()):
            raise ValueError("a group needs torch.distributed.init_process_group before")
        self.rank, self.size = distributed.get_rank(group), distributed.get_world_size(group)
        if self.rank < 0:
            raise ValueError("this process is not in the group")
        if not {"cpu:gloo", "cpu:mpi"} & set(str(distributed.get_backend_config(group)).split(",")):
            raise ValueError(
                "the noise is made on the CPU, and this group's backend sends nothing from there: give "
                'group=torch.distributed.new_group(backend="gloo")'
            )

    def tell(self, mine: Any) -> list[Any]:
        """What each rank says, in their order."""
        if self.group is None:
            return [mine]
        said: list[Any] = [None] * self.size
        torch.distributed.all_gather_object(said, mine, group=self.group)
        return said

    @contextmanager
    def together(self) -> Iterator[None]:
        """Around what may fail on one rank: then it has failed on all."""
        problem: Exception | None = None
        try:
            yield
        except Exception as found:
            if self.group is None:
                raise
            problem = found
        if self.group is None:
            return
        said = self.tell(None if problem is None else str(problem))
        if problem is not None:
            raise problem
        for rank, other in enumerate(said):
            if other is not None:
                raise RuntimeError(f"rank {rank} refuses this, so nothing is done on any: {other}")

    def same(self, mine: Any, what: str) -> None:
        """Refuses, on all ranks, what is not the same on all."""
        said = self.tell(mine)
        others = [rank for rank, other in enumerate(said) if other != said[0]]
        if others:
            raise ValueError(f"{what} of rank {others[0]} is not that of rank 0: all ranks of a run have the same")

    def add(self, vector: torch.Tensor) -> None:
        """Adds up the vectors of all ranks, in place."""
        if self.group is not None:
            torch.distributed.all_reduce(vector, group=self.group)

    def share(self, length: int) -> tuple[int, int]:
        """From where to where this rank's part of a vector goes; parts are equal but for the last ones."""
        each = -(-length // self.size)
        return min(self.rank * each, length), min((self.rank + 1) * each, length)

    def collect(self, padded: torch.Tensor) -> None:
        """Brings together the shares of a vector that has room for equal ones."""
        if self.group is not None:
            shares = list(padded.chunk(self.size))
            torch.distributed.all_gather(shares, shares[self.rank].clone(), group=self.group)


def part_of(batch: list[int], ranks: Ranks, microbatch: int | None) -> list[int]:
    """The examples of a batch whose gradients are this rank's: whole microbatches, so that their sums are the same for
    every number of ranks."""
    size = microbatch or max(1, -(-len(batch) // ranks.size))
    blocks = -(-len(batch) // size)
    first, end = (blocks * place // ranks.size * size for place in (ranks.rank, ranks.rank + 1))
    return batch[first:end]
