"""A buffered linear Toeplitz mechanism with PyTorch (McMahan and others 2024, arXiv 2408.08868, algorithm 3): the
noise of a step is a new normal minus a mix of the buffers; then every buffer decays and that noise is added to it."""

import torch

from case import Case, Work
from peer.blt import parameters

PACKAGES = ("torch",)
SIGMA = 1.5


def prepare(case: Case) -> Work:
    torch.set_num_threads(1)
    decays, scales = parameters(case.horizon)
    generator = torch.Generator().manual_seed(1)
    buffers = [torch.zeros(case.coordinates) for _ in decays]
    gradient = torch.zeros(case.coordinates)
    noise = torch.empty(case.coordinates)

    def one_round() -> None:
        for _ in range(case.steps):
            noise.normal_(0.0, SIGMA, generator=generator)
            for buffer, scale in zip(buffers, scales):
                noise.add_(buffer, alpha=-scale)
            for buffer, decay in zip(buffers, decays):
                buffer.mul_(decay).add_(noise)
            gradient.add_(noise)

    label = f"PyTorch, BLT of {len(buffers)} buffers"
    return Work(label, one_round, case.steps * case.coordinates, gradient=lambda: gradient)
