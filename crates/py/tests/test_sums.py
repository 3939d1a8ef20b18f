"""Sums that other engines have computed are released as by `evertally.release`."""

from __future__ import annotations

from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import evertally as et

duckdb = pytest.importorskip("duckdb")

DAYS: dict[str, Any] = {"start": "2024-01-01", "end": "2024-02-01", "every": "1d"}
GROUPED: dict[str, Any] = {"group": "airport", "groups": ["EWR", "JFK", "LGA"]}
FIGURES = ["value", "std_error", "lower", "upper"]


@pytest.fixture
def flights() -> pa.Table:
    """Events at three airports, one of which has none in the second half."""
    days = [f"2024-01-{1 + n % 31:02}" for n in range(2000)]
    airports = ["EWR" if n % 7 == 0 and n % 31 < 15 else ("JFK", "LGA")[n % 2] for n in range(2000)]
    ordered = sorted(zip(days, airports, strict=True))
    return pa.table({"time": [day for day, _ in ordered], "airport": [airport for _, airport in ordered]})


COUNTS = """
    SELECT airport, date_diff('day', DATE '2024-01-01', CAST(time AS DATE)) + 1 AS step, count(*) AS added
    FROM flights GROUP BY ALL
"""


@pytest.mark.parametrize("mechanism", ["binary", "smooth", "path-sum"])
def test_duckdb_counts_and_running_sums_are_released(flights: pa.Table, key: et.SecretKey, mechanism: str) -> None:
    plan = et.plan_release(rho=0.5, mechanism=mechanism, **DAYS, **GROUPED)
    expected = et.release(flights, key=key, rho=0.5, mechanism=mechanism, **DAYS, **GROUPED)
    engine = duckdb.connect()
    engine.register("flights", flights)
    grid = "SELECT airport, step FROM (VALUES ('EWR'), ('JFK'), ('LGA')) AS a(airport), range(1, 32) AS s(step)"
    running = engine.sql(
        f"""WITH counts AS ({COUNTS}), cells AS ({grid})
        SELECT airport, step, CAST(sum(coalesce(added, 0)) OVER (PARTITION BY airport ORDER BY step) AS BIGINT) AS sum
        FROM cells LEFT JOIN counts USING (airport, step) ORDER BY hash(airport, step)"""
    ).to_arrow_table()
    released = et.release_sums(running, plan=plan, key=key, group="airport")
    by = [("airport", "ascending"), ("step", "ascending")]
    assert released.sort_by(by).select(FIGURES).to_pydict() == expected.sort_by(by).select(FIGURES).to_pydict()
    # Any part of the sums, by any worker.
    part = et.release_sums(running.slice(10, 5), plan=plan, key=key, group="airport")
    assert part == released.slice(10, 5)


@pytest.mark.parametrize("mechanism", [None, "sqrt", "binary"])
def test_polars_steps_are_released_group_by_group(flights: pa.Table, key: et.SecretKey, mechanism: str | None) -> None:
    asked = {"rho": 0.5, "mechanism": mechanism, **DAYS, **GROUPED}
    plan = et.plan_release(**asked)
    expected = et.release(pl.DataFrame(flights), key=key, **asked).sort("airport", "step")
    day = pl.col("time").str.to_date()
    steps = (
        pl.DataFrame(flights)
        .group_by("airport", step=(day - pl.lit("2024-01-01").str.to_date()).dt.total_days() + 1)
        .agg(sum=pl.len())
    )
    parts = [
        et.release_steps(
            steps.filter(pl.col("airport").is_in(names)), plan=plan, key=key, group="airport", groups=names, through=31
        )
        for names in (["LGA"], ["EWR", "JFK"])
    ]
    released = pl.concat(parts).sort("airport", "step")
    assert released.select(FIGURES).equals(expected.select(FIGURES))


def test_one_sum_without_groups_is_that_of_a_counter(key: et.SecretKey) -> None:
    plan = et.plan(30, epsilon=1.0, bounds=(0, "9.99"), grid="0.01")
    counter = et.Counter(plan, key, "sales")
    expected = []
    for amount in (12.5, 0.0, 7.25):
        counter.add(amount)
        expected.append(counter.tick().value)
    table = pd.DataFrame({"day": [1, 3], "amount": [12.5, 7.25]})
    released = et.release_steps(table, plan=plan, key=key, name="sales", through=3, step="day", sum="amount")
    assert isinstance(released, pd.DataFrame) and list(released["value"]) == expected
    other = et.release_steps(table, plan=plan, key=key, name="other", through=3, step="day", sum="amount")
    assert not (other["value"] == expected).any()


def test_what_does_not_fit_is_refused(key: et.SecretKey) -> None:
    plan = et.plan(30, rho=0.5, mechanism="binary")
    table = {"step": [1, 2], "sum": [3, 4]}
    with pytest.raises(et.InvalidError, match="`sqrt`.*in order"):
        et.release_sums(pa.table(table), plan=et.plan(30, rho=0.5, mechanism="sqrt"), key=key)
    with pytest.raises(et.InvalidError, match="no step 31"):
        et.release_steps(pa.table(table), plan=plan, key=key, through=31)
    for bad, why in [
        ({"step": [1, 31], "sum": [3, 4]}, "row 2, column `sum`: there is no step 31"),
        ({"step": [1, 2], "sum": [3, -4]}, "row 2, column `sum`: .*cannot add up to -4"),
        ({"step": [1, None], "sum": [3, 4]}, "row 2, column `step`: .*is not a step number"),
        ({"step": [1, 2], "sum": [3, None]}, "row 2, column `sum`: the row has no sum"),
        ({"step": [1, 2], "total": [3, 4]}, "no column `sum`"),
    ]:
        with pytest.raises(et.TableError, match=why):
            et.release_sums(pa.table(bad), plan=plan, key=key)
    with pytest.raises(et.EvertallyError, match="the plan is for groups"):
        grouped = et.plan_release(rho=0.5, mechanism="binary", **DAYS, **GROUPED)
        et.release_sums(pa.table(table), plan=grouped, key=key)
    with pytest.raises(et.TableError, match="row 2, column `sum`: .*with another sum"):
        et.release_sums(pa.table({"step": [1, 1], "sum": [3, 4]}), plan=plan, key=key)
    with pytest.raises(et.InvalidError, match="named twice"):
        et.release_steps(
            pa.table({**table, "g": ["b", "b"]}), plan=plan, key=key, group="g", groups=["b", "b"], through=5
        )
    wrongs: list[dict[str, Any]] = [{"groups": "b", "group": "g"}, {"groups": ["b"]}, {"through": -1}]
    for wrong in wrongs:
        with pytest.raises(et.InvalidError, match="list of names|name these with group|no step -1"):
            et.release_steps(pa.table(table), plan=plan, key=key, **{"through": 5, **wrong})
    with pytest.raises(et.TableError, match="`a` is not among the groups"):
        et.release_steps(pa.table({**table, "g": ["b", "a"]}), plan=plan, key=key, group="g", groups=["b"], through=5)
    with pytest.raises(et.InvalidError, match="groups must be declared"):
        et.release_steps(pa.table({**table, "g": ["b", "a"]}), plan=plan, key=key, group="g", through=5)
    with pytest.raises(TypeError, match="__arrow_c_stream__"):
        et.release_sums([1, 2], plan=plan, key=key)
