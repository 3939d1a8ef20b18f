"""Two machines with a source and with batches over HTTP: each is killed at any moment, and each event counts once.

``EVERTALLY_FAILOVER_KILLS`` sets the number of kills (default 1: a takeover takes seconds).
"""

import contextlib
import json
import os
import random
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import evertally as et
import pandas as pd
import pytest
from test_sources import free_port

KILLS = int(os.environ.get("EVERTALLY_FAILOVER_KILLS", "1"))
ROWS, BATCHES = 40, 4
CONFIG = """
folder = "data"
key = "serve.key"
[private]
listen = "127.0.0.1:{port}"
[witness]
file = "{shared}/witness.json"
[standby]
folder = "{shared}/between"
every = "100ms"
takeover = "3s"
[steps]
catch-up = "0s"
[[feed]]
stream = "fed"
file = "{shared}/events.jsonl"
rows = 7
"""
STREAM = """
[[stream]]
stream = "{name}"
closing = "operator"
start = "2026-01-01"
every = "1h"
steps = {steps}
group-by = ["gate"]
groups = ["a", "b"]
rho = 10
"""


def event(step: int, number: int) -> dict[str, str]:
    time = (
        f"2026-01-{1 + (step - 1) // 24:02}T{(step - 1) % 24:02}:{number % 60:02}:00Z"
    )
    return {"time": time, "gate": "a" if (step + number) % 5 < 2 else "b"}


def lines(step: int, numbers: range) -> bytes:
    return "".join(
        json.dumps(event(step, number)) + "\n" for number in numbers
    ).encode()


