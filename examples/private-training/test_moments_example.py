"""Run: pytest examples/private-training (needs evertally, PyTorch and scikit-learn installed)"""

import statistics

import pytest

pytest.importorskip("evertally")
pytest.importorskip("torch")
pytest.importorskip("sklearn")
import moments  # noqa: E402

ROWS = {(row["data"], row["method"], row["epsilon"]): row for row in moments.read(moments.HERE / "moments.csv")}


def test_every_method_has_its_figures_and_rates():
    assert set(ROWS) == set(moments.cases())
    assert all(row["lowest"] <= row["median"] <= row["highest"] for row in ROWS.values())
    tuned = moments.rates()
    for (data, name, epsilon), row in ROWS.items():
        own = moments.METHODS[name].rates_of or name
        assert row["rate"] == tuned[data, own, moments.RATES_OF[epsilon]]


@pytest.mark.parametrize("epsilon", moments.EPSILONS)
@pytest.mark.parametrize("data", moments.DATA)
def test_the_committed_plans_are_those_of_this_evertally(data, epsilon):
    for name, method in moments.METHODS.items():
        plan = moments.plan_for(data, epsilon, method.planned, 1.0)
        row = ROWS[data, name, epsilon]
        assert (row["mechanism"], row["groups"]) == (plan.mechanism, str(plan.groups or ""))
        assert plan.guarantee.epsilon_at(moments.DELTA) <= epsilon


@pytest.mark.parametrize("name", ["dpadam", "upper-high"])
def test_the_committed_accuracies_are_those_of_this_noise(name):
    row = ROWS["cancer", name, 8.0]
    found = [moments.accuracy("cancer", name, 8.0, row["rate"], seed) for seed in range(row["seeds"])]
    # Three examples of 113: other processors and versions of PyTorch sum in another order.
    assert abs(statistics.median(found) - row["median"]) < 0.027
