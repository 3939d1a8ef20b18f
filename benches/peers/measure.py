"""Measures one case in this process and prints one line of JSON. Started by `run.py`, one process per case.

Time: one warm-up round (first touch of memory, compilation), unless it is a whole run that takes very long, which is
then itself the result; then rounds until there are enough or the time is used up. The result is the median processor
time of the process on its core, which other load on the machine disturbs least; wall time is also recorded. Memory: the
highest resident size in the timed rounds minus the resident size after the peer's imports, so that a library is not
charged for its own code or for memory used by compilation.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
import statistics
import sys
import time
from pathlib import Path

from case import Case, Unavailable, Work

LEAST_ROUNDS = 3
LONG = 3


def resident(field: str) -> int:
    """Bytes, from /proc: `VmRSS` is the resident size now, `VmHWM` the highest since it was last reset."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {field}")


def forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def timed(work: Work, whole: bool, seconds: float) -> list[tuple[float, float]]:
    """Processor and wall seconds of each round: at least one, or three if they fit into twice the requested time."""
    forget_peak()
    first = timed_round(work)
    if whole and first[1] > LONG * seconds:
        return [first]  # the warm-up was a small part of it
    forget_peak()
    least = max(1, min(LEAST_ROUNDS, int(2 * seconds / first[1])))
    rounds: list[tuple[float, float]] = []
    end = time.perf_counter() + seconds
    while len(rounds) < work.rounds and (len(rounds) < least or time.perf_counter() < end):
        rounds.append(timed_round(work))
    return rounds


def timed_round(work: Work) -> tuple[float, float]:
    before = time.process_time(), time.perf_counter()
    work.round()
    return time.process_time() - before[0], time.perf_counter() - before[1]


def measure(case: Case, seconds: float) -> dict:
    module = importlib.import_module(f"peer.{case.peer}")
    baseline = resident("VmRSS")
    work = module.prepare(case)
    rounds = timed(work, case.steps == case.horizon, seconds)
    processor, wall = ([1e9 * time / work.coordinate_steps for time in times] for times in zip(*rounds))
    return {
        "label": work.label,
        "ns": statistics.median(processor),
        "ns_least": min(processor),
        "ns_most": max(processor),
        "wall_ns": statistics.median(wall),
        "rounds": len(rounds),
        "peak_bytes": max(resident("VmHWM") - baseline, 0),
        "note": work.note,
        "versions": {name: importlib.metadata.version(name) for name in module.PACKAGES},
    }


def main() -> None:
    request = json.loads(sys.argv[1])
    os.sched_setaffinity(0, {request["core"]})
    case = Case(**request["case"])
    try:
        result = measure(case, request["seconds"])
    except (ImportError, importlib.metadata.PackageNotFoundError) as missing:
        result = {"skipped": f"not installed: {missing}"}
    except Unavailable as reason:
        result = {"skipped": str(reason)}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
