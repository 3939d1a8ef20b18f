"""Users with many examples in JAX and Keras: the same users and the same refusals as in PyTorch."""

import math
import os
from typing import Any

import evertally as et
import numpy as np
import pytest

os.environ.setdefault("KERAS_BACKEND", "jax")
jax = pytest.importorskip("jax")
keras = pytest.importorskip("keras")
if keras.backend.backend() != "jax":
    pytest.skip("Keras runs on another backend", allow_module_level=True)
import evertally.jax  # noqa: E402
import evertally.keras  # noqa: E402
import jax.numpy as jnp  # noqa: E402
from keras import layers  # noqa: E402

NORM, FEATURES, CLASSES, POPULATION, MOST = 0.5, 4, 3, 9, 6
RNG = np.random.default_rng(2)
#: Users have 1 to 6 examples, in a mixed order. User 5 has none.
OWNERS = RNG.permutation([0] * 6 + [1] + [2] * 3 + [3] * 2 + [4] * 5 + [6] * 4 + [7] * 2 + [8])
INPUTS = RNG.standard_normal((len(OWNERS), FEATURES), dtype=np.float32)
TARGETS = RNG.integers(0, CLASSES, len(OWNERS))
LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
PLAN = et.training.plan_vector(6, norm=NORM, rho=0.5, mechanism="input", participations=6, separation=1)


def network(*inner: Any) -> Any:
    keras.utils.set_random_seed(1)
    return keras.Sequential([keras.Input((FEATURES,)), *inner, layers.Dense(CLASSES)])


def private(inputs: Any, targets: Any, owners: Any, *inner: Any, **options: Any) -> Any:
    optimizer = keras.optimizers.SGD(1.0)
    options = {"users": owners, "examples_per_user": MOST, "population": POPULATION, "batch_size": POPULATION} | options
    plan, key = options.pop("plan", PLAN), et.SecretKey.insecure_from_test_seed(et.TestSeed(3))
    return et.keras.make_private(network(*inner), LOSS, optimizer, (inputs, targets), plan, key, "users", **options)


def of_keras(inputs: Any, targets: Any, owners: Any, *inner: Any, **options: Any) -> Any:
    """The clipped sum over all users."""
    run = private(inputs, targets, owners, *inner, **options)
    total = run._sum_of([v.value for v in run.model.trainable_variables], np.arange(POPULATION), 1)
    return np.concatenate([np.asarray(part).reshape(-1) for part in total])


def of_jax(inputs: Any, targets: Any, owners: Any) -> Any:
    users = et.training.Users(owners, examples_per_user=MOST, population=POPULATION)
    weights, bias = network().get_weights()

    def loss(params: Any, one: Any, target: Any) -> Any:
        return -jax.nn.log_softmax(one @ params[0] + params[1])[target]

    @jax.jit
    def of_all(*batch: Any) -> Any:
        gradients = jax.vmap(jax.grad(et.jax.user_loss(loss)), in_axes=(None, 0, 0, 0))((weights, bias), *batch)
        return et.jax.clip_and_sum(gradients, NORM)

    numbers, real = users.batch(range(POPULATION), POPULATION + 2)
    return np.concatenate([np.asarray(part).reshape(-1) for part in of_all(inputs[numbers], targets[numbers], real)])


def gradient(own: Any) -> np.ndarray:
    """The gradient of the mean loss of some examples, in float64."""
    weights, bias = network().get_weights()
    total = np.zeros(FEATURES * CLASSES + CLASSES)
    for number in own:
        scores = INPUTS[number].astype(float) @ weights + bias
        wrong = np.exp(scores - scores.max())
        wrong /= wrong.sum()
        wrong[TARGETS[number]] -= 1
        total += np.concatenate([np.outer(INPUTS[number], wrong).reshape(-1), wrong]) / len(own)
    return total


@pytest.mark.parametrize("sum_of", [of_keras, of_jax])
def test_the_sum_is_that_of_clipped_gradients_of_users(sum_of: Any) -> None:
    expected, clipped = np.zeros(FEATURES * CLASSES + CLASSES), 0
    for user in set(OWNERS.tolist()):
        one = gradient(np.flatnonzero(OWNERS == user))
        clipped += bool(np.linalg.norm(one) > NORM)
        expected += one * min(1.0, NORM / float(np.linalg.norm(one)))
    assert clipped > 2
    np.testing.assert_allclose(sum_of(INPUTS, TARGETS, OWNERS), expected, atol=1e-3)
    if sum_of is of_keras:
        parts = of_keras(INPUTS, TARGETS, OWNERS, microbatch=2)
        np.testing.assert_allclose(parts, expected, atol=1e-3)


