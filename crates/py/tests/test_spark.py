"""`evertally.spark` on a local cluster: the values of one process, whatever the cluster does."""

from __future__ import annotations

import dataclasses
import datetime
import inspect
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import evertally as et

pytest.importorskip("pyspark")
if shutil.which("java") is None:
    pytest.skip("Spark needs Java", allow_module_level=True)
os.environ["PYSPARK_PYTHON"] = sys.executable

import evertally.spark  # noqa: E402
import test_doors  # noqa: E402
from conftest import Running, configuration  # noqa: E402
from evertally._cluster import handover  # noqa: E402
from evertally.spark import _batch  # noqa: E402
from pyspark.sql import DataFrame, SparkSession  # noqa: E402
from pyspark.sql import functions as F  # noqa: E402

STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "3",
    "spark.sql.streaming.stateStore.providerClass": STORE,
}
COMMON: dict[str, Any] = {"start": "2024-01-01", "end": "2024-01-11", "every": "6h"}
GROUPED: dict[str, Any] = {"group": "group", "groups": list("abcde")}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    builder = SparkSession.builder.master("local[2]")
    for name, setting in SETTINGS.items():
        builder = builder.config(name, setting)
    session = builder.config("spark.local.dir", str(tmp_path_factory.mktemp("spark"))).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


def events(count: int, persons: int, seed: int = 1) -> pd.DataFrame:
    """Events in order of time, no two at the same instant; half of them belong to one person, and most to one group."""
    dice = np.random.default_rng(seed)
    micros = np.sort(dice.choice(10 * 86_400_000, count, replace=False)) * 1000
    return pd.DataFrame(
        {
            "time": pd.to_datetime(1_704_067_200_000_000 + micros, unit="us", utc=True),
            "person": dice.integers(0, persons, count) * dice.integers(0, 2, count),
            "group": dice.choice(list("aaaaabcde"), count),
            "value": dice.integers(-3, 10, count),
        }
    )


def fresh() -> et.SecretKey:
    return et.SecretKey.insecure_from_test_seed(et.TestSeed(3))


def same(one: pd.DataFrame, two: pd.DataFrame) -> None:
    """The same rows, bit by bit."""
    assert list(one.columns) == list(two.columns)
    by = [name for name in ("group", "measure", "workload", "step") if name in one]
    one, two = (frame.sort_values(by).reset_index(drop=True) for frame in (one, two))
    assert len(one) == len(two)
    for name in one.columns:
        if name == "time":
            assert (pd.to_datetime(one[name], utc=True) == pd.to_datetime(two[name], utc=True)).all()
        else:
            ours, theirs = one[name].to_numpy(), two[name].to_numpy()
            assert ((ours == theirs) | ((ours != ours) & (theirs != theirs))).all(), name


def shuffled(spark: SparkSession, table: pd.DataFrame) -> DataFrame:
    return spark.createDataFrame(table.sample(frac=1, random_state=2)).repartition(3)


@pytest.mark.parametrize(
    "asked",
    [
        {"epsilon": 1.0},
        {"epsilon": 1.0, **GROUPED, "view": "non-decreasing", "band": "simultaneous"},
        {"rho": 0.5, "value": "value", "bounds": (-2, 5), **GROUPED},
        {
            "rho": 0.5, "value": "value", "bounds": (0, 2), "grid": "0.5",
            "group": "group", "groups": ["a", "b"], "rest": "more",
        },
        {"rho": 0.5, "person": "person", "max_events": 20, "max_events_per_step": 2, **GROUPED},
        {"rho": 0.5, "person": "person", "max_events": 3, "per": "1w", "workload": "window(24h)", **GROUPED},
        {"rho": 0.5, "person": "person", "max_events": 3, "per": "1w", "protect_window": "7d", **GROUPED},
        {
            "rho": 0.5, "person": "person", "max_events": 9, "max_groups": 2,
            "value": "value", "bounds": (0, 5), "max_total": 12,
        },
        {
            "rho": 0.5, "group": "group", "discover_groups": True, "selection_delta": 1e-6, "person": "person",
            "max_events": 20, "max_groups": 2,
        },
        {"epsilon": 1.0, **GROUPED, "through": "2024-01-06", "publish": "1d"},
        {"rho": 0.5, "value": "value", "bounds": (-2, 5), **GROUPED, "measures": ["count", "mean", "quantile(0.5)"]},
        {
            "rho": 0.5, "person": "person", "max_events": 20, "per": "1w", **GROUPED,
            "measures": ["count", "distinct", "distinct(3)"],
        },
        {"rho": 0.5, "person": "person", "max_events": 20, "workload": ["sum", "window(24h)"]},
        {"rho": 0.5, "assert_max_events": 20, "per": "1w", "asserted_by": "the app", **GROUPED},
    ],
)  # fmt: skip
def test_a_cluster_releases_what_one_process_does(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any]
) -> None:
    table = events(5000, 60)
    if "max_total" in asked:
        asked = {**asked, **GROUPED}
    one = et.release(table, key=fresh(), **COMMON, **asked)
    frame = shuffled(spark, table)
    for of_the_driver in (_batch.SUMS_OF_THE_DRIVER, 0):  # the driver releases few sums, workers many
        monkeypatch.setattr(_batch, "SUMS_OF_THE_DRIVER", of_the_driver)
        two = evertally.spark.release(frame, key=fresh(), **COMMON, **asked)
        same(one, two.toPandas())
        evertally.spark.unpersist(two)


