"""Noise of a table's rows, drawn when the rows are used."""

import pickle
from pathlib import Path
from typing import Any

import evertally as et
import numpy as np
import numpy.typing as npt
import pytest

Table = npt.NDArray[np.float32]
PLAN = et.training.plan_vector(60, rho=0.5, mechanism="normalized-blt(buffers=2)")
ROWS, WIDTH = 500, 4


@pytest.fixture
def key(tmp_path: Path) -> et.SecretKey:
    key = et.SecretKey.generate()
    key.save(tmp_path / "key")
    return et.SecretKey.load(tmp_path / "key")


def noise(key: et.SecretKey, name: str = "words", **more: Any) -> et.training.RowNoise:
    return et.training.RowNoise(PLAN, key, name, **({"rows": ROWS, "width": WIDTH, "rates": 0.5} | more))


def table() -> Table:
    return np.zeros((ROWS, WIDTH), np.float32)


def run(noise: et.training.RowNoise, table: Table, *, steps: int = 20, seed: int = 1, sums: float = 0.25) -> Table:
    """Takes steps on random rows, and catches up all rows at the end."""
    random = np.random.default_rng(seed)
    for _ in range(steps):
        used = random.integers(0, ROWS, 30)
        noise.catch_up(table, used)
        own = np.unique(used)
        noise.descend(table, own, np.full((len(own), WIDTH), sums, np.float32))
    return noise.catch_up(table)


def test_rows_get_the_noise_that_they_would_have(key: et.SecretKey) -> None:
    """The noise that a row has missed has the variance of dense noise, whichever steps it has missed. 2000 values: a
    normal bound for a relative error of a standard deviation at significance 10⁻⁶ is 0.078."""
    late, names = table(), iter(range(100))
    for steps in (1, 7, 30):
        dense = np.zeros(200_000, np.float32)
        stream = et.VectorNoise(PLAN, key, f"dense {next(names)}", coordinates=len(dense))
        for _ in range(steps):
            dense -= 0.5 * stream.next()
        late = run(noise(key, f"late {next(names)}"), table(), steps=steps, sums=0.0)
        assert abs(late.std() / dense.std() - 1) < 0.08
        assert abs(late.mean()) < 5 * dense.std() / np.sqrt(late.size)


def test_rows_with_a_gradient_get_noise_at_once_and_others_later(key: et.SecretKey) -> None:
    late, values = noise(key), table()
    gradient = np.ones((2, WIDTH), np.float32)
    late.check(values, [3, 7], gradient)
    assert late.descend(values, [3, 7], gradient) is values
    assert (values[[3, 7]] != -0.5).all() and (np.delete(values, [3, 7], axis=0) == 0).all()
    assert (late.step, late.touched, late.horizon, late.rows, late.width) == (1, 2, 60, ROWS, WIDTH)
    kept = values.copy()
    late.catch_up(values, np.array([7, 7, 9]))
    assert late.touched == 3 and late.memory_bytes > 0
    assert (values[[3, 7]] == kept[[3, 7]]).all() and (values[9] != 0).all()
    seen = values.copy()
    late.catch_up(values, [9])
    assert (seen == values).all(), "noise comes once"
    assert "words" in repr(late) and "step 1 of 60" in repr(late) and late.plan.digest == PLAN.digest


def test_rates_may_change(key: et.SecretKey) -> None:
    rates = np.linspace(1.0, 0.0, 60)
    fading = noise(key, rates=rates)
    values = table()
    for _ in range(60):
        fading.descend(values, [], np.zeros((0, WIDTH), np.float32))
    fading.catch_up(values)
    assert fading.touched == 0 and 0 < values.std() < 30
    with pytest.raises(et.HorizonExhausted):
        fading.descend(values, [], np.zeros((0, WIDTH), np.float32))


def test_what_is_wrong_is_refused_and_changes_nothing(key: et.SecretKey) -> None:
    late, values = noise(key), table()
    one = np.ones((1, WIDTH), np.float32)
    late.descend(values, [3], one)
    before = values.copy()
    for rows, gradient, said in [
        ([2], one, "row 2 has a gradient, but not the noise of steps 1 to 1"),
        ([ROWS], one, "there is no row 500"),
        ([4, 4], np.ones((2, WIDTH), np.float32), "row 4 has two gradients"),
        ([4, 5], one, "4 numbers for 2 rows"),
        ([-1], one, "at least 0"),
    ]:
        for call in (late.descend, late.check):
            with pytest.raises(et.InvalidError, match=said):
                call(values, rows, gradient)
    with pytest.raises(TypeError, match="float32"):
        late.descend(values, [4], np.ones((1, WIDTH)))
    with pytest.raises(TypeError, match="whole numbers"):
        late.catch_up(values, [0.5])
    with pytest.raises(et.InvalidError, match="no row 500"):
        late.catch_up(values, [1, ROWS])
    with pytest.raises(et.InvalidError, match="2000 coordinates"):
        late.catch_up(values[:-1])
    with pytest.raises(et.InvalidError, match="contiguous"):
        late.catch_up(np.asfortranarray(values))
    assert (before == values).all() and (late.step, late.touched) == (1, 1)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"rates": [0.5] * 59}, "59 rates for 60 steps"),
        ({"rates": float("inf")}, "finite"),
        ({"rates": "fast"}, "a number"),
        ({"rows": 0}, "at least one row"),
    ]
    for more, said in wrong:
        with pytest.raises(et.InvalidError, match=said):
            noise(key, **more)
    sums = et.training.plan_vector(60, rho=0.5, mechanism="input", series="running-sums")
    with pytest.raises(et.InvalidError, match="increments"):
        et.training.RowNoise(sums, key, "sums", rows=3, width=3, rates=1.0)
    root = et.training.plan_vector(60, rho=0.5, mechanism="sqrt")
    with pytest.raises(et.InvalidError, match="cannot be skipped"):
        et.training.RowNoise(root, key, "root", rows=3, width=3, rates=1.0)


