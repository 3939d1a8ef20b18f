"""Releases of tables of events equal those of the program, for every kind of table."""

import csv
import datetime as dt
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import evertally as et

DAILY: dict[str, Any] = {
    "start": "2013-01-01",
    "end": "2013-02-01",
    "every": "1d",
    "time_zone": "America/New_York",
    "group": "origin",
    "groups": ["EWR", "JFK", "LGA"],
    "person": "aircraft",
    "max_events": 30,
    "max_events_per_step": 3,
    "missing": "skip",
    "outside": "skip",
    "rho": 0.5,
    "name": "flights",
}


@pytest.fixture(scope="module")
def flights(examples: Path) -> pa.Table:
    table = pyarrow.parquet.read_table(examples / "flights-2013.parquet")
    return table.slice(0, 30_000)


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    path = tmp_path / "flights.key"
    et.SecretKey.generate().save(path)
    return path


def rows_of_program(program: str, key: Path, events: Path, options: dict[str, Any]) -> list[dict[str, str]]:
    """The rows that the program writes for the same arguments."""
    out = key.parent / "released.csv"
    flags = {"group": "group-by", "name": "stream"}
    arguments = [program, "release", str(events), "--key", str(key), "--out", str(out), "--no-plot", "--quiet"]
    arguments += [] if "through" in options else ["--all"]
    for name, value in options.items():
        text = ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
        arguments.append(f"--{flags.get(name, name.replace('_', '-'))}={text}")
    subprocess.run(arguments, check=True)
    with out.open(newline="", encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


def assert_same(released: pa.Table, rows: list[dict[str, str]]) -> None:
    assert released.column_names == list(rows[0])
    assert released.num_rows == len(rows)
    for ours, theirs in zip(released.to_pylist(), rows, strict=True):
        for column, text in theirs.items():
            value = ours[column]
            same = float(text) == value if isinstance(value, (int, float)) else text == str(value)
            assert same, (column, value, text)


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"value": "delay", "bounds": (-60, 180)},
        {"value": "delay", "bounds": (0, 90), "grid": "0.5", "mechanism": "sqrt"},
        {"rho": None, "epsilon": 1.0, "rest": "other", "groups": ["JFK"]},
        {"rho": None, "epsilon": 1.0, "delta": 1e-6, "objective": "mean", "through": "2013-01-15", "confidence": 0.5},
    ],
)
def test_values_are_exactly_those_of_the_program(
    flights: pa.Table, tmp_path: Path, key_file: Path, program: str, change: dict[str, Any]
) -> None:
    options = {name: value for name, value in (DAILY | change).items() if value is not None}
    events = tmp_path / "events.parquet"
    pyarrow.parquet.write_table(flights, events)
    rows = rows_of_program(program, key_file, events, options)
    ours = et.release(flights.set_column(0, "time", flights["time"].cast(pa.string())), key=str(key_file), **options)
    assert_same(ours, rows)


def test_the_example_with_text_times(examples: Path, key_file: Path, program: str) -> None:
    sample = examples / "flights-sample.csv"
    options: dict[str, Any] = {
        "start": "2013-01-01", "steps": 24, "every": "1h", "time_zone": "America/New_York", "epsilon": 0.5,
        "group": "origin", "groups": ["EWR", "JFK", "LGA"],
    }  # fmt: skip
    rows = rows_of_program(program, key_file, sample, options)
    as_text = pyarrow.csv.ConvertOptions(column_types={"time": pa.string()})
    table = pyarrow.csv.read_csv(sample, convert_options=as_text)
    assert_same(et.release(table, key=key_file, **options), rows)


