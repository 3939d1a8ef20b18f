"""Questions to a released history."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, TypeVar, cast

from ._evertally import Plan, _interval_table
from ._tables import _group_text, _is_tuple, _like, _time_text
from ._types import Time

Released = TypeVar("Released")


def interval(
    table: Released,
    plan: Plan,
    *,
    start: Time | int | None = None,
    end: Time | int | None = None,
    group: Any = None,
    ratio_to: tuple[Time | int, Time | int] | None = None,
    ratio_to_group: Any = None,
    share: bool = False,
    confidence: float = 0.95,
) -> Released:
    """What happened in a stretch of a released table, with exact standard errors and intervals.

    ``table`` is what :func:`release` returned, or has the same columns; ``plan`` is its plan, which
    :func:`plan_release` gives for the same keywords. Nothing else is read, and no privacy is spent: the noise of a difference
    follows from the plan's covariances, of which neighbouring releases share most.

    The result has a row for every group, and a last one, whose group is missing, for all of them together; with the
    columns ``value``, ``std_error``, ``lower`` and ``upper``, and with ratios ``ratio``, ``ratio_lower``, ``ratio_upper`` and
    ``ratio_set``. The last says what the true ratio is: ``between`` the two numbers, ``outside`` of them (the denominator
    may be 0), or ``anything``.

    Parameters
    ----------
    start, end
        Where the stretch begins and ends: a time at which a step begins or ends, or the numbers of its first and last
        step. The whole table, where left out.
    group
        A group or a list of them, tuples for several columns. All, where left out.
    ratio_to
        Another stretch of the same groups, as (start, end): this week's ratio to the last.
    ratio_to_group
        Other groups, whose total in the same stretch is the denominator.
    share
        The ratio to all groups of the table.
    confidence
        Of every interval by itself.
    """
    asked = {
        "start": _moment(start),
        "end": _moment(end),
        "groups": _groups(group),
        "ratio_to": None if ratio_to is None else [_moment(moment) for moment in ratio_to],
        "ratio_to_groups": _groups(ratio_to_group),
        "share": share,
        "confidence": confidence,
    }
    if not hasattr(table, "__arrow_c_stream__"):
        raise TypeError(f"a table with __arrow_c_stream__ is needed, not {type(table).__name__}")
    return cast(Released, _like(table, _interval_table(json.dumps(asked), table, plan)))


def _moment(moment: Time | int | None) -> str | None:
    if moment is None or isinstance(moment, str):
        return moment
    return str(moment) if isinstance(moment, int) else _time_text(moment)


def _groups(group: Any) -> list[str]:
    """Names with the texts of several columns joined by /."""
    if group is None:
        return []
    given: Sequence[Any] = group if isinstance(group, list) else [group]
    return ["/".join(_group_text(text) for text in name) if _is_tuple(name) else _group_text(name) for name in given]
