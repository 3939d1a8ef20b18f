"""One key, one record: for every ordered pair of ways to issue noise, the second is refused, or gives the same bytes.

A way to issue noise is called a *door*. The table here has every public function and class that takes a key, and every
issuer that the ledger knows; a missing one fails the tests.
"""

import inspect
import itertools
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import evertally as et

HORIZON = 8
DECLARED: dict[str, Any] = {"every": "1d", "start": "2024-01-01", "steps": HORIZON, "rho": 0.5, "mechanism": "path-sum"}
# Two neighbouring data sets: one has an additional event on the second day.
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


def stream(key: Path, which: str) -> object:
    declared = et.Stream(
        name=NAME,
        steps=et.Steps(start="2024-01-01", every="1d", count=HORIZON),
        budget=et.Budget.zcdp(0.5),
        mechanism="path-sum",
    )
    assert declared.plan().digest == plan().digest
    return declared.release(events(which), key)["value"].tolist()


def program(key: Path, which: str) -> object:
    folder = key.parent / f"program {which}"
    folder.mkdir(exist_ok=True)
    events(which).to_csv(folder / "events.csv", index=False)
    return run(folder, "release", "events.csv", "--key", key, "--stream", NAME, "--start", "2024-01-01",
               "--every", "1d", "--steps", HORIZON, "--rho", "0.5", "--mechanism", "path-sum",
               "--out", "out.csv", "--all", "--no-plot")  # fmt: skip


def sketched(key: Path, which: str) -> object:
    folder = key.parent / f"sketched {which}"
    folder.mkdir(exist_ok=True)
    events(which).to_csv(folder / "events.csv", index=False)
    (folder / "items.csv").write_text("item\nalice\n")
    return run(folder, "sketch", "events.csv", "--key", key, "--stream", NAME, "--start", "2024-01-01",
               "--every", "1d", "--steps", HORIZON, "--rho", "0.5", "--key-columns", "item", "--queries", "items.csv",
               "--rows", "3", "--width", "32", "--out", "out.csv", "--all", "--no-plot")  # fmt: skip


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
    training = et.training.plan_vector(HORIZON, rho=0.5, mechanism="smooth")
    noise = et.VectorNoise(training, et.SecretKey.load(key), NAME, coordinates=4)
    gradient = np.full(4, sum(DATA[which]), np.float32)
    noise.add_next(gradient)
    return gradient.tolist()


def row_noise(key: Path, which: str) -> object:
    training = et.training.plan_vector(HORIZON, rho=0.5, mechanism="smooth", series="increments")
    noise = et.training.RowNoise(training, et.SecretKey.load(key), NAME, rows=4, width=2, rates=1.0)
    table = np.zeros((4, 2), np.float32)
    noise.catch_up(table)
    noise.descend(table, [1], np.full((1, 2), sum(DATA[which]), np.float32))
    return table.tolist()


