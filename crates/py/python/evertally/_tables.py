"""Releases of tables of events, as tables of the same kind."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, cast

from . import _keywords
from ._errors import TableError
from ._evertally import ArrowTable, Plan, SecretKey, _plan_table, _release_table
from ._types import Table


def release(table: Table, given: Mapping[str, Any]) -> Table:
    """The releases of a table, as a table of the same kind; see `evertally.release`."""
    return released(table, given, given["key"], given["budget_file"])


def plan_release(given: Mapping[str, Any]) -> Plan:
    """The plan of a release; see `evertally.plan_release`."""
    return _plan_table(_keywords.to_json(given))


def released(table: Table, keywords: Mapping[str, Any], key: Any, budget_file: Any, *, fields: bool = False) -> Table:
    """The same for the keywords of a declaration; errors name keywords, or the `fields` of a stream."""
    if _package(table) == "pyspark":
        raise TypeError("a Spark DataFrame is released on a cluster: use evertally.spark.release(df, ...)")
    times = [keywords["time"]] if keywords["date"] is None else [keywords["date"], keywords["time_of_day"]]
    wanted = [*times, *_keywords.listed(keywords["group"]), keywords["value"], keywords["person"]]
    declared = _keywords.to_json(keywords, fields=fields)
    secret = key if isinstance(key, SecretKey) else SecretKey.load(key)
    stream = _narrowed(table, [column for column in wanted if column is not None])
    if not hasattr(stream, "__arrow_c_stream__"):
        raise TypeError(
            f"expected a table with __arrow_c_stream__ (a pandas, polars or pyarrow table), not {type(table).__name__}"
        )
    return cast(Table, _like(table, _release_table(declared, stream, secret, budget_file, fields=fields)))


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