def test_all_kinds_of_tables_give_the_same(flights: pa.Table, key: et.SecretKey) -> None:
    expected = et.release(flights, key=key, **DAILY)
    assert isinstance(expected, pa.Table)
    assert expected.schema.field("time").type == pa.timestamp("us", "America/New_York")
    assert [str(field.type) for field in expected.schema][1:3] == ["string", "uint64"]
    chunked = pa.concat_tables([flights.slice(0, 7), flights.slice(7, 20_000), flights.slice(20_007)])
    assert et.release(chunked, key=key, **DAILY).equals(expected)
    coded = flights.set_column(1, "origin", flights["origin"].dictionary_encode())
    assert et.release(coded, key=key, **DAILY).equals(expected)

    frame = et.release(flights.to_pandas(), key=key, **DAILY)
    assert isinstance(frame, pd.DataFrame)
    assert frame["value"].tolist() == expected["value"].to_pylist()
    assert frame["time"].iloc[0] == pd.Timestamp("2013-01-01", tz="America/New_York")
    categories = flights.to_pandas().astype({"origin": "category"})
    assert et.release(categories, key=key, **DAILY).equals(frame)
    indexed = flights.to_pandas().set_index("time")
    assert et.release(indexed, key=key, **DAILY).equals(frame)

    polars = et.release(pl.DataFrame(flights), key=key, **DAILY)
    assert isinstance(polars, pl.DataFrame)
    assert polars["value"].to_list() == expected["value"].to_pylist()
    assert polars.columns == expected.column_names

    class Foreign:
        def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
            return flights.__arrow_c_stream__(requested_schema)

    other: Any = et.release(Foreign(), key=key, **DAILY)
    assert isinstance(other, et.ArrowTable) and len(other) == expected.num_rows
    assert other.column_names == expected.column_names and "93 rows" in repr(other)
    assert pa.table(other).equals(expected)


def test_times_come_back_as_they_are(key: et.SecretKey) -> None:
    options: dict[str, Any] = {"start": dt.date(2024, 1, 1), "steps": 2, "every": "1d", "epsilon": 1.0}
    day = dt.datetime(2024, 1, 2)
    for times, first in [
        (pa.array(["2024-01-02"]), "2024-01-01"),
        (pa.array([day.date()]), dt.date(2024, 1, 1)),
        (pa.array([day]), dt.datetime(2024, 1, 1)),
        (pa.array([day], pa.timestamp("ns")), dt.datetime(2024, 1, 1)),
        (pa.array([day.replace(tzinfo=dt.timezone.utc)]), dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc)),
    ]:
        released = et.release(pa.table({"time": times}), key=key, name=str(times.type), **options)
        assert released["time"][0].as_py() == first
    dates = pa.table({"time": pa.array([day.date()])})
    half_days = options | {"every": "12h", "steps": 4, "date_only": "midnight"}
    hourly = et.release(dates, key=key, name="hourly", **half_days)
    assert hourly["time"][1].as_py() == dt.datetime(2024, 1, 1, 12)
    aware = options | {"start": dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc)}
    assert et.release(pa.table({"time": ["2024-01-02"]}), key=key, name="aware", **aware).num_rows == 2


def test_numbers_are_times_where_their_unit_is_declared(key: et.SecretKey) -> None:
    second = int(dt.datetime(2024, 1, 2, tzinfo=dt.timezone.utc).timestamp())
    options: dict[str, Any] = {"start": "2024-01-01", "steps": 3, "every": "1d", "epsilon": 20.0, "key": key}
    seconds = et.release(pa.table({"time": [second] * 100}), time_format="epoch-seconds", **options)
    millis = et.release(pa.table({"time": [1000 * second] * 100}), time_format="epoch-millis", **options)
    assert seconds.equals(millis) and seconds["time"].to_pylist() == ["2024-01-01", "2024-01-02", "2024-01-03"]
    # The noise has a scale of at most 0.2: 50 is 250 scales.
    assert abs(seconds["value"][0].as_py()) < 50 < seconds["value"][1].as_py()
    with pytest.raises(et.TableError, match="time_format"):
        et.release(pa.table({"time": [second]}), **options)


def test_several_group_columns(key: et.SecretKey) -> None:
    events = pl.DataFrame({"time": ["2024-01-01"] * 3, "a": ["x", "x", "y"], "b": [1, 2, 2]})
    released = et.release(
        events, key=key, start="2024-01-01", steps=1, every="1d", epsilon=10.0,
        group=["a", "b"], groups=[("x", 1), ("x", 2)], rest="other",
    )  # fmt: skip
    assert released.select("a", "b").rows() == [("x", "1"), ("x", "2"), ("other", "other")]


def simple(values: int = 3) -> pa.Table:
    return pa.table({"time": ["2024-01-01"] * values, "x": list(range(values))})


SIMPLE: dict[str, Any] = {"start": "2024-01-01", "steps": 5, "every": "1d", "epsilon": 1.0}


