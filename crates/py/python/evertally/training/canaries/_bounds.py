"""Lower bounds on privacy parameters from guesses which canaries took part: one run, many canaries.

Both theorems are about `m` examples, the canaries. Each takes part according to an independent fair coin that only the
auditor knows. From the releases of the run the auditor makes `r` guesses and abstains from the rest; `v` guesses are
right. Which canaries are guessed may depend on the releases; their number may not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

__all__ = [
    "epsilon_lower_bound",
    "mu_lower_bound",
    "mu_lower_bound_if_independent",
    "p_value_of_epsilon",
    "p_value_of_mu",
]

_NORMAL = NormalDist()
#: Bounds are searched up to here: even if all guesses are right, any audit that fits in memory stays below.
_LARGEST = 100.0


def p_value_of_epsilon(canaries: int, guesses: int, right: int, *, epsilon: float, delta: float = 0.0) -> float:
    """Upper bound on the probability of at least `right` right guesses, for every (ε, δ)-differentially private run.

    Neighbours differ in the presence of one canary. Steinke, Nasr, Jagielski 2023, "Privacy auditing with one (1)
    training run" (arXiv 2305.08846), Theorem 5.2: with `W` binomial, `r` trials of probability `e^ε / (1 + e^ε)`, it is
    `P[W ≥ v] + 2 m δ max_i P[v - i ≤ W < v] / i`. Tails are sums of all terms, not approximations.

    >>> from evertally.training.canaries import p_value_of_epsilon
    >>> p_value_of_epsilon(2, 2, 2, epsilon=0.0)
    0.25
    """
    _check_guesses(canaries, guesses, right)
    if not 0.0 <= epsilon < math.inf:
        raise ValueError(f"epsilon is {epsilon}: give a number that is not negative")
    _check_delta(delta)
    return _p_value_of_epsilon(canaries, right, delta, _log_choose(guesses), epsilon)


def epsilon_lower_bound(
    canaries: int, guesses: int, right: int, *, delta: float = 0.0, confidence: float = 0.95
) -> float:
    """A lower bound on the ε of an (ε, δ)-differentially private run, valid with the given confidence.

    From :func:`p_value_of_epsilon`; rounded down by up to 10⁻⁹. 0 if the guesses show nothing.

    >>> from evertally.training.canaries import epsilon_lower_bound
    >>> round(epsilon_lower_bound(1000, 100, 75, delta=1e-4), 3)
    0.673
    """
    _check_guesses(canaries, guesses, right)
    _check_delta(delta)
    choose = _log_choose(guesses)
    return _largest_refuted(lambda e: _p_value_of_epsilon(canaries, right, delta, choose, e), confidence)


def p_value_of_mu(canaries: int, guesses: int, right: int, *, mu: float) -> float:
    """Upper bound on the probability of at least `right` right guesses, for every μ-Gaussian differentially private
    run.

    Mahloujifar, Melis, Chaudhuri 2024, "Auditing f-differential privacy in one run" (arXiv 2410.22235). With `p_j` the
    probability of exactly `j` right guesses, `A_i = Σ_(j≥i) j p_j / m` and `B_i = Σ_(j≥i) (r - j + 1) p_(j-1) / m`,
    tossing one coin again shows `B_i ≥ Φ(Φ⁻¹(A_i) - μ)` for every `i`. A tail `Σ_(j≥v) p_j` that is too heavy would
    make `A_0 + B_1`, which is `r / m`, larger than that. It holds for every run, also for one that rarely reveals all
    canaries at once; so it is far weaker than a bound for independent noise for each of them. The result exceeds the
    boundary of the refuted values by up to 10⁻⁹ of it.

    >>> from evertally.training.canaries import p_value_of_mu
    >>> p_value_of_mu(200, 200, 100, mu=0.5) > 0.5, p_value_of_mu(200, 200, 150, mu=0.5) < 0.1
    (True, True)
    """
    _check_guesses(canaries, guesses, right)
    if not 0.0 <= mu < math.inf:
        raise ValueError(f"mu is {mu}: give a number that is not negative")
    if right == 0 or not _is_too_much(canaries, guesses, right, mu, 1.0 - 1e-12):
        return 1.0
    low, high = -700.0, 0.0  # logarithms; the refuted values are an interval that ends at 1
    if _is_too_much(canaries, guesses, right, mu, math.exp(low)):
        return math.exp(low)
    while high - low > 1e-9:
        middle = (low + high) / 2
        if _is_too_much(canaries, guesses, right, mu, math.exp(middle)):
            high = middle
        else:
            low = middle
    return math.exp(high)


def mu_lower_bound(canaries: int, guesses: int, right: int, *, confidence: float = 0.95) -> float:
    """A lower bound on the μ of a μ-Gaussian differentially private run, valid with the given confidence.

    From :func:`p_value_of_mu`; rounded down by up to 10⁻⁹. 0 if the guesses show nothing.

    >>> from evertally.training.canaries import mu_lower_bound
    >>> mu_lower_bound(200, 200, 100), 0.4 < mu_lower_bound(200, 200, 150) < 0.5
    (0.0, True)
    """
    _check_guesses(canaries, guesses, right)
    # One test at the requested level instead of a p-value: the same result, faster.
    level = 1.0 - _check_confidence(confidence)

    def p_value(mu: float) -> float:
        return 0.0 if right and _is_too_much(canaries, guesses, right, mu, level) else 1.0

    return _largest_refuted(p_value, confidence)


def mu_lower_bound_if_independent(canaries: int, right: int, *, confidence: float = 0.95) -> float:
    """As :func:`mu_lower_bound`, for guesses about all canaries that are right or wrong independently of one another.

    This is the case if every canary has its own coordinates, their noise is independent, and the guess about it reads
    only these. A guess is then right with probability at most `Φ(μ/2)` (Dong, Roth, Su 2022, "Gaussian differential
    privacy": the trade-off curve where both errors are equal), and the number of right guesses is stochastically below
    a binomial one. Abstaining would need another bound: guess about all canaries. Rounded down by up to 10⁻⁹.

    >>> from evertally.training.canaries import mu_lower_bound, mu_lower_bound_if_independent
    >>> mu_lower_bound_if_independent(1000, 690) > 0.8 > 2 * mu_lower_bound(1000, 1000, 690)
    True
    """
    _check_guesses(canaries, canaries, right)
    choose, counts = _log_choose(canaries), np.arange(canaries + 1)

    def p_value(mu: float) -> float:
        log_q, log_rest = math.log(_NORMAL.cdf(mu / 2)), math.log(max(_NORMAL.cdf(-mu / 2), 5e-324))
        terms = np.exp(choose + counts * log_q + (canaries - counts) * log_rest)
        return math.fsum(terms[right:])

    return _largest_refuted(p_value, confidence)


def _largest_refuted(p_value: Callable[[float], float], confidence: float) -> float:
    """The parameter at which p-values exceed the level. If a value is refuted, all smaller ones are: a run that is
    private with a smaller parameter is private with a larger one, so guesses that refute the larger one refute the
    smaller one, too."""
    level = 1.0 - _check_confidence(confidence)
    if p_value(0.0) > level:
        return 0.0
    low, high = 0.0, 1.0
    while p_value(high) <= level:
        low, high = high, 2.0 * high
        if low > _LARGEST:
            return low
    while high - low > 1e-9:
        middle = (low + high) / 2
        if p_value(middle) <= level:
            low = middle
        else:
            high = middle
    return low


def _log_choose(n: int) -> npt.NDArray[np.float64]:
    """Logarithms of the binomial coefficients of n."""
    factorials = np.array([math.lgamma(k + 1.0) for k in range(n + 1)])
    return np.asarray(factorials[n] - factorials - factorials[::-1])


def _p_value_of_epsilon(
    canaries: int, right: int, delta: float, log_choose: npt.NDArray[np.float64], epsilon: float
) -> float:
    counts = np.arange(len(log_choose))
    guesses = len(log_choose) - 1
    # ln q and ln (1 - q) without a difference that cancels.
    log_q, log_rest = -math.log1p(math.exp(-epsilon)), -epsilon - math.log1p(math.exp(-epsilon))
    terms = np.exp(log_choose + counts * log_q + (guesses - counts) * log_rest)
    tail = math.fsum(terms[right:])
    if delta == 0.0 or right == 0:
        return min(tail, 1.0)
    below = np.cumsum(terms[:right][::-1])
    return min(tail + 2.0 * canaries * delta * float(np.max(below / np.arange(1, right + 1))), 1.0)


def _is_too_much(canaries: int, guesses: int, right: int, mu: float, tail: float) -> bool:
    """Whether no μ-Gaussian differentially private run has at least `right` right guesses with probability `tail`.

    `A` and `B` are lower bounds on `A_i` and `B_(i+1)`, from i = v down to 0, except for the first `B`, which is the
    rest of the tail. `A_i` rises by `i p_i / m` and `B_(i+1)` by `(r - i) p_i / m`, so that with weights `i / (r - i)`,
    which fall as i does, a larger `B` at one place makes no later bound smaller.
    """
    a, b = tail * right / canaries, tail * (guesses - right) / canaries
    for i in range(right - 1, -1, -1):
        least = _NORMAL.cdf(_NORMAL.inv_cdf(a) - mu) if 0.0 < a < 1.0 else float(a >= 1.0)
        if least <= b:
            break  # from here on neither bound changes
        a, b = a + i / (guesses - i) * (least - b), least
    return a + b > guesses / canaries * (1.0 + 1e-12)


def _check_guesses(canaries: int, guesses: int, right: int) -> None:
    if not 0 <= right <= guesses <= canaries or canaries < 1:
        raise ValueError(
            f"{right} right guesses of {guesses} about {canaries} canaries: there cannot be more right guesses than "
            "guesses, nor more guesses than canaries"
        )


def _check_delta(delta: float) -> None:
    if not 0.0 <= delta < 1.0:
        raise ValueError(f"delta is {delta}: give a number from 0, below 1")


def _check_confidence(confidence: float) -> float:
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence is {confidence}: give a number between 0 and 1")
    return confidence
