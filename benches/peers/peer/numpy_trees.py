"""The binary and the smooth binary mechanism with NumPy, for one coordinate or many.

Written from the paper (see `trees.py`): the stack of live nodes holds one vector per node, all allocated at the
beginning for the maximum number of nodes of the horizon; vectors of nodes that leave are redrawn for nodes that enter;
and the noise is kept as a running sum (or, in the wide setting, added to the gradient as an increment, which needs no
running sum).
"""

from collections.abc import Iterator

import numpy as np

from case import Case, Work
from peer.trees import STEPS, most_live

PACKAGES = ("numpy",)
LABELS = {"binary": "NumPy, binary tree", "smooth": "NumPy, smooth binary"}
SIGMA = np.float32(1.5)


def running_noise(tree: str, horizon: int, out: np.ndarray, rng: np.random.Generator) -> Iterator[None]:
    """Each step leaves its noise in `out`, which must start as zeros and is only read in between."""
    live: list[np.ndarray] = []
    free = [np.full_like(out, 0) for _ in range(most_live(STEPS[tree](horizon)))]
    for leaving, entering in STEPS[tree](horizon):
        for _ in range(leaving):
            node = live.pop()
            out -= node
            free.append(node)
        for _ in range(entering):
            node = free.pop()
            rng.standard_normal(dtype=out.dtype, out=node)
            node *= SIGMA
            out += node
            live.append(node)
        yield


def scalar_noise(tree: str, horizon: int, rng: np.random.Generator) -> Iterator[float]:
    """One coordinate: normals are drawn in blocks, to save the cost of calls."""
    buffered: list[float] = []
    live: list[float] = []
    total = 0.0
    for leaving, entering in STEPS[tree](horizon):
        for _ in range(leaving):
            total -= live.pop()
        for _ in range(entering):
            if not buffered:
                buffered = (float(SIGMA) * rng.standard_normal(4096)).tolist()
            node = buffered.pop()
            total += node
            live.append(node)
        yield total


def prepare(case: Case) -> Work:
    label = LABELS[case.variant]
    rng = np.random.Generator(np.random.SFC64(1))
    if case.setting == "scalar":
        return Work(label, lambda: scalar_round(case, rng), case.steps)
    if case.setting == "figure5":
        return Work(label, lambda: whole_round(case, rng), case.steps * case.coordinates)
    gradient = np.zeros(case.coordinates, dtype=np.float32)
    stream = running_noise(case.variant, case.horizon, gradient, rng)

    def one_round() -> None:
        for _ in range(case.steps):
            next(stream)

    return Work(label, one_round, case.steps * case.coordinates, rounds=case.horizon // case.steps - 1)


def scalar_round(case: Case, rng: np.random.Generator) -> None:
    stream = scalar_noise(case.variant, case.horizon, rng)
    for _ in range(case.steps):
        next(stream)


def whole_round(case: Case, rng: np.random.Generator) -> None:
    out = np.zeros(case.coordinates, dtype=np.float32)
    for _ in running_noise(case.variant, case.horizon, out, rng):
        pass
