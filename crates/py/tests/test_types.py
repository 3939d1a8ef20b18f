"""The stubs match the compiled module, and correct code passes mypy --strict."""

import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1]


# The modules for PyTorch and JAX cannot be imported without these packages.
STUBTEST = ["--mypy-config-file", "pyproject.toml", "--allowlist", "tests/optional.txt", "--ignore-unused-allowlist"]


@pytest.mark.parametrize(
    "arguments", [["mypy", "--strict", "tests", "python/evertally"], ["mypy.stubtest", "evertally", *STUBTEST]]
)
def test_types_are_right(arguments: list[str]) -> None:
    pytest.importorskip("mypy")
    run = subprocess.run([sys.executable, "-m", *arguments], cwd=PACKAGE, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
