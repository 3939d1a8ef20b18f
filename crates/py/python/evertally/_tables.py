"""Releases of tables of events, as tables of the same kind."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from ._errors import InvalidError, TableError
from ._evertally import ArrowTable, Budget, Plan, SecretKey, _plan_table, _release_table
from ._types import Table, Time


def release(table: Table, given: Mapping[str, Any]) -> Table:
    """The releases of a table, as a table of the same kind; see `evertally.release`."""
    options = dict(given)
    del options["table"]
    if _package(table) == "pyspark":
        raise TypeError("a Spark DataFrame is released on a cluster: use evertally.spark.release(df, ...)")
    key = options.pop("key")
    budget_file = options.pop("budget_file")
    columns = [options["time"], *_names(options["group"]), options["value"], options["person"]]
    declared = _declaration(options)
    secret = key if isinstance(key, SecretKey) else SecretKey.load(key)
    stream = _narrowed(table, [column for column in columns if column is not None])
    if not hasattr(stream, "__arrow_c_stream__"):
        raise TypeError(
            f"expected a table with __arrow_c_stream__ (a pandas, polars or pyarrow table), not {type(table).__name__}"
        )
    return cast(Table, _like(table, _release_table(declared, stream, secret, budget_file)))


def plan_release(given: Mapping[str, Any]) -> Plan:
    """The plan of a release; see `evertally.plan_release`."""
    return _plan_table(_declaration(given))


def _declaration(options: Mapping[str, Any]) -> str:
    """The arguments as JSON: Python values as numbers, strings and lists of them."""
    given = {name: argument for name, argument in options.items() if argument is not None}
    for moment in ("start", "end", "through"):
        if moment in given:
            given[moment] = _time_text(given[moment])
    if not isinstance(given["every"], str):
        raise TypeError(f'every must be a string such as "15m", "1d" or "1mo", not {given["every"]!r}')
    if "group" in given:
        given["group"] = _names(given["group"])
    if "measures" in given:
        given["measures"] = _names(given["measures"])
    if "view" in given:
        given["view"] = _names(given["view"])
    groups = given.get("groups", [])
    if isinstance(groups, str):
        raise InvalidError('groups must be a list of names, such as groups=["JFK", "LGA"]')
    if "groups" in given or ("group" in given and not given.get("discover_groups")):
        given["groups"] = [[_group_text(g)] if not _is_tuple(g) else [_group_text(x) for x in g] for g in groups]
    if "bounds" in given:
        try:
            low, high = given["bounds"]
        except (TypeError, ValueError):
            raise InvalidError("bounds must be two numbers: bounds=(low, high)") from None
        given["bounds"] = [str(low), str(high)]
    if "scales" in given:
        given["scales"] = [str(scale) for scale in given["scales"]]
    for number in ("grid", "rest_scale", "max_total"):
        if number in given:
            given[number] = str(given[number])
    if "budget" in given:
        budget: Budget = given.pop("budget")
        if any(number in given for number in ("epsilon", "delta", "rho")):
            raise InvalidError("give either budget or its numbers (epsilon, delta, rho), not both")
        numbers = {"epsilon": budget.epsilon, "delta": budget.delta, "rho": budget.rho}
        given.update({unit: number for unit, number in numbers.items() if number is not None})
        given["allow_weak_budget"] = True  # checked when the budget was made
    return json.dumps(given, default=_number)


def _number(value: Any) -> Any:
    """NumPy scalars as plain numbers."""
    if hasattr(value, "item"):
        return value.item()
    if not isinstance(value, (str, bytes)) and isinstance(value, Iterable):
        return list(value)
    raise TypeError(f"cannot use {value!r} as an argument of a release")


def _time_text(moment: Time) -> str:
    """A time in the format of the program."""
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
    """Only the wanted columns, if the table supports that; otherwise the reader reports a missing column."""
    package, kind = _package(table), type(table).__name__
    names = list(dict.fromkeys(wanted))
    if package in ("pandas", "polars") and kind == "Series":
        raise TypeError("a Series is a single column, not a table; release(series.to_frame(), ...)")
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
    """Refuses a table without a wanted column while all of its columns are still known."""
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
