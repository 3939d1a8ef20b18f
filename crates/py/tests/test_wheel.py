"""The dependencies of the package."""

import shutil
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[3]


def test_the_package_needs_nothing_of_the_program() -> None:
    if shutil.which("cargo") is None:
        pytest.skip("cargo is not there")
    tree = ["cargo", "tree", "-p", "evertally-py", "-e", "normal", "--prefix", "none", "--format", "{p}"]
    run = subprocess.run(tree, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    crates = {line.split()[0] for line in run.stdout.splitlines() if line}
    # comfy-table comes with pyo3-arrow, whose arrow-cast can print tables.
    assert {"evertally", "evertally-publish", "evertally-tables", "evertally-plot"} < crates
    assert not crates & {"evertally-cli", "clap", "ctrlc", "indicatif", "resvg", "usvg", "anyhow"}
