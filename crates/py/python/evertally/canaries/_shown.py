"""The lower bound on ε that a finished audit shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .. import budget
from .._evertally import VectorPlan
from ._bets import Array
from ._bounds import epsilon_lower_bound, mu_lower_bound, mu_lower_bound_if_independent

#: Runs that are drawn by the plan, to choose how many guesses are made.
_REHEARSALS = 40


@dataclass(frozen=True)
class Shown:
    """What guesses about the canaries show, whatever the run does."""

    guesses: int
    right: int
    delta: float
    confidence: float
    #: No (ε, δ) below this is true of the run. Without lots the bound is one on μ of Gaussian differential privacy, as the
    #: promise is, and this the ε that Gaussian noise has with that μ.
    epsilon: float
    #: What the plan promises at this δ; with bins, to whoever knows them.
    promised_epsilon: float
    #: No μ below this is true of the run, if its canaries do not depend on one another; None with lots.
    mu: float | None
    #: What the plan promises.
    promised_mu: float

    @property
    def refuted(self) -> bool:
        """Whether the bound on ε is above what is promised."""
        return self.epsilon > self.promised_epsilon


def shown(
    plan: VectorPlan, logs: Array, strengths: Array, present: npt.NDArray[np.bool_], delta: float, confidence: float
) -> Shown:
    """Guesses present for the highest scores and absent for the lowest, as many as would have shown most in runs that
    are drawn by the plan: a number that does not depend on the run. Of each canary and round `logs` has the logarithm
    of how much likelier what was released is with the canary, and `strengths` by how much it would move."""
    rate = None if plan.sampled is None or plan.groups is None else plan.sampled * plan.groups
    canaries = len(logs)

    def bound(guesses: int, right: int) -> float:
        if rate is not None:
            return epsilon_lower_bound(canaries, guesses, right, delta=delta, confidence=confidence)
        mu = mu_lower_bound(canaries, guesses, right, confidence=confidence)
        return budget.epsilon_of_gaussian(mu, delta) if mu > 0.0 else 0.0

    scores = _scores(logs, rate)
    guesses = _best_number(strengths, rate, bound)
    right = _right(scores, present, guesses)
    return Shown(
        guesses=guesses,
        right=right,
        delta=delta,
        confidence=confidence,
        epsilon=bound(guesses, right),
        # Whoever looks at canaries knows their bins: what is promised then is less.
        promised_epsilon=plan.guarantee.epsilon_at(delta)
        if plan.bins is None and plan.fresh_bins is None
        else budget.epsilon_of_gaussian(plan.guarantee.mu, delta),
        mu=None
        if rate is not None
        else mu_lower_bound_if_independent(canaries, _right(scores, present, canaries), confidence=confidence),
        promised_mu=plan.guarantee.mu,
    )


def _scores(logs: Array, rate: float | None) -> Array:
    """Rounds together: in each the canary takes part with chance `rate`, or without lots in the only one."""
    if rate is None or rate >= 1.0:
        return np.asarray(logs.sum(axis=1))
    return np.asarray(np.logaddexp(np.log1p(-rate), np.log(rate) + logs).sum(axis=1))


def _best_number(strengths: Array, rate: float | None, bound: Callable[[int, int], float]) -> int:
    canaries = len(strengths)
    rng = np.random.default_rng(0)
    numbers = sorted({max(1, canaries // part) for part in (1, 2, 4, 8, 16, 32)})
    right = np.zeros(len(numbers))
    for _ in range(_REHEARSALS):
        present = rng.integers(0, 2, canaries).astype(bool)
        taken = present[:, None] & (rng.random(strengths.shape) < (1.0 if rate is None else rate))
        logs = strengths * rng.standard_normal(strengths.shape) + strengths**2 * (taken - 0.5)
        scores = _scores(logs, rate)
        right += [_right(scores, present, number) for number in numbers]
    bounds = [bound(number, int(mean)) for number, mean in zip(numbers, right / _REHEARSALS, strict=True)]
    return numbers[int(np.argmax(bounds))] if max(bounds) > 0.0 else canaries


def _right(scores: Array, present: npt.NDArray[np.bool_], guesses: int) -> int:
    """Of guesses about the highest scores, and half as many as there are in all about the lowest."""
    order = np.argsort(scores, kind="stable")
    low, high = order[: guesses // 2], order[len(order) - (guesses - guesses // 2) :]
    return int((~present[low]).sum() + present[high].sum())
