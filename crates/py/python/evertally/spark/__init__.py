"""Private running counts and sums of Apache Spark DataFrames: the values of :func:`evertally.release`, on a cluster.

>>> import evertally.spark                                                               # doctest: +SKIP
>>> released = evertally.spark.release(                                                  # doctest: +SKIP
...     flights, key="flights.key", start="2013-01-01", end="2014-01-01", every="1h", time="departure",
...     group="origin", groups=["EWR", "JFK", "LGA"], person="tailnum", max_events=300, rho=0.5,
... )
>>> released.write.parquet("released")                                                   # doctest: +SKIP

Needs PySpark 4, pyarrow and this package on the driver and on every worker.
"""

from ._batch import release, unpersist
from ._stream import stream

__all__ = ["release", "stream", "unpersist"]
