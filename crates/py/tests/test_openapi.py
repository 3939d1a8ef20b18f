"""The responses of a service match its OpenAPI document: all operations, and no undocumented data."""

import copy
import http.client
import json
from typing import Any

import jsonschema

from conftest import Running

ROWS = b'{"time":"2026-01-01T00:10:00Z","gate":"a"}\n'
DECLARED = {"stream": "new", "start": "2026-01-01", "every": "1d", "steps": 5, "epsilon": 1}
WANTED = {"declaration": DECLARED, "closing": "operator"}


def strict(schema: Any) -> Any:
    """The same schema, but objects with known names may have no others."""
    if isinstance(schema, list):
        return [strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: strict(part) for name, part in schema.items()}
    if "properties" in made and "additionalProperties" not in made:
        made["additionalProperties"] = False
    return made


class Held:
    """Sends requests, and checks the responses against the document."""

    def __init__(self, running: Running) -> None:
        self.running = running
        self.tokens = {"operate": running.operate, "write": running.write, "count": running.count, "nobody": ""}
        self.document = json.loads(self.raw("GET", "/openapi.json", "nobody", None, {})[2])
        self.schemas = strict(copy.deepcopy(self.document["components"]))
        self.seen: set[tuple[str, str]] = set()

    def raw(
        self, method: str, path: str, who: str, body: bytes | None, headers: dict[str, str]
    ) -> tuple[int, str, bytes]:
        connection = http.client.HTTPConnection(self.running.url.removeprefix("http://"), timeout=20)
        sent = dict(headers)
        if token := self.tokens[who]:
            sent["authorization"] = f"Bearer {token}"
        connection.request(method, path, body, sent)
        answer = connection.getresponse()
        kind = (answer.headers.get("content-type") or "").partition(";")[0]
        content = b"" if kind == "text/event-stream" else answer.read()
        connection.close()
        return answer.status, kind, content

    def ask(
        self, method: str, template: str, expected: int, *, query: str = "", body: Any = None, who: str = "operate",
        headers: dict[str, str] | None = None, **names: str,
    ) -> Any:  # fmt: skip
        operation = self.document["paths"][template][method.lower()]
        path = template.format(**{"stream": "visits", **names})
        more = headers or {}
        if body is not None and not isinstance(body, bytes):
            body, more = json.dumps(body).encode(), {"content-type": "application/json", **more}
        status, kind, content = self.raw(method, path + query, who, body, more)
        where = f"{method} {path}{query} of {who}: {status} {content[:300]!r}"
        assert status == expected, where
        message = operation["responses"].get(str(status)) or operation["responses"]["default"]
        if status < 300:
            self.seen.add((method.lower(), template))
        kinds = message.get("content", {})
        if not kinds:
            assert not content, where
            return None
        assert kind in kinds, where
        if kind not in ("application/json", "application/problem+json"):
            return content
        answer = json.loads(content)
        schema = {**strict(kinds[kind]["schema"]), "components": self.schemas}
        jsonschema.Draft202012Validator(schema).validate(answer)
        return answer


