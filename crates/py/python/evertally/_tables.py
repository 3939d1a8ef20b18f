"""Tables of events in, tables of releases out."""

from __future__ import annotations

import datetime as dt
import difflib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeVar, Union, cast

from ._errors import InvalidError, TableError
from ._evertally import ArrowTable, Budget, Plan, SecretKey, _plan_table, _release_table


class ArrowStream(Protocol):
    """Anything with the Arrow PyCapsule interface."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


T = TypeVar("T", bound=ArrowStream)
Time = Union[str, dt.date, dt.datetime]
Number = Any


def release(
    table: T,
    *,
    key: SecretKey | str | os.PathLike[str],
    name: str = "main",
    start: Time,
    end: Time | None = None,
    steps: int | None = None,
    every: str,
    through: Time | None = None,
    time: str = "time",
    time_zone: str | None = None,
    time_format: Literal["auto", "rfc3339", "date", "epoch-seconds", "epoch-millis"] | None = None,
    group: str | Sequence[str] | None = None,
    groups: Iterable[str] | Iterable[Sequence[object]] | None = None,
    rest: str | None = None,
    value: str | None = None,
    bounds: tuple[Number, Number] | None = None,
    grid: Number | None = None,
    out_of_bounds: Literal["clamp", "refuse"] = "clamp",
    person: str | None = None,
    max_events: int | None = None,
    max_events_per_step: int | None = None,
    neighbours: Literal["add-remove", "replace-one"] = "add-remove",
    epsilon: float | None = None,
    delta: float | None = None,
    rho: float | None = None,
    budget: Budget | None = None,
    allow_weak_budget: bool = False,
    mechanism: str | None = None,
    noise: Literal["laplace", "gaussian"] | None = None,
    objective: Literal["max", "mean"] = "max",
    missing: Literal["refuse", "skip"] = "refuse",
    missing_text: Sequence[str] = (),
    outside: Literal["refuse", "skip"] = "refuse",
    sort_buffer: int = 0,
    confidence: float = 0.95,
) -> T:
    """Releases the private running counts or sums of a table of events, one row a step and group.

    The values are those that the program ``evertally release`` writes for the same events, key, name and flags. ``table`` is
    a pandas or polars DataFrame, a pyarrow Table, or anything else with ``__arrow_c_stream__``; its columns are read where
    they are, and the result is of the same kind (else an :class:`ArrowTable`), with the columns ``time`` (the beginning of
    the step), the group columns, ``step`` (from 1), ``value``, ``std_error``, ``lower`` and ``upper``.

    **Steps.** ``start`` is the beginning of the first step, ``every`` their width (``"15m"``, ``"1h"``, ``"1d"``, ``"1w"``,
    ``"1mo"``, ``"1y"``), and ``end`` (which belongs to no step) or ``steps`` says how many there are; all of it is decided
    before seeing the data. Only steps that end by ``through`` are released; the rest can follow later from the same,
    longer data. ``time`` is the column with the times of the events, which are in order unless ``sort_buffer`` events
    may wait. ``time_zone`` is that of times without an offset and of calendar steps; ``time_format`` says how bare numbers
    are meant (``"epoch-seconds"`` or ``"epoch-millis"``), which are refused otherwise.

    **Groups.** ``group`` names one column or several, ``groups`` the groups to release (tuples for several columns). They
    are declared, because a group that appears only when the data has it tells that someone is in it. Events of other
    groups are refused, or counted together under the name ``rest``.

    **Values.** Events are counted, or the column ``value`` is summed: each between ``bounds=(low, high)`` and a multiple of
    ``grid``, in units of the data. Values outside the bounds are moved to the nearer one, or with
    ``out_of_bounds="refuse"`` refused. ``missing_text`` lists texts that stand for a missing cell. ``lower`` and ``upper``
    are the ends of an interval that contains the exact value of the step with the given ``confidence``.

    **Privacy.** The budget is ``epsilon``, or ``epsilon`` and ``delta``, or ``rho``, or ``budget``; it covers the whole
    history of all groups. One event is protected; with ``person`` (a column) and ``max_events`` all events of a person, of
    which the first so many are used. ``key`` is a :class:`SecretKey` or the path of a key file. Its ledger refuses
    to release other data under the same ``name``; the same data give the same release.

    Rows that lack a value or person, and rows outside the horizon, are refused, or with ``"skip"`` left out.

    Raises :class:`TableError` for a bad row or column, and :class:`InvalidError` for parameters that do not fit.

    >>> import evertally as et, pyarrow as pa
    >>> events = pa.table({"time": ["2024-01-01", "2024-01-01", "2024-01-03"], "airport": ["JFK", "LGA", "JFK"]})
    >>> released = et.release(
    ...     events, key=et.SecretKey.generate(), start="2024-01-01", end="2025-01-01", every="1d",
    ...     group="airport", groups=["JFK", "LGA"], epsilon=1.0,
    ... )
    >>> released.column_names
    ['time', 'airport', 'step', 'value', 'std_error', 'lower', 'upper']
    >>> released.num_rows
    732
    """
    options = dict(locals())
    del options["table"], options["key"]
    flags = _flags(options)
    secret = key if isinstance(key, SecretKey) else SecretKey.load(key)
    wanted = [time, *_names(group), *(name for name in (value, person) if name is not None)]
    stream = _narrowed(table, wanted)
    if not hasattr(stream, "__arrow_c_stream__"):
        raise TypeError(
            f"a table with __arrow_c_stream__ is needed (a pandas, polars or pyarrow table), not {type(table).__name__}"
        )
    released = _release_table(flags, stream, secret)
    return cast(T, _like(table, released))


def plan_release(
    *,
    name: str = "main",
    start: Time,
    end: Time | None = None,
    steps: int | None = None,
    every: str,
    time_zone: str | None = None,
    group: str | Sequence[str] | None = None,
    groups: Iterable[str] | Iterable[Sequence[object]] | None = None,
    rest: str | None = None,
    value: str | None = None,
    bounds: tuple[Number, Number] | None = None,
    grid: Number | None = None,
    out_of_bounds: Literal["clamp", "refuse"] = "clamp",
    person: str | None = None,
    max_events: int | None = None,
    max_events_per_step: int | None = None,
    neighbours: Literal["add-remove", "replace-one"] = "add-remove",
    epsilon: float | None = None,
    delta: float | None = None,
    rho: float | None = None,
    budget: Budget | None = None,
    allow_weak_budget: bool = False,
    mechanism: str | None = None,
    noise: Literal["laplace", "gaussian"] | None = None,
    objective: Literal["max", "mean"] = "max",
    missing: Literal["refuse", "skip"] = "refuse",
    outside: Literal["refuse", "skip"] = "refuse",
) -> Plan:
    """The :class:`Plan` of a :func:`release` with the same arguments, before any event is seen.

    >>> import evertally as et
    >>> plan = et.plan_release(start="2024-01-01", end="2025-01-01", every="1d", epsilon=1.0)
    >>> plan.horizon
    366
    """
    return _plan_table(_flags(dict(locals())))


def _flags(options: Mapping[str, Any]) -> str:
    """The arguments as flags of the program, in JSON."""
    flags = {flag: argument for flag, argument in options.items() if argument is not None}
    flags["stream"] = flags.pop("name")
    for moment in ("start", "end", "through"):
        if moment in flags:
            flags[moment] = _time_text(flags[moment])
    if not isinstance(flags["every"], str):
        raise TypeError(f'every is a text such as "15m", "1d" or "1mo", not {flags["every"]!r}')
    if "group" in flags:
        flags["group-by"] = _names(flags.pop("group"))
    if "groups" in flags:
        groups = flags.pop("groups")
        if isinstance(groups, str):
            raise InvalidError('groups must be a list of names, such as groups=["JFK", "LGA"]')
        flags["group-tuples"] = [[_group_text(g)] if not _is_tuple(g) else [_group_text(x) for x in g] for g in groups]
    elif "group-by" in flags:
        flags["group-tuples"] = []
    if "bounds" in flags:
        try:
            low, high = flags["bounds"]
        except (TypeError, ValueError):
            raise InvalidError("bounds must be two numbers: bounds=(low, high)") from None
        flags["bounds"] = [str(low), str(high)]
    if "grid" in flags:
        flags["grid"] = str(flags["grid"])
    if "budget" in flags:
        given: Budget = flags.pop("budget")
        if any(number in flags for number in ("epsilon", "delta", "rho")):
            raise InvalidError("give either budget or its numbers (epsilon, delta, rho), not both")
        numbers = {"epsilon": given.epsilon, "delta": given.delta, "rho": given.rho}
        flags.update({unit: number for unit, number in numbers.items() if number is not None})
        flags["allow_weak_budget"] = True  # decided when the budget was made
    return json.dumps({flag.replace("_", "-"): argument for flag, argument in flags.items()}, default=_number)


def _number(value: Any) -> Any:
    """NumPy scalars as plain numbers."""
    if hasattr(value, "item"):
        return value.item()
    if not isinstance(value, (str, bytes)) and isinstance(value, Iterable):
        return list(value)
    raise TypeError(f"{value!r} is no argument of a release")


def _time_text(moment: Time) -> str:
    """A time as the program reads it."""
    if isinstance(moment, str):
        return moment
    return moment.isoformat()


def _is_tuple(group: Any) -> bool:
    return not isinstance(group, str) and isinstance(group, Sequence)


def _group_text(name: Any) -> str:
    return name if isinstance(name, str) else str(name)


def _names(columns: str | Sequence[str] | None) -> list[str]:
    if columns is None:
        return []
    return [columns] if isinstance(columns, str) else list(columns)


def _package(table: object) -> str:
    return type(table).__module__.partition(".")[0]


def _narrowed(table: Any, wanted: list[str]) -> Any:
    """Only the wanted columns, where the table knows how; elsewhere a missing one is left to the reader."""
    package, kind = _package(table), type(table).__name__
    names = list(dict.fromkeys(wanted))
    if package in ("pandas", "polars") and kind == "Series":
        raise TypeError("a Series is one column and no table; release(series.to_frame(), ...)")
    if package == "pandas" and kind == "DataFrame":
        index = [name for name in table.index.names if name in names and name not in table.columns]
        if index:
            table = table.reset_index(index)
        _check_columns(names, list(table.columns))
        return table[[column for column in table.columns if column in names]].reset_index(drop=True)
    if package == "polars" and kind == "DataFrame":
        _check_columns(names, table.columns)
        return table.select(names)
    if package == "polars" and kind == "LazyFrame":
        raise TypeError("a polars LazyFrame has no rows yet; release(frame.collect(), ...)")
    if package == "pyarrow" and kind == "Table" and all(table.column_names.count(name) == 1 for name in names):
        return table.select(names)
    return table


def _check_columns(wanted: list[str], present: list[Any]) -> None:
    """Refuses a table without a wanted column while all of its columns can still be told."""
    for name in wanted:
        if name not in present:
            texts = [str(column) for column in present]
            near = "".join(f" (did you mean `{text}`?)" for text in difflib.get_close_matches(name, texts, 1))
            listed = ", ".join(f"`{text}`" for text in texts[:30]) + (" and more" if len(texts) > 30 else "")
            raise TableError(f"the table: there is no column `{name}`{near}; it has {listed or 'no columns'}")


def _like(table: Any, released: ArrowTable) -> Any:
    """The releases as a table of the same kind."""
    package, kind = _package(table), type(table).__name__
    if package == "pandas" and kind == "DataFrame":
        import pyarrow  # type: ignore[import-untyped, unused-ignore]

        return pyarrow.table(released).to_pandas()
    if package == "polars" and kind == "DataFrame":
        import polars

        return polars.DataFrame(released)
    if package == "pyarrow":
        import pyarrow

        return pyarrow.table(released)
    return released
