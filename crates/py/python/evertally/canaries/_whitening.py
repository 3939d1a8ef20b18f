"""The law of a plan's noise, as the matrix that makes independent standard normal variables of it."""

from __future__ import annotations

import json
from collections.abc import Callable
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
    """Bands with columns of different lengths, which counts cannot always have: increments are `u_t = x_t v_t`, where
    `v` is the noise through the inverse of a filter `c`, whole numbers of 2⁻¹⁶ up to 1, and the `x_t` are 2¹⁴ over
    whole numbers.

    The plan's standard errors tell both, step by step, whether they are of running sums or of parameters, `W u`: as
    long as the columns have one length, the only unknown in `Var (W u)_t` is the newest coefficient, and from then on
    `x_t`. Of the two roots that of a whole number is the right one; of the second coefficient both may be whole, and
    both are tried. What comes out must give the plan's errors to 10⁻⁹."""
    bands = min(int(plan.mechanism.split("bands=")[1].split(")")[0].split(",")[0]), plan.horizon)
    workload, variances = _workload(plan), (plan.std_errors() / plan.sigma) ** 2
    # A last step without a learning rate is in no error. Its column is like that before it, in the same epoch.
    is_alike = plan.participations == 1 or (plan.horizon - 1) % plan.separation != 0
    is_last_known = workload[-1, -1] > 1e-6 * workload[0, 0] or is_alike
    for second in (0, 1) if is_last_known else ():
        increments = _solved(bands, workload, variances, second)
        if increments is not None:
            return np.asarray(plan.sigma**2 * (increments @ increments.T)[:steps, :steps])
    raise ValueError(f"the covariances of {plan.mechanism}'s noise are not known: give covariance=")


def _solved(bands: int, workload: Matrix, variances: Matrix, second: int) -> Matrix | None:
    """The noise of the increments, as a matrix that normal variables are multiplied by."""
    horizon = len(variances)
    filtered, inverse = np.eye(1, bands)[0], np.eye(1, horizon)[0]
    increments = np.zeros((horizon, horizon))
    scale = _to_whole([np.sqrt(variances[0]) / workload[0, 0]], lambda x: 2**14 / x)[0]
    for step in range(horizon):
        weight = workload[step, step]
        before = workload[step, :step] @ increments[:step]
        if 0 < step < bands:
            known = before[: step + 1] + weight * scale * np.append(0.0, inverse[:step][::-1])
            known[0] -= weight * scale * (filtered[1:step] @ inverse[1:step][::-1])
            rest = np.sqrt(max(variances[step] - known[1:] @ known[1:], 0.0))
            roots = [(known[0] - root) / (weight * scale) for root in (rest, -rest)]
            roots = [root for root in roots if -1e-9 < root < 1.0 + 1e-9]
            if step == 1:
                roots = roots[second : second + 1]
            if not roots:
                return None
            filtered[step] = _to_whole(roots, lambda c: 2**16 * c)[1] / 2**16
        if step < bands:
            inverse = _reciprocal(filtered[: step + 1], horizon)
        row = np.append(inverse[step::-1], np.zeros(horizon - 1 - step))
        if step >= bands and weight > 1e-6 * workload[0, 0]:
            # variance = |before + weight x row|²
            square, product = weight**2 * (row @ row), weight * (before @ row)
            rest = np.sqrt(max(product**2 - square * (before @ before - variances[step]), 0.0))
            roots = [(root - product) / square for root in (rest, -rest) if root > product]
            if not roots:
                return None
            scale = _to_whole(roots, lambda x: 2**14 / x)[0]
        elif step == horizon - 1 and 1 < bands < horizon:
            # The last column has one coefficient, the one before it two.
            scale = _to_whole([scale / np.sqrt(1.0 + filtered[1] ** 2)], lambda x: 2**14 / x)[0]
        increments[step] = scale * row
        found = before + weight * increments[step]
        if not abs(found @ found / variances[step] - 1) < 1e-9:
            return None
    return increments


def _to_whole(roots: list[float], whole: Callable[[float], float]) -> tuple[float, float]:
    """The root whose number is closest to a whole one: the root as that number would have it, and the number."""
    root = min(roots, key=lambda root: abs(whole(root) - round(whole(root))))
    number = float(round(whole(root)))
    return root * whole(root) / number if number else root, number


def _workload(plan: VectorPlan) -> Matrix:
    """What the plan's errors are of, as a matrix that increments are multiplied by: running sums, or the parameters."""
    horizon = plan.horizon
    optimizer = json.loads(plan.to_json()).get("optimizer")
    if optimizer is None:
        return np.tril(np.ones((horizon, horizon)))
    workload, parameters, momentum = np.empty((horizon, horizon)), np.zeros(horizon), np.zeros(horizon)
    for step, rate in enumerate(_rates(optimizer["rates"], horizon)):
        momentum *= optimizer["momentum"]
        momentum[step] += 1.0
        parameters = (1.0 - optimizer["weight_decay"] * rate) * parameters + rate * momentum
        workload[step] = parameters
    return workload


def _rates(rates: dict[str, Any], horizon: int) -> list[float]:
    if "list" in rates:
        return list(rates["list"])
    if "constant" in rates:
        return [rates["constant"]] * horizon
    given = rates["warmup-cosine"]
    peak, warmup, last = given["peak"], given["warmup"], given["last"]
    up = [peak * step / warmup for step in range(1, warmup + 1)]
    rest = np.arange(1, horizon - warmup + 1) / (horizon - warmup)
    return up + list(last + (peak - last) * 0.5 * (1.0 + np.cos(np.pi * rest)))


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
