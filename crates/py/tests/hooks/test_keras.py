"""Private training of Keras models."""

import os
from pathlib import Path
from typing import Any

import evertally as et
import numpy as np
import pytest

os.environ.setdefault("KERAS_BACKEND", "jax")
jax = pytest.importorskip("jax")
keras = pytest.importorskip("keras")
if keras.backend.backend() != "jax":
    pytest.skip("Keras runs on another backend", allow_module_level=True)
import evertally.keras  # noqa: E402
from keras import layers  # noqa: E402

EXAMPLES, FEATURES, CLASSES = 120, 6, 3
RNG = np.random.default_rng(5)
INPUTS = RNG.standard_normal((EXAMPLES, FEATURES), dtype=np.float32)
TARGETS = (INPUTS @ RNG.standard_normal((FEATURES, CLASSES), dtype=np.float32)).argmax(axis=1)
LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
#: Some of its batches are empty, and some are larger than their expected size.
SAMPLING: dict[str, Any] = {"sampling": "cyclic-poisson", "sampled_fraction": 2 / EXAMPLES}
PLAN = et.training.plan_vector(12, epsilon=4.0, delta=1e-5, **SAMPLING, mechanism="epoch-bands(bands=3)")


def network(*inner: Any) -> Any:
    keras.utils.set_random_seed(1)
    return keras.Sequential([keras.Input((FEATURES,)), *inner, layers.Dense(CLASSES)])


def private(model: Any, plan: Any = PLAN, optimizer: Any = None, name: str = "run", **options: Any) -> Any:
    key = options.pop("key", None) or et.SecretKey.generate()
    optimizer = optimizer or keras.optimizers.SGD(1.0)
    return evertally.keras.make_private(model, LOSS, optimizer, (INPUTS, TARGETS), plan, key, name, **options)


def flat(values: Any) -> np.ndarray:
    return np.concatenate([np.asarray(value).reshape(-1) for value in values])


def sums(run: Any, batch: Any, step: int = 1) -> np.ndarray:
    return flat(run._sum_of([v.value for v in run.model.trainable_variables], np.array(batch, np.int64), step))


def gradient(weights: np.ndarray, bias: np.ndarray, number: int) -> np.ndarray:
    """The gradient of one example, in float64, for a single layer."""
    scores = INPUTS[number].astype(float) @ weights + bias
    wrong = np.exp(scores - scores.max())
    wrong /= wrong.sum()
    wrong[TARGETS[number]] -= 1
    return np.concatenate([np.outer(INPUTS[number], wrong).reshape(-1), wrong])


@pytest.mark.parametrize("microbatch", [None, 7])
def test_sums_are_those_of_clipped_gradients(microbatch: int | None) -> None:
    run = private(network(), microbatch=microbatch)
    weights, bias = run.model.get_weights()
    for batch in ([], [7], list(range(20, 60))):
        expected = np.zeros(FEATURES * CLASSES + CLASSES)
        for number in batch:
            one = gradient(weights, bias, number)
            expected += one / max(1.0, float(np.linalg.norm(one)))
        np.testing.assert_allclose(sums(run, batch), expected, atol=1e-4 * (1 + len(batch)))


def test_steps_add_the_plans_noise_to_its_batches_and_compile_once(key: Any) -> None:
    run = private(network(), key=key)
    batches = et.training.Batches(PLAN, key, "run", examples=EXAMPLES)
    sizes = [len(batch) for batch in batches]
    assert min(sizes) == 0 and len(set(sizes)) > 3 and max(sizes) <= run.microbatch == 11
    with et.allow_noise_reuse("compares with the noise alone"):
        noise = et.VectorNoise(PLAN, key, "run", coordinates=FEATURES * CLASSES + CLASSES)
        for step, batch in enumerate(batches, 1):
            before, total = flat(run.model.get_weights()), sums(run, batch)
            run.step()
            expected = before - noise.add_next(total.copy()) / 2
            np.testing.assert_allclose(flat(run.model.get_weights()), expected, rtol=1e-5, atol=1e-5)
            assert run.step_number == step
    assert run._sums._cache_size() == run._descend._cache_size() == 1
    with pytest.raises(et.HorizonExhausted, match="the plan's 12 steps are taken"):
        run.step()


