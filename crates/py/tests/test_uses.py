"""The same noise is released again only for the same data."""

import gc
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import evertally as et

PLAN = et.plan(1000, epsilon=1.0)
TRAINING = et.training.plan_vector(1000, rho=0.5, mechanism="smooth")
DIMENSION = 300


@pytest.fixture
def key() -> et.SecretKey:
    """A real key: noise of keys from a test seed is not logged."""
    return et.SecretKey.generate()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A key file."""
    path = tmp_path / "my.key"
    et.SecretKey.generate().save(path)
    return path


def gradient(seed: int, dimension: int = DIMENSION, dtype: str = "float32") -> npt.NDArray[Any]:
    return np.random.default_rng(seed).standard_normal(dimension).astype(dtype)


def training(key: et.SecretKey, name: str = "run", **options: Any) -> et.VectorNoise:
    return et.VectorNoise(TRAINING, key, name, **({"coordinates": DIMENSION} | options))


def steps(noise: et.VectorNoise, *seeds: int) -> list[bytes]:
    return [noise.add_next(gradient(seed, len(noise), noise.dtype)).tobytes() for seed in seeds]


def releases(counter: et.Counter, *totals: int) -> list[float]:
    values = []
    for total in totals:
        counter.add(total)
        values.append(counter.tick().value)
    return values


HEAD = f"""
import os, sys, time, numpy as np, evertally as et
PLAN = et.plan(1000, epsilon=1.0)
TRAINING = et.training.plan_vector(1000, rho=0.5, mechanism="smooth")
def gradient(seed): return np.random.default_rng(seed).standard_normal({DIMENSION}).astype("float32")
def noise(key, state=None, coordinates={DIMENSION}):
    if state is None: return et.VectorNoise(TRAINING, key, "run", coordinates=coordinates)
    return et.VectorNoise.restore(TRAINING, key, "run", state, coordinates=coordinates)
def counter(key, state=None):
    return et.Counter(PLAN, key, "visits") if state is None else et.Counter.restore(PLAN, key, "visits", state)
"""


def process(text: str, *arguments: object) -> "subprocess.Popen[str]":
    """A separate process."""
    command = [sys.executable, "-c", HEAD + text, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def output_of(running: "subprocess.Popen[str]") -> str:
    out, err = running.communicate(timeout=60)
    assert running.returncode == 0, err
    return out.strip()


# ---- Reuse that would go unnoticed


def test_two_counters_of_one_name_do_not_meet_other_data(key: et.SecretKey) -> None:
    one, other = et.Counter(PLAN, key, "visits"), et.Counter(PLAN, key, "visits")
    assert releases(one, 3, 4) == releases(other, 3, 4), "the same data give the same release"
    releases(one, 5)
    state = other.save()
    other.add(6)
    with pytest.raises(et.StateError) as caught:
        other.tick()
    for part in (
        'step 3 of the Counter "visits"',
        "other data",
        "exact difference",
        "another name",
        "last state (step 3)",
    ):
        assert part in str(caught.value)
    # Nothing has changed, and the step can be released with its own data.
    assert other.step == 2
    other = et.Counter.restore(PLAN, key, "visits", state)
    other.add(5)
    assert other.tick() == one.last


def test_a_state_that_is_restored_twice_or_beside_its_original(key: et.SecretKey) -> None:
    original = et.Counter(PLAN, key, "visits")
    releases(original, 1, 2)
    twice = [et.Counter.restore(PLAN, key, "visits", original.save()) for _ in range(2)]
    releases(twice[0], 10)
    for late in (twice[1], original):
        with pytest.raises(et.StateError, match="step 3"):
            releases(late, 11)


def test_steps_that_were_passed_over_have_their_sum_too(key: et.SecretKey) -> None:
    counter = et.Counter(PLAN, key, "visits")
    counter.add(3)
    counter.tick(10)
    for totals in ([4], [3, 1]):
        again = et.Counter(PLAN, key, "visits")
        with pytest.raises(et.StateError, match=f"step {len(totals)} "):
            releases(again, *totals)
    again = et.Counter(PLAN, key, "visits")
    releases(again, *[3] + [0] * 9)
    assert again.last == counter.last
    again.add(1)
    assert again.tick(5).step == 15
    with pytest.raises(et.StateError, match="step 11"):
        counter.tick(100)


def test_many_releases_at_once(key: et.SecretKey) -> None:
    totals = np.arange(500)
    first = et.Counter(PLAN, key, "visits").release_many(totals)
    again = et.Counter(PLAN, key, "visits")
    totals[321] += 1
    with pytest.raises(et.StateError, match="step 322"):
        again.release_many(totals)
    assert again.step == 0, "no step is closed"
    totals[321] -= 1
    assert (again.release_many(totals) == first).all()
    # Steps after a refused total were not released, and are free for other data.
    with pytest.raises(et.InvalidError):
        again.release_many([1, -1, 1])
    assert again.step == 501
    again.release_many([2, 2])


RIVAL = """
key = et.SecretKey.load(sys.argv[1])
if sys.argv[2] == "counter":
    print(counter(key).release_many([1000])["value"][0])