def test_a_stream_object_releases_what_the_program_does(spark: SparkSession, program: str, tmp_path: Path) -> None:
    """`Stream.spark` and `evertally release` with copies of one key: the same rows, bit by bit."""
    table = events(3000, 40)
    stream = et.Stream(
        name="visits",
        steps=et.Steps(start="2024-01-01", end="2024-01-11", every="6h", through="2024-01-09"),
        unit=et.Person("person", max_events=20, max_events_per_step=2),
        groups=et.Groups("group", list("abcde")),
        values=et.Values("value", bounds=(-2, 5)),
        budget=et.Budget.zcdp(0.5),
    )
    key = tmp_path / "cluster.key"
    et.SecretKey.generate().save(key)
    # A ledger does not compare releases of a cluster with those of one process.
    shutil.copy(key, tmp_path / "my.key")
    shutil.copy(f"{key}.ledger", tmp_path / "my.key.ledger")
    released = stream.spark(shuffled(spark, table), key)
    found = released.toPandas()
    table.to_parquet(tmp_path / "events.parquet")
    config = configuration(stream, input="events.parquet", key="my.key", out="out.parquet")
    (tmp_path / "visits.toml").write_text(config)
    run = [program, "release", "--config", "visits.toml", "--no-plot"]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    same(found, pd.read_parquet(tmp_path / "out.parquet").drop(columns="end"))
    assert found["step"].max() == 32
    evertally.spark.unpersist(released)
    with pytest.raises(et.InvalidError, match="unit.max_events"):
        dataclasses.replace(stream, unit=et.Person("person")).spark(shuffled(spark, table), key)


def test_columns_of_all_kinds_are_read(spark: SparkSession) -> None:
    table = events(500, 20)
    table["when"] = table["time"].dt.strftime("%Y-%m-%dT%H:%M:%S.%f")
    table["day"] = table["time"].dt.date
    table["clock"] = table["time"].dt.strftime("%H:%M:%S")
    table["sometimes"] = [when if number % 7 else None for number, when in enumerate(table["when"])]
    table["number"] = (table["value"] + 3).astype("int64")
    table["half"] = table["value"] / 2
    frame = spark.createDataFrame(table).withColumn("civil", F.col("time").cast("timestamp_ntz"))
    days: dict[str, Any] = {"start": "2024-01-01", "end": "2024-01-11", "every": "1d", "epsilon": 1.0}
    kinds: list[dict[str, Any]] = [
        {"time": "when"},
        {"time": "day"},
        {"date": "day", "time_of_day": "clock", "every": "12h"},
        {"time": "sometimes", "missing": "skip"},
        {"time": "day", "group": "number", "groups": [str(n) for n in range(13)]},
        {"time": "time", "value": "half", "bounds": (-2, 4), "grid": "0.5"},
        {"time": "time", "value": "number", "bounds": (0, 7), "missing": "skip"},
    ]
    for asked in kinds:
        asked = {**days, **asked}
        one = et.release(table, key=fresh(), **asked)
        two = evertally.spark.release(frame, key=fresh(), **asked).toPandas()
        by = ["number", "step"] if "group" in asked else ["step"]
        assert (one.sort_values(by)["value"].to_numpy() == two.sort_values(by)["value"].to_numpy()).all(), asked
    civil = evertally.spark.release(frame, key=fresh(), time="civil", **days)
    assert dict(civil.dtypes)["time"] == "timestamp_ntz" and dict(civil.dtypes)["step"] == "bigint"
    values = [row["value"] for row in civil.orderBy("step").collect()]
    assert values == list(et.release(table, key=fresh(), **days)["value"])


