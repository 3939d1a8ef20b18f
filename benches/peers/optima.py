"""The least error that the optimisers of jax-privacy and opake reach for units that take part in several steps, and
ours for the same unit: `python optima.py`. See README.md.

A setting has a number of steps, a unit of at most k participations at least b steps apart, an objective, and a family
with its size. Every error is the squared error of prefix sums, the largest or the mean over steps, times the squared
sensitivity to the unit, for noise of variance 1. Rows of programs that are not installed, or not requested, stay
unchanged in optima.csv. Several processes can work on one file, each on its own programs or families.
"""

from __future__ import annotations

import argparse
import csv
import fcntl
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
SETTINGS = 200
SEED = 38
FAMILIES = ("blt", "bands", "dense")
COLUMNS = ("steps", "participations", "separation", "objective", "family", "size")
OWN = ("evertally", "evertally, counts", "evertally, vectors")
OTHERS = ("jax-privacy", "opake")
PEERS = (*OTHERS, *OWN)
CLOSE = 1.002  # a ratio of squared errors above this one counts as lost


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


def opake() -> dict[str, Callable[[Setting], float]]:
    """Its optimisers of BLTs and of banded Toeplitz matrices. For dense settings, which it cannot optimise, the best
    of its matrices with as many bands."""
    import numpy as np
    from opake.api.dpftrl.noise import _blt_math, _toeplitz
    from opake.dpftrl.noise import bisr_strategy, bsr_strategy
    from promises import column_lengths, toeplitz_variances

    def reduced(one: Setting, variances: Any) -> float:
        return float(variances.mean() if one.objective == "mean" else variances.max())

    def unit(one: Setting) -> dict[str, int]:
        return {"min_sep": one.separation, "max_participations": one.participations}

    def blt(one: Setting) -> float:
        found = _blt_math.optimize(
            n=one.steps, **unit(one), error=one.objective, min_buffers=one.size, max_buffers=one.size
        )
        column = _blt_math.toeplitz_coefs(found, one.steps)
        squared = float(_toeplitz.minsep_sensitivity_squared(column, **unit(one)))
        return reduced(one, toeplitz_variances(column.numpy(), one.steps)) * squared

    def bands(one: Setting) -> float:
        loss = _toeplitz.mean_loss if one.objective == "mean" else _toeplitz.max_loss
        column = _toeplitz.optimize(one.steps, one.size, loss_fn=loss)
        squared = float(_toeplitz.minsep_sensitivity_squared(column, **unit(one), n=one.steps))
        return reduced(one, toeplitz_variances(column.numpy(), one.steps)) * squared

    def closed(one: Setting, strategy: Any) -> float:
        column = np.asarray(strategy.coefficients(n_steps=one.steps, **unit(one)), np.float64)[: one.steps]
        scales = column_lengths(column, one.steps) if getattr(strategy, "normalized", False) else None
        squared = strategy.sensitivity(n_steps=one.steps, **unit(one)) ** 2
        return reduced(one, toeplitz_variances(column, one.steps, scales)) * squared

    def best(one: Setting) -> float:
        width = max(one.size, 2)
        strategies = [bisr_strategy(bandwidth=width, normalized=normalized) for normalized in (False, True)]
        strategies.append(bsr_strategy(bandwidth=width, alpha=1.0, beta=0.0))
        return min(bands(one), *(closed(one, strategy) for strategy in strategies))

    return {"blt": blt, "bands": bands, "dense": best}


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


