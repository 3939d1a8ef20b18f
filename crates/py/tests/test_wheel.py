"""The dependencies of the package."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[3]


def test_the_package_contains_the_program_and_no_tool_of_the_tests() -> None:
    if shutil.which("cargo") is None:
        pytest.skip("cargo is not there")
    tree = ["cargo", "tree", "-p", "evertally-py", "-e", "normal", "--prefix", "none", "--format", "{p}"]
    run = subprocess.run(tree, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    crates = {line.split()[0] for line in run.stdout.splitlines() if line}
    assert {"evertally", "evertally-publish", "evertally-tables", "evertally-cli", "evertally-server"} < crates
    assert not crates & {"evertally-testkit", "criterion", "proptest", "nalgebra"}


def test_the_client_of_the_service_and_numpy_are_imported_when_they_are_used() -> None:
    script = """
import sys
import evertally as et
assert not {"http.client", "ssl", "evertally._connect", "numpy"} & sys.modules.keys()
assert et.connect.__module__ == "evertally._connect" and "ssl" in sys.modules
plan = et.plan(4, epsilon=1.0)
assert "numpy" not in sys.modules
assert plan.std_errors().shape == (4,) and "numpy" in sys.modules
assert et.training.moments.Clipping and et.training.canaries.TrainingAudit
assert set(dir(et.training)) == set(et.training.__all__)
assert set(et.__all__) == set(dir(et)) and all(hasattr(et, name) for name in et.__all__)
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_free_threaded_builds_are_refused() -> None:
    script = """
import sysconfig
sysconfig.get_config_vars()["Py_GIL_DISABLED"] = 1
try:
    import evertally
except ImportError as error:
    assert "free-threaded" in str(error), error
else:
    raise SystemExit("imported")
"""
    subprocess.run([sys.executable, "-c", script], check=True)
