"""Run: pytest examples/private-training (needs evertally, NumPy and Django installed)"""

import pytest

pytest.importorskip("evertally")
pytest.importorskip("django")
import languages  # noqa: E402
import numpy as np  # noqa: E402

ROWS = {(row["method"], row["epsilon"]): row for row in languages.read(languages.HERE / "languages.csv")}


def test_every_method_has_its_figures():
    expected = {("none", "")} | {(m, epsilon) for m in languages.METHODS for epsilon in languages.EPSILONS}
    assert set(ROWS) == expected
    assert all(row["lowest"] <= row["median"] <= row["highest"] for row in ROWS.values())


def test_sums_are_those_of_clipped_gradients():
    """Compared message by message, with explicit gradients."""
    model = languages.Model(3)
    model.layer[:] = np.random.default_rng(5).standard_normal(model.layer.shape)
    numbers = np.arange(40) * 200
    for norm in (0.05, 0.5, 10.0):
        used, of_rows, of_layer = model.gradients(numbers, norm)
        rows, layer = np.zeros((languages.ROWS, languages.WIDTH)), np.zeros(model.layer.shape)
        for number in numbers:
            own, table, of_one = model.gradients(np.array([number]), 1e9)
            length = np.sqrt((table.astype(float) ** 2).sum() + (of_one.astype(float) ** 2).sum())
            rows[own] += table * min(1.0, norm / length)
            layer += of_one * min(1.0, norm / length)
            own, table, of_one = model.gradients(np.array([number]), norm)
            assert (table.astype(float) ** 2).sum() + (of_one.astype(float) ** 2).sum() <= norm**2
        np.testing.assert_allclose(of_rows, rows[used], atol=2e-4 * norm)
        np.testing.assert_allclose(of_layer, layer, atol=2e-4 * norm)


def test_the_committed_figures_are_those_of_this_noise():
    row = ROWS["planned", 4.0]
    assert float(row["mean_error"]) == pytest.approx(languages.plan_for("planned", 4.0).mean_std_error, rel=1e-3)
    found = languages.accuracy("planned", 4.0, languages.RATES[languages.CHOSEN[4.0]], 0)
    assert row["lowest"] - 0.01 < found < row["highest"] + 0.01