def test_one_identity_has_many_spellings_on_a_cluster_too(spark: SparkSession) -> None:
    once: dict[str, Any] = {"start": "2024-01-01", "every": "1d", "steps": 1, "rho": 1e5, "allow_weak_budget": True}
    persons, groups = {"person": "id", "max_events": 1}, {"group": "id", "groups": ["1e5", "Ann"]}

    def counts(ids: list[Any], kind: str, **asked: Any) -> list[int]:
        rows = spark.createDataFrame([("2024-01-01", one) for one in ids], f"time string, id {kind}")
        frame = rows.withColumn("time", F.to_timestamp("time")).repartition(3)
        released = evertally.spark.release(frame, key=fresh(), **once, **asked)
        found = {row["id"] if "group" in asked else None: row["value"] for row in released.collect()}
        evertally.spark.unpersist(released)
        return [found[name] for name in (groups["groups"] if "group" in asked else [None])]

    spellings = ["100000", "1e+05", "100000.0"]
    assert counts(spellings, "string", **persons) == [1]
    assert counts(["ann", " ANN"], "string", **persons, normalise_ids=["trim", "casefold"]) == [1]
    assert counts([*spellings, "Ann"], "string", **groups) == [3, 1]
    for ids, kind in (
        ([1e5], "double"),
        ([1e5], "float"),
        ([100_000], "int"),
        ([100_000], "bigint"),
        ([Decimal(100_000)], "decimal(20,2)"),
    ):
        assert counts(ids, kind, **groups) == [1, 0]
    for asked in (persons, groups):
        with pytest.raises(et.TableError, match="column `id`: `9007199254740992` is not an exact id"):
            counts([2.0**53], "double", **asked)


def test_what_is_wrong_is_said_before_anything_is_recorded(spark: SparkSession) -> None:
    table = events(300, 20)
    frame, key = shuffled(spark, table), fresh()
    with pytest.raises(et.TableError, match="column `airport`|no column `airport`"):
        evertally.spark.release(frame, key=key, group="airport", groups=["JFK"], epsilon=1.0, **COMMON)
    with pytest.raises(et.TableError, match="the table, column `group`: `e` is not a declared group"):
        evertally.spark.release(
            frame.where("group IN ('a', 'e')"), key=key, group="group", groups=["a"], epsilon=1.0, **COMMON
        )
    with pytest.raises(et.TableError, match="column `time`: .* outside the horizon"):
        evertally.spark.release(frame, key=key, start="2024-01-03", steps=4, every="1d", epsilon=1.0)
    with pytest.raises(et.TableError, match="column `value`: the event has no value"):
        none = frame.withColumn("value", F.when(F.col("value") > 0, F.col("value")))
        evertally.spark.release(none, key=key, value="value", bounds=(0, 5), epsilon=1.0, **COMMON)
    with pytest.raises(et.TableError, match="names no person"):
        none = frame.withColumn("person", F.when(F.col("person") > 0, F.col("person")))
        evertally.spark.release(none, key=key, person="person", max_events=5, epsilon=1.0, **COMMON)
    with pytest.raises(et.InvalidError, match="publishes several of them at every step"):
        several: dict[str, Any] = {"measures": ["count", "mean"], "value": "value", "bounds": (0, 5), "publish": "1d"}
        evertally.spark.release(frame, key=key, rho=1.0, **several, **COMMON)
    with pytest.raises(TypeError, match="unexpected keyword argument 'epsilom'"):
        evertally.spark.release(frame, key=key, epsilom=1.0, **COMMON)
    big = frame.withColumn("value", F.lit(2**57)).withColumn("time", F.lit("2024-01-02").cast("timestamp"))
    with pytest.raises((et.SumOverflowError, et.TableError), match="64-bit"):
        evertally.spark.release(big, key=key, value="value", bounds=(0, 2**57), rho=10.0, **COMMON)
    # None of them has used the name.
    evertally.spark.release(frame, key=key, epsilon=1.0, **COMMON)


def test_other_events_under_a_name_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    table = events(800, 20)
    key = tmp_path / "visits.key"
    fresh().save(key)
    asked = {"epsilon": 1.0, **GROUPED, **COMMON}
    first = evertally.spark.release(shuffled(spark, table), key=key, **asked).toPandas()
    again = evertally.spark.release(shuffled(spark, table), key=key, partitions=7, **asked).toPandas()
    same(first, again)
    with pytest.raises(et.InvalidError, match="from different data"):
        evertally.spark.release(shuffled(spark, table[1:]), key=key, **asked)
    with pytest.raises(et.InvalidError, match="on a cluster"):
        et.release(table, key=key, **asked)


def by_spark(spark: SparkSession, key: Path, which: str) -> object:
    frame = spark.createDataFrame(test_doors.events(which))
    released = evertally.spark.release(frame, name=test_doors.NAME, key=key, **test_doors.DECLARED)
    return released.toPandas()["value"].tolist()


def by_spark_stream(spark: SparkSession, key: Path) -> None:
    folder = key.parent / "incoming"
    folder.mkdir(exist_ok=True)
    frame = spark.readStream.schema("time timestamp").parquet(str(folder))
    places: dict[str, Any] = {name: key.parent / f"{name} of the stream" for name in ("ledger", "checkpoint", "sink")}
    query = evertally.spark.stream(
        frame,
        name=test_doors.NAME,
        key=et.SecretKey.load(key),
        trigger={"availableNow": True},
        **test_doors.DECLARED,
        **places,
    )
    query.awaitTermination()


