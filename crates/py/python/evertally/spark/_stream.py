"""Releases of a stream, step by step."""

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

from .. import _keywords
from .._cluster import publishing, tasks
from .._connect import connect
from .._errors import InvalidError, TableError
from .._evertally import SecretKey, _ClusterPublisher, _ClusterWork
from .._paths import local
from . import _windows
from ._batch import KINDS, _narrowed, _way_of_key
from ._sinks import folder_of_steps

#: The state store that shards need: the only one with timers and lists.
STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

LEDGER_ADVICE = (
    "a store without conditional writes could record a step twice. Give a folder on a file system that all drivers "
    "mount, or an object with create, read, replace and forget, whose create replaces nothing (If-None-Match: *)"
)
SINK_ADVICE = "give a folder on this machine, or a function of a step and its table, which writes it there"

#: Maximum number of shards; more are never useful.
MOST_SHARDS = 1 << 16
TRIGGER = {"processingTime": "10 seconds"}

#: Maximum number of rows in one request to a service.
ROWS_AT_ONCE = 200_000

Sink = Callable[[int, pyarrow.Table], None]

#: The key of the query, its work, and the function that handles closed steps.
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
    """Releases a streaming DataFrame of events step by step, with the keywords of :func:`evertally.release`: each step
    is released once, after the watermark has passed its end.

    **Exact** events wait in `shards` shards of persons in Spark's state store: protect the `checkpoint` like the
    events. The sums of a closed step are recorded in the `ledger` once and permanently, then released. A batch that
    Spark retries, and a query that starts again from the first event, repeat the same bytes; anything else is refused.

    ``ledger``: A folder that all drivers mount, or an object store: an object with the methods ``create(name, data)``
        (stores the bytes under a name unless it has some, and returns the stored ones), ``read(name)``,
        ``replace(name, data)`` and ``forget(name)``. It holds exact sums: protect it like the events. A URL such as
        ``s3a://…`` is refused: Hadoop's object stores have no atomic writes.
    ``checkpoint``: The checkpoint folder of the query, in any file system of Spark.
    ``sink``: The destination of releases: a folder of this machine, which gets a Parquet file for every step; a
        function of the step and its table, which may be called again with the same arguments; or ``https://HOST:PORT``
        of a service, which draws the noise with its own key, keeps the ledger and publishes. For a service give the
        `name` of its stream there (with ``closing = "sums"``), `token` and `authority` as for
        :func:`evertally.connect`, a `key` that pseudonymises persons, and otherwise only `df`, `checkpoint`, `delay`,
        `closing`, `shards`, `trigger` and `worker_key`: the service already defines the release.
    ``delay``: How far the watermark lags the latest event, or the clock if an event lies in the future. An event that
        arrives after its step has ended is dropped.
    ``closing``: Whether steps end by the watermark, which follows events, or by the clock, `delay` after their end,
        which does not: then no person's events affect which events of others are dropped. A stream that closes by the
        clock cannot be released again from its first event.
    ``shards``: Number of shards. It does not change any value, but is fixed for a checkpoint.
    ``trigger``: As in ``DataStreamWriter.trigger``, such as ``{"processingTime": "1 minute"}`` or
        ``{"availableNow": True}``.
    ``worker_key``: As in :func:`release`.

    Requires RocksDB as ``spark.sql.streaming.stateStore.providerClass``, and protobuf.
    """
    if not isinstance(df, DataFrame) or not df.isStreaming:
        raise TypeError("expected a streaming DataFrame; evertally.spark.release takes the others")
    of_service = isinstance(sink, str) and sink.startswith(("https://", "http://"))
    session = df.sparkSession
    if session.conf.get("spark.sql.streaming.stateStore.providerClass", "") != STORE:
        raise InvalidError(
            f'set spark.sql.streaming.stateStore.providerClass to "{STORE}": shards need timers and lists'
        )
    if closing not in ("watermark", "clock"):
        raise InvalidError(f'closing must be "watermark" or "clock", not {closing!r}')
    if not 1 <= shards <= MOST_SHARDS:
        raise InvalidError(f"shards must be a number from 1 to {MOST_SHARDS}, not {shards!r}")
    if not callable(sink) and not isinstance(sink, (str, os.PathLike)):
        raise InvalidError(
            f"sink must be a folder, a function of a step and its table, or the address of a service, not {sink!r}"
        )
    if of_service and ledger is not None:
        raise InvalidError("the service keeps the ledger: omit ledger")
    if not of_service and ledger is None:
        raise InvalidError("ledger is missing: give a folder that all drivers share, or an object store")
    if not of_service and (token is not None or authority is not None):
        raise InvalidError("token and authority are for a service: give its address as sink")
    if ledger is not None and not hasattr(ledger, "create"):
        ledger = local(ledger, "ledger", LEDGER_ADVICE)
    if not of_service and not callable(sink):
        sink = local(sink, "sink", SINK_ADVICE)
    # Refuse arguments that Spark rejects before the name is reserved.
    wait = _milliseconds(session, delay)
    df.writeStream.trigger(**(trigger or TRIGGER))
    secret, work, close = (
        _to_service(str(sink), token, authority, keywords) if of_service else _to_ledger(df, ledger, sink, keywords)
    )
    facts = json.loads(work.facts())
    shipped = tasks.Shipped(work.shipped(), _way_of_key(session, secret, worker_key))

    shard = _windows.Shard(shipped, shards, wait if closing == "clock" else None)
    mode = "processingTime" if closing == "clock" else "eventTime"
    blocks = _narrowed(df, facts).mapInArrow(_windows.read(shipped, shards), _windows.WAITING)
    sums = (
        blocks.withWatermark("latest", delay)
        .groupBy("shard")
        .transformWithState(shard, tasks.SUMS, "append", mode)
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
    """Steps that one batch of a query has closed."""

    query: str
    batch: int
    first: int
    last: int
    sums: list[pyarrow.RecordBatch]


def _to_ledger(df: DataFrame, ledger: Any, sink: Any, keywords: dict[str, Any]) -> Target:
    """Records steps in a ledger of the cluster, and releases them here."""
    given = publishing.arguments(df, keywords, "spark.stream")
    if given["through"] is not None:
        raise InvalidError("a stream releases each step when it has ended: omit through")
    key, budget_file = given.pop("key"), given.pop("budget_file")
    secret = key if isinstance(key, SecretKey) else SecretKey.load(key)
    work = _ClusterWork.begin(_keywords.to_json(given), secret, budget_file, live=True)
    column = json.loads(work.facts())["time"]
    kind = df.schema[column].dataType if column in df.columns else T.StringType()
    publisher = _ClusterPublisher.open(work, secret, ledger, KINDS.get(type(kind), "text"), budget_file)
    write = sink if callable(sink) else folder_of_steps(sink)

    def close(closed: Closed) -> None:
        for step, released in publisher.close(secret, closed.query, closed.batch, closed.last, closed.sums):
            write(step, pyarrow.table(released))

    return secret, work, close


def _to_service(url: str, token: str | None, authority: Any, keywords: dict[str, Any]) -> Target:
    """Sends steps to a service, which accepts each of them once."""
    others = sorted(set(keywords) - {"key", "name"})
    if others:
        raise InvalidError(f"the service at {url} already defines this release: omit {', '.join(others)}")
    if "key" not in keywords:
        raise InvalidError(
            "key is missing: this query needs its own key to pseudonymise persons (the service's key draws the noise)"
        )
    key = keywords["key"]
    secret = key if isinstance(key, SecretKey) else SecretKey.load(key)
    there = connect(url, token, authority=authority).stream(keywords.get("name", "main"))
    declared = there.declaration()
    if declared["closing"] != "sums":
        raise InvalidError(f'{there!r} counts events itself; open a stream with closing = "sums" for a cluster\'s sums')
    declaration, plan = json.dumps(declared["declaration"]), json.dumps(declared["plan"])
    work = _ClusterWork.from_service(declaration, plan, declared["digest"], secret)

    def close(closed: Closed) -> None:
        sums = pyarrow.table(work.named_sums(closed.sums))
        # Steps with evidence are sent one by one, the steps between them together.
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
    """The steps at which sums without evidence are divided into requests: whole steps, of about `ROWS_AT_ONCE` rows."""
    cuts, rows = [closed.first], 0
    steps = sums["step"].value_counts().to_pylist()
    for step, count in sorted((one["values"], one["counts"]) for one in steps):
        if rows and rows + count > ROWS_AT_ONCE:
            cuts, rows = [*cuts, step], 0
        rows += count
    return [*cuts, closed.last + 1]


def _milliseconds(session: SparkSession, delay: str) -> int:
    """The milliseconds of a duration such as "10 minutes", as Spark parses it."""
    epoch = "TIMESTAMP '1970-01-01T00:00:00Z'"
    try:
        row = session.sql(f"SELECT unix_millis({epoch} + INTERVAL {delay}) AS delay").first()
    except PySparkException:
        row = None
    if row is None or row["delay"] < 0:
        raise InvalidError(f'delay must be a duration such as "10 minutes", not {delay!r}')
    return int(row["delay"])
