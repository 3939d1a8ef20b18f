"""One declaration: the fields of a Stream, the keywords of `release`, and the JSON that services read."""

import copy
import dataclasses
import datetime as dt
import decimal
import inspect
import json
import pickle
import random
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import evertally as et
from conftest import REPOSITORY, Running, configuration
from evertally import _keywords

SCHEMA: dict[str, Any] = json.loads((REPOSITORY / "docs/declaration.schema.json").read_text(encoding="utf-8"))
DECLARED = {name: of for name, of in SCHEMA["properties"].items() if "x-keyword" in of}

#: Ways to write a value of every parameter, by keyword.
VALUES: dict[str, list[Any]] = {
    "name": ["main", "visits"],
    "every": ["1d", "1mo"],
    "start": ["2024-01-01", dt.date(2024, 1, 1), dt.datetime(2024, 1, 1), np.datetime64("2024-01-01")],
    "end": ["2025-01-01", dt.date(2025, 1, 1)],
    "steps": [12, np.int64(12)],
    "unbounded": [False, True],
    "workload": ["sum", "window(7d)", ["sum", "window(7d)*4"]],
    "publish": ["1w", 7],
    "through": ["2024-06-01", dt.date(2024, 6, 1)],
    "time": ["time", "when"],
    "date": ["day"],
    "time_of_day": ["clock"],
    "time_format": ["auto", "%Y"],
    "century_from": [1950],
    "date_only": ["refuse", "midnight"],
    "time_zone": ["UTC", "Europe/Berlin"],
    "where": ["price > 0"],
    "thousands": ["space"],
    "decimal_mark": [","],
    "number_affixes": [["$", "%"]],
    "missing_text": [(), ("NA",), ["NA", "-"]],
    "normalise_ids": ["nfc", ["nfc", "trim"]],
    "missing": ["refuse", "skip"],
    "outside": ["refuse", "skip", "skip-any"],
    "sort_buffer": [0, 100],
    "group": ["gate", ["gate"], ("gate", "floor")],
    "groups": [["a", "b"], [("a", 1), ("b", 2)], ("a", 2), [], np.array(["a", "b"])],
    "rest": ["others"],
    "scales": [[1, 2.5], ("0.1", decimal.Decimal("2"))],
    "rest_scale": [2, "0.5"],
    "correlate_groups": ["groups", "both", "total"],
    "discover_groups": [False, True],
    "selection_delta": [1e-9],
    "select_every": [3],
    "floor": [2],
    "epsilon": [1.0, 2, np.float64(0.5)],
    "delta": [1e-6],
    "rho": [0.5, 1],
    "allow_weak_budget": [False, True],
    "person": ["who"],
    "max_events": [1, np.int32(9)],
    "max_events_per_step": [2],
    "max_events_per_group": [3],
    "max_groups": [4],
    "max_total": ["2.5", decimal.Decimal("7"), 100],
    "min_gap": [5],
    "assert_max_events": [1, np.int32(9)],
    "assert_max_events_per_step": [2],
    "assert_max_events_per_group": [3],
    "assert_max_groups": [4],
    "assert_max_total": ["2.5", decimal.Decimal("7"), 100],
    "assert_min_gap": [5],
    "asserted_by": ["the app sends at most ten a day"],
    "per": ["1mo", "month", 30],
    "protect_window": ["30d", 30],
    "neighbours": ["add-remove", "replace-one"],
    "value": ["price"],
    "bounds": [(0, 1), [-1.5, "2.5"]],
    "grid": ["0.01", 0.5, decimal.Decimal("0.1")],
    "measures": ["mean", ["count", "mean*4"]],
    "out_of_bounds": ["clamp", "refuse"],
    "mechanism": ["binary", "subtract(k=13)"],
    "noise": ["laplace", "gaussian"],
    "objective": ["max", "mean"],
    "confidence": [0.95, 0.5],
    "band": ["pointwise", "simultaneous"],
    "view": ["non-negative", ["non-negative", "whole-number"]],
}
#: The keyword that a part cannot do without.
NEEDED = {"groups": "group", "values": "value"}
#: The keyword that makes the kind of a unit.
UNITS = {"event": None, "person": "person", "asserted": "assert_max_events"}


