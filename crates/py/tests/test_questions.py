"""The questions that the program asks on a terminal."""

import os
import select
import sys
import time
from pathlib import Path

import pytest

pty = pytest.importorskip("pty", reason="pseudo-terminals are a part of Unix")
termios = pytest.importorskip("termios")

EVENTS = (
    "started;ended;member;hall\n"
    + "".join(f"0{1 + i % 9}/02/2024 09:0{i % 7};0{1 + i % 9}/02/2024 10:00;m{i % 23};Park\n" for i in range(60))
    + "03/02/2024 09:30;03/02/2024 10:00;m3;Harbour\n"
)

DOWN = "\x1b[B"
DEADLINE = 60.0


class Terminal:
    """A program that runs in a pseudo-terminal."""

    def __init__(self, command: list[str], folder: Path, lines: int = 24) -> None:
        self.seen = ""
        self.child, self.terminal = pty.fork()
        if self.child == 0:
            termios.tcsetwinsize(0, (lines, 80))
            os.chdir(folder)
            os.environ["TERM"] = "xterm"
            os.execv(command[0], command)

    def read(self, seconds: float) -> bool:
        """Reads some output; false at the end."""
        if not select.select([self.terminal], [], [], seconds)[0]:
            return True
        try:
            more = os.read(self.terminal, 1 << 16)
        except OSError:  # how Linux says that the other end is closed
            return False
        self.seen += more.decode()
        return bool(more)

    def answer(self, question: str, keys: str) -> None:
        """Waits for a question, and answers it."""
        until = time.monotonic() + DEADLINE
        while question not in self.seen:
            assert self.read(0.2) and time.monotonic() < until, f"no {question!r} in {self.seen!r}"
        # The next question may have the same words.
        self.seen = self.seen.split(question, 1)[1]
        # A key such as Ctrl-C has another meaning until the program waits for single keys.
        while keys and termios.tcgetattr(self.terminal)[3] & termios.ICANON:
            assert self.read(0.02) and time.monotonic() < until, f"keys are not read at {question!r}"
        os.write(self.terminal, keys.encode())

    def end(self) -> tuple[int, str]:
        """The exit status, and the output since the last answer."""
        until = time.monotonic() + DEADLINE
        while self.read(0.2):
            assert time.monotonic() < until, f"still asking: {self.seen!r}"
        return os.waitstatus_to_exitcode(os.waitpid(self.child, 0)[1]), self.seen.replace("\r\n", "\n")


def check(program: str, folder: Path, *more: str) -> Terminal:
    (folder / "events.csv").write_text(EVENTS)
    return Terminal([program, "check", "events.csv", *more], folder)


def test_answers_become_flags(program: str, tmp_path: Path) -> None:
    asked = check(program, tmp_path)
    for question, keys in (
        ("--time)", "\r"),
        ("2 January 2024 09:00:00  %m/%d/%Y %H:%M", "\r"),
        ("--person)", "\r"),
        ("(--max-events) [10]", "none\r"),
        ("`none`: it is not a whole number, 0 or more", "5\r"),
        ("--group-by)", f"{DOWN}\r"),
        ("(--groups)", "Park,Park\r"),
        ("group `Park` is declared twice", "Park, Harbour\r"),
        ("(--every) [1d]", "1w\r"),
        ("(--start)", "yesterday\r"),
        ("`yesterday`", "2024-01-01\r"),
        ("(--end)", "2024-13-01\r"),
        ("there is no month 13", "2024-12-30\r"),
        ("(--rho)", "0\r"),
        ("must be more than 0", "0.5\r"),
        ("(--write)", "events.csv\r"),
        ("the file exists", "no/events.toml\r"),
        ("its folder does not exist", "events.toml\r"),
    ):
        asked.answer(question, keys)
    status, shown = asked.end()
    assert status == 0, shown
    command = (
        "evertally release events.csv --time started --time-format '%d/%m/%Y %H:%M' --person member --group-by hall "
        "--groups Park,Harbour --every 1w --start 2024-01-01 --end 2024-12-30 --rho 0.5 --max-events 5 --delimiter ';'"
    )
    for flag in command.split(" --")[1:]:
        assert f"--{flag}" in shown, flag
    assert "61 read, 61 of which a release can count" in shown and "guarantee:" in shown
    # The file reads the events without a question.
    again = Terminal([program, "check", "--config", "events.toml", "--yes"], tmp_path)
    status, shown = again.end()
    assert status == 0 and "61 read, 61 of which a release can count" in shown and "(--" not in shown, shown


