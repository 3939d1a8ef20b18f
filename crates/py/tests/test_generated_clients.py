"""Clients that others have written: a generated one, parsers of metrics, and readers of server-sent events."""

import importlib
import io
import json
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import httpx
import pytest
import requests
from openapi_spec_validator import OpenAPIV31SpecValidator
from prometheus_client.parser import text_string_to_metric_families

from conftest import Running

ROWS = b'{"time":"2026-01-01T00:10:00Z","gate":"a"}\n' * 3


def fetched(url: str, token: str = "") -> str:
    headers = {"authorization": f"Bearer {token}"} if token else {}
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=20) as answer:
        text: str = answer.read().decode()
        return text


def test_the_document_is_valid(running: Running) -> None:
    document = json.loads(fetched(f"{running.public}/openapi.json"))
    assert document["openapi"].startswith("3.1")
    problems = [f"{list(error.path)}: {error.message}" for error in OpenAPIV31SpecValidator(document).iter_errors()]
    assert problems == []
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            for parameter in operation.get("parameters", []):
                where = f"{method} {path} {parameter['name']}"
                assert (parameter["in"] == "path") == (f"{{{parameter['name']}}}" in path), where


def test_a_generated_client_pushes_and_reads(
    running: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "openapi.json").write_text(fetched(f"{running.url}/openapi.json"))
    # The generator knows few types of bodies.
    overrides = {"application/x-ndjson": "application/octet-stream"}
    settings = {"post_hooks": [], "content_type_overrides": overrides}
    (tmp_path / "settings.json").write_text(json.dumps(settings))
    generate = [sys.executable, "-m", "openapi_python_client", "generate", "--path", "openapi.json", "--meta", "none"]
    generate += ["--output-path", "generated_client", "--config", "settings.json"]
    done = subprocess.run(generate, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    monkeypatch.syspath_prepend(str(tmp_path))

    def operation(group: str, name: str) -> Any:
        return importlib.import_module(f"generated_client.api.{group}.{name}").sync_detailed

    package = importlib.import_module("generated_client")
    types = importlib.import_module("generated_client.types")
    models = importlib.import_module("generated_client.models")
    writer = package.AuthenticatedClient(base_url=running.url, token=running.write)
    push = operation("writing", "push_events")
    pushed = push(
        stream="visits", client=writer, body=types.File(io.BytesIO(ROWS)), idempotency_key="generated"
    )
    assert (pushed.status_code, pushed.parsed.rows) == (200, 3), pushed
    operator = package.AuthenticatedClient(base_url=running.url, token=running.operate)
    closed = operation("operating", "close_steps")(
        stream="visits", client=operator, body=models.Through(through=2)
    )
    assert (closed.status_code, closed.parsed.published) == (200, 2), closed
    reader = package.Client(base_url=running.public)
    read = operation("reading", "get_releases")(
        stream="visits", client=reader, from_="2026-01-01", to="2026-01-02", group=["a"]
    )
    assert read.status_code == 200
    values = [row["value"] for row in read.parsed.to_dict()["rows"]]
    # With such a budget the noise is below 1.
    assert values == pytest.approx([3, 3], abs=6)
    refused = operation("reading", "get_releases")(stream="visits", client=reader, from_="never")
    assert (refused.status_code, refused.parsed.status) == (400, 400)


def test_metrics_are_read_by_the_parser_of_prometheus(running: Running) -> None:
    fetched(f"{running.url}/v1/operator", running.operate)
    families = {family.name: family for family in text_string_to_metric_families(
        fetched(f"{running.url}/metrics", running.operate)
    )}  # fmt: skip
    assert {"evertally_problems", "evertally_lag_seconds", "process_resident_memory_bytes"} <= families.keys()
    assert families["evertally_request_duration_seconds"].type == "histogram"
    assert families["evertally_commit_duration_seconds"].type == "histogram"
    for family in families.values():
        assert family.documentation and family.samples, family.name
        if family.type == "histogram":
            buckets = [sample for sample in family.samples if sample.name.endswith("_bucket")]
            counts = {tuple(sorted(sample.labels.items())): sample.value for sample in family.samples
                      if sample.name.endswith("_count")}  # fmt: skip
            last = {tuple(sorted((k, v) for k, v in sample.labels.items() if k != "le")): sample.value
                    for sample in buckets if sample.labels["le"] == "+Inf"}  # fmt: skip
            assert counts == last and counts, family.name
    public = list(text_string_to_metric_families(fetched(f"{running.public}/metrics")))
    assert all(family.name.startswith("evertally_released_") for family in public)


#: Longer than the time that httpx waits for the next byte by default.
QUIET = 6.5


def test_a_quiet_watch_outlives_the_timeouts_of_clients(running: Running) -> None:
    url = f"{running.public}/v1/streams/visits/watch"
    since = time.monotonic()
    seen: list[str] = []
    with httpx.stream("GET", url) as answer:
        assert answer.headers["content-type"] == "text/event-stream"
        for line in answer.iter_lines():
            seen.append(line)
            if time.monotonic() - since > QUIET:
                break
    assert seen and set(seen) == {": keep-alive"}
    since = time.monotonic()
    with requests.get(url, stream=True, timeout=5) as response:
        for received in response.iter_lines():
            assert received == b": keep-alive"
            if time.monotonic() - since > QUIET:
                break