def chosen(random: random.Random) -> dict[str, Any]:
    """The keywords of a random declaration, which objects can make."""
    budget = random.choice([("epsilon",), ("epsilon", "delta"), ("rho",)])
    parts = {part: random.random() < 0.6 for part in NEEDED}
    unit = random.choice(list(UNITS))
    found: dict[str, Any] = {}
    for of in DECLARED.values():
        keyword, part = of["x-keyword"], of["x-field"].partition(".")[0]
        if keyword in ("epsilon", "delta", "rho"):
            wanted = keyword in budget
        elif keyword in ("start", "every", UNITS[unit]) or (keyword == NEEDED.get(part) and parts[part]):
            wanted = True
        elif part == "unit" and keyword not in ("per", "protect_window", "neighbours"):
            wanted = unit == ("asserted" if keyword.startswith("assert") else "person") and random.random() < 0.5
            wanted = wanted and keyword not in UNITS.values()
        elif keyword in ("per", "protect_window"):
            wanted = unit != "event" and random.random() < 0.5
        else:
            wanted = (parts.get(part, True) or keyword == "neighbours") and random.random() < 0.5
        if wanted:
            found[keyword] = random.choice(VALUES[keyword])
    return found


def objects(keywords: dict[str, Any]) -> et.Stream:
    """The same declaration, field by field, as the schema assigns them."""
    parts: dict[str, dict[str, Any]] = {}
    for of in DECLARED.values():
        if of["x-keyword"] in keywords:
            part, _, field = of["x-field"].rpartition(".")
            parts.setdefault(part, {})[field] = keywords[of["x-keyword"]]
    numbers = parts.pop("budget")
    made: dict[str, Any] = parts.pop("", {})
    allow_weak = bool(numbers.get("allow_weak"))
    if "rho" in numbers:
        made["budget"] = et.Budget.zcdp(numbers["rho"], allow_weak=allow_weak)
    elif "delta" in numbers:
        made["budget"] = et.Budget.approximate(numbers["epsilon"], numbers["delta"], allow_weak=allow_weak)
    else:
        made["budget"] = et.Budget.pure(numbers["epsilon"], allow_weak=allow_weak)
    kinds = {"steps": et.Steps, "groups": et.Groups, "values": et.Values, "columns": et.Columns}
    units = {"column": et.Person, "assert_max_events": et.AssertedPerson}
    for part, fields in parts.items():
        kind = next((units[name] for name in units if part == "unit" and name in fields), et.Event)
        made[part] = kinds.get(part, kind)(**fields)
    return et.Stream(**made)


def test_every_declared_parameter_is_one_field() -> None:
    assert {of["x-keyword"] for of in DECLARED.values()} == set(VALUES)
    signature = inspect.signature(et.plan_release).parameters.keys() | inspect.signature(et.release).parameters.keys()
    assert set(VALUES) == signature - {"table", "key", "budget", "budget_file"}
    kinds: dict[str, list[Any]] = {
        "": [et.Stream], "steps": [et.Steps], "unit": [et.Event, et.Person, et.AssertedPerson], "groups": [et.Groups],
        "values": [et.Values], "columns": [et.Columns],
    }  # fmt: skip
    fields = {
        f"{part}.{field.name}".lstrip(".")
        for part, of_part in kinds.items()
        for kind in of_part
        for field in dataclasses.fields(kind)
    }
    fields |= {f"budget.{name}" for name in ("epsilon", "delta", "rho", "allow_weak")}
    parts = {"steps", "budget", "unit", "groups", "values", "columns"}
    named = [of["x-field"] for of in DECLARED.values()]
    assert sorted(named) == sorted(fields - parts)


