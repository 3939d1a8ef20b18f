"""One object for everything that a stream declares: :class:`Stream`."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal

from . import _keywords, _names, _tables
from ._errors import InvalidError
from ._evertally import Budget, Plan, SecretKey, _plan_table
from ._parts import PARAMETERS, AssertedPerson, Columns, Event, Groups, Person, Steps, Values
from ._types import Frozen, Table, Time

if TYPE_CHECKING:
    from ._connect import Service, ServiceStream
    from pyspark.sql import DataFrame

__all__ = ["Stream"]

#: The parts of a stream, and their types.
PARTS: dict[str, tuple[type, ...]] = {
    "steps": (Steps,),
    "budget": (Budget,),
    "unit": (Event, Person, AssertedPerson),
    "groups": (Groups, type(None)),
    "values": (Values, type(None)),
    "columns": (Columns,),
}


@_names.part
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Stream(Frozen):
    """A stream of events whose private running counts or sums are released: everything that is decided before the data
    are seen.

    A stream is immutable, contains no secret and no data, and can be published. It is planned (:meth:`plan`), released
    from a table (:meth:`release`) or a Spark DataFrame (:meth:`spark`), or opened at a service (:meth:`open`).
    ``dataclasses.replace`` returns a changed copy. The same declaration can be made with the keywords of
    :func:`release`. Streams are equal if they make the same declaration (:meth:`to_json`).

    Nothing is checked before it is used: then :class:`InvalidError` names the field, such as ``unit.max_events``.

    Fields:
        ``name``: Name of this stream; each name serves one data set.
        ``steps``: The :class:`Steps`.
        ``budget``: The :class:`Budget` of the whole history of all groups.
        ``unit``: The privacy unit: a single :class:`Event`, a :class:`Person` with all events that the bounds keep, or
            an :class:`AssertedPerson`, whose bounds are assumed.
        ``groups``: The :class:`Groups`; without them, there is one running sum.
        ``values``: The :class:`Values` to sum; without them, events are counted.
        ``columns``: How events are read: :class:`Columns`.
        ``workload``: Quantity published at every step: sum (all events so far), window(W) (events of the last W steps,
            or of a time span such as window(7d)), decay(H) (each event's weight halves every H steps, or every time
            span) or increments (events of that step alone). Several are read from one release: `window(7d)*4` makes the
            precision of that workload count four times as much as that of the others.
        ``measures``: Measure to release at the end of every step, under one budget with the others: count, sum, mean,
            variance, std (standard deviation), distinct (people so far), distinct(WIDTH) (people in the last WIDTH
            steps, or in a time span such as 7d), histogram(CUT,…) (events by value) or quantile(SHARE). `mean*4` makes
            the precision of that measure count four times as much as that of the others when the budget is divided.
            Without it, a running count or sum. Several are given as a sequence, such as ("count", "mean").
        ``mechanism``: Mechanism, such as subtract(k=13). Without it, the one with the least error.
        ``noise``: Noise distribution. Without it, the one with the least error that the budget allows.
        ``objective``: Minimise the maximum or the mean error over the steps.
        ``confidence``: Confidence level of the intervals, between 0 and 1.
        ``band``: Coverage of the intervals: each interval holds by itself, or all steps of a group hold at once.
            "pointwise": Each interval holds with the confidence level; among many, some miss. "simultaneous": The
            intervals of all steps hold at once, for each group.
        ``view``: Additional columns with adjusted copies of the released values: `non-negative`, `non-decreasing`
            (requires band simultaneous), `whole-number`, or several.

    >>> import evertally as et, pyarrow as pa
    >>> visits = et.Stream(
    ...     name="visits",
    ...     steps=et.Steps(start="2024-01-01", end="2025-01-01", every="1d"),
    ...     unit=et.Person("visitor", max_events=10, per="1mo"),
    ...     groups=et.Groups("gate", ["north", "south"]),
    ...     budget=et.Budget.zcdp(0.5),
    ... )
    >>> visits.plan().horizon
    366
    >>> events = pa.table({"time": ["2024-01-03"], "visitor": ["anna"], "gate": ["north"]})
    >>> visits.release(events, et.SecretKey.generate()).num_rows
    732
    """

    name: str = "main"
    steps: Steps
    budget: Budget
    unit: Event | Person | AssertedPerson = Event()
    groups: Groups | None = None
    values: Values | None = None
    columns: Columns = Columns()
    workload: str | Sequence[str] = "sum"
    measures: str | Sequence[str] | None = None
    mechanism: str | None = None
    noise: Literal["laplace", "gaussian"] | None = None
    objective: Literal["max", "mean"] = "max"
    confidence: float = 0.95
    band: Literal["pointwise", "simultaneous"] = "pointwise"
    view: str | Sequence[str] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for part, types in PARTS.items():
            if not isinstance(value := getattr(self, part), types):
                known = " or ".join(f"evertally.{one.__name__}" for one in types if one is not type(None))
                raise TypeError(f"{part} must be of type {known}, not {value!r}")

    def __eq__(self, other: object) -> bool:
        return self._declared() == other._declared() if isinstance(other, Stream) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.to_json())

    def to_json(self) -> str:
        """The declaration as JSON, which a service reads. Its names are those of configuration files, without defaults.

        >>> import evertally as et
        >>> steps = et.Steps(start="2024-01-01", every="1d", count=366)
        >>> et.Stream(name="visits", steps=steps, budget=et.Budget.pure(1.0)).to_json()
        '{"stream": "visits", "every": "1d", "start": "2024-01-01", "steps": 366, "epsilon": 1.0}'
        """
        return json.dumps(self._declared(), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Stream:
        """The stream that a declaration makes.

        Raises :class:`InvalidError` if `text` is not a declaration, or declares what a stream in Python cannot.

        >>> import evertally as et
        >>> text = '{"start": "2024-01-01", "every": "1d", "steps": 366, "person": "who", "max-events": 9, "rho": 0.5}'
        >>> et.Stream.from_json(text).unit.max_events
        9
        """
        try:
            declared = json.loads(text)
        except ValueError as problem:
            raise InvalidError(f"this is not a declaration in JSON: {problem}") from None
        if not isinstance(declared, dict):
            raise InvalidError("this is not a declaration: a JSON object is expected")
        return cls.from_keywords(**_keywords.keywords_of(declared))

    @classmethod
    def from_keywords(cls, *, budget: Budget | None = None, **keywords: Any) -> Stream:
        """The stream that the keywords of :func:`plan_release` make.

        Raises :class:`InvalidError` if they name no budget, or bounds of a person without the person's column, or the
        like.

        >>> import evertally as et
        >>> stream = et.Stream.from_keywords(
        ...     start="2024-01-01", every="1d", steps=366, person="who", max_events=9, rho=0.5
        ... )
        >>> stream.unit.max_events
        9
        """
        own: dict[str, Any] = {}
        parts: dict[str, dict[str, Any]] = {part: {} for part in PARTS}
        for keyword, value in keywords.items():
            if keyword not in PARAMETERS:
                raise _names.unknown("evertally.release", "keyword", keyword, PARAMETERS)
            if value is not None:
                part, _, field = PARAMETERS[keyword].field.rpartition(".")
                (parts[part] if part else own)[field] = value
        own["budget"] = _budget(budget, parts.pop("budget"))
        unit = parts.pop("unit")
        own["unit"] = _part("unit", _unit_of(unit), unit)
        for part, given in parts.items():
            if given or part in ("steps", "columns"):
                own[part] = _part(part, PARTS[part][0], given)
        return cls(**own)

    def plan(self) -> Plan:
        """Plans the release, before any event is read.

        Raises :class:`InvalidError` if fields contradict each other, or the request cannot be met.

        >>> import evertally as et
        >>> steps = et.Steps(start="2024-01-01", every="1d", count=366)
        >>> et.Stream(steps=steps, budget=et.Budget.pure(1.0)).plan().noise
        'laplace'
        """
        return _plan_table(self.to_json(), fields=True)

    def release(
        self,
        table: Table,
        key: SecretKey | str | os.PathLike[str],
        *,
        through: Time | None = None,
        budget_file: str | os.PathLike[str] | None = None,
    ) -> Table:
        """Releases a table of events, as :func:`evertally.release` does.

        `key` is the secret key, or the path of its file. `budget_file` is the budget file of the data source that this
        release spends from. `through` overrides ``steps.through``: only steps that end by this time are published.

        Raises :class:`TableError` for a bad row or column, and :class:`InvalidError` for an invalid declaration.
        """
        stream = self._through(through)
        return _tables.released(table, stream._keywords(), key, budget_file, fields=True)

    def spark(
        self,
        df: DataFrame,
        key: SecretKey | str | os.PathLike[str],
        *,
        through: Time | None = None,
        budget_file: str | os.PathLike[str] | None = None,
        partitions: int | None = None,
        worker_key: str | os.PathLike[str] | None = None,
    ) -> DataFrame:
        """Releases a Spark DataFrame of events, as :func:`evertally.spark.release` does, which describes `partitions`
        and `worker_key`; the other arguments are those of :meth:`release`.
        """
        from .spark import _batch

        declared = self._through(through)._keywords()
        return _batch.released(df, declared, key, budget_file, partitions, worker_key, fields=True)

    def open(
        self,
        service: Service,
        *,
        public: bool = False,
        source: str | None = None,
        closing: Literal["schedule", "operator", "sums"] = "schedule",
        id: str | None = None,
        grace: str | None = None,
        delay: str | None = None,
    ) -> ServiceStream:
        """Opens the stream at a service, which plans it, and returns the service's stream. :func:`connect` returns the
        service; its token needs the role to operate.

        `public` is whether anyone may read it, `source` the budget that it spends from, `closing` who closes its steps,
        `id` a column whose texts identify rows, each of which is counted once, and `grace` and `delay` are times such
        as ``"90s"``.

        Raises :class:`ServiceError` if the service refuses the declaration.
        """
        more = {"public": public, "source": source, "closing": closing, "id": id, "grace": grace, "delay": delay}
        return service.open(self._declared(), **{name: value for name, value in more.items() if value is not None})

    def _through(self, through: Time | None) -> Stream:
        return self if through is None else replace(self, steps=replace(self.steps, through=through))

    def _keywords(self) -> dict[str, Any]:
        """The keywords of :func:`release` that make the same declaration."""
        return {keyword: _reached(self, parameter.field) for keyword, parameter in PARAMETERS.items()}

    def _declared(self) -> dict[str, Any]:
        return _keywords.declaration(self._keywords(), fields=True)


def _reached(stream: Stream, path: str) -> Any:
    """The value of a field, such as ``unit.max_events``; ``None`` if this kind of unit has no such field."""
    found: Any = stream
    for name in path.split("."):
        found = getattr(found, name, None)
    return found


def _budget(budget: Budget | None, numbers: Mapping[str, Any]) -> Budget:
    allow_weak = bool(numbers.get("allow_weak"))
    match budget, numbers.get("epsilon"), numbers.get("delta"), numbers.get("rho"):
        case Budget(), None, None, None:
            return budget
        case None, epsilon, None, None if epsilon is not None:
            return Budget.pure(epsilon, allow_weak=allow_weak)
        case None, epsilon, delta, None if epsilon is not None and delta is not None:
            return Budget.approximate(epsilon, delta, allow_weak=allow_weak)
        case None, None, None, rho if rho is not None:
            return Budget.zcdp(rho, allow_weak=allow_weak)
    raise InvalidError("give one budget: budget, or epsilon, or epsilon and delta, or rho")


def _unit_of(given: Mapping[str, Any]) -> type:
    """The kind of unit with these fields."""
    if set(given) <= {"neighbours"}:
        return Event
    asserted = {name for name in given if name.startswith("assert")}
    if enforced := set(given) - asserted - {"per", "protect_window", "neighbours"}:
        if asserted:
            together = f"{min(asserted)} and {min(enforced)}"
            raise InvalidError(f"{together} do not go together: bounds are either enforced, with a person, or asserted")
        return Person
    return AssertedPerson if asserted else Person


def _part(name: str, kind: type, given: Mapping[str, Any]) -> Any:
    """A part of these fields; a needed one must be among them."""
    try:
        return kind(**given)
    except TypeError:
        known = {field.name for field in fields(kind)}
        if unknown := sorted(set(given) - known):
            raise InvalidError(f"{name}.{unknown[0]} is not a field of evertally.{kind.__name__}; omit it") from None
        needed = next((p for p in ("start", "every", "column", "columns") if p in known and p not in given), None)
        if needed is None:
            raise
        raise InvalidError(f"{name}.{needed} is needed") from None