@pytest.mark.parametrize("first", test_doors.DOORS)
def test_a_cluster_knows_of_every_other_door(spark: SparkSession, tmp_path: Path, first: str) -> None:
    key = test_doors.new_key(tmp_path)
    before = test_doors.DOORS[first](key, "first")
    known = f"{test_doors.NAME}|service"
    with pytest.raises((et.InvalidError, et.StateError), match=known):
        by_spark(spark, key, "second")
    with pytest.raises((et.InvalidError, et.StateError), match=known):
        by_spark_stream(spark, key)
    # A refused door takes nothing from the first; reads of lazy vectors are never repeated, and a program without its
    # state is refused.
    if first not in ("service", "LazyVector", "CountSketch", "rust_program"):
        assert test_doors.DOORS[first](key, "first") == before


def test_every_other_door_knows_of_a_cluster(spark: SparkSession, tmp_path: Path) -> None:
    released, streaming = test_doors.new_key(tmp_path / "released"), test_doors.new_key(tmp_path / "streaming")
    before = by_spark(spark, released, "first")
    by_spark_stream(spark, streaming)
    for key in (released, streaming):
        for second, door in test_doors.DOORS.items():
            copied = shutil.copytree(key.parent, tmp_path / f"{key.parent.name} {second}") / key.name
            with pytest.raises((et.InvalidError, et.StateError), match=f"{test_doors.NAME}|never used"):
                door(copied, "second")
    with pytest.raises(et.InvalidError, match="from different data"):
        by_spark(spark, released, "second")
    assert by_spark(spark, released, "first") == before
    with pytest.raises((et.InvalidError, et.StateError), match=test_doors.NAME):
        by_spark_stream(spark, released)
    with pytest.raises((et.InvalidError, et.StateError), match=test_doors.NAME):
        by_spark(spark, streaming, "first")


def test_groups_do_not_join_on_a_cluster(spark: SparkSession) -> None:
    """Noise depends on the name: a group that joined without a record could be released again with other sums."""
    frame, key = shuffled(spark, events(300, 20)), fresh()
    asked = {"epsilon": 1.0, "group": "group", "rest": "more", **COMMON}
    evertally.spark.release(frame, key=key, groups=["a"], through="2024-01-04", **asked)
    with pytest.raises(et.InvalidError, match="on a cluster no groups can join"):
        evertally.spark.release(frame, key=key, groups=["a", "b", "c"], **asked)
    evertally.spark.release(frame, key=key, groups=["a"], **asked)


def test_workers_with_another_key_do_nothing(spark: SparkSession, tmp_path: Path) -> None:
    et.SecretKey.generate().save(tmp_path / "right.key")
    et.SecretKey.generate().save(tmp_path / "wrong.key")
    frame = shuffled(spark, events(300, 20))
    asked = {"epsilon": 1.0, "key": tmp_path / "right.key", **COMMON}
    with pytest.raises(Exception, match="put the same key file on every worker"):
        evertally.spark.release(frame, worker_key=tmp_path / "wrong.key", **asked)
    right = evertally.spark.release(frame, worker_key=tmp_path / "right.key", **asked)
    assert right.count() == 40


def test_what_a_stream_does_not_understand_is_refused_before_its_name_is_taken(
    spark: SparkSession, tmp_path: Path
) -> None:
    frame = spark.readStream.schema("time timestamp").parquet(str(tmp_path))
    places: dict[str, Any] = {"ledger": tmp_path / "ledger", "checkpoint": tmp_path / "check", "sink": tmp_path / "out"}
    key = fresh()
    wrongs: list[tuple[dict[str, Any], str]] = [
        ({"delay": "soon"}, "delay must be a duration"),
        ({"delay": "-1 hour"}, "delay must be a duration"),
        ({"shards": 0}, "shards must be a number"),
        ({"sink": 3}, "sink must be a folder"),
        ({"closing": "never"}, "closing must be"),
        ({"trigger": {"processingTime": "x"}}, "x"),
        ({"through": "2024-01-02"}, "omit through"),
        ({"ledger": "s3a://bucket/ledger"}, "ledger is the URL 's3a://bucket/ledger', but .* this machine"),
        ({"ledger": Path("hdfs://host/ledger")}, "ledger is the URL 'hdfs:/host/ledger'"),
        ({"sink": "dbfs:/released"}, "sink is the URL 'dbfs:/released', .* a function of a step"),
        ({"sink": "file://other/released"}, "sink is the URL"),
    ]
    for wrong, why in wrongs:
        with pytest.raises(Exception, match=why):
            evertally.spark.stream(frame, key=key, rho=1.0, **{**places, **COMMON, **wrong})
    assert not (tmp_path / "ledger").exists() and not list(Path().glob("*:"))
    with pytest.raises(TypeError, match="takes the others"):
        evertally.spark.stream(shuffled(spark, events(10, 5)), key=key, rho=1.0, **places, **COMMON)
    with pytest.raises(et.InvalidError, match="use evertally.spark.stream"):
        evertally.spark.release(frame, key=key, rho=1.0, **COMMON)
    evertally.spark.release(shuffled(spark, events(10, 5)), key=key, rho=1.0, **COMMON)


