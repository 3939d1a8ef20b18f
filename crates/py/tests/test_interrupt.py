"""Ctrl-C ends long work, and leaves existing data unchanged.

Each program runs in a separate interpreter, so that a lost Ctrl-C makes a test fail instead of run forever.
"""

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import evertally as et

#: A shell may have started these tests with Ctrl-C ignored, as it does for background jobs.
BEGIN = """
import os, signal, threading, time
import evertally as et

signal.signal(signal.SIGINT, signal.default_int_handler)

def ctrl_c_after(seconds):
    threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT)).start()
"""


def printed(program: str, folder: Path) -> list[str]:
    """The lines printed by a program."""
    run = subprocess.run(
        [sys.executable, "-c", BEGIN + program], cwd=folder, capture_output=True, text=True, timeout=120
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()


def test_a_release_ends_and_nothing_is_recorded(tmp_path: Path) -> None:
    program = """
import pyarrow as pa

class Endless:
    def __arrow_c_stream__(self, requested_schema=None):
        batch = pa.record_batch({"time": ["2024-01-01"] * 1000})
        def batches():
            while True:
                yield batch
        return pa.RecordBatchReader.from_batches(batch.schema, batches()).__arrow_c_stream__(requested_schema)

ctrl_c_after(1)
begun = time.monotonic()
try:
    et.release(Endless(), key="k.key", start="2024-01-01", steps=5, every="1d", epsilon=1)
except KeyboardInterrupt:
    print("interrupted", time.monotonic() - begun < 20)
"""
    et.SecretKey.generate().save(tmp_path / "k.key")
    ledger = tmp_path / "k.key.ledger"
    before = ledger.read_text()
    assert printed(program, tmp_path) == ["interrupted True"]
    assert ledger.read_text() == before
    events = pa.table({"time": ["2024-01-01", "2024-01-03"]})
    released = et.release(events, key=tmp_path / "k.key", start="2024-01-01", steps=5, every="1d", epsilon=1)
    assert released.num_rows == 5


def test_a_long_count_ends(tmp_path: Path) -> None:
    program = """
import numpy as np

counter = et.Counter(et.plan(2**40, rho=0.5, mechanism="binary"), et.SecretKey.generate(), "visits")
totals = np.ones(20_000_000, dtype=np.int64)
counter.release_many(totals[:5])
ctrl_c_after(1)
try:
    counter.release_many(totals)
except KeyboardInterrupt:
    print("interrupted", 0 < counter.step < totals.size)
"""
    assert printed(program, tmp_path) == ["interrupted True"]


@pytest.mark.parametrize(
    "search",
    [
        "et.plan(16384, rho=0.5, max_events=100, max_events_per_step=1)",
        "et.plan(None, rho=0.5)",
        "et.plan_release(start='2024-01-01', steps=16384, every='1h', rho=0.5, person='who', max_events=100)",
        "et.training.plan_vector(16384, norm=1.0, rho=0.5, participations=100, separation=100)",
        "et.training.plan_training(100_000, 100, epochs=10, norm=1.0, epsilon=2.0, delta=1e-6)",
    ],
)
def test_a_search_for_a_plan_ends(tmp_path: Path, search: str) -> None:
    """The exception comes within half a second, and soon afterwards no thread computes any more."""
    program = f"""
def used(seconds):
    begun = time.process_time()
    time.sleep(seconds)
    return time.process_time() - begun

ctrl_c_after(0.2)
begun = time.monotonic()
try:
    while True:
        {search}
except KeyboardInterrupt:
    print("interrupted", time.monotonic() - begun < 0.2 + 0.5 + 1.0)  # a busy machine may add a second
for _ in range(60):
    if used(0.25) < 0.05:
        print("idle")
        break
"""
    assert printed(program, tmp_path) == ["interrupted True", "idle"]
