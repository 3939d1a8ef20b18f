"""The two kinds of noise that a server adds to sums: in floating point, and exact on the integers."""

from __future__ import annotations

import contextlib
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from ..._errors import InvalidError
from ..._evertally import LazyVector, SecretKey, VectorNoise, VectorPlan
from ..._uses import allow_noise_reuse
from ._plan import RoundsPlan, flat

Array = npt.NDArray[Any]


class Lane(Protocol):
    """Checks sums, and adds the noise of a round."""

    @property
    def step(self) -> int:
        """The last round drawn."""

    def checked(self, total: Any, users: int) -> Array:
        """The sum as a vector. Raises InvalidError if it cannot be one of this number of users."""

    def add(self, total: Array) -> None:
        """Adds the sum of the next round, without its noise. An object that was interrupted here is of no use."""

    def release(self, total: Array, users: int, again: bool) -> npt.NDArray[np.float64]:
        """The noisy sum of the round that was added, in units of updates. `again`: a process that ended before it saved
        its state may have drawn this noise, for a sum that is the same or was never released."""

    def skip(self, again: bool) -> None:
        """Passes over the next round. `again`: as for `release`; nothing of it was released."""

    def state(self) -> dict[str, Array]:
        """The state for `restore`."""

    def restore(self, state: dict[str, Array]) -> None:
        """Continues from a state."""


class FloatLane:
    """Noise of a `VectorPlan`: exact laws, floating-point arithmetic."""

    def __init__(self, plan: RoundsPlan, key: SecretKey, name: str, size: int, dtype: Any, threads: int) -> None:
        assert isinstance(plan.noise, VectorPlan)
        self._plan, self._identity, self._size = plan, (plan.noise, key, name), size
        wide: Literal["float32", "float64"] = "float64" if dtype == np.float64 else "float32"
        self._dtype, self._threads = wide, threads
        self._noise = VectorNoise(*self._identity, coordinates=size, dtype=wide, threads=threads)

    @property
    def step(self) -> int:
        return self._noise.step

    def checked(self, total: Any, users: int) -> Array:
        vector = flat(total).astype(self._dtype)
        if len(vector) != self._size:
            raise InvalidError(_other_size(len(vector), self._size, self._plan))
        length = float(np.linalg.norm(vector.astype(np.float64)))
        # Stricter than the check of the noise, so that a sum is refused before its round is recorded.
        if not length <= self._plan.norm * users * (1 + 5e-4):
            raise InvalidError(
                f"the sum of round {self.step + 1} is longer than its participants' updates can be, each of norm at "
                f"most {self._plan.norm}, or not finite: clip every update with clip() before adding it"
            )
        return vector

    def add(self, total: Array) -> None:
        pass

    def release(self, total: Array, users: int, again: bool) -> npt.NDArray[np.float64]:
        del again  # the log of the key recognises the sum
        noisy = total.copy()
        self._noise.add_next(noisy, examples=users)
        return noisy.astype(np.float64)

    def skip(self, again: bool) -> None:
        del again
        self._noise.seek(self.step + 1)

    def state(self) -> dict[str, Array]:
        return {"noise": np.frombuffer(self._noise.save(), np.uint8)}

    def restore(self, state: dict[str, Array]) -> None:
        self._noise = VectorNoise.restore(
            *self._identity, state["noise"].tobytes(), coordinates=self._size, dtype=self._dtype, threads=self._threads
        )


def _other_size(found: int, size: int, plan: RoundsPlan) -> str:
    if plan.adaptive_clipping is None:
        return f"the sum has {found} numbers, and the weights {size}"
    return f"the sum has {found} numbers instead of {size}, one more than the weights: sum the vectors of clip()"


class ExactLane:
    """Discrete noise on the integers, of running sums; a round's sum is the difference of two."""

    def __init__(self, plan: RoundsPlan, key: SecretKey, name: str, size: int) -> None:
        self._plan, self._identity, self._size = plan, (plan.noise, key, name), size
        self._sums = LazyVector(plan.noise, key, name, sums=size, sampling="keyed")  # type: ignore[arg-type]
        self._before = np.zeros(size)
        self._places = np.arange(size, dtype=np.uint64)

    @property
    def step(self) -> int:
        return self._sums.step

    def checked(self, total: Any, users: int) -> Array:
        vector = self._plan.lift(total)
        if len(vector) != self._size:
            raise InvalidError(_other_size(len(vector), self._size, self._plan))
        if users > self._plan.cohort:
            raise InvalidError(
                f"{users} users are more than the plan's cohort of {self._plan.cohort}: a sum of more updates modulo "
                f"2^{self._plan.bits} could wrap"
            )
        length = float(np.linalg.norm(vector.astype(np.float64)))
        if length > self._plan.bound * users * (1 + 1e-9):
            raise InvalidError(
                f"the sum of round {self.step + 1} is longer than its participants' updates can be: sum the arrays of "
                "encode(), with the masks removed"
            )
        return vector

    def add(self, total: Array) -> None:
        rest, bound = total.copy(), self._plan.bound
        while rest.any():  # an event has at most the length of one update
            part = np.clip(rest, -bound, bound)
            self._sums.add(self._places, part)
            rest -= part
        self._sums.tick()

    def release(self, total: Array, users: int, again: bool) -> npt.NDArray[np.float64]:
        del total, users
        running = self._read(again)
        noisy: npt.NDArray[np.float64] = (running - self._before) * (self._plan.norm / self._plan.bound)
        self._before = running
        return noisy

    def _read(self, again: bool) -> Array:
        # Noise is a function of key and round, and the record allows one sum for each round. So reads that a process
        # made before it ended without a state may be repeated.
        with allow_noise_reuse("the record allows one sum a round") if again else contextlib.nullcontext():
            return self._sums.read(self._places)["value"]

    def skip(self, again: bool) -> None:
        self._sums.tick()
        # The log of the key counts reads: it refuses the rounds of a state that is older than those it knows.
        self._read(again)

    def state(self) -> dict[str, Array]:
        return {"noise": np.frombuffer(self._sums.save(), np.uint8), "before": self._before}

    def restore(self, state: dict[str, Array]) -> None:
        plan, key, name = self._identity
        self._sums = LazyVector.restore(
            plan, key, name, state["noise"].tobytes(), sums=self._size, sampling="keyed"  # type: ignore[arg-type]
        )
        self._before = state["before"]
