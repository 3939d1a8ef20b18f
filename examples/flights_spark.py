"""The flights from New York in 2013 on Apache Spark: first the whole year at once, then day by day as files come in.

    pip install './crates/py[spark]'            # and Java 17 or later
    python examples/flights_spark.py            # writes examples/out/spark/

Run it cell by cell, as in a notebook.
"""

# %% A session. The state store is for the second half, where events wait for the end of their day.
import os
import shutil
import sys
from pathlib import Path

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

import evertally as et
import evertally.spark
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

HERE = Path(__file__).parent
OUT = HERE / "out" / "spark"
STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.sql.shuffle.partitions", 4)
    .config("spark.ui.showConsoleProgress", False)
    .config("spark.sql.session.timeZone", "America/New_York")
    .config("spark.sql.streaming.stateStore.providerClass", STORE)
    .getOrCreate()
)
spark.sparkContext.setLogLevel("ERROR")
shutil.rmtree(OUT, ignore_errors=True)
OUT.mkdir(parents=True)

# %% The events, read in place. Flights without a tail number were all cancelled.
flights = spark.read.parquet(str(HERE / "flights-2013.parquet"))
flights.show(3)

# %% A key with its ledger: anyone with the key can remove the noise.
et.SecretKey.generate().save(OUT / "flights.key")

# %% The release and its privacy unit: declared, never derived from the data. The same keywords as `et.release`.
asked = {
    "start": "2013-01-01", "end": "2014-01-01", "time_zone": "America/New_York", "every": "1d", "missing": "skip",
    "group": "origin", "groups": ["EWR", "JFK", "LGA"],
    "person": "aircraft", "max_events": 300, "max_events_per_step": 8, "rho": 0.5,
}  # fmt: skip
plan = et.plan_release(**asked)
print(f"{plan.mechanism}, standard error at most {plan.max_std_error:.0f} flights")

# %% The cluster computes the release: person by person, group by group.
released = evertally.spark.release(flights, key=OUT / "flights.key", name="flights 2013", **asked)
released.orderBy("step", "origin").show(6)
released.write.csv(str(OUT / "flights.csv"), header=True)
evertally.spark.unpersist(released)

# %% The same events under the same name give the same bytes; other events are refused.
try:
    evertally.spark.release(flights.where("origin != 'LGA'"), key=OUT / "flights.key", name="flights 2013", **asked)
except et.InvalidError as refused:
    print(f"refused: {refused}")

# %% Now as a stream: a folder that receives one file a week, here of January and February. It is a separate release
# under another name, so an aircraft in both has spent the budget twice: in practice, choose one of the two.
incoming = OUT / "incoming"
week = F.date_trunc("week", "time")
weeks = flights.where("time < '2013-03-01'").withColumn("week", week).select("week").distinct().orderBy("week").collect()
for number, row in enumerate(weeks):
    of_week = flights.where(week == F.lit(row["week"]))
    of_week.coalesce(1).write.parquet(str(incoming / f"week={number:02}"))

# %% Each day is released once, an hour after its end, when the watermark has passed it. The key's own ledger delegates
# the stream to the folder `ledger`, which any number of drivers may share.
stream = spark.readStream.schema(flights.schema).option("maxFilesPerTrigger", 1).parquet(str(incoming / "week=*"))
query = evertally.spark.stream(
    stream, key=OUT / "flights.key", name="flights 2013, live", ledger=OUT / "ledger", checkpoint=OUT / "checkpoint",
    sink=OUT / "days", delay="1 hour", trigger={"availableNow": True}, **asked,
)  # fmt: skip
query.awaitTermination()
days = spark.read.parquet(str(OUT / "days"))
print(f"{days.count()} rows of {days.select('step').distinct().count()} days")
days.orderBy(F.desc("step"), "origin").show(3)
