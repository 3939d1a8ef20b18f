"""Sources of every kind at real servers, through the built program: each event counts once, whatever is killed.

Every source is followed twice: by the service itself (``[[feed]]``), and by ``evertally feed``. The servers are
installed by ``checks/setup``.
"""

import contextlib
import importlib
import json
import os
import random
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from conftest import REPOSITORY, Running

import evertally as et

ROUNDS = 6
ROWS = 150
KINDS = ["redis", "nats", "mqtt", "postgresql", "kafka", "folder"]
STREAM = """
[[stream]]
stream = "{name}"
closing = "operator"
start = "2026-01-01"
every = "1h"
steps = 3
group-by = ["gate"]
groups = ["a", "b"]
rho = 10
"""


def event(number: int) -> dict[str, str]:
    return {"time": f"2026-01-01T0{number % 3}:{number % 60:02}:00Z", "gate": "a" if number % 5 < 2 else "b"}


def lines(numbers: range) -> str:
    return "".join(json.dumps(event(number)) + "\n" for number in numbers)


def installed(program: str) -> str:
    """The path of a program; Debian has servers where not everybody's path leads."""
    postgresql = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    paths = os.pathsep.join([os.environ["PATH"], "/usr/sbin", *map(str, postgresql)])
    found = shutil.which(program, path=paths)
    assert found, f"the program {program} is missing: run checks/setup, which installs it"
    return found


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def wait_until(holds: Callable[[], bool], what: str, seconds: float = 60) -> None:
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until, what
        time.sleep(0.05)


def listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False