def test_what_one_example_draws_leaves_others_alone() -> None:
    run = private(network(layers.Dense(40, activation="relu"), layers.Dropout(0.5, seed=3)))
    batch = [3, 5, 8, 60, 61]
    whole = sums(run, batch, 4)
    for left_out in batch:
        others = sums(run, [number for number in batch if number != left_out], 4)
        np.testing.assert_allclose(whole - others, sums(run, [left_out], 4), atol=1e-5)
    assert np.abs(sums(run, [3], 4) - sums(run, [3], 5)).max() > 1e-3
    other = private(network(layers.Dense(40, activation="relu"), layers.Dropout(0.5, seed=3)))
    assert np.abs(sums(run, [3], 4) - sums(other, [3], 4)).max() > 1e-3  # another key
    run = private(network(layers.GaussianNoise(1.0, seed=3)))
    run._data = jax.tree.map(lambda array: np.repeat(array[:1], EXAMPLES, axis=0), run._data)
    assert np.abs(sums(run, [3], 4) - sums(run, [5], 4)).max() > 1e-3


def test_models_of_several_inputs_and_layers_that_add_losses() -> None:
    words, rest = keras.Input((4,), dtype="int32", name="words"), keras.Input((2,), name="rest")
    means = layers.GlobalAveragePooling1D()(layers.Embedding(9, 3)(words))
    outputs = layers.Dense(1, kernel_regularizer="l2")(layers.Concatenate()([means, rest]))
    model = keras.Model({"words": words, "rest": rest}, outputs)
    data = {"words": RNG.integers(0, 9, (30, 4)), "rest": RNG.standard_normal((30, 2), dtype=np.float32)}
    plan = et.training.plan_vector(10, rho=1.0, participations=2, separation=5)
    targets = np.ones((30, 1), np.float32)
    optimizer = keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(0.1, 10))
    make = evertally.keras.make_private
    run = make(model, "mse", optimizer, (data, targets), plan, et.SecretKey.generate(), "run", batch_size=6)
    before = model.get_weights()
    run.fit(4)
    run.fit()
    assert run.step_number == 10
    assert all(np.abs(new - old).max() > 1e-3 for new, old in zip(model.get_weights(), before))


def test_a_loaded_model_goes_on_bit_for_bit(tmp_path: Path, key: et.SecretKey) -> None:
    # Other data is detected at the first step only if that step's batch is not empty.
    assert len(next(iter(et.training.Batches(PLAN, key, "run", examples=EXAMPLES)))) > 0
    key.save(tmp_path / "a.key")

    def begun() -> Any:
        key = et.SecretKey.load(tmp_path / "a.key")
        run = private(network(layers.Dropout(0.2, seed=4)), optimizer=keras.optimizers.Adam(0.05), key=key)
        run.fit(5)
        return run

    first = begun()
    first.model.compile(first.optimizer)
    first.model.save(tmp_path / "run.keras")
    first.fit()
    model = keras.models.load_model(tmp_path / "run.keras")
    again = et.SecretKey.load(tmp_path / "a.key")
    with pytest.raises(ValueError, match="noise_state is of step 12, and the optimizer has taken 5 steps"):
        private(model, optimizer=model.optimizer, key=again, noise_state=first.noise_state)
    later = private(model, optimizer=model.optimizer, key=again)
    assert later.step_number == 5
    later.fit()
    np.testing.assert_array_equal(flat(later.model.get_weights()), flat(first.model.get_weights()))
    model = network()
    with pytest.raises(et.StateError, match="other data"):
        private(model, key=again).step()
    assert flat(model.get_weights()).tolist() == flat(network().get_weights()).tolist()


def test_noise_of_the_device_goes_on_from_what_it_keeps() -> None:
    # Compiling AES for a device takes long.
    mechanism = {"mechanism": "epoch-bands(bands=3)", "cipher": "chacha8"}
    plan = et.training.plan_vector(12, epsilon=4.0, delta=1e-5, **SAMPLING, **mechanism)
    options = {"key": et.SecretKey.generate(), "on": "device"}
    run = private(network(), plan, **options)
    run.step()
    options["optimizer"] = run.optimizer
    with pytest.raises(ValueError, match="has taken 1 steps, and the noise made on the device keeps vectors"):
        private(run.model, plan, **options)
    later = private(run.model, plan, noise_state=run.noise_state, **options)
    assert later.step_number == 1


def test_steps_of_another_run_are_refused(tmp_path: Path) -> None:
    key = et.SecretKey.generate()
    run = private(network(), key=key)
    run.fit(2)
    run.model.compile(run.optimizer)
    run.model.save(tmp_path / "run.keras")
    model = keras.models.load_model(tmp_path / "run.keras")
    other = et.training.plan_vector(12, epsilon=3.0, delta=1e-5, **SAMPLING, mechanism="epoch-bands(bands=3)")
    for given in ({"key": key, "name": "other"}, {}, {"key": key, "plan": other}):
        with pytest.raises(ValueError, match="has taken 2 steps, and not as the run"):
            private(model, optimizer=model.optimizer, **given)
    later = private(model, optimizer=model.optimizer, key=key)
    assert later.step_number == 2 and later.optimizer.name == run.optimizer.name
    # An optimizer that has taken no steps may be used for another run.
    unused = keras.optimizers.SGD(1.0)
    for name in ("first", "second"):
        private(network(), optimizer=unused, name=name)
    assert unused.name.count("_private_") == 1


