"""Every case of a run, in the order in which it is measured."""

from __future__ import annotations

from collections.abc import Iterator

from case import Case

NORMALS = [
    ("numpy_normals", "PCG64"),
    ("numpy_normals", "SFC64"),
    ("torch_normals", "in-place"),
    ("torch_normals", "randn"),
    ("jax_normals", ""),
    ("mkl_normals", "SFMT19937-ICDF"),
    ("mkl_normals", "PHILOX4X32X10-ICDF"),
    ("evertally_vector", "input"),
]
SCALAR = [("python_binary", ""), ("numpy_trees", "binary"), ("numpy_trees", "smooth"), ("scipy_sqrt", "fft"), ("evertally_scalar", "binary"), ("evertally_scalar", "smooth"), ("evertally_scalar", "normalized-blt")]
FIGURE5 = [
    ("numpy_trees", "binary"),
    ("numpy_trees", "smooth"),
    ("torch_tree", "binary"),
    ("torch_tree", "smooth"),
    ("scipy_sqrt", "matmul"),
    ("scipy_sqrt", "fft"),
    ("scipy_sqrt", "blocks"),
    ("evertally_vector", "binary"),
    ("evertally_vector", "smooth"),
    ("evertally_vector", "sqrt"),
]
WIDE = [
    ("numpy_trees", "smooth"),
    ("torch_tree", "binary"),
    ("torch_tree", "smooth"),
    ("torch_blt", ""),
    ("jax_privacy_blt", ""),
    ("evertally_vector", "input"),
    ("evertally_vector", "smooth"),
    ("evertally_vector", "smooth:recompute"),
    ("evertally_vector", "binary"),
    ("evertally_vector", "blt"),
]


def cases(quick: bool) -> Iterator[Case]:
    for peer, variant in NORMALS:
        yield Case("normals", peer, variant, horizon=1 << 20, coordinates=100_000, steps=50)
    for peer, variant in SCALAR:
        horizon = 1 << 20
        whole = peer == "scipy_sqrt"
        yield Case("scalar", peer, variant, horizon, coordinates=1, steps=horizon if whole or not quick else 1 << 17)
    for horizon in [1 << 11] if quick else [1 << 10, 1 << 11, 1 << 12, 1 << 13, 1 << 14]:
        for peer, variant in FIGURE5:
            yield Case("figure5", peer, variant, horizon, coordinates=10_000, steps=horizon)
    for coordinates, steps in [(1_000_000, 16)] if quick else [(1_000_000, 64), (10_000_000, 16)]:
        for peer, variant in WIDE:
            yield Case("wide", peer, variant, horizon=2048, coordinates=coordinates, steps=steps)
