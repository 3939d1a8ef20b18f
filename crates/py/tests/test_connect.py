"""The client of a service, against `evertally serve` as a separate program."""

import datetime
import http.client
import http.server
import json
import socket
import threading
from typing import Any, cast
from unittest import mock
from urllib.parse import urlencode

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import evertally as et
from conftest import Running
from evertally import _connect

EVENTS = pd.DataFrame(
    {
        "time": pd.to_datetime(["2026-01-01 00:10", "2026-01-01 00:20", "2026-01-01 01:10"], utc=True),
        "gate": ["a", "b", "a"],
    }
)


def values(table: Any) -> list[tuple[int, str, float]]:
    rows = table.to_dict("records") if isinstance(table, pd.DataFrame) else table.to_dicts()
    return [(row["step"], row["gate"], float(row["value"])) for row in rows]


def test_tables_go_in_and_come_out(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    visits = et.connect(running.url, running.operate).stream("visits")
    writing = et.connect(running.url, running.write).stream("visits")
    assert writing.push(EVENTS, "first") == et.Receipt("first", 3, False)
    assert writing.push(EVENTS, "first") == et.Receipt("first", 3, True)
    # Rows are the same whatever the format of the table.
    assert writing.push(pd.concat([EVENTS[:1], EVENTS[1:]]), "first").repeated
    with pytest.raises(et.ServiceError, match="other rows") as refused:
        writing.push(EVENTS[:2], "first")
    assert (refused.value.status, refused.value.kind) == (409, "batch-differs")
    assert writing.push(pl.DataFrame({"time": ["2026-01-01T01:20:00Z"] * 40, "gate": ["b"] * 40})).rows == 40
    assert writing.push(pa.table({"time": ["2026-01-01T01:20:00Z"], "gate": ["b"]})).rows == 1
    assert writing.push([{"time": EVENTS.time[0], "gate": "a"}]).rows == 1
    assert writing.push([]).rows == 0
    assert visits.close(2)["published"] == 2
    assert visits.close(2)["published"] == 2
    found = visits.releases(table="pandas")
    assert [(step, gate) for step, gate, _ in values(found)] == [(1, "a"), (1, "b"), (2, "a"), (2, "b")]
    # With such a budget the noise is below 1.
    assert [value for *_, value in values(found)] == pytest.approx([2, 1, 3, 42], abs=6)
    assert values(visits.releases(table="polars")) == values(found)
    assert visits.releases(table="pyarrow").num_rows == len(visits.releases(table="arrow")) == 4
    assert values(visits.releases(2, 2, group="b")) == values(found)[3:]
    assert len(visits.releases(9, 10)) == 0
    assert values(visits.releases("2026-01-01T01:00", "2026-01-01T02:00")) == values(found)[2:4]
    assert values(visits.releases(datetime.date(2026, 1, 1), datetime.datetime(2026, 1, 1, 1))) == values(found)[:2]
    assert values(visits.releases(last=1)) == values(visits.releases(last="1h")) == values(found)[2:4]
    assert values(visits.releases(last=1, to=1)) == values(found)[:2]
    with pytest.raises(et.ServiceError, match="omit `from` or `last`"):
        visits.releases(1, last=1)
    # Pages of a large answer are one table.
    with monkeypatch.context() as paged:
        paged.setattr(_connect, "urlencode", lambda asked: urlencode([*asked, ("limit", "1")]))
        assert values(visits.releases(table="polars")) == values(found)
        assert len(visits.releases(9, 10)) == 0
    described = et.connect(running.public).stream("visits").describe()
    assert (described["published"], described["state"]) == (2, "open")
    assert "mechanism" in visits.plan().lower()
    assert visits.report().startswith("#")
    assert {stream["name"] for stream in et.connect(running.public).streams()} == {"visits"}


def test_missing_values_are_null(running: Running) -> None:
    operator = et.connect(running.url, running.operate)
    declared = {"stream": "counted", "start": "2026-01-01", "every": "1d", "steps": 9, "group-by": ["gate"], "rho": 10}
    operator.open(
        {**declared, "groups": ["a"], "value": "size", "bounds": [0, 9], "missing": "skip"}, closing="operator"
    )
    counted = et.connect(running.url, running.count).stream("counted")
    nan, infinite = float("nan"), float("inf")
    # Also in columns that the stream does not declare, and inside of them.
    row: dict[str, Any] = {"time": "2026-01-01", "gate": "a", "size": 1}
    for more in (
        {"note": nan},
        {"note": [1, {"x": (nan, -infinite)}], "at": pd.Timestamp("2026-01-01"), "n": np.int64(1)},
        {"note": np.float32("nan"), "at": pd.NaT},
        {"note": pd.NA, "size": nan},
    ):
        assert counted.push([{**row, **more}]) == et.Receipt(mock.ANY, 1, False)
    # An infinite value is not a missing one.
    with pytest.raises(et.ServiceError) as refused:
        counted.push([{**row, "size": infinite}])
    assert refused.value.rows[0]["field"] == "size"
    frame = pd.DataFrame([row, {**row, "size": nan, "note": 1.5}])
    assert counted.push(frame).rows == counted.push(cast("list[dict[str, Any]]", frame.to_dict("records"))).rows == 2


def test_rows_with_ids_are_counted_once(running: Running) -> None:
    declared = et.Stream(
        name="counted", steps=et.Steps(start="2026-01-01", every="1d", count=9), budget=et.Budget.zcdp(10)
    )
    declared.open(et.connect(running.url, running.operate), closing="operator", id="event")
    counted = et.connect(running.url, running.count).stream("counted")
    assert counted.declaration()["id"] == "event"
    rows = [{"time": "2026-01-01", "event": "a"}, {"time": "2026-01-01", "event": "b"}]
    assert counted.push(rows, "1") == et.Receipt("1", 2, False)
    assert counted.push(pd.DataFrame(rows[1:] * 2), "2") == et.Receipt("2", 2, False, duplicates=2)


def test_sums_of_whole_steps_are_taken_once(running: Running) -> None:
    declared = {"start": "2026-01-01", "every": "1d", "steps": 9, "group-by": ["gate"], "groups": ["a", "b"], "rho": 10}
    declared |= {"value": "size", "bounds": ["0", "9"], "grid": "0.5", "person": "who", "max-events": 1}
    operator = et.connect(running.url, running.operate)
    operator.open({"stream": "counted", **declared}, closing="sums", public=True)
    counted = et.connect(running.url, running.count).stream("counted")
    assert (counted.declaration()["closing"], counted.declaration()["declaration"]["steps"]) == ("sums", 9)
    first = pa.table({"gate": ["a", "b", "a"], "step": [1, 1, 2], "sum": ["2.5", "40", "0"]})
    assert not counted.put_sums(first, 1, 2)
    # In another order, in parts, without rows that add nothing, in another format: the same.
    again: list[dict[str, Any]] = [
        {"step": 1, "gate": "b", "sum": 40},
        {"step": 1, "gate": "a", "sum": 2},
        {"step": "1", "gate": "a", "sum": "0.5"},
    ]
    assert counted.put_sums(again, 1, 2) and counted.put_sums(first[:0], 2, 2)
    cases: list[tuple[Any, tuple[int, int], str | None]] = [
        (first[:2], (1, 2), None),
        (first[:1], (1, 1), "step 1 of stream `counted` was accepted with other sums"),
        (again[:0], (1, 3), "step 1 of"),
        (again[:0], (4, 4), "step 3 would be missing"),
        (again, (3, 3), "is not a step from 3 through 3"),
        ([{"step": 3, "gate": "z", "sum": 1}], (3, 3), "`z`"),
        ([{"step": 3, "gate": "a", "sum": 0.25}], (3, 3), "between two multiples of the grid (0.5)"),
        ([{"step": 3, "gate": "a", "sum": "7.4999"}], (3, 3), "between two multiples"),
        ([{"step": 3, "gate": "a"}], (3, 3), "no column `sum`"),
        ([], (9, 10), "they are numbered 1 to 9"),
    ]
    for others, steps, why in cases:
        if why is None:
            assert counted.put_sums(others, *steps)
            continue
        with pytest.raises(et.ServiceError) as refused:
            counted.put_sums(others, *steps)
        rows = " ".join(str(row.get("problem")) for row in refused.value.rows)
        assert why in f"{refused.value} {rows}", (refused.value, rows)
    # Refused requests change nothing: neither a sum out of range, nor the steps of a stream.
    for sum in (2**62, "4611686018427387904", -(2**62)):
        with pytest.raises(et.ServiceError) as refused:
            counted.put_sums([{"step": 3, "gate": "a", "sum": sum}, {"step": 4, "gate": "a", "sum": sum}], 3, 4)
        assert refused.value.status == 422, refused.value
    assert counted.describe()["published"] == 2
    # It counts no events itself, and its steps are closed in no other way.
    with pytest.raises(et.ServiceError, match="accepts no events"):
        counted.push([{"time": "2026-01-03T00:00:00Z", "gate": "a", "size": 1, "who": 1}])
    with pytest.raises(et.ServiceError, match="sending the sums of a step closes it"):
        operator.stream("counted").close(3)
    with pytest.raises(et.ServiceError, match="accepts no sums"):
        et.connect(running.url, running.write).stream("visits").put_sums([], 1, 1)
    with pytest.raises(et.ServiceError, match="does not allow"):
        et.connect(running.url, running.write).stream("counted").put_sums([], 3, 3)
    with pytest.raises(et.ServiceError, match="open one stream for each"):
        operator.open({"stream": "several", **declared, "measure": ["count", "mean"]}, closing="sums")
    # The values equal those of events with these sums, released with the key of the service.
    gates, sizes = ["a", *["b"] * 5], [2.5, *[8.0] * 5]
    events = pd.DataFrame({"time": ["2026-01-01"] * 6, "gate": gates, "size": sizes, "who": range(6)})
    options: dict[str, Any] = {"start": "2026-01-01", "every": "1d", "steps": 9, "through": "2026-01-03"}
    options |= {"group": "gate", "groups": ["a", "b"]}
    options |= {"value": "size", "bounds": (0, 9), "grid": "0.5", "person": "who", "max_events": 1, "rho": 10.0}
    alone = et.release(events, key=running.key(), name="counted", **options)
    assert values(counted.releases(table="pandas")) == values(alone)
    running.restart()
    counted = et.connect(running.url, running.count).stream("counted")
    third = [{"step": 3, "gate": "a", "sum": 1}]
    assert counted.put_sums(first, 1, 2) and not counted.put_sums(third, 3, 3, evidence="p")
    assert counted.put_sums(third, 3, 3, evidence="p")
    for more in ({}, {"evidence": "q"}):
        with pytest.raises(et.ServiceError, match="or sums of other events"):
            counted.put_sums([{"step": 3, "gate": "a", "sum": 1}], 3, 3, **more)
    with pytest.raises(et.ServiceError, match="evidence is for a single step"):
        counted.put_sums([], 4, 5, evidence="p")
    assert not counted.put_sums([], 4, 9)
    assert counted.put_sums([], 4, 9) and counted.describe()["state"] == "ended"
    with pytest.raises(et.ServiceError, match="accepted with other sums"):
        counted.put_sums([{"step": 9, "gate": "a", "sum": 1}], 9, 9)


def test_streams_are_planned_opened_and_ended(running: Running) -> None:
    service = et.connect(running.url, running.operate)
    declared = {"stream": "new", "start": "2026-01-01", "every": "1d", "steps": 100, "epsilon": 1,
                "group-by": ["gate"], "groups": ["a"]}  # fmt: skip
    planned = service.plan(declared, closing="operator")
    assert planned["opened"] is False and planned["max_std_error"] > 1
    assert "new" not in {stream["name"] for stream in service.streams()}
    new = service.open(declared, closing="operator", public=True)
    assert new.join(["b", "c"])["group_count"] == 3
    assert new.close(1)["published"] == 1
    assert len(new.releases()) == 3
    assert new.retire()["state"] == "retired"
    with pytest.raises(et.ServiceError, match="does not allow"):  # operators do not write
        new.push([{"time": "2026-01-01", "gate": "a"}])
    with pytest.raises(TypeError, match="no argument `clsing`"):
        service.open(declared, clsing="operator")
    with pytest.raises(et.ServiceError) as refused:
        service.open({**declared, "stream": "other", "epsilon": -1})
    assert refused.value.status == 422 and "epsilon" in str(refused.value)


def test_what_is_wrong_is_said(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    writing = et.connect(running.url, running.write).stream("visits")
    bad = pd.DataFrame({"time": ["2026-01-01T00:10:00Z", "never", "2026-01-01T00:10:00Z"], "gate": ["a", "a", "z"]})
    with pytest.raises(et.ServiceError) as refused:
        writing.push(bad)
    assert [(row["row"], row["field"]) for row in refused.value.rows] == [(2, "time"), (3, "gate")]
    # In a table of many batches rows keep their numbers.
    monkeypatch.setattr(_connect, "ROWS", 2)
    with pytest.raises(et.ServiceError) as refused:
        writing.push(bad[["time", "gate"]].iloc[[0, 0, 2, 1]], "many")
    assert [row["row"] for row in refused.value.rows] == [3, 4]
    assert writing.push(EVENTS, "parts") == et.Receipt("parts", 3, False)
    assert writing.push(EVENTS, "parts") == et.Receipt("parts", 3, True)
    with pytest.raises(et.ServiceError, match="does not allow") as refused:
        writing.close(1)
    assert refused.value.status == 403
    with pytest.raises(et.ServiceError, match="token") as refused:
        et.connect(running.url, "evt_00000000_wrong").streams()
    assert refused.value.status == 401
    with pytest.raises(et.ServiceError, match="no stream"):
        et.connect(running.public).stream("../etc").describe()
    for name in ("", "two words", "ü", "line\n", "x" * 201):
        with pytest.raises(ValueError, match="visible ASCII"):
            writing.push(EVENTS, name)
    for token in ("", "two words", "ü"):
        with pytest.raises(ValueError, match="invalid token"):
            et.connect(running.url, token)
    with pytest.raises(TypeError, match="list of dicts"):
        writing.push(EVENTS.time)
    with pytest.raises(TypeError, match="collect"):
        writing.push(pl.DataFrame(EVENTS).lazy())  # type: ignore[arg-type]
    with pytest.raises(et.InvalidError, match="kind of table"):
        et.connect(running.public).stream("visits").releases(table="excel")


def test_a_token_does_not_travel_for_all_to_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EVERTALLY_TOKEN", raising=False)
    with pytest.raises(et.InvalidError, match="use https"):
        et.connect("http://counts.example", "evt_x")
    et.connect("http://counts.example")
    et.connect("http://[::1]:80", "evt_x")
    monkeypatch.setenv("EVERTALLY_TOKEN", "evt_x")
    with pytest.raises(et.InvalidError, match="use https"):
        et.connect("http://counts.example")
    for url in ("counts.example", "https://counts.example/v1", "ftp://counts.example"):
        with pytest.raises(et.InvalidError, match="not the address of a service"):
            et.connect(url)
    with pytest.raises(et.InvalidError, match="token make"):
        et.connect("https://counts.example", "two words")
    assert "evt_" not in repr(et.connect("http://localhost:1", "evt_secret"))


class Unsure(http.server.BaseHTTPRequestHandler):
    """A proxy of a service that loses responses, or reports that it is busy."""

    upstream = ""
    left = 0

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        connection = http.client.HTTPConnection(self.upstream)
        connection.request("POST", self.path, body, {k: v for k, v in self.headers.items() if k != "Host"})
        answer = connection.getresponse()
        content = answer.read()
        type(self).left -= 1
        if self.left % 2 == 1:
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        status = 503 if self.left > 0 else answer.status
        self.send_response(status)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


def test_what_is_sent_again_is_counted_once(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_connect, "FIRST_PAUSE", 0.01)
    Unsure.upstream, Unsure.left = running.url.removeprefix("http://"), 4
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Unsure) as between:
        threading.Thread(target=between.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{between.server_address[1]}"
        receipt = et.connect(url, running.write).stream("visits").push(EVENTS)
        assert (receipt.rows, receipt.repeated) == (3, True)
        Unsure.left = 100
        with pytest.raises(et.ServiceError):
            et.connect(url, running.write, tries=2).stream("visits").push(EVENTS)
        between.shutdown()
    visits = et.connect(running.url, running.operate).stream("visits")
    visits.close(2)
    # The second push has another id, and was stored although its response was lost.
    assert values(visits.releases(2, 2, group="a"))[0][2] == pytest.approx(4, abs=6)
    assert values(visits.releases(2, 2, group="b"))[0][2] == pytest.approx(2, abs=6)
    with pytest.raises(et.ServiceError, match="cannot be reached"):
        et.connect(url, running.write, tries=2).streams()


def test_publications_are_watched(running: Running) -> None:
    visits = et.connect(running.url, running.operate).stream("visits")
    visits.close(1)
    watching = visits.watch()
    first = next(watching)
    assert (first.stream, first.publication, first.time) == ("visits", 1, "2026-01-01T00:00:00+00:00")
    assert first.rows is not None and [row["gate"] for row in first.rows] == ["a", "b"]
    visits.close(3)
    assert [next(watching).publication for _ in range(2)] == [2, 3]
    after = visits.watch(after=1)
    assert [next(after).publication for _ in range(2)] == [2, 3]
    assert json.dumps(first.rows)