def test_none_of_the_columns_may_be_the_time(program: str, tmp_path: Path) -> None:
    asked = check(program, tmp_path)
    asked.answer("--time)", f"{DOWN}{DOWN}\r")
    for question in ("--person)", "(--max-events)", "--group-by)", "(--every)", "(--start)", "(--rho)", "(--write)"):
        asked.answer(question, "\r")
    status, shown = asked.end()
    assert status == 0 and "name it with --time" in shown and "--time started" not in shown, shown


def test_what_is_wrong_already_is_said_first(program: str, tmp_path: Path) -> None:
    (tmp_path / "events.csv").write_text(EVENTS)
    given = ["--value", "member", "--bounds", "5,1"]
    status, shown = Terminal([program, "check", "events.csv", *given], tmp_path).end()
    assert status == 2 and "the lower bound (5) is above the upper bound (1)" in shown, shown
    assert "(--" not in shown


def test_questions_can_stay_open(program: str, tmp_path: Path) -> None:
    asked = check(program, tmp_path, "--time", "ended", "--delimiter", ";")
    asked.answer("not known", f"{DOWN}{DOWN}\r")
    asked.answer("--person)", f"{DOWN}\r")
    for question in ("--group-by)", "(--every)", "(--start)", "(--rho)", "(--write)"):
        asked.answer(question, "\r")
    status, shown = asked.end()
    assert status == 0 and "the times can be read in several ways" in shown, shown
    assert "--person" not in shown and "--rho RHO" in shown
    assert sorted(path.name for path in tmp_path.iterdir()) == ["events.csv"]


@pytest.mark.parametrize("question", ["--time)", "(--every)"])
def test_control_c_ends_questions(program: str, tmp_path: Path, question: str) -> None:
    asked = check(program, tmp_path, *(["--time", "ended"] if question == "(--every)" else []))
    if question == "(--every)":
        asked.answer("not known", "\r")
        asked.answer("--person)", f"{DOWN}\r")
        asked.answer("--group-by)", "\r")
    asked.answer(question, "\x03")
    status, shown = asked.end()
    assert status == 130 and "error: interrupted; no output was written" in shown, (status, shown)
    assert "\x1b[?25l" not in shown or shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l"), "the cursor is hidden"


def test_nothing_is_asked_without_room_for_lists(program: str, tmp_path: Path) -> None:
    (tmp_path / "events.csv").write_text(EVENTS)
    status, shown = Terminal([program, "check", "events.csv"], tmp_path, lines=2).end()
    assert status == 0 and "NOT PRIVATE" in shown and "(--" not in shown, shown


def test_nothing_is_asked_without_a_terminal_to_read(program: str, tmp_path: Path) -> None:
    (tmp_path / "events.csv").write_text(EVENTS)
    piped = Terminal([sys.executable, "-c", f"import os; os.system({program!r} + ' check events.csv | cat')"], tmp_path)
    status, shown = piped.end()
    assert status == 0 and "NOT PRIVATE" in shown and "(--" not in shown, shown


@pytest.mark.parametrize("lines", [24, 2])
def test_a_release_that_ends_a_stream_asks(program: str, tmp_path: Path, lines: int) -> None:
    (tmp_path / "events.csv").write_text("time\n2024-01-01\n2024-01-02\n")
    command = [
        *(program, "release", "events.csv", "--start", "2024-01-01", "--steps", "2", "--every", "1d", "--rho", "0.5"),
        *("--key", "my.key", "--create-key", "--allow-weak-budget", "--out", "released.csv", "--all"),
    ]
    asked = Terminal(command, tmp_path, lines)
    asked.answer("no step can follow. Continue? [y/N]", "n")
    status, shown = asked.end()
    assert status == 2 and "nothing was published" in shown, shown
    assert not (tmp_path / "released.csv").exists()
    asked = Terminal(command, tmp_path, lines)
    asked.answer("no step can follow. Continue? [y/N]", "y")
    assert asked.end()[0] == 0 and (tmp_path / "released.csv").exists()
