"""Queries of a released history, bands and views."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import evertally as et

DAILY: dict[str, Any] = {
    "start": "2024-01-01",
    "steps": 30,
    "every": "1d",
    "group": "shop",
    "groups": ["a", "b"],
    "rho": 0.5,
}


@pytest.fixture
def visits() -> pd.DataFrame:
    days = np.repeat(np.arange(30), 4)
    times = pd.Timestamp("2024-01-01T08:00Z") + pd.to_timedelta(days, unit="D")
    return pd.DataFrame({"time": times, "shop": ["a", "a", "a", "b"] * 30})


def test_stretches_and_ratios(visits: pd.DataFrame, key: et.SecretKey) -> None:
    released = et.release(visits, key=key, **DAILY)
    plan = et.plan_release(**DAILY)
    week = et.interval(released, plan, start="2024-01-08", end="2024-01-15", ratio_to=(1, 7))
    assert list(week["shop"][:2]) == ["a", "b"] and pd.isna(week["shop"][2])
    of_a = released[released["shop"] == "a"].set_index("step")["value"]
    assert week["value"][0] == of_a[14] - of_a[7]
    assert week["std_error"][0] == pytest.approx(plan.variance_between(7, 14) ** 0.5)
    assert set(week["ratio_set"]) <= {"between", "outside", "anything"}
    assert et.interval(released, plan, start=8, end=14)["value"].tolist() == week["value"].tolist()
    shares = et.interval(pl.DataFrame(released), plan, share=True)
    assert isinstance(shares, pl.DataFrame) and shares["ratio"][2] == pytest.approx(1.0)
    with pytest.raises(et.InvalidError, match="no group"):
        et.interval(released, plan, group="c")


def test_bands_and_views(visits: pd.DataFrame, key: et.SecretKey) -> None:
    raw = et.release(visits, key=key, **DAILY)
    shown = et.release(visits, key=key, band="simultaneous", view=["non-decreasing", "non-negative"], **DAILY)
    assert (raw["value"] == shown["value"]).all() and (raw["upper"] <= shown["upper"]).all()
    for _, rows in shown.groupby("shop"):
        assert (rows["view_value"].diff().dropna() >= 0).all() and (rows["view_lower"] >= 0).all()
        assert (rows["view_value"] == rows["value"].cummax().clip(lower=0)).all()
    plan = et.plan_release(**DAILY)
    errors = plan.band()
    assert errors is not None and errors > 2.4
    widths = shown["upper"] - shown["value"]
    assert (widths >= errors * shown["std_error"] - 1e-3).all()
    with pytest.raises(et.InvalidError, match="simultaneous"):
        et.release(visits, key=key, view="non-decreasing", **DAILY)
