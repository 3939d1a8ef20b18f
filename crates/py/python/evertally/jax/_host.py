"""Noise made on the host."""

from __future__ import annotations

import threading
from typing import Any

import evertally
import jax
import numpy as np

from ..training._order import Order
from ._sums import Sums

__all__ = ["Host"]


class Host:
    """The noise stream on the host; returns the noise of any step. Several threads may call it."""

    def __init__(
        self,
        plan: Any,
        key: evertally.SecretKey,
        name: str,
        options: dict[str, Any],
        saved: bytes | None,
        batches: Order | None,
    ) -> None:
        self._identity = (plan, key, name)
        self._sums = Sums(plan, batches)
        self._options = options
        self._saved = saved
        self._lock = threading.Lock()
        self._noise: Any = None
        self._last: tuple[int, bytes, np.ndarray] | None = None  # the last result: step, mark, noise

    def noise_of(self, size: int, step: jax.Array, mark: jax.Array, length: jax.Array) -> np.ndarray:
        """The noise of the update after `step` earlier ones, of `size` coordinates, for a sum with a mark and a
        length."""
        wanted, of = int(step) + 1, np.asarray(mark).tobytes()
        self._sums.check(wanted, np.asarray(length))
        with self._lock:
            if self._last is None or self._last[:2] != (wanted, of):
                self._move_before(wanted, size)
                out = np.empty(size, dtype=np.float32)
                self._noise.next_into(out, of=of)
                out.flags.writeable = False
                self._last = wanted, of, out
            return self._last[2]

    def save(self) -> bytes:
        """State of the stream after the last step made, for a later process."""
        with self._lock:
            if self._noise is None:
                raise ValueError("no step was taken yet: there is nothing to save")
            return self._noise.save()

    def _move_before(self, wanted: int, size: int) -> None:
        """Positions the stream just before a step."""
        if self._noise is None:
            self._noise = self._start(size)
        if self._noise.step == wanted - 1:
            return
        try:
            self._noise.seek(wanted - 1)
        except ValueError:
            if self._noise.step < wanted:
                raise
            # The mechanism's noise depends on all earlier steps: start from the beginning.
            self._noise = self._start(size)
            if self._noise.step >= wanted:
                self._noise = self._new(size)
            self._noise.seek(wanted - 1)

    def _start(self, size: int) -> Any:
        if self._saved is None:
            return self._new(size)
        return evertally.VectorNoise.restore(
            *self._identity, self._saved, coordinates=size, dtype="float32", **self._options
        )

    def _new(self, size: int) -> Any:
        return evertally.VectorNoise(*self._identity, coordinates=size, dtype="float32", **self._options)
