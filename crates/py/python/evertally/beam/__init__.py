"""Private running counts and sums of Apache Beam pipelines: the values of :func:`evertally.release`.

>>> import apache_beam, evertally.beam                                                   # doctest: +SKIP
>>> release = evertally.beam.Release(                                                    # doctest: +SKIP
...     "sums.arrow", key="flights.key", start="2013-01-01", end="2014-01-01", every="1h", time="departure",
...     group="origin", groups=["EWR", "JFK", "LGA"], person="tailnum", max_events=300, rho=0.5,
... )
>>> with apache_beam.Pipeline() as pipeline:                                             # doctest: +SKIP
...     pipeline | apache_beam.io.ReadFromParquetBatched("flights-*.parquet") | release
>>> released = release.publish()                                                         # doctest: +SKIP

Needs apache-beam, pyarrow and this package where the pipeline is made and on every worker.
"""

from ._release import Release

__all__ = ["Release"]
