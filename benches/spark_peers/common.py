import math, os, platform, sys, tempfile
import numpy as np, pyarrow as pa, pyarrow.parquet as pq

DAYS, GROUPS, M, EPS, DELTA = 30, 100, 20, 1.0, 1e-6
START = "2024-01-01"

def spark_session(name):
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.sql import SparkSession
    tmp = tempfile.mkdtemp(prefix=name + "-")
    par = os.environ.get("PARTS", "8")
    s = (SparkSession.builder.master("local[2]").appName(name)
         .config("spark.driver.memory", os.environ.get("DRIVER_MEM", "8g"))
         .config("spark.sql.shuffle.partitions", par).config("spark.default.parallelism", par)
         .config("spark.sql.session.timeZone", "UTC").config("spark.ui.enabled", "false")
         .config("spark.driver.extraJavaOptions", "-Dio.netty.tryReflectionSetAccessible=true")
         .config("spark.sql.warehouse.dir", tmp + "/warehouse").config("spark.local.dir", tmp + "/local")
         .config("spark.python.worker.memory", os.environ.get("PYWORKER_MEM", "512m"))   # 512m is the default of Spark
         .config("spark.ui.showConsoleProgress", "false").getOrCreate())
    s.sparkContext.setLogLevel("ERROR")
    return s, tmp

def read_events(spark, path):
    """person, group, day (int 0..29) as a lazy Spark frame."""
    return spark.read.parquet(path).selectExpr(
        "person", "int(`group`) as `group`", f"datediff(to_date(time), date'{START}') as day")

def truth(path):
    out = np.zeros((GROUPS, DAYS), np.int64)
    t0 = np.datetime64(START, "us").astype(np.int64)
    for b in pq.ParquetFile(path).iter_batches(1_000_000, columns=["time", "group"]):
        day = (b.column(0).cast(pa.int64()).to_numpy() - t0) // 86_400_000_000
        out += np.bincount(b.column(1).to_numpy() * DAYS + day, minlength=GROUPS * DAYS).reshape(GROUPS, DAYS)
    return out

def head(path, rows, out):
    pq.write_table(pa.Table.from_batches([next(pq.ParquetFile(path).iter_batches(rows))]), out)

def err(noisy, ref):
    """Errors of running counts (prefix sums over days), arrays [group, day]."""
    e = np.cumsum(noisy - ref, axis=1, dtype=float)
    rms = np.sqrt((e ** 2).mean(axis=0))          # per step, RMS over the 100 groups
    return {"max_step_rms_over_groups": round(float(rms.max()), 2),
            "max_step_mean_abs_over_groups": round(float(np.abs(e).mean(axis=0).max()), 2),
            "mean_over_groups_of_rms_over_steps": round(float(np.sqrt((e ** 2).mean(axis=1)).mean()), 2)}

def summarise(noisy, bounded, full, std):
    return {"cell_noise_std_library": round(float(std), 4),
            "cell_noise_std_observed": round(float((noisy - bounded).std()), 4),
            "running_noise_std_last_step_theory": round(float(std) * math.sqrt(DAYS), 2),
            "err_vs_all_events": err(noisy, full), "err_vs_bounded_events": err(noisy, bounded),
            "bounding_only_err_vs_all": err(bounded, full),
            "events_kept_fraction": round(float(bounded.sum() / full.sum()), 4)}

def rho_for(eps, delta):
    """Largest zCDP rho that implies (eps, delta)-DP, Canonne-Kamath-Steinke 2020, Prop. 7 / Cor. 13."""
    a = 1 + np.exp(np.linspace(math.log(1e-3), math.log(1e4), 200_000))
    def d(rho): return math.exp(np.min((a - 1) * (a * rho - eps) + a * np.log1p(-1 / a) - np.log(a - 1)))
    lo, hi = 0.0, 10.0
    for _ in range(80):
        mid = (lo + hi) / 2
        lo, hi = (mid, hi) if d(mid) <= delta else (lo, mid)
    return lo

def env(*pkgs):
    from importlib.metadata import version
    return {"python": platform.python_version(), **{p: version(p) for p in pkgs}}

def cpu_marks():
    """(wall, CPU s of this process tree incl. JVM and Python workers, CPU s of the whole machine)"""
    import time
    hz = os.sysconf("SC_CLK_TCK"); kids, use = {}, {}
    for p in os.listdir("/proc"):
        if p.isdigit():
            try: f = open(f"/proc/{p}/stat").read().rsplit(")", 1)[1].split()
            except OSError: continue
            kids.setdefault(int(f[1]), []).append(int(p)); use[int(p)] = sum(map(int, f[11:15])) / hz
    todo, tot = [os.getpid()], 0.0
    while todo:
        p = todo.pop(); tot += use.get(p, 0); todo += kids.get(p, [])
    v = list(map(int, open("/proc/stat").readline().split()[1:9]))
    return time.time(), tot, (sum(v) - v[3] - v[4]) / hz

def cost(a, b):
    return {"seconds": round(b[0] - a[0], 2), "cpu_seconds": round(b[1] - a[1], 2),
            "cpu_seconds_of_others_meanwhile": round(b[2] - a[2] - (b[1] - a[1]), 2)}
