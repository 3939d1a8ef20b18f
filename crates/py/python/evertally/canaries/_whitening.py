"""The law of a plan's noise, as the matrix that makes independent standard normal variables of it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .._evertally import VectorPlan

Matrix = npt.NDArray[np.float64]

#: A plan's covariances are read one by one.
MOST_STEPS = 2000


def noise_covariance(plan: VectorPlan, steps: int) -> Matrix:
    """Covariances of one coordinate of the plan's noise between the first steps: an array (steps, steps), in squared
    units of the vectors.

    The mechanism of the same name for counts has the same matrix, and says what its covariances are; the scale is the
    plan's own. Raises ``ValueError`` where that is not so: give the covariance then.
    """
    from .._functions import plan as plan_counts
    from .._functions import plan_vector

    if plan.series != "increments":
        raise ValueError(f'the plan\'s series is "{plan.series}": audits are of plans with series="increments"')
    if steps > MOST_STEPS:
        raise ValueError(f"{steps} steps are more than an audit reads covariances of: watch {MOST_STEPS} or fewer")
    if plan.mechanism_name == "input":
        return plan.sigma**2 * np.eye(steps)
    options = {"objective": plan.objective, "mechanism": plan.mechanism_name}
    try:
        counts = plan_counts(plan.horizon, rho=0.5, noise="gaussian", **options)
        same = plan
        if plan.optimizer is not None:
            coming_back = {"participations": plan.participations, "separation": plan.separation}
            same = plan_vector(plan.horizon, rho=0.5, **options, **coming_back)
    except ValueError as problem:
        raise ValueError(
            f"the covariances of {plan.mechanism}'s noise are not known ({problem}): give covariance=, an array "
            f"({steps}, {steps}) of those of one coordinate of the noise"
        ) from problem
    ends = [1, (steps + 1) // 2, steps, plan.horizon]
    ratios = [same.std_error(step) ** 2 / counts.covariance(step, step) for step in ends]
    if max(ratios) > min(ratios) * (1 + 1e-6):
        raise ValueError(f"{plan.mechanism} has other matrices for counts and for vectors: give covariance=")
    scale = ratios[0] * (plan.sigma / same.sigma) ** 2
    sums = np.zeros((steps + 1, steps + 1))
    for first in range(1, steps + 1):
        for second in range(first, steps + 1):
            sums[first, second] = sums[second, first] = counts.covariance(first, second)
    return np.asarray(scale * np.diff(np.diff(sums, axis=0), axis=1))


def whitening(covariance: Matrix) -> Matrix:
    """The lower triangular inverse of the Cholesky factor: times noise, each step's is a standard normal variable that
    does not depend on the steps before."""
    factor = np.linalg.cholesky(covariance)
    return np.asarray(np.linalg.solve(factor, np.eye(len(covariance))))
