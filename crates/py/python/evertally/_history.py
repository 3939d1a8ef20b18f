"""Queries of a released history."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, TypeVar, cast

from ._evertally import Plan, _interval_table
from ._keywords import is_tuple, text_of, time_text
from ._tables import _like
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
    """Estimates the total over an interval of a released table, with exact standard errors and confidence intervals.

    ``table`` is a result of :func:`release`, or a table with the same columns; ``plan`` is its plan, which
    :func:`plan_release` returns for the same keywords. Nothing else is read, and no privacy budget is spent: the noise
    of a difference follows from the plan's covariances, and neighbouring releases share most of their noise.

    The result has a row for every group, and a last row with a missing group for all of them together. Its columns are
    ``value``, ``std_error``, ``lower`` and ``upper``, and for ratios ``ratio``, ``ratio_lower``, ``ratio_upper`` and
    ``ratio_set``. The last tells where the true ratio lies: ``between`` the two numbers, ``outside`` of them (the
    denominator may be 0), or ``anything``.

    Parameters
    ----------
    start, end
        The beginning and the end of the interval: times at which a step begins or ends, or the numbers of its first and
        last step. By default the whole table.
    group
        A group or a list of them, as tuples if there are several columns. By default all.
    ratio_to
        Another interval of the same groups, as (start, end), such as last week for this week's ratio to it.
    ratio_to_group
        Other groups, whose total in the same interval is the denominator.
    share
        Whether to compute the ratio to all groups of the table.
    confidence
        The confidence of each interval by itself.
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
        raise TypeError(f"expected a table with __arrow_c_stream__, not {type(table).__name__}")
    return cast(Released, _like(table, _interval_table(json.dumps(asked), table, plan)))


def _moment(moment: Time | int | None) -> str | None:
    if moment is None or isinstance(moment, str):
        return moment
    return str(moment) if isinstance(moment, int) else time_text(moment)


def _groups(group: Any) -> list[str]:
    """Names of groups; the texts of several columns are joined by /."""
    if group is None:
        return []
    given: Sequence[Any] = group if isinstance(group, list) else [group]
    return ["/".join(text_of(text) for text in name) if is_tuple(name) else text_of(name) for name in given]
