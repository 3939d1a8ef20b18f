"""The cost of privacy on Spark: a release compared with the same job without privacy, on one core and on two.

    python benches/spark.py make EVENTS FOLDER        synthetic events: 10^7 need 130 MB
    python benches/spark.py run FOLDER [CORES]        times, as JSON lines

Needs PySpark 4 and this package; the workers use the driver's Python.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

from pyspark.sql import SparkSession  # noqa: E402
from pyspark.sql import functions as F  # noqa: E402

DAYS, GROUPS = 30, 100
ROUNDS = 5


def session(cores: int) -> SparkSession:
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "16",
        "spark.driver.memory": "6g",
    }
    builder = SparkSession.builder.master(f"local[{cores}]")
    for name, setting in settings.items():
        builder = builder.config(name, setting)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def make(events: int, folder: str) -> None:
    """A hundred events per person on average, in groups of all sizes, at random times of a month, unsorted."""
    spark = session(2)
    number = F.col("id")
    micros = F.pmod(F.xxhash64(number, F.lit(1)), F.lit(DAYS * 86_400_000_000))
    person = F.pmod(F.xxhash64(number, F.lit(2)), F.lit(max(events // 100, 1)))
    share = F.pmod(F.xxhash64(number, F.lit(3)), F.lit(1 << 30)) / float(1 << 30)
    group = F.concat(F.lit("g"), F.floor(F.pow(F.lit(float(GROUPS)), share) - 1).cast("string"))
    columns = [
        F.timestamp_micros(F.lit(1_704_067_200_000_000) + micros).alias("time"),
        person.alias("person"),
        group.alias("group"),
    ]
    spark.range(0, events, 1, 16).select(*columns).write.mode("overwrite").parquet(folder)


def timed(works: dict[str, Callable[[], int]], cores: int) -> dict[str, float]:
    """Median seconds of each job. Jobs take turns, so that the load of a shared machine affects all of them."""
    seconds: dict[str, list[float]] = {what: [] for what in works}
    for number in range(ROUNDS + 1):
        for what, work in works.items():
            start = time.perf_counter()
            rows = work()
            if number > 0:  # the first round warms up
                seconds[what].append(round(time.perf_counter() - start, 2))
                line = {"what": what, "cores": cores, "seconds": seconds[what][-1], "rows": rows}
                print(json.dumps(line), flush=True)
    return {what: statistics.median(of) for what, of in seconds.items()}


def run(folder: str, cores: int) -> None:
    import evertally as et
    import evertally.spark

    spark = session(cores)
    events = spark.read.parquet(folder)
    common = {"start": "2024-01-01", "end": "2024-01-31", "every": "1h", "rho": 0.5}
    groups = {"group": "group", "groups": [f"g{number}" for number in range(GROUPS)]}
    persons = {"person": "person", "max_events": 50, "max_events_per_step": 2}

    def plain() -> int:
        hour = F.date_trunc("hour", "time")
        return len(events.groupBy(hour.alias("hour"), "group").count().collect())

    def release(**more: object) -> int:
        released = evertally.spark.release(events, key=et.SecretKey.generate(), **common, **groups, **more)
        rows = len(released.collect())
        evertally.spark.unpersist(released)
        return rows

    works = {"group and count": plain, "single events": release, "persons": lambda: release(**persons)}
    medians = timed(works, cores)
    without = medians.pop("group and count")
    ratios = {what: round(median / without, 2) for what, median in medians.items()}
    print(json.dumps({"cores": cores, "over the job without privacy": ratios}))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["make", events, folder]:
            make(int(float(events)), folder)
        case ["run", folder, *cores]:
            run(folder, int(cores[0]) if cores else 2)
        case _:
            sys.exit(__doc__)
