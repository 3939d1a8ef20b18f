"""Counters."""

import copy
import pickle
import threading
from decimal import Decimal

import numpy as np
import pytest

import evertally as et


def tick(counter: et.Counter, total: object) -> et.Release:
    """The release of a step with a given total."""
    counter.add(total)  # type: ignore[arg-type]
    return counter.tick()


def counter(key: et.SecretKey, horizon: int = 365, **options: object) -> et.Counter:
    return et.Counter(et.plan(horizon, **({"epsilon": 1.0} | options)), key, "visits")  # type: ignore[arg-type]


def test_releases_are_near_the_truth_and_their_intervals_cover_it(key: et.SecretKey) -> None:
    visits = counter(key, 2000, rho=0.5, epsilon=None)
    totals = np.arange(2000) % 17
    releases = visits.release_many(totals)
    assert releases.dtype.names == ("step", "value", "std_error", "lower", "upper")
    assert releases["step"].tolist() == list(range(1, 2001))
    error = releases["value"] - totals.cumsum()
    # 8 standard errors: a probability of 1e-15 per step.
    assert (abs(error) < 8 * releases["std_error"]).all() and (error != 0).any()
    covered = (releases["lower"] <= totals.cumsum()) & (totals.cumsum() <= releases["upper"])
    assert covered.mean() > 0.8
    assert visits.step == 2000


def test_many_are_the_same_as_one_by_one(key: et.SecretKey) -> None:
    totals = [3, 0, 7, 12, 1]
    many = counter(key).release_many(totals)
    single = counter(key)
    for total, row in zip(totals, many, strict=True):
        single.add(total)
        release = single.tick()
        assert (release.step, release.value, release.std_error, release.lower, release.upper) == tuple(row)
        assert single.last == release and float(release) == release.value and str(release).startswith(release.text)
    skipping = counter(key)
    skipping.add(3)
    assert skipping.tick().step == 1 and skipping.tick(4).step == 5
    zeros = counter(key)
    assert zeros.release_many([3, 0, 0, 0, 0])["value"][-1] == skipping.last.value  # type: ignore[union-attr]


@pytest.mark.parametrize("options", [{"rho": 0.5}, {"epsilon": 1.0}])
def test_errors_of_releases_are_those_of_the_plan(key: et.SecretKey, options: dict[str, float]) -> None:
    """To the last bit, for every suitable mechanism: releases compute error and interval of a step together."""
    for candidate in et.plan(37, **options).ranking:  # type: ignore[arg-type]
        plan = et.plan(37, mechanism=candidate.name, noise=candidate.noise, **options)  # type: ignore[arg-type]
        releases = et.Counter(plan, key, "visits").release_many(np.full(37, 5))
        assert releases["std_error"].tolist() == plan.std_errors().tolist(), candidate.name
        half_widths = [plan.half_width(step) for step in range(1, 38)]
        assert (releases["upper"] - releases["lower"]).tolist() == pytest.approx([2 * h for h in half_widths])


def test_events_of_a_step_add_up(key: et.SecretKey) -> None:
    """All events added between two ticks form one step, even if a state is saved and restored in the middle of it."""
    whole, parts = counter(key), counter(key)
    whole.add(12)
    for part in (5, 0, 4):
        parts.add(part)
    assert parts.step == 0 and parts.last is None
    parts = et.Counter.restore(parts.plan, key, "visits", parts.save())
    parts.add(3)
    assert parts.tick() == whole.tick()
    parts.add(2)
    assert parts.release_many([1, 4]).tolist() == whole.release_many([3, 4]).tolist()


def test_numbers_of_steps_out_of_range_are_refused_in_words(key: et.SecretKey) -> None:
    for steps in (-1, 2**64):
        with pytest.raises(et.InvalidError, match=f"{steps} is not a whole number from 0 to 2"):
            counter(key).tick(steps)


def test_names_and_keys_decide_the_noise(key: et.SecretKey) -> None:
    plan = et.plan(100, epsilon=0.01)
    values = {
        tick(et.Counter(plan, key, "a"), 5).value,
        tick(et.Counter(plan, key, "b"), 5).value,
        tick(et.Counter(plan, et.SecretKey.generate(), "a"), 5).value,
    }
    assert len(values) == 3
    assert tick(et.Counter(plan, key, "a"), 6).value - tick(et.Counter(plan, key, "a"), 5).value == 1


def test_states_go_on(key: et.SecretKey) -> None:
    plan = et.plan(100, rho=0.5)
    visits = et.Counter(plan, key, "visits", confidence=0.9)
    assert visits.last is None and visits.confidence == 0.9 and visits.name == "visits" and visits.plan == plan
    visits.release_many(range(37))
    state = visits.save()
    again = et.Counter.restore(plan, key, "visits", state, confidence=0.9)
    assert again.step == 37 and again.last == visits.last
    assert tick(again, 5) == tick(visits, 5)
    damaged = state[:-1] + bytes([state[-1] ^ 1])
    for other, name, secret, saved in [
        (plan, "else", key, state),
        (et.plan(101, rho=0.5), "visits", key, state),
        (plan, "visits", et.SecretKey.generate(), state),
        (plan, "visits", key, damaged),
        (plan, "visits", key, b""),
    ]:
        with pytest.raises(et.StateError):
            et.Counter.restore(other, secret, name, saved)