def test_steps_that_were_not_private_are_refused() -> None:
    key, model = et.SecretKey.generate(), network()
    model.compile("sgd", LOSS)
    model.fit(INPUTS, TARGETS, batch_size=6, verbose=0)
    with pytest.raises(ValueError, match="has taken 20 steps, and not as the run"):
        private(model, optimizer=model.optimizer, key=key)
    run = private(network(), key=key)
    run.optimizer.iterations.assign(20)
    with pytest.raises(ValueError, match="has taken 20 steps, and the plan has 12"):
        private(run.model, optimizer=run.optimizer, key=key)


def test_a_step_inside_another_is_refused() -> None:
    """Its batch would be that of the step around it, and its noise that of the next one."""
    run = private(network())
    sum_of = run._sum_of

    def nested(*arguments: Any) -> Any:
        with pytest.raises(RuntimeError, match="another step is in progress"):
            run.step()
        return sum_of(*arguments)

    run._sum_of = nested
    run.step()
    assert run.step_number == 1


def test_layers_that_keep_something_are_refused() -> None:
    with pytest.raises(ValueError, match="moving_mean` keeps something of each batch"):
        private(network(layers.BatchNormalization()))
    with pytest.raises(ValueError, match="vector_u` keeps something"):
        private(network(layers.SpectralNormalization(layers.Dense(4))))
    private(network(layers.BatchNormalization(trainable=False), layers.LayerNormalization())).fit(1)


def test_calls_of_the_host_and_of_whole_batches_are_refused() -> None:
    @jax.custom_batching.custom_vmap
    def mixing(values: Any) -> Any:
        return values

    mixing.def_vmap(lambda _, batched, values: (values + values.sum(0), batched[0]))
    shape = lambda values: jax.ShapeDtypeStruct(values.shape, values.dtype)  # noqa: E731
    host = lambda values: jax.pure_callback(np.tanh, shape(values), values, vmap_method="expand_dims")  # noqa: E731
    for function, match in [(mixing, "custom_vmap_call"), (jax.jit(mixing), "custom_vmap"), (host, "pure_callback")]:
        with pytest.raises(ValueError, match=match):
            private(network(layers.Lambda(function)))


def test_what_cannot_be_private_is_refused() -> None:
    with pytest.raises(ValueError, match="an optimizer that scales the loss"):
        private(network(), optimizer=keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(1.0)))
    with pytest.raises(ValueError, match="an optimizer that scales the loss"):
        private(network(), optimizer=keras.optimizers.SGD(1.0, loss_scale_factor=2.0))
    with pytest.raises(TypeError, match="optimizer must be one of keras.optimizers"):
        private(network(), optimizer="sgd")
    with pytest.raises(TypeError, match="data must be a pair of arrays"):
        data: Any = [(INPUTS, TARGETS)]
        evertally.keras.make_private(
            network(), LOSS, keras.optimizers.SGD(1.0), data, PLAN, et.SecretKey.generate(), "run"
        )
    with pytest.raises(ValueError, match="steps is -1"):
        private(network()).fit(-1)
    with pytest.raises(ValueError, match="omit batch_size"):
        private(network(), batch_size=7)
    fixed = et.training.plan_vector(12, rho=1.0, participations=1, separation=12)
    with pytest.raises(ValueError, match="batch_size is missing"):
        private(network(), fixed)
    with pytest.raises(ValueError, match="the plan allows an example at most 1 steps, at least 12 apart"):
        private(network(), fixed, batch_size=12)
    with pytest.raises(ValueError, match="the plan's series"):
        private(network(), et.training.plan_vector(12, rho=1.0, series="running-sums"), batch_size=10)
    with pytest.raises(TypeError, match="plan must be a VectorPlan"):
        private(network(), et.training.plan_training(EXAMPLES, 10, 1, rho=1.0))
    run = private(network())
    run.optimizer.iterations.assign(1)
    with pytest.raises(ValueError, match="the optimizer has taken 1 steps, but this run 0"):
        run.step()


