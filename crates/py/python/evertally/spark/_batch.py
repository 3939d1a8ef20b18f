"""One release of a DataFrame."""

from __future__ import annotations

import contextlib
import inspect
import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow
from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema

from .. import _errors, _functions, _keywords, _tables
from .._cluster import publishing, tasks
from .._cluster.handover import KeyFile, hand_over
from .._errors import EvertallyError, InvalidError, TableError
from .._evertally import SecretKey, _ClusterWork

if TYPE_CHECKING:
    import os

#: Maximum number of sums that the driver releases itself.
SUMS_OF_THE_DRIVER = 1_000_000
#: Maximum number of released rows of a task, if there are enough groups.
ROWS_OF_A_BUCKET = 1_000_000
#: Shards per partition: enough to balance the partitions.
SHARDS_OF_A_PARTITION = 16
#: Kinds of times, by the type of their column; all others are text.
KINDS: dict[type[T.DataType], str] = {T.TimestampType: "instant", T.TimestampNTZType: "civil", T.DateType: "date"}


def release(
    df: DataFrame,
    *,
    partitions: int | None = None,
    worker_key: str | os.PathLike[str] | None = None,
    **keywords: Any,
) -> DataFrame:
    """Releases the private running counts or sums of a DataFrame of events, with the keywords of
    :func:`evertally.release` and the values that it returns for the same events.

    If a person has more events than the bounds allow, the earliest are kept; a keyed hash decides between several at
    the same instant. So the rows may be in any order (``sort_buffer`` has no effect here), and no partitioning, retry
    or speculative task changes the release.

    This call reads the events once, and records the release in the key's ledger. The returned DataFrame has the same
    columns, with rows in any order.

    The driver computes at most a million sums of declared groups, steps and measures here, and keeps only released
    values. More, or those of discovered groups, are computed by the workers when the DataFrame is used. Until you
    :func:`unpersist` it, Spark then keeps the **exact** sums on the workers: protect them like the events. If they are
    lost, Spark computes them again, and they are released only if they match the record.

    ``partitions``: Number of tasks among which persons are divided, and minimum number of tasks for groups. By default,
        Spark combines small ones of ``spark.sql.shuffle.partitions``. It does not change any value.
    ``worker_key``: Path of the key file on every worker, such as a secret that the cluster mounts. Without it, the
        driver hands the key over, sealed, to workers that connect to it (at ``spark.evertally.keyPort``, or any free
        port).

    Raises :class:`TableError` for a bad row or column, and :class:`InvalidError` for invalid parameters.
    """
    given = publishing.arguments(df, keywords, "spark.release")
    return released(df, given, given["key"], given["budget_file"], partitions, worker_key)


