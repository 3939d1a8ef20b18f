"""Noise that is given out again."""

from collections.abc import Iterator
from contextlib import contextmanager

from . import _evertally

__all__ = ["allow_noise_reuse"]


@contextmanager
def allow_noise_reuse(reason: str) -> Iterator[None]:
    """Lets noise meet other data, in all threads of this process while the block runs: for tests and reproductions.

    The same noise under two data sets shows their exact difference, so counters, lazy vectors, sketches and the noise of
    vectors refuse to give a step out again for other data. Inside nothing is refused; what was given out before stays
    noted. Say why, for whoever reads the code.

    >>> import evertally as et
    >>> plan, key = et.plan(365, epsilon=1.0), et.SecretKey.generate()
    >>> def first_day(visits):
    ...     counter = et.Counter(plan, key, "visits")
    ...     counter.add(visits)
    ...     return counter.tick().value
    >>> first_day(120) == first_day(120)
    True
    >>> first_day(121)
    Traceback (most recent call last):
    ...
    evertally.StateError: step 1 of the Counter "visits" was issued for other data; ...
    >>> with et.allow_noise_reuse("shows what would be seen"):
    ...     first_day(121) - first_day(120)
    1.0
    """
    if not isinstance(reason, str) or not reason.strip():
        raise ValueError("say why the same noise may meet other data: allow_noise_reuse(\"compares bytes in a test\")")
    _evertally._allow_noise_reuse(True)
    try:
        yield
    finally:
        _evertally._allow_noise_reuse(False)
