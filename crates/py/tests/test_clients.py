"""Clients of other makers deliver to a service, with the configurations of the guide."""

import http.client
import http.server
import itertools
import json
import logging
import shutil
import socket
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import evertally as et
from conftest import REPOSITORY, Running

GUIDE = REPOSITORY / "docs" / "guide" / "run" / "clients.md"


def configuration(mark: str, **texts: str) -> str:
    """A configuration in the guide: the block that contains `mark`, with other texts for those in it."""
    blocks = GUIDE.read_text(encoding="utf-8").split("```")[1::2]
    (block,) = (block.partition("\n")[2] for block in blocks if mark in block)
    for text, other in texts.items():
        assert text in block, text
        block = block.replace(text, other)
    return block


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def events(running: Running, stream: str) -> int:
    operated = et.connect(running.url, running.operate)._json("GET", "/v1/operator")
    (count,) = (one["events"] for one in operated["streams"] if one["name"] == stream)
    return int(count)


def wait_for(running: Running, stream: str, count: int) -> None:
    """Waits until a stream has this number of events, and checks that it gets no more."""
    until = time.monotonic() + 60
    while events(running, stream) < count and time.monotonic() < until:
        time.sleep(0.1)
    time.sleep(0.5)
    assert events(running, stream) == count


class Forgetful:
    """A proxy that forwards requests, and closes every second one without its answer."""

    def __init__(self, url: str) -> None:
        target, requests = url.removeprefix("http://"), itertools.count()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                service = http.client.HTTPConnection(target)
                service.request("POST", self.path, body, dict(self.headers))
                answer = service.getresponse()
                content = answer.read()
                if next(requests) % 2 == 0:
                    self.close_connection = True
                    return
                self.send_response(answer.status)
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    def __enter__(self) -> str:
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{self.server.server_port}"

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()


def send_lines(port: int, lines: list[str]) -> None:
    """Sends lines over TCP, once something listens."""
    until = time.monotonic() + 30
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port), 1) as client:
                client.sendall("".join(f"{line}\n" for line in lines).encode())
                return
        except OSError:
            assert time.monotonic() < until, "nothing listens"
            time.sleep(0.1)


def declared(**more: Any) -> dict[str, Any]:
    return {"stream": "counted", "start": "2026-01-01", "every": "1d", "steps": 9000, "rho": 1, **more}


@pytest.mark.skipif(shutil.which("syslog-ng") is None, reason="syslog-ng is not installed")
def test_syslog_ng_delivers_each_message_once(running: Running, tmp_path: Path) -> None:
    grouped = {"group-by": ["program"], "groups": ["app"], "rest": "other"}
    et.connect(running.url, running.operate).open(declared(**grouped), closing="operator", id="id")
    port = free_port()
    with Forgetful(running.url) as url:
        texts = {
            "http://127.0.0.1:8801": url,
            "app-logs": "counted",
            "TOKEN": running.count,
            "port(514)": f"port({port})",
        }
        (tmp_path / "ng.conf").write_text(configuration("@version", **texts))
        start = ["syslog-ng", "--foreground", "--no-caps", "--stderr", "--cfgfile", "ng.conf"]
        start += ["--persist-file", "ng.persist", "--pidfile", "ng.pid", "--control", "ng.ctl"]
        with subprocess.Popen(start, cwd=tmp_path, stderr=subprocess.DEVNULL) as syslog:
            try:
                for first in (0, 250):
                    send_lines(
                        port, [f"<13>1 2026-06-01T09:00:00Z host app - - - {n}" for n in range(first, first + 250)]
                    )
                    wait_for(running, "counted", first + 250)
            finally:
                syslog.terminate()


