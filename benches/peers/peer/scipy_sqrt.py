"""The square root of the prefix-sum matrix (Henzinger, Upadhyay and Upadhyay) by SciPy's FFT.

Not streaming: the noise of all steps is computed at once, because every step needs all earlier draws. `matmul` is the
variant of the paper's figure 5; it transforms length 2T - 1, which is slow if that has large prime factors (at T = 4096
it is a prime). `fft` is the same product by `fftconvolve`. `blocks` processes a few columns at a time, so that the
transform stays in the cache, transforms the coefficients once, and stores all steps only for the result.
"""

from pathlib import Path

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft
from scipy.linalg import matmul_toeplitz
from scipy.signal import fftconvolve

from case import Case, Unavailable, Work

PACKAGES = ("numpy", "scipy")
BLOCK = 1 << 15  # values in a block of columns
BYTES_PER_VALUE = {"matmul": 60, "fft": 28, "blocks": 4}  # measured peaks
LABELS = {
    "matmul": "SciPy square root, matmul_toeplitz",
    "fft": "SciPy square root, fftconvolve",
    "blocks": "SciPy square root, rfft by columns",
}


def coefficients(horizon: int) -> np.ndarray:
    """First column of the square root: 1, 1/2, 3/8, …"""
    j = np.arange(1, horizon)
    return np.concatenate([[1.0], np.cumprod((2 * j - 1) / (2 * j))]).astype(np.float32)


def whole(variant: str, column: np.ndarray, coordinates: int, rng: np.random.Generator) -> np.ndarray:
    draws = rng.standard_normal((len(column), coordinates), dtype=np.float32)
    if variant == "matmul":
        row = np.zeros_like(column)
        row[0] = column[0]
        return matmul_toeplitz((column, row), draws)
    return fftconvolve(draws, column[:, None], axes=0)[: len(column)]


def by_columns(column: np.ndarray, coordinates: int, rng: np.random.Generator) -> np.ndarray:
    """Coordinates along the first axis, so that the steps of a coordinate are contiguous."""
    horizon = len(column)
    length = next_fast_len(2 * horizon - 1, real=True)
    transformed = rfft(column, length)
    noise = np.empty((coordinates, horizon), dtype=np.float32)
    width = max(1, BLOCK // horizon)
    for first in range(0, coordinates, width):
        block = noise[first : first + width]
        draws = rng.standard_normal(block.shape, dtype=np.float32)
        block[:] = irfft(rfft(draws, length) * transformed, length)[:, :horizon]
    return noise


def available_bytes() -> int:
    meminfo = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    return 1024 * int(meminfo["MemAvailable"].split()[0])


def prepare(case: Case) -> Work:
    needed = BYTES_PER_VALUE[case.variant] * case.horizon * case.coordinates
    if needed > available_bytes() / 2:
        raise Unavailable(f"needs about {needed / 1e9:.0f} GB, more than half of the free memory")
    rng = np.random.Generator(np.random.SFC64(1))
    column = coefficients(case.horizon)

    def one_round() -> None:
        if case.variant == "blocks":
            by_columns(column, case.coordinates, rng)
        else:
            whole(case.variant, column, case.coordinates, rng)

    return Work(LABELS[case.variant], one_round, case.horizon * case.coordinates, note="all steps at once")
