"""OpenDP: ε and δ of zCDP, and accuracies of discrete Gaussian noise."""

from __future__ import annotations

import functools
from typing import Any

import evertally as et
import opendp.accuracy
import opendp.combinators
import opendp.mod
import opendp.prelude

from . import NoAnswer, substitute

FEATURES = ("contrib", "floating-point", "honest-but-curious")
MODULES = (opendp.combinators, opendp.prelude.c)


def rho_of(curve: Any) -> float:
    rho = getattr(curve, "rho", None)
    if not isinstance(rho, float) or rho <= 0:
        raise NoAnswer
    return rho


def fixed(measurement: Any, d_in: Any) -> Any:
    """(ε, δ) of a measurement with a fixed δ."""
    inner, delta = getattr(measurement, "fixed", (None, None))
    if inner is None:
        raise NoAnswer
    return et.budget.epsilon_of_zcdp(rho_of(inner.map(d_in)), delta), delta


def remember_measurements() -> None:
    """Measurements cast from zCDP remember the original one, and those with a fixed δ the one without it."""
    cast, fix, map_ = (
        opendp.combinators.make_zCDP_to_approxDP,
        opendp.combinators.make_fix_delta,
        opendp.mod.Measurement.map,
    )

    @functools.wraps(cast)
    def made(measurement: Any) -> Any:
        result = cast(measurement)
        result.zcdp = measurement
        return result

    @functools.wraps(fix)
    def with_delta(measurement: Any, delta: float) -> Any:
        result = fix(measurement, delta)
        result.fixed = measurement, delta
        return result

    @functools.wraps(map_)
    def mapped(self: Any, d_in: Any) -> Any:
        result = map_(self, d_in)
        if hasattr(self, "zcdp") and hasattr(result, "epsilon"):
            result.rho = map_(self.zcdp, d_in)
        return result

    for module in MODULES:
        module.make_zCDP_to_approxDP, module.make_fix_delta = made, with_delta
    opendp.mod.Measurement.map = mapped


def accuracy(scale: float, alpha: float) -> float:
    """The least a for which the noise is at least a with probability at most α."""
    plan = et.plan(1, rho=1 / (2 * scale**2), mechanism="input", noise="gaussian")
    return plan.half_width(1, 1 - alpha) + 1


def prepare() -> None:
    """As the repository's configuration of pytest, which its source distribution lacks."""
    opendp.prelude.enable_features(*FEATURES)


def replace() -> None:
    remember_measurements()
    profile = opendp.mod.PrivacyProfile
    substitute(profile, "epsilon", lambda self, delta: et.budget.epsilon_of_zcdp(rho_of(self), delta))
    substitute(profile, "delta", lambda self, epsilon: et.budget.delta_of_zcdp(rho_of(self), epsilon))
    substitute(opendp.mod.Measurement, "map", fixed)
    substitute(opendp.accuracy, "discrete_gaussian_scale_to_accuracy", accuracy)
