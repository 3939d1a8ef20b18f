"""Types that several modules use."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Iterable
from typing import Any, Literal, Protocol, SupportsFloat, SupportsIndex, TypeVar, Union


class ArrowStream(Protocol):
    """Anything with the Arrow PyCapsule interface."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


#: A table; releases come back as one of the same kind.
Table = TypeVar("Table", bound=ArrowStream)

#: A time: text in the format of the program, a date, or a date with time.
Time = Union[str, dt.date, dt.datetime]

#: A number that denotes a multiple of a grid exactly: int, float, Decimal, their NumPy counterparts, or decimal text.
Number = Union[SupportsIndex, SupportsFloat, str]

#: How the examples of a step are sampled.
SamplingScheme = Literal[
    "poisson", "cyclic-poisson", "random-allocation", "per-epoch-random-allocation", "fixed-size", "truncated-poisson"
]


class Frozen:
    """A base of frozen dataclasses: their lists become tuples, and their text omits defaults."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            object.__setattr__(self, field.name, _frozen(getattr(self, field.name)))

    def __repr__(self) -> str:
        given = []
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if value != field.default:
                given.append(f"{field.name}={value!r}" if field.kw_only else repr(value))
        return f"{type(self).__name__}({', '.join(given)})"


def _frozen(value: Any) -> Any:
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        return value
    return tuple(map(_frozen, value))
