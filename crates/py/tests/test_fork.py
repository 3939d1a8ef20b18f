"""Objects copied by a fork have the noise of the original, and refuse to continue."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import os, sys
import pandas
import evertally as et

key = et.SecretKey.generate()
counter = et.Counter(et.plan(9, epsilon=1.0), key, "visits")
noise = et.VectorNoise(et.training.plan_vector(9, rho=0.5), key, "run", coordinates=3)
lazy = et.LazyVector(et.plan_lazy(9, rho=0.5), key, "lazy", sums=100)
sketch = et.CountSketch(et.plan_sketch(9, rho=0.5, rows=3, width=8), key, "sketch")
ways = [
    lambda: counter.add(1), counter.tick, lambda: counter.release_many([1, 2]), noise.next, lambda: noise.seek(0),
    lambda: lazy.add([5]), lazy.tick, lambda: lazy.read(5), lambda: sketch.add(5), sketch.tick,
    lambda: sketch.estimate(5),
]
if os.fork() == 0:
    refused = 0
    for way in ways:
        try:
            way()
        except et.InvalidError as problem:
            refused += "by a fork" in str(problem) and "under another name" in str(problem)
    # An unused name is refused, too, because another fork may use it. The same holds for copies of the key and its
    # file.
    own = et.Counter(et.plan(9, epsilon=1.0), key, "visits of the child")
    table = {"time": ["2024-01-01"]}
    fresh = [
        own.tick, lambda: key.save(sys.argv[1]),
        lambda: et.release(
            pandas.DataFrame(table), key=key, name="other", every="1d", start="2024-01-01", steps=1, rho=1
        ),
    ]
    for way in fresh:
        try:
            way()
        except et.EvertallyError as problem:
            refused += "save the key in the parent, before the fork" in str(problem)
    # Reading attributes is allowed.
    os._exit(0 if refused == len(ways) + 3 and counter.step == 0 and len(counter.save()) > 0 else 1)
child = os.WEXITSTATUS(os.wait()[1])
for way in ways[:3]:
    way()
sys.exit(child)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_fork_does_not_go_on(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "k")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
