"""python ours.py FILE [mode ...]   -> JSON, like the others; in an environment with this package and PySpark 4."""
import json, shutil, sys, time
import common as c
import evertally as et
import evertally.spark

MODES = {
    "laplace_m20_events": dict(person="person", max_events=c.M),
    "laplace_event_level": {},
}

def query(spark, path, mode):
    events = spark.read.parquet(path)
    released = evertally.spark.release(
        events, key=et.SecretKey.generate(), start=c.START, every="1d", steps=c.DAYS, epsilon=c.EPS, noise="laplace",
        group="group", groups=[str(g) for g in range(c.GROUPS)], **MODES[mode])
    rows = released.collect()
    evertally.spark.unpersist(released)
    return max(row["std_error"] for row in rows), len(rows)

def main(path, modes):
    spark, tmp = c.spark_session("ours")
    try:
        c.head(path, 20_000, tmp + "/warm.parquet")
        out = {"library": "evertally", "versions": c.env("pyspark"), "file": path, "modes": {}}
        for mode in modes:
            t = time.time(); query(spark, tmp + "/warm.parquet", mode); w = time.time() - t
            a = c.cpu_marks(); std, rows = query(spark, path, mode); k = c.cost(a, c.cpu_marks())
            out["modes"][mode] = {**k, "warmup_seconds": round(w, 2), "epsilon": c.EPS, "rows": rows,
                                  "largest_std_error_of_a_running_count": std}
            print(mode, k, file=sys.stderr, flush=True)
        print(json.dumps(out, indent=1))
    finally:
        spark.stop(); shutil.rmtree(tmp, ignore_errors=True)

if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:] or list(MODES))
