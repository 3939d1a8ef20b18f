"""The least error that jax-privacy's optimisers reach for units that take part in several steps, and ours for the same
unit: `python optima.py`. See README.md.

A setting has a number of steps, a unit of at most k participations at least b steps apart, an objective, and a family
with its size. Every error is the squared error of prefix sums, the largest or the mean over steps, times the squared
sensitivity to the unit, for noise of variance 1. Rows of programs that are not installed, or not requested, stay
unchanged in optima.csv.
"""

from __future__ import annotations

import argparse
import csv
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
SETTINGS = 200
SEED = 38
FAMILIES = ("blt", "bands", "dense")
COLUMNS = ("steps", "participations", "separation", "objective", "family", "size")
PEERS = ("jax-privacy", "evertally", "evertally, counts", "evertally, vectors")


class Setting(NamedTuple):
    steps: int
    participations: int
    separation: int
    objective: str
    family: str
    size: int


def settings(count: int = SETTINGS) -> list[Setting]:
    """Random settings, always the same. Dense ones are short: their optimisers work on whole matrices."""
    draw = random.Random(SEED)
    found: list[Setting] = []
    while len(found) < count:
        family = FAMILIES[len(found) % len(FAMILIES)]
        steps = round(2 ** draw.uniform(4, 6 if family == "dense" else 9))
        separation = round(2 ** draw.uniform(1, 7))
        most = -(-steps // separation)
        participations = min(round(2 ** draw.uniform(1, 5)), most)
        objective = draw.choice(["max", "mean"])
        size = draw.randint(1, 4) if family == "blt" else min(separation, steps)
        if participations > 1:
            found.append(Setting(steps, participations, separation, objective, family, size))
    return found


def jax_privacy() -> dict[str, Callable[[Setting], float]]:
    """The optimiser of each family."""
    import jax

    jax.config.update("jax_enable_x64", True)
    import jax.numpy as jnp
    from jax_privacy.matrix_factorization import buffered_toeplitz, dense, sensitivity, toeplitz

    def reduction(one: Setting) -> Any:
        return jnp.mean if one.objective == "mean" else jnp.max

    def blt(one: Setting) -> float:
        unit = {"n": one.steps, "min_sep": one.separation, "max_participations": one.participations}
        found = buffered_toeplitz.optimize(
            **unit, error=one.objective, min_buffers=one.size, max_buffers=one.size, max_optimizer_steps=250
        )
        return float(buffered_toeplitz.LossFn.build_min_sep(**unit, error=one.objective).loss(found))

    def bands(one: Setting) -> float:
        found = toeplitz.optimize_banded_toeplitz(one.steps, one.size, reduction_fn=reduction(one))
        error = reduction(one)(toeplitz.per_query_error(strategy_coef=found, n=one.steps))
        squared = toeplitz.minsep_sensitivity_squared(
            found, min_sep=one.separation, max_participations=one.participations, n=one.steps
        )
        return float(error * squared)

    def whole(one: Setting) -> float:
        found = dense.optimize(
            one.steps, bands=one.size, equal_norm=True, reduction_fn=reduction(one), max_optimizer_steps=1000
        )
        squared = sensitivity.get_sensitivity_banded(found, one.separation, one.participations) ** 2
        return float(reduction(one)(dense.per_query_error(strategy_matrix=found)) * squared)

    return {"blt": blt, "bands": bands, "dense": whole}


def evertally() -> dict[str, Callable[[Setting], float]]:
    """The mechanism of the same name, and the plans for counts and for vectors of the same unit."""
    import evertally as et
    import evertally.training as training

    names = {"blt": "blt(buffers={})", "bands": "epoch-bands(bands={})", "dense": "epoch-bands(bands={})"}

    def vectors(one: Setting, mechanism: str | None) -> float:
        plan = training.plan_vector(
            one.steps,
            rho=0.5,
            objective=one.objective,
            participations=one.participations,
            separation=one.separation,
            mechanism=mechanism,
            max_memory=1 << 20,
        )
        return (plan.mean_std_error if one.objective == "mean" else plan.max_std_error) ** 2

    def counts(one: Setting) -> float:
        plan = et.plan(
            one.steps,
            rho=0.5,
            objective=one.objective,
            max_events=one.participations,
            max_events_per_step=1,
            min_gap=one.separation,
        )
        return (plan.mean_std_error if one.objective == "mean" else plan.max_std_error) ** 2

    return {
        "evertally": lambda one: vectors(one, names[one.family].format(one.size)),
        "evertally, counts": counts,
        "evertally, vectors": lambda one: vectors(one, None),
    }


def rows_of(peer: str, path: Path, seconds: float) -> None:
    """Computes the missing errors of one program, for some time."""
    try:
        solve = jax_privacy() if peer == "jax-privacy" else evertally()
    except ImportError as error:
        print(f"skipping {peer}, its rows stay unchanged: {error}")
        return
    began = time.monotonic()
    for one in settings():
        rows = read(path)
        row = rows.setdefault(one, {})
        if peer in row or time.monotonic() - began > seconds:
            continue
        start = time.monotonic()
        try:
            value = solve[one.family](one) if peer == "jax-privacy" else solve[peer](one)
            row[peer] = f"{value:.6g}"
        except (ArithmeticError, AssertionError, RuntimeError, ValueError) as error:
            print(f"{peer} has no result for {one}: {error}")
            row[peer] = "none"
        print(*one, peer, row[peer], f"{time.monotonic() - start:.1f} s", flush=True)
        write(rows, path)


def read(path: Path) -> dict[Setting, dict[str, str]]:
    if not path.exists():
        return {}
    rows: dict[Setting, dict[str, str]] = {}
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            numbers = [int(row[name]) for name in COLUMNS[:3]]
            one = Setting(*numbers, row["objective"], row["family"], int(row["size"]))
            rows[one] = {peer: row[peer] for peer in PEERS if row[peer]}
    return rows


def write(rows: dict[Setting, dict[str, str]], path: Path) -> None:
    with open(path, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*COLUMNS, *PEERS])
        for one in settings():
            if row := rows.get(one):
                writer.writerow([*one, *(row.get(peer, "") for peer in PEERS)])


