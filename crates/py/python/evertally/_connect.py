"""A client of the service: sends events and reads releases."""

from __future__ import annotations

import datetime
import http.client
import importlib.util
import ipaddress
import json
import math
import os
import random
import re
import ssl
import sys
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode, urljoin, urlsplit

from ._errors import InvalidError, ServiceError
from ._evertally import ArrowTable, _from_ipc, _is_batch_id, _is_token, _media_type, _to_ipc
from ._tables import _like, _package
from ._types import ArrowStream

#: Maximum number of rows in one batch; a larger table is split.
ROWS = 50_000

#: Number of tries of a request, and the pauses between them in seconds: the first and the longest.
TRIES = 8
FIRST_PAUSE = 0.25
LONGEST_PAUSE = 20.0

#: The next page of an answer, in its header `Link` (RFC 8288).
NEXT_LINK = re.compile(r'<([^>]*)>; rel="next"')

#: Time limit for a response, in seconds.
PATIENCE = 60.0


@dataclass(frozen=True)
class Receipt:
    """The acknowledgement of a batch: the service has stored it durably.

    >>> import evertally as et
    >>> et.Receipt("2026-11-23.csv", rows=1200, repeated=False)
    Receipt(batch='2026-11-23.csv', rows=1200, repeated=False, duplicates=0)
    """

    #: The id of the batch; of the first one, if there are several.
    batch: str
    #: The number of rows of all batches together.
    rows: int
    #: Whether the service had already stored all of it.
    repeated: bool
    #: The number of rows that were not counted: the stream counts rows once by their ids, and had counted these.
    duplicates: int = 0


@dataclass(frozen=True)
class Publication:
    """A new publication; :meth:`ServiceStream.watch` yields them.

    >>> import evertally as et
    >>> et.Publication("visits", 1, "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z", "4f...", None).publication
    1
    """

    stream: str
    #: Its number, from 1.
    publication: int
    #: The beginning and the end of its step, as RFC 3339.
    time: str
    end: str
    #: The digest of all published rows, in hexadecimal.
    head: str
    #: Its rows; ``None`` if there are many: read them with :meth:`ServiceStream.releases`.
    rows: list[dict[str, Any]] | None


def connect(
    url: str, token: str | None = None, *, authority: str | os.PathLike[str] | None = None, tries: int = TRIES
) -> Service:
    """Connects to a service that ``evertally serve`` runs, at ``https://HOST:PORT``, or ``http://`` on this machine.

    ``token`` is the token that ``evertally token make`` printed, by default the environment variable
    ``EVERTALLY_TOKEN``; public streams can be read without one. ``authority`` is a file with the certificate of the
    authority that signed the service's certificate, if that is not a public authority. Nothing is sent yet. While the
    service is unreachable or busy, requests that are safe to repeat are tried up to ``tries`` times, with growing
    pauses.

    Raises `InvalidError` if the address is invalid, or would expose the token on the network.

    >>> import evertally as et
    >>> service = et.connect("http://127.0.0.1:8801", token="evt_...")
    >>> visits = service.stream("visits")
    >>> visits
    ServiceStream('visits' of http://127.0.0.1:8801)
    """
    return Service(url, token, authority=authority, tries=tries)


