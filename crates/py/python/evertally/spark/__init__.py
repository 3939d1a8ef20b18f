"""Private running counts and sums of DataFrames of Apache Spark: the values of :func:`evertally.release`, made by a cluster.

>>> import evertally.spark                                                               # doctest: +SKIP
>>> released = evertally.spark.release(                                                  # doctest: +SKIP
...     flights, key="flights.key", start="2013-01-01", end="2014-01-01", every="1h", time="departure",
...     group="origin", groups=["EWR", "JFK", "LGA"], person="tailnum", max_events=300, rho=0.5,
... )
>>> released.write.parquet("released")                                                   # doctest: +SKIP

Needs PySpark 4 and pyarrow, on the driver and on every worker, and this package there too.
"""

from ._batch import release, unpersist
from ._stream import stream

__all__ = ["release", "stream", "unpersist"]
