"""v-pdp/bin/python pipelinedp.py FILE [mode ...]   -> JSON"""
import json, shutil, sys, time
import numpy as np
import common as c
import pipeline_dp
from pipeline_dp import combiners

# The only change to the library: the count combiner also returns the pre-noise (bounded) count,
# so that the error against the bounded counts can be computed.  3000 extra ints; the noise path is the library's.
LibCount = combiners.CountCombiner
class RawCount(LibCount):
    def compute_metrics(self, count):
        return {**LibCount.compute_metrics(self, count), "raw": count}
combiners.CountCombiner = RawCount

L, G = pipeline_dp.NoiseKind.LAPLACE, pipeline_dp.NoiseKind.GAUSSIAN
MODES = {  # noise, delta, bounds, is event level
    "laplace_m20_events": (L, 0.0, dict(max_contributions=c.M), False),
    "gaussian_m20_cells_x1": (G, c.DELTA, dict(max_partitions_contributed=c.M, max_contributions_per_partition=1), False),
    "laplace_m20_cells_x1": (L, 0.0, dict(max_partitions_contributed=c.M, max_contributions_per_partition=1), False),
    "gaussian_m20_events": (G, c.DELTA, dict(max_contributions=c.M), False),
    "laplace_event_level": (L, 0.0, dict(max_partitions_contributed=1, max_contributions_per_partition=1), True),
    "gaussian_event_level": (G, c.DELTA, dict(max_partitions_contributed=1, max_contributions_per_partition=1), True),
}
DEFAULT = ["laplace_m20_events", "gaussian_m20_cells_x1", "laplace_event_level", "gaussian_event_level"]

def query(spark, path, mode):
    noise, delta, bounds, event = MODES[mode]
    acct = pipeline_dp.NaiveBudgetAccountant(total_epsilon=c.EPS, total_delta=delta)
    eng = pipeline_dp.DPEngine(acct, pipeline_dp.SparkRDDBackend(spark.sparkContext))
    rdd = c.read_events(spark, path).rdd
    ext = pipeline_dp.DataExtractors(
        privacy_id_extractor=None if event else (lambda r: r[0]),
        partition_extractor=lambda r: (r[1], r[2]), value_extractor=lambda r: 0)
    par = pipeline_dp.AggregateParams(metrics=[pipeline_dp.Metrics.COUNT], noise_kind=noise, output_noise_stddev=True,
                                      contribution_bounds_already_enforced=event, **bounds)
    res = eng.aggregate(rdd, par, ext, [(g, d) for g in range(c.GROUPS) for d in range(c.DAYS)])
    acct.compute_budgets()
    noisy, raw = np.zeros((2, c.GROUPS, c.DAYS))
    std = None
    for (g, d), m in res.collect():
        noisy[g, d], raw[g, d], std = m.count, m.raw, m.count_noise_stddev
    np.cumsum(noisy, axis=1)                       # the running counts (part of the query)
    return noisy, raw, std

def main(path, modes):
    spark, tmp = c.spark_session("pdp")
    try:
        c.head(path, 20_000, tmp + "/warm.parquet")
        full = c.truth(path)
        out = {"library": "PipelineDP", "versions": c.env("pipeline-dp", "python-dp", "pyspark", "numpy"),
               "file": path, "rows": int(full.sum()), "modes": {}}
        for mode in modes:
            t = time.time(); query(spark, tmp + "/warm.parquet", mode); w = time.time() - t
            a = c.cpu_marks(); noisy, raw, std = query(spark, path, mode); k = c.cost(a, c.cpu_marks())
            noise, delta, bounds, event = MODES[mode]
            out["modes"][mode] = {**k, "warmup_seconds": round(w, 2), "epsilon": c.EPS, "delta": delta,
                                  "bounds": bounds, **c.summarise(noisy, raw, full, std)}
            print(mode, k, file=sys.stderr, flush=True)
        print(json.dumps(out, indent=1))
    finally:
        spark.stop(); shutil.rmtree(tmp, ignore_errors=True)

if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:] or DEFAULT)
