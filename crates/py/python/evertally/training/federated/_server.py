"""The server of a federated run."""

from __future__ import annotations

import hashlib
import io
import json
import os
import random
import threading
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..._errors import HorizonExhausted, InvalidError, StateError
from ..._evertally import SecretKey
from ._lanes import ExactLane, FloatLane, Lane
from ._plan import RoundsPlan, flat
from ._record import Record, User, names_of

Array = npt.NDArray[Any]


class Server:
    """The server of a federated run: sums of clipped updates go in, private weights come out.

    ``weights`` are the initial weights: an array, or a list of arrays. ``folder`` keeps the record of who took part
    when, and the state after each round; with the same arguments a new process continues from it, bit for bit. Without
    a folder both are lost at the end of the process. ``name`` is for one run, as for :class:`VectorNoise`.

    A round is recorded with its participants before its noise is drawn, and the state is saved before the weights are
    returned. If the process ends in between, the round can be repeated with the same sum, or skipped.

    **As secret as the key**: the folder, this object and its states, because they hold noise. With ``bits`` in the plan
    the folder also holds exact sums.

    >>> import evertally as et, numpy as np
    >>> from evertally.training import federated
    >>> plan = federated.plan_rounds(4, population=4, cohort=2, rho=0.5)
    >>> server = federated.Server(plan, et.SecretKey.generate(), "run 1", [np.zeros((2, 2)), np.zeros(2)])
    >>> weights = server.step_updates({"ann": np.ones(6), "bob": np.ones(6)})
    >>> [part.shape for part in weights], server.eligible(["ann", "bob", "cid"])
    ([(2, 2), (2,)], ['cid'])
    >>> server.step_updates({"ann": np.ones(6)})
    Traceback (most recent call last):
    ...
    evertally.InvalidError: user ann may not take part in round 2: it has taken part 1 times, last in round 1, and ...
    """

    def __init__(
        self,
        plan: RoundsPlan,
        key: SecretKey,
        name: str,
        weights: npt.ArrayLike | Sequence[npt.ArrayLike],
        *,
        folder: str | os.PathLike[str] | None = None,
        threads: int = 1,
    ) -> None:
        self.plan, self.name = plan, name
        self._is_list = isinstance(weights, (list, tuple))
        parts = [np.asarray(part) for part in (weights if self._is_list else [weights])]  # type: ignore[union-attr]
        if any(not np.issubdtype(part.dtype, np.floating) for part in parts):
            raise InvalidError("weights must be arrays of floating-point numbers")
        self._shapes = [(part.shape, part.dtype) for part in parts]
        self._weights = flat(parts)
        if not np.isfinite(self._weights).all():
            raise InvalidError("the initial weights have a number that is NaN or infinite")
        self._momentum = np.zeros_like(self._weights)
        self._round = 0
        wide = np.result_type(*(part.dtype for part in parts))
        self._clipping = plan.clipping(len(self._weights))
        self._size = len(self._weights) if self._clipping is None else self._clipping.coordinates
        self._lane: Lane = (
            FloatLane(plan, key, name, self._size, wide, threads)
            if plan.bits is None
            else ExactLane(plan, key, name, self._size)
        )
        what = [plan.to_json(), name, key.id, [(shape, str(dtype)) for shape, dtype in self._shapes]]
        self._identity = hashlib.sha256(repr(what).encode()).digest()
        self._lock = threading.Lock()
        self._folder = Path(folder) if folder is not None else None
        if self._folder is not None:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._record = Record(self._folder and self._folder / "rounds.sqlite", self._identity)
        # The mark of the last round, and whether all parts of the state are of that round.
        self._mark, self._is_whole = b"", True
        if self._folder is not None and (self._folder / "state.npz").exists():
            self.load_state_dict(_read(self._folder / "state.npz"))

    @property
    def round(self) -> int:
        """The last round whose weights were released, or that was skipped; 0 before the first."""
        return self._round

    @property
    def weights(self) -> Any:
        """A copy of the weights: an array or a list of arrays, as the initial ones."""
        parts, first = [], 0
        for shape, dtype in self._shapes:
            size = int(np.prod(shape))
            parts.append(self._weights[first : first + size].reshape(shape).astype(dtype))
            first += size
        return parts if self._is_list else parts[0]

    @property
    def threshold(self) -> float:
        """The length to which the updates of the next round are clipped: the plan's norm, or the threshold that
        ``adaptive_clipping`` computed from earlier rounds. It may be published, and clients need it."""
        return self.plan.norm if self._clipping is None else self._clipping.threshold

    def epsilon_at(self, delta: float) -> float:
        """The ε of the rounds so far at this δ; 0 before the first."""
        return self.plan.noise.spent(self._round).epsilon_at(delta) if self._round else 0.0

    def eligible(self, users: Iterable[User]) -> list[User]:
        """Those of the users who may take part in the next round, in the same order."""
        users, number = list(users), self._round + 1
        return [user for user, name in zip(users, names_of(users)) if self._record.allows(number, name, self._limits)]

    def sample(self, users: Iterable[User], size: int | None = None) -> list[User]:
        """A cohort for the next round: ``size`` of the eligible users at random, or all if they are fewer. The default
        is the plan's cohort. The sample follows from the name, the round and the set of users, and is not secret: no
        guarantee counts on it."""
        eligible = self.eligible(users)
        eligible = [user for _, user in sorted(zip(names_of(eligible), eligible), key=lambda pair: pair[0])]
        drawn = random.Random(f"{self.name}/{self._round + 1}")
        return drawn.sample(eligible, min(len(eligible), self.plan.cohort if size is None else size))

    def clip(self, update: npt.ArrayLike | Sequence[npt.ArrayLike]) -> npt.NDArray[np.float64]:
        """An update as a flat vector, of length at most the plan's norm: :meth:`RoundsPlan.clip` with the threshold of
        the next round. An update that is not finite becomes 0."""
        return self.plan.clip(update, self._threshold)

    def step_updates(self, updates: Mapping[User, npt.ArrayLike | Sequence[npt.ArrayLike]]) -> Any:
        """Clips the updates of the users and takes the step with their sum. The order of the users does not matter."""
        names = names_of(updates)
        total: Array = np.zeros(self._size, np.int64 if self.plan.bits else np.float64)
        for name, update in sorted(zip(names, updates.values()), key=lambda pair: pair[0]):
            vector = flat(update)
            if len(vector) != len(self._weights):
                raise InvalidError(
                    f"the update of user {name} has {len(vector)} numbers, and the weights {len(self._weights)}"
                )
            if self.plan.bits:
                total += self.plan.encode(vector, self._threshold).astype(np.int64)
            else:
                total += self.clip(vector)
        return self.step(total, names)

    def step(self, sum_of_updates: npt.ArrayLike | Sequence[npt.ArrayLike], participants: Iterable[User]) -> Any:
        """Adds the noise of the next round to the sum of its participants' updates, moves the weights, and returns
        them.

        Each update must have been clipped to the plan's norm, and each participant counted once, without weights. The
        sum is a flat vector or has the shapes of the weights. With ``adaptive_clipping`` it is the sum of the vectors
        of :meth:`clip`. For a plan with ``bits`` it is the sum modulo 2^bits of
        arrays of :meth:`RoundsPlan.encode`. A round with few or no participants is a round like the others: its sum is
        divided by the planned cohort.

        Raises :class:`InvalidError` for a user that takes part too often or too soon, and for an impossible sum;
        :class:`StateError` if the round was begun with another sum; :class:`HorizonExhausted` after the last round.
        Nothing is released then.
        """
        users = names_of(participants)
        with self._lock:
            number = self._next()
            total = self._lane.checked(sum_of_updates, len(users))
            again = self._record.is_begun(number)
            begun = number, users, total.tobytes(), self._mark, self._limits
            self._record.check(*begun)
            self._is_whole = False
            self._lane.add(total)
            mark = self._record.commit(*begun)
            with self._withdrawn_if_refused(number, again):
                noisy = self._lane.release(total, len(users), again)
            mean = noisy / self.plan.cohort if self._clipping is None else self._clipping.decode(noisy)
            if self._clipping is not None:
                self._clipping.update(noisy)
            momentum = self.plan.momentum * self._momentum + mean
            weights = self._weights + self.plan.rate(number) * momentum
            self._keep(number, mark, weights, momentum)
            return self.weights

    def skip(self) -> None:
        """Passes over the next round without a release: its updates are lost, and its participants, if it was begun,
        still count.

        Raises :class:`StateError` if an earlier process, or this one before it loaded an older state, has completed the
        round.
        """
        with self._lock:
            number = self._next()
            again = self._record.is_begun(number)
            mark = self._record.skip(number, self._mark)
            self._is_whole = False
            with self._withdrawn_if_refused(number, again):
                self._lane.skip(again)
            self._keep(number, mark, self._weights, self._momentum)

    def state_dict(self) -> dict[str, Array]:
        """The state as a dictionary of arrays, as secret as the key. The record of participations is not part of it:
        it may never go back."""
        with self._lock:
            if not self._is_whole:
                raise StateError(self._interrupted)
            return self._state(self._round, self._mark, self._weights, self._momentum)

    def load_state_dict(self, state: Mapping[str, Array]) -> None:
        """Continues from a :meth:`state_dict` of the same run.

        Raises :class:`StateError` if the state belongs to another run, or if the record does not have its rounds.
        """
        try:
            kept = {name: np.array(part) for name, part in state.items()}
            if kept["identity"].tobytes() != self._identity:
                raise StateError("the state belongs to another run: its plan, key, name or parameters differ")
            number = int(kept["round"])
            mark, weights, momentum = kept["mark"].tobytes(), kept["weights"], kept["momentum"]
        except (KeyError, TypeError, ValueError) as damaged:
            if isinstance(damaged, StateError):
                raise
            raise StateError(f"the state is damaged: {damaged}") from None
        if self._record.last() < number:
            raise StateError(
                f"the record of participations ends at round {self._record.last()}, and the state is of round {number}"
                ": give the folder of the run"
            )
        with self._lock:
            self._is_whole = False
            self._restore_clipping(kept)
            self._lane.restore(kept)
            if self._lane.step != number or weights.shape != self._weights.shape or momentum.shape != weights.shape:
                raise StateError("the state is damaged: its parts are of different rounds or sizes")
            self._record.complete(number, mark)
            self._round, self._mark, self._weights, self._momentum = number, mark, weights, momentum
            self._is_whole = True

    def _restore_clipping(self, kept: Mapping[str, Array]) -> None:
        if self._clipping is None:
            return
        try:
            self._clipping.restore(json.loads(kept["clipping"].tobytes()))
        except (KeyError, ValueError) as damaged:
            raise StateError(f"the state is damaged: {damaged}") from None

    def close(self) -> None:
        """Closes the record."""
        self._record.close()

    @property
    def _threshold(self) -> float | None:
        """The argument of the plan's clip and encode."""
        return None if self._clipping is None else self._clipping.threshold

    @property
    def _limits(self) -> tuple[int, int]:
        return self.plan.participations, self.plan.separation

    def _next(self) -> int:
        if self._round == self.plan.horizon:
            raise HorizonExhausted(f"all {self._round} rounds of the plan are over: a longer run needs a new plan")
        if not self._is_whole:
            raise StateError(self._interrupted)
        return self._round + 1

    @contextmanager
    def _withdrawn_if_refused(self, number: int, again: bool) -> Iterator[None]:
        """A round that the log of the key refuses was not begun here: it would not be refused again."""
        try:
            yield
        except StateError:
            if not again:
                self._record.withdraw(number)
            raise

    @property
    def _interrupted(self) -> str:
        number = self._round + 1
        return f"round {number} ended before its state was saved: open the server again, or load its last state"

    def _keep(self, number: int, mark: bytes, weights: Array, momentum: Array) -> None:
        if self._folder is not None:
            _write(self._folder / "state.npz", self._state(number, mark, weights, momentum))
        self._record.complete(number, mark)
        self._round, self._mark, self._weights, self._momentum = number, mark, weights, momentum
        self._is_whole = True

    def _state(self, number: int, mark: bytes, weights: Array, momentum: Array) -> dict[str, Array]:
        own = {
            "identity": np.frombuffer(self._identity, np.uint8), "round": np.array(number),
            "mark": np.frombuffer(mark, np.uint8), "weights": weights, "momentum": momentum,
        }  # fmt: skip
        if self._clipping is not None:
            own["clipping"] = np.frombuffer(json.dumps(self._clipping.state()).encode(), np.uint8)
        return own | self._lane.state()

    def __repr__(self) -> str:
        last = "without an end" if self.plan.rounds is None else f"of {self.plan.rounds}"
        return f"Server({self.name!r}, {len(self._weights)} weights, round {self._round} {last})"


def _write(path: Path, state: Mapping[str, Array]) -> None:
    """Writes the file whole or not at all."""
    content = io.BytesIO()
    np.savez(content, allow_pickle=False, **state)
    new = path.with_name(path.name + ".new")
    file = os.open(new, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    with os.fdopen(file, "wb") as out:
        out.write(content.getbuffer())
        out.flush()
        os.fsync(out.fileno())
    os.replace(new, path)
    if os.name == "posix":
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _read(path: Path) -> dict[str, Array]:
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (OSError, ValueError, zipfile.BadZipFile) as damaged:
        raise StateError(f"{path} is damaged: {damaged}") from damaged
