"""Vectors of a model's gradients that hold more than gradients: `evertally.moments` over tensors."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from evertally.moments import AdaptiveClipping, Clipping, SecondMoments


def clipping_of(
    sizes: Sequence[int],
    norm: float,
    expected_batch_size: float,
    adaptive: AdaptiveClipping | None,
    moments: SecondMoments | None,
    neighbours: str,
) -> Clipping | None:
    """The blocks are the tensors of parameters. None where gradients are all that is released."""
    if adaptive is None and moments is None:
        return None
    return Clipping(norm, sizes, expected_batch_size, adaptive=adaptive, moments=moments, neighbours=neighbours)


def encode_and_sum(
    samples: Sequence[torch.Tensor | None], sizes: Sequence[int], clipping: Clipping
) -> tuple[list[torch.Tensor | None], torch.Tensor]:
    """The sum of all examples' vectors: a tensor for each tensor of per-example gradients, and the further coordinates.

    Sums are float32; None stays, and stands for gradients of zero.
    """
    rows = [None if sample is None else sample.reshape(len(sample), -1) for sample in samples]
    examples = {len(row) for row in rows if row is not None}
    if len(examples) != 1:
        raise ValueError(f"per-example gradients of one step have {sorted(examples)} examples: give all the same number")
    factors, extra = clipping.weigh(_lengths(rows, sizes, examples.pop(), clipping).numpy())
    weights = torch.from_numpy(factors)
    sums: list[torch.Tensor | None] = []
    for sample, row in zip(samples, rows):
        if sample is None or row is None:
            sums.append(None)
            continue
        own = weights.to(row.device)[:, None]
        # A product of its own, not a matrix product: those may round harder than float32 (TF32).
        vectors = torch.where(own > 0, row, 0.0) * own
        sums.append(vectors.sum(dim=0, dtype=torch.float32).view(sample.shape[1:]))
    return sums, torch.from_numpy(extra).sum(dim=0, dtype=torch.float32)


def _lengths(
    rows: Sequence[torch.Tensor | None], sizes: Sequence[int], examples: int, clipping: Clipping
) -> torch.Tensor:
    """In float64 on the CPU, a column for each tensor, or for each coordinate."""
    if clipping.moments is not None and clipping.moments.per == "coordinate":
        parts = [
            torch.zeros(examples, size, dtype=torch.float64) if row is None else row.detach().abs().double().cpu()
            for row, size in zip(rows, sizes)
        ]
        return torch.cat(parts, dim=1)
    norms = [
        torch.zeros(examples, dtype=torch.float64)
        if row is None
        else torch.linalg.vector_norm(row.detach(), dim=1, dtype=torch.float64).cpu()
        for row in rows
    ]
    return torch.stack(norms, dim=1)
