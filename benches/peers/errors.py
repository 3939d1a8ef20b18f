"""The smallest error of prefix sums that each program reaches for the same promise: `python errors.py`. See README.md.

Rows of programs that are not installed or not requested stay unchanged in errors.csv.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import itertools
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from promises import Run, TrainingOption

HERE = Path(__file__).parent
STEPS = 2000
PARTICIPATIONS = (1, 4, 10)
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
PEERS = ("evertally", "jax-privacy", "opake", "Opacus")
PLACE = ("participations", "epsilon", "peer")
FAST = ("Poisson", "cyclic", "fixed", "random allocation", "per-epoch")  # samplings of the options that take seconds


def module_of(peer: str) -> Any:
    """The module of a peer, or None if it is not installed."""
    try:
        return importlib.import_module(f"promises.of_{peer.lower().replace('-', '_')}")
    except (ImportError, TypeError) as error:  # opake 0.16 raises a TypeError on Python 3.11
        print(f"skipping {peer}, its rows stay unchanged: {error}")
        return None


def found(peer: str, run: Run, slow: bool) -> Iterator[dict[str, Any]]:
    """A row for each option of a program; the seconds are the time from one to the next."""
    module = module_of(peer)
    if module is None or (slow and not hasattr(module, "slow_options")):
        return
    options: Iterator[TrainingOption] = module.slow_options(run) if slow else module.options(run)
    began = time.monotonic()
    for option in options:
        yield {
            "participations": int(run.participations),
            "epsilon": run.epsilon,
            "peer": option.peer,
            "sampling": option.sampling,
            "matrix": option.matrix,
            "multiplier": f"{option.multiplier:.5g}",
            "error": f"{option.error:.5g}",
            "promise": option.promise,
            "seconds": f"{time.monotonic() - began:.1f}",
        }
        began = time.monotonic()


def identity(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in (*PLACE, "sampling", "matrix"))


def read(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    with open(path, newline="") as file:
        rows: list[dict[str, Any]] = list(csv.DictReader(file))
    return [row | {"participations": int(row["participations"]), "epsilon": float(row["epsilon"])} for row in rows]


def write(rows: list[dict[str, Any]], path: Path) -> None:
    order = sorted(rows, key=lambda row: (row["participations"], row["epsilon"], float(row["error"])))
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(order)


def table(rows: list[dict[str, Any]]) -> str:
    """Markdown: the smallest error of each program; the last column has opake's options with sampled promises.
    errors.csv names the option."""
    heads = ["participations", "ε", "DP-SGD", "evertally", "jax-privacy", "opake", "opake, from samples"]
    lines = ["| " + " | ".join(heads) + " |", "|--:" * len(heads) + "|"]
    for participations, epsilon in itertools.product(PARTICIPATIONS, EPSILONS):
        mine = [row for row in rows if (row["participations"], row["epsilon"]) == (participations, epsilon)]

        def best(some: Iterable[dict[str, Any]]) -> str:
            return min((f"{float(row['error']):.2f}" for row in some), key=float, default="")

        cells = [str(participations), f"{epsilon:g}"]
        cells += [best(row for row in mine if (row["sampling"], row["matrix"]) == ("Poisson", "none"))]
        for peer in ("evertally", "jax-privacy", "opake"):
            cells += [best(row for row in mine if (row["peer"], row["promise"]) == (peer, "bound"))]
        cells += [best(row for row in mine if row["promise"] != "bound")]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--peers", nargs="+", default=PEERS, choices=PEERS)
    parser.add_argument("--participations", nargs="+", type=int, default=PARTICIPATIONS, help="expected, in 2000 steps")
    parser.add_argument("--epsilons", nargs="+", type=float, default=EPSILONS)
    parser.add_argument("--slow", action="store_true", help="run only options that take minutes to hours each")
    parser.add_argument("--out", type=Path, default=HERE / "errors.csv")
    args = parser.parse_args()
    for peer, participations, epsilon in itertools.product(args.peers, args.participations, args.epsilons):
        new = []
        for row in found(peer, Run(STEPS, participations, epsilon), args.slow):
            new.append(row)
            print(*row.values(), sep="; ", flush=True)
        replaced = {identity(row) for row in new}
        if not args.slow:  # the search may now find another number of bands
            old = [row for row in read(args.out) if all(row[name] == new[0][name] for name in PLACE)] if new else []
            replaced |= {identity(row) for row in old if row["sampling"].startswith(FAST)}
        kept = [row for row in read(args.out) if identity(row) not in replaced]
        if kept or new:
            write(kept + new, args.out)
    print(table(read(args.out)))


if __name__ == "__main__":
    main()