def released(
    df: DataFrame,
    keywords: dict[str, Any],
    key: Any,
    budget_file: Any,
    partitions: int | None,
    worker_key: Any,
    *,
    fields: bool = False,
) -> DataFrame:
    """The same for the keywords of a declaration; errors name keywords, or the `fields` of a stream."""
    _check(df, partitions)
    secret = key if isinstance(key, SecretKey) else SecretKey.load(key)
    work = _ClusterWork.begin(_keywords.to_json(keywords, fields=fields), secret, budget_file, fields=fields)
    facts = json.loads(work.facts())
    session = df.sparkSession
    parts = partitions or int(session.conf.get("spark.sql.shuffle.partitions") or 200)
    shipped = tasks.Shipped(work.shipped(), _way_of_key(session, secret, worker_key))

    sums = _sums(_narrowed(df, facts), shipped, facts, parts, partitions is not None)
    time = KINDS.get(type(df.schema[facts["time"]].dataType), "text")
    columns = from_arrow_schema(pyarrow.table(work.released(time)).schema, prefer_timestamp_ntz=True)
    if not facts["discovers"] and facts["last_step"] * facts["sums"] <= SUMS_OF_THE_DRIVER:
        table = _of_few(sums, work, secret, facts, time, budget_file)
        return _marked(session.createDataFrame(table, columns), None)

    sums = sums.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        cells = facts["last_step"] * facts["groups"]
        buckets = max(parts, -(-cells // ROWS_OF_A_BUCKET))
        buckets = buckets if facts["discovers"] else min(buckets, facts["groups"])
        bucketed = sums.withColumn("bucket", _bucket(buckets))
        with _plain_errors():
            digests = publishing.digests(_digested(bucketed, shipped), facts)
        work.record(secret, digests[publishing.STEP], budget_file)
    except BaseException:
        sums.unpersist()
        raise
    rows = _whole_buckets(session, bucketed, buckets)
    task = tasks.release(shipped, digests[publishing.BUCKET], buckets, time)
    return _marked(rows.mapInArrow(task, columns), sums)


def _of_few(
    sums: DataFrame, work: _ClusterWork, secret: SecretKey, facts: dict[str, Any], time: str, budget_file: Any
) -> pyarrow.Table:
    """Releases sums that are few enough for the driver. No other process sees them, and they are not kept."""
    with _plain_errors():
        exact = sums.toArrow()
    return publishing.publish(exact, work, secret, facts, time, budget_file)


def _marked(released: DataFrame, sums: DataFrame | None) -> DataFrame:
    """The released DataFrame, with its exact sums if Spark keeps them."""
    released._evertally_sums = sums  # type: ignore[attr-defined]
    return released


def _check(df: DataFrame, partitions: int | None) -> None:
    if not isinstance(df, DataFrame):
        raise TypeError(f"expected a Spark DataFrame, not {type(df).__name__}")
    if df.isStreaming:
        raise InvalidError("this DataFrame is a stream, which never ends; use evertally.spark.stream")
    if partitions is not None and (not isinstance(partitions, int) or partitions < 1):
        raise InvalidError(f"partitions must be a number of tasks, 1 or more, not {partitions!r}")


def unpersist(released: DataFrame) -> None:
    """Makes Spark drop the exact sums of a released DataFrame. If it is used again, they are computed again.

    Does nothing if the driver has released them: then Spark keeps none.
    """
    if "_evertally_sums" not in vars(released):
        raise InvalidError("this DataFrame was not returned by evertally.spark.release")
    sums = vars(released)["_evertally_sums"]
    if sums is not None:
        sums.unpersist()


@contextlib.contextmanager
def _plain_errors() -> Iterator[None]:
    """Raises the errors of our tasks without the trace that Spark wraps around them."""
    try:
        yield
    except PySparkException as problem:
        if (plain := _said(problem)) is None:
            raise
        raise plain from None


def _said(problem: PySparkException) -> EvertallyError | None:
    """The error of one of our tasks, without the trace that Spark wraps around it."""
    found = re.search(r"^evertally\.(?:_errors\.)?(\w+): (.+)$", str(problem), re.MULTILINE)
    kind = getattr(_errors, found[1], None) if found else None
    return kind(found[2]) if found and isinstance(kind, type) and issubclass(kind, EvertallyError) else None


release.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
    [
        inspect.Parameter("df", inspect.Parameter.POSITIONAL_OR_KEYWORD),
        *[one for one in inspect.signature(_functions.release).parameters.values() if one.name != "table"],
        *[one for one in inspect.signature(release).parameters.values() if one.name in ("partitions", "worker_key")],
    ]
)


def _way_of_key(session: SparkSession, key: SecretKey, worker_key: Any) -> Any:
    if worker_key is not None:
        return KeyFile(str(worker_key))
    conf = session.sparkContext.getConf()
    host = str(conf.get("spark.driver.host"))
    bind = str(conf.get("spark.driver.bindAddress", host))
    port = int(str(session.conf.get("spark.evertally.keyPort", "0")))
    return hand_over(key, host, bind, port, " (spark.driver.host, spark.evertally.keyPort)")


def _column(name: str) -> Any:
    return F.col("`" + name.replace("`", "``") + "`")


def _narrowed(df: DataFrame, facts: dict[str, Any]) -> DataFrame:
    """The columns that the release uses, each once."""
    wanted = publishing.columns(facts)
    _tables._check_columns(wanted, df.columns)
    for name in wanted:
        if df.columns.count(name) > 1:
            raise TableError(f"the table: there are several columns `{name}`; rename all but one")
    return df.select(*[_column(name) for name in wanted])


def _sums(
    events: DataFrame, shipped: tasks.Shipped, facts: dict[str, Any], parts: int, is_fixed: bool
) -> DataFrame:
    """The sums that each step adds to each group, and rows of step 0 with the errors of refused rows."""
    if facts["persons"]:
        shards = parts * SHARDS_OF_A_PARTITION
        blocks = events.mapInArrow(tasks.read(shipped, shards, False), tasks.BLOCKS)
        # Without a number, Spark combines small partitions: each task costs some milliseconds.
        divided = blocks.repartition(parts, "shard") if is_fixed else blocks.repartition("shard")
        read = divided.mapInArrow(tasks.bound(shipped), tasks.SUMS)
    elif (counted := _counted(events, facts)) is not None:
        read = counted.mapInArrow(tasks.read(shipped, 1, True), tasks.SUMS)
    else:
        read = events.mapInArrow(tasks.read(shipped, 1, False), tasks.SUMS)
    # Sums that exceed 64 bits become missing, and are refused.
    return read.groupBy("step", "label").agg(F.try_sum("sum").alias("sum"))


def _counted(events: DataFrame, facts: dict[str, Any]) -> DataFrame | None:
    """Single events, counted or summed by Spark itself, over intervals of time that lie within one step; `None` if
    columns have types that must be read row by row."""
    kinds = {one.name: one.dataType for one in events.schema}
    time, value = facts["time"], facts["value"]
    roles = [time, *facts["labels"], *([] if value is None else [value])]
    plain = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
    texts = [T.StringType()]
    if facts["one_by_one"] or len(set(roles)) < len(roles) or facts["missing_text"] or facts["time_of_day"]:
        return None
    if any(name.startswith("evertally ") for name in roles):
        return None
    if not all(isinstance(kinds[name], plain) or kinds[name] in texts for name in facts["labels"]):
        return None
    if isinstance(kinds[time], T.DateType):
        when = _column(time)
    elif isinstance(kinds[time], T.TimestampType) and facts["width"] >= 1_000_000:
        micros = F.unix_micros(_column(time))
        when = F.timestamp_micros(micros - F.pmod(micros, F.lit(facts["width"])))
    else:
        return None
    counts, missing = facts["counts"], "evertally missing"
    by = [when.alias(time), *[_column(name) for name in facts["labels"]]]
    if value is None:
        return events.groupBy(*by).agg(F.count(F.lit(1)).alias(counts))
    if not isinstance(kinds[value], plain) or facts["bounds"] is None:
        return None
    low, high = (F.lit(bound).cast("long") for bound in facts["bounds"])
    within = F.least(F.greatest(_column(value).cast("long"), low), high)
    counted = events.groupBy(*by, _column(value).isNull().alias(missing)).agg(F.try_sum(within).alias(counts))
    # A sum that exceeds 64 bits becomes the least number, which the reader refuses; a missing value stays missing.
    whole = F.coalesce(F.col(f"`{counts}`"), F.lit(-(2**63)).cast("long"))
    return counted.withColumn(counts, F.when(~F.col(f"`{missing}`"), whole)).drop(missing)


def _bucket(buckets: int) -> Any:
    """The bucket of a group: by its place if it is declared, otherwise by its name."""
    place = F.expr("CAST(conv(hex(substring(label, 2, 4)), 16, 10) AS BIGINT)")
    declared = F.expr("substring(label, 1, 1) IN (X'67', X'6D')")  # g: a sum of a group; m: one of several
    return F.pmod(F.when(declared, place).otherwise(F.xxhash64("label")), F.lit(buckets)).cast("int")


def _digested(bucketed: DataFrame, shipped: tasks.Shipped) -> list[Any]:
    """Rows of digests. Reads all events."""
    rows = bucketed.mapInArrow(tasks.digest(shipped), tasks.DIGESTS)
    lanes = [F.sum(lane).alias(lane) for lane in tasks.LANES]
    return rows.groupBy("kind", "index", "label").agg(F.sum("count").alias("count"), *lanes).collect()


def _whole_buckets(session: SparkSession, bucketed: DataFrame, buckets: int) -> DataFrame:
    """The sums of whole buckets, to be released."""
    # One row for every bucket, so that groups without events are released, too.
    wanted = "CAST(id AS INT) AS bucket", "CAST(0 AS BIGINT) AS step", "X'' AS label", "CAST(0 AS BIGINT) AS sum"
    every = session.range(buckets).selectExpr(*wanted)
    rows = bucketed.where("step > 0").select("bucket", "step", "label", "sum").unionByName(every)
    return rows.repartition(min(buckets, 4096), "bucket").sortWithinPartitions("bucket")