@pytest.mark.skipif(shutil.which("collectd") is None, reason="collectd is not installed")
def test_collectd_delivers(running: Running, tmp_path: Path) -> None:
    grouped = {"group-by": ["type_instance"], "groups": ["free", "used"], "rest": "other"}
    opened = declared(**grouped, **{"time-format": "epoch-seconds"})
    et.connect(running.url, running.operate).open(opened, closing="operator")
    texts = {"http://127.0.0.1:8801": running.url, "host-metrics": "counted", "TOKEN": running.count}
    own = f'BaseDir "{tmp_path}"\nPIDFile "{tmp_path}/pid"\nInterval 1\n'
    (tmp_path / "collectd.conf").write_text(own + configuration("write_http", **texts))
    start = ["collectd", "-f", "-C", str(tmp_path / "collectd.conf")]
    with subprocess.Popen(start, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as collectd:
        time.sleep(3)
        collectd.terminate()
    # At least the values of two seconds: used, free, cached and so on.
    assert events(running, "counted") >= 6


def test_the_rows_of_the_guide_are_rows(running: Running) -> None:
    """What the page shows as bodies of clients is accepted as it is."""
    grouped = {"group-by": ["program"], "groups": ["app"], "rest": "other"}
    et.connect(running.url, running.operate).open(declared(**grouped), closing="operator", id="id")
    rows = [json.loads(line) for line in configuration('"id":"91dd02fe').splitlines()]
    assert et.connect(running.url, running.count).stream("counted").push(rows).rows == len(rows) > 0


def speaks_http2() -> bool:
    return (
        shutil.which("curl") is not None
        and "HTTP2" in subprocess.run(["curl", "--version"], check=True, capture_output=True, text=True).stdout
    )


@pytest.mark.skipif(not speaks_http2(), reason="there is no curl with HTTP/2")
@pytest.mark.parametrize("size", [10, 70_000, 3_000_000])
def test_early_refusals_reach_clients_of_http2(running: Running, tmp_path: Path, size: int) -> None:
    """A request is refused before its body is read; the client sends the rest, and then reads the answer."""
    (tmp_path / "body").write_bytes(b"x" * size)
    bearer = f"authorization: Bearer {running.write}"
    for headers, status in (
        (["content-type: text/csv"], 401),
        ([bearer, "content-type: text/html", "idempotency-key: x"], 415),
        ([bearer, "content-type: text/csv"], 400),
    ):
        post = ["curl", "-s", "--http2-prior-knowledge", "--data-binary", "@body", "-w", "%{http_version} %{http_code}"]
        post += [part for header in headers for part in ("-H", header)]
        for _ in range(3):
            answer = subprocess.run(
                [*post, "-o", "answer", f"{running.url}/v1/streams/visits/events"],
                cwd=tmp_path,
                check=True,
                capture_output=True,
                text=True,
            )
            assert answer.stdout == f"2 {status}"
            assert json.loads((tmp_path / "answer").read_text())["status"] == status


def test_opentelemetry_delivers(running: Running) -> None:
    exporters = pytest.importorskip("opentelemetry.exporter.otlp.json.http._log_exporter")
    logs, export = (pytest.importorskip(f"opentelemetry.sdk._logs{part}") for part in ("", ".export"))
    resources = pytest.importorskip("opentelemetry.sdk.resources")
    grouped = {"group-by": ["attributes.user.id"], "groups": ["ann"], "rest": "other"}
    person = {"person": "body", "max-events": 9}
    et.connect(running.url, running.operate).open(declared(**grouped, **person), closing="operator")
    path, headers = "v1/streams/counted/otlp/v1/logs", {"authorization": f"Bearer {running.count}"}
    exporter = exporters.OTLPLogExporter(endpoint=f"{running.url}/{path}", headers=headers)
    provider = logs.LoggerProvider(resource=resources.Resource.create({"service.name": "shop"}))
    provider.add_log_record_processor(export.BatchLogRecordProcessor(exporter))
    logger = provider.get_logger("test")
    for number in range(5):
        logger.emit(timestamp=time.time_ns(), body=f"line {number}", attributes={"user.id": "ann"})
    assert provider.force_flush()
    provider.shutdown()
    assert events(running, "counted") == 5


def test_a_client_of_loki_delivers(running: Running) -> None:
    loki = pytest.importorskip("logging_loki")
    grouped = {"group-by": ["labels.severity"], "groups": ["info"], "rest": "other"}
    et.connect(running.url, running.operate).open(declared(**grouped), closing="operator")
    url = f"{running.url}/v1/streams/counted/loki/api/v1/push"
    handler = loki.LokiHandler(url=url, tags={"app": "shop"}, auth=("me", running.count), version="1")
    for number in range(5):
        handler.emit(logging.LogRecord("shop", logging.INFO, "", 0, "line %d", (number,), None))
    assert events(running, "counted") == 5
