"""This project: `VectorNoise` of the Python package. The variant is the mechanism, with `:keep` or `:recompute` for
memory."""

import evertally as et
import numpy as np

from case import Case, Unavailable, Work

PACKAGES = ("evertally", "numpy")
LABELS = {"input": "evertally, independent noise"}


def stream(case: Case, mechanism: str, memory: str, series: str):
    try:
        plan = et.training.plan_vector(case.horizon, norm=1.0, rho=0.5, mechanism=mechanism, series=series)
        key = et.SecretKey.insecure_from_test_seed(et.TestSeed(1))
        return et.VectorNoise(plan, key, "benchmark", coordinates=case.coordinates, threads=1, memory=memory)
    except (ValueError, NotImplementedError) as refusal:
        raise Unavailable(f"evertally refuses {mechanism}: {refusal}") from refusal


def prepare(case: Case) -> Work:
    mechanism, _, memory = case.variant.partition(":")
    memory = memory or "keep"
    label = LABELS.get(mechanism, f"evertally, {mechanism}") + (", recomputed" if memory == "recompute" else "")
    out = np.zeros(case.coordinates, dtype=np.float32)
    values = case.steps * case.coordinates
    if case.setting == "figure5":

        def whole_round() -> None:
            noise = stream(case, mechanism, memory, "running-sums")
            for _ in range(case.steps):
                noise.next_into(out)

        return Work(label, whole_round, values)
    noise = stream(case, mechanism, memory, "increments")
    advance = noise.next_into if case.setting == "normals" else noise.add_next

    def slice_round() -> None:
        for _ in range(case.steps):
            advance(out)

    return Work(label, slice_round, values, rounds=case.horizon // case.steps - 1)