def service(key: Path, which: str) -> object:
    """A service with the key, which ends at once."""
    config = key.parent / "serve.toml"
    config.write_text(
        f'folder = "data"\nkey = "{key}"\n[private]\nlisten = "127.0.0.1:0"\n[[stream]]\nstream = "{NAME}"\n'
        'closing = "operator"\nevery = "1d"\nstart = "2024-01-01"\nsteps = 8\nrho = 0.5\n'
    )
    command = [os.environ["EVERTALLY_BIN"], "serve", "--config", str(config), "--adopt-key"]
    with subprocess.Popen(command, cwd=key.parent, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        said = []
        for line in running.stderr:
            said.append(line)
            if line.startswith("writing and operating: "):
                running.terminate()
                running.wait(timeout=30)
                return "started"
    raise et.StateError("".join(said))


def rust_program(key: Path, which: str) -> object:
    """A program that embeds the library, and has lost its state."""
    example = Path(os.environ["EVERTALLY_BIN"]).parent / "examples" / "running_sum"
    command = [str(example), str(key), NAME, str(key.parent / f"{which} {os.urandom(4).hex()}"), *map(str, DATA[which])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if done.returncode:
        assert done.returncode == 2 and done.stderr.startswith("error: "), done.stderr
        raise et.StateError(done.stderr)
    return done.stdout


DOORS: dict[str, Door] = {
    "release": release,
    "Stream": stream,
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
    "rust_program": rust_program,
}


def new_key(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "k"
    et.SecretKey.generate().save(path)
    return path


@pytest.mark.parametrize("first, second", list(itertools.product(DOORS, DOORS)))
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
            continue  # it has its own folder, and uses the data in there
        if {first, second} == {"VectorNoise", "RowNoise"}:
            continue  # parts of one run, whose noise differs by its purpose
        assert which == "first", f"{second} met other data with the noise of {first}"
        if first == second or {first, second} == {"release", "Stream"}:
            assert after == before
        else:
            same = [{"release", "Stream", "program"}, {"release_sums", "release_steps"}]
            assert any({first, second} <= doors for doors in same), (first, second)


def takes_key(of: Any) -> bool:
    try:
        return "key" in inspect.signature(of).parameters
    except (TypeError, ValueError):
        return False


# Functions and classes that take a key but issue no noise, with the reason.
NO_DOORS = {
    "Batches": "draws batches, which are as secret as the key",
}


def test_every_way_to_issue_noise_is_in_the_table() -> None:
    public = {name: getattr(et, name) for name in et.__all__}
    doors = {name for name, of in public.items() if takes_key(of)}
    assert doors - set(NO_DOORS) <= set(DOORS), "a new door needs a row in the table"
    assert not doors & set(NO_DOORS) & set(DOORS)


def test_copies_and_links_of_a_key_know_what_it_has_issued(tmp_path: Path) -> None:
    key = new_key(tmp_path)
    counter(key, "first")
    link = tmp_path / "link"
    link.symlink_to(key)
    with pytest.raises(et.StateError, match=NAME):
        counter(link, "second")
    with pytest.raises(et.InvalidError, match=NAME):
        release(link, "second")
    copy = tmp_path / "copy"
    shutil.copy(key, copy)
    assert "has no ledger" in ticked(copy, 1).stderr
    shutil.copy(f"{key}.ledger", f"{copy}.ledger")
    # The ledger knows that there is a log of steps, which was not copied.
    assert "is missing: restore it" in ticked(copy, 1).stderr
    shutil.copy(f"{key}.uses", f"{copy}.uses")
    with pytest.raises(et.StateError, match="issued for other data"):
        counter(copy, "second")
    assert counter(copy, "first") == counter(key, "first")


def test_another_log_of_steps_is_refused(tmp_path: Path) -> None:
    key = new_key(tmp_path)
    first = et.SecretKey.load(key, uses=tmp_path / "one")
    et.Counter(plan(), first, NAME).tick()
    # In another process, which has no memory of the first log.
    text = (
        f"import evertally as et; key = et.SecretKey.load({str(key)!r}, uses={str(tmp_path / 'two')!r})\n"
        f"visits = et.Counter(et.plan(8, rho=0.5), key, 'other'); visits.add(3); visits.tick()"
    )
    ran = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60)
    assert "is missing: restore it" in ran.stderr, ran.stderr
    other = new_key(tmp_path / "elsewhere")
    et.Counter(plan(), et.SecretKey.load(other), NAME).tick()
    shutil.copy(f"{other}.uses", tmp_path / "two")
    ran = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60)
    assert "does not record which noise of this key" in ran.stderr, ran.stderr


def test_two_processes_that_begin_one_name_at_once(tmp_path: Path) -> None:
    """A release and a counter that start together: whichever comes second is refused."""
    for attempt in range(4):
        (tmp_path / str(attempt)).mkdir()
        key = new_key(tmp_path / str(attempt))
        head = f"import evertally as et, pandas as pd, time\nkey = et.SecretKey.load({str(key)!r})\n"
        counted = head + (
            f"visits = et.Counter(et.plan_release(name={NAME!r}, **{DECLARED!r}), key, {NAME!r}); visits.add(3)\n"
            "print('ready', flush=True); input(); visits.tick()"
        )
        released = head + (
            "table = pd.DataFrame({'time': ['2024-01-01']})\nprint('ready', flush=True); input()\n"
            f"et.release(table, name={NAME!r}, key=key, through=None, **{DECLARED!r})"
        )
        running = [
            subprocess.Popen([sys.executable, "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)
            for text in (counted, released)
        ]
        for process in running:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
        outcomes = [process.communicate("\n", timeout=60) for process in running]
        refused = [error for _, error in outcomes if NAME in error]
        assert len(refused) == 1, outcomes


def test_keys_that_were_never_saved_share_their_ledger_in_a_process() -> None:
    data = et.SecretKey.generate().expose_bytes()
    first = et.SecretKey.from_bytes(data, published_nothing=True)
    second = et.SecretKey.from_bytes(data, published_nothing=True)
    et.release(events("first"), name=NAME, key=first, through=None, **DECLARED)
    with pytest.raises(et.InvalidError, match=NAME):
        et.release(events("second"), name=NAME, key=second, through=None, **DECLARED)
    with pytest.raises(et.StateError, match=NAME):
        et.Counter(plan(), second, NAME).tick()
    bare = et.SecretKey.from_bytes(data)
    with pytest.raises(et.InvalidError, match="its past releases are unknown"):
        et.Counter(plan(), bare, "other").tick()


def test_bytes_of_a_key_that_this_process_has_published_with_are_known(tmp_path: Path) -> None:
    path = new_key(tmp_path)
    release(path, "first")
    data = bytes.fromhex(path.read_text().splitlines()[1])
    with pytest.raises(et.InvalidError, match="this process has published releases with the key, and its ledger is"):
        et.SecretKey.from_bytes(data, published_nothing=True)
    kept = et.SecretKey.generate()
    et.release(events("first"), name=NAME, key=kept, through=None, **DECLARED)
    with pytest.raises(et.InvalidError, match="its ledger is in memory"):
        et.SecretKey.from_bytes(kept.expose_bytes(), ledger=tmp_path / "other.ledger", published_nothing=True)
    assert not (tmp_path / "other.ledger").exists()


@pytest.mark.parametrize("forked", [True, False])
def test_copies_that_have_issued_noise_apart_are_compared(tmp_path: Path, forked: bool) -> None:
    original = new_key(tmp_path / "original")
    ticks = (
        "import sys, evertally as et; key = et.SecretKey.load(sys.argv[1])\n"
        "counter = et.Counter(et.plan(16, rho=0.5), key, 'visits')\n"
        "for count in map(int, sys.argv[2:]): counter.add(count); counter.tick()"
    )
    copied = shutil.copytree(original.parent, tmp_path / "copy") / original.name
    subprocess.run([sys.executable, "-c", ticks, str(original), "1", "2"], check=True, timeout=60)
    if forked:
        subprocess.run([sys.executable, "-c", ticks, str(copied), "3"], check=True, timeout=60)
    compared = [os.environ["EVERTALLY_BIN"], "key", "compare", str(original), str(copied)]
    done = subprocess.run(compared, capture_output=True, text=True, timeout=60)
    said = done.stdout + done.stderr
    assert (done.returncode, "FORK" in said, "older copy" in said) == (2 if forked else 0, forked, not forked), said


def ticked(key: Path, *counts: int, **options: str) -> subprocess.CompletedProcess[str]:
    """Runs a counter in another process for some steps."""
    code = (
        "import sys, evertally as et; counter = et.Counter(et.plan(16, rho=0.5), et.SecretKey.load(sys.argv[1], "
        f"**{options!r}), 'visits')\nfor count in map(int, sys.argv[2:]): counter.add(count); counter.tick()"
    )
    command = [sys.executable, "-c", code, str(key), *map(str, counts)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_objects_of_one_key_note_in_the_file_that_one_of_them_gets(tmp_path: Path) -> None:
    first = et.SecretKey.generate()
    second = et.SecretKey.from_bytes(first.expose_bytes(), published_nothing=True)
    first.save(tmp_path / "k")
    visits = et.Counter(et.plan(16, rho=0.5), second, NAME)
    visits.add(5)
    visits.tick()
    assert "issued for other data" in ticked(tmp_path / "k", 9).stderr
    assert ticked(tmp_path / "k", 5).returncode == 0


def test_a_log_that_was_moved_or_has_several_names_is_not_used_on(tmp_path: Path) -> None:
    key = new_key(tmp_path)
    visits = et.Counter(et.plan(16, rho=0.5), et.SecretKey.load(key), NAME)
    visits.add(1)
    visits.tick()
    log = tmp_path / "k.uses"
    log.rename(tmp_path / "old")
    with pytest.raises(et.StateError, match="is missing: restore it"):
        visits.tick()
    shutil.copy2(tmp_path / "old", log)
    visits.add(4)
    visits.tick()
    assert "issued for other data" in ticked(key, 1, 8).stderr
    os.link(log, tmp_path / "other")
    with pytest.raises(et.StateError, match="has several names"):
        visits.tick()
    assert "has several names" in ticked(key, 1, 4, 2, uses=str(tmp_path / "other")).stderr


def test_a_key_saved_later_takes_its_names_along(tmp_path: Path) -> None:
    key = et.SecretKey.generate()
    visits = et.Counter(plan(), key, NAME)
    visits.add(3)
    visits.tick()
    path = tmp_path / "k"
    key.save(path)
    with pytest.raises(et.InvalidError, match="a Counter in Python"):
        release(path, "first")
    again = (
        f"import evertally as et; visits = et.Counter(et.plan_release(name={NAME!r}, **{DECLARED!r}), "
        f"et.SecretKey.load({str(path)!r}), {NAME!r}); visits.add(4); visits.tick()"
    )
    ran = subprocess.run([sys.executable, "-c", again], capture_output=True, text=True, timeout=60)
    assert "issued for other data" in ran.stderr, ran.stderr


def test_what_is_spent_names_what_it_does_not_count(tmp_path: Path) -> None:
    key = new_key(tmp_path)
    counter(key, "first")
    command = [os.environ["EVERTALLY_BIN"], "key", "spent", str(key)]
    said = subprocess.run(command, capture_output=True, text=True, timeout=60).stdout
    assert f"Not counted here: `{NAME}`, issued by a Counter in Python" in said
    assert "Nothing has been published" not in said
