"""python generate.py ROWS OUT.parquet [EVENTS_PER_PERSON=100]   (fixed seed)

time   timestamp[us], no zone, sorted, uniform over 30 days from 2024-01-01
person int64, uniform over ROWS/EVENTS_PER_PERSON persons (so ~Poisson events each)
group  int32 0..99, Zipf: P(g) ~ 1/(g+1)
"""
import sys
import numpy as np, pyarrow as pa, pyarrow.parquet as pq

DAYS, GROUPS, SEED = 30, 100, 20240101
def main(rows, out, per_person=100):
    r = np.random.default_rng(SEED)
    t = np.sort(r.integers(0, DAYS * 86_400_000_000, rows))
    t += np.datetime64("2024-01-01", "us").astype(np.int64)
    person = r.integers(0, max(1, rows // per_person), rows, dtype=np.int64)
    p = 1.0 / np.arange(1, GROUPS + 1); p /= p.sum()
    group = np.minimum(np.searchsorted(np.cumsum(p), r.random(rows)), GROUPS - 1).astype(np.int32)
    pq.write_table(pa.table({"time": pa.array(t, pa.timestamp("us")), "person": person, "group": group}),
                   out, row_group_size=250_000)

if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 100)
