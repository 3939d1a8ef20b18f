"""NumPy's Generator: float32 normals by a ziggurat, on two of its bit generators."""

import numpy as np

from case import Case, Work

PACKAGES = ("numpy",)
REPEATS = 50


def prepare(case: Case) -> Work:
    generator = np.random.Generator(getattr(np.random, case.variant)(1))
    out = np.empty(case.coordinates, dtype=np.float32)

    def one_round() -> None:
        for _ in range(REPEATS):
            generator.standard_normal(dtype=np.float32, out=out)

    return Work(f"NumPy {case.variant}, ziggurat", one_round, REPEATS * case.coordinates)
