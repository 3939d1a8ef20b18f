"""Processes that train together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


class Ranks:
    """The processes of a group, or without a group this process alone. An error on one rank is raised on all."""

    def __init__(self, group: Any = None) -> None:
        self.group, self.rank, self.size = group, 0, 1
        if group is None:
            return
        distributed = torch.distributed
        if not (distributed.is_available() and distributed.is_initialized()):
            raise ValueError("a group needs a prior call of torch.distributed.init_process_group")
        self.rank, self.size = distributed.get_rank(group), distributed.get_world_size(group)
        if self.rank < 0:
            raise ValueError("this process is not in the group")
        if not {"cpu:gloo", "cpu:mpi"} & set(str(distributed.get_backend_config(group)).split(",")):
            raise ValueError(
                "the noise is made on the CPU, but this group's backend cannot send data from there: give "
                'group=torch.distributed.new_group(backend="gloo")'
            )

    def tell(self, mine: Any) -> list[Any]:
        """The values of all ranks, in their order."""
        if self.group is None:
            return [mine]
        said: list[Any] = [None] * self.size
        torch.distributed.all_gather_object(said, mine, group=self.group)
        return said

    @contextmanager
    def together(self) -> Iterator[None]:
        """Wraps code that may fail on one rank: then it fails on all."""
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
                raise RuntimeError(f"rank {rank} refused this, so no rank did anything: {other}")

    def same(self, mine: Any, what: str) -> None:
        """Refuses, on all ranks, a value that is not the same on all."""
        said = self.tell(mine)
        others = [rank for rank, other in enumerate(said) if other != said[0]]
        if others:
            raise ValueError(f"{what} of rank {others[0]} is not that of rank 0: all ranks of a run must have the same")

    def add(self, vector: torch.Tensor) -> None:
        """Adds up the vectors of all ranks, in place."""
        if self.group is not None:
            torch.distributed.all_reduce(vector, group=self.group)

    def share(self, length: int) -> tuple[int, int]:
        """The first coordinate and the end of this rank's part of a vector; all parts but the last ones are equal."""
        each = -(-length // self.size)
        return min(self.rank * each, length), min((self.rank + 1) * each, length)

    def collect(self, padded: torch.Tensor) -> None:
        """Gathers the shares of all ranks in a vector that has room for equal shares."""
        if self.group is not None:
            shares = list(padded.chunk(self.size))
            torch.distributed.all_gather(shares, shares[self.rank].clone(), group=self.group)


def part_of(batch: list[int], ranks: Ranks, microbatch: int | None) -> list[int]:
    """The examples of a batch whose gradients this rank computes: whole microbatches, so that their sums are the same
    for any number of ranks."""
    size = microbatch or max(1, -(-len(batch) // ranks.size))
    blocks = -(-len(batch) // size)
    first, end = (blocks * place // ranks.size * size for place in (ranks.rank, ranks.rank + 1))
    return batch[first:end]