def test_objects_and_keywords_make_the_same_declaration() -> None:
    source = random.Random(1)
    seen: set[str] = set()
    defaults = {
        name: p.default for name, p in inspect.signature(et.release).parameters.items() if p.kind == p.KEYWORD_ONLY
    }
    for _ in range(2000):
        keywords = chosen(source)
        stream = objects(keywords)
        text = stream.to_json()
        assert json.loads(text) == json.loads(_keywords.to_json(defaults | keywords)), keywords
        assert et.Stream.from_json(text) == stream and hash(et.Stream.from_json(text)) == hash(stream)
        assert et.Stream.from_keywords(**keywords) == stream
        assert et.Stream.from_json(text).to_json() == text
        seen |= json.loads(text).keys()
    assert seen == set(DECLARED)


def test_the_declaration_is_the_one_of_the_schema() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    properties = {"properties": SCHEMA["properties"], "additionalProperties": False}
    source = random.Random(2)
    for _ in range(200):
        jsonschema.Draft202012Validator(properties).validate(json.loads(objects(chosen(source)).to_json()))


STEPS = et.Steps(start="2024-01-01", every="1d", count=5)
STREAM = et.Stream(
    name="visits",
    steps=STEPS,
    budget=et.Budget.zcdp(0.5),
    unit=et.Person("who", max_events=4),
    groups=et.Groups("gate", ["a", "b"]),
)
KEYWORDS: dict[str, Any] = {
    "name": "visits", "start": "2024-01-01", "every": "1d", "steps": 5, "rho": 0.5, "person": "who", "max_events": 4,
    "group": "gate", "groups": ["a", "b"],
}  # fmt: skip
EVENTS = pa.table({"time": ["2024-01-01", "2024-01-03"], "who": ["x", "y"], "gate": ["a", "b"]})


def test_plans_and_releases_are_those_of_the_keywords(key: et.SecretKey) -> None:
    assert STREAM.plan() == et.plan_release(**KEYWORDS)
    released = STREAM.release(EVENTS, key)
    assert released.equals(et.release(EVENTS, key=key, **KEYWORDS))
    part = STREAM.release(EVENTS, et.SecretKey.generate(), through="2024-01-04")
    assert part.num_rows == 6 and released.num_rows == 10


def rows(table: Any) -> dict[str, list[Any]]:
    """The columns of a table, with times as text, and without the ends of steps, which only some front ends show."""
    columns: dict[str, list[Any]] = pa.table(table).to_pydict()
    columns.pop("end", None)
    columns["time"] = [str(time)[:10] for time in columns["time"]]
    return columns


def test_all_front_ends_release_the_same_rows(tmp_path: Path, program: str, running: Running) -> None:
    """Flags, a configuration file, keywords, objects and a service: one declaration, one plan, the same rows."""
    parquet = pytest.importorskip("pyarrow.parquet")
    key = running.key()
    key.save(tmp_path / "my.key")
    parquet.write_table(EVENTS, tmp_path / "events.parquet")
    config = configuration(STREAM, input=["events.parquet"], key="my.key", all=True)
    (tmp_path / "visits.toml").write_text(config)
    flags = [
        "events.parquet", "--key", "my.key", "--stream", "visits", "--start", "2024-01-01", "--every", "1d",
        "--steps", "5", "--rho", "0.5", "--person", "who", "--max-events", "4", "--group-by", "gate", "--groups", "a,b",
        "--all",
    ]  # fmt: skip
    expected, plan = rows(STREAM.release(EVENTS, key)), STREAM.plan()
    assert rows(et.release(EVENTS, key=key, **KEYWORDS)) == expected
    for name, given in {"flags": flags, "config": ["--config", "visits.toml"]}.items():
        run = [program, "release", *given, "--out", f"{name}.parquet", "--no-plot"]
        done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        assert rows(parquet.read_table(tmp_path / f"{name}.parquet")) == expected, name
        report = json.loads((tmp_path / f"{name}.report.json").read_text())
        assert report["plan_digest"] == plan.digest
    assert (tmp_path / "flags.parquet").read_bytes() == (tmp_path / "config.parquet").read_bytes()
    assert plan == et.plan_release(**KEYWORDS) == et.Stream.from_json(STREAM.to_json()).plan()

    opened = changed(name="counted").open(et.connect(running.url, running.operate), closing="operator")
    et.connect(running.url, running.count).stream("counted").push(EVENTS)
    opened.close(5)
    own = rows(changed(name="counted").release(EVENTS, key))
    found = rows(opened.releases(table="pyarrow"))
    assert all(found[name] == own[name] for name in ("step", "gate", "value"))


