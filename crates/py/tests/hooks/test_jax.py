"""The JAX hook."""

from dataclasses import replace

import evertally
import numpy as np
import pytest

jax = pytest.importorskip("jax")
optax = pytest.importorskip("optax")
import jax.numpy as jnp  # noqa: E402
from evertally.jax import NoiseState, clip_and_sum, correlated_noise  # noqa: E402

KEY = bytes([7, 1])
PARAMS = {"weights": jnp.ones((3, 4)), "bias": jnp.zeros(4)}  # leaves in the order of their names: bias, weights
SIZE = 16


def flat(tree) -> np.ndarray:
    return np.concatenate([np.asarray(leaf).reshape(-1) for leaf in jax.tree.leaves(tree)])


def zeros() -> dict:
    return jax.tree.map(jnp.zeros_like, PARAMS)


def test_noise_is_added_leaf_after_leaf(noise_type, plan):
    noise = correlated_noise(plan, KEY, "run")
    state = noise.init(PARAMS)
    for step in (1, 2, 3):
        updates, state = noise.update(PARAMS, state)
        np.testing.assert_array_equal(flat(updates), flat(PARAMS) + noise_type.expected(KEY, step, SIZE))
    assert state == NoiseState(3)


def test_compiled_scanned_and_eager_agree(noise_type, plan):
    eager, compiled, scanned = (correlated_noise(plan, KEY, "run") for _ in range(3))

    states = [eager.init(PARAMS), compiled.init(PARAMS)]
    update = jax.jit(compiled.update)
    collected: list[list[np.ndarray]] = [[], []]
    for _ in range(5):
        for way, run in enumerate((eager.update, update)):
            updates, states[way] = run(zeros(), states[way])
            collected[way].append(flat(updates))

    def body(state, _):
        updates, state = scanned.update(zeros(), state)
        return state, jnp.concatenate([leaf.reshape(-1) for leaf in jax.tree.leaves(updates)])

    _, from_scan = jax.jit(lambda state: jax.lax.scan(body, state, length=5))(scanned.init(PARAMS))
    np.testing.assert_array_equal(collected[0], collected[1])
    np.testing.assert_array_equal(collected[0], from_scan)


def test_a_step_asked_for_again_is_not_made_again(noise_type, plan):
    noise = correlated_noise(plan, KEY, "run")
    for _ in range(3):
        updates, _ = noise.update(zeros(), NoiseState(jnp.int32(4)))
        np.testing.assert_array_equal(flat(updates), noise_type.expected(KEY, 5, SIZE))
    assert noise_type.computed == 5


@pytest.mark.parametrize("seekable, computed", [(False, 9 + 3 + 1 + 2 + 18 + 1), (True, 6)])
def test_restored_states_get_the_noise_of_their_step(noise_type, plan, monkeypatch, seekable, computed):
    monkeypatch.setattr(noise_type, "seekable", seekable)
    noise = correlated_noise(plan, KEY, "run")
    for step in (9, 3, 4, 2, 20, 1):
        updates, _ = noise.update(zeros(), NoiseState(jnp.int32(step - 1)))
        np.testing.assert_array_equal(flat(updates), noise_type.expected(KEY, step, SIZE))
    assert noise_type.computed == computed


def test_checkpoint_saves_the_steps_before_it(noise_type, plan):
    first = correlated_noise(plan, KEY, "run")
    with pytest.raises(ValueError, match="nothing to save"):
        first.save()
    first.update(zeros(), NoiseState(jnp.int32(9)))
    made = noise_type.computed
    second = correlated_noise(plan, KEY, "run", saved=first.save())
    updates, _ = second.update(zeros(), NoiseState(jnp.int32(10)))
    np.testing.assert_array_equal(flat(updates), noise_type.expected(KEY, 11, SIZE))
    assert noise_type.computed == made + 1
    updates, _ = second.update(zeros(), NoiseState(jnp.int32(1)))
    np.testing.assert_array_equal(flat(updates), noise_type.expected(KEY, 2, SIZE))


def test_checkpoint_of_another_size_is_refused(noise_type, plan):
    first = correlated_noise(plan, KEY, "run")
    first.update(zeros(), NoiseState(jnp.int32(0)))
    second = correlated_noise(plan, KEY, "run", saved=first.save())
    with pytest.raises(Exception, match="other coordinates"):
        jax.block_until_ready(second.update(jnp.zeros(5), NoiseState(jnp.int32(1))))


def test_vmap_is_refused(noise_type, plan):
    noise = correlated_noise(plan, KEY, "run")
    with pytest.raises(ValueError, match="same noise"):
        jax.vmap(lambda gradient: noise.update(gradient, NoiseState(jnp.int32(0)))[0])(jnp.zeros((2, 5)))


def test_differentiating_is_refused(noise_type, plan):
    noise = correlated_noise(plan, KEY, "run")
    with pytest.raises(Exception, match="(?i)jvp|different"):
        jax.grad(lambda gradient: noise.update(gradient, NoiseState(jnp.int32(0)))[0].sum())(jnp.zeros(5))


def test_beyond_the_horizon_is_an_error(noise_type, plan):
    noise = correlated_noise(plan, KEY, "run")
    with pytest.raises(Exception, match="horizon"):
        jax.block_until_ready(noise.update(zeros(), NoiseState(jnp.int32(plan.horizon))))


def test_running_sums_are_refused(noise_type, plan):
    with pytest.raises(ValueError, match="increments"):
        correlated_noise(replace(plan, series="running-sums"), KEY, "run")


