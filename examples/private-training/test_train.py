"""Run: pytest examples/private-training (needs evertally installed)"""

import csv

import numpy as np
import pytest

pytest.importorskip("evertally")
import train  # noqa: E402


def one_gradient(weights: np.ndarray, features: np.ndarray, target: int) -> np.ndarray:
    """Gradient of the loss by central differences, in float64."""

    def loss(flat: np.ndarray) -> float:
        scores = features @ flat.reshape(weights.shape)
        return float(np.log(np.exp(scores).sum()) - scores[target])

    flat, step = weights.reshape(-1).astype(np.float64), 1e-6
    units = step * np.eye(len(flat))
    return np.array([(loss(flat + unit) - loss(flat - unit)) / (2 * step) for unit in units]).reshape(weights.shape)


def test_clipped_sum_is_the_sum_of_clipped_gradients():
    rng = np.random.default_rng(1)
    weights = rng.standard_normal((6, train.CLASSES))
    features = rng.standard_normal((5, 6)) * np.array([0.1, 0.2, 1, 2, 3])[:, None]
    classes = rng.integers(0, train.CLASSES, 5)
    gradients = [one_gradient(weights, *example) for example in zip(features, classes)]
    lengths = np.array([np.linalg.norm(gradient) for gradient in gradients])
    assert (lengths > train.NORM).any() and (lengths < train.NORM).any()
    expected = sum(gradient * min(1, train.NORM / length) for gradient, length in zip(gradients, lengths))
    np.testing.assert_allclose(train.clipped_sum(weights, features, classes), expected, atol=2e-5)


def test_it_learns_without_noise():
    assert train.train(train.split(0), train.SETTINGS[1], None) > 0.85


def test_the_committed_figures_are_those_of_this_noise():
    with open(train.HERE / "accuracy.csv", newline="") as file:
        rows = {(row["setting"], row["mechanism"], row["epsilon"]): row for row in csv.DictReader(file)}
    setting = train.SETTINGS[2]
    for mechanism in train.MECHANISMS:
        row = rows[setting.name, mechanism, "0.5"]
        found, error = train.accuracies(setting, mechanism, 0.5, int(row["seeds"]))
        assert round(error, 3) == float(row["max_std_error"])
        # Two pictures of 357: other processors sum in another order.
        assert abs(np.median(found) - float(row["median"])) < 0.006


def test_more_budget_never_means_more_noise():
    for setting in train.SETTINGS:
        for mechanism in train.MECHANISMS:
            errors = [train.plan_for(mechanism, setting, epsilon).max_std_error for epsilon in train.EPSILONS]
            assert errors == sorted(errors, reverse=True)
