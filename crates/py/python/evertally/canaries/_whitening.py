"""The law of a plan's noise, as the matrix that makes independent standard normal variables of it."""

from __future__ import annotations

from typing import Any

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
    if plan.mechanism_name.startswith("epoch-bands("):
        return _of_epoch_bands(plan, steps)
    options: dict[str, Any] = {"objective": plan.objective, "mechanism": plan.mechanism_name}
    try:
        counts = plan_counts(plan.horizon, rho=0.5, noise="gaussian", **options)
        same = plan
        if plan.optimizer is not None:
            coming_back: dict[str, Any] = {"participations": plan.participations, "separation": plan.separation}
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


def _of_epoch_bands(plan: VectorPlan, steps: int) -> Matrix:
    """Bands with columns of different lengths, which counts cannot always have: increments are `u_t = x_t v_t`, where `v`
    is the noise through the inverse of a banded filter `c` (2⁻¹⁶ of whole numbers), and the `x_t` are 2¹⁴ over whole
    numbers. The plan's standard errors tell both, step by step: `Var S_t` grows by the square of `x Σ_(k<t) r_k` as long
    as the columns have one length, with `r` the inverse of `c`, and from then on it tells `x_t`."""
    bands = int(plan.mechanism.split("bands=")[1].split(")")[0].split(",")[0])
    if plan.optimizer is not None:
        raise ValueError(f"the covariances of {plan.mechanism}'s noise are not known where it is made for an optimizer")
    variances = (plan.std_errors() / plan.sigma) ** 2
    horizon, scales = plan.horizon, np.empty(plan.horizon)
    bands = min(bands, horizon)
    scales[:bands] = _whole(2**14, np.sqrt(variances[0]))
    partial = np.sqrt(np.maximum(np.diff(variances[:bands], prepend=0.0), 0.0)) / scales[0]
    filtered = _reciprocal(np.diff(partial, prepend=0.0), bands)
    filtered = np.round(filtered * 2**16) / 2**16
    inverse = _reciprocal(filtered, horizon)
    sums = np.zeros(horizon)  # how the running sum depends on every normal variable
    for step in range(horizon):
        row = inverse[step::-1]
        if step >= bands:
            # variance = |sums + x row|²
            square, product = row @ row, sums[: step + 1] @ row
            rest = product**2 - square * (sums @ sums - variances[step])
            scales[step] = _whole(2**14, (np.sqrt(max(rest, 0.0)) - product) / square)
        sums[: step + 1] += scales[step] * row
        if not abs(sums @ sums / variances[step] - 1) < 1e-9:
            raise ValueError(f"the covariances of {plan.mechanism}'s noise are not known: give covariance=")
    factor = (
        plan.sigma
        * scales[:, None]
        * np.array([np.append(inverse[t::-1], np.zeros(horizon - 1 - t)) for t in range(horizon)])
    )
    return np.asarray((factor @ factor.T)[:steps, :steps])


def _whole(unit: int, value: float) -> float:
    return unit / round(unit / value) if value > 0.0 else np.nan


def _reciprocal(coefficients: Matrix, count: int) -> Matrix:
    """The power series that times this one, whose first coefficient is 1, is 1."""
    inverse = np.zeros(count)
    inverse[0] = 1.0
    for k in range(1, count):
        most = min(k, len(coefficients) - 1)
        inverse[k] = -(coefficients[1 : most + 1] @ inverse[k - most : k][::-1])
    return inverse


def whitening(covariance: Matrix) -> Matrix:
    """The lower triangular inverse of the Cholesky factor: times noise, each step's is a standard normal variable that
    does not depend on the steps before."""
    factor = np.linalg.cholesky(covariance)
    return np.asarray(np.linalg.solve(factor, np.eye(len(covariance))))