class Sources:
    """Servers with an empty source of each kind."""

    def __init__(self, folder: Path, stack: contextlib.ExitStack) -> None:
        self.folder, self.stack = folder, stack
        self.urls: dict[str, Callable[[str], str]] = {}
        for kind in KINDS:
            (folder / kind).mkdir()
            getattr(self, f"start_{kind}")(folder / kind)

    def server(self, program: str, *arguments: object, **options: Any) -> subprocess.Popen[str]:
        command = [installed(program), *map(str, arguments)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, **options)
        self.stack.callback(process.wait)
        self.stack.callback(process.kill)
        return process

    def start_redis(self, folder: Path) -> None:
        self.redis = free_port()
        self.server("redis-server", "--port", self.redis, "--bind", "127.0.0.1", "--dir", folder, "--save", "")
        wait_until(lambda: listens(self.redis), "Redis does not listen")
        self.urls["redis"] = lambda _: f"redis://127.0.0.1:{self.redis}/0?stream=visits"

    def add_redis(self, numbers: range) -> None:
        commands = (f"XADD visits * time {row['time']} gate {row['gate']}\n" for row in map(event, numbers))
        add = [installed("redis-cli"), "-p", str(self.redis)]
        subprocess.run(add, input="".join(commands), text=True, check=True, stdout=subprocess.DEVNULL)

    def start_nats(self, folder: Path) -> None:
        port = free_port()
        self.server("nats-server", "-js", "-a", "127.0.0.1", "-p", port, "-sd", folder)
        wait_until(lambda: listens(port), "NATS does not listen")
        connection = self.stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=20))
        self.nats = self.stack.enter_context(connection.makefile("rwb"))
        self.nats.write(b'CONNECT {"verbose":false}\r\nSUB answers 1\r\n')
        self.send_nats("$JS.API.STREAM.CREATE.VISITS", ['{"name":"VISITS","subjects":["visits"],"storage":"file"}'])
        self.urls["nats"] = lambda _: f"nats://127.0.0.1:{port}/VISITS"

    def send_nats(self, subject: str, messages: list[str]) -> None:
        for message in messages:
            self.nats.write(f"PUB {subject} answers {len(message)}\r\n{message}\r\n".encode())
        self.nats.flush()
        left = len(messages)
        while left:
            line = self.nats.readline()
            assert line, "NATS ended the connection"
            if line.startswith(b"MSG "):
                answer = self.nats.read(int(line.split()[-1]) + 2)
                assert b'"error"' not in answer, answer
                left -= 1

    def add_nats(self, numbers: range) -> None:
        self.send_nats("visits", lines(numbers).splitlines())

    def start_mqtt(self, folder: Path) -> None:
        self.mqtt = free_port()
        settings = f"listener {self.mqtt} 127.0.0.1\nallow_anonymous true\nmax_queued_messages 0\n"
        settings += f"log_type all\nlog_dest file {folder}/log\nuser root\n"
        (folder / "mosquitto.conf").write_text(settings)
        self.server("mosquitto", "-c", folder / "mosquitto.conf")
        wait_until(lambda: listens(self.mqtt), "Mosquitto does not listen")
        self.urls["mqtt"] = lambda follower: f"mqtt://127.0.0.1:{self.mqtt}/visits?client-id={follower}"

    def add_mqtt(self, numbers: range) -> None:
        # It has messages only for those who subscribed before.
        log = self.folder / "mqtt/log"
        wait_until(lambda: log.read_text().count("Sending SUBACK") >= 2, "nobody subscribes")
        publish = [installed("mosquitto_pub"), "-h", "127.0.0.1", "-p", str(self.mqtt), "-t", "visits", "-q", "2", "-l"]
        subprocess.run(publish, input=lines(numbers), text=True, check=True)

    def start_postgresql(self, folder: Path) -> None:
        # The server refuses to be run by root, and another user has no access to the folders of tests.
        user = {"user": "postgres", "group": "postgres"} if os.getuid() == 0 else {}
        if user:
            folder = Path(self.stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
            shutil.chown(folder, **user)
        self.postgresql, data = free_port(), folder / "data"
        initdb = [installed("initdb"), "-A", "trust", "-U", "postgres", "--no-sync", "-D", str(data)]
        subprocess.run(initdb, check=True, stdout=subprocess.DEVNULL, cwd=folder, **user)  # type: ignore[call-overload]
        settings = f"port={self.postgresql} fsync=off wal_level=logical listen_addresses=127.0.0.1".split()
        settings += ["unix_socket_directories="]
        arguments = [word for setting in settings for word in ("-c", setting)]
        self.server("postgres", "-D", data, *arguments, cwd=folder, **user)
        wait_until(lambda: listens(self.postgresql), "PostgreSQL does not listen")
        self.sql(
            "CREATE TABLE visits (id bigserial PRIMARY KEY, time text, gate text)",
            "CREATE PUBLICATION visits FOR TABLE visits",
            *(f"SELECT pg_create_logical_replication_slot('{one}', 'pgoutput')" for one in ("fed", "sent")),
        )
        address = f"postgresql://postgres@127.0.0.1:{self.postgresql}/postgres"
        self.urls["postgresql"] = lambda follower: f"{address}?publication=visits&slot={follower}"

    def sql(self, *statements: str) -> None:
        run = [installed("psql"), "-h", "127.0.0.1", "-p", str(self.postgresql), "-U", "postgres", "-q"]
        run += [word for statement in statements for word in ("-c", statement)]
        subprocess.run([*run, "-v", "ON_ERROR_STOP=1"], check=True, stdout=subprocess.DEVNULL)

    def add_postgresql(self, numbers: range) -> None:
        rows = ", ".join(f"('{row['time']}', '{row['gate']}')" for row in map(event, numbers))
        self.sql(f"INSERT INTO visits (time, gate) VALUES {rows}")

    def start_kafka(self, folder: Path) -> None:
        cluster = REPOSITORY / "crates/feeds/tests/kafka_cluster.py"
        python = str(REPOSITORY / "target/python/bin/python")
        process = self.server(python, cluster, 1, stdin=subprocess.PIPE)
        assert process.stdin is not None and process.stdout is not None
        address = process.stdout.readline().strip()
        print("create visits 2 1", file=process.stdin, flush=True)
        assert process.stdout.readline() == "0\n", "run checks/setup, which installs confluent-kafka"
        library: Any = importlib.import_module("confluent_kafka")
        self.kafka = library.Producer({"bootstrap.servers": address, "linger.ms": 5, "log_level": 0})
        self.urls["kafka"] = lambda _: f"kafka://{address}/visits"

    def add_kafka(self, numbers: range) -> None:
        for number in numbers:
            self.kafka.produce("visits", json.dumps(event(number)).encode(), partition=number % 2)
        assert self.kafka.flush(20) == 0

    def start_folder(self, folder: Path) -> None:
        self.urls["folder"] = lambda _: f"file://{folder}/?every=100ms"

    def add_folder(self, numbers: range) -> None:
        path = self.folder / "folder" / f"{numbers.start}.jsonl"
        path.with_suffix(".new").write_text(lines(numbers))
        # It is read when it has been unchanged for two seconds.
        os.utime(path.with_suffix(".new"), (1, 1))
        path.with_suffix(".new").rename(path)


class Following:
    """A service that follows all sources, and a feeder for each; they can be killed."""

    def __init__(self, program: str, folder: Path, sources: Sources) -> None:
        names = [f"{kind}-{follower}" for kind in KINDS for follower in ("fed", "sent")]
        feeds = (
            f'[[feed]]\nstream = "{kind}-fed"\nfrom = "{sources.urls[kind]("fed")}"\nrows = 40\n' for kind in KINDS
        )
        top = f'folder = "data"\nkey = "serve.key"\nbackups = "."\n[private]\nlisten = "127.0.0.1:{free_port()}"\n'
        config = top + "".join(STREAM.format(name=name) for name in names) + "".join(feeds)
        self.running = Running(program, folder, config)
        self.names, self.sources = names, sources
        self.feeders = {kind: self.feeder(kind) for kind in KINDS}

    def feeder(self, kind: str) -> subprocess.Popen[bytes]:
        running, stream = self.running, f"{kind}-sent"
        token = running.folder / f"{kind}.token"
        if not token.exists():
            token.write_text(running.token(f"write:{stream}"))
        url = self.sources.urls[kind]("sent")
        feed = [running.program, "feed", "--url", running.url, "--stream", stream, "--from", url, "--rows", "40"]
        log = (running.folder / f"{kind}.log").open("ab")
        with log:
            return subprocess.Popen([*feed, "--token-file", token], stderr=log)

    def kill_service(self) -> None:
        self.running.process.kill()
        self.running.process.wait()
        self.running.start()

    def kill_feeder(self, kind: str) -> None:
        self.feeders[kind].kill()
        self.feeders[kind].wait()
        self.feeders[kind] = self.feeder(kind)

    def counts(self) -> dict[str, int]:
        """The events of each stream since the start of the service."""
        operated = et.connect(self.running.url, self.running.operate)._json("GET", "/v1/operator")
        return {one["name"]: int(one["events"]) for one in operated["streams"]}

    def wait_for(self, least: int) -> None:
        """Waits until each stream has at least these events since the start of the service, and no more arrive."""
        until, since, last = time.monotonic() + 60, time.monotonic(), self.counts()
        while min(last.values()) < least or time.monotonic() < since + 8.0:
            assert time.monotonic() < until, f"{last}\n{self.problems()}"
            time.sleep(0.1)
            if (counts := self.counts()) != last:
                since, last = time.monotonic(), counts

    def problems(self) -> str:
        """The messages of all feeders, and the problems of the service's feeds."""
        logs = "\n".join(f"{kind}: {(self.running.folder / f'{kind}.log').read_text()[-2000:]}" for kind in KINDS)
        return f"{logs}\n{et.connect(self.running.url, self.running.operate)._json('GET', '/v1/operator')}"

    def stop(self) -> None:
        processes: list[subprocess.Popen[Any]] = [*self.feeders.values(), self.running.process]
        for process in processes:
            process.kill()
            process.wait()


@pytest.fixture
def following(program: str, tmp_path: Path) -> Iterator[Following]:
    with contextlib.ExitStack() as stack:
        following = Following(program, tmp_path, Sources(tmp_path, stack))
        stack.callback(following.stop)
        yield following


def test_each_event_counts_once_whatever_is_killed(following: Following) -> None:
    draw, sources, kills = random.Random(37), following.sources, {"service": 0, "feeder": 0}
    for part in range(ROUNDS):
        for kind in KINDS:
            getattr(sources, f"add_{kind}")(range(part * ROWS, (part + 1) * ROWS))
            if draw.random() < 0.5:
                time.sleep(draw.random() / 10)
                following.kill_feeder(draw.choice(KINDS))
                kills["feeder"] += 1
            # The last round is counted from its beginning.
            if part < ROUNDS - 1 and draw.random() < 0.25:
                time.sleep(draw.random() / 10)
                following.kill_service()
                kills["service"] += 1
    assert min(kills.values()) >= 5, kills
    following.wait_for(ROWS)
    total = ROUNDS * ROWS
    # Exactly the values of one process that counts the same events under the same key.
    operator, key = et.connect(following.running.url, following.running.operate), following.running.key()
    events = pd.DataFrame(map(event, range(total))).sort_values("time")
    options: dict[str, Any] = {"start": "2026-01-01", "every": "1h", "steps": 3, "through": "2026-01-01T03:00"}
    for name in following.names:
        operator.stream(name).close(3)
        alone = et.release(events, key=key, name=name, group="gate", groups=["a", "b"], rho=10.0, **options)
        found = operator.stream(name).releases(table="pandas")
        columns = ["step", "gate", "value"]
        assert found[columns].to_csv() == alone[columns].to_csv(), name
