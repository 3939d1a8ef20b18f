"""`evertally.beam` with the DirectRunner: the values of one process, however elements are bundled."""

from __future__ import annotations

import datetime as dt
import random
import stat
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

import evertally as et

pytest.importorskip("apache_beam")

import apache_beam  # noqa: E402
import evertally.beam  # noqa: E402

COMMON: dict[str, Any] = {"start": "2024-01-01", "end": "2024-01-11", "every": "6h"}
GROUPED: dict[str, Any] = {"group": "group", "groups": list("abcde")}
START = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)


class Event(NamedTuple):
    time: dt.datetime
    person: int
    group: str
    value: int


def events(count: int, persons: int, seed: int = 1) -> list[Event]:
    """Events in order of time, no two at the same instant; half of them belong to one person."""
    dice = random.Random(seed)
    moments = sorted(dice.sample(range(10 * 86_400_000), count))
    return [
        Event(
            START + dt.timedelta(milliseconds=moment),
            dice.randrange(persons) * dice.randrange(2),
            dice.choice("aaaaabcde"),
            dice.randrange(-3, 10),
        )
        for moment in moments
    ]


def table(rows: list[Event]) -> pa.Table:
    return pa.Table.from_pylist([row._asdict() for row in rows])


def fresh() -> et.SecretKey:
    return et.SecretKey.insecure_from_test_seed(et.TestSeed(3))


def run(release: evertally.beam.Release, elements: list[Any]) -> None:
    with apache_beam.Pipeline() as pipeline:
        _ = pipeline | apache_beam.Create(elements) | release


@pytest.mark.parametrize(
    "asked",
    [
        {"epsilon": 1.0},
        {"rho": 0.5, "value": "value", "bounds": (-2, 5), **GROUPED, "measures": ["count", "mean"]},
        {"rho": 0.5, "person": "person", "max_events": 20, "max_events_per_step": 2, **GROUPED},
        {"rho": 0.5, "group": "group", "discover_groups": True, "selection_delta": 1e-6, "person": "person",
         "max_events": 20, "max_groups": 2},
    ],
)  # fmt: skip
def test_a_pipeline_releases_what_one_process_does(tmp_path: Path, asked: dict[str, Any]) -> None:
    rows = events(1000, 60)
    one = et.release(table(rows), key=fresh(), **COMMON, **asked)
    release = evertally.beam.Release(tmp_path / "sums.arrow", key=fresh(), shards=5, **COMMON, **asked)
    shuffled = random.Random(2).sample(rows, len(rows))
    # Rows and tables; Beam puts some of them into each bundle.
    run(release, [*shuffled[:300], *(row._asdict() for row in shuffled[300:400]), table(shuffled[400:])])
    two = release.publish()
    assert two.column_names == one.column_names and two.schema.field("time").type == one.schema.field("time").type
    by = [(name, "ascending") for name in ("group", "measure", "step") if name in one.column_names]
    assert two.sort_by(by).to_pydict() == one.sort_by(by).to_pydict()


def test_sums_are_published_once_whatever_is_run_again(tmp_path: Path) -> None:
    rows, path, key = events(200, 20), tmp_path / "sums.arrow", tmp_path / "visits.key"
    fresh().save(key)
    asked: dict[str, Any] = {"key": key, "person": "person", "max_events": 5, "rho": 0.5, **GROUPED, **COMMON}
    release = evertally.beam.Release(path, **asked)
    with pytest.raises(et.InvalidError, match="run the pipeline first"):
        release.publish()
    run(release, rows)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and list(tmp_path.glob("*.new")) == []
    released = release.publish()
    run(evertally.beam.Release(path, **asked), rows[::-1])
    assert evertally.beam.Release(path, **asked).publish() == released
    run(release, rows[1:])
    with pytest.raises(et.InvalidError, match="from different data"):
        release.publish()
    with pytest.raises(et.InvalidError, match="another name, key or plan"):
        evertally.beam.Release(path, **asked, name="other").publish()


def test_what_is_wrong_is_said(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"key": fresh(), "epsilon": 1.0, **COMMON}
    rows, path = events(30, 5), tmp_path / "sums.arrow"
    with pytest.raises(et.InvalidError, match="shards must be a number"):
        evertally.beam.Release(path, shards=0, **asked)
    with pytest.raises(TypeError, match="evertally.beam.Release: .*'epsilom'"):
        evertally.beam.Release(path, **asked, epsilom=1.0)
    release = evertally.beam.Release(path, group="group", groups=["a"], **asked)
    run(release, rows)
    with pytest.raises(et.TableError, match="column `group`: `b` is not a declared group"):
        release.publish()
    with pytest.raises(et.TableError, match="no column `airport`"):
        run(evertally.beam.Release(path, group="airport", groups=["JFK"], **asked), rows)
    with pytest.raises(TypeError, match="expected rows"):
        run(evertally.beam.Release(path, **asked), [3])
    mixed: list[Any] = [{"time": START, "group": group} for group in [7, "secret"] * 20]
    with pytest.raises(et.TableError, match="several types") as refused:
        run(evertally.beam.Release(path, group="group", groups=["a"], **asked), mixed)
    assert "secret" not in str(refused.value)
    big: list[Any] = [{"time": START, "value": 2**57} for _ in range(80)]
    release = evertally.beam.Release(path, value="value", bounds=(0, 2**57), **{**asked, "epsilon": 9.0})
    run(release, big)
    with pytest.raises((et.SumOverflowError, et.TableError), match="64-bit"):
        release.publish()