def ratios(rows: dict[Setting, dict[str, str]], ours: str, family: str) -> list[float]:
    """Our errors over jax-privacy's, in increasing order."""
    found = []
    for one, row in rows.items():
        try:
            pair = float(row[ours]), float(row["jax-privacy"])
        except (KeyError, ValueError):
            continue
        if one.family == family and 0 < pair[1] < float("inf"):
            found.append(pair[0] / pair[1])
    return sorted(found)


def table(rows: dict[Setting, dict[str, str]]) -> str:
    """Markdown: the distribution of the ratios by family of the peer."""
    heads = ["peer's optimum", "ours", "settings", "least", "median", "largest", "above 1.001"]
    lines = ["| " + " | ".join(heads) + " |", "|---|---" + "|--:" * 5 + "|"]
    for family in FAMILIES:
        for ours in PEERS[1:]:
            if found := ratios(rows, ours, family):
                numbers = [f"{number:.4f}" for number in (found[0], found[len(found) // 2], found[-1])]
                above = sum(number > 1.001 for number in found)
                lines.append("| " + " | ".join([family, ours, str(len(found)), *numbers, str(above)]) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--peers", nargs="+", default=PEERS, choices=PEERS)
    parser.add_argument("--seconds", type=float, default=600.0, help="longest time for each program (default: 600)")
    parser.add_argument("--out", type=Path, default=HERE / "optima.csv")
    args = parser.parse_args()
    for peer in args.peers:
        rows_of(peer, args.out, args.seconds)
    print(table(read(args.out)))


if __name__ == "__main__":
    main()
