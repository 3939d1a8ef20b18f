"""The share of the budget that a pair of neighbours spends, computed from the tables that ``release`` returns.

Two tables released with one key have the same noise, so their difference is exact. With the covariance of the released
values it costs a share of the budget, which may not exceed 1. The Rust tests do the same through the library, the
program and the service, with more kinds of declarations (``crates/testkit/src/replay/spends.rs``).
"""

import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest

import evertally as et

CASES = 60
# The variance of a discrete Gaussian is smaller than its parameter, which determines the privacy, if that is near 1.
ROUNDING = 1e-4
GROUPS = ["a", "b", "c"]
BOUNDS = (-2, 5)

Event = tuple[int, str, str, float]


def declared(draw: random.Random) -> tuple[dict[str, Any], int]:
    """A declaration and its number of steps."""
    steps = draw.randint(2, 9)
    words: dict[str, Any] = {"every": "1d", "start": "2024-01-01", "steps": steps, "rho": draw.choice([0.05, 0.2])}
    if draw.random() < 0.8:
        words |= {"person": "who", "max_events": draw.randint(1, 4)}
        optional = {
            "max_events_per_step": draw.randint(1, 2),
            "min_gap": draw.randint(2, 3),
            "per": draw.randint(2, 4),
            "neighbours": "replace-one",
        }
        words |= {name: value for name, value in optional.items() if draw.random() < 0.3}
    if draw.random() < 0.5:
        words |= {"group": "where", "groups": GROUPS}
        if "person" in words and draw.random() < 0.4:
            words["max_groups"] = draw.randint(1, 2)
    if draw.random() < 0.5:
        words |= {"value": "amount", "bounds": BOUNDS}
        if "group" in words and draw.random() < 0.5:
            words["scales"] = [1, 2, 0.5]
    workload = draw.choice(["sum", "sum", "window(2)", "window(3)", "increments"])
    # All other mechanisms need a minimum number of steps, given by their parameters.
    mechanism = draw.choice([None, None, "binary", "sqrt", "path-sum", "input"])
    return words | {"workload": workload, "mechanism": mechanism, "noise": "gaussian"}, steps


def events(draw: random.Random, steps: int) -> list[Event]:
    """Events of four people, most of them by the first."""
    people = ["ann", "ann", "ann", "ben", "cem", "dee"]
    count = draw.randint(1, 20)
    rows = [
        (draw.randint(1, steps), draw.choice(people), draw.choice(GROUPS), draw.choice([5.0, 5.0, -2.0, 9.0]))
        for _ in range(count)
    ]
    return sorted([*rows, (draw.randint(1, steps), "ann", draw.choice(GROUPS), 5.0)])


def neighbour(draw: random.Random, words: dict[str, Any], rows: list[Event], steps: int) -> tuple[list[Event], int]:
    """The rows with one unit changed, and the number of changes in the plan's sense to which that amounts."""
    of_people = "person" in words
    chosen = draw.choice([row for row in rows if row[1] == "ann"])
    periods = words.get("per", steps)
    period = (chosen[0] - 1) // periods

    def is_of_unit(place: int) -> bool:
        step, person = rows[place][:2]
        return person == "ann" and (step - 1) // periods == period if of_people else place == rows.index(chosen)

    def elsewhere(row: Event) -> Event:
        before = period * periods
        step = before + draw.randint(1, min(periods, steps - before)) if of_people else draw.randint(1, steps)
        return (step, row[1], draw.choice(GROUPS), draw.choice([5.0, -2.0]))

    replaces = "neighbours" in words
    change = draw.choice(["replace", "move"] if replaces else ["remove", "remove", "replace", "move"])
    own = [place for place in range(len(rows)) if is_of_unit(place)]
    others = [row for place, row in enumerate(rows) if place not in own]
    if change == "remove":
        return others, 1
    moved = own if change == "replace" else own[:1]
    changed = [elsewhere(rows[place]) if place in moved else rows[place] for place in own]
    return sorted(others + changed), 1 if replaces else 2


def table(rows: list[Event]) -> pd.DataFrame:
    times = [f"2024-01-{step:02}T12:00:00" for step, *_ in rows]
    return pd.DataFrame({
        "time": pd.Series(times, dtype=str),
        "who": pd.Series([row[1] for row in rows], dtype=str),
        "where": pd.Series([row[2] for row in rows], dtype=str),
        "amount": pd.Series([row[3] for row in rows], dtype=float),
    })


def spent(plan: et.Plan, steps: int, words: dict[str, Any], difference: npt.NDArray[np.float64]) -> float:
    """The cost of a difference of two tables, in ρ."""
    covariance = np.array([[plan.covariance(i, j) for j in range(1, steps + 1)] for i in range(1, steps + 1)])
    scales = words.get("scales", [1] * difference.shape[1])
    columns = [difference[:, place] / scale for place, scale in enumerate(scales)]
    return sum(float(column @ np.linalg.solve(covariance, column)) for column in columns) / 2


@pytest.mark.parametrize("first", range(0, CASES, 10))
def test_no_pair_spends_more_than_the_budget(tmp_path: Path, first: int) -> None:
    shares = []
    for number in range(first, first + 10):
        draw = random.Random(number)
        words, steps = declared(draw)
        rows = events(draw, steps)
        changed, times = neighbour(draw, words, rows, steps)
        original = tmp_path / f"{number}"
        original.mkdir()
        et.SecretKey.generate().save(original / "key")
        tables = []
        for which, data in [("ours", rows), ("theirs", changed)]:
            # A copy of everything that the key has recorded: it allows other data with the same noise, a forbidden use.
            copied = shutil.copytree(original, tmp_path / f"{number} {which}")
            tables.append(pd.DataFrame(et.release(table(data), key=copied / "key", through=None, **words)))
        ours, theirs = tables
        hidden = {"value", "lower", "upper"}
        visible = [name for name in ours.columns if name not in hidden]
        pd.testing.assert_frame_equal(ours[visible], theirs[visible])
        difference = (ours["value"] - theirs["value"]).to_numpy(dtype=float).reshape(steps, -1)
        share = spent(et.plan_release(**words), steps, words, difference) / (words["rho"] * times**2)
        assert share <= 1 + ROUNDING, (number, words, rows, changed)
        shares.append(share)
    assert max(shares) > 0.2, "no pair of these differs by much"
