"""A stand-in for `VectorNoise` with predictable noise, to test how the hooks use it."""

from __future__ import annotations

import importlib.util
import json
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

if importlib.util.find_spec("evertally") is None:
    sys.path.insert(0, str(Path(__file__).parents[2] / "python"))

import evertally  # noqa: E402


@dataclass(frozen=True)
class PredictablePlan:
    horizon: int = 20
    norm: float = 1.0
    series: str = "increments"


class PredictableNoise:
    """Noise of step t = normals of a generator seeded with (key, t). Counts the computed steps."""

    computed = 0
    seekable = False

    def __init__(self, plan, key, name, coordinates, dtype="float32", threads=1, memory="keep"):
        self.plan, self.key, self.coordinates, self.dtype, self.step = plan, key, coordinates, dtype, 0

    @staticmethod
    def expected(key: bytes, step: int, coordinates: int) -> np.ndarray:
        seed = int.from_bytes(key, "little") + step
        return np.random.default_rng(seed).standard_normal(coordinates, dtype=np.float32)

    def next_into(self, out: np.ndarray, of: object = None) -> None:
        assert out.flags.c_contiguous and out.ndim == 1 and out.dtype == self.dtype and len(out) == self.coordinates
        if self.step == self.plan.horizon:
            raise ValueError("the horizon is reached")
        self.step += 1
        type(self).computed += 1
        out[:] = self.expected(self.key, self.step, self.coordinates)

    def add_next(self, array: np.ndarray, *, examples: int | None = None) -> None:
        noise = np.empty_like(array)
        self.next_into(noise)
        array += noise

    def save(self) -> bytes:
        return json.dumps([self.step, self.coordinates]).encode()

    def seek(self, step: int) -> None:
        if step > self.plan.horizon or (step < self.step and not self.seekable):
            raise ValueError("it cannot be sought")
        type(self).computed += 0 if self.seekable else step - self.step
        self.step = step

    @classmethod
    def restore(cls, plan, key, name, state, coordinates, dtype="float32", threads=1, memory="keep"):
        step, size = json.loads(state)
        if size != coordinates:
            raise ValueError("the checkpoint is of other coordinates")
        noise = cls(plan, key, name, coordinates, dtype)
        noise.step = step
        return noise


@pytest.fixture
def noise_type(monkeypatch):
    """Replaces the real class by the stand-in."""
    monkeypatch.setattr(evertally, "VectorNoise", PredictableNoise, raising=False)
    monkeypatch.setattr(PredictableNoise, "computed", 0)
    monkeypatch.setattr(PredictableNoise, "seekable", False)
    return PredictableNoise


@pytest.fixture
def plan():
    return PredictablePlan()