class Machines:
    """Two machines, each with its folder, and a folder that both reach."""

    def __init__(self, program: str, folder: Path) -> None:
        self.program, self.shared = program, folder / "shared"
        (self.shared / "between").mkdir(parents=True)
        self.events = self.shared / "events.jsonl"
        self.events.touch()
        self.ports, self.folders = (
            [free_port(), free_port()],
            [folder / "a", folder / "b"],
        )
        self.processes: list[subprocess.Popen[bytes] | None] = [None, None]
        streams = "".join(
            STREAM.format(name=name, steps=max(KILLS, 2)) for name in ("fed", "sent")
        )
        for own, port in zip(self.folders, self.ports, strict=True):
            (own / "data").mkdir(mode=0o700, parents=True)
            (own / "serve.toml").write_text(
                CONFIG.format(port=port, shared=self.shared) + streams
            )
        self.start(0)
        self.operate = self.token("operate")
        self.write, self.read = self.token("write:sent"), self.token("write:fed")
        self.wait(lambda: self.primary() == 0, "the first machine does not start")
        (self.folders[1] / "serve.key").write_bytes(
            (self.folders[0] / "serve.key").read_bytes()
        )
        (self.folders[1] / "serve.key").chmod(0o600)
        self.start(1)
        self.wait(
            lambda: any(self.shared.glob("between/followers/*")),
            "the second machine does not follow",
        )

    def token(self, role: str) -> str:
        make = [self.program, "token", "make", "--config", "serve.toml", "--role", role]
        made = subprocess.run(
            make, cwd=self.folders[0], check=True, capture_output=True, text=True
        )
        return made.stdout.split()[-1]

    def start(self, at: int) -> None:
        serve = [
            self.program,
            "serve",
            "--config",
            "serve.toml",
            "--follow",
            "--log",
            "warn",
        ]
        if not (self.folders[at] / "serve.key").exists():
            serve.remove("--follow")
        with (self.folders[at] / "log").open("ab") as log:
            self.processes[at] = subprocess.Popen(
                serve, cwd=self.folders[at], stderr=log, stdout=log
            )

    def kill(self, at: int) -> None:
        if process := self.processes[at]:
            process.kill()
            process.wait()
            self.processes[at] = None

    def primary(self) -> int | None:
        """The machine that answers."""
        for at, port in enumerate(self.ports):
            with contextlib.suppress(OSError):
                urllib.request.urlopen(
                    f"http://127.0.0.1:{port}/readyz", timeout=10
                ).close()
                return at
        return None

    def wait(self, holds: Any, what: str, seconds: float = 90) -> None:
        until = time.monotonic() + seconds
        while not holds():
            logs = "\n".join(
                (own / "log").read_text()[-3000:]
                for own in self.folders
                if (own / "log").exists()
            )
            assert time.monotonic() < until, f"{what}\n{logs}"
            time.sleep(0.05)

    def ask(
        self, method: str, path: str, body: bytes | None = None, **headers: str
    ) -> Any:
        """An answer of whichever machine is the primary; until there is one, the request is sent again."""
        found: list[Any] = []
        token = (
            self.read
            if "/positions" in path
            else self.write
            if "/events" in path
            else self.operate
        )
        own = {
            "Authorization": f"Bearer {token}",
            **{name.replace("_", "-"): text for name, text in headers.items()},
        }

        def is_answered() -> bool:
            for port in self.ports:
                request = urllib.request.Request(
                    f"http://127.0.0.1:{port}{path}", body, own, method=method
                )
                try:
                    with urllib.request.urlopen(request, timeout=30) as answer:
                        found.append(json.load(answer))
                        return True
                except urllib.error.HTTPError as error:
                    assert error.code in (429, 503), f"{path}: {error.read().decode()}"
                except (OSError, ValueError):
                    pass  # it was killed, or follows
            return False

        self.wait(is_answered, f"{method} {path} is not answered")
        return found[-1]

    def send(self, step: int, batch: int) -> None:
        body = lines(
            step, range(batch * ROWS // BATCHES, (batch + 1) * ROWS // BATCHES)
        )
        path = "/v1/streams/sent/events"
        self.ask(
            "POST",
            path,
            body,
            Idempotency_Key=f"{step}-{batch}",
            Content_Type="application/x-ndjson",
        )

    def close(self, name: str, step: int) -> None:
        body = json.dumps({"through": step}).encode()
        self.ask(
            "POST", f"/v1/streams/{name}/close", body, Content_Type="application/json"
        )

    def fed(self) -> int:
        """The bytes of the file that are counted."""
        found = self.ask("GET", f"/v1/streams/fed/positions?source=file:{self.events}")[
            "positions"
        ]
        return int(json.loads(found[""])["offset"]) if found else 0

    def values(self, name: str) -> list[tuple[int, str, Any]]:
        rows = self.ask("GET", f"/v1/streams/{name}/releases?from=1&to=1000")["rows"]
        return [(row["step"], row["gate"], row["value"]) for row in rows]


@pytest.fixture
def machines(program: str, tmp_path: Path) -> Iterator[Machines]:
    machines = Machines(program, tmp_path)
    yield machines
    machines.kill(0)
    machines.kill(1)


def test_each_event_counts_once_whichever_machine_is_killed(machines: Machines) -> None:
    draw, kills, takeovers = random.Random(37), [0, 0], 0
    shown: dict[str, list[tuple[int, str, Any]]] = {"fed": [], "sent": []}
    steps = max(KILLS, 2)
    for step in range(1, steps + 1):
        primary = machines.primary()
        with machines.events.open("ab") as file:
            file.write(lines(step, range(ROWS)))
        # The first kill is one of the primary, and ends in a takeover.
        if step > steps - KILLS:
            is_first = step == steps - KILLS + 1
            is_primary = is_first or draw.random() < 0.6
            victim = (
                primary if is_primary and primary is not None else 1 - (primary or 0)
            )
            for batch in range(draw.randrange(BATCHES)):
                machines.send(step, batch)
            time.sleep(draw.random() / 5)
            machines.kill(victim)
            kills[victim == primary] += 1
            if is_first:
                machines.wait(
                    lambda other=1 - victim: machines.primary() == other,
                    "nobody takes over",
                )
            else:
                time.sleep(draw.choice([0.0, 0.3, 1.0, 5.0, 8.0]) * draw.random())
            machines.start(victim)
        # Clients repeat what the other machine may lack, under the same ids.
        for batch in range(BATCHES):
            machines.send(step, batch)
        size = machines.events.stat().st_size
        machines.wait(
            lambda size=size: machines.fed() == size, "the file is not read to its end"
        )
        for name, before in shown.items():
            machines.close(name, step)
            now = machines.values(name)
            assert now[: len(before)] == before and len(now) == 2 * step, (
                name,
                now[-4:],
            )
            shown[name] = now
        takeovers += machines.primary() != primary
        if step % 20 == 0 or step == steps:
            print(
                f"{kills[1]} kills of the primary, {kills[0]} of the follower, {takeovers} takeovers",
                flush=True,
            )
    assert takeovers > 0
    # Exactly the values of one process that counts the same events under the same key.
    text = (machines.folders[0] / "serve.key").read_text()
    key = et.SecretKey.from_bytes(
        bytes.fromhex(text.splitlines()[1]), published_nothing=True
    )
    events = pd.DataFrame(
        [event(step, number) for step in range(1, steps + 1) for number in range(ROWS)]
    )
    end = f"2026-01-{1 + steps // 24:02}T{steps % 24:02}:00"
    for name, rows in shown.items():
        alone = et.release(
            events.sort_values("time"),
            key=key,
            name=name,
            group="gate",
            groups=["a", "b"],
            rho=10.0,
            start="2026-01-01",
            every="1h",
            steps=steps,
            through=end,
        )
        expected = list(
            alone[["step", "gate", "value"]].itertuples(index=False, name=None)
        )
        assert [(step, gate, float(value)) for step, gate, value in rows] == [
            (step, gate, float(value)) for step, gate, value in expected
        ], name
