"""Tests that the peers generate the noise that they claim: variances and covariances compared with theory. Run: pytest
benches/peers

Statistical checks use fixed seeds and 400,000 coordinates. A sample variance is then off by a factor 1 ± 0.0023 in
standard deviation; the tolerance of 0.015 is more than six standard deviations, and covariances have the same tolerance
relative to the variances.
"""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from peer.trees import STEPS, binary_steps, next_with_equal_ones, smooth_height, smooth_steps  # noqa: E402

COORDINATES = 400_000
TOLERANCE = 0.015


def dense_rows(steps, horizon: int) -> np.ndarray:
    """Rows of L from a symbolic run: the nodes that are live at each step."""
    rows, live, drawn = [], [], 0
    for leaving, entering in steps(horizon):
        del live[len(live) - leaving :]
        live += range(drawn, drawn + entering)
        drawn += entering
        rows.append(set(live))
    return np.array([[float(node in row) for node in range(drawn)] for row in rows])


def test_next_with_equal_ones_enumerates_all():
    found = [0b000111]
    while found[-1] < 0b111000:
        found.append(next_with_equal_ones(found[-1]))
    assert found == [number for number in range(64) if number.bit_count() == 3]


def test_smooth_height_is_least_and_even():
    assert [smooth_height(horizon) for horizon in (1, 5, 6, 19, 20, 2048)] == [2, 4, 6, 6, 8, 14]


def test_binary_tree_holds_one_node_for_each_one_bit():
    norms = (dense_rows(binary_steps, 100) ** 2).sum(axis=1)
    assert norms.tolist() == [step.bit_count() for step in range(1, 101)]


def test_smooth_tree_is_a_factorization_of_the_prefix_sums():
    horizon = 60
    rows = dense_rows(smooth_steps, horizon)
    height = smooth_height(horizon)
    assert (rows.sum(axis=1) == height // 2).all()
    # A factor R with L R = A exists and its columns have at most height/2 nodes each, all with weight one.
    sums = np.tril(np.ones((horizon, horizon)))
    right = np.linalg.lstsq(rows, sums, rcond=None)[0]
    np.testing.assert_allclose(rows @ right, sums, atol=1e-9)
    assert (right**2).sum(axis=0).max() <= height / 2 + 1e-9


def assert_covariance(noise: np.ndarray, rows: np.ndarray, sigma: float) -> None:
    expected = sigma**2 * rows @ rows.T
    scale = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    found = noise @ noise.T / noise.shape[1]
    assert np.abs((found - expected) / scale).max() < TOLERANCE


def stack_of(stream, out) -> np.ndarray:
    return np.array([np.asarray(out).astype(np.float64) for _ in stream])


@pytest.mark.parametrize("tree", ["binary", "smooth"])
def test_numpy_tree_covariance(tree):
    from peer.numpy_trees import SIGMA, running_noise

    out = np.zeros(COORDINATES, dtype=np.float32)
    noise = stack_of(running_noise(tree, 12, out, np.random.default_rng(1)), out)
    assert_covariance(noise, dense_rows(STEPS[tree], 12), float(SIGMA))


@pytest.mark.parametrize("tree", ["binary", "smooth"])
def test_torch_tree_covariance(tree):
    torch = pytest.importorskip("torch")
    from peer.torch_tree import SIGMA, running_noise

    out = torch.zeros(COORDINATES)
    noise = stack_of(running_noise(tree, 12, out, torch.Generator().manual_seed(1)), out)
    assert_covariance(noise, dense_rows(STEPS[tree], 12), SIGMA)


@pytest.mark.parametrize("way", ["matmul", "fft", "blocks"])
def test_square_root_covariance(way):
    from peer.scipy_sqrt import by_columns, coefficients, whole

    column = coefficients(12)
    root = np.array([[column[t - s] if t >= s else 0.0 for s in range(12)] for t in range(12)])
    np.testing.assert_allclose(root @ root, np.tril(np.ones((12, 12))), atol=1e-6)
    rng = np.random.default_rng(1)
    noise = by_columns(column, COORDINATES, rng).T if way == "blocks" else whole(way, column, COORDINATES, rng)
    assert_covariance(noise.astype(np.float64), root, 1.0)


def blt_increments() -> np.ndarray:
    """The first rows of C⁻¹ for the shared parameters."""
    from peer.blt import parameters

    decays, scales = map(np.array, parameters(2048))
    column = np.array([1.0] + [(scales * decays**j).sum() for j in range(11)])
    return np.linalg.inv([[column[t - s] if t >= s else 0.0 for s in range(12)] for t in range(12)])


@pytest.mark.parametrize("peer", ["torch_blt", "jax_privacy_blt"])
def test_blt_covariance(peer):
    module = pytest.importorskip(f"peer.{peer}")
    from case import Case

    sums = []
    work = module.prepare(Case("wide", peer, "", horizon=2048, coordinates=COORDINATES, steps=1))
    for _ in range(12):
        work.round()
        sums.append(np.asarray(work.gradient()).astype(np.float64))
    noise = np.diff(sums, axis=0, prepend=np.zeros((1, COORDINATES)))
    assert_covariance(noise, blt_increments(), module.SIGMA)
