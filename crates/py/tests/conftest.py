"""What the tests share."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

import evertally as et

REPOSITORY = Path(__file__).parents[3]


@pytest.fixture
def key() -> et.SecretKey:
    """A key that is the same in every run."""
    return et.SecretKey.insecure_from_test_seed(et.TestSeed(1))


@pytest.fixture(scope="session")
def examples() -> Path:
    return REPOSITORY / "examples"


@pytest.fixture(scope="session")
def program() -> str:
    """The `evertally` program of this repository: $EVERTALLY_BIN, or built by cargo."""
    if given := os.environ.get("EVERTALLY_BIN"):
        return given
    if shutil.which("cargo") is None:
        pytest.skip("neither $EVERTALLY_BIN nor cargo is there")
    # Together with this package, so that cargo builds nothing a second time.
    build = ["cargo", "build", "-q", "-p", "evertally-cli", "-p", "evertally-py", "--bin", "evertally"]
    subprocess.run(build, cwd=REPOSITORY, check=True)
    target = Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target"))
    return str(target / "debug" / "evertally")