def test_the_ledger_refuses_other_data_under_one_name(tmp_path: Path) -> None:
    path = tmp_path / "k.key"
    key = et.SecretKey.generate()
    first = et.release(simple(), key=key, **SIMPLE)
    assert et.release(simple(), key=key, **SIMPLE).equals(first)
    with pytest.raises(et.InvalidError, match="different data.*another name"):
        et.release(simple(4), key=key, **SIMPLE)
    with pytest.raises(et.InvalidError, match="another plan"):
        et.release(simple(), key=key, **SIMPLE | {"epsilon": 2.0})
    key.save(path)
    for known in (key, path, et.SecretKey.load(path)):
        assert et.release(simple(), key=known, **SIMPLE).equals(first)
        with pytest.raises(et.InvalidError, match="different data"):
            et.release(simple(4), key=known, **SIMPLE)
    assert not et.release(simple(4), key=path, name="else", **SIMPLE).equals(first)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"time": "when"}, "no column `when`"),
        ({"value": "x"}, r"needs bounds=\(low, high\)"),
        ({"bounds": (0, 1)}, "needs value"),
        ({"value": "x", "bounds": (0, 1, 2)}, "two numbers"),
        ({"value": "x", "bounds": (0, 1), "out_of_bounds": "refuse"}, 'row 3.*out_of_bounds="clamp"|clamp'),
        ({"group": "x"}, "no group is declared"),
        ({"group": "x", "groups": ["0"]}, "row 2, column `x`: `1` is not a declared group"),
        ({"group": "x", "groups": "0"}, "`1` is not a declared group"),
        ({"groups": ["0"]}, "groups and rest need group"),
        ({"group": "x", "groups": ["1"]}, "declare it with groups, or give rest a name"),
        ({"group": "time", "groups": ["a"]}, "name of a column of the release"),
        ({"group": ["x", "y"], "groups": [("a",)]}, "has 1 names"),
        ({"person": "x"}, "max_events"),
        ({"person": "x", "max_events": 2, "per": "12h"}, "per 12h would cut the step"),
        ({"person": "x", "max_events": 2, "max_groups": 2}, "max_groups needs group"),
        ({"start": "2025-01-01"}, 'outside="skip"'),
        ({"start": "yesterday"}, "start `yesterday`"),
        ({"every": "1 fortnight"}, "fortnight"),
        ({"end": "2024-01-03"}, "end or steps|not both"),
        ({"steps": None}, "end, steps or unbounded"),
        ({"epsilon": None}, "budget is needed"),
        ({"budget": et.Budget.pure(1.0)}, "not both"),
        ({"confidence": 2.0}, "confidence"),
        ({"missing": "ignore"}, "ignore"),
        ({"mechanism": "magic"}, "magic"),
    ],
)
def test_what_does_not_fit_is_refused_in_python_words(key: et.SecretKey, change: dict[str, Any], message: str) -> None:
    options = {name: value for name, value in (SIMPLE | change).items() if value is not None}
    with pytest.raises(et.InvalidError, match=message) as caught:
        et.release(simple(), key=key, **options)
    assert "--" not in str(caught.value)


def test_bad_rows_name_row_and_column(key: et.SecretKey) -> None:
    unsorted = pa.table({"time": ["2024-01-02", "2024-01-01"]})
    with pytest.raises(et.TableError, match="row 2, column `time`.*sort_buffer"):
        et.release(unsorted, key=key, **SIMPLE)
    assert et.release(unsorted, key=key, sort_buffer=2, **SIMPLE).num_rows == 5
    with pytest.raises(et.TableError, match="row 1, column `time`"):
        et.release(pa.table({"time": ["soon"]}), key=key, **SIMPLE)
    with pytest.raises(et.TableError, match="type"):
        et.release(pa.table({"time": [[1, 2]]}), key=key, **SIMPLE)
    with pytest.raises(TypeError, match="__arrow_c_stream__"):
        et.release([1, 2, 3], key=key, **SIMPLE)  # type: ignore[type-var]
    with pytest.raises(TypeError, match="every must be a string"):
        et.release(simple(), key=key, **(SIMPLE | {"every": dt.timedelta(days=1)}))
    for series in (pd.Series(["2024-01-01"], name="time"), pl.Series("time", ["2024-01-01"])):
        with pytest.raises(TypeError, match="to_frame"):
            et.release(series, key=key, **SIMPLE)  # type: ignore[type-var]
    with pytest.raises(TypeError, match="collect"):
        et.release(pl.LazyFrame({"time": ["2024-01-01"]}), key=key, **SIMPLE)  # type: ignore[type-var]


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, pa.table])
def test_a_missing_column_is_told_with_those_there_are(key: et.SecretKey, kind: Any) -> None:
    events = kind({"when": ["2024-01-01"], "origin": ["JFK"]})
    with pytest.raises(et.TableError, match=r"no column `wen` \(did you mean `when`\?\); it has `when`, `origin`"):
        et.release(events, key=key, **(SIMPLE | {"time": "wen"}))
    with pytest.raises(et.TableError, match=r"no column `orgin` \(did you mean `origin`\?\)"):
        et.release(events, key=key, **(SIMPLE | {"time": "when", "group": "orgin", "groups": ["JFK"]}))