elif sys.argv[2] == "sketch":
    sketch = et.CountSketch(et.plan_sketch(100, rho=0.5, rows=5, width=64), key, "keys")
    sketch.add_many(["a"] * 1000)
    sketch.tick()
    print(sketch.estimate("a").value)
else:
    plan = et.plan_lazy(100, rho=0.5, sampling=sys.argv[2])
    vector = et.LazyVector(plan, key, "sums", sums=100, sampling=sys.argv[2])
    vector.add(np.full(1000, 5))
    vector.tick()
    print(vector.read(5).value)
"""


def test_many_releases_after_those_of_another_process(file: Path) -> None:
    """A refused release was not drawn: the object cannot show it later, nor continue after it."""
    counter = et.Counter(PLAN, et.SecretKey.load(file), "visits")
    shown = float(output_of(process(RIVAL, file, "counter")))
    for _ in range(2):
        with pytest.raises(et.StateError, match="step 1 .* other data"):
            counter.release_many([993])
        assert (counter.step, counter.last) == (0, None)
    assert counter.release_many([1000])["value"][0] == shown


@pytest.mark.parametrize("sampling", ["float", "integer", "keyed", "sketch"])
def test_reads_after_those_of_another_process(file: Path, sampling: str) -> None:
    """A read that is refused is not drawn, however often it is tried."""
    key = et.SecretKey.load(file)
    if sampling == "sketch":
        sketch = et.CountSketch(et.plan_sketch(100, rho=0.5, rows=5, width=64), key, "keys")
        sketch.add_many(["a"] * 993)
        sketch.tick()
        reader: et.CountSketch | et.LazyVector = sketch
        read: Callable[[], Any] = lambda: sketch.estimate("a")
    else:
        plan = et.plan_lazy(100, rho=0.5, sampling=sampling)  # type: ignore[arg-type]
        vector = et.LazyVector(plan, key, "sums", sums=100, sampling=sampling)  # type: ignore[arg-type]
        # What reads nothing claims nothing.
        with pytest.raises(et.InvalidError):
            vector.read(5)
        vector.add(np.full(993, 5))
        vector.tick()
        assert len(vector.read(np.array([], np.int64))) == 0
        reader, read = vector, lambda: vector.read(5)
    output_of(process(RIVAL, file, sampling))
    for _ in range(3):
        with pytest.raises(et.StateError, match="read 1 .* was made already"):
            read()
        assert reader.reads == 0


def test_releases_that_cannot_be_logged(file: Path) -> None:
    counter = et.Counter(PLAN, et.SecretKey.load(file), "visits")
    counter.release_many([1])
    log = file.with_name(file.name + ".uses")
    log.rename(file.with_name("away"))
    with pytest.raises((et.EvertallyError, OSError)):
        counter.release_many([2])
    assert counter.step == 1
    file.with_name("away").rename(log)
    other = et.Counter(PLAN, et.SecretKey.load(file), "visits")
    assert releases(other, 1, 9)[0] == counter.last.value  # type: ignore[union-attr]


def test_of_two_threads_one_releases(file: Path) -> None:
    key, plan = et.SecretKey.load(file), et.plan(10_000, rho=0.5)
    for number in range(20):
        counters = [et.Counter(plan, key, f"visits {number}") for _ in range(2)]
        both = threading.Barrier(2)

        def release(total: int, counters: list[et.Counter] = counters, both: threading.Barrier = both) -> None:
            both.wait()
            try:
                counters[total - 1].release_many(np.full(5000, total))
            except et.StateError:
                pass

        threads = [threading.Thread(target=release, args=(total,)) for total in (1, 2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(counter.step for counter in counters) == [0, 5000]


@pytest.mark.parametrize("mechanism", ["smooth", "blt"])
def test_a_sweep_is_caught_at_its_first_other_gradient(key: et.SecretKey, mechanism: str) -> None:
    plan = et.training.plan_vector(50, rho=0.5, mechanism=mechanism)

    def train(rate: float, name: str = "run") -> None:
        noise, weights = et.VectorNoise(plan, key, name, coordinates=DIMENSION), np.ones(DIMENSION, np.float32)
        for _ in range(5):
            weights = weights - np.float32(rate) * noise.add_next(2 * weights)

    train(0.1)
    train(0.1)
    with pytest.raises(et.StateError, match=r'step 2 of the VectorNoise "run".* separate name.*\(step 5\).*[Rr]anks'):
        train(0.2)
    train(0.2, "run, rate 0.2")


def test_going_back(key: et.SecretKey) -> None:
    noise = training(key)
    first = steps(noise, 1, 2, 3)
    noise.seek(1)
    state = noise.save()
    with pytest.raises(et.StateError, match="step 2"):
        noise.add_next(gradient(7))
    assert noise.step == 1 and noise.save() == state
    array = gradient(7)
    with pytest.raises(et.StateError):
        noise.add_next(array)
    assert array.tobytes() == gradient(7).tobytes(), "nothing is added"
    assert steps(noise, 2, 3, 4)[:2] == first[1:]
    again = et.VectorNoise.restore(TRAINING, key, "run", state, coordinates=DIMENSION)
    assert steps(again, 2, 3) == first[1:]


def test_noise_by_itself_is_given_out_once_or_for_what_is_said(key: et.SecretKey) -> None:
    noise = training(key)
    noise.next()
    noise.seek(0)
    draws: list[Callable[[], Any]] = [noise.next, lambda: noise.next(of=b"x"), lambda: noise.add_next(gradient(1))]
    for draw in draws:
        with pytest.raises(et.StateError, match="nothing shows that it was for the same data.*of="):
            draw()
    out = np.zeros(DIMENSION, np.float32)
    ways: list[Any] = [b"hash", 12345678901234567890, gradient(3), [1.0, 2.0], bytearray(b"abc"), memoryview(b"de")]
    for step, of in enumerate(ways, 1):
        noise.seek(step)
        first = noise.next_into(out, of=of).tobytes()
        noise.seek(step)
        assert noise.next(of=of).tobytes() == first
        noise.seek(step)
        with pytest.raises(et.StateError, match="other data"):
            noise.next(of=b"something else")
        with pytest.raises(et.StateError, match="nothing shows"):
            noise.next()
    # An array is the argument of add_next.
    noise.seek(3)
    assert (noise.add_next(gradient(3)) == gradient(3) + np.frombuffer(noise_of(key, 4), np.float32)).all()
    for wrong in ("text", object(), ["a"]):
        with pytest.raises(et.InvalidError, match="`of` identifies the data that the noise is added to"):
            noise.next(of=wrong)  # type: ignore[arg-type]


def noise_of(key: et.SecretKey, step: int) -> bytes:
    with et.allow_noise_reuse("compares bytes in a test"):
        noise = training(key)
        noise.seek(step - 1)
        return noise.next().tobytes()


def test_ranges(key: et.SecretKey) -> None:
    parts = [training(key, coordinates=(first, first + 100)) for first in (0, 100, 200)]
    drawn = [steps(part, seed, seed + 10) for seed, part in enumerate(parts)]
    for overlapping in (300, (50, 150), (0, 99), (299, 400)):
        with pytest.raises(et.StateError, match="step 1 .* overlap"):
            steps(training(key, coordinates=overlapping), 1)
    assert steps(training(key, coordinates=(100, 200)), 1, 11) == drawn[1]
    assert len(steps(training(key, coordinates=(300, 400)), 5)) == 1
    # A step that no part has drawn.
    whole = training(key)
    whole.seek(2)
    whole.next()


def test_what_has_other_noise_is_apart(key: et.SecretKey) -> None:
    steps(training(key), 1)
    steps(training(key, "other name"), 2)
    steps(training(key, dtype="float64"), 3)
    other = et.training.plan_vector(1000, rho=0.5, mechanism="smooth", meaning={"model": "other"})
    steps(et.VectorNoise(other, key, "run", coordinates=DIMENSION), 4)
    steps(training(et.SecretKey.generate()), 5)
    releases(et.Counter(PLAN, key, "visits"), 6)
    releases(et.Counter(et.plan(999, epsilon=1.0), key, "visits"), 7)
    # A name belongs to one kind of object.
    with pytest.raises(et.StateError, match="by noise for training"):
        releases(et.Counter(PLAN, key, "run"), 6)


def test_an_object_that_gave_out_nothing_leaves_no_trace(file: Path) -> None:
    key = et.SecretKey.load(file)
    counter, noise = et.Counter(PLAN, key, "visits"), training(key)
    counter.add(5)
    for wrong in (np.zeros(DIMENSION), np.zeros(3, np.float32), None):
        with pytest.raises((TypeError, ValueError)):
            noise.add_next(wrong)  # type: ignore[type-var]
    with pytest.raises(et.HorizonExhausted):
        counter.tick(1001)
    with pytest.raises(et.InvalidError):
        counter.release_many([-1])
    noise.seek(1000)
    with pytest.raises(et.HorizonExhausted):
        noise.next()
    assert not file.with_name("my.key.uses").exists()
    del counter, noise
    releases(et.Counter(PLAN, key, "visits"), 1)
    steps(training(key), 1)


@pytest.mark.parametrize("sampling", ["float", "integer", "keyed"])
def test_lazy_vectors_and_sketches_are_read_on_from_their_last_state(key: et.SecretKey, sampling: Any) -> None:
    lazy = et.plan_lazy(100, rho=0.5, sampling=sampling)
    cells = et.plan_sketch(100, rho=0.5, rows=3, width=50, sampling=sampling)

    def vector(state: bytes | None = None) -> Any:
        if state is None:
            return et.LazyVector(lazy, key, "v", sums=50, sampling=sampling)
        return et.LazyVector.restore(lazy, key, "v", state, sums=50, sampling=sampling)

    def sketch(state: bytes | None = None) -> Any:
        if state is None:
            return et.CountSketch(cells, key, "s", sampling=sampling)
        return et.CountSketch.restore(cells, key, "s", state, sampling=sampling)

    kinds: list[tuple[Callable[..., Any], Callable[[Any], Any]]] = [
        (vector, lambda v: v.read(7)),
        (sketch, lambda s: s.estimate("a")),
        (sketch, lambda s: s.second_moment()),
    ]
    for number, (make, read) in enumerate(kinds):
        key = et.SecretKey.generate()
        with pytest.raises(et.InvalidError, match="first step"):
            read(make())
        made = make()
        made.tick()
        old = made.save()
        value = read(made)
        state = made.save()
        for behind in (make(old), make()):
            behind.tick()
            with pytest.raises(et.StateError, match=r"read 1 of the .*restore its last state \(of \d+ reads\)"):
                read(behind)
        # Two from the last state: the first that reads continues.
        again, late = make(state), make(state)
        if number < 2:
            assert read(again) == value
        else:
            read(again)
        with pytest.raises(et.StateError, match="made already"):
            read(late)
        with et.allow_noise_reuse("the old one was not published"):
            read(make(old))


# ---- Reuse that is allowed


def test_reuse_is_allowed_where_it_is_said(key: et.SecretKey) -> None:
    assert releases(et.Counter(PLAN, key, "visits"), 3)
    with et.allow_noise_reuse("shows the difference"):
        with et.allow_noise_reuse("blocks within blocks"):
            pass
        more = releases(et.Counter(PLAN, key, "visits"), 4, 5)
    # Outside the block everything is as before; releases inside it are logged.
    with pytest.raises(et.StateError, match="step 1"):
        releases(et.Counter(PLAN, key, "visits"), 4)
    with pytest.raises(et.StateError, match="step 2"):
        releases(et.Counter(PLAN, key, "visits"), 3, 5)
    assert releases(et.Counter(PLAN, key, "visits"), 3, 6)[1] == more[1]
    with pytest.raises(ZeroDivisionError), et.allow_noise_reuse("fails"):
        1 / 0  # noqa: B018
    with pytest.raises(et.StateError):
        releases(et.Counter(PLAN, key, "visits"), 4)
    for reason in ("", " ", None):
        with pytest.raises(ValueError, match="say why"), et.allow_noise_reuse(reason):  # type: ignore[arg-type]
            pass


def test_keys_that_everybody_has_are_not_watched() -> None:
    key = et.SecretKey.insecure_from_test_seed(et.TestSeed(1))
    values = [releases(et.Counter(PLAN, key, "visits"), total)[0] for total in (1, 2)]
    assert values[1] - values[0] == 1
    training(key).next()
    training(key).next()


def test_a_notebook_that_is_run_again(key: et.SecretKey) -> None:
    """A cell creates its object while the previous one still exists; with the same data, releases are the same."""
    found = []
    for _ in range(3):
        noise = training(key)
        found.append(steps(noise, 1, 2))
    assert found[0] == found[1] == found[2]


def test_memory_is_bounded_and_what_is_old_is_not_given_out_again(key: et.SecretKey) -> None:
    horizon = 2**18
    plan = et.plan(horizon, rho=0.5, mechanism="binary")
    totals = np.ones(horizon, int)
    whole = et.Counter(plan, key, "long").release_many(totals)
    again = et.Counter(plan, key, "long")
    with pytest.raises(et.StateError, match="nothing shows"):
        again.release_many(totals[:1])
    with et.allow_noise_reuse("seeks to the logged steps"):
        again.release_many(totals[: horizon - 60_000])
    assert (again.release_many(totals[horizon - 60_000 :]) == whole[horizon - 60_000 :]).all()


def test_a_key_that_comes_back_is_known() -> None:
    key = et.SecretKey.generate()
    secret = key.expose_bytes()
    releases(et.Counter(PLAN, key, "visits"), 1)
    del key
    gc.collect()
    with pytest.raises(et.StateError):
        releases(et.Counter(PLAN, et.SecretKey.from_bytes(secret), "visits"), 2)


def test_states_from_elsewhere(key: et.SecretKey) -> None:
    """A process does not know which noise was released before the states that it gets."""
    noise, counter = training(key), et.Counter(PLAN, key, "visits")
    states = [noise.save().hex(), counter.save().hex()]
    steps(noise, 1, 2, 3)
    releases(counter, 1, 2, 3)
    states += [noise.save().hex(), counter.save().hex()]
    text = """