@pytest.mark.parametrize("sum_of", [of_keras, of_jax])
def test_a_user_moves_the_sum_by_the_norm_in_every_order_of_the_data(sum_of: Any) -> None:
    """Removed, the norm once; with other data, twice. The order of rows does not matter."""
    whole, rng = sum_of(INPUTS, TARGETS, OWNERS), np.random.default_rng(4)
    for user in (0, 4, 8):
        own = OWNERS == user
        order = rng.permutation(np.flatnonzero(~own))
        move = np.linalg.norm(whole - sum_of(INPUTS[order], TARGETS[order], OWNERS[order]))
        assert 0 < move <= NORM * (1 + 1e-5)
        for value in (-100.0, math.nan):
            inputs = INPUTS.copy()
            inputs[own] = value
            order = rng.permutation(len(OWNERS))
            move = np.linalg.norm(whole - sum_of(inputs[order], (TARGETS + own)[order] % CLASSES, OWNERS[order]))
            assert 0 < move <= 2 * NORM * (1 + 1e-5)


def test_draws_of_users_leave_others_alone_and_differ_between_examples() -> None:
    inner = (layers.Dense(30, activation="relu"), layers.Dropout(0.5, seed=3))
    whole = of_keras(INPUTS, TARGETS, OWNERS, *inner)
    others = OWNERS != 3
    move = whole - of_keras(INPUTS[others], TARGETS[others], OWNERS[others], *inner)
    assert 0 < np.linalg.norm(move) <= NORM * (1 + 1e-5)
    same = np.zeros_like(INPUTS[:2]) + INPUTS[:1]
    once, twice = (
        of_keras(same[:count], TARGETS[:1].repeat(count), [1] * count, *inner, examples_per_user=2)
        for count in (1, 2)
    )
    assert np.abs(once - twice).max() > 1e-3


def test_runs_sample_users_and_compile_once() -> None:
    plan = et.training.plan_vector(
        8, norm=NORM, epsilon=8.0, delta=1e-5, sampling="poisson", sampled_fraction=0.3, mechanism="input"
    )
    run = private(INPUTS, TARGETS, [f"user {owner}" for owner in OWNERS], plan=plan, population=None, batch_size=None)
    assert run._order.examples == 8
    sizes = {len(batch) for batch in run._order}
    assert len(sizes) > 2
    run.fit()
    assert run.step_number == 8 and run._sums._cache_size() == 1


def test_the_same_arguments_are_refused_as_in_pytorch() -> None:
    def refused(match: str, owners: Any = OWNERS, **options: Any) -> None:
        with pytest.raises(et.InvalidError, match=match):
            private(INPUTS, TARGETS, owners, **options)

    refused("23 entries for 24", OWNERS[1:])
    refused("together", examples_per_user=None)
    refused("at least 1", examples_per_user=0)
    refused("population is 0", population=0)
    refused("whole numbers from 0 to 4, got 6", population=5)
    for name in ("01", "-1", "+1", "x", "1" * 5000):
        with pytest.raises(et.InvalidError, match="whole numbers from 0 to 4"):
            et.training.Users([1, name], examples_per_user=1, population=5)
    refused("give users", None, examples_per_user=None)
    with pytest.raises(ValueError, match="the loss of one example must be a single number"):
        et.jax.user_loss(lambda params, one: params * one)(1.0, jnp.ones((3, 2)), jnp.ones(3, bool))


@pytest.mark.parametrize("missing", [None, math.nan, 1.0, True, np.float32(2.0), b"a", (1,)])
def test_users_are_texts_or_whole_numbers(missing: Any) -> None:
    with pytest.raises(et.InvalidError, match="the user of example 1 (is missing|has the type)"):
        et.training.Users([1, missing], examples_per_user=2)


def test_users_are_numbered_by_their_names() -> None:
    assert len(et.training.Users([5, "5", np.int64(5)], examples_per_user=1)) == 1
    names = [f"user {owner}" for owner in OWNERS]
    once, again = (et.training.Users(own, examples_per_user=MOST) for own in (names, [*names[1:], names[0]]))
    first = [names[once.numbers(user)[0]] for user in range(len(once))]
    assert first == [[*names[1:], names[0]][again.numbers(user)[0]] for user in range(len(again))]
    assert first != list(dict.fromkeys(names))
    with pytest.raises(et.InvalidError, match="3 users for 2 rows"):
        once.batch([0, 1, 2], 2)
    for user in (-1, len(once)):
        with pytest.raises(et.InvalidError, match="numbered from 0"):
            once.batch([user])
