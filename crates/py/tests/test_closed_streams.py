"""The program inside the package when a shell has closed standard streams (`>&-`): no file takes their place."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs a POSIX shell")

#: Reports which standard streams are the null device when the program begins.
WATCHED = """
import os, sys
from evertally import __main__

def watch(arguments):
    null = os.stat(os.devnull)
    with open("seen", "w") as file:
        file.write("".join("x" if os.path.samestat(os.fstat(n), null) else "-" for n in range(3)))
    return 0

__main__._run_program = watch
sys.exit(__main__.main())
"""


def shell(closed: str, command: list[str], folder: Path) -> subprocess.CompletedProcess[bytes]:
    """Runs a command whose standard streams are pipes, except the closed ones."""
    return subprocess.run(
        ["sh", "-c", f'exec "$@" {closed}', "sh", *command], cwd=folder, input=b"", capture_output=True, timeout=120
    )


@pytest.mark.parametrize(
    ("closed", "null"), [("", "---"), ("<&-", "x--"), (">&-", "-x-"), ("2>&-", "--x"), ("<&- >&- 2>&-", "xxx")]
)
def test_the_null_device_replaces_closed_streams(closed: str, null: str, tmp_path: Path) -> None:
    assert shell(closed, [sys.executable, "-c", WATCHED], tmp_path).returncode == 0
    assert (tmp_path / "seen").read_text() == null


def test_an_output_that_nobody_receives_is_refused(tmp_path: Path, examples: Path) -> None:
    shutil.copy(examples / "flights-sample.csv", tmp_path)
    program = [sys.executable, "-m", "evertally"]
    assert shell("<&- >&- 2>&-", [*program, "key", "new", "my.key"], tmp_path).returncode == 0
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert set(before) == {"flights-sample.csv", "my.key", "my.key.ledger"}
    assert before["my.key"].count(b"\n") == 3 and json.loads(before["my.key.ledger"])["version"] == 1
    release = [
        *("release", "flights-sample.csv", "--key", "my.key", "--stream", "flights", "--start", "2013-01-01"),
        *("--end", "2013-02-01", "--every", "1d", "--time-zone", "America/New_York", "--epsilon", "1"),
        *("--missing", "skip", "--out", "-", "--all"),
    ]
    refused = shell(">&-", [*program, *release], tmp_path)
    assert refused.returncode != 0 and b"it is closed" in refused.stderr, refused.stderr.decode()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert shell("", [*program, *release], tmp_path).stdout.count(b"\n") == 32
