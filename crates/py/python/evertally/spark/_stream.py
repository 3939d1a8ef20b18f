"""A stream that is released window by window."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any, Literal

import pyarrow
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.streaming.query import StreamingQuery

from .. import _tables
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

Sink = Callable[[int, pyarrow.Table], None]


def stream(
    df: DataFrame,
    *,
    ledger: Any,
    checkpoint: str | os.PathLike[str],
    sink: str | os.PathLike[str] | Sink,
    delay: str = "10 minutes",
    closing: Literal["watermark", "clock"] = "watermark",
    shards: int = 64,
    trigger: dict[str, Any] | None = None,
    worker_key: str | os.PathLike[str] | None = None,
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
    ``sink``: Where releases go: a folder, which gets a Parquet file for every step, or a function of the step and its
        table, which may be called with the same again.
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
    given = _arguments(df, keywords)
    if given["through"] is not None:
        raise InvalidError("a stream is released when its steps have ended: leave out through")
    session = df.sparkSession
    if session.conf.get("spark.sql.streaming.stateStore.providerClass", "") != STORE:
        raise InvalidError(f'set spark.sql.streaming.stateStore.providerClass to "{STORE}": shards need timers and lists')
    if closing not in ("watermark", "clock"):
        raise InvalidError(f'closing is "watermark" or "clock", not {closing!r}')
    if not 1 <= shards <= MOST_SHARDS:
        raise InvalidError(f"shards is a number from 1 to {MOST_SHARDS}, not {shards!r}")
    if not callable(sink) and not isinstance(sink, (str, os.PathLike)):
        raise InvalidError(f"sink is a folder, or a function of a step and its table, not {sink!r}")
    # What Spark does not understand is refused before the name is taken.
    wait = _milliseconds(session, delay)
    df.writeStream.trigger(**(trigger or TRIGGER))
    key, budget_file = given.pop("key"), given.pop("budget_file")
    secret = key if isinstance(key, SecretKey) else SecretKey.load(key)
    work = _ClusterWork.begin(_tables._declaration(given), secret, budget_file, live=True)
    facts = json.loads(work.facts())
    kind = df.schema[facts["time"]].dataType if facts["time"] in df.columns else T.StringType()
    time = KINDS.get(type(kind), "text")
    place = ledger if hasattr(ledger, "create") else os.fspath(ledger)
    publisher = _ClusterPublisher.open(work, secret, place, time, budget_file)
    write = sink if callable(sink) else folder_of_steps(os.fspath(sink))
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
        labels = added.column("label").to_pylist()
        refused = [label[1:].decode() for label in labels if label[:1] == b"!"]
        if refused:
            raise TableError(min(refused))
        closed = [step for step, label in zip(added.column("step").to_pylist(), labels, strict=True) if label == _windows.CLOSED]
        if closed:
            for step, released in publisher.close(secret, query, batch, max(closed), added.to_batches()):
                write(step, pyarrow.table(released))

    writer = sums.writeStream.outputMode("append").option("checkpointLocation", os.fspath(checkpoint))
    return writer.trigger(**(trigger or TRIGGER)).foreachBatch(publish).start()


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
