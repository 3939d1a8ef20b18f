"""Keywords of a release as the JSON of a declaration, and back."""

from __future__ import annotations

import datetime as dt
import difflib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ._errors import InvalidError
from ._parts import PARAMETERS
from ._types import Time

#: Names of parameters in declarations, and their keywords.
KEYWORDS = {parameter.name: keyword for keyword, parameter in PARAMETERS.items()}


def to_json(keywords: Mapping[str, Any], *, fields: bool = False) -> str:
    """The keywords as a declaration, which Rust reads. Errors name keywords, or the fields of a stream."""
    return json.dumps(declaration(keywords, fields=fields), ensure_ascii=False)


def declaration(keywords: Mapping[str, Any], *, fields: bool = False) -> dict[str, Any]:
    """The keywords as JSON values under the names of files and services. Defaults are omitted, except the name, which
    services need; nothing is checked that Rust checks."""
    given = {keyword: keywords[keyword] for keyword in PARAMETERS if keywords.get(keyword) is not None}
    if (budget := keywords.get("budget")) is not None:
        if any(number in given for number in ("epsilon", "delta", "rho")):
            raise InvalidError("give either budget or its numbers (epsilon, delta, rho), not both")
        numbers = {"epsilon": budget.epsilon, "delta": budget.delta, "rho": budget.rho}
        given |= {number: value for number, value in numbers.items() if value is not None}
        given["allow_weak_budget"] = budget.allow_weak
    if "group" in given and not given.get("discover_groups"):
        given.setdefault("groups", ())
    declared = {}
    for keyword, parameter in PARAMETERS.items():
        if keyword not in given:
            continue
        shown = parameter.field if fields else keyword
        plain, default = _value(parameter.kind, given[keyword], shown), _plain(parameter.default, shown)
        if plain != default or keyword == "name":
            declared[parameter.name] = plain
    return declared


def split(given: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The arguments of a plan: those that can be declared, as a declaration, and the others."""
    others = {name: value for name, value in given.items() if name not in PARAMETERS and name != "budget"}
    return to_json(given), others


def keywords_of(declaration: Mapping[str, Any]) -> dict[str, Any]:
    """The keywords that make this declaration."""
    for name in declaration:
        if name not in KEYWORDS:
            near = "".join(f"; did you mean `{known}`?" for known in difflib.get_close_matches(name, KEYWORDS, 1))
            raise InvalidError(f"a Stream in Python cannot declare `{name}`{near}")
    return {KEYWORDS[name]: value for name, value in declaration.items() if value is not None}


def _value(kind: str, value: Any, shown: str) -> Any:
    """A value as JSON. One of the wrong type is left to Rust, if JSON has it."""
    if kind == "decimal":
        return str(value).strip()
    if kind == "texts" and isinstance(value, str):
        return [value]
    if isinstance(value, str) or not isinstance(value, Iterable):
        return _plain(value, shown)
    if kind == "decimals":
        return [str(number).strip() for number in value]
    if kind == "groups":
        groups = list(value)
        if any(map(is_tuple, groups)):
            return [[text_of(text) for text in (group if is_tuple(group) else (group,))] for group in groups]
        return [text_of(group) for group in groups]
    return _plain(value, shown)


def _plain(value: Any, shown: str) -> Any:
    """NumPy scalars as plain numbers, times as text, and lists of them."""
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidError(f"{shown}: {value} is not a finite number")
    if value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, dt.date):
        return value.isoformat()
    if hasattr(value, "item") and getattr(value, "ndim", 0) == 0:
        return _plain(value.item(), shown)
    if isinstance(value, Iterable) and not isinstance(value, (bytes, Mapping)):
        return [_plain(each, shown) for each in value]
    raise TypeError(f"{shown} must be a string, a number or a list of them, not {value!r}")


def time_text(moment: Time) -> str:
    """A time in the format of the program."""
    if isinstance(moment, str):
        return moment
    return moment.isoformat()


def is_tuple(group: Any) -> bool:
    """Whether a group has a name for each of several columns."""
    return not isinstance(group, str) and isinstance(group, Sequence)


def text_of(name: Any) -> str:
    """The name of a group."""
    return name if isinstance(name, str) else str(name)


def listed(columns: str | Sequence[str] | None) -> list[str]:
    """One name, or several."""
    if columns is None:
        return []
    return [columns] if isinstance(columns, str) else list(columns)