def test_a_run_goes_on_bit_for_bit(key: et.SecretKey) -> None:
    whole = run(noise(key), table())
    with et.allow_noise_reuse("compares a run with itself"):
        first, values = noise(key), table()
        random = np.random.default_rng(1)
        for step in range(20):
            used = random.integers(0, ROWS, 30)
            first.catch_up(values, used)
            if step == 9:
                state = first.save()
                first = et.training.RowNoise.restore(
                    PLAN, key, "words", state, rows=ROWS, width=WIDTH, rates=0.5, threads=2
                )
            own = np.unique(used)
            first.descend(values, own, np.full((len(own), WIDTH), 0.25, np.float32))
        assert (first.catch_up(values) == whole).all()
    with pytest.raises(et.StateError, match="damaged"):
        et.training.RowNoise.restore(PLAN, key, "words", state[:-1] + b"\0", rows=ROWS, width=WIDTH, rates=0.5)
    with pytest.raises(et.StateError, match="another plan"):
        et.training.RowNoise.restore(PLAN, key, "words", state, rows=ROWS, width=WIDTH, rates=0.25)
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(first)


def test_the_same_noise_for_other_data_is_refused(key: et.SecretKey) -> None:
    once = run(noise(key), table(), steps=5)
    assert (run(noise(key), table(), steps=5) == once).all()  # the same data: the same bytes
    others: list[dict[str, Any]] = [{"seed": 2}, {"sums": 0.5}]
    for other in others:
        values = table()
        with pytest.raises(et.StateError, match='call [12] of the RowNoise "words" was issued for other data'):
            run(noise(key), values, steps=5, **other)
        assert (values == 0).all()
    run(noise(key, "other"), table(), steps=5, sums=0.5)
    other_runs: list[dict[str, Any]] = [{"rates": 0.25}, {"rates": 0.5 + 1e-12}, {"rows": ROWS + 1}]
    for more in other_runs:  # a run has one name, and one rate
        late, values = noise(key, **more), np.zeros((more.get("rows", ROWS), WIDTH), np.float32)
        with pytest.raises(et.StateError, match="issued for other data"):
            late.catch_up(values, np.random.default_rng(1).integers(0, ROWS, 30))


def test_gradients_do_not_round_before_their_noise_is_there(key: et.SecretKey) -> None:
    """A table of large numbers has few digits left: two gradients that differ by less than the last one still lead to
    different tables, as often as their noise requires."""
    plan = et.training.plan_vector(4, rho=0.5, mechanism="input")
    values = [np.full((4000, 4), 1000.0, np.float32) for _ in range(2)]
    with et.allow_noise_reuse("compares two gradients under one noise"):
        for table, gradient in zip(values, (0.0, 1e-3)):
            late = et.training.RowNoise(plan, key, "digits", rows=4000, width=4, rates=0.01)
            late.descend(table, np.arange(4000), np.full((4000, 4), gradient, np.float32))
    assert 0.1 * 1e-5 < float((values[0].astype(np.float64) - values[1]).mean()) < 3 * 1e-5


def test_plans_with_lots_are_taken(key: et.SecretKey) -> None:
    plan = et.training.plan_vector(
        40, epsilon=2.0, delta=1e-5, sampling="cyclic-poisson", sampled_fraction=0.05, mechanism="epoch-bands(bands=4)"
    )
    batches = et.training.Batches(plan, key, "lots", examples=200)
    late = et.training.RowNoise(plan, key, "lots", rows=50, width=2, rates=1 / batches.expected_size)
    values = np.zeros((50, 2), np.float32)
    for batch in batches:
        rows = np.unique(batch % 50)
        late.catch_up(values, rows)
        late.descend(values, rows, np.zeros((len(rows), 2), np.float32))
    late.catch_up(values)
    assert (values != 0).all() and late.touched == 0
