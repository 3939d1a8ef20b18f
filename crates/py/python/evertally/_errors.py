"""Exceptions of evertally. All are subclasses of :class:`EvertallyError`."""

__all__ = [
    "EvertallyError",
    "HorizonExhausted",
    "InvalidError",
    "RandomnessError",
    "ServiceError",
    "StateError",
    "SumOverflowError",
    "TableError",
]


class EvertallyError(Exception):
    """Base class of all errors of evertally; the message names the problem and a remedy."""


class InvalidError(EvertallyError, ValueError):
    """A parameter or value is outside its documented range."""


class TableError(InvalidError):
    """A table of events is invalid; the message names the row (from 1) and the column."""


class SumOverflowError(EvertallyError, OverflowError):
    """An exact sum would exceed the range of 64-bit multiples of the grid."""


class HorizonExhausted(EvertallyError):
    """The stream has already released its last step; a longer one needs a new plan."""


class StateError(EvertallyError, ValueError):
    """Saved bytes are damaged, of an unknown version, or belong to another plan, stream or key; or noise that was
    already released with some data would be reused with other data."""


class RandomnessError(EvertallyError, OSError):
    """The operating system provided no randomness."""


class ServiceError(EvertallyError):
    """A service refused a request, or cannot be reached.

    ``status`` is the status of the response (``None`` without one), ``kind`` names the problem, and ``rows`` describes
    each bad row of a batch: ``row``, ``field``, ``problem``, ``remedy``.
    """

    def __init__(
        self,
        message: str,
        status: int | None = None,
        kind: str | None = None,
        rows: list[dict[str, object]] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.rows = rows or []


for _error in __all__:
    globals()[_error].__module__ = "evertally"
del _error
