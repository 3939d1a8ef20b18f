"""Run: pytest examples/private-training (needs evertally and scikit-learn installed)"""

import pytest

pytest.importorskip("evertally")
pytest.importorskip("sklearn")
import csv  # noqa: E402

import worth  # noqa: E402

with open(worth.HERE / "worth.csv", newline="") as file:
    ROWS = list(csv.DictReader(file))
QUICK = [setting for setting in worth.SETTINGS if setting.kind != "sampled"]


def row(setting: worth.Setting, method: str, epsilon: float) -> dict[str, str]:
    return next(
        row
        for row in ROWS
        if (row["setting"], row["method"], float(row["epsilon"])) == (setting.name, method, epsilon)
    )


def test_every_case_has_its_repetitions_and_the_readme_their_table():
    methods = sum(len(setting.methods) for setting in worth.SETTINGS)
    assert len(ROWS) == methods * len(worth.EPSILONS) * worth.SEEDS
    assert worth.table(ROWS) in (worth.HERE / "README.md").read_text()


@pytest.mark.parametrize("setting", QUICK, ids=lambda setting: setting.name)
def test_the_committed_noise_is_that_of_this_evertally(setting):
    for method in worth.METHODS:
        plan, error = worth.plan_of(setting, method, 2.0)
        own = row(setting, method, 2.0)
        assert getattr(plan, "noise", plan).mechanism == own["mechanism"]
        assert error == pytest.approx(float(own["error"]), rel=1e-3)
        assert plan.epsilon_at(worth.DELTA) <= 2.0 if hasattr(plan, "epsilon_at") else True


@pytest.mark.parametrize("setting", QUICK[1:], ids=lambda setting: setting.name)
def test_the_committed_accuracies_are_those_of_this_noise(setting):
    own = row(setting, "planned", 2.0)
    found = worth.accuracy(setting, "planned", 2.0, float(own["rate"]), 0)
    assert found == pytest.approx(float(own["accuracy"]), abs=0.009)  # other processors round sums otherwise
