"""Intel's mkl_random: normals by the vector statistics library. It has no float32, so these are float64."""

import mkl_random

from case import Case, Work

PACKAGES = ("mkl_random", "mkl")
REPEATS = 50
LABELS = {"SFMT19937": "SFMT", "PHILOX4X32X10": "Philox"}


def prepare(case: Case) -> Work:
    brng, method = case.variant.split("-")
    state = mkl_random.RandomState(1, brng=brng)

    def one_round() -> None:
        for _ in range(REPEATS):
            state.standard_normal(case.coordinates, method=method)

    return Work(f"mkl_random {LABELS[brng]} (f64)", one_round, REPEATS * case.coordinates)
