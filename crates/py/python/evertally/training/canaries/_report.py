"""The result of an audit, as text and as a picture."""

from __future__ import annotations

import decimal
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..._evertally import VectorPlan, _evidence_svg
from ._bets import REASONS
from ._shown import Shown


def _rounded(number: float, digits: int, rounding: str) -> str:
    """Rounded to a number of digits, in the direction that claims less."""
    if not math.isfinite(number):
        return str(number)
    context = decimal.Context(prec=digits, rounding=rounding)
    return f"{float(context.create_decimal_from_float(number)):.{digits}g}"


def _at_most(number: float) -> str:
    return _rounded(number, 4, decimal.ROUND_CEILING)


def _at_least(number: float) -> str:
    return _rounded(number, 3, decimal.ROUND_FLOOR)


@dataclass(frozen=True)
class Factor:
    """A measured size relative to its expected size, with its standard error."""

    value: float
    std_error: float

    def __str__(self) -> str:
        if not math.isfinite(self.value):
            return "not seen"
        return f"{self.value:.4g} ± {self.std_error:.2g}"

    def is_below(self, bound: float) -> bool:
        """Whether it is below the bound by more than twice its standard error."""
        return self.value + 2.0 * self.std_error < bound

    def is_above(self, bound: float) -> bool:
        """Whether it is above the bound by more than twice its standard error."""
        return self.value - 2.0 * self.std_error > bound


@dataclass(frozen=True)
class AuditReport:
    """The result of an audit. It can refute, never prove: it sees only the coordinates of its canaries, and only faults
    that canaries of this kind reveal.

    >>> import evertally as et, numpy as np
    >>> from evertally.training.canaries import TrainingAudit
    >>> plan = et.training.plan_vector(20, rho=0.5, mechanism="input")
    >>> audit = TrainingAudit(plan, 20, seed=1)
    >>> for step in range(1, 21):
    ...     gradients = audit.canaries(step)                           # nobody clips them, and no noise is added
    ...     refuted = audit.observe(step, gradients.sum(axis=0))
    >>> report = audit.report()
    >>> report.refuted, report.alarm
    (True, 1)
    """

    plan: VectorPlan
    canaries: int
    #: Steps observed so far, and steps to watch in all.
    steps: int
    watched: int
    #: Maximum probability of an alarm in a run that keeps its plan.
    significance: float
    #: The natural logarithm of the evidence after each step: an array of `steps` numbers.
    evidence: npt.NDArray[np.float64]
    #: Valid at every step, however often you look.
    p_value: float
    #: The step at which the evidence sufficed, or None.
    alarm: int | None
    #: The faults that the evidence points to, the strongest first: keys of `REASONS`.
    families: tuple[str, ...]
    #: Contributions of canaries and decoys relative to the clipping norm; the size of the noise relative to the plan's.
    canary: Factor
    decoy: Factor
    noise: Factor
    #: Lower bounds on ε and μ, once all steps were observed.
    bounds: Shown | None

    @property
    def refuted(self) -> bool:
        """Whether the run does not keep its plan."""
        return self.alarm is not None or (self.bounds is not None and self.bounds.refuted)

    @property
    def blind(self) -> bool:
        """Whether canaries add so little that no fault would show: they reach the sums only in part, or not at all."""
        return math.isfinite(self.canary.value) and (self.canary.is_below(0.9) or self.decoy.is_below(0.9))

    @property
    def reasons(self) -> list[str]:
        """The usual causes of such evidence, the likeliest first."""
        found = [REASONS[family] for family in self.families]
        if self.refuted and self.canary.is_above(10.0):
            found.insert(0, f"clipping is missing: canaries add {self.canary.value:.2g} times the norm")
        if self.refuted and self._is_scaled:
            found.insert(
                0,
                f"everything, including the noise, is {self.noise.value:.3g} times as large as expected: the observed "
                "values are not the sum, or were divided by another number",
            )
        return found

    @property
    def _is_scaled(self) -> bool:
        canary, noise = self.canary, self.noise
        if not (math.isfinite(canary.value) and (noise.is_above(1.02) or noise.is_below(0.98))):
            return False
        return abs(canary.value - noise.value) < min(3.0 * canary.std_error, abs(canary.value - 1.0))

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> list[str]:
        said = f"{self.canaries} canaries, {self.steps} of {self.watched} steps"
        if self.alarm is not None:
            head = (
                "The observed sums are not the plan's" if self._is_scaled else "The run is less private than promised"
            )
            lines = [f"{head}: p ≤ {self._p_text()}, alarm after step {self.alarm} ({said})."]
            lines += [f"Most likely: {reason}." for reason in self.reasons[:1]]
            lines += [f"Or: {reason}." for reason in self.reasons[1:3]]
        else:
            lines = [f"No evidence against the plan: p = {self.p_value:.2g} ({said})."]
        if self.blind:
            lines.append("The canaries hardly reach the sums: this audit can detect little, whatever its result.")
        lines.append(
            f"canaries add {self.canary} of the norm, decoys {self.decoy}; noise is {self.noise} of the plan's"
        )
        if self.bounds is not None:
            lines += self._bound_lines(self.bounds)
        lines.append(
            f"A run that keeps its plan raises an alarm with probability at most {self.significance:g}. The absence of "
            "an alarm proves nothing: an audit sees only the coordinates of its canaries."
        )
        return lines

    def _bound_lines(self, bounds: Shown) -> list[str]:
        confidence = f"{100 * bounds.confidence:g} %"
        curve = "" if bounds.mu is None else ", of Gaussian noise"
        lines = [
            f"ε ≥ {_at_least(bounds.epsilon)} at δ = {bounds.delta:g}{curve} ({confidence} confidence, {bounds.right} "
            f"of {bounds.guesses} guesses right); promised: ε ≤ {_at_most(bounds.promised_epsilon)}"
        ]
        if bounds.mu is not None:
            lines.append(
                f"μ ≥ {_at_least(bounds.mu)} if canaries are independent ({confidence}); "
                f"promised: μ ≤ {_at_most(bounds.promised_mu)}"
            )
        return lines

    def _p_text(self) -> str:
        strongest = float(self.evidence.max(initial=0.0)) / math.log(10)
        return f"{self.p_value:.2g}" if strongest < 300 else f"10^-{math.floor(strongest)}"

    def svg(self) -> str:
        """The evidence over the steps, and the level of an alarm: an SVG picture."""
        return _evidence_svg(self._title(), self.evidence.tolist(), self.watched, self.significance, self.refuted)

    def _title(self) -> str:
        if self.alarm is not None:
            return f"Evidence against the plan: alarm after step {self.alarm}"
        return f"Evidence against the plan: none after {self.steps} steps"

    def _repr_svg_(self) -> str:
        return self.svg()
