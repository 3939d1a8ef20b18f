"""Lazy vectors."""

import pickle

import numpy as np
import pytest

import evertally as et


@pytest.mark.parametrize("sampling", ["float", "integer", "keyed"])
def test_reads_are_near_the_truth_and_repeatable(key: et.SecretKey, sampling: str) -> None:
    plan = et.plan_lazy(10_000, rho=0.5, sampling=sampling)  # type: ignore[arg-type]
    vector = et.LazyVector(plan, key, "visits", sums=10**9, sampling=sampling)  # type: ignore[arg-type]
    rng = np.random.default_rng(5)
    indices = rng.integers(0, 1000, 5000)
    vector.add(indices)
    assert vector.tick(24) == 24 == vector.step
    truth = np.bincount(indices, minlength=1000)
    table = vector.read(np.arange(1000))
    assert table.dtype.names == ("index", "step", "value", "std_error")
    assert (table["index"] == np.arange(1000)).all() and (table["step"] == 24).all()
    error = table["value"] - truth
    assert (abs(error) < 8 * table["std_error"]).all()
    # The sample variance of 1000 normals is within 25 % of its mean except with probability below 1e-7.
    assert error.std() == pytest.approx(vector.std_error(24), rel=0.25)
    assert (vector.read(np.arange(1000)) == table).all()
    one = vector.read(7)
    assert (one.step, one.value, one.std_error) == tuple(table[7])[1:]
    assert vector.reads == 2001 and vector.sums == 10**9


def test_states_go_on(key: et.SecretKey) -> None:
    plan = et.plan_lazy(100, rho=0.5)
    vector = et.LazyVector(plan, key, "v", sums=50)
    vector.add([1, 2, 3], [1, 1, 1])
    vector.tick()
    vector.read([1, 2])
    again = et.LazyVector.restore(plan, key, "v", vector.save(), sums=50)
    assert again.reads == 2 and again.touched == vector.touched == 2
    for one in (vector, again):
        one.add(1)
        one.tick(5)
    assert (again.read(range(50)) == vector.read(range(50))).all()
    with pytest.raises(et.StateError):
        et.LazyVector.restore(plan, key, "v", vector.save(), sums=51)
    with pytest.raises(TypeError, match="same noise"):
        pickle.dumps(vector)


def test_events_in_several_sums(key: et.SecretKey) -> None:
    plan = et.plan_lazy(100, rho=0.5, sums_per_event=3, bounds=(0, 5))
    vector = et.LazyVector(plan, key, "v", sums=10)
    vector.add_event([1, 2, 3], [5, 0, 5])
    vector.add_event([1, 2], 2)
    with pytest.raises(et.InvalidError, match="3 running sums"):
        vector.add_event([1, 2, 3, 4])
    with pytest.raises(et.InvalidError, match="twice"):
        vector.add_event([1, 1])
    with pytest.raises(et.InvalidError, match="2 values for 3"):
        vector.add_event([1, 2, 3], [1, 2])
    vector.tick()
    table = vector.read([1, 2, 3])
    assert (abs(table["value"] - [7, 2, 5]) < 8 * table["std_error"]).all()


def test_bad_input_is_refused_and_adds_nothing(key: et.SecretKey) -> None:
    plan = et.plan_lazy(10, rho=0.5)
    vector, clean = (et.LazyVector(plan, key, "v", sums=100) for _ in range(2))
    for wrong, message in [([1, 100], "0 to 99"), ([1, -1], "at least 0"), (-1, "not an index of a running sum")]:
        with pytest.raises(et.InvalidError, match=message):
            vector.add(wrong)  # type: ignore[arg-type]
    with pytest.raises(et.InvalidError, match="outside the declared bounds"):
        vector.add([1, 2], [1, 2])
    with pytest.raises(TypeError):
        vector.add([0.5])  # type: ignore[list-item]
    with pytest.raises(et.InvalidError, match="before the first step"):
        vector.read(1)
    with pytest.raises(et.HorizonExhausted):
        vector.tick(11)
    vector.add([])
    vector.tick()
    clean.tick()
    assert (vector.read(range(100)) == clean.read(range(100))).all()
    with pytest.raises(et.InvalidError, match="0 to 99"):
        vector.read([100])
    with pytest.raises(et.InvalidError, match="1 to 10"):
        vector.std_error(11)
    assert vector.read([]).shape == (0,)


def test_plans_that_cannot_be_read_lazily_are_refused(key: et.SecretKey) -> None:
    with pytest.raises(et.InvalidError, match="path-sum"):
        et.LazyVector(et.plan(100, rho=0.5, mechanism="sqrt"), key, "v", sums=10)
    with pytest.raises(et.InvalidError, match="running sums"):
        et.LazyVector(et.plan_lazy(100, rho=0.5), key, "v", sums=0)
    with pytest.raises(et.InvalidError, match="keyed"):
        et.plan_lazy(100, rho=0.5, sampling="exact")  # type: ignore[arg-type]


def test_any_closed_step_is_read_from_a_history(key: et.SecretKey) -> None:
    plan = et.plan_lazy(40, rho=0.5, sampling="keyed")
    vector = et.LazyVector(plan, key, "v", sums=100, sampling="keyed", history=True)
    readings = {}
    for step in range(1, 31):
        vector.add([step % 3] * step)
        vector.tick()
        readings[step] = vector.read(range(4))
    state = vector.save()
    again = et.LazyVector.restore(plan, key, "v", state, sums=100, sampling="keyed", history=True)
    for step in (30, 1, 17, 2, 29):
        assert np.array_equal(again.read(range(4), step=step), readings[step])
        assert again.read(2, step=step) == again.read(2, step)
    for step in (0, 31):
        with pytest.raises(et.InvalidError, match="1 to 30"):
            again.read(2, step=step)
    with pytest.raises(et.StateError):
        et.LazyVector.restore(plan, key, "v", state, sums=100, sampling="keyed")
    with pytest.raises(et.InvalidError, match="keyed"):
        et.LazyVector(plan, key, "w", sums=100, history=True)
    plain = et.LazyVector(plan, key, "w", sums=100, sampling="keyed")
    plain.tick(2)
    with pytest.raises(et.InvalidError, match="history"):
        plain.read(2, step=1)


def test_windows_are_read_where_noise_is_keyed() -> None:
    plan = et.plan_lazy(30, sampling="keyed", workload="window(3)", rho=0.5)
    key = et.SecretKey.insecure_from_test_seed(et.TestSeed(4))
    vector = et.LazyVector(plan, key, "weeks", sums=100, sampling="keyed")
    for step in range(1, 31):
        vector.add([7] * 1000)
        vector.tick()
        exact = 1000 * min(step, 3)
        assert abs(vector.read(7).value - exact) < 8 * vector.read(7).std_error
        assert vector.read(7) == vector.read(7)
    with pytest.raises(et.InvalidError, match="keyed"):
        et.plan_lazy(30, sampling="float", workload="window(3)", rho=0.5)
