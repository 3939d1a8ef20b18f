"""Runs the peers benchmark: `python run.py --out results.json`. See README.md.

Each case runs in a separate process on one core, with every library limited to one thread.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

from case import Case
from settings import cases

HERE = Path(__file__).parent
ONE_THREAD = {
    name: "1" for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
} | {"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false", "JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": ""}
LIMIT_SECONDS = 180


def processor() -> str:
    """The name of the first processor, and its family and model, because virtual machines shorten the name."""
    fields: dict[str, str] = {}
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        fields.setdefault(name.strip(), value.strip())
    if "model name" not in fields:
        return platform.processor()
    if "cpu family" not in fields:
        return fields["model name"]
    return f"{fields['model name']} (family {fields['cpu family']}, model {fields['model']})"


def run_case(case: Case, core: int, seconds: float) -> dict:
    """The result of a case, or {"skipped": why}. A failed peer does not end the run; its last line is the reason."""
    request = json.dumps({"case": asdict(case), "core": core, "seconds": seconds})
    command = [sys.executable, str(HERE / "measure.py"), request]
    try:
        done = subprocess.run(
            command, cwd=HERE, env=os.environ | ONE_THREAD, capture_output=True, text=True, timeout=LIMIT_SECONDS
        )
    except subprocess.TimeoutExpired:
        return {"skipped": f"took longer than {LIMIT_SECONDS} s"}
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        return {"skipped": f"failed: {lines[-1]}"}
    return json.loads(done.stdout.splitlines()[-1])


def describe(result: dict) -> str:
    if "skipped" in result:
        return f"skipped: {result['skipped']}"
    busy = " (busy core)" if result["wall_ns"] > 1.1 * result["ns"] else ""
    return (
        f"{result['label']}: {result['ns']:.2f} ns, {result['peak_bytes'] / 2**20:.0f} MiB, "
        f"{result['rounds']} rounds{busy}"
    )


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Times other programs that generate noise for private running sums.")
    parser.add_argument("--out", type=Path, default=HERE / "results.json", help="file for the results (JSON)")
    parser.add_argument("--quick", action="store_true", help="fewer sizes and shorter rounds, under two minutes")
    parser.add_argument("--only", metavar="TEXT", help="only cases whose name contains this; others keep their results")
    parser.add_argument("--core", type=int, default=max(os.sched_getaffinity(0)), help="the core to run on")
    parser.add_argument(
        "--rust",
        type=Path,
        help='results of the Rust benches to show next to the peers: a JSON list of {"setting", "label", "horizon", '
        '"coordinates", "ns", "peak_bytes"}',
    )
    return parser.parse_args()


def main() -> None:
    args = arguments()
    seconds = 0.6 if args.quick else 2.0
    earlier = json.loads(args.out.read_text())["results"] if args.only and args.out.exists() else []
    results = {entry["name"]: entry for entry in earlier}
    began = time.monotonic()
    for case in cases(args.quick):
        if args.only and args.only not in case.name:
            continue
        result = run_case(case, args.core, seconds)
        print(f"{case.name}: {describe(result)}", flush=True)
        results[case.name] = {"name": case.name} | asdict(case) | result
    if args.rust:
        for row in json.loads(args.rust.read_text()):
            name = f"{row['setting']}/rust/{row['label']}/T{row['horizon']}/d{row['coordinates']}"
            results[name] = {"name": name, "peer": "rust", "variant": row["label"]} | row
    report = {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "processor": processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "quick": args.quick,
        "load": os.getloadavg()[0],
        "results": list(results.values()),
    }
    args.out.write_text(json.dumps(report, indent=1) + "\n")
    print(f"{time.monotonic() - began:.0f} s, {args.out}")


if __name__ == "__main__":
    main()
