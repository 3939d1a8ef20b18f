"""Run: pytest examples/private-training (needs evertally, PyTorch and scikit-learn installed)"""

import statistics

import pytest

pytest.importorskip("evertally")
pytest.importorskip("torch")
pytest.importorskip("sklearn")
import network  # noqa: E402

ROWS = {(row["method"], row["epsilon"]): row for row in network.read(network.HERE / "network.csv")}
OURS = ("independent", *network.PLANNED)


def test_every_method_has_its_figures():
    assert set(ROWS) == {("none", "")} | {(m, epsilon) for m in network.METHODS for epsilon in network.EPSILONS}
    assert all(row["lowest"] <= row["median"] <= row["highest"] for row in ROWS.values())


@pytest.mark.parametrize("epsilon", network.EPSILONS)
@pytest.mark.parametrize("method", OURS)
def test_the_committed_plans_are_those_of_this_evertally(method, epsilon):
    row = ROWS[method, epsilon]
    assert row["way"] == network.way_of(method, epsilon)
    assert float(row["multiplier"]) == pytest.approx(network.multiplier(method, epsilon), rel=1e-3)


def test_batches_are_drawn_by_lot():
    plans = [network.plan_for(method, epsilon) for method in OURS for epsilon in network.EPSILONS]
    assert {plan.sampled_fraction for plan in plans} == {network.BATCH / network.TRAINING}


def test_independent_noise_is_as_little_as_that_of_opacus():
    for epsilon in network.EPSILONS:
        theirs = float(ROWS["opacus", epsilon]["multiplier"])
        assert 0.97 * theirs < network.multiplier("independent", epsilon) <= theirs


def test_the_committed_accuracies_are_those_of_this_noise():
    row = ROWS["independent", 4.0]
    descent = network.chosen("independent", 4.0)
    found = [network.accuracy("independent", 4.0, descent, seed) for seed in range(row["seeds"])]
    # Three pictures of 357: other processors and versions of PyTorch sum in another order.
    assert abs(statistics.median(found) - row["median"]) < 0.009
