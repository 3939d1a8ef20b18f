"""The division of the flat vector's coordinates among the ranks."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import torch

from evertally.torch._ranks import Ranks
from evertally.torch._whole import is_sharded


class Shards:
    """A rank's parameters in the vector over all parameters: all of them, with an equal share of the noise, or if they
    are sharded (`DTensor`s) this rank's rows. After whole parameters, additional coordinates may follow."""

    def __init__(self, parameters: Sequence[torch.Tensor], ranks: Ranks, extra: int = 0) -> None:
        self._parameters, self._ranks = parameters, ranks
        if any(getattr(parameter, "_fsdp_flattened", False) for parameter in parameters):
            raise ValueError(
                "these parameters are flat pieces of FullyShardedDataParallel, which do not show the parameter of a "
                "coordinate: shard with torch.distributed.fsdp.fully_shard"
            )
        sharded = [is_sharded(parameter) for parameter in parameters]
        self.sharded = any(sharded)
        self.total = sum(parameter.numel() for parameter in parameters) + extra
        if not self.sharded:
            each = -(-self.total // ranks.size)
            #: The vector, with room for equal shares.
            self.vector = _vector(each * ranks.size, parameters)
            self.shapes = [parameter.shape for parameter in parameters]
            self.ranges = [ranks.share(self.total)]
            return
        if not all(sharded) or ranks.group is None:
            raise ValueError("some parameters are sharded: shard all trained parameters, and give group=")
        if extra:
            raise ValueError(
                "adaptive clipping and second moments need whole parameters: clip sharded ones to the plan's norm"
            )
        self.vector = _vector(self.total, parameters)
        self.shapes = [parameter.to_local().shape for parameter in parameters]
        self.ranges = []
        start = 0
        for parameter in parameters:
            first, end = _rows(parameter, ranks)
            width = parameter.numel() // max(1, len(parameter))
            self.ranges.append((start + first * width, start + end * width))
            start += parameter.numel()

    def over_all(self, squares: torch.Tensor) -> torch.Tensor:
        """The squared lengths of all examples, added up over the shards in the order of the ranks."""
        said = self._ranks.tell(squares.cpu())
        return torch.stack(said).sum(dim=0).to(squares.device)

    def hand_out(self) -> None:
        """Sets `p.grad` of sharded parameters."""
        for parameter, (first, end), shape in zip(self._parameters, self.ranges, self.shapes):
            own = self.vector[first:end].view(shape).to(device=parameter.device, dtype=parameter.dtype, copy=True)
            parameter.grad = type(parameter.data).from_local(
                own,
                parameter.device_mesh,
                parameter.placements,
                run_check=False,
                shape=parameter.shape,
                stride=parameter.stride(),
            )


def _vector(length: int, parameters: Sequence[torch.Tensor]) -> torch.Tensor:
    """Zeros in the CPU's memory, whatever the default device is. Pinned if gradients are on a GPU: copies from and to
    pinned memory take a fifth of the time or less."""
    if any(parameter.is_cuda for parameter in parameters):
        with suppress(RuntimeError):  # the system limits pinned memory
            return torch.zeros(length, dtype=torch.float32, device="cpu", pin_memory=True)
    return torch.zeros(length, dtype=torch.float32, device="cpu")


def _rows(parameter: Any, ranks: Ranks) -> tuple[int, int]:
    """This rank's rows of a sharded parameter, as `torch.chunk` divides them."""
    along = parameter.placements[0]
    if len(parameter.placements) != 1 or not (along.is_shard(0) and parameter.device_mesh.size() == ranks.size):
        raise ValueError(
            f"a parameter is placed as {parameter.placements}: shards must be rows over the ranks of the group, as "
            "with fully_shard and a mesh of one dimension"
        )
    count = len(parameter)
    each = -(-count // ranks.size)
    first, end = min(ranks.rank * each, count), min((ranks.rank + 1) * each, count)
    if len(parameter.to_local()) != end - first:
        raise ValueError(f"a shard has {len(parameter.to_local())} rows instead of {end - first}")
    return first, end
