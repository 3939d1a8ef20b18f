"""v-tumult/bin/python tumult.py FILE [mode ...]   -> JSON"""
import atexit, json, math, shutil, sys, time
import numpy as np
import common as c
from tmlt.analytics import (AddOneRow, AddRowsWithID, CountMechanism, KeySet, MaxGroupsPerID, MaxRowsPerGroupPerID,
                            MaxRowsPerID, PureDPBudget, QueryBuilder, RhoZCDPBudget, Session)
from tmlt.analytics.utils import cleanup

RHO = c.rho_for(c.EPS, c.DELTA)   # Gaussian only exists under zCDP in Tumult
MODES = {  # budget, constraints, is event level
    "laplace_m20_events": ("pure", [MaxRowsPerID(c.M)], False),
    "gaussian_m20_cells_x1": ("zcdp", [MaxGroupsPerID("cell", c.M), MaxRowsPerGroupPerID("cell", 1)], False),
    "laplace_m20_cells_x1": ("pure", [MaxGroupsPerID("cell", c.M), MaxRowsPerGroupPerID("cell", 1)], False),
    "gaussian_m20_events": ("zcdp", [MaxRowsPerID(c.M)], False),
    "laplace_event_level": ("pure", [], True),
    "gaussian_event_level": ("zcdp", [], True),
}
DEFAULT = ["laplace_m20_events", "gaussian_m20_cells_x1", "laplace_event_level", "gaussian_event_level"]

def query(spark, path, mode, infinite=False, info=False):
    kind, constraints, event = MODES[mode]
    B, x = (PureDPBudget, c.EPS) if kind == "pure" else (RhoZCDPBudget, RHO)
    budget = B(math.inf if infinite else x)
    # one column for the cell (group, day): MaxGroupsPerID takes a single column
    df = c.read_events(spark, path).selectExpr("person", f"`group` * {c.DAYS} + day as cell")
    if event: df = df.drop("person")
    s = Session.from_dataframe(budget, "events", df,
                               protected_change=AddOneRow() if event else AddRowsWithID("person"))
    q = QueryBuilder("events")
    for k in constraints: q = q.enforce(k)
    q = q.groupby(KeySet.from_dict({"cell": range(c.GROUPS * c.DAYS)})).count(
        name="n", mechanism=CountMechanism.LAPLACE if kind == "pure" else CountMechanism.GAUSSIAN)
    if info: return s._noise_info(q, budget)
    p = s.evaluate(q, budget).toPandas()
    noisy = np.zeros(c.GROUPS * c.DAYS)
    noisy[p["cell"].to_numpy()] = p["n"].to_numpy()
    noisy = noisy.reshape(c.GROUPS, c.DAYS)
    np.cumsum(noisy, axis=1)                       # the running counts (part of the query)
    return noisy

def std_of(info):
    i = info[0]; b = i["noise_parameter"]; b = float(b.to_float(round_up=True)) if hasattr(b, "to_float") else float(b)
    name = str(i["noise_mechanism"])
    if "GAUSS" in name: return math.sqrt(b)        # Core gives sigma^2
    q = math.exp(-1 / b)                           # two-sided geometric of scale b
    return math.sqrt(2 * q) / (1 - q)

def main(path, modes):
    spark, tmp = c.spark_session("tumult")
    try:
        c.head(path, 20_000, tmp + "/warm.parquet")
        full = c.truth(path)
        out = {"library": "Tumult Analytics", "versions": c.env("tmlt.analytics", "tmlt.core", "pyspark", "pandas", "numpy"),
               "file": path, "rows": int(full.sum()), "rho_for_eps1_delta1e-6": RHO, "modes": {}}
        for mode in modes:
            info = query(spark, tmp + "/warm.parquet", mode, info=True)
            t = time.time(); query(spark, tmp + "/warm.parquet", mode); w = time.time() - t
            a = c.cpu_marks(); noisy = query(spark, path, mode); k = c.cost(a, c.cpu_marks())
            # truncation uses a hash and is therefore repeatable: an infinite budget shows bounded counts (not timed)
            raw = full if MODES[mode][2] else query(spark, path, mode, infinite=True)
            out["modes"][mode] = {**k, "warmup_seconds": round(w, 2), "epsilon": c.EPS,
                                  "delta": 0 if MODES[mode][0] == "pure" else c.DELTA,
                                  "bounds": [str(k) for k in MODES[mode][1]] or "AddOneRow", "noise_info": str(info),
                                  **c.summarise(noisy, raw, full, std_of(info))}
            print(mode, k, file=sys.stderr, flush=True)
        print(json.dumps(out, indent=1))
    finally:
        cleanup(); spark.stop(); atexit.register(shutil.rmtree, tmp, True)

if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:] or DEFAULT)
