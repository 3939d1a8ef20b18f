"""A stream that is released window by window."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow
import pyarrow.compute
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.streaming.query import StreamingQuery

from .. import _tables
from .._connect import connect
from .._errors import InvalidError, TableError
from .._evertally import SecretKey, _ClusterPublisher, _ClusterWork
from . import _tasks, _windows
from ._batch import KINDS, _arguments, _narrowed, _way_of_key
from ._sinks import folder_of_steps

#: Where the state of shards has to be: the only store that has timers and lists.
STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

#: More shards are no use to anybody.
MOST_SHARDS = 1 << 16
TRIGGER = {"processingTime": "10 seconds"}

#: Rows that are sent to a service at once.
ROWS_AT_ONCE = 200_000

Sink = Callable[[int, pyarrow.Table], None]

#: The key of the query, its work, and what is done with closed steps.
Target = tuple[SecretKey, _ClusterWork, Callable[["Closed"], None]]


def stream(
    df: DataFrame,
    *,
    checkpoint: str | os.PathLike[str],
    sink: str | os.PathLike[str] | Sink,
    ledger: Any = None,
    delay: str = "10 minutes",
    closing: Literal["watermark", "clock"] = "watermark",
    shards: int = 64,
    trigger: dict[str, Any] | None = None,
    worker_key: str | os.PathLike[str] | None = None,
    token: str | None = None,
    authority: str | os.PathLike[str] | None = None,
    **keywords: Any,
) -> StreamingQuery:
    """Releases a streaming DataFrame of events step by step, with the keywords of :func:`evertally.release`: a step is
    released once, when its end is behind the watermark, and never before.

    Events wait in `shards` shards of persons in Spark's state store, **exact**: guard the `checkpoint` as the events.
    What a closed step has added is recorded in the `ledger` once and for ever, then released; a batch that is tried
    again, and a query that begins again from the first event, repeat the same bytes, and anything else is refused.

    ``ledger``: A folder that all drivers share, or a store of objects: whatever has ``create(name, data)`` (gives a name
        its bytes unless it has some, and returns those), ``read(name)``, ``replace(name, data)`` and ``forget(name)``. It
        holds exact sums: guard it as the events.
    ``checkpoint``: The checkpoint of the query.
    ``sink``: Where releases go: a folder, which gets a Parquet file for every step; a function of the step and its table,
        which may be called with the same again; or ``https://HOST:PORT`` of a service, which draws the noise with its own
        key, keeps the ledger and publishes. Then give the `name` that its stream has there (with ``closing = "sums"``),
        `token` and `authority` as for :func:`evertally.connect`, a `key` that tells persons apart, and of the others `df`,
        `checkpoint`, `delay`, `closing`, `shards`, `trigger` and `worker_key`: how it is released, the service knows.
    ``delay``: How far the watermark stays behind the latest event, or the clock where an event is of the future. An event
        that comes behind it, when its step has ended, is left out.
    ``closing``: Whether the watermark ends steps, which follows events, or the clock, `delay` after their end, which does not:
        then nobody's events decide whose are left out. By the clock a stream cannot be released again from its first event.
    ``shards``: How many shards there are. It changes no value, but stays for a checkpoint.
    ``trigger``: As of ``DataStreamWriter.trigger``, such as ``{"processingTime": "1 minute"}`` or ``{"availableNow": True}``.
    ``worker_key``: As of :func:`release`.

    Needs ``spark.sql.streaming.stateStore.providerClass`` to be that of RocksDB, and protobuf.
    """
    if not isinstance(df, DataFrame) or not df.isStreaming:
        raise TypeError("a streaming DataFrame is needed; evertally.spark.release takes the others")
    of_service = isinstance(sink, str) and sink.startswith(("https://", "http://"))
    session = df.sparkSession
    if session.conf.get("spark.sql.streaming.stateStore.providerClass", "") != STORE:
        raise InvalidError(f'set spark.sql.streaming.stateStore.providerClass to "{STORE}": shards need timers and lists')
    if closing not in ("watermark", "clock"):
        raise InvalidError(f'closing is "watermark" or "clock", not {closing!r}')
    if not 1 <= shards <= MOST_SHARDS:
        raise InvalidError(f"shards is a number from 1 to {MOST_SHARDS}, not {shards!r}")
    if not callable(sink) and not isinstance(sink, (str, os.PathLike)):
        raise InvalidError(f"sink is a folder, a function of a step and its table, or an address of a service, not {sink!r}")
    if of_service and ledger is not None:
        raise InvalidError("the service keeps the ledger: leave out ledger")
    if not of_service and ledger is None:
        raise InvalidError("name the ledger: a folder that all drivers share, or a store of objects")
    if not of_service and (token is not None or authority is not None):
        raise InvalidError("token and authority are for a service: give its address as sink")
    # What Spark does not understand is refused before the name is taken.
    wait = _milliseconds(session, delay)
    df.writeStream.trigger(**(trigger or TRIGGER))
    secret, work, close = (
        _to_service(str(sink), token, authority, keywords) if of_service else _to_ledger(df, ledger, sink, keywords)
    )
    facts = json.loads(work.facts())
    shipped = _tasks.Shipped(work.shipped(), _way_of_key(session, secret, worker_key))

    shard = _windows.Shard(shipped, shards, wait if closing == "clock" else None)
    mode = "processingTime" if closing == "clock" else "eventTime"
    blocks = _narrowed(df, facts).mapInArrow(_windows.read(shipped, shards), _windows.WAITING)
    sums = (
        blocks.withWatermark("latest", delay)
        .groupBy("shard")
        .transformWithState(shard, _tasks.SUMS, "append", mode)
    )

    def publish(rows: DataFrame, batch: int) -> None:
        query = str(rows.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId"))
        added = rows.groupBy("step", "label").agg(F.try_sum("sum").alias("sum")).toArrow()
        steps, labels = added.column("step").to_pylist(), added.column("label").to_pylist()
        refused = [label[1:].decode() for label in labels if label[:1] == b"!"]
        if refused:
            raise TableError(min(refused))
        closed = [step for step, label in zip(steps, labels, strict=True) if label == _windows.CLOSED]
        if closed:
            first = min(step for step, label in zip(steps, labels, strict=True) if label == _windows.FROM)
            close(Closed(query, batch, first, max(closed), added.to_batches()))

    writer = sums.writeStream.outputMode("append").option("checkpointLocation", os.fspath(checkpoint))
    return writer.trigger(**(trigger or TRIGGER)).foreachBatch(publish).start()


@dataclass(frozen=True)
class Closed:
    """Steps that a batch of a query has closed."""

    query: str
    batch: int
    first: int
    last: int
    sums: list[pyarrow.RecordBatch]


def _to_ledger(df: DataFrame, ledger: Any, sink: Any, keywords: dict[str, Any]) -> Target:
    """Steps are recorded in a ledger of the cluster, and released here."""
    given = _arguments(df, keywords, "stream")
    if given["through"] is not None:
        raise InvalidError("a stream is released when its steps have ended: leave out through")
    key, budget_file = given.pop("key"), given.pop("budget_file")
    secret = key if isinstance(key, SecretKey) else SecretKey.load(key)
    work = _ClusterWork.begin(_tables._declaration(given), secret, budget_file, live=True)
    column = json.loads(work.facts())["time"]
    kind = df.schema[column].dataType if column in df.columns else T.StringType()
    place = ledger if hasattr(ledger, "create") else os.fspath(ledger)
    publisher = _ClusterPublisher.open(work, secret, place, KINDS.get(type(kind), "text"), budget_file)
    write = sink if callable(sink) else folder_of_steps(os.fspath(sink))

    def close(closed: Closed) -> None:
        for step, released in publisher.close(secret, closed.query, closed.batch, closed.last, closed.sums):
            write(step, pyarrow.table(released))

    return secret, work, close


def _to_service(url: str, token: str | None, authority: Any, keywords: dict[str, Any]) -> Target:
    """Steps are sent to a service, which takes each of them once."""
    others = sorted(set(keywords) - {"key", "name"})
    if others:
        raise InvalidError(f"how the stream is released, the service at {url} has declared: leave out {', '.join(others)}")
    if "key" not in keywords:
        raise InvalidError("a key is needed, of this query: it tells persons apart. The noise has the key of the service")
    key = keywords["key"]
    secret = key if isinstance(key, SecretKey) else SecretKey.load(key)
    there = connect(url, token, authority=authority).stream(keywords.get("name", "main"))
    declared = there.declaration()
    if declared["closing"] != "sums":
        raise InvalidError(f'{there!r} counts events itself; open a stream with closing = "sums" for those of a cluster')
    declaration, plan = json.dumps(declared["declaration"]), json.dumps(declared["plan"])
    work = _ClusterWork.of_service(declaration, plan, declared["digest"], secret)

    def close(closed: Closed) -> None:
        sums = pyarrow.table(work.named_sums(closed.sums))
        # Steps in which somebody is counted one by one, each with its evidence; those between them at once.
        evidence = dict(work.evidence(closed.sums))
        cuts = sorted({closed.first, closed.last + 1} | set(evidence) | {step + 1 for step in evidence})
        if not evidence:
            cuts = _cut(sums, closed)
        for first, behind in itertools.pairwise(cuts):
            there.put_sums(_of_steps(sums, first, behind), first, behind - 1, evidence=evidence.get(first))

    return secret, work, close


def _of_steps(sums: pyarrow.Table, first: int, behind: int) -> pyarrow.Table:
    step = pyarrow.compute.field("step")
    return sums.filter((step >= first) & (step < behind))


def _cut(sums: pyarrow.Table, closed: Closed) -> list[int]:
    """Where sums of single events are divided: whole steps, of about so many rows."""
    cuts, rows = [closed.first], 0
    steps = sums["step"].value_counts().to_pylist()
    for step, count in sorted((one["values"], one["counts"]) for one in steps):
        if rows and rows + count > ROWS_AT_ONCE:
            cuts, rows = [*cuts, step], 0
        rows += count
    return [*cuts, closed.last + 1]


def _milliseconds(session: SparkSession, delay: str) -> int:
    """A time such as "10 minutes", as Spark reads it."""
    epoch = "TIMESTAMP '1970-01-01T00:00:00Z'"
    try:
        row = session.sql(f"SELECT unix_millis({epoch} + INTERVAL {delay}) AS delay").first()
    except PySparkException:
        row = None
    if row is None or row["delay"] < 0:
        raise InvalidError(f'delay is a time such as "10 minutes", not {delay!r}')
    return int(row["delay"])