def test_the_horizon_ends(key: et.SecretKey) -> None:
    visits = counter(key, 3)
    visits.release_many([1, 2, 3])
    for more in (lambda: visits.add(1), visits.tick, lambda: visits.release_many([1])):
        with pytest.raises(et.HorizonExhausted, match="3 steps"):
            more()
    assert visits.step == 3
    with pytest.raises(et.HorizonExhausted):
        counter(key, 3).tick(4)


def test_too_many_totals_close_no_step(key: et.SecretKey) -> None:
    visits = counter(key, 3)
    tick(visits, 1)
    with pytest.raises(et.HorizonExhausted, match="2 of 3 steps are left, too few for 3 totals"):
        visits.release_many([1, 2, 3])
    assert visits.step == 1 and visits.release_many([1, 2])["step"].tolist() == [2, 3]


@pytest.mark.parametrize("huge", [2**63, -(2**70)])
def test_whole_numbers_beyond_64_bits_are_refused_in_words(key: et.SecretKey, huge: int) -> None:
    for add in (lambda: counter(key).add(huge), lambda: counter(key).release_many([huge])):
        with pytest.raises(et.InvalidError, match="too large"):
            add()


@pytest.mark.parametrize("bad", [-1, float("nan"), float("inf"), "many", None, 2**63, [1]])
def test_impossible_totals_are_refused(key: et.SecretKey, bad: object) -> None:
    visits = counter(key)
    with pytest.raises((et.InvalidError, TypeError, OverflowError)):
        visits.add(bad)  # type: ignore[arg-type]
    assert visits.step == 0
    with pytest.raises(et.InvalidError, match="steps=0"):
        visits.tick(0)
    with pytest.raises(et.InvalidError, match="one dimension"):
        visits.release_many(np.ones((2, 2)))
    with pytest.raises(et.InvalidError):
        visits.release_many([1, -1])
    assert visits.step == 1, "the step before the impossible one is closed"


def test_sums_overflow_loudly(key: et.SecretKey) -> None:
    sums = counter(key, bounds=(0, 10))
    sums.add(2**63 - 1)
    with pytest.raises(et.SumOverflowError):
        sums.add(1)
    with pytest.raises(OverflowError):
        sums.add(1)


def test_amounts_are_exact_on_their_grid(key: et.SecretKey) -> None:
    def sales() -> et.Counter:
        return counter(key, bounds=(Decimal("-5"), 49.99), grid="0.01", mechanism="binary")

    first = tick(sales(), Decimal("0.29"))
    assert len(first.text.split(".")[1]) == 2 and float(first.text) == first.value
    assert first == tick(sales(), 0.29) == tick(sales(), "0.29") == tick(sales(), np.float64(0.29))
    assert tick(sales(), 3) == tick(sales(), np.int32(3)) == tick(sales(), 3.0)
    assert sales().release_many([0.29])["value"][0] == first.value
    assert sales().release_many([Decimal("0.29")])["value"][0] == first.value
    assert sales().release_many(np.array([3], dtype=np.int8))["value"][0] == tick(sales(), 3).value


def test_bad_names_and_confidences_are_refused(key: et.SecretKey) -> None:
    plan = et.plan(10, epsilon=1.0)
    for name in ("", "a\nb", "x" * 201):
        with pytest.raises(et.InvalidError, match="name"):
            et.Counter(plan, key, name)
    for confidence in (0.0, 1.0, float("nan")):
        with pytest.raises(et.InvalidError, match="confidence"):
            et.Counter(plan, key, "a", confidence=confidence)


def test_counters_are_not_pickled_or_copied(key: et.SecretKey) -> None:
    visits = counter(key)
    for leak in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="same noise"):
            leak(visits)


def test_threads_take_turns(key: et.SecretKey) -> None:
    visits = counter(key, 4000, rho=0.5, epsilon=None)
    releases: list[tuple[int, float]] = []

    def work() -> None:
        for _ in range(500):
            release = visits.release_many([1])[0]  # adds and closes in one turn
            releases.append((int(release["step"]), float(release["value"])))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert visits.step == 2000
    assert sorted(step for step, _ in releases) == list(range(1, 2001))
    other = counter(key, 4000, rho=0.5, epsilon=None).release_many(np.ones(2000, dtype=int))
    assert dict(releases) == dict(zip(other["step"].tolist(), other["value"].tolist(), strict=True))
