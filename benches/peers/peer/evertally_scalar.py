"""This project: `Counter` of the Python package, with exact discrete noise and intervals. The variant is the
mechanism."""

import evertally as et
import numpy as np

from case import Case, Work

PACKAGES = ("evertally", "numpy")


def prepare(case: Case) -> Work:
    plan = et.plan(case.horizon, rho=0.5, mechanism=case.variant)
    key = et.SecretKey.insecure_from_test_seed(et.TestSeed(1))
    totals = np.zeros(case.steps, dtype=np.int64)

    def whole_round() -> None:
        et.Counter(plan, key, "benchmark").release_many(totals)

    return Work(f"evertally, {case.variant}, exact noise", whole_round, case.steps)
