"""Tests of other programs with our numbers in place of theirs: `python expectations.py`. See README.md.

The module of each program replaces those of its functions that this project has too. A replaced function returns our
value, and theirs where we have no value: other neighbouring relations, δ of 0 or 1, noise of 0. Theirs is computed as
well, and both are compared.
"""

from __future__ import annotations

import functools
import inspect
import math
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from evertally import EvertallyError

#: Our values are multiplied by it: with another number than 1, tests that can tell right from wrong must fail.
FACTOR = float(os.environ.get("EVERTALLY_FACTOR", "1"))


class NoAnswer(Exception):
    """We have no value for these arguments."""


@dataclass(frozen=True)
class Suite:
    """The tests of one program."""

    name: str
    package: str
    version: str
    tests: str  # folder in its source distribution
    files: tuple[str, ...]  # those that call a replaced function
    module: str  # with replace()
    select: str = ""  # the tests that can call a replaced function, and take seconds, as an expression of pytest
    helpers: str = ""  # a module of the tests that the source distribution lacks


SUITES = (
    Suite(
        "dp-accounting",
        "dp-accounting",
        "0.6.0",
        "dp_accounting",
        (
            "gaussian_mechanism_test.py",
            "mechanism_calibration_test.py",
            "pld/accountant_test.py",
            "pld/pld_privacy_accountant_test.py",
            "pld/privacy_loss_distribution_test.py",
            "pld/privacy_loss_mechanism_test.py",
            "rdp/rdp_privacy_accountant_test.py",
        ),
        "of_dp_accounting",
        "(gaussian or zcdp) and not (truncated or mixture or compute_rdp or discrete or equals_mp)",
    ),
    Suite(
        "jax-privacy",
        "jax-privacy",
        "2.0.0",
        "tests",
        (
            "accounting/analysis_test.py",
            "accounting/calibrate_test.py",
            "auditing_test.py",
            "experimental/accounting_test.py",
            "matrix_factorization/buffered_toeplitz_test.py",
            "matrix_factorization/toeplitz_test.py",
        ),
        "of_jax_privacy",
        "one_run or epsilon_via or calibrate_noise or get_epsilon or fhu or inverse_is or golden",
    ),
    Suite(
        "OpenDP",
        "opendp",
        "0.16.0",
        "test",
        ("test_accuracy.py", "test_comb.py", "test_meas.py"),
        "of_opendp",
        "not polars",
        "ids = str\n",
    ),
    Suite(
        "pfl-research",
        "pfl",
        "0.6.0",
        "tests",
        ("privacy/test_privacy_accountant.py",),
        "of_pfl_research",
    ),
)


@dataclass
class Log:
    """What happened in one test."""

    answers: int = 0
    declined: int = 0
    smallest: float = math.inf  # of the ratios of our values to theirs
    largest: float = -math.inf
    inside: bool = False  # a replaced function is running: those that it calls are theirs
    names: set[str] = field(default_factory=set)

    def compare(self, ours: Any, theirs: Any) -> None:
        for mine, other in zip(np.ravel(ours), np.ravel(theirs), strict=True):
            ratio = 1.0 if mine == other else float(mine / other) if other else math.inf
            self.smallest, self.largest = min(self.smallest, ratio), max(self.largest, ratio)


LOG = Log()


def fresh() -> Log:
    """A new log for the next test; the old one."""
    old = Log(**vars(LOG))
    LOG.__init__()  # type: ignore[misc]
    return old


def substitute(owner: Any, name: str, ours: Callable[..., Any], compare: bool = True) -> None:
    """Replaces a function or method. `ours` takes the same arguments."""
    found = inspect.getattr_static(owner, name)
    theirs = found.__func__ if isinstance(found, classmethod) else found

    @functools.wraps(theirs)
    def both(*args: Any, **kwargs: Any) -> Any:
        if LOG.inside:
            return theirs(*args, **kwargs)
        LOG.inside = True
        try:
            value = ours(*args, **kwargs)
        except (NoAnswer, EvertallyError, TypeError, ValueError, ArithmeticError):
            LOG.declined += 1
            LOG.inside = False
            return theirs(*args, **kwargs)
        try:
            if compare and FACTOR == 1:
                LOG.compare(value, theirs(*args, **kwargs))
        finally:
            LOG.inside = False
        LOG.answers += 1
        LOG.names.add(f"{getattr(owner, '__name__', owner)}.{name}".split(".", 1)[1])
        return wrong(value)

    setattr(owner, name, classmethod(both) if isinstance(found, classmethod) else both)


def wrong(value: Any) -> Any:
    """The value, or a wrong one on request."""
    if FACTOR == 1:
        return value
    if isinstance(value, (int, float)):
        return value * FACTOR
    scaled = np.array(value, np.float64)
    scaled.reshape(-1)[min(1, scaled.size - 1) :] *= FACTOR
    return scaled


def each(function: Callable[[float], float], values: Any) -> Any:
    """A function of a number, or of each number of a sequence."""
    if np.ndim(values):
        return np.array([function(float(value)) for value in values])
    return function(float(values))
