"""PyTorch's CPU normals (Mersenne twister, Box-Muller), in place and newly allocated."""

import torch

from case import Case, Work

PACKAGES = ("torch",)
REPEATS = 50


def prepare(case: Case) -> Work:
    generator = torch.Generator().manual_seed(1)
    out = torch.empty(case.coordinates)

    def in_place() -> None:
        for _ in range(REPEATS):
            out.normal_(generator=generator)

    def allocated() -> None:
        for _ in range(REPEATS):
            torch.randn(case.coordinates, generator=generator)

    ways = {"in-place": ("PyTorch normal_", in_place), "randn": ("PyTorch randn", allocated)}
    label, one_round = ways[case.variant]
    return Work(label, one_round, REPEATS * case.coordinates)
