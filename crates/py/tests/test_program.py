"""The program inside the package: the same as the one that cargo builds."""

import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import evertally as et
from evertally import __main__

HERE = [sys.executable, "-m", "evertally"]


def run(command: list[str], folder: Path) -> tuple[int, bytes, bytes]:
    done = subprocess.run(command, cwd=folder, capture_output=True, timeout=120)
    return done.returncode, done.stdout, done.stderr


def test_it_releases_the_bytes_of_the_other_program(program: str, tmp_path: Path, examples: Path) -> None:
    files = {}
    for name, command in (("package", HERE), ("program", [program])):
        folder = tmp_path / name
        folder.mkdir()
        shutil.copy(examples / "flights-sample.csv", folder)
        keys = examples.parent / "docs/keys"
        for suffix, to in ((".txt", ""), (".ledger", ".ledger")):
            shutil.copy(keys / f"1{suffix}", folder / f"my.key{to}")
            (folder / f"my.key{to}").chmod(0o600)
        release = [
            *("release", "flights-sample.csv", "--key", "my.key", "--stream", "flights", "--start", "2013-01-01"),
            *("--end", "2013-02-01", "--every", "1d", "--time-zone", "America/New_York", "--epsilon", "1"),
            *("--missing", "skip", "--out", "released.csv", "--all"),
        ]
        status, _, errors = run([*command, *release], folder)
        assert status == 0, errors.decode()
        files[name] = (folder / "released.csv").read_bytes()
    assert files["package"] == files["program"]
    assert files["package"].count(b"\n") == 32


def test_versions_and_errors_are_those_of_the_program(program: str, tmp_path: Path) -> None:
    assert run([*HERE, "--version"], tmp_path) == (0, f"evertally {et.__version__}\n".encode(), b"")
    for arguments in (["release", "--help"], ["release", "missing.csv"], ["nonsense"], ["lab", "mechanisms"]):
        assert run([*HERE, *arguments], tmp_path) == run([program, *arguments], tmp_path), arguments


def test_control_c_ends_it(tmp_path: Path) -> None:
    serve = [*HERE, "serve", "--demo", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(
        serve, cwd=tmp_path, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as service:
        assert service.stdout is not None
        next(line for line in service.stdout if "http" in line)
        service.send_signal(signal.SIGINT)
        started = time.monotonic()
        service.stdout.read()
        assert service.wait(60) in (0, 130)
        assert time.monotonic() - started < 60


def test_control_c_is_the_programs_while_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []

    def watch(arguments: list[str]) -> int:
        seen.extend([arguments, signal.getsignal(signal.SIGINT)])
        return 7

    monkeypatch.setattr(__main__, "_run_program", watch)
    monkeypatch.setattr(sys, "argv", ["/somewhere/evertally", "plan", "--horizon", "9"])
    before = signal.getsignal(signal.SIGINT)
    try:
        assert __main__.main() == 7
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen == [["evertally", "plan", "--horizon", "9"], signal.SIG_DFL]
