"""The stubs say what the compiled module has, and code that is right passes mypy --strict."""

import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1]


@pytest.mark.parametrize(
    "arguments", [["mypy", "--strict", "tests", "python/evertally"], ["mypy.stubtest", "evertally"]]
)
def test_types_are_right(arguments: list[str]) -> None:
    pytest.importorskip("mypy")
    run = subprocess.run([sys.executable, "-m", *arguments], cwd=PACKAGE, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