def test_every_answer_is_as_documented(running: Running) -> None:
    held = Held(running)
    csv = {"content-type": "text/csv", "idempotency-key": "a"}
    lines = {"content-type": "application/x-ndjson", "idempotency-key": "b"}
    for path in ("/healthz", "/livez", "/readyz"):
        held.ask("GET", path, 200, who="nobody")
    counted = {"declaration": {**DECLARED, "stream": "counted"}, "closing": "sums"}
    held.ask("POST", "/v1/streams", 201, body=counted)
    sums = {"content-type": "application/x-ndjson"}
    held.ask("GET", "/v1/streams/{stream}/declaration", 200, stream="counted", who="count")
    for status, query, body in [
        (200, "?from=1&through=2", b'{"step":1,"sum":3}\n'),
        (409, "?from=1&through=2", b'{"step":1,"sum":4}\n'),
        (422, "?from=3&through=3", b'{"step":3,"sum":-4}\n'),
        (400, "?from=3", b""),
    ]:
        path = "/v1/streams/{stream}/sums"
        held.ask("PUT", path, status, query=query, body=body, headers=sums, stream="counted", who="count")
    held.ask("POST", "/v1/streams/{stream}/events", 200, body=ROWS, headers=lines, who="write")
    held.ask("POST", "/v1/streams/{stream}/events", 409, body=ROWS * 2, headers=lines, who="write")
    held.ask("POST", "/v1/streams/{stream}/events", 422, body=b"time,gate\nnever,z\n", headers=csv, who="write")
    held.ask("POST", "/v1/streams/{stream}/events", 415, body=b"", headers={**csv, "content-type": "x/y"}, who="write")
    held.ask("POST", "/v1/streams/{stream}/events", 400, body=b"", headers={"content-type": "text/csv"}, who="write")
    held.ask("GET", "/v1/streams/{stream}/positions", 200, query="?source=x", who="write")
    held.ask("GET", "/v1/streams/{stream}/positions", 400, who="write")
    held.ask("GET", "/v1/streams/{stream}/positions", 403, query="?source=x")
    held.ask("POST", "/v1/streams/{stream}/events", 403, body=ROWS, headers=lines)
    held.ask("POST", "/v1/streams/{stream}/events", 401, body=ROWS, headers=lines, who="nobody")
    held.ask("POST", "/v1/streams/{stream}/close", 200, body={"through": 2})
    held.ask("POST", "/v1/streams/{stream}/close", 422, body={"through": 2000})
    held.ask("POST", "/v1/streams/{stream}/close", 400, body={"throgh": 2})
    held.ask("POST", "/v1/streams/{stream}/close", 404, body={"through": 2}, stream="nothing")
    held.ask("POST", "/v1/streams/{stream}/groups", 200, body={"groups": ["c", ["d"]]})
    held.ask("POST", "/v1/streams/{stream}/groups", 422, body={"groups": ["c"]})
    held.ask("POST", "/v1/streams/{stream}/otlp/v1/logs", 200, body={"resourceLogs": []}, who="write")
    held.ask("POST", "/v1/streams/{stream}/loki/api/v1/push", 204, body={"streams": []}, who="write")
    held.ask("GET", "/v1/streams", 200)
    held.ask("GET", "/v1/streams", 200, who="nobody")
    for name in ("visits", "hidden"):
        held.ask("GET", "/v1/streams/{stream}", 200, stream=name)
        held.ask("GET", "/v1/streams/{stream}/plan", 200, stream=name)
        held.ask("GET", "/v1/streams/{stream}/report", 200, stream=name)
    held.ask("GET", "/v1/streams/{stream}", 404, stream="hidden", who="nobody")
    for query in (
        "",
        "?from=1&to=2",
        "?format=csv",
        "?format=jsonl",
        "?format=arrow",
        "?format=parquet",
        "?group=a&every=2",
        "?from=2026-01-01&to=2026-01-02&limit=1",
        "?last=7d",
    ):
        held.ask("GET", "/v1/streams/{stream}/releases", 200, query=query, who="nobody")
    held.ask("GET", "/v1/streams/{stream}/releases", 400, query="?from=0")
    held.ask("GET", "/v1/streams/{stream}/releases/latest", 200, who="nobody")
    held.ask("GET", "/v1/streams/{stream}/releases/latest", 400, query="?last=2")
    held.ask("GET", "/v1/streams/{stream}/releases", 404, query="?group=z")
    held.ask("GET", "/v1/streams/{stream}/picture.svg", 200)
    held.ask("GET", "/v1/streams/{stream}/picture.png", 200)
    held.ask("GET", "/v1/streams/{stream}/watch", 200)
    held.ask("GET", "/v1/streams/{stream}/copy", 200, query="?after=1&names=2", who="nobody")
    held.ask("GET", "/v1/streams/{stream}/copy", 400, query="?after=x")
    held.ask("GET", "/v1/sources", 200)
    held.ask("GET", "/metrics", 200)
    held.ask("GET", "/v1/operator", 200)
    held.ask("GET", "/v1/streams/{stream}/late", 200)
    held.ask("GET", "/v1/streams/{stream}/late", 400, query="?behind=x")
    held.ask("GET", "/v1/operator", 401, who="nobody")
    held.ask("POST", "/v1/backup", 201)
    planned = held.ask("POST", "/v1/streams", 200, query="?dry-run=true", body=WANTED)
    assert planned["picture"].startswith("<svg")
    held.ask("POST", "/v1/streams", 201, body=WANTED)
    held.ask("POST", "/v1/streams", 422, body={"declaration": {**DECLARED, "stream": "bad", "epsilon": -1}})
    held.ask("POST", "/v1/streams", 400, body={"declared": {}})
    held.ask("POST", "/v1/streams/{stream}/retire", 200, stream="new")
    short = {"stream": "short", "start": "2026-01-01", "every": "1d", "steps": 1, "epsilon": 1}
    held.ask("POST", "/v1/streams", 201, body={"declaration": short, "closing": "operator"})
    held.ask("POST", "/v1/streams/{stream}/extend", 422, stream="short")
    held.ask("POST", "/v1/streams/{stream}/close", 200, body={"through": 1}, stream="short")
    assert held.ask("POST", "/v1/streams/{stream}/extend", 201, stream="short")["name"] == "short #2"
    persons = {**DECLARED, "stream": "persons", "person": "person", "max-events": 2}
    held.ask("POST", "/v1/streams", 201, body={"declaration": persons, "closing": "operator"})
    held.ask("POST", "/v1/streams/{stream}/erase", 200, body={"person": "ann"}, stream="persons")
    held.ask("POST", "/v1/streams/{stream}/erase", 200, body={"person": 17}, stream="persons")
    held.ask("POST", "/v1/streams/{stream}/erase", 400, body={"person": None}, stream="persons")
    held.ask("POST", "/v1/streams/{stream}/erase", 422, body={"person": "ann"})
    made = held.ask("POST", "/v1/tokens", 201, body={"role": "read:*", "label": "somebody"})
    held.ask("GET", "/v1/tokens", 200)
    held.ask("DELETE", "/v1/tokens/{id}", 204, id=made["id"])
    held.ask("DELETE", "/v1/tokens/{id}", 422, id="ffffffff")
    held.ask("GET", "/v1/audit", 200, query="?last=3")
    held.ask("GET", "/v1/audit", 400, query="?first=3")
    held.ask("GET", "/v1/webhooks", 200)
    dead = {"webhook": "https://example.org", "stream": "visits", "action": "resend"}
    held.ask("POST", "/v1/webhooks/dead-letters", 422, body=dead)  # there are none
    every = {(method, path) for path, methods in held.document["paths"].items() for method in methods}
    assert every == held.seen | {("post", "/v1/webhooks/dead-letters")}