key = et.SecretKey.from_bytes(bytes.fromhex(sys.argv[1]), published_nothing=True)
first, one, last, three = map(bytes.fromhex, sys.argv[2:])
for _ in range(2):
    noise(key, last).add_next(gradient(4))
    counter(key, three).tick()
for again in (lambda: noise(key, first).add_next(gradient(1)), counter(key, one).tick):
    try:
        again()
    except et.StateError as problem:
        print("nothing shows" in str(problem))
"""
    assert output_of(process(text, key.expose_bytes().hex(), *states)).split() == ["True", "True"]


# ---- Several processes and the file


def test_a_crash_and_a_replay(file: Path, tmp_path: Path) -> None:
    """A run that is killed in the middle of its steps resumes from its last state, and repeats them to the last bit."""
    text = """
key, state = et.SecretKey.load(sys.argv[1]), sys.argv[2]
one, other = noise(key), counter(key)
for step in range(1, 1000):
    if step == 5:
        open(state + ".noise", "wb").write(one.save())
        open(state + ".counter", "wb").write(other.save())
    other.add(step)
    print(step, one.add_next(gradient(step)).tobytes().hex(), other.tick().value, flush=True)
    time.sleep(0.002)
"""
    running = process(text, file, tmp_path / "state")
    assert running.stdout is not None
    seen = [running.stdout.readline().split() for _ in range(20)]
    os.kill(running.pid, signal.SIGKILL)
    running.communicate()
    assert running.returncode == -signal.SIGKILL

    uses = file.with_name("my.key.uses")
    assert stat.S_IMODE(uses.stat().st_mode) == 0o600
    key = et.SecretKey.load(file)
    noise = et.VectorNoise.restore(TRAINING, key, "run", (tmp_path / "state.noise").read_bytes(), coordinates=DIMENSION)
    counter = et.Counter.restore(PLAN, key, "visits", (tmp_path / "state.counter").read_bytes())
    for step, vector, value in seen[4:]:
        with pytest.raises(et.StateError, match=f"step {step} .*other data"):
            noise.add_next(gradient(1000))
        assert steps(noise, int(step))[0].hex() == vector
        assert releases(counter, int(step)) == [float(value)]
    steps(noise, *range(21, 30))
    # So does a run that starts again.
    assert steps(training(key), 1, 2)[1].hex() == seen[1][1]


def test_two_processes(file: Path) -> None:
    key = et.SecretKey.load(file)
    steps(training(key), 1, 2)
    text = """
