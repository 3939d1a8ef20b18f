"""Noise drawn in the background while the gradient is computed has the same bytes and the same refusals."""

import os
import pickle
import subprocess
import sys
import threading
from pathlib import Path

import evertally as et
import numpy as np
import pytest
from evertally import _evertally

SIZE, STEPS = 3000, 6
MECHANISMS = [
    "blt",
    "normalized-blt(buffers=2)",
    "epoch-bands(bands=3)",
    "banded-inverse-sqrt(bands=3)",
    "smooth",
    "input",
]


def plan(mechanism: str = "blt") -> et.training.VectorPlan:
    return et.training.plan_vector(STEPS, rho=0.5, participations=2, separation=3, mechanism=mechanism)


def gradient(step: int) -> "np.ndarray[tuple[int], np.dtype[np.float32]]":
    return np.random.default_rng(step).standard_normal(SIZE, dtype=np.float32)


def drawn() -> None:
    """Waits until no noise is being drawn in the background, as before a fork."""
    _evertally._wait_for_noise()


@pytest.fixture
def watched(tmp_path: Path) -> et.SecretKey:
    et.SecretKey.generate().save(tmp_path / "key")
    return et.SecretKey.load(tmp_path / "key")


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_bytes_and_states_are_those_without(key: et.SecretKey, mechanism: str) -> None:
    own = plan(mechanism)
    plain, ahead = (et.VectorNoise(own, key, "run", coordinates=SIZE) for _ in range(2))
    for step in range(1, STEPS + 1):
        ahead.draw_ahead()
        if step % 2:
            drawn()
        ahead.draw_ahead()
        assert (ahead.step, ahead.save()) == (step - 1, plain.save())
        one, other = gradient(step), gradient(step)
        plain.add_next(one)
        ahead.add_next(other)
        assert (one == other).all() and ahead.save() == plain.save()
        if step == 3:  # a state saved while drawn noise is waiting
            ahead.draw_ahead()
            drawn()
            ahead = et.VectorNoise.restore(own, key, "run", ahead.save(), coordinates=SIZE)
    ahead.draw_ahead()  # there is no step after the last
    with pytest.raises(et.HorizonExhausted):
        ahead.next()


@pytest.mark.parametrize("mechanism", ["blt", "smooth"])
def test_ranges_seeking_and_threads(key: et.SecretKey, mechanism: str) -> None:
    own = plan(mechanism)
    plain = et.VectorNoise(own, key, "run", coordinates=SIZE)
    steps = [plain.next() for _ in range(STEPS)]
    part = et.VectorNoise(own, key, "run", coordinates=(1000, 2100))
    part.draw_ahead()
    drawn()
    part.seek(2)
    part.draw_ahead()
    found: list[int] = []

    def give() -> None:
        given = part.next()
        found.extend(step for step in range(STEPS) if (given == steps[step][1000:2100]).all())

    workers = [threading.Thread(target=give) for _ in range(3)]
    for worker in workers:
        worker.start()
        part.draw_ahead()
    for worker in workers:
        worker.join()
    assert sorted(found) == [2, 3, 4]


def test_what_it_meets_is_noted_when_it_is_given_out(watched: et.SecretKey, tmp_path: Path) -> None:
    first, second = (et.VectorNoise(plan(), watched, "run", coordinates=SIZE) for _ in range(2))
    for noise in (first, second):
        noise.draw_ahead()
    drawn()
    assert not (tmp_path / "key.uses").exists(), "drawing releases nothing"
    first.add_next(gradient(1))
    state, other = second.save(), gradient(2)
    with pytest.raises(et.StateError, match="issued for other data"):
        second.add_next(other)
    assert (other == gradient(2)).all() and second.step == 0 and second.save() == state, "nothing changes"
    with pytest.raises(et.InvalidError, match="coordinates"):
        second.add_next(other[1:])
    again, once = gradient(1), gradient(1)
    second.add_next(again)  # the noise drawn ahead is still available
    third = et.VectorNoise(plan(), watched, "run", coordinates=SIZE)
    third.add_next(once)
    assert (again == once).all()


def test_it_shows_nowhere(key: et.SecretKey) -> None:
    noise = et.VectorNoise(plan("smooth"), key, "run", coordinates=SIZE)
    shown, memory = repr(noise), noise.memory_bytes
    noise.draw_ahead()
    drawn()
    assert repr(noise) == shown and len(noise.save()) < 200
    assert memory + 4 * SIZE <= noise.memory_bytes, "one vector more"
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(noise)


SCRIPT = """
import os, sys, threading
import numpy as np
import evertally as et

key = et.SecretKey.generate()
noise = et.VectorNoise(et.training.plan_vector(20, rho=0.5, mechanism="blt"), key, "run", coordinates=3_000_000)
for step in range(3):
    noise.draw_ahead()
    child = os.fork()  # in the middle of it
    if child == 0:
        assert noise.step == step and len(noise.save()) > 0 and "step" in repr(noise)
        for way in (noise.draw_ahead, noise.next, lambda: noise.seek(0)):
            try:
                way()
            except et.InvalidError as problem:
                assert "by a fork" in str(problem)
            else:
                os._exit(3)
        # A key in memory belongs to the process that created it.
        own_key = et.SecretKey.generate()
        own = et.VectorNoise(et.training.plan_vector(20, rho=0.5), own_key, "run of the child", coordinates=3000)
        own.draw_ahead()
        own.next()
        own.draw_ahead()
        if os.fork() == 0:  # a fork of a fork
            os._exit(0)
        inner = os.WEXITSTATUS(os.wait()[1])
        del noise
        os._exit(inner)
    noise.add_next(np.zeros(3_000_000, np.float32))
    if status := os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
        sys.exit(status)
other = et.VectorNoise(et.training.plan_vector(20, rho=0.5, mechanism="blt"), key, "other", coordinates=3_000_000)
other.draw_ahead()
del other  # while it is drawn
noise.draw_ahead()
# The process ends while noise is drawn.
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_forks_and_the_end_of_the_process_in_the_middle_of_it() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
