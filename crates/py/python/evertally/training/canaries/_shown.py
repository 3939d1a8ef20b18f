"""The lower bound on ε of a finished audit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ... import budget
from ..._evertally import VectorPlan
from ._bets import Array
from ._bounds import epsilon_lower_bound, mu_lower_bound, mu_lower_bound_if_independent

#: Simulated runs of the plan that choose the number of guesses.
_REHEARSALS = 40


@dataclass(frozen=True)
class Shown:
    """Lower bounds on ε and μ from guesses about the canaries; they hold whatever the run does."""

    guesses: int
    right: int
    delta: float
    confidence: float
    #: No smaller ε at this δ is true of the run. Without sampling, the bound is on μ of Gaussian differential privacy,
    #: as the plan's guarantee is, and this is the ε of Gaussian noise with that μ.
    epsilon: float
    #: The plan's guarantee at this δ; with random allocation, against an adversary who knows the allocation.
    promised_epsilon: float
    #: No smaller μ is true of the run, if its canaries do not depend on one another; None with sampling.
    mu: float | None
    #: The plan's guarantee.
    promised_mu: float

    @property
    def refuted(self) -> bool:
        """Whether the bound on ε is above the plan's guarantee."""
        return self.epsilon > self.promised_epsilon


def shown(
    plan: VectorPlan, logs: Array, strengths: Array, present: npt.NDArray[np.bool_], delta: float, confidence: float
) -> Shown:
    """Guesses present for the highest scores and absent for the lowest. The number of guesses is the one with the best
    bound in simulated runs of the plan, so it does not depend on the run. For each canary and round, `logs` has the
    log-likelihood ratio of the release with and without the canary, and `strengths` the shift that the canary would
    cause."""
    fraction, groups = plan.sampled_fraction, plan.groups
    rate = None if fraction is None or groups is None else fraction * groups
    canaries = len(logs)

    def bound(guesses: int, right: int) -> float:
        if rate is not None:
            return epsilon_lower_bound(canaries, guesses, right, delta=delta, confidence=confidence)
        mu = mu_lower_bound(canaries, guesses, right, confidence=confidence)
        return budget.epsilon_of_gaussian(mu, delta) if mu > 0.0 else 0.0

    replaced = rate is not None and plan.neighbours == "replace-one"
    scores = _scores(logs, rate, strengths if replaced else None)
    guesses = _best_number(strengths, rate, bound, replaced)
    right = _right(scores, present, guesses)
    return Shown(
        guesses=guesses,
        right=right,
        delta=delta,
        confidence=confidence,
        epsilon=bound(guesses, right),
        # An audit knows the allocation of its canaries: the guarantee is weaker then.
        promised_epsilon=plan.guarantee.epsilon_at(delta)
        if plan.steps_per_epoch is None
        else budget.epsilon_of_gaussian(plan.guarantee.mu, delta),
        mu=None
        if rate is not None
        else mu_lower_bound_if_independent(canaries, _right(scores, present, canaries), confidence=confidence),
        promised_mu=plan.guarantee.mu,
    )


def _scores(logs: Array, rate: float | None, replaced: Array | None) -> Array:
    """Combines the rounds: in each the canary takes part with probability `rate`, or without sampling in the only one.
    A canary that is replaced takes part in either case, with opposite shifts: `replaced` has their sizes."""
    if rate is None:
        return np.asarray(logs.sum(axis=1))
    present = _mixed(logs, rate)
    return np.asarray((present if replaced is None else present - _mixed(-logs - replaced**2, rate)).sum(axis=1))


def _mixed(logs: Array, rate: float) -> Array:
    return logs if rate >= 1.0 else np.asarray(np.logaddexp(np.log1p(-rate), np.log(rate) + logs))


def _best_number(
    strengths: Array, rate: float | None, bound: Callable[[int, int], float], replaced: bool
) -> int:
    canaries = len(strengths)
    rng = np.random.default_rng(0)
    numbers = sorted({max(1, canaries // part) for part in (1, 2, 4, 8, 16, 32)})
    right = np.zeros(len(numbers))
    for _ in range(_REHEARSALS):
        present = rng.integers(0, 2, canaries).astype(bool)
        signs = np.where(present, 1.0, -1.0 if replaced else 0.0)
        taken = signs[:, None] * (rng.random(strengths.shape) < (1.0 if rate is None else rate))
        logs = strengths * rng.standard_normal(strengths.shape) + strengths**2 * (taken - 0.5)
        scores = _scores(logs, rate, strengths if replaced else None)
        right += [_right(scores, present, number) for number in numbers]
    bounds = [bound(number, int(mean)) for number, mean in zip(numbers, right / _REHEARSALS, strict=True)]
    return numbers[int(np.argmax(bounds))] if max(bounds) > 0.0 else canaries


def _right(scores: Array, present: npt.NDArray[np.bool_], guesses: int) -> int:
    """The number of right guesses; half of the guesses are about the lowest scores, and the others about the
    highest."""
    order = np.argsort(scores, kind="stable")
    low, high = order[: guesses // 2], order[len(order) - (guesses - guesses // 2) :]
    return int((~present[low]).sum() + present[high].sum())
