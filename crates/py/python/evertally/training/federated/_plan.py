"""Plans of federated runs."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from ..._errors import InvalidError
from ..._evertally import Plan, VectorPlan
from ..._functions import plan_lazy, plan_vector
from ..moments import AdaptiveClipping, Clipping

#: Rounds of a plan without an end: 30,000 years of a round every second.
_ENDLESS = 2**40
#: An update is at most this long on the integer grid, so that the squared lengths of rounded updates fit into 64 bits.
_LONGEST = 2**30

Rates: TypeAlias = float | tuple[float, ...]


@dataclasses.dataclass(frozen=True)
class RoundsPlan:
    """The public plan of a federated run, made by :func:`plan_rounds`.

    ``noise`` is the plan of the noise, ``rounds`` the number of rounds (``None`` without an end), ``cohort`` the
    planned participants of a round: sums are divided by it, not by the actual number. ``bits`` is the logarithm of the
    modulus of secure aggregation, or ``None`` for sums of floating-point numbers. With ``adaptive_clipping`` updates
    are clipped to a threshold that follows a quantile of their lengths, and ``norm`` is only a unit.

    >>> from evertally.training import federated
    >>> plan = federated.plan_rounds(None, population=10**6, cohort=1000, participations=8, rho=0.5)
    >>> plan.rounds, plan.participations, plan.separation
    (None, 8, 1000)
    >>> federated.RoundsPlan.from_json(plan.to_json()) == plan
    True
    """

    noise: VectorPlan | Plan
    rounds: int | None
    population: int
    cohort: int
    separation: int
    participations: int
    norm: float
    learning_rate: Rates
    momentum: float
    bits: int | None
    adaptive_clipping: AdaptiveClipping | None = None

    def __post_init__(self) -> None:
        """Raises InvalidError if the fields are not those for which the noise was planned."""
        kind = VectorPlan if self.bits is None else Plan
        if not isinstance(self.noise, kind):
            raise InvalidError(f"the noise of this RoundsPlan must be a {kind.__name__}")
        if isinstance(self.noise, VectorPlan):
            noise = self.noise
            planned = {"participations": noise.participations, "separation": noise.separation, "norm": noise.norm}
        else:
            text = json.loads(self.noise.to_json())
            unit = text["unit"]["person"]
            planned = {"participations": unit["max_events"], "separation": unit["min_gap"] or 1}
            planned["bound"] = text["values"]["sum"]["upper"]
        for name, value in {"horizon": self.noise.horizon, **planned}.items():
            if getattr(self, name) != value:
                raise InvalidError(
                    f"{name} is {getattr(self, name)} in this RoundsPlan, but its noise is planned for {value}: make "
                    "another plan with plan_rounds()"
                )
        if not 1 <= self.cohort <= self.population:
            raise InvalidError(f"cohort must be 1 to {self.population}, the population, got {self.cohort}")

    @property
    def horizon(self) -> int:
        """The last round for which there is noise."""
        return _ENDLESS if self.rounds is None else self.rounds

    @property
    def bound(self) -> int:
        """The length of the longest update on the integer grid, for secure aggregation."""
        if self.bits is None:
            raise InvalidError("the plan has no integer grid: plan with bits=32")
        return _bound(self.bits, self.cohort)

    def rate(self, number: int) -> float:
        """The server's learning rate in a round (from 1)."""
        return self.learning_rate if isinstance(self.learning_rate, float) else self.learning_rate[number - 1]

    def epsilon_at(self, delta: float) -> float:
        """The ε of the whole run at this δ."""
        return self.noise.guarantee.epsilon_at(delta)

    def clipping(self, size: int) -> Clipping | None:
        """The clipping of updates with ``size`` numbers and its threshold, at the first round; ``None`` if the norm is
        fixed."""
        if self.adaptive_clipping is None:
            return None
        if isinstance(self.noise, VectorPlan):
            return Clipping.for_plan(self.noise, [size], self.cohort, adaptive=self.adaptive_clipping)
        made = Clipping(
            self.norm, [size], self.cohort, adaptive=self.adaptive_clipping, noise_std=self._exact_std(self.noise)
        )
        made.warn_if_slow(self.horizon)
        return made

    def _exact_std(self, noise: Plan) -> float:
        """About the largest standard deviation of a round's noise on the integer grid, in units of updates. In the tree
        a round's noise is largest after a power of two."""
        rounds = [2**power for power in range(1, 11) if 2**power <= self.horizon]
        variances = [
            noise.covariance(number, number) + noise.covariance(number - 1, number - 1)
            - 2 * noise.covariance(number, number - 1)
            for number in rounds
        ]  # fmt: skip
        return math.sqrt(max([noise.covariance(1, 1), *variances])) * self.norm / self.bound

    def clip(
        self, update: npt.ArrayLike | Sequence[npt.ArrayLike], threshold: float | None = None
    ) -> npt.NDArray[np.float64]:
        """An update as a flat vector of length at most :attr:`norm`. An update with a number that is not finite becomes
        0.

        With ``adaptive_clipping`` the vector has one more number: whether the update was within the ``threshold``,
        which is that of the server in this round.

        >>> from evertally.training import federated
        >>> adaptive = federated.AdaptiveClipping(quantile=0.5, initial=1.0)
        >>> plan = federated.plan_rounds(20, population=100, cohort=10, rho=0.5, adaptive_clipping=adaptive)
        >>> plan.clip([30.0, 40.0], threshold=2.0).round(3).tolist()
        [0.585, 0.78, -0.224]
        """
        if self.adaptive_clipping is not None:
            return self._adapted(flat(update), threshold)
        if threshold is not None:
            raise InvalidError("threshold is for plans with adaptive_clipping: this plan has a fixed norm")
        vector = flat(update)
        with np.errstate(over="ignore", invalid="ignore"):
            length = float(np.sqrt(vector @ vector))
        if not math.isfinite(length):
            most = float(np.max(np.abs(vector), initial=0.0))
            if not math.isfinite(most):
                return np.zeros_like(vector)
            vector = vector / most  # finite numbers whose squares overflow
            length = float(np.sqrt(vector @ vector))
            return vector * (self.norm / length)
        return vector if length <= self.norm else vector * (self.norm / length)

    def _adapted(self, vector: npt.NDArray[np.float64], threshold: float | None) -> npt.NDArray[np.float64]:
        if threshold is None:
            raise InvalidError("threshold is missing: give that of the server, because the plan has adaptive_clipping")
        assert self.adaptive_clipping is not None
        now = dataclasses.replace(self.adaptive_clipping, initial=threshold, least=threshold, most=threshold)
        clipping = Clipping(self.norm, [len(vector)], self.cohort, adaptive=now)
        with np.errstate(over="ignore", invalid="ignore"):
            factors, mark = clipping.weigh(np.sqrt([[vector @ vector]]))
        scaled = vector * factors[0] if factors[0] > 0 else np.zeros_like(vector)
        return np.append(scaled, mark[0])

    def encode(
        self, update: npt.ArrayLike | Sequence[npt.ArrayLike], threshold: float | None = None
    ) -> npt.NDArray[np.uint64]:
        """An update for secure aggregation: clipped, rounded to the integer grid, modulo 2^bits. Clients send it
        masked, and the sum of these arrays modulo 2^bits is the argument of :meth:`Server.step`.

        The length on the grid is at most :attr:`bound`, exactly, so that rounding needs no additional noise.

        >>> from evertally.training import federated
        >>> plan = federated.plan_rounds(20, population=100, cohort=10, rho=0.5, bits=16)
        >>> plan.bound, plan.encode([0.6, -8.0]).tolist()
        (3276, [245, 62270])
        """
        bound = self.bound
        scaled = self.clip(update, threshold) * (bound / self.norm)
        whole = np.rint(scaled).astype(np.int64)
        while int(whole @ whole) > bound * bound:  # fits: whole is shorter than 2^30 plus half the root of its size
            whole = np.trunc(scaled).astype(np.int64)
            scaled = scaled * (1.0 - 2.0**-40)
        return whole.astype(np.uint64) & np.uint64(2**self._bits - 1)

    def lift(self, total: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """The sum of at most :attr:`cohort` updates from its remainders modulo 2^bits. It cannot have wrapped: its
        coordinates are at most ``cohort · bound`` < 2^(bits-1)."""
        remainders = np.asarray(total)
        if remainders.ndim != 1 or not np.issubdtype(remainders.dtype, np.integer):
            raise InvalidError("a plan with bits needs a flat array of integers: the sum of the arrays of encode()")
        half = 2 ** (self._bits - 1)
        # The lowest bits of an integer of any width and sign are the remainder.
        whole = (remainders.astype(np.uint64) & np.uint64(2 * half - 1)).astype(np.int64)
        return np.where(whole >= half, whole - 2 * half, whole)

    @property
    def _bits(self) -> int:
        assert self.bits is not None
        return self.bits

    def to_json(self) -> str:
        """The plan as text, for :meth:`from_json`."""
        fields = {each.name: getattr(self, each.name) for each in dataclasses.fields(self)}
        adaptive = None if self.adaptive_clipping is None else dataclasses.asdict(self.adaptive_clipping)
        return json.dumps(fields | {"noise": self.noise.to_json(), "adaptive_clipping": adaptive})

    @staticmethod
    def from_json(text: str) -> RoundsPlan:
        """The plan from its text. Raises :class:`InvalidError` if it is not one."""
        try:
            fields: dict[str, Any] = json.loads(text)
            rates = fields["learning_rate"]
            kind = VectorPlan if fields["bits"] is None else Plan
            adaptive = fields["adaptive_clipping"]
            made = {
                "noise": kind.from_json(fields["noise"]),
                "learning_rate": _rates(rates),
                "adaptive_clipping": None if adaptive is None else AdaptiveClipping(**adaptive),
            }
            return RoundsPlan(**(fields | made))
        except (KeyError, TypeError, json.JSONDecodeError) as wrong:
            raise InvalidError(f"this is not the text of a RoundsPlan: {wrong}") from None


def plan_rounds(
    rounds: int | None,
    *,
    population: int,
    cohort: int,
    separation: int | None = None,
    participations: int | None = None,
    norm: float = 1.0,
    epsilon: float | None = None,
    delta: float | None = None,
    rho: float | None = None,
    neighbours: Literal["add-remove", "replace-one"] = "add-remove",
    learning_rate: float | Sequence[float] = 1.0,
    momentum: float = 0.0,
    mechanism: str | None = "blt",
    bits: int | None = None,
    adaptive_clipping: AdaptiveClipping | None = None,
) -> RoundsPlan:
    """Plans a federated run of some rounds (``None``: without an end) with user-level privacy.

    Users:
        ``population``: Number of users; public.
        ``cohort``: Planned number of participants of a round; public. Sums are divided by it.
        ``separation``: Minimum number of rounds from one participation of a user to the next. By default as many as the
            population allows: ``population // cohort``.
        ``participations``: Maximum number of rounds in which a user takes part. By default as many as the separation
            allows. A run without an end needs it, as a limit for the whole life of the run.

    Privacy:
        ``norm``: The clipping norm: the largest length of an update, over all parameters together.
        ``adaptive_clipping``: A clipping norm that follows a quantile of the lengths of updates, under the same budget.
            ``norm`` is then only a unit.
        ``epsilon``, ``delta``, ``rho``: The budget of the whole run, for one user.
        ``neighbours``: Whether the updates of a user are present or 0, or replaced by others.

    Server:
        ``learning_rate``: The rate with which the mean update is added to the weights, or one for each round.
        ``momentum``: Momentum of the server: ``m = momentum · m + mean update``.

    Noise:
        ``mechanism``: How the noise is correlated over rounds. The default needs memory for a few copies of the weights
            for any number of rounds; "input" is independent noise; ``None`` chooses the least error.
        ``bits``: For secure aggregation: the logarithm of its modulus, 8 to 40. Updates are then integers, and the
            noise is discrete and exact, of a tree over the rounds.

    Raises :class:`InvalidError` if the population is too small for the cohorts, or an argument is out of range.

    >>> from evertally.training import federated
    >>> asked = {"population": 1000, "cohort": 50, "epsilon": 8.0, "delta": 1e-4}
    >>> correlated = federated.plan_rounds(200, **asked)
    >>> independent = federated.plan_rounds(200, **asked, mechanism="input")
    >>> independent.noise.max_std_error > 3 * correlated.noise.max_std_error
    True
    """
    rates = _rates(learning_rate)
    _check(rounds, population, cohort, rates, momentum, bits)
    separation = _separation(rounds, population, cohort, separation)
    if participations is None:
        if rounds is None:
            raise InvalidError(
                "participations is missing: a run without an end needs the maximum number of rounds of "
                "a user"
            )
        participations = -(-rounds // separation)
    if rounds is not None and rounds * cohort > population * participations:
        raise InvalidError(
            f"{rounds} rounds of {cohort} users are more than {population} users in {participations} rounds each: "
            "plan fewer rounds, a smaller cohort or more participations"
        )
    horizon = _ENDLESS if rounds is None else rounds
    budget: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "rho": rho, "neighbours": neighbours}
    noise: VectorPlan | Plan
    if bits is None:
        # Without an end there is no last round at which the errors of the weights could be minimised.
        optimizer: dict[str, Any] = {}
        if rounds is not None:
            rate = rates if isinstance(rates, float) else list(rates)
            optimizer = {"learning_rate": rate, "momentum": momentum}
        noise = plan_vector(
            horizon, norm=norm, participations=participations, separation=separation, mechanism=mechanism,
            max_memory=8, **budget, **optimizer,
        )  # fmt: skip
    else:
        bound = _bound(bits, cohort)
        # Every entry of this tree's right factor is 0 or 1. So the worst vectors of length `bound` in the rounds of a
        # user all have one direction, and the sensitivity is that of numbers from -bound to bound.
        noise = plan_lazy(
            horizon, bounds=(-bound, bound), max_events=participations, max_events_per_step=1, min_gap=separation,
            noise="gaussian", mechanism="smooth", sampling="keyed", **budget,
        )  # fmt: skip
    return RoundsPlan(
        noise, rounds, population, cohort, separation, participations, float(norm), rates, float(momentum), bits,
        adaptive_clipping,
    )  # fmt: skip


def flat(update: npt.ArrayLike | Sequence[npt.ArrayLike]) -> npt.NDArray[np.float64]:
    """All numbers of an array, or of a sequence of arrays, in one vector."""
    if isinstance(update, np.ndarray):
        return update.astype(np.float64).ravel()
    if isinstance(update, (list, tuple)) and update and not np.isscalar(update[0]):
        return np.concatenate([np.asarray(part, np.float64).ravel() for part in update])
    return np.asarray(update, np.float64).ravel()


def _bound(bits: int, cohort: int) -> int:
    """The length of an update on the grid: sums of a cohort stay below 2^(bits-1)."""
    return min(_LONGEST, ((1 << (bits - 1)) - 1) // cohort)


def _rates(rates: float | Sequence[float]) -> Rates:
    return float(rates) if isinstance(rates, (int, float)) else tuple(float(rate) for rate in rates)


def _check(
    rounds: int | None, population: int, cohort: int, rates: Rates, momentum: float, bits: int | None
) -> None:
    if rounds is not None and rounds < 1:
        raise InvalidError(f"rounds must be at least 1, or None for a run without an end, got {rounds}")
    if not 1 <= cohort <= population:
        raise InvalidError(f"cohort must be 1 to {population}, the population, got {cohort}")
    if not 0 <= momentum < 1:
        raise InvalidError(f"momentum must be at least 0 and below 1, got {momentum}")
    if not isinstance(rates, float) and len(rates) != rounds:
        raise InvalidError(f"there are {len(rates)} learning rates for {rounds} rounds: give one for each, or one")
    if bits is not None and not (8 <= bits <= 40 and cohort < 2 ** (bits - 1)):
        raise InvalidError(f"bits must be 8 to 40, and enough for a sum of {cohort} updates, got {bits}")


def _separation(rounds: int | None, population: int, cohort: int, separation: int | None) -> int:
    most = population // cohort
    if separation is None:
        return most if rounds is None else min(most, rounds)
    if not 1 <= separation <= most:
        raise InvalidError(
            f"separation must be 1 to {most}: {population} users fill only {most} rounds of {cohort} before one has to "
            f"take part again, got {separation}"
        )
    return separation
