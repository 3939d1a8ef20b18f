"""Count sketches."""

import pickle

import numpy as np
import pytest

import evertally as et


def sketch(key: et.SecretKey, width: int = 20_000) -> et.CountSketch:
    return et.CountSketch(et.plan_sketch(1000, rows=5, width=width, rho=0.5), key, "keys")


def test_estimates_are_near_the_truth(key: et.SecretKey) -> None:
    keys = sketch(key)
    assert keys.shape == (5, 20_000)
    truth = np.arange(500)
    keys.add_many(np.repeat(np.arange(500), truth))
    assert keys.tick(10) == 10
    table = keys.estimate(np.arange(500))
    assert table.dtype.names == ("step", "value", "std_error")
    assert (table["step"] == 10).all()
    collisions = keys.collision_std_error(float((truth**2).sum()))
    assert (abs(table["value"] - truth) < 8 * (table["std_error"] + collisions)).all()
    moment = keys.second_moment()
    assert moment.value == pytest.approx((truth**2).sum(), abs=8 * moment.std_error + 0.1 * (truth**2).sum())


def test_items_of_all_kinds(key: et.SecretKey) -> None:
    keys = sketch(key)
    keys.add_many(["zebra", b"gnu", 7])
    keys.add_many(np.array(["zebra", "zebra"]))
    keys.add_many(np.array([7, 7], dtype=np.uint8))
    keys.add("zebra")
    keys.add(np.int64(7))
    keys.tick()
    zebra, gnu, seven = (keys.estimate(item) for item in ("zebra", b"gnu", 7))
    assert keys.estimate(b"zebra") == zebra, "text is its UTF-8 bytes"
    many = keys.estimate(["zebra", b"gnu", 7])
    assert many["value"].tolist() == [zebra.value, gnu.value, seven.value]
    for reading, count in ((zebra, 4), (gnu, 1), (seven, 4)):
        assert abs(reading.value - count) < 8 * reading.std_error


def test_columns_of_data_frames(key: et.SecretKey) -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    estimates = []
    for column in (pandas.Series(["a", "b", "a"]), polars.Series(["a", "b", "a"]), ["a", "b", "a"]):
        keys = sketch(key)
        keys.add_many(column)
        keys.tick()
        estimates.append(keys.estimate("a"))
    assert estimates[0] == estimates[1] == estimates[2]


def test_states_go_on(key: et.SecretKey) -> None:
    keys = sketch(key)
    keys.add_many(["a"] * 9)
    keys.tick()
    keys.estimate("a")
    again = et.CountSketch.restore(et.plan_sketch(1000, rows=5, width=20_000, rho=0.5), key, "keys", keys.save())
    assert again.reads == keys.reads == 5 and again.step == 1
    assert again.estimate(["a", "b"]).tolist() == keys.estimate(["a", "b"]).tolist()
    with pytest.raises(TypeError, match="same noise"):
        pickle.dumps(keys)


def test_bad_input_is_refused(key: et.SecretKey) -> None:
    keys = sketch(key)
    for bad in (-1, 2**64, 1.5, None):
        with pytest.raises(et.InvalidError):
            keys.add(bad)  # type: ignore[arg-type]
    with pytest.raises(et.InvalidError, match="is not an item"):
        keys.add_many([1.5])  # type: ignore[list-item]
    with pytest.raises(et.InvalidError, match="takes many"):
        keys.add_many("abc")
    with pytest.raises(et.InvalidError, match="takes one"):
        keys.add(["abc"])  # type: ignore[arg-type]
    with pytest.raises(et.InvalidError, match="outside the declared bounds"):
        keys.add("a", 2)
    with pytest.raises(et.InvalidError, match="first step"):
        keys.estimate("a")
    with pytest.raises(et.InvalidError, match="odd"):
        et.plan_sketch(10, rows=4, width=10, rho=0.5)
    with pytest.raises(et.InvalidError, match="not made for a sketch"):
        et.CountSketch(et.plan(10, rho=0.5), key, "keys")