def test_sums_that_change_behind_a_release_are_not_released(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Spark computes a DataFrame when it is used, when its files may have changed."""
    monkeypatch.setattr(_batch, "SUMS_OF_THE_DRIVER", 0)
    table = events(800, 20)
    path = str(tmp_path / "events")
    spark.createDataFrame(table).write.parquet(path)
    frame = spark.read.parquet(path)
    released = evertally.spark.release(frame, key=fresh(), epsilon=1.0, **GROUPED, **COMMON)
    evertally.spark.unpersist(released)
    spark.createDataFrame(table[:-1]).write.mode("overwrite").parquet(path)
    spark.catalog.refreshByPath(path)
    changed = "the events have changed since the release was recorded|does not exist|FileNotFound"
    with pytest.raises(Exception, match=changed):
        released.toPandas()


def test_no_plan_and_no_log_has_the_key(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(_batch, "SUMS_OF_THE_DRIVER", 0)
    key = et.SecretKey.generate()
    secret = key.expose_bytes()
    released = evertally.spark.release(
        shuffled(spark, events(500, 20)), key=key, person="person", max_events=5, rho=0.5, **GROUPED, **COMMON
    )
    released.collect()
    released.explain("extended")
    said = "".join(capfd.readouterr())
    jvm = released._jdf.queryExecution().toString() + released._jdf.queryExecution().debug().toString()
    assert "MapInArrow" in said
    conf = str(spark.sparkContext.getConf().getAll())
    forms = [secret.hex(), secret.hex().upper(), str(list(secret))[1:-1]]
    for text in (said, jvm, conf, repr(released)):
        assert not any(form in text for form in forms)
    # Nor do the pickled functions, which may stay on a disk, have the key: they have a pass, and its driver has the
    # key.
    handed = handover.hand_over(key, "127.0.0.1", "127.0.0.1", 0)
    import pickle

    assert secret not in pickle.dumps(handed) and handed._seal.hex() not in repr(handed)
    assert handed.fetch() == key
    local = Path(str(spark.conf.get("spark.local.dir")))
    for file in (file for file in local.rglob("*") if file.is_file()):
        assert secret not in file.read_bytes(), file


def test_a_pass_is_good_for_its_run_alone() -> None:
    key = et.SecretKey.generate()
    one, other = (handover.hand_over(key, "127.0.0.1", "127.0.0.1", 0) for _ in range(2))
    forged = handover.Pass(one.host, one.port, one.run, other._seal, "")
    with pytest.raises(et.InvalidError, match="cannot open the key"):
        forged.fetch()
    with pytest.raises(et.InvalidError, match="cannot open the key"):
        handover.Pass(one.host, one.port, "00" * 16, one._seal, "").fetch()
    with socket.create_connection((one.host, one.port), 5) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\n\r\n" + bytes(64))
        assert connection.recv(100) == b""
    assert one.fetch() == key, "strangers do not block it"
    with socket.create_server(("127.0.0.1", 0)) as server:
        nobody = server.getsockname()[1]
    with pytest.raises(et.EvertallyError, match="cannot reach the driver"):
        handover.Pass("127.0.0.1", nobody, one.run, one._seal, "").fetch()


def streamed(
    spark: SparkSession, folder: Path, ledger: Any, checkpoint: Path, sink: Any, key: et.SecretKey, **more: Any
) -> None:
    schema = "time timestamp, person long, group string, value long"
    frame = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))
    query = evertally.spark.stream(
        frame, key=key, ledger=ledger, checkpoint=checkpoint, sink=sink, delay="1 hour", shards=3,
        trigger={"availableNow": True},
        **{"rho": 0.5, "person": "person", "max_events": 20, **GROUPED, **COMMON, **more},
    )  # fmt: skip
    query.awaitTermination()
    if (problem := query.exception()) is not None:
        raise problem


def days(spark: SparkSession, table: pd.DataFrame, folder: Path, through: int) -> None:
    """Writes a file for each day."""
    folder.mkdir(exist_ok=True)
    for day in range(through):
        path = folder / f"day-{day:02}.parquet"
        if not path.exists():
            begin = pd.Timestamp("2024-01-01", tz="UTC") + datetime.timedelta(days=day)
            rows = table[(table["time"] >= begin) & (table["time"] < begin + datetime.timedelta(days=1))]
            rows.sample(frac=1, random_state=day).to_parquet(path, coerce_timestamps="us", index=False)
            # Spark reads files in the order of their modification times, to a millisecond.
            os.utime(path, (1.7e9 + day, 1.7e9 + day))


def test_a_stream_is_released_window_by_window(spark: SparkSession, tmp_path: Path) -> None:
    table = events(4000, 60)
    asked = {"rho": 0.5, "person": "person", "max_events": 20, **GROUPED, **COMMON}
    one = et.release(table, key=fresh(), **asked)
    key = tmp_path / "k.key"
    fresh().save(key)
    incoming, ledger, sink = tmp_path / "incoming", tmp_path / "ledger", tmp_path / "released"
    secret = et.SecretKey.load(key)
    days(spark, table, incoming, 4)
    streamed(spark, incoming, ledger, tmp_path / "check", sink, secret)
    first = pd.read_parquet(sink)
    assert 8 <= first["step"].max() <= 15, "steps that are not over are not released"
    days(spark, table, incoming, 10)
    streamed(spark, incoming, ledger, tmp_path / "check", sink, secret)
    whole = pd.read_parquet(sink)
    last = whole["step"].max()
    assert 35 <= last < 40
    same(one[one["step"] <= last], whole)
    # From the first event, with another checkpoint and another folder for the releases: the same bytes.
    elsewhere = tmp_path / "elsewhere"
    streamed(spark, incoming, ledger, tmp_path / "check 2", elsewhere, secret)
    one_way, other_way = ({file.name: file.read_bytes() for file in place.iterdir()} for place in (sink, elsewhere))
    both = one_way.keys() & other_way.keys()
    assert {name: one_way[name] for name in both} == {name: other_way[name] for name in both}
    # The last batch may or may not see its own watermark.
    assert len(one_way.keys() ^ other_way.keys()) <= 5 and len(both) >= 30
    # Without one event, with another plan, or with another ledger: refused, and nothing is published.
    (incoming / "day-02.parquet").unlink()
    for more, ledger_of, why in [
        ({}, ledger, "from different data"),
        ({"max_events": 21}, ledger, "another plan"),
        ({}, tmp_path / "other", "is published by a cluster"),
    ]:
        with pytest.raises(Exception, match=why):
            streamed(spark, incoming, ledger_of, tmp_path / f"check {why}", tmp_path / "nothing", secret, **more)
        assert not list((tmp_path / "nothing").glob("*8.parquet"))


def test_several_measures_are_released_window_by_window(spark: SparkSession, tmp_path: Path) -> None:
    """Also measures that remember people from step to step, of a period and of the last steps."""
    table, incoming, sink = events(1000, 60), tmp_path / "incoming", tmp_path / "released"
    asked: dict[str, Any] = {"measures": ["count", "mean", "distinct", "distinct(2)"], "per": "3d"}
    asked |= {"value": "value", "bounds": (-2, 5), "rho": 0.5, "person": "person", "max_events": 20}
    one = et.release(table, key=fresh(), **{**GROUPED, **COMMON, **asked})
    days(spark, table, incoming, 5)
    streamed(spark, incoming, tmp_path / "ledger", tmp_path / "check", sink, fresh(), **asked)
    whole = pd.read_parquet(sink)
    last = whole["step"].max()
    assert last >= 14
    same(one[one["step"] <= last], whole)


class Objects:
    """An object store with conditional writes, which fails before a given write."""

    def __init__(self) -> None:
        self.there: dict[str, bytes] = {}
        self.dies_at: str | None = None

    def create(self, name: str, data: bytes) -> bytes | None:
        if self.dies_at is not None and name.endswith(self.dies_at):
            self.dies_at = None
            raise OSError("the network is gone")
        if name in self.there:
            return self.there[name]
        self.there[name] = data
        return None

    def read(self, name: str) -> bytes | None:
        return self.there.get(name)

    def replace(self, name: str, data: bytes) -> None:
        self.there[name] = data

    def forget(self, name: str) -> None:
        self.there.pop(name, None)


def test_a_stream_goes_on_behind_a_store_of_objects(spark: SparkSession, tmp_path: Path) -> None:
    """With undeclared groups, a view, and events in the future; the store fails once in the middle."""
    asked: dict[str, Any] = {"group": "group", "groups": None, "discover_groups": True, "max_groups": 2}
    asked |= {"selection_delta": 1e-6}
    asked |= {"rho": 50.0, "allow_weak_budget": True, "person": "person", "max_events": 20, "view": "non-negative"}
    table = events(3000, 60)
    one = et.release(table, key=fresh(), **{**COMMON, **asked})
    incoming, objects, secret, shown = tmp_path / "incoming", Objects(), fresh(), tmp_path / "released"
    days(spark, table, incoming, 5)
    objects.dies_at = "steps/000000000012"
    with pytest.raises(Exception, match="the network is gone"):
        streamed(spark, incoming, objects, tmp_path / "check", shown, secret, **asked)
    assert pd.read_parquet(shown)["step"].max() < 12
    streamed(spark, incoming, objects, tmp_path / "check", shown, secret, **asked)
    whole = pd.read_parquet(shown)
    last = whole["step"].max()
    assert last > 8 and whole["group"].nunique() >= 2
    # A discovered group also has its earlier steps, with the step in which it was discovered.
    same(one[(one["step"] <= last) & one["group"].isin(whole["group"])], whole)


def test_a_service_is_ledger_and_publisher(spark: SparkSession, tmp_path: Path, running: Running) -> None:
    declared = {"stream": "counted", "start": "2024-01-01", "end": "2024-01-11", "every": "6h", "rho": 0.5}
    declared |= {"group-by": ["group"], "groups": list("abcde"), "person": "person", "max-events": 20}
    et.connect(running.url, running.operate).open(declared, closing="sums", public=True)
    service = et.connect(running.url, running.count).stream("counted")
    table, incoming = events(4000, 60), tmp_path / "incoming"
    days(spark, table, incoming, 6)

    def sent(checkpoint: str, **more: Any) -> None:
        schema = "time timestamp, person long, group string"
        frame = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(incoming))
        query = evertally.spark.stream(
            frame, sink=running.url, token=running.count, name="counted", key=fresh(), checkpoint=tmp_path / checkpoint,
            delay="1 hour", shards=3, trigger={"availableNow": True}, **more,
        )  # fmt: skip
        query.awaitTermination()
        if (problem := query.exception()) is not None:
            raise problem

    others: list[tuple[dict[str, Any], str]] = [({"rho": 0.5}, "omit rho"), ({"ledger": tmp_path}, "keeps the ledger")]
    for more, why in others:
        with pytest.raises(et.InvalidError, match=why):
            sent("none", **more)
    sent("check")
    first = service.releases(table="pandas")
    days(spark, table, incoming, 10)
    sent("check")
    released = service.releases(table="pandas")
    last = int(released["step"].max())
    assert first["step"].max() < 24 and 35 <= last < 40
    # The same as one process with the key of the service, which the cluster never has.
    asked = {"rho": 0.5, "person": "person", "max_events": 20, **GROUPED, **COMMON}
    one = et.release(table, key=running.key(), name="counted", **asked)
    same(one[one["step"] <= last], released[list(one.columns)])
    # From the first event again: nothing changes. Without some events: refused.
    sent("check again")
    assert service.releases(table="pandas")[: len(released)].equals(released)
    (incoming / "day-02.parquet").unlink()
    with pytest.raises(Exception, match="was accepted with other sums"):
        sent("check without")


class Handle:
    """The handle that Spark gives a shard: a value, a list, timers."""

    def __init__(self) -> None:
        self.value: Any = None
        self.blocks: list[Any] = []
        self.timers: set[int] = set()

    def getValueState(self, name: str, schema: str) -> Handle:
        return self

    getListState = getValueState  # noqa: N815

    def get(self) -> Any:
        return self.value

    def update(self, value: Any) -> None:
        self.value = value

    def registerTimer(self, expiry: int) -> None:
        self.timers.add(expiry)


class Blocks(Handle):
    def get(self) -> Any:
        return iter(self.blocks)

    def appendList(self, blocks: list[Any]) -> None:
        self.blocks += blocks

    def put(self, blocks: list[Any]) -> None:
        self.blocks = blocks

    def clear(self) -> None:
        self.blocks = []


class Timers:
    def __init__(self, now: str) -> None:
        self.now = int(pd.Timestamp(now, tz="UTC").timestamp() * 1000)

    def getCurrentWatermarkInMs(self) -> int:
        return self.now

    getCurrentProcessingTimeInMs = getCurrentWatermarkInMs  # noqa: N815


@pytest.mark.parametrize("clock", [False, True])
def test_a_shard_takes_nothing_in_for_steps_that_have_ended(clock: bool) -> None:
    import json

    from evertally._cluster import tasks
    from evertally.spark import _windows

    asked: dict[str, Any] = {"rho": 0.5, "person": "person", "max_events": 2, **GROUPED, **COMMON}
    given = {**{name: p.default for name, p in inspect.signature(et.release).parameters.items()}, **asked}
    for name in ("table", "key", "budget_file"):
        del given[name]
    work = et._evertally._ClusterWork.begin(et._keywords.to_json(given), fresh())
    shipped = tasks.Shipped(work.shipped(), handover.hand_over(fresh(), "127.0.0.1", "127.0.0.1", 0))
    assert json.loads(work.facts())["persons"]
    handle, waiting = Handle(), Blocks()
    shard = _windows.Shard(shipped, 2, 3_600_000 if clock else None)
    handle.getListState = lambda name, schema: waiting  # type: ignore[method-assign]
    shard.init(handle)  # type: ignore[arg-type]
    later = pd.Timedelta(hours=1) if clock else pd.Timedelta(0)

    def give(now: str, *times: str) -> list[tuple[int, bytes, int]]:
        reading = work.waiting_reader(1)
        given = pd.DataFrame({"time": pd.to_datetime(list(times), utc=True), "person": 7, "group": "a"})
        reading.read(pa.Table.from_pandas(given))
        blocks = pa.table(reading.take()).to_pylist()
        moment = str((pd.Timestamp(now) + later).strftime("%Y-%m-%dT%H:%M:%S"))
        rows = [(row.step, row.label, row.sum) for row in shard.handleInputRows((1,), iter(blocks), Timers(moment))]
        # Eight numbers are the digest of the persons whose events were kept in a step.
        assert sum(label[:1] == b"k" for _, label, _ in rows) in (0, 8)
        return [row for row in rows if row[1][:1] != b"k"]

    place, closed = b"g" + bytes(4), _windows.CLOSED
    # Steps of six hours. No step is over yet; the first two events of a person are kept, in whatever order they arrive.
    assert give("2024-01-01T05:00", "2024-01-01T08:00", "2024-01-01T03:00") == []
    assert give("2024-01-01T05:59", "2024-01-01T09:00") == []
    # The first step is over: the event at three counts. Another at four arrives too late.
    assert give("2024-01-01T06:00", "2024-01-01T04:00") == [(1, place, 1), (1, closed, 1)]
    assert give("2024-01-01T07:00", "2024-01-01T05:00", "2024-01-01T07:30") == []
    # The second step is over: the first of its three events is kept.
    [*counted, last] = give("2024-01-01T12:00")
    assert (counted, last) == ([(2, place, 1)], (2, closed, 1))
    assert waiting.blocks == [] and give("2024-01-01T12:00") == []
    other = _windows.Shard(shipped, 3)
    other.init(handle)  # type: ignore[arg-type]
    with pytest.raises(et.InvalidError, match="this checkpoint has 2 shards"):
        list(other.handleInputRows((1,), iter([]), Timers("2024-01-01T12:00")))
    with pytest.raises(et.InvalidError, match="this checkpoint has 2 shards"):
        list(other.handleExpiredTimer((1,), Timers("2024-01-01T18:00"), None))
    renamed = et._evertally._ClusterWork.begin(et._keywords.to_json({**given, "name": "another"}), fresh())
    pass_ = handover.hand_over(fresh(), "127.0.0.1", "127.0.0.1", 0)
    other = _windows.Shard(tasks.Shipped(renamed.shipped(), pass_), 2)
    other.init(handle)  # type: ignore[arg-type]
    with pytest.raises(et.InvalidError, match="this checkpoint is of stream 'main'"):
        list(other.handleInputRows((1,), iter([]), Timers("2024-01-01T12:00")))
    with pytest.raises(et.InvalidError, match="this checkpoint is of stream 'main'"):
        list(other.handleExpiredTimer((1,), Timers("2024-01-01T18:00"), None))
    at = {pd.Timestamp(moment, tz="UTC") + later for moment in ("2024-01-01T06:00", "2024-01-01T12:00")}
    assert handle.timers == {int(moment.timestamp() * 1000) for moment in at}


@pytest.mark.parametrize(
    ("bounds", "most", "most_in_a_step"),
    [
        ({"max_events": 6, "max_events_per_step": 2}, 6, 2),
        ({"max_events": 6, "max_groups": 2, "max_events_per_group": 4}, 6, 6),
        ({"max_events": 3, "per": "2d"}, 15, 3),
    ],
)
def test_neighbours_differ_by_what_is_kept_of_one_person(
    spark: SparkSession, bounds: dict[str, Any], most: int, most_in_a_step: int
) -> None:
    """Person 0 has half of all events. With and without these, with the same noise: the difference is exact, and within
    bounds."""
    table = events(3000, 40, seed=11)
    # Many at the same instant, in no order.
    table["time"] = table["time"].dt.floor("3h")
    asked = {"rho": 0.5, "mechanism": "binary", "person": "person", **bounds, **GROUPED, **COMMON}
    released = [
        evertally.spark.release(shuffled(spark, rows), key=fresh(), partitions=parts, **asked).toPandas()
        for rows, parts in ((table, 3), (table[table["person"] != 0], 5))
    ]
    one, two = (frame.pivot(index="step", columns="group", values="value") for frame in released)
    added = (one - two).diff().fillna(one - two)
    assert (added >= 0).all().all() and 0 < added.to_numpy().sum() <= most
    assert added.sum(axis=1).max() <= most_in_a_step
    if "max_groups" in bounds:
        assert (added.sum() > 0).sum() <= 2 and added.sum().max() <= 4