class Service:
    """A service; :func:`connect` returns it. Threads may share it.

    >>> import evertally as et
    >>> et.connect("https://counts.example")
    Service(https://counts.example)
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        authority: str | os.PathLike[str] | None = None,
        tries: int = TRIES,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/") or parts.query:
            raise InvalidError(f"`{url}` is not the address of a service; write https://HOST:PORT")
        token = token if token is not None else os.environ.get("EVERTALLY_TOKEN")
        if token is not None and not _is_token(token):
            raise InvalidError("invalid token; create one with `evertally token make`")
        if token and parts.scheme == "http" and not _is_this_machine(parts.hostname):
            raise InvalidError(
                f"{parts.hostname} is another machine, and http would expose the token on the network: use https"
            )
        self.url = url.rstrip("/")
        self._host, self._port = parts.hostname, parts.port
        self._token = token
        self._tls = None
        if parts.scheme == "https":
            self._tls = ssl.create_default_context(cafile=None if authority is None else os.fspath(authority))
        self._tries = max(1, tries)

    def __repr__(self) -> str:
        return f"Service({self.url})"

    def streams(self) -> list[dict[str, Any]]:
        """The service's descriptions of all streams that you may read."""
        found: list[dict[str, Any]] = self._json("GET", "/v1/streams")["streams"]
        return found

    def stream(self, name: str) -> ServiceStream:
        """One stream, by its name. Sends no request yet."""
        return ServiceStream(self, name)

    def plan(self, declaration: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        """A dry run of :meth:`open`: the plan and error of the stream, and the budget that its source would have left.

        Takes the arguments of :meth:`open`, and opens nothing.
        """
        planned: dict[str, Any] = self._json("POST", "/v1/streams?dry-run=true", _wanted(declaration, more))
        return planned

    def open(self, declaration: Mapping[str, Any], **more: Any) -> ServiceStream:
        """Opens a stream; ``declaration`` uses the names of configuration files, including ``stream``.

        Further arguments: ``public`` (whether anyone may read it), ``source`` (the budget that it spends from),
        ``closing`` (``"schedule"`` or ``"operator"``), ``id`` (the column of ids by which rows are counted once),
        ``grace`` and ``delay`` (such as ``"90s"``).
        """
        opened = self._json("POST", "/v1/streams", _wanted(declaration, more))
        return ServiceStream(self, opened["name"])

    def _json(self, method: str, path: str, body: object = None) -> Any:
        content = None if body is None else json.dumps(body).encode()
        return json.loads(self._ask(method, path, content, {"content-type": "application/json"}, again=method == "GET"))

    def _ask(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str], *, again: bool = True
    ) -> bytes:
        """The body of a response; see :meth:`_reply`."""
        return self._reply(method, path, body, headers, again=again)[0]

    def _reply(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str], *, again: bool = True
    ) -> tuple[bytes, str]:
        """The body of a response, and its header ``Link``; tries again while the service is unreachable or busy, if
        the request is safe to repeat."""
        tries, pause = self._tries if again else 1, FIRST_PAUSE
        while True:
            tries -= 1
            try:
                return self._once(method, path, body, headers)
            except (OSError, http.client.HTTPException) as error:
                problem = ServiceError(f"{self.url} cannot be reached: {error or type(error).__name__}")
                if tries <= 0 or isinstance(error, ssl.SSLCertVerificationError):
                    raise problem from error
                wait = pause
            except _Later as later:
                if tries <= 0:
                    raise later.problem from None
                wait = max(pause, later.seconds)
            time.sleep(min(wait, LONGEST_PAUSE) * random.uniform(0.8, 1.2))
            pause = min(2 * pause, LONGEST_PAUSE)

    def _connection(self, patience: float) -> http.client.HTTPConnection:
        if self._tls is None:
            return http.client.HTTPConnection(self._host, self._port, timeout=patience)
        return http.client.HTTPSConnection(self._host, self._port, timeout=patience, context=self._tls)

    def _headers(self, more: Mapping[str, str]) -> dict[str, str]:
        own = {"authorization": f"Bearer {self._token}"} if self._token else {}
        return {**own, **more}

    def _once(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> tuple[bytes, str]:
        connection = self._connection(PATIENCE)
        try:
            connection.request(method, path, body=body, headers=self._headers(headers))
            answer = connection.getresponse()
            content = answer.read()
            if answer.status in (200, 201):
                return content, answer.headers.get("link", "")
            problem = _problem(self.url, answer.status, content)
            if answer.status in (408, 429) or answer.status >= 500:
                after = answer.headers.get("retry-after", "0")
                raise _Later(problem, float(after) if after.isdigit() else 0.0)
            raise problem
        finally:
            connection.close()


class ServiceStream:
    """A stream of a service. Threads may share it.

    >>> import evertally as et
    >>> et.connect("https://counts.example").stream("visits")
    ServiceStream('visits' of https://counts.example)
    """

    def __init__(self, service: Service, name: str) -> None:
        self.service = service
        self.name = name
        self._path = f"/v1/streams/{quote(name, safe='')}"

    def __repr__(self) -> str:
        return f"ServiceStream({self.name!r} of {self.service.url})"

    def describe(self) -> dict[str, Any]:
        """The service's description: the counted quantity, the privacy unit, and how far the stream is."""
        description: dict[str, Any] = self.service._json("GET", self._path)
        return description

    def plan(self) -> str:
        """Its plan, as text."""
        return self.service._ask("GET", f"{self._path}/plan", None, {}).decode()

    def report(self) -> str:
        """Its privacy report, as Markdown."""
        return self.service._ask("GET", f"{self._path}/report", None, {}).decode()

    def push(self, events: ArrowStream | Sequence[Mapping[str, Any]], batch: str | None = None) -> Receipt:
        """Sends events: a table (pandas, polars, pyarrow, or anything with ``__arrow_c_stream__``), or a list of dicts.

        ``batch`` is an id of your choice. The service stores the same id with the same events once, however often you
        send it. Derive it from your data, such as the name of a file, so that an interrupted program can start again.
        Without it, the id is random and holds for this call and its retries. A table of more than 50,000 rows is sent
        in batches with the ids ``ID``, ``ID+1``, ``ID+2``, each of which is stored as a whole or not at all.

        Raises `ServiceError`, whose ``rows`` describe the problem of each bad row; nothing of its batch was stored
        then.
        """
        name = batch if batch is not None else f"push:{uuid.uuid4()}"
        if not _is_batch_id(name):
            raise InvalidError(f"{name!r} is not the id of a batch; use 1 to 200 visible ASCII characters")
        if isinstance(events, Sequence):
            starts = range(0, max(1, len(events)), ROWS)
            parts = [_lines(events[at : at + ROWS]) for at in starts]
            kind = _media_type("jsonl")
        else:
            parts, kind = _to_ipc(_plain(events), ROWS), _media_type("arrow")
        rows, duplicates, repeated = 0, 0, True
        for place, part in enumerate(parts):
            own = name if place == 0 else f"{name}+{place}"
            headers = {"content-type": kind, "idempotency-key": own}
            try:
                taken = json.loads(self.service._ask("POST", f"{self._path}/events", part, headers))
            except ServiceError as error:
                for row in error.rows:
                    if isinstance(number := row.get("row"), int):
                        row["row"] = number + place * ROWS
                raise
            rows += taken["rows"]
            duplicates += taken["duplicates"]
            repeated = repeated and taken["repeated"]
        return Receipt(name, rows, repeated, duplicates)

    def releases(
        self,
        from_: int | str | datetime.date | None = None,
        to: int | str | datetime.date | None = None,
        *,
        last: int | str | None = None,
        group: str | Sequence[str] | None = None,
        measure: str | Sequence[str] | None = None,
        every: int | None = None,
        table: str | None = None,
    ) -> Any:
        """Released rows, from one publication to another, as a DataFrame.

        ``from_`` and ``to`` are numbers of publications, or times: ``"2026-03-01"``, ``"2026-03-01T10:00"`` on the
        clock of the stream's zone, or a date or datetime. A time selects the publications whose steps end after
        ``from_`` and not after ``to``. ``last`` is a number of publications, or a duration such as ``"7d"``, that ends
        at ``to`` or with the latest publication. Without ``from_`` and ``last``, rows begin with the first publication.

        ``group`` is the name of a group, with ``/`` between the texts of several columns; ``every=7`` reads every
        seventh publication. ``table`` is ``"pandas"``, ``"polars"``, ``"pyarrow"`` or ``"arrow"`` (an `ArrowTable`);
        by default the first of them that is installed.
        """
        if from_ is None and last is None:
            from_ = 1
        asked = [("format", "arrow")]
        for name, value in (("from", from_), ("to", to), ("last", last)):
            if value is not None:
                asked.append((name, value.isoformat() if isinstance(value, datetime.date) else str(value)))
        asked += [("every", str(every))] if every is not None else []
        asked += [("group", name) for name in _listed(group)]
        asked += [("measure", name) for name in _listed(measure)]
        pages, target = [], f"{self._path}/releases?{urlencode(asked)}"
        while target:
            page, links = self.service._reply("GET", target, None, {})
            pages.append(page)
            following = NEXT_LINK.search(links)
            target = urljoin(target, following[1]) if following else ""
        return _as(_from_ipc(pages), table)

    def watch(self, after: int | None = None) -> Iterator[Publication]:
        """Yields publications as they appear, endlessly, starting after ``after``, or with the last one.

        Reconnects if the connection breaks, without missing or repeating a publication.
        """
        last, pause = after, FIRST_PAUSE
        while True:
            try:
                for publication in self._watched(last):
                    last, pause = publication.publication, FIRST_PAUSE
                    yield publication
            except (OSError, http.client.HTTPException):
                pass
            time.sleep(pause * random.uniform(0.8, 1.2))
            pause = min(2 * pause, LONGEST_PAUSE)

    def _watched(self, after: int | None) -> Iterator[Publication]:
        # A service that is silent for several keep-alives is gone.
        connection = self.service._connection(30.0)
        try:
            known = {} if after is None else {"last-event-id": str(after)}
            connection.request("GET", f"{self._path}/watch", headers=self.service._headers(known))
            answer = connection.getresponse()
            if answer.status in (408, 429) or answer.status >= 500:
                answer.read()
                return
            if answer.status != 200:
                raise _problem(self.service.url, answer.status, answer.read())
            kind, data = "", ""
            for line in answer:
                text = line.decode().rstrip("\r\n")
                if text.startswith("event: "):
                    kind = text[7:]
                elif text.startswith("data: "):
                    data += text[6:]
                elif not text:
                    if kind == "published":
                        yield Publication(**json.loads(data))
                    kind, data = "", ""
        finally:
            connection.close()

    def close(self, through: int) -> dict[str, Any]:
        """Closes and publishes the steps through `through`, for a stream whose operator closes steps. Returns how far
        the stream is."""
        content = json.dumps({"through": through}).encode()
        asked = self.service._ask("POST", f"{self._path}/close", content, {"content-type": "application/json"})
        described: dict[str, Any] = json.loads(asked)
        return described

    def declaration(self) -> dict[str, Any]:
        """Its declaration (``declaration``), its plan (``plan``), the ``digest`` of both, and who closes its steps
        (``closing``): for programs that write to it."""
        declared: dict[str, Any] = self.service._json("GET", f"{self._path}/declaration")
        return declared

    def put_sums(
        self,
        sums: ArrowStream | Sequence[Mapping[str, Any]],
        from_: int,
        through: int,
        *,
        evidence: str | None = None,
    ) -> bool:
        """Sends the sums that whole steps add to each group, for a stream with ``closing = "sums"``, which publishes
        them. Another engine has counted them, and **bounded** each person's contribution. Columns are those of the
        group, ``step`` and ``sum``; a group without a row adds nothing in that step. Returns whether the service had
        already stored all of the steps.

        A step is stored once. You may send the same sums again, with rows in any order. Different sums are refused
        (`ServiceError` with status 409), and so are steps that would leave a gap. A caller that bounds persons gives
        the ``evidence`` of a single step: a keyed digest of the persons whose events were counted. Sums can be equal
        while these persons differ, and then some person would be counted more often than declared; so different
        evidence is refused, too.
        """
        if isinstance(sums, Sequence):
            body, kind = _lines(sums), _media_type("jsonl")
        else:
            body, kind = _to_ipc(_plain(sums), sys.maxsize)[0], _media_type("arrow")
        asked = [("from", str(from_)), ("through", str(through))]
        asked += [("evidence", evidence)] if evidence is not None else []
        path = f"{self._path}/sums?{urlencode(asked)}"
        repeated: bool = json.loads(self.service._ask("PUT", path, body, {"content-type": kind}))["repeated"]
        return repeated

    def join(self, groups: Sequence[str | Sequence[str]]) -> dict[str, Any]:
        """Adds groups, from the stream's open step on."""
        described: dict[str, Any] = self.service._json("POST", f"{self._path}/groups", {"groups": list(groups)})
        return described

    def erase(self, person: str | float) -> dict[str, Any]:
        """Removes a person's events from open steps, as though they had never been sent. Closed steps do not change."""
        erased: dict[str, Any] = self.service._json("POST", f"{self._path}/erase", {"person": person})
        return erased

    def extend(self) -> ServiceStream:
        """Continues in another stream, once all of this one's horizon is over and published."""
        opened = self.service._json("POST", f"{self._path}/extend")
        return ServiceStream(self.service, opened["name"])

    def retire(self) -> dict[str, Any]:
        """Ends the stream permanently; its spent budget stays spent."""
        described: dict[str, Any] = self.service._json("POST", f"{self._path}/retire")
        return described


class _Later(Exception):
    """A response after which the request may be tried again."""

    def __init__(self, problem: ServiceError, seconds: float) -> None:
        self.problem = problem
        self.seconds = seconds


def _problem(url: str, status: int, content: bytes) -> ServiceError:
    try:
        document = json.loads(content)
        message = str(document.get("detail") or document["title"])
        kind = str(document["type"]).rpartition(":")[2]
        return ServiceError(message, status, kind, document.get("errors"))
    except (ValueError, KeyError, TypeError, AttributeError):
        return ServiceError(f"{url} answered with status {status}, but not in the format of evertally", status)


def _wanted(declaration: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    known = ("public", "source", "closing", "id", "grace", "delay")
    for name in more:
        if name not in known:
            raise TypeError(f"there is no argument `{name}`; the arguments are {', '.join(known)}")
    return {"declaration": dict(declaration), **more}


def _is_this_machine(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _listed(names: str | Sequence[str] | None) -> Sequence[str]:
    if names is None:
        return []
    return [names] if isinstance(names, str) else names


def _plain(events: Any) -> Any:
    """A table without package-specific parts, such as an index; refuses lazy tables."""
    package, kind = _package(events), type(events).__name__
    if package == "pandas" and kind == "DataFrame":
        named = [name for name in events.index.names if name is not None and name not in events.columns]
        return events.reset_index(named).reset_index(drop=True) if named else events.reset_index(drop=True)
    if package == "polars" and kind == "LazyFrame":
        raise TypeError("a polars LazyFrame has no rows yet; push(frame.collect())")
    if not hasattr(events, "__arrow_c_stream__") or kind == "Series":
        raise TypeError(
            f"expected a table with __arrow_c_stream__ (pandas, polars, pyarrow) or a list of dicts, not "
            f"{type(events).__name__}"
        )
    return events


def _lines(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Rows as lines of JSON."""
    return "".join(f"{_line(row)}\n" for row in rows).encode()


def _line(row: Mapping[str, Any]) -> str:
    try:
        return json.dumps(dict(row), default=_text, ensure_ascii=False, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(dict(row)), default=_text, ensure_ascii=False, allow_nan=False)


def _finite(value: Any) -> Any:
    """A value without numbers that JSON does not have: missing ones are null, and infinity is a text."""
    if isinstance(value, Mapping):
        return {name: _finite(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(one) for one in value]
    if isinstance(value, float):
        if math.isnan(value):
            return None
        return str(value) if math.isinf(value) else value
    if value is None or isinstance(value, (str, int)):
        return value
    return _finite(_text(value))


def _text(value: Any) -> Any:
    """Times and numbers of other packages, as JSON values; the missing values of pandas are null."""
    if type(value).__name__ in ("NaTType", "NAType"):
        return None
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if hasattr(value, "item"):
        return value.item()
    return str(value)


def _as(table: ArrowTable, kind: str | None) -> Any:
    kinds = ("pandas", "polars", "pyarrow", "arrow")
    if kind is None:
        there = {name: importlib.util.find_spec(name) is not None for name in kinds[:3]}
        there["pandas"] = there["pandas"] and there["pyarrow"]
        kind = next((name for name in kinds[:3] if there[name]), "arrow")
    if kind == "pandas":
        import pandas

        return _like(pandas.DataFrame(), table)
    if kind == "polars":
        import polars

        return _like(polars.DataFrame(), table)
    if kind == "pyarrow":
        import pyarrow

        return pyarrow.table(table)
    if kind == "arrow":
        return table
    raise InvalidError(f"`{kind}` is not a kind of table; choose {', '.join(kinds)}")