def rows_of(peer: str, path: Path, seconds: float, families: tuple[str, ...] = FAMILIES) -> None:
    """Computes the missing errors of one program, for some time."""
    try:
        solve = {"jax-privacy": jax_privacy, "opake": opake}.get(peer, evertally)()
    except (ImportError, TypeError) as error:  # opake 0.16 raises a TypeError on Python 3.11
        print(f"skipping {peer}, its rows stay unchanged: {error}")
        return
    began = time.monotonic()
    rows = read(path)
    for one in settings():
        if one.family not in families or peer in rows.get(one, {}) or time.monotonic() - began > seconds:
            continue
        start = time.monotonic()
        try:
            value = f"{solve[peer if peer in OWN else one.family](one):.6g}"
        except (ArithmeticError, AssertionError, RuntimeError, ValueError) as error:
            print(f"{peer} has no result for {one}: {error}")
            value = "none"
        print(*one, peer, value, f"{time.monotonic() - start:.1f} s", flush=True)
        with locked(path):
            rows = read(path)
            rows.setdefault(one, {})[peer] = value
            write(rows, path)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keeps other processes from changing the file."""
    with open(path, "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def read(path: Path) -> dict[Setting, dict[str, str]]:
    if not path.exists():
        return {}
    rows: dict[Setting, dict[str, str]] = {}
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            numbers = [int(row[name]) for name in COLUMNS[:3]]
            one = Setting(*numbers, row["objective"], row["family"], int(row["size"]))
            rows[one] = {peer: row[peer] for peer in PEERS if row.get(peer)}
    return rows


def write(rows: dict[Setting, dict[str, str]], path: Path) -> None:
    with open(path, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*COLUMNS, *PEERS])
        for one in settings():
            if row := rows.get(one):
                writer.writerow([*one, *(row.get(peer, "") for peer in PEERS)])


def ratios(rows: dict[Setting, dict[str, str]], peer: str, ours: str, family: str) -> dict[Setting, float]:
    """Our errors over those of another program, the largest first."""
    found = {}
    for one, row in rows.items():
        try:
            pair = float(row[ours]), float(row[peer])
        except (KeyError, ValueError):
            continue
        if one.family == family and 0 < pair[1] < float("inf"):
            found[one] = pair[0] / pair[1]
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def table(rows: dict[Setting, dict[str, str]]) -> str:
    """Markdown: the distribution of the ratios by program and family."""
    heads = ["program", "its optimum", "ours", "settings", "least", "median", "largest", f"above {CLOSE}"]
    lines = ["| " + " | ".join(heads) + " |", "|---|---|---" + "|--:" * 5 + "|"]
    for peer in OTHERS:
        for family in FAMILIES:
            for ours in OWN:
                if found := list(ratios(rows, peer, ours, family).values()):
                    numbers = [f"{number:.4f}" for number in (found[-1], found[len(found) // 2], found[0])]
                    above = sum(number > CLOSE for number in found)
                    lines.append("| " + " | ".join([peer, family, ours, str(len(found)), *numbers, str(above)]) + " |")
    return "\n".join(lines)


def lost(rows: dict[Setting, dict[str, str]]) -> str:
    """The settings in which another program's optimum is better than our mechanism with as many buffers or bands, or
    than our plan for vectors, and how our numbers compare."""
    lines = []
    for peer in OTHERS:
        for family in FAMILIES:
            by = {ours: ratios(rows, peer, ours, family) for ours in OWN}
            for one in rows:
                found = {ours: by[ours][one] for ours in OWN if one in by[ours]}
                if any(ratio > CLOSE for ratio in found.values()):
                    lines.append(" ".join([peer, *map(str, one), *(f"{ours}: {r:.4f}" for ours, r in found.items())]))
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--peers", nargs="+", default=PEERS, choices=PEERS)
    parser.add_argument("--families", nargs="+", default=FAMILIES, choices=FAMILIES)
    parser.add_argument("--seconds", type=float, default=600.0, help="longest time for each program (default: 600)")
    parser.add_argument("--out", type=Path, default=HERE / "optima.csv")
    args = parser.parse_args()
    for peer in args.peers:
        rows_of(peer, args.out, args.seconds, tuple(args.families))
    rows = read(args.out)
    print(table(rows), lost(rows), sep="\n\n")


if __name__ == "__main__":
    main()