def test_the_plan_of_a_release_is_known_before() -> None:
    options = {name: value for name, value in DAILY.items() if name != "name"}
    plan = et.plan_release(**options)
    assert plan.horizon == 31 and plan.unit == "person (max_events=30, max_events_per_step=3)"
    assert plan.meaning["group-by"] == "origin" and plan.meaning["time-zone"] == "America/New_York"


def test_bounds_start_anew_in_each_period(key: et.SecretKey) -> None:
    days = ["2024-01-30", "2024-01-31", "2024-01-31", "2024-02-01", "2024-02-01", "2024-02-02"]
    events = pa.table({"time": days, "who": ["ann"] * 6, "where": ["a", "a", "b", "a", "b", "b"]})
    options: dict[str, Any] = {
        "start": "2024-01-30", "steps": 4, "every": "1d", "rho": 1e6, "allow_weak_budget": True, "person": "who",
        "group": "where", "groups": ["a", "b"],
    }  # fmt: skip
    whole = et.release(events, key=key, name="whole", max_events=2, **options)
    assert whole["value"].to_pylist() == [1, 0, 2, 0, 2, 0, 2, 0]
    monthly = et.release(events, key=key, name="monthly", max_events=2, per="month", **options)
    assert monthly["value"].to_pylist() == [1, 0, 2, 0, 3, 1, 3, 1]
    groups = et.release(events, key=key, name="groups", max_events_per_group=1, max_groups=2, per=2, **options)
    assert groups["value"].to_pylist() == [1, 0, 1, 1, 2, 2, 2, 2]
    plan = et.plan_release(max_events=2, per="month", min_gap=2, **options)
    assert plan.unit == 'person (max_events=2, min_gap=2, per="1mo")' and plan.meaning["per"] == "1mo"


def test_several_workloads_have_a_column(key: et.SecretKey) -> None:
    events = pa.table({"time": ["2024-01-01", "2024-01-02", "2024-01-02", "2024-01-09"]})
    options: dict[str, Any] = {"start": "2024-01-01", "steps": 9, "every": "1d", "rho": 1e6, "allow_weak_budget": True}
    both = et.release(events, key=key, name="both", workload=["sum", "window(7d)"], **options)
    assert both.column_names[:2] == ["time", "workload"]
    values: dict[str, list[int]] = {name: [] for name in ("sum", "window(7d)")}
    for row in both.to_pylist():
        values[row["workload"]].append(round(row["value"]))
    assert values == {"sum": [1, 3, 3, 3, 3, 3, 3, 3, 4], "window(7d)": [1, 3, 3, 3, 3, 3, 3, 2, 1]}


def test_measures_have_a_column(key: et.SecretKey) -> None:
    events = pa.table({"time": ["2024-01-01", "2024-01-02", "2024-01-02"], "size": [1.0, 2.0, 6.0]})
    options: dict[str, Any] = {"start": "2024-01-01", "steps": 2, "every": "1d", "rho": 1e6, "allow_weak_budget": True}
    options |= {"value": "size", "bounds": (0, 10), "grid": "0.001", "measures": ["count", "mean"]}
    both = et.release(events, key=key, name="measures", **options)
    assert both.column_names[:2] == ["time", "measure"] and both["measure"].to_pylist() == ["count", "mean"] * 2
    assert both["value"].to_pylist() == pytest.approx([1, 1, 3, 3], abs=0.05)


def test_an_empty_table_has_all_its_steps(key: et.SecretKey) -> None:
    empty = pa.table({"time": pa.array([], pa.string())})
    assert et.release(empty, key=key, **SIMPLE).num_rows == 5