def test_leaves_keep_their_type(noise_type, plan):
    noise = correlated_noise(plan, KEY, "run")
    gradient = {"a": jnp.ones(3, jnp.bfloat16), "b": jnp.ones(2, jnp.float32)}
    updates, _ = noise.update(gradient, noise.init(gradient))
    assert updates["a"].dtype == jnp.bfloat16 and updates["b"].dtype == jnp.float32
    np.testing.assert_array_equal(updates["b"], 1 + noise_type.expected(KEY, 1, 5)[3:])


def test_in_an_optax_chain(noise_type, plan):
    optimizer = optax.chain(correlated_noise(plan, KEY, "run"), optax.scale(1 / 8), optax.sgd(0.5))
    state = optimizer.init(PARAMS)

    @jax.jit
    def step(params, state):
        updates, state = optimizer.update(zeros(), state, params)
        return optax.apply_updates(params, updates), state

    params, state = step(PARAMS, state)
    params, state = step(params, state)
    noise = sum(noise_type.expected(KEY, step, SIZE) for step in (1, 2))
    np.testing.assert_allclose(flat(params), flat(PARAMS) - 0.5 * noise / 8, rtol=1e-5, atol=1e-6)


def test_clip_and_sum_clips_over_all_leaves():
    rng = np.random.default_rng(1)
    grads = {name: 0.3 * rng.standard_normal((8, *leaf.shape)).astype(np.float32) for name, leaf in PARAMS.items()}
    rows = np.concatenate([leaf.reshape(8, -1) for leaf in jax.tree.leaves(grads)], axis=1).astype(np.float64)
    lengths = np.linalg.norm(rows, axis=1)
    assert (lengths > 1.2).any() and (lengths < 1.2).any()
    expected = (rows * np.minimum(1, 1.2 / lengths)[:, None]).sum(axis=0)
    for run in (clip_and_sum, jax.jit(clip_and_sum)):
        np.testing.assert_allclose(flat(run(grads, 1.2)), expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
@pytest.mark.parametrize("size", [1, 63, 64, 65, 300_001])
def test_clipped_examples_are_never_longer_than_the_norm(scale, size):
    gradient = np.random.default_rng(size).standard_normal((1, size)).astype(np.float32) * np.float32(scale)
    length = np.linalg.norm(gradient.astype(np.float64))
    clipped = np.asarray(jax.jit(clip_and_sum)(gradient, 0.5 * length)).astype(np.float64)
    assert 0.4999 * length < np.linalg.norm(clipped) <= 0.5 * length


@pytest.mark.parametrize("norm", [1e-30, 1.0, 10.0, 1e30])
def test_extreme_gradients_are_never_longer_than_the_norm(norm):
    """Reciprocals of the largest numbers are not normal, and compilers take them as zero: the length, too."""
    sizes = np.array([1e-45, 1e-38, 1e-30, 1e-20, 1.0, 1e20, 1e30, 8e37, 9e37, 1e38, 3e38], np.float32)
    for run in (clip_and_sum, jax.jit(clip_and_sum)):
        for size in sizes:
            clipped = np.asarray(run(jnp.full((1, 1000), size), norm)).astype(np.float64)
            assert np.linalg.norm(clipped) <= norm
            if np.sqrt(1000.0) * size <= norm:
                np.testing.assert_allclose(clipped, size, rtol=1e-4, atol=1e-37)
    alone = clip_and_sum(jnp.full((1, 3), 0.1), norm)
    np.testing.assert_array_equal(clip_and_sum(jnp.array([[0.1] * 3, [3e38] * 3]), norm), alone)


@pytest.mark.parametrize("size", [9e37, 1e38])
def test_long_sums_of_the_largest_numbers_are_refused(size):
    own, key = evertally.training.plan_vector(4, rho=0.5, norm=10.0), evertally.SecretKey.generate()
    batches = evertally.training.FixedBatches(own, examples=400, batch_size=100)
    noise = correlated_noise(own, key, "run", batches=batches)
    gradient = jnp.full(1000, size, jnp.float32)
    with pytest.raises(Exception, match="longer than the gradients|NaN or infinite"):
        jax.block_until_ready(noise.update(gradient, noise.init(gradient)))


def test_complex_gradients_are_refused(noise_type, plan):
    with pytest.raises(TypeError, match="complex64, and noise is for real numbers"):
        clip_and_sum(jnp.ones((2, 3), jnp.complex64), 1.0)
    noise = correlated_noise(plan, KEY, "run")
    for wrong in (jnp.complex64, jnp.int32):
        with pytest.raises(TypeError, match="noise is for real floating-point numbers"):
            noise.update(jnp.ones(3, wrong), noise.init(jnp.ones(3)))


def test_empty_batches_have_a_sum_of_zero():
    for run in (clip_and_sum, jax.jit(clip_and_sum)):
        total = run({"a": jnp.zeros((0, 3, 2), jnp.bfloat16), "b": jnp.zeros((0, 4))}, 1.0)
        assert total["a"].shape == (3, 2) and total["a"].dtype == jnp.float32 and not flat(total).any()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_examples_that_are_not_finite_count_as_zero(bad):
    grads = jnp.array([[0.3, 0.4], [bad, 0.1]])
    np.testing.assert_array_equal(clip_and_sum(grads, 1.0), clip_and_sum(grads[:1], 1.0))


def test_zero_gradients_and_unequal_batches():
    assert clip_and_sum(jnp.zeros((2, 3)), 1.0).tolist() == [0, 0, 0]
    with pytest.raises(ValueError, match="same number"):
        clip_and_sum([jnp.zeros((2, 3)), jnp.zeros((3, 3))], 1.0)
