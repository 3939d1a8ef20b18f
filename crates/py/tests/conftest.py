"""Shared fixtures of the tests."""

import importlib.util
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import evertally as et

REPOSITORY = Path(__file__).parents[3]


def script(path: Path) -> Any:
    """A script of the repository as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The tests of a file share fixtures, such as a Spark session: they run in one process if no mark differs."""
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(item.path.name))


@pytest.fixture
def key() -> et.SecretKey:
    """A fixed test key."""
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
        pytest.skip("neither $EVERTALLY_BIN nor cargo is available")
    # Together with this package, so that cargo builds nothing twice.
    build = ["cargo", "build", "-q", "-p", "evertally-cli", "-p", "evertally-py", "--bin", "evertally"]
    subprocess.run(build, cwd=REPOSITORY, check=True)
    target = Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target"))
    return str(target / "debug" / "evertally")


def configuration(stream: et.Stream, **files: object) -> str:
    """The configuration file of the program that makes the same declaration, with these files."""
    declared = json.loads(stream.to_json()) | {name.replace("_", "-"): value for name, value in files.items()}
    return "".join(f"{name} = {json.dumps(value)}\n" for name, value in declared.items())


#: The configuration of a service with streams that the operator closes.
CONFIG = """
folder = "data"
key = "serve.key"
backups = "."
[public]
listen = "127.0.0.1:0"
[private]
listen = "127.0.0.1:0"
[[stream]]
stream = "visits"
public = true
closing = "operator"
start = "2026-01-01"
every = "1h"
steps = 10
group-by = ["gate"]
groups = ["a", "b"]
rho = 10
[[stream]]
stream = "hidden"
closing = "operator"
start = "2020-01-01"
every = "1d"
unbounded = true
rho = 1
"""


class Running:
    """`evertally serve` as a separate program, with tokens for it."""

    def __init__(self, program: str, folder: Path, config: str = CONFIG) -> None:
        (folder / "serve.toml").write_text(config)
        (folder / "data").mkdir(mode=0o700)
        self.program, self.folder = program, folder
        self.operate = self.token("operate")
        self.write, self.count = self.token("write:visits"), self.token("write:counted")
        self.start()

    def token(self, role: str) -> str:
        """A new token."""
        make = [self.program, "token", "make", "--config", "serve.toml", "--role", role]
        return subprocess.run(make, cwd=self.folder, check=True, capture_output=True, text=True).stdout.strip()

    def key(self) -> et.SecretKey:
        """The key of the service, to compute the releases that one process would make with it."""
        text = (self.folder / "serve.key").read_text()
        return et.SecretKey.from_bytes(bytes.fromhex(text.splitlines()[1]), published_nothing=True)

    def restart(self) -> None:
        """Stops the service, and starts it again."""
        self.process.terminate()
        assert self.process.wait(20) == 0
        self.start()

    def start(self) -> None:
        serve = [self.program, "serve", "--config", "serve.toml", "--log", "error"]
        self.process = subprocess.Popen(serve, cwd=self.folder, stderr=subprocess.PIPE, text=True)
        self.url = self.public = ""
        said = []
        assert self.process.stderr is not None
        for line in self.process.stderr:
            said.append(line)
            if line.startswith("reading: "):
                self.public = line.removeprefix("reading: ").strip()
            if line.startswith("writing and operating: "):
                self.url = line.removeprefix("writing and operating: ").strip()
                break
        assert self.url, said


@pytest.fixture
def running(program: str, tmp_path: Path) -> Iterator[Running]:
    running = Running(program, tmp_path)
    yield running
    running.process.terminate()
    assert running.process.wait(20) == 0