def test_windows_are_fields_of_both_persons() -> None:
    more: dict[str, Any] = {"start": "2024-01-01", "every": "1d", "steps": 5, "rho": 0.5, "protect_window": "2d"}
    for unit in ({"person": "who", "max_events": 3}, {"assert_max_events": 3}):
        found = et.Stream.from_keywords(per=1, **unit, **more).unit
        assert isinstance(found, et.Person | et.AssertedPerson) and found.protect_window == "2d"
    with pytest.raises(et.InvalidError, match="unit.column is needed"):
        et.Stream.from_keywords(per=1, **more)


def test_streams_are_values() -> None:
    assert pickle.loads(pickle.dumps(STREAM)) == STREAM
    assert dataclasses.replace(STREAM, name="other") != STREAM
    assert STREAM != object() and len({STREAM, et.Stream.from_keywords(**KEYWORDS)}) == 1
    names = ["a", "b"]
    groups = et.Groups("gate", names)
    names.append("c")
    assert groups.names == ("a", "b") and hash(groups) == hash(et.Groups("gate", iter(("a", "b"))))
    with pytest.raises(dataclasses.FrozenInstanceError):
        STREAM.name = "other"  # type: ignore[misc]


#: The names in texts of declaration objects.
NAMES = {name: getattr(et, name) for name in et.__all__} | {"datetime": dt, "Decimal": decimal.Decimal, "np": np}


def test_objects_are_copied_by_their_text_by_pickles_and_by_replacing_nothing() -> None:
    source = random.Random(3)
    seen: set[str] = set()
    for _ in range(300):
        stream = objects(chosen(source))
        for field in ["", *(field.name for field in dataclasses.fields(stream))]:
            part = getattr(stream, field) if field else stream
            assert eval(repr(part), NAMES) == part, part
            assert pickle.loads(pickle.dumps(part)) == copy.deepcopy(part) == part
            if dataclasses.is_dataclass(part) and not isinstance(part, type):
                assert dataclasses.replace(part) == part and hash(part) == hash(copy.copy(part))
                seen.add(type(part).__name__)
        text = stream.to_json()
        assert eval(repr(stream), NAMES).to_json() == pickle.loads(pickle.dumps(stream)).to_json() == text
    assert seen == {"Stream", "Steps", "Event", "Person", "AssertedPerson", "Groups", "Values", "Columns"}


def test_texts_omit_defaults() -> None:
    assert repr(et.Person("who", max_events=4)) == "Person('who', max_events=4)"
    assert repr(et.Steps(start="2024-01-01", every="1d", count=5)) == "Steps(every='1d', start='2024-01-01', count=5)"
    assert repr(et.Event()) == "Event()" and repr(et.Columns()) == "Columns()"
    assert repr(et.Budget.pure(30, allow_weak=True)) == "Budget.pure(30.0, allow_weak=True)"
    stream = et.Stream(steps=STEPS, budget=et.Budget.zcdp(0.5))
    assert repr(stream) == f"Stream(steps={STEPS!r}, budget=Budget.zcdp(0.5))"


