"""The comparison of optimisers, and the replacement of other programs' functions. Run: pytest benches/peers"""

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
import optima  # noqa: E402
from promises import column_lengths, toeplitz_variances  # noqa: E402


def test_variances_are_those_of_dense_matrices():
    sums = np.tril(np.ones((9, 9)))
    for coefficients in ([1.0], [1.0, 0.5, 0.25], [0.9, -0.3]):
        column = np.pad(np.array(coefficients), (0, 9 - len(coefficients)))
        matrix = np.array([[column[t - s] if t >= s else 0.0 for s in range(9)] for t in range(9)])
        lengths = np.linalg.norm(matrix, axis=0)
        assert column_lengths(coefficients, 9) == pytest.approx(lengths)
        for scales, columns in ((None, matrix), (lengths, matrix / lengths)):
            expected = (sums @ np.linalg.inv(columns)) ** 2
            assert toeplitz_variances(coefficients, 9, scales) == pytest.approx(expected.sum(axis=1))


def test_rows_are_kept_and_compared(tmp_path: Path):
    first, second = optima.settings()[0], optima.settings()[3]
    assert first.family == second.family == "blt"
    path = tmp_path / "optima.csv"
    rows = {first: {"opake": "2", "evertally": "1.5"}}
    rows[second] = {"opake": "2", "evertally": "2.5", "jax-privacy": "none"}
    optima.write(rows, path)
    assert optima.read(path) == rows
    assert optima.ratios(rows, "opake", "evertally", "blt") == {second: 1.25, first: 0.75}
    assert optima.ratios(rows, "jax-privacy", "evertally", "blt") == {}
    assert optima.lost(rows) == "opake " + " ".join(map(str, second)) + " evertally: 1.2500"


def test_the_committed_errors_are_those_of_this_evertally():
    if not (rows := optima.read(optima.HERE / "optima.csv")):
        pytest.fail("optima.csv has no rows")
    try:
        solve = optima.evertally()
    except ImportError:
        pytest.skip("evertally is not installed")
    for one in optima.settings()[:30:5]:
        assert solve["evertally"](one) == pytest.approx(float(rows[one]["evertally"]), rel=1e-3), one


def test_a_replaced_function_returns_ours_or_else_theirs():
    expected = pytest.importorskip("expected", reason="evertally is not installed")
    owner = SimpleNamespace(__name__="owner.part", half=lambda value: value / 2 + 1e-9)

    def ours(value: float) -> float:
        if value < 0:
            raise expected.NoAnswer
        return value / 2

    expected.substitute(owner, "half", ours)
    expected.fresh()
    assert owner.half(4.0) == 2.0 and owner.half(-4.0) == -2 + 1e-9
    log = expected.fresh()
    assert (log.answers, log.declined, log.names) == (1, 1, {"part.half"})
    assert 1 - 1e-8 < log.smallest == log.largest < 1


def test_failures_are_sorted_by_our_values():
    expectations = pytest.importorskip("expectations", reason="evertally is not installed")
    failed = {"outcome": "failed"}
    assert expectations.kind({"outcome": "passed"}) == "holds"
    for smallest, largest, name in ((1, 1 + 1e-6, "rounded"), (0.5, 1, "smaller"), (0.5, 1.1, "differs")):
        assert expectations.kind(failed | {"smallest": smallest, "largest": largest}) == name
