"""Exceptions of evertally. All are kinds of :class:`EvertallyError`."""

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
    """Anything that evertally refuses or that fails in it; the message says what is wrong and what to do."""


class InvalidError(EvertallyError, ValueError):
    """A parameter or value is outside its documented range."""


class TableError(InvalidError):
    """Something is wrong in a table of events; the message names the row (from 1) and the column."""


class SumOverflowError(EvertallyError, OverflowError):
    """An exact sum would leave the range of 64-bit multiples of the grid."""


class HorizonExhausted(EvertallyError):
    """The stream has already released its last step; a longer one needs a new plan."""


class StateError(EvertallyError, ValueError):
    """Saved bytes are damaged, of an unknown version, or belong to another plan, stream or key; or noise that was given
    out for some data would meet other data."""


class RandomnessError(EvertallyError, OSError):
    """The operating system gave no randomness."""


class ServiceError(EvertallyError):
    """A service refuses something, or cannot be reached.

    ``status`` is that of its answer (``None`` without one), ``kind`` the word for what is wrong, and ``rows`` says of
    each bad row of a batch what is wrong with it: ``row``, ``field``, ``problem``, ``remedy``.
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
