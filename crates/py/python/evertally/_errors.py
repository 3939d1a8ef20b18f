"""Exceptions of evertally. All are kinds of :class:`EvertallyError`."""

__all__ = [
    "EvertallyError",
    "HorizonExhausted",
    "InvalidError",
    "RandomnessError",
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
    """Saved bytes are damaged, of an unknown version, or belong to another plan, stream or key."""


class RandomnessError(EvertallyError, OSError):
    """The operating system gave no randomness."""


for _error in __all__:
    globals()[_error].__module__ = "evertally"
del _error
