"""One key, one record: for every ordered pair of ways to issue noise, the second is refused, or gives the same bytes.

A way to issue noise is a *door*. Every public function and class that takes a key is in the table here, and every issuer that
the ledger knows; one that is missing fails the tests.
"""

import inspect
import itertools
import json
import os
import re
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import evertally as et

HORIZON = 8
DECLARED: dict[str, Any] = {"every": "1d", "start": "2024-01-01", "steps": HORIZON, "rho": 0.5, "mechanism": "path-sum"}
# Two neighbouring data sets: an event more on the second day.
DATA = {"first": [1, 2, 0, 0, 1, 0, 0, 0], "second": [1, 3, 0, 0, 1, 0, 0, 0]}
NAME = "visits"

Door = Callable[[Path, str], object]


def events(which: str) -> pd.DataFrame:
    days = [f"2024-01-0{day}" for day, count in enumerate(DATA[which], 1) for _ in range(count)]
    return pd.DataFrame({"time": days, "item": ["alice"] * len(days)})


def plan() -> et.Plan:
    return et.plan_release(name=NAME, **DECLARED)


def release(key: Path, which: str) -> object:
    return et.release(events(which), name=NAME, key=key, through=None, **DECLARED)["value"].tolist()


def program(key: Path, which: str) -> object:
    folder = key.parent / f"program {which}"
    folder.mkdir(exist_ok=True)
    events(which).to_csv(folder / "events.csv", index=False)
    return run(folder, "release", "events.csv", "--key", key, "--stream", NAME, "--start", "2024-01-01", "--every", "1d",
               "--steps", HORIZON, "--rho", "0.5", "--mechanism", "path-sum", "--out", "out.csv", "--all", "--no-plot")


def sketched(key: Path, which: str) -> object:
    folder = key.parent / f"sketched {which}"
    folder.mkdir(exist_ok=True)
    events(which).to_csv(folder / "events.csv", index=False)
    (folder / "items.txt").write_text("alice\n")
    return run(folder, "sketch", "events.csv", "--key", key, "--stream", NAME, "--start", "2024-01-01", "--every", "1d",
               "--steps", HORIZON, "--rho", "0.5", "--item", "item", "--items", "items.txt", "--rows", "3", "--width", "32",
               "--out", "out.csv", "--no-plot")


def run(folder: Path, *arguments: object) -> str:
    command = [os.environ["EVERTALLY_BIN"], *map(str, arguments)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)
    if done.returncode:
        raise et.StateError(done.stderr)
    return (folder / "out.csv").read_text()


def counter(key: Path, which: str) -> object:
    visits = et.Counter(plan(), et.SecretKey.load(key), NAME)
    return visits.release_many(DATA[which])["value"].tolist()


def sums(key: Path, which: str) -> object:
    table = pd.DataFrame({"step": range(1, HORIZON + 1), "sum": np.cumsum(DATA[which])})
    return et.release_sums(table, plan=plan(), key=key, name=NAME)["value"].tolist()


def steps(key: Path, which: str) -> object:
    table = pd.DataFrame({"step": range(1, HORIZON + 1), "sum": DATA[which]})
    return et.release_steps(table, plan=plan(), key=key, name=NAME, through=HORIZON)["value"].tolist()


def lazy_vector(key: Path, which: str) -> object:
    vector = et.LazyVector(et.plan_lazy(HORIZON, rho=0.5), et.SecretKey.load(key), NAME, sums=4)
    for _ in range(sum(DATA[which])):
        vector.add(1)
    vector.tick()
    return vector.read(1).value


def count_sketch(key: Path, which: str) -> object:
    sketch = et.CountSketch(et.plan_sketch(HORIZON, rows=3, width=32, rho=0.5), et.SecretKey.load(key), NAME)
    for _ in range(sum(DATA[which])):
        sketch.add("alice")
    sketch.tick()
    return sketch.estimate("alice").value


def vector_noise(key: Path, which: str) -> object:
    training = et.plan_vector(HORIZON, rho=0.5, mechanism="smooth")
    noise = et.VectorNoise(training, et.SecretKey.load(key), NAME, coordinates=4)
    gradient = np.full(4, sum(DATA[which]), np.float32)
    noise.add_next(gradient)
    return gradient.tolist()


def row_noise(key: Path, which: str) -> object:
    training = et.plan_vector(HORIZON, rho=0.5, mechanism="smooth", series="increments")
    noise = et.RowNoise(training, et.SecretKey.load(key), NAME, rows=4, width=2, rates=1.0)
    table = np.zeros((4, 2), np.float32)
    noise.catch_up(table)
    noise.descend(table, [1], np.full((1, 2), sum(DATA[which]), np.float32))
    return table.tolist()


def service(key: Path, which: str) -> object:
    """A service that takes the key; it ends at once."""
    config = key.parent / "serve.toml"
    config.write_text(
        f'folder = "data"\nkey = "{key}"\n[private]\nlisten = "127.0.0.1:0"\n[[stream]]\nstream = "{NAME}"\n'
        'every = "1d"\nstart = "2024-01-01"\nsteps = 8\nrho = 0.5\n'
    )
    command = [os.environ["EVERTALLY_BIN"], "serve", "--config", str(config), "--adopt-key"]
    with subprocess.Popen(command, cwd=key.parent, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as running:
        assert running.stdout is not None
        said = []
        for line in running.stdout:
            said.append(line)
            if "http://127.0.0.1" in line:
                running.terminate()
                running.wait(timeout=30)
                return "started"
    raise et.StateError("".join(said))


DOORS: dict[str, Door] = {
    "release": release,
    "program": program,
    "sketched": sketched,
    "Counter": counter,
    "release_sums": sums,
    "release_steps": steps,
    "LazyVector": lazy_vector,
    "CountSketch": count_sketch,
    "VectorNoise": vector_noise,
    "RowNoise": row_noise,
    "service": service,
}

# What takes a key and issues no noise, or issues it through a door of the table.
NO_DOORS = {
    "Batches": "draws batches, which are as secret as the key",
    "Series": "",
}


def new_key(tmp_path: Path) -> Path:
    path = tmp_path / "k"
    et.SecretKey.generate().save(path)
    return path


@pytest.mark.parametrize("first, second", itertools.product(DOORS, DOORS))
def test_the_second_door_is_refused_or_gives_the_same(tmp_path: Path, first: str, second: str) -> None:
    key = new_key(tmp_path)
    before = DOORS[first](key, "first")
    for which in ("second", "first"):
        try:
            after = DOORS[second](key, which)
        except (et.StateError, et.InvalidError) as refused:
            assert NAME in str(refused) or "service" in str(refused) or "never used" in str(refused), refused
            continue
        if first == second == "service":
            continue  # it has its folder, and meets the data that are in there
        assert which == "first", f"{second} met other data with the noise of {first}"
        if first == second:
            assert after == before
        else:
            assert {first, second} in ({"release", "program"}, {"release_sums", "release_steps"}), (first, second)
