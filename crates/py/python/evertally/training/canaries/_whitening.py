"""The distribution of a plan's noise, as the matrix that turns it into independent standard normal variables."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..._evertally import VectorPlan

Matrix = npt.NDArray[np.float64]

#: A matrix of this size is inverted in a second.
MOST_STEPS = 2000


def noise_covariance(plan: VectorPlan, steps: int) -> Matrix:
    """Covariances of one coordinate of the plan's noise between the first steps: an array (steps, steps), in squared
    units of the vectors."""
    if plan.series != "increments":
        raise ValueError(f'the plan\'s series is "{plan.series}": an audit needs a plan with series="increments"')
    if steps > MOST_STEPS:
        raise ValueError(f"an audit cannot watch {steps} steps: give steps={MOST_STEPS} or fewer")
    matrix = plan.noise_matrix()[:steps]
    return np.asarray(matrix @ matrix.T)


def whitening(covariance: Matrix) -> Matrix:
    """The lower triangular inverse of the Cholesky factor: it turns the noise of each step into a standard normal
    variable that does not depend on earlier steps."""
    try:
        factor = np.linalg.cholesky(covariance)
        is_regular = bool(np.all(np.diag(factor) > 1e-9 * np.sqrt(np.diag(covariance).max())))
    except np.linalg.LinAlgError:
        is_regular = False
    if not is_regular:
        raise ValueError("cannot audit this plan: the noise of some steps is determined by that of others")
    return np.asarray(np.linalg.solve(factor, np.eye(len(covariance))))
