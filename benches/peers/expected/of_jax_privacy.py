"""jax-privacy: its accounting is that of dp-accounting; beyond it, the p-values of audits in one run, the square root
of the matrix of prefix sums, and the optima of buffered and banded Toeplitz matrices."""

from __future__ import annotations

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from evertally.training import canaries, plan_vector
from jax_privacy import auditing
from jax_privacy.matrix_factorization import buffered_toeplitz, toeplitz

from . import NoAnswer, of_dp_accounting, substitute

UNIT = 2.0**62  # parameters of BLTs are whole multiples of 1/UNIT, in hexadecimal digits


def noise(steps: int, mechanism: str) -> np.ndarray:
    return plan_vector(steps, rho=0.5, mechanism=mechanism).noise_matrix()


def noising(n: int) -> Any:
    column = noise(n, "sqrt")[:, 0]
    return jnp.asarray(column / column[0])


def strategy(n: int) -> Any:
    column = np.linalg.inv(noise(n, "sqrt"))[:, 0]
    return jnp.asarray(column / column[0])


def blt(
    *,
    n: int,
    min_sep: int = 1,
    max_participations: int | None = 1,
    error: str = "max",
    min_buffers: int = 0,
    max_buffers: int = 10,
    **others: Any,
) -> Any:
    if others.keys() - {"max_optimizer_steps", "rtol"} or min_buffers != max_buffers or min_buffers == 0:
        raise NoAnswer
    most = -(-n // min_sep)
    plan = plan_vector(
        n,
        rho=0.5,
        mechanism=f"blt(buffers={min_buffers})",
        objective=error,  # type: ignore[arg-type]
        participations=min(max_participations or most, most),
        separation=min_sep,
    )
    parts = re.fullmatch(r"blt\(decay=(.*),echo=(.*)\)", plan.mechanism_name)
    if parts is None:
        raise NoAnswer
    decay, scale = ([int(digits, 16) / UNIT for digits in part.split("/")] for part in parts.groups())
    kind = np.float64 if jax.config.read("jax_enable_x64") else np.float32
    return buffered_toeplitz.BufferedToeplitz.build(buf_decay=np.array(decay, kind), output_scale=np.array(scale, kind))


def replace() -> None:
    of_dp_accounting.replace()
    substitute(
        auditing,
        "_one_run_p_value",
        lambda m, guesses, right, eps, delta: canaries.p_value_of_epsilon(m, guesses, right, epsilon=eps, delta=delta),
    )
    substitute(toeplitz, "optimal_max_error_strategy_coefs", strategy)
    substitute(toeplitz, "optimal_max_error_noising_coefs", noising)
    substitute(buffered_toeplitz, "optimize", blt, compare=False)