def test_updates_outside_of_the_run_are_refused(tmp_path: Path) -> None:
    """After compiling, model.fit would use the private optimizer with exact gradients."""
    run = private(network())
    run.fit(2)
    optimizer, before = run.optimizer, run.model.get_weights()
    run.model.compile(optimizer, LOSS)
    gradients = [np.ones(value.shape, np.float32) for value in before]
    saved = tmp_path / "run.keras"
    run.model.save(saved)
    loaded = keras.models.load_model(saved)
    values = [variable.value for variable in run.model.trainable_variables]
    ways = [
        lambda: run.model.fit(INPUTS, TARGETS, epochs=1, verbose=0),
        lambda: run.model.train_on_batch(INPUTS[:8], TARGETS[:8]),
        lambda: optimizer.apply(gradients),
        lambda: optimizer.apply_gradients(zip(gradients, run.model.trainable_variables)),
        lambda: optimizer.stateless_apply([v.value for v in optimizer.variables], gradients, values),
        lambda: loaded.fit(INPUTS, TARGETS, epochs=1, verbose=0),
    ]
    for way in ways:
        with pytest.raises(RuntimeError, match="is that of a private run"):
            way()
    assert run.step_number == 2
    assert all((new == old).all() for new, old in zip(run.model.get_weights(), before))
    run.fit(1)
    assert run.step_number == 3
    # Another optimizer belongs to no run.
    loaded.compile("sgd", LOSS)
    loaded.fit(INPUTS, TARGETS, epochs=1, verbose=0)



class Recorder(keras.callbacks.Callback):
    def __init__(self, stop_after: int | None = None) -> None:
        super().__init__()
        self.events: list[Any] = []
        self.stop_after = stop_after

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.events.append(("begin", epoch))

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.events.append(batch)
        assert not logs
        if len([event for event in self.events if isinstance(event, int)]) == self.stop_after:
            self.model.stop_training = True

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.events.append(("end", epoch, sorted(logs)))


#: Four epochs of three batches.
FIXED = et.training.plan_vector(12, rho=1.0, participations=4, separation=3)


def test_fit_takes_epochs_callbacks_and_validation_data(key: et.SecretKey) -> None:
    whole, run = (private(network(), FIXED, key=key, batch_size=40) for _ in range(2))
    whole.fit()
    recorder = Recorder()
    with et.allow_noise_reuse("compares a run with itself"):
        run.fit(1)
        history = run.fit(epochs=2, callbacks=[recorder], validation_data=(INPUTS[:30], TARGETS[:30]))
        assert recorder.events[:4] == [("begin", 0), 1, 2, ("end", 0, ["val_loss"])] and run.step_number == 6
        assert len(history.history["val_loss"]) == 2 and list(history.history) == ["val_loss"]
        expected = float(LOSS(TARGETS[:30], run.model(INPUTS[:30])))
        np.testing.assert_allclose(history.history["val_loss"][-1], expected, rtol=1e-5)
        run.model.compile(run.optimizer, loss=LOSS, metrics=["accuracy"])
        history = run.fit(epochs=1, validation_data=(INPUTS[:30], TARGETS[:30]))
        assert sorted(history.history) == ["val_accuracy", "val_loss"]
        run.fit(callbacks=[Recorder(stop_after=2)])
        assert run.step_number == 11
        run.fit()
    assert np.array_equal(flat(run.model.get_weights()), flat(whole.model.get_weights()))


def test_fit_refuses_other_arguments_with_a_remedy() -> None:
    run = private(network(), FIXED, batch_size=40)
    before = flat(run.model.get_weights())
    with pytest.raises(ValueError, match="15 steps of 3 each epoch, but the plan has 12"):
        run.fit(epochs=5)
    with pytest.raises(ValueError, match="not both"):
        run.fit(3, epochs=1)
    with pytest.raises(TypeError, match="those of make_private"):
        run.fit(INPUTS, epochs=1)
    remedies = {"batch_size": "the plan determines", "validation_split": "without noise", "odd": "no such argument"}
    for name, remedy in remedies.items():
        with pytest.raises(TypeError, match=remedy):
            run.fit(**{name: 1})
    with pytest.raises(TypeError, match="pair of arrays"):
        run.fit(validation_data=INPUTS)
    assert np.array_equal(flat(run.model.get_weights()), before) and run.step_number == 0

    class Sequence(keras.utils.PyDataset):
        def __len__(self) -> int:
            return 3

        def __getitem__(self, place: int) -> Any:
            return INPUTS[:40], TARGETS[:40]

    with pytest.raises(TypeError, match="PyDataset.*Load all examples"):
        optimizer = keras.optimizers.SGD(1.0)
        evertally.keras.make_private(
            network(), LOSS, optimizer, Sequence(), FIXED, et.SecretKey.generate(), "run", batch_size=40
        )