def test_numpy_numbers_are_numbers(key: et.SecretKey) -> None:
    options = SIMPLE | {"epsilon": np.float64(1.0), "steps": np.int64(5)}
    assert et.release(simple(), key=key, **options).equals(et.release(simple(), key=key, **SIMPLE))


def test_a_key_from_bytes_must_say_what_it_has_published(tmp_path: Path) -> None:
    made = et.SecretKey.generate()
    data, path, ledger = made.expose_bytes(), tmp_path / "k.key", tmp_path / "elsewhere.ledger"
    unknown = et.SecretKey.from_bytes(data)
    with pytest.raises(et.InvalidError, match="its past releases are unknown"):
        et.release(simple(), key=unknown, **SIMPLE)
    with pytest.raises(et.InvalidError, match="its past releases are unknown"):
        unknown.save(path)
    with pytest.raises(et.InvalidError, match="there is no ledger"):
        et.release(simple(), key=et.SecretKey.from_bytes(data, ledger=ledger), **SIMPLE)
    assert list(tmp_path.iterdir()) == []

    # Every object with the same ledger knows what the others have published.
    first = et.SecretKey.from_bytes(data, ledger=ledger, published_nothing=True)
    released = et.release(simple(), key=first, **SIMPLE)
    again = et.SecretKey.from_bytes(data, ledger=ledger)
    assert et.release(simple(), key=again, **SIMPLE).equals(released)
    with pytest.raises(et.InvalidError, match="different data"):
        et.release(simple().slice(1), key=again, **SIMPLE)
    with pytest.raises(et.InvalidError, match="a second one"):
        again.save(path)
    with pytest.raises(et.InvalidError, match="another key"):
        other = et.SecretKey.from_bytes(bytes(range(32)), ledger=ledger, published_nothing=True)
        et.release(simple(), key=other, **SIMPLE)
    assert list(tmp_path.iterdir()) == [ledger]

    # This process has published with the key, and knows its ledger.
    with pytest.raises(et.InvalidError, match=f"has published releases with the key, and its ledger is {ledger}"):
        et.SecretKey.from_bytes(data, published_nothing=True)

    # Next to a key file it is the same ledger, in the format of the program.
    saved = f"import evertally as et; et.SecretKey.from_bytes({data!r}, published_nothing=True).save({str(path)!r})"
    subprocess.run([sys.executable, "-c", saved], check=True, timeout=60)
    assert et.release(simple(), key=path, **SIMPLE).equals(released)


def test_releases_spend_the_budget_of_their_source(tmp_path: Path, program: str) -> None:
    budget = tmp_path / "visits.budget"
    made = [program, "budget", "new", str(budget), "--name", "visits", "--unit", "event", "--epsilon", "1.5"]
    subprocess.run(made, check=True, capture_output=True)
    first, second = et.SecretKey.generate(), et.SecretKey.generate()
    released = et.release(simple(), key=first, budget_file=budget, **SIMPLE)
    assert et.release(simple(), key=first, budget_file=budget, **SIMPLE).equals(released)
    with pytest.raises(et.InvalidError, match=r"ε = 0\.5 of ε = 1\.5 is left"):
        et.release(simple(), key=second, budget_file=budget, **SIMPLE)
    et.release(simple(), key=second, budget_file=budget, **SIMPLE | {"epsilon": 0.5})
    shown = subprocess.run([program, "budget", "show", budget, "--json"], check=True, capture_output=True, text=True)
    reply = json.loads(shown.stdout)
    assert (reply["spent"], reply["left"], len(reply["streams"])) == ({"epsilon": 1.5}, {"epsilon": 0.0}, 2)


