"""Releases of exact sums that another engine has computed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar, cast

from ._errors import InvalidError
from ._evertally import Plan, SecretKey, _release_steps, _release_sums
from ._keywords import is_tuple, listed, text_of
from ._tables import _like

Sums = TypeVar("Sums")


def release_sums(
    table: Sums,
    *,
    plan: Plan,
    key: SecretKey | str | os.PathLike[str],
    name: str = "main",
    group: str | Sequence[str] | None = None,
    groups: Iterable[str] | Iterable[Sequence[object]] | None = None,
    step: str = "step",
    sum: str = "sum",
    confidence: float = 0.95,
) -> Sums:
    """Releases exact **running sums** that another engine has computed, one row for each row. The result is a pure
    function of plan, key, name, group, step and sum, in any order, on any number of workers.

    The values equal those of :func:`release` for the same plan (of :func:`plan_release`, with groups that all count
    alike), or those of :class:`Counter` if there are no groups. Requires a mechanism with random access, such as
    ``binary``, ``smooth`` or ``path-sum``; :func:`release_steps` accepts every mechanism.

    Each step of a group has only one sum, permanently: two releases of it with different sums would have the same
    noise, and their difference would be exact. The log next to the key's ledger refuses that (:class:`StateError`), on
    the machine that has the log. You must bound each person's contribution as the plan requires.

    Parameters
    ----------
    plan, key, name
        The plan, key and name of the stream.
    group
        Columns that name the group. Omit it for a stream without groups.
    groups
        The declared groups; a row of any other group is refused. Without them, every group in the table is released:
        then make sure that the set of groups does not depend on the data. A plan with correlated noise of groups needs
        all of its groups in every call, in its order.
    step, sum
        Columns with the step (from 1) and the exact running sum at its end (for a window, the sum of the window).
    confidence
        The confidence of the intervals.

    >>> import evertally as et, pyarrow as pa
    >>> plan = et.plan(1000, rho=0.5, mechanism="path-sum")
    >>> key = et.SecretKey.generate()
    >>> table = pa.table({"step": [700, 1], "sum": [41000, 55]})
    >>> released = et.release_sums(table, plan=plan, key=key, name="visits")
    >>> released.column_names
    ['step', 'value', 'std_error', 'lower', 'upper']
    >>> et.release_sums(pa.table({"step": [700], "sum": [41001]}), plan=plan, key=key, name="visits")
    Traceback (most recent call last):
    ...
    evertally.StateError: step 700 of the stream of sums "visits" was issued for other data; ...
    """
    columns, declared = _groups(group, groups)
    asked = {"name": name, "group": columns, "groups": declared, "step": step, "sum": sum, "confidence": confidence}
    return _released(_release_sums, asked, table, plan, key)


def release_steps(
    table: Sums,
    *,
    plan: Plan,
    key: SecretKey | str | os.PathLike[str],
    through: int,
    name: str = "main",
    group: str | Sequence[str] | None = None,
    groups: Iterable[str] | Iterable[Sequence[object]] | None = None,
    step: str = "step",
    sum: str = "sum",
    confidence: float = 0.95,
) -> Sums:
    """Releases the sums that single **steps add**, computed by another engine, with any mechanism, in one pass over the
    steps of each group. The result has a row for every step through ``through`` and each of the ``groups``. Groups are
    independent of each other, so that any worker may release any whole group. Rows of the same step and group add up;
    steps without a row add nothing.

    Everything else is as in :func:`release_sums`.

    >>> import evertally as et, pyarrow as pa
    >>> plan = et.plan(365, epsilon=1.0)
    >>> table = pa.table({"day": [1, 3], "visits": [120, 95]})
    >>> released = et.release_steps(
    ...     table, plan=plan, key=et.SecretKey.generate(), name="visits", through=30, step="day", sum="visits"
    ... )
    >>> released.num_rows
    30
    """
    columns, declared = _groups(group, groups)
    if columns and declared is None:
        raise InvalidError("groups must be declared: name them with groups=[...]")
    if through < 1:
        raise InvalidError(f"there is no step {through}: steps are numbered from 1")
    asked = {"name": name, "group": columns, "groups": declared, "step": step, "sum": sum, "confidence": confidence}
    return _released(_release_steps, {**asked, "through": through}, table, plan, key)


def _groups(group: str | Sequence[str] | None, groups: Any) -> tuple[list[str], list[list[str]] | None]:
    """The columns that name the group, and the declared groups."""
    columns = listed(group)
    if groups is None:
        return columns, None
    if not columns:
        raise InvalidError("groups need the columns that name them: name these with group")
    if isinstance(groups, str):
        raise InvalidError('groups must be a list of names, such as groups=["JFK", "LGA"]')
    return columns, [[text_of(text) for text in (one if is_tuple(one) else (one,))] for one in groups]


def _released(native: Any, asked: dict[str, Any], table: Sums, plan: Plan, key: Any) -> Sums:
    if not hasattr(table, "__arrow_c_stream__"):
        raise TypeError(f"expected a table with __arrow_c_stream__, not {type(table).__name__}")
    secret = key if isinstance(key, SecretKey) else SecretKey.load(key)
    return cast(Sums, _like(table, native(json.dumps(asked), table, plan, secret)))