key = et.SecretKey.load(sys.argv[1])
again = noise(key)
again.add_next(gradient(1))
try:
    again.add_next(gradient(3))
except et.StateError as problem:
    print("refused" if "step 2" in str(problem) else problem)
again.add_next(gradient(2))
again.add_next(gradient(30))
"""
    assert output_of(process(text, file)) == "refused"
    mine = training(key)
    mine.seek(2)
    with pytest.raises(et.StateError, match="step 3"):
        steps(mine, 31)
    steps(mine, 30)


def test_ranks(file: Path) -> None:
    """If each rank has its own gradient and the noise of all coordinates, one of them is refused. With separate ranges,
    or if all have the same sum, they continue."""
    text = """
key, rank, way = et.SecretKey.load(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
ranks = noise(key, coordinates=(300 * rank, 300 * rank + 300) if way == "ranges" else 300)
try:
    for step in range(100):
        ranks.add_next(gradient(step if way == "sums" else 1000 * rank + step))
    print("done")
except et.StateError as problem:
    print("refused" if "Ranks of one run each take a range" in str(problem) else problem)
"""
    outcomes = {}
    for way in ("ranges", "sums", "gradients"):
        path = file.with_name(f"{way}.key")
        et.SecretKey.generate().save(path)
        running = [process(text, path, rank, way) for rank in range(3)]
        outcomes[way] = sorted(output_of(one) for one in running)
    assert outcomes == {"ranges": ["done"] * 3, "sums": ["done"] * 3, "gradients": ["done", "refused", "refused"]}


def test_a_key_that_is_saved_later_takes_its_notes_along(tmp_path: Path) -> None:
    key, path = et.SecretKey.generate(), tmp_path / "late.key"
    counter = et.Counter(PLAN, key, "visits")
    releases(counter, 1)
    key.save(path)
    releases(counter, 2)
    text = """
late = counter(et.SecretKey.load(sys.argv[1]))
for total in (1, 3):
    late.add(total)
    late.tick()
"""
    running = process(text, path)
    assert "step 2 of the Counter" in running.communicate(timeout=60)[1]
    # Through a link it is the same key with the same log.
    (tmp_path / "link.key").symlink_to(path)
    releases(et.Counter(PLAN, et.SecretKey.load(tmp_path / "link.key"), "linked"), 1)
    files = sorted(entry.name for entry in tmp_path.iterdir())
    assert files == ["late.key", "late.key.ledger", "late.key.uses", "link.key"]
    # A new key does not get the log of a deleted one.
    path.unlink()
    (tmp_path / "late.key.ledger").unlink()
    with pytest.raises(et.InvalidError, match="of another key"):
        et.SecretKey.generate().save(path)
    assert not path.exists()


def test_notes_in_another_place(tmp_path: Path, file: Path) -> None:
    place = tmp_path / "notes"
    key = et.SecretKey.load(file, uses=place)
    releases(et.Counter(PLAN, key, "visits"), 1)
    assert place.exists() and not file.with_name("my.key.uses").exists()
    secret = key.expose_bytes()
    text = """
stored = et.SecretKey.from_bytes(bytes.fromhex(sys.argv[1]), **eval(sys.argv[2]))
late = counter(stored)
late.add(2)
late.tick()
"""
    options: dict[str, object] = {"uses": str(place), "published_nothing": True}
    assert "step 1" in process(text, secret.hex(), options).communicate(timeout=60)[1]
    # Next to the named ledger.
    options = {"ledger": str(tmp_path / "store.ledger"), "published_nothing": True}
    output_of(process(text, secret.hex(), options))
    assert (tmp_path / "store.uses").exists()
    other = tmp_path / "other.key"
    et.SecretKey.generate().save(other)
    missing = et.SecretKey.load(other, uses=tmp_path / "none" / "notes")
    with pytest.raises(OSError, match="uses=FILE"):
        releases(et.Counter(PLAN, missing, "other"), 1)


def test_a_damaged_or_foreign_file_is_refused(file: Path) -> None:
    uses = file.with_name("my.key.uses")
    releases(et.Counter(PLAN, et.SecretKey.load(file), "visits"), 1, 2, 3)
    whole = uses.read_bytes()
    assert len(whole) == 4 * 64
    text = """
late = counter(et.SecretKey.load(sys.argv[1]))
late.add(1)
print(late.tick().value)
"""

    def problem(content: bytes) -> str:
        uses.write_bytes(content)
        error = process(text, file).communicate(timeout=60)[1]
        assert not error or uses.read_bytes() == content
        return error.splitlines()[-1] if error else ""

    flipped = bytearray(whole)
    flipped[100] ^= 1
    for damaged in (bytes(flipped), whole[:64] + whole[70:], whole[:128] + bytes(64) + whole[192:]):
        assert "StateError" in problem(damaged) and "is damaged: restore" in problem(damaged)
    for foreign in (b"something else", b"x" * 640, whole[64:], bytes(300)):
        assert "it belongs to another key, or is damaged" in problem(foreign)
    other = file.with_name("other.key")
    et.SecretKey.generate().save(other)
    releases(et.Counter(PLAN, et.SecretKey.load(other), "visits"), 1)
    assert "it belongs to another key" in problem(other.with_name("other.key.uses").read_bytes())
    # Possible bytes at the end after a loss of power: a part of the last record, or zeros.
    for tail in (b"", whole[:20], bytes(100), bytes(64)):
        assert problem(whole + tail) == ""
        assert uses.read_bytes() == whole
    uses.write_bytes(whole)
    uses.chmod(0o644)
    assert "chmod 600" in process(text, file).communicate(timeout=60)[1]


def test_a_file_that_changes_while_it_is_open(file: Path) -> None:
    uses = file.with_name("my.key.uses")
    key = et.SecretKey.load(file)
    counter = et.Counter(PLAN, key, "visits")
    releases(counter, 1, 2, 3)
    whole = uses.read_bytes()
    uses.write_bytes(whole[:128])
    counter.add(4)
    with pytest.raises(et.StateError, match="is damaged"):
        counter.tick()
    assert counter.step == 3 and uses.read_bytes() == whole[:128]
    uses.write_bytes(whole)
    assert counter.tick().step == 4
    # Restored from a backup: this process still knows the later releases.
    uses.unlink()
    uses.write_bytes(whole[:128])
    uses.chmod(0o600)
    with pytest.raises(et.StateError, match="step 2 "):
        releases(et.Counter(PLAN, key, "visits"), 1, 7)


def test_a_file_stays_small(file: Path) -> None:
    """Unneeded records are removed, even while another process has the file open."""
    text = """
key = et.SecretKey.load(sys.argv[1])
other = et.Counter(PLAN, key, "other")
other.tick()
print("open", flush=True)
sys.stdin.readline()
other.tick()
"""
    command = [sys.executable, "-c", HEAD + text, str(file)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as running:
        assert running.stdout is not None and running.stdout.readline() == "open\n"
        key = et.SecretKey.load(file)
        horizon = 300_000
        plan = et.plan(horizon, rho=0.5, mechanism="binary")
        counter, totals = et.Counter(plan, key, "long"), np.ones(10_000, int)
        for _ in range(horizon // len(totals)):
            counter.release_many(totals)
        uses = file.with_name("my.key.uses")
        assert uses.stat().st_size < 64 * 200_000
        running.communicate("\n", timeout=60)
        assert running.returncode == 0
    other = et.Counter(PLAN, key, "other")
    other.tick()
    other.add(1)
    with pytest.raises(et.StateError, match="step 2"):
        other.tick()
    text = """
plan = et.plan(300_000, rho=0.5, mechanism="binary")
et.Counter(plan, et.SecretKey.load(sys.argv[1]), "long").tick()
"""
    assert "nothing shows" in process(text, file).communicate(timeout=60)[1]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_forks(file: Path) -> None:
    """A fork and its original know each other's releases from the key file; without a file the fork releases
    nothing."""
    text = """
key = et.SecretKey.load(sys.argv[1]) if len(sys.argv) > 1 else et.SecretKey.generate()
first = counter(key)
first.tick()
state = first.save()
if os.fork() == 0:
    own = counter(key, state)
    own.add(1)
    said = ""
    try:
        own.tick()
    except et.StateError as problem:
        said = str(problem)
    alone = ""
    try:
        et.Counter(PLAN, key, "of the child").tick()
    except et.InvalidError as problem:
        alone = str(problem)
    assert ("save the key in the parent, before the fork" in alone) == (len(sys.argv) == 1), alone
    expected = "step 2" not in said and "of this fork" not in said if len(sys.argv) > 1 else "of this fork" in said
    os._exit(0 if expected else 1)
assert os.waitstatus_to_exitcode(os.wait()[1]) == 0
first.add(2)
try:
    first.tick()
    print("went on")
except et.StateError as problem:
    print("refused" if "step 2" in str(problem) else problem)
"""
    assert output_of(process(text)) == "went on"
    assert output_of(process(text, file)) == "refused"


def test_threads(file: Path) -> None:
    """Many threads with objects of one name: each step is released for one value only."""
    key = et.SecretKey.load(file)
    given: set[tuple[int, bytes]] = set()
    refused = []

    def work(seed: int) -> None:
        noise = training(key)
        for step in range(1, 50):
            try:
                given.add((step, steps(noise, seed if step > 25 else step)[0]))
            except et.StateError:
                refused.append(seed)
                return

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(1000, 1004)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(given) == 49 and len(refused) == 3


# ---- Frameworks


def test_torch(key: et.SecretKey) -> None:
    torch = pytest.importorskip("torch")
    import evertally.torch

    plan = et.training.plan_vector(20, rho=0.5, mechanism="smooth")

    def run(name: str = "run", rate: float = 0.1) -> Any:
        model = torch.nn.Linear(3, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=rate)
        return evertally.torch.DPFTRL(optimizer, plan, key, name, expected_batch_size=4)

    def step(private: Any, value: float) -> None:
        private.step([torch.full((2, 3), value), torch.full((2,), value)])

    first = run()
    step(first, 1.0)
    state = first.state_dict()
    step(first, 2.0)
    again = run()
    again.load_state_dict(state)
    before = [parameter.detach().clone() for parameter in again._parameters]
    with pytest.raises(et.StateError, match="step 2"):
        step(again, 3.0)
    assert all((new == old).all() for new, old in zip(again._parameters, before, strict=True)) and again.noise.step == 1
    step(again, 2.0)
    first.load_state_dict(state)
    step(first, 2.0)
    with pytest.raises(et.StateError):
        step(run(), 9.0)


def test_jax(key: et.SecretKey) -> None:
    jax = pytest.importorskip("jax")
    jnp = jax.numpy
    import evertally.jax

    for mechanism in ("smooth", "blt"):
        plan = et.training.plan_vector(20, rho=0.5, mechanism=mechanism)
        noise = evertally.jax.correlated_noise(plan, key, "run")
        gradients = [{"a": jnp.full(70, float(i)), "b": jnp.arange(3.0).astype(jnp.bfloat16) + i} for i in range(6)]

        def train(update: Any, numbers: list[int], state: Any) -> tuple[list[Any], Any]:
            found = []
            for number in numbers:
                updates, state = update(gradients[number], state)  # noqa: B023
                found.append(np.asarray(updates["a"]))
            return found, state

        update = jax.jit(noise.update)
        first, _ = train(update, [0, 1, 2, 3], noise.init(gradients[0]))
        # Running again gives the same, compiled or not, also from a restored state.
        again, _ = train(noise.update, [0, 1, 2, 3], noise.init(gradients[0]))
        assert np.array_equal(first, again)
        part, state = train(update, [2, 3], evertally.jax.NoiseState(jnp.int32(2)))
        assert np.array_equal(part, first[2:])
        train(update, [4], state)
        # Started again with other data, and once with the signs flipped.
        for other in ([1], [0, 2]):
            with pytest.raises(Exception, match="was issued for other data"):
                train(update, other, noise.init(gradients[0]))
        turned = jax.tree.map(jnp.negative, gradients[3])
        with pytest.raises(Exception, match="was issued for other data"):
            jax.block_until_ready(update(turned, evertally.jax.NoiseState(jnp.int32(3))))
        later = evertally.jax.correlated_noise(plan, key, "run", saved=noise.save())
        train(later.update, [5], evertally.jax.NoiseState(jnp.int32(5)))
        with pytest.raises(Exception, match="was issued for other data"):
            train(update, [3], evertally.jax.NoiseState(jnp.int32(5)))
        key = et.SecretKey.generate()
