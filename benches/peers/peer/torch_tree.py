"""The binary tree of DP-FTRL with PyTorch, in the standard version without completion of the tree, and the smooth
binary tree."""

from collections.abc import Iterator

import torch

from case import Case, Work
from peer.trees import STEPS, most_live

PACKAGES = ("torch",)
LABELS = {"binary": "PyTorch, binary tree", "smooth": "PyTorch, smooth binary"}
SIGMA = 1.5


def running_noise(tree: str, horizon: int, out: torch.Tensor, generator: torch.Generator) -> Iterator[None]:
    """Each step leaves its noise in `out`, which must start as zeros and is only read in between."""
    live: list[torch.Tensor] = []
    free = [torch.zeros_like(out) for _ in range(most_live(STEPS[tree](horizon)))]
    for leaving, entering in STEPS[tree](horizon):
        for _ in range(leaving):
            node = live.pop()
            out.sub_(node)
            free.append(node)
        for _ in range(entering):
            node = free.pop()
            node.normal_(0.0, SIGMA, generator=generator)
            out.add_(node)
            live.append(node)
        yield


def prepare(case: Case) -> Work:
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(1)
    values = case.steps * case.coordinates

    def whole_round() -> None:
        for _ in running_noise(case.variant, case.horizon, torch.zeros(case.coordinates), generator):
            pass

    if case.setting == "figure5":
        return Work(LABELS[case.variant], whole_round, values)
    stream = running_noise(case.variant, case.horizon, torch.zeros(case.coordinates), generator)

    def slice_round() -> None:
        for _ in range(case.steps):
            next(stream)

    return Work(LABELS[case.variant], slice_round, values, rounds=case.horizon // case.steps - 1)