def test_help_describes_every_field() -> None:
    for kind in (et.Stream, et.Steps, et.Event, et.Person, et.Groups, et.Values, et.Columns):
        described = re.findall(r"^ *``(\w+)``: ", inspect.getdoc(kind) or "", re.MULTILINE)
        assert sorted(described) == sorted(field.name for field in dataclasses.fields(kind)), kind


@pytest.mark.parametrize(
    ("make", "given", "message"),
    [
        (et.Person, {"max_event": 3}, "evertally.Person has no field max_event; did you mean max_events?"),
        (et.Person, {"person": "who"}, "evertally.Person has no field person; did you mean column?"),
        (et.Steps, {"every": "1d", "start": "2024-01-01", "steps": 3}, "no field steps; did you mean count?"),
        (et.Groups, {"columns": "gate", "discover_groups": True}, "no field discover_groups; did you mean discover?"),
        (et.Values, {"column": "price", "xyzzy": 1}, "evertally.Values has no field xyzzy$"),
        (et.Stream, {"max_events": 3}, "evertally.Stream has no field max_events; did you mean unit.max_events?"),
        (et.Stream, {"measure": "mean"}, "no field measure; did you mean measures?"),
        (et.release, {"group_by": "gate"}, "evertally.release has no keyword group_by; did you mean group?"),
        (et.plan_release, {"evvery": "1d"}, "evertally.plan_release has no keyword evvery; did you mean every?"),
        (et.Person, {"max_events": 3, "column": "who", "every": "1d"}, "evertally.Person has no field every$"),
        (et.Person, {"max_events": 3, "column": "who", "stream": "x"}, "evertally.Person has no field stream$"),
        (et.training.plan_vector, {"max_events": 3}, "evertally.training.plan_vector has no keyword max_events$"),
        (et.training.plan_vector, {"noise": "laplace"}, "evertally.training.plan_vector has no keyword noise$"),
        (et.training.plan_training, {"objectiv": "max"}, "has no keyword objectiv; did you mean objective?"),
        (et.Stream.from_keywords, {"stream": "x"}, "no keyword stream; did you mean name?"),
    ],
)
def test_misspelt_names_are_refused_with_the_right_one(make: Any, given: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        make(**given)


def changed(**change: Any) -> et.Stream:
    return dataclasses.replace(STREAM, **change)


@pytest.mark.parametrize(
    ("stream", "message"),
    [
        (changed(unit=et.Person("who")), "unit.column needs unit.max_events"),
        (changed(unit=et.Person("who", max_events=-1)), "unit.max_events: -1 is not a whole number"),
        (changed(unit=et.Person("who", max_events=2, per="12h")), "unit.per 12h would cut the step"),
        (
            changed(unit=et.Event(neighbours="near")),  # type: ignore[arg-type]
            "unit.neighbours: unknown variant `near`",
        ),
        (changed(steps=et.Steps(start="2024-01-01", every="1d")), "steps.end, steps.count or steps.unbounded"),
        (changed(steps=et.Steps(start="yesterday", every="1d", count=3)), "steps.start `yesterday`"),
        (changed(steps=et.Steps(start="2024-01-01", every="1 fortnight", count=3)), "steps.every: "),
        (changed(groups=et.Groups("gate")), "group"),
        (changed(groups=et.Groups("gate", "a")), "`b` is not a declared group"),
        (changed(groups=et.Groups("gate", discover=True)), "groups.discover needs groups.selection_delta"),
        (changed(values=et.Values("price")), r"values.column needs values.bounds=\(low, high\)"),
        (changed(values=et.Values("price", bounds=(0, "x"))), "values.bounds: `x`"),
        (changed(confidence=95), "confidence 95 is not .*did you mean confidence=0.95"),
        (changed(mechanism="magic"), "mechanism: .*magic"),
        (changed(confidence=float("nan")), "confidence: nan is not a finite number"),
        (changed(steps=dataclasses.replace(STEPS, end="2025-01-01")), "either steps.end or steps.count, not both"),
        (changed(steps=dataclasses.replace(STEPS, unbounded=True)), "either steps.count or steps.unbounded"),
        (changed(steps=dataclasses.replace(STEPS, through="2026-01-01")), "steps.through .* is after the end"),
        (
            changed(groups=et.Groups("gate", ["a"], discover=True, selection_delta=1e-9)),
            "groups.discover and groups.names or groups.rest do not go together",
        ),
        (changed(groups=et.Groups("gate", ["a"], floor=3)), "groups.floor needs groups.discover"),
        (changed(groups=et.Groups("gate", ["a"], scales=[2])), "groups.scales needs values.column"),
        (changed(unit=et.Person("who", max_events=2, max_total=3)), "unit.max_total needs values.column"),
        (changed(groups=None, unit=et.Person("who", max_groups=1)), "unit.max_groups needs groups.columns"),
        (changed(view="non-decreasing"), 'view non-decreasing depends on .*band="simultaneous"'),
        (changed(measures="mean"), "measures"),
        (changed(measures="count", workload=["sum", "window(2)"]), "measures and more than one workload"),
    ],
)
def test_errors_name_the_fields(stream: et.Stream, message: str) -> None:
    with pytest.raises(et.InvalidError, match=message) as caught:
        stream.release(EVENTS, et.SecretKey.generate())
    assert "--" not in str(caught.value)


def test_errors_about_rows_name_the_fields() -> None:
    late = pa.table({"time": ["2025-01-01"], "who": ["x"], "gate": ["a"]})
    with pytest.raises(et.TableError, match='steps.outside="skip"'):
        STREAM.release(late, et.SecretKey.generate())
    with pytest.raises(et.TableError, match="no column `gate`"):
        STREAM.release(EVENTS.select(["time", "who"]), et.SecretKey.generate())


def test_wrong_types_are_refused() -> None:
    with pytest.raises(TypeError, match="steps must be of type evertally.Steps"):
        et.Stream(steps={"start": "2024-01-01"}, budget=et.Budget.pure(1.0))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="unit must be of type evertally.Event or evertally.Person"):
        changed(unit="who")
    with pytest.raises(TypeError, match="steps.every must be a string"):
        changed(steps=et.Steps(start="2024-01-01", every=dt.timedelta(1), count=3)).plan()  # type: ignore[arg-type]
    for text, message in [
        ("[]", "JSON object"),
        ("{", "not a declaration in JSON"),
        ('{"start": "2024-01-01", "every": "1d", "titel": "x", "rho": 1}', "cannot declare `titel`"),
        ('{"every": "1d", "rho": 1}', "steps.start is needed"),
        ('{"start": "2024-01-01", "every": "1d"}', "give one budget"),
        ('{"start": "2024-01-01", "every": "1d", "rho": 1, "max-events": 3}', "unit.column is needed"),
    ]:
        with pytest.raises(et.InvalidError, match=message):
            et.Stream.from_json(text)


def test_a_weak_budget_is_allowed_once() -> None:
    weak = et.Budget.pure(30.0, allow_weak=True)
    assert weak.allow_weak and not et.Budget.pure(1.0).allow_weak
    stream = et.Stream(steps=STEPS, budget=weak)
    assert json.loads(stream.to_json())["allow-weak-budget"] is True
    assert stream.plan().budget == weak and stream.plan().budget.allow_weak
    # A budget that is not weak does not allow a weak selection of groups.
    groups = et.Groups.discovered("gate", selection_delta=0.2)
    with pytest.raises(et.InvalidError, match="protects next to nothing"):
        et.Stream(steps=STEPS, budget=et.Budget.zcdp(0.5), groups=groups).plan()
    et.Stream(steps=STEPS, budget=et.Budget.zcdp(0.5, allow_weak=True), groups=groups).plan()


def test_a_service_opens_a_stream(running: Running) -> None:
    service = et.connect(running.url, running.operate)
    opened = changed(name="declared").open(service, closing="operator")
    assert isinstance(opened, et.ServiceStream) and opened.name == "declared"
