"""Types that several modules use."""

from __future__ import annotations

import datetime as dt
from typing import Protocol, SupportsFloat, SupportsIndex, TypeVar, Union


class ArrowStream(Protocol):
    """Anything with the Arrow PyCapsule interface."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


#: A table; releases come back as one of the same kind.
Table = TypeVar("Table", bound=ArrowStream)

#: A time: text in the format of the program, a date, or a date with time.
Time = Union[str, dt.date, dt.datetime]

#: A number that denotes a multiple of a grid exactly: int, float, Decimal, their NumPy counterparts, or decimal text.
Number = Union[SupportsIndex, SupportsFloat, str]
