"""Run: pytest examples/private-training (needs evertally, scikit-learn, Django and plotnine installed)"""

import importlib.util
import statistics

import numpy as np
import pytest

pytest.importorskip("evertally")
pytest.importorskip("sklearn")
pytest.importorskip("django")
if importlib.util.find_spec("plotnine") is None:
    pytest.skip("plotnine provides the diamonds", allow_module_level=True)
import peers  # noqa: E402
from tasks import TASKS, Network  # noqa: E402

ROWS = {(row["data"], row["method"], row["epsilon"]): row for row in peers.read(peers.HERE / "peers.csv")}


def test_every_method_has_its_figures():
    for data in TASKS:
        found = {method for place, method, _ in ROWS if place == data}
        assert {"none", "opacus", "opake", "independent", "evertally", "evertally-max"} <= found
        expected = {(data, method, epsilon) for method in found - {"none"} for epsilon in peers.EPSILONS}
        assert {place for place in ROWS if place[0] == data} == expected | {(data, "none", "")}
    assert all(row["lowest"] <= row["median"] <= row["highest"] for row in ROWS.values())


def test_sums_are_those_of_clipped_gradients():
    """Compared with central differences in float64."""
    random = np.random.default_rng(3)
    inputs = random.standard_normal((12, 5)) * np.geomspace(0.01, 9, 12)[:, None]
    network = Network(inputs, random.integers(0, 3, 12), 4, 10, 1)
    rows, start = network._train, network.parameters.astype(np.float64)

    def loss(parameters: np.ndarray, number: int) -> float:
        first, second = parameters[:24].reshape(6, 4), parameters[24:].reshape(5, 3)
        hidden = np.tanh(network._inputs[rows[number]].astype(np.float64) @ first[:-1] + first[-1])
        scores = hidden @ second[:-1] + second[-1]
        return float(np.log(np.exp(scores).sum()) - scores[network._targets[rows[number]]])

    expected, lengths = np.zeros(len(start)), []
    for number in range(10):
        steps = 1e-6 * np.eye(len(start))
        one = np.array([(loss(start + step, number) - loss(start - step, number)) / 2e-6 for step in steps])
        lengths.append(np.linalg.norm(one))
        expected += one / max(1.0, lengths[-1])
    assert min(lengths) < 1 < max(lengths)
    np.testing.assert_allclose(network.clipped_sum(np.arange(10)), expected, atol=1e-3)
    assert not network.clipped_sum(np.arange(0)).any()


@pytest.mark.parametrize("data", TASKS)
def test_the_committed_noise_is_that_of_this_evertally(data):
    for method, epsilon in (("independent", 2.0), ("evertally", 2.0), ("evertally", 8.0)):
        row, option = ROWS[data, method, epsilon], peers.option_of(method, data, epsilon)
        assert (row["sampling"], row["matrix"]) == (option.sampling, option.matrix)
        assert float(row["error"]) == pytest.approx(option.error, rel=1e-3)


def test_errors_are_never_more_than_a_hundredth_above_those_of_others():
    for data in TASKS:
        for epsilon in peers.EPSILONS:
            mine = [row for place, row in ROWS.items() if place[0] == data and place[2] == epsilon]
            best = min(float(row["error"]) for row in mine if row["promise"] == "bound")
            assert float(ROWS[data, "evertally", epsilon]["error"]) <= 1.01 * best


@pytest.mark.parametrize("data", ["digits", "diamonds"])
def test_the_committed_accuracies_are_those_of_this_noise(data):
    row = ROWS[data, "evertally", 4.0]
    descent = float(row["rate"]), float(row["momentum"])
    found = [peers.accuracy("evertally", data, 4.0, *descent, seed) for seed in range(int(row["seeds"]))]
    assert abs(statistics.median(found) - row["median"]) < 0.009
