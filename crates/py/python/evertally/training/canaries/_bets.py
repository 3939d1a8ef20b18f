"""Bets against a run that keeps its plan: their wealth grows if the run does not, and is a test at every step.

Bets are on the innovations: the released coordinates of a step, whitened by the plan's covariances. **A run that
keeps its plan** has the plan's noise, times a factor of at least one, and each canary adds its clipped vector to every
one of its steps, or all canaries add the same share of it. Given everything earlier, the innovations minus their means,
`r`, are then

* normal with a variance of at least 1, so that `exp(-r² (1/ρ² - 1) / 2) / ρ` for ρ < 1 is at most 1 in the mean,
* symmetric around a number that does not lie on the side of the bet, so that `1 + tanh(Δ r)` is at most 1 in the mean.
  That is the best bet on a shift by Δ against every symmetric law: `N(Δ, 1)` over the mixture of it and `N(-Δ, 1)`.

So products of such factors, and mixtures of products, are supermartingales that start at 1, and exceed `1/α` at any
time with probability at most α (Ville's inequality). Testing by betting: Shafer 2021; Waudby-Smith, Ramdas 2024 (arXiv
2010.09686). Sequential audits of differential privacy: González, Dulce-Rubio, Ramdas, Ribero 2025 (arXiv 2509.07055).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

LARGER = (1.1, 1.3, 2.0, 4.0, 100.0)
SMALLER = (0.97, 0.9, 0.75, 0.5, 0.1, 0.01)
SHARES = (0.03, 0.1, 0.3, 1.0)
#: Maximum number of steps by which repeated batches may be earlier or later.
APART = 32

#: Families of bets, and the usual cause if one wins.
REASONS = {
    "larger": "contributions are larger than the clipping norm: a sum is counted twice, or clipping is missing, "
    "applied to each tensor separately, or to another norm",
    "outweighs": "a canary outweighs the other contributions to its sum: sums of several examples are clipped instead "
    "of single examples (a micro-batch's gradient), or clipping is missing",
    "elsewhere": "examples take part in steps that are not theirs: batches differ from the plan's, or there are more "
    "epochs",
    "repeated": "whole batches take part again some steps later or earlier: there are more epochs, or shorter ones",
    "smaller": "noise is smaller than the plan's: missing, of too small a scale, added to a part only, or averaged",
    "sometimes": "noise is smaller than the plan's in some steps: sums are divided by the size of the batch, or steps "
    "have no noise",
    "again": "noise of an earlier step is reused, or a state was restored",
    "alike": "coordinates have the same noise: one value or row for many of them",
}


@dataclass(frozen=True)
class Step:
    """The data for the bets of one step. Arrays are over canaries, except for `blank`, the innovations of coordinates
    to which no canary adds: an array (others, canaries)."""

    innovations: Array
    expected: Array  # their means, due to the canaries that are present
    weight: float  # of a contribution in this step, in standard deviations
    outweighing: npt.NDArray[np.bool_]  # present, with a decoy in the same sum
    elsewhere: Array  # the sign of a contribution that is not expected in this step, or 0
    repeated: Array  # additional means if all batches were repeated at a distance: distances, canaries
    blank: Array
    raw_blank: Array  # as released, not whitened
    predicted_blank: Array  # the mean of `raw_blank` given the earlier steps
    deviation: float  # of `raw_blank` from it


class Bets:
    """The logarithm of the wealth of every bet, and of all together."""

    def __init__(self, steps: int) -> None:
        self._seldom = 1.0 / max(steps, 2)
        self._earlier: list[Array] = []
        names: list[str] = []
        for family, count in _COUNTS.items():
            names += [family] * count
        self.names = names
        families = len(_COUNTS)
        self._log_weights = -np.log([families * _COUNTS[name] for name in names])
        self.log_wealth = np.zeros(len(names))

    def take(self, step: Step) -> float:
        """Pays off the bets of a step; returns the logarithm of the wealth of all together."""
        rest = step.innovations - step.expected
        shifts = [_tanh_bet((factor - 1.0) * step.expected * rest) for factor in LARGER]
        outweighs = step.weight * _beyond(step, step.outweighing.astype(float))
        elsewhere = step.weight * _beyond(step, step.elsewhere)
        # A contribution that no canary should make would hide missing noise.
        noise = step.blank if step.blank.size else rest
        smaller = [_small_bet(noise, rho) for rho in SMALLER]
        gains = [
            *shifts,
            _tanh_bet(outweighs),
            *(_tanh_bet(elsewhere, share) for share in SHARES),
            *(_tanh_bet(np.abs(more) * _beyond(step, np.sign(more))) for more in step.repeated),
            *smaller,
            *(_part(0.2, gain) for gain in smaller),
            _part(self._seldom, self._bet_on_again(step)),
            _part(self._seldom, _tanh_bet(step.blank[:, 1:] * step.blank[:, :-1])),
        ]
        self.log_wealth += gains
        self._earlier.append(step.raw_blank)
        return self.log_total()

    def log_total(self) -> float:
        """The logarithm of the weighted mean of all wealth."""
        return float(np.logaddexp.reduce(self.log_wealth + self._log_weights))

    def winners(self, level: float) -> list[str]:
        """The families that refute by themselves, the richest first."""
        least = -np.log(level)
        best: dict[str, float] = {}
        for name, wealth in zip(self.names, self.log_wealth + self._log_weights, strict=True):
            best[name] = max(best.get(name, -np.inf), wealth)
        found = sorted((name for name in best if best[name] >= least), key=lambda name: -best[name])
        return found or [max(best, key=lambda name: best[name])]

    def _bet_on_again(self, step: Step) -> float:
        """Half of the canaries' coordinates select the most similar earlier step; the bet is on the other half."""
        half = step.blank.shape[1] // 2
        if not self._earlier or half == 0:
            return 0.0
        earlier = np.stack(self._earlier)
        distance = ((earlier[:, :, :half] - step.raw_blank[:, :half]) ** 2).sum(axis=(1, 2))
        likely = earlier[np.argmin(distance)]
        predicted = (likely - step.predicted_blank)[:, half:] / step.deviation
        return _tanh_bet(predicted * step.blank[:, half:])


_COUNTS = {
    "larger": len(LARGER),
    "outweighs": 1,
    "elsewhere": len(SHARES),
    "repeated": 2 * APART,
    "smaller": len(SMALLER),
    "sometimes": len(SMALLER),
    "again": 1,
    "alike": 1,
}


def _beyond(step: Step, signs: Array) -> Array:
    """How far innovations lie beyond their means on the side of the sign, whatever share of it canaries add."""
    return signs * step.innovations - np.maximum(signs * step.expected, 0.0)


def _tanh_bet(exponents: Array, share: float = 1.0) -> float:
    """`Σ ln(1 - share + share (1 + tanh x))`, where `1 + tanh x = 2 / (1 + e^(-2x))`."""
    logs = np.log(2.0) - np.logaddexp(0.0, -2.0 * exponents)
    if share < 1.0:
        logs = np.logaddexp(np.log1p(-share), np.log(share) + logs)
    return float(logs.sum())


def _small_bet(innovations: Array, rho: float) -> float:
    squares = float(np.minimum((innovations**2).sum(), 1e100))
    return -innovations.size * float(np.log(rho)) - 0.5 * squares * (rho**-2 - 1.0)


def _part(share: float, gain: float) -> float:
    """The gain if only a part of the wealth is at stake."""
    return float(np.logaddexp(np.log1p(-share), np.log(share) + gain))