def test_groups_that_nobody_declared(key: et.SecretKey) -> None:
    """Groups of many persons are released from their first step on, and others not at all."""
    start = dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc)
    rows = [(start + dt.timedelta(days=day, minutes=n), "JFK-LAX") for day in range(12) for n in range(50)]
    rows += [(start + dt.timedelta(days=day, hours=9), f"own {day}") for day in range(12)]
    rows.sort()
    events = pa.table({"when": [row[0] for row in rows], "route": [row[1] for row in rows]})
    keywords: dict[str, Any] = {
        "start": "2024-01-01", "steps": 12, "every": "1d", "time": "when", "group": "route", "rho": 1.0,
        "through": "2024-01-13", "name": "routes", "discover_groups": True, "selection_delta": 1e-7,
        "select_every": 5,
    }
    released = pa.table(et.release(events, key=key, **keywords)).to_pylist()
    assert [row["step"] for row in released] == list(range(1, 13))
    assert {row["route"] for row in released} == {"JFK-LAX"}
    assert abs(released[-1]["value"] - 600) < 60
    plan = et.plan_release(**{name: value for name, value in keywords.items() if name not in ("time", "through")})
    assert plan.guarantee.selection_delta == 1e-7 and plan.guarantee.pure_epsilon is None
    assert plan.selection is not None and plan.selection["shown_almost"] > plan.selection["shown_half"] > 5
    assert et.Plan.from_json(plan.to_json()).digest == plan.digest
    with pytest.raises(et.InvalidError, match="no ε bounds a ratio to 0"):
        et.plan_release(start="2024-01-01", steps=12, every="1d", group="route", epsilon=1.0, discover_groups=True,
                        selection_delta=1e-7)


def test_date_and_time_of_day_in_two_columns(key: et.SecretKey) -> None:
    hours: dict[str, Any] = {"start": "2024-01-01", "steps": 24, "every": "1h", "rho": 1e6, "allow_weak_budget": True}
    columns: dict[str, Any] = {"date": "day", "time_of_day": "clock"}
    for number, (days, clocks) in enumerate(
        [
            (pa.array(["2024-01-01"] * 2), pa.array(["9:05", "9:30 PM"])),
            (pa.array([dt.date(2024, 1, 1)] * 2), pa.array([dt.time(9, 5), dt.time(21, 30)])),
        ]
    ):
        table = pa.table({"day": days, "clock": clocks})
        released = et.release(table, key=key, name=f"clock {number}", workload="increments", **columns, **hours)
        counts = [round(value) for value in released["value"].to_pylist()]
        assert [hour for hour, count in enumerate(counts) if count == 1] == [9, 21]
    with pytest.raises(et.TableError, match="date=column time_of_day=column"):
        et.release(table, key=key, name="date", time="day", **hours)


def test_rows_without_a_time_are_skipped_if_declared(key: et.SecretKey) -> None:
    days: dict[str, Any] = {"start": "2024-01-01", "steps": 2, "every": "1d", "rho": 1e6, "allow_weak_budget": True}
    table = pa.table({"time": pa.array([dt.date(2024, 1, 1), None], pa.date32())})
    with pytest.raises(et.TableError, match='missing="skip"'):
        et.release(table, key=key, name="refused", **days)
    released = et.release(table, key=key, name="skipped", missing="skip", **days)
    assert round(released["value"].to_pylist()[-1]) == 1


def test_asserted_bounds_are_planned_and_not_enforced(flights: pa.Table) -> None:
    """The noise is that of enforced bounds, every event counts, and plan and declaration call it an assumption."""
    common: dict[str, Any] = {
        name: value for name, value in DAILY.items() if name not in ("person", "max_events", "max_events_per_step")
    }
    bounds: dict[str, Any] = {
        "assert_max_events": 30,
        "assert_max_events_per_step": 3,
        "asserted_by": "the airline",
    }
    asserted, enforced = et.plan_release(**common, **bounds), et.plan_release(**DAILY)
    assert asserted.std_error(31) == enforced.std_error(31) and asserted.guarantee.rho == enforced.guarantee.rho
    assert asserted.unit == "person (assert_max_events=30, assert_max_events_per_step=3)"
    assert (asserted.meaning["person-bounds"], asserted.meaning["asserted-by"]) == ("asserted", "the airline")
    exact = common | {"rho": 1e6, "allow_weak_budget": True}
    released = et.release(flights, key=et.SecretKey.generate(), **exact, **bounds)
    everything = et.release(flights, key=et.SecretKey.generate(), **exact)
    assert np.abs(np.array(released["value"]) - np.array(everything["value"])).max() < 2
    stream = et.Stream.from_keywords(**common, **bounds)
    assert stream.unit == et.AssertedPerson(**bounds) and stream.plan().digest == asserted.digest
    assert et.Stream.from_json(stream.to_json()) == stream
    for wrong in ({"person": "aircraft"}, {"max_events": 3}):
        with pytest.raises(et.InvalidError, match="do not go together"):
            et.plan_release(**common, **bounds, **wrong)
        with pytest.raises(et.InvalidError, match="do not go together"):
            et.Stream.from_keywords(**common, **bounds, **wrong)
