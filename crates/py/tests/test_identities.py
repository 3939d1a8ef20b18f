"""One person, group or item in several spellings and column types: with `et.release`, sums and `evertally.spark`."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import evertally as et

#: Almost no noise.
EXACT: dict[str, Any] = {"start": "2024-01-01", "every": "1d", "steps": 1, "rho": 1e5, "allow_weak_budget": True}
PERSONS: dict[str, Any] = {"person": "id", "max_events": 1}
TIME = "2024-01-01T12:00:00Z"
LARGE = 2**53


def table(ids: Any) -> pa.Table:
    ids = pa.array(ids) if isinstance(ids, list) else ids
    return pa.table({"time": [TIME] * len(ids), "id": ids})


def count(key: et.SecretKey, events: Any, **more: Any) -> list[int]:
    """The counts of each group, or the total."""
    released = et.release(events, key=key, **(EXACT | more))
    is_frame = isinstance(released, (pd.DataFrame, pl.DataFrame))
    return list(released["value"]) if is_frame else released["value"].to_pylist()


def test_spellings_of_one_person_have_one_bound(key: et.SecretKey) -> None:
    spellings = ["100000", "1e+05", "1E5", "100000.0", "+100000"]
    assert count(key, table(spellings), name="one", **PERSONS) == [1]
    assert count(key, pd.DataFrame({"time": TIME, "id": spellings}), name="one", **PERSONS) == [1]
    assert count(key, pl.DataFrame({"time": TIME, "id": spellings}), name="one", **PERSONS) == [1]
    assert count(key, table(["007", "7", "ann", "Ann"]), name="four", **PERSONS) == [4]
    normalised = {"normalise_ids": ["trim", "casefold"]}
    assert count(key, table(["ann", "Ann "]), name="ann", **PERSONS, **normalised) == [1]
    with pytest.raises(et.InvalidError, match="normalise_ids"):
        count(key, table(["ann"]), name="wrong", normalise_ids=["nfd"])


@pytest.mark.parametrize(
    ("group", "ids"),
    [
        ("17", pa.array([17], pa.int8())),
        ("17.0", pa.array([17], pa.uint64())),
        ("17", pa.array([17.0], pa.float32())),
        ("1e5", pa.array([1e5])),
        ("1e5", pa.array(["100000.0"]).dictionary_encode()),
        ("1e5", pa.array([100_000]).dictionary_encode()),
        ("00ff", pa.array([b"\x00\xff"], pa.binary(2))),
        ("0.10", pa.array([Decimal("0.1000")])),
        ("True", pa.array([True])),
        ("2024-01-01T00:00:00", pa.array([dt.date(2024, 1, 1)])),
        ("2024-01-01", pa.array([dt.datetime(2024, 1, 1, 2, tzinfo=dt.timezone(dt.timedelta(hours=2)))])),
        (str(LARGE + 1), pa.array([LARGE + 1])),
        (str(2**64 - 1), pa.array([2**64 - 1], pa.uint64())),
        (str(10**30), pa.array([Decimal(10**30)])),
    ],
)
def test_columns_of_every_type_match_declared_groups(key: et.SecretKey, group: str, ids: pa.Array) -> None:
    released = et.release(table(ids), key=key, name="typed", group="id", groups=[group, "x"], **EXACT)
    assert (released["id"].to_pylist(), released["value"].to_pylist()) == ([group, "x"], [1, 0])


def test_the_rest_has_no_spelling_of_a_declared_group(key: et.SecretKey) -> None:
    for place, ids in enumerate([["1", "1.0", "01"], pa.array([1.0, 1.0, 2.0]), pa.array([1, 1, None])]):
        asked: dict[str, Any] = {"name": f"rest {place}", "group": "id", "groups": ["1"], "rest": "other"}
        assert et.release(table(ids), key=key, **asked, **EXACT)["value"].to_pylist() == [2, 1]


@pytest.mark.parametrize(
    "ids",
    [
        np.array([float(LARGE)]),
        np.array([-1.2345678901234568e18]),
        np.array([float("inf")]),
        np.array([2.0**24], dtype=np.float32),
        np.array(["1.2345678901234568e+18"]),
    ],
)
def test_rounded_ids_are_refused(key: et.SecretKey, ids: Any) -> None:
    why = "the table, row 1, column `id`: .* is not an exact id: .*; write ids as integers or as text"
    for wanted in (PERSONS, {"group": "id", "groups": ["17"], "rest": "others"}):
        with pytest.raises(et.TableError, match=why):
            count(key, pd.DataFrame({"time": TIME, "id": ids}), name="rounded", **wanted)


def test_sums_of_one_group_are_under_one_name(key: et.SecretKey) -> None:
    plan = et.plan_release(**EXACT, group="id", groups=["0.10", "x"], mechanism="binary")
    sums = {"id": pa.array([0.1]), "step": [1], "sum": [5]}
    asked: dict[str, Any] = {"plan": plan, "key": key, "group": "id"}
    for released in (
        et.release_sums(pa.table(sums), groups=["0.10", "x"], **asked),
        et.release_steps(pa.table(sums), groups=["0.10"], through=1, **asked),
    ):
        assert (released["id"].to_pylist(), released["value"].to_pylist()) == (["0.10"], [5])
    wrong = "row 1, column `id`: `0.10` is not the canonical form of this group; write it as `0.1`"
    with pytest.raises(et.TableError, match=wrong):
        et.release_sums(pa.table(sums | {"id": ["0.10"]}), **asked)
    assert et.release_sums(pa.table(sums), **asked)["id"].to_pylist() == ["0.1"]
    with pytest.raises(et.TableError, match="row 1, column `id`: .* is not an exact id"):
        et.release_sums(pa.table(sums | {"id": [2.0**53]}), **asked)
    with pytest.raises(et.InvalidError, match="`1e-1` is named twice: `0.1` is another spelling of it"):
        et.release_sums(pa.table(sums), groups=["0.1", "1e-1"], **asked)


def test_extension_types_are_not_read_by_what_they_store(key: et.SecretKey) -> None:
    days = pd.DataFrame({"time": [TIME], "id": pd.period_range("2024-01-01", periods=1, freq="D")})
    flags = pa.table({"time": [TIME], "id": pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1], pa.int8()))})
    for events, extension in [(pa.Table.from_pandas(days), "pandas.period"), (flags, "arrow.bool8")]:
        with pytest.raises(et.InvalidError, match=f"column `id`: it has the unsupported extension type `{extension}`"):
            count(key, events, name="extended", **PERSONS)
    # Other columns may have such types.
    assert count(key, pa.Table.from_pandas(days), name="beside") == [1]
