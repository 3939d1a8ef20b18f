"""Deliberate reuse of noise."""

from collections.abc import Iterator
from contextlib import contextmanager

from . import _evertally

__all__ = ["allow_noise_reuse"]


@contextmanager
def allow_noise_reuse(reason: str) -> Iterator[None]:
    """Allows the same noise to be used with other data, in all threads of this process while the block runs: for tests
    and reproductions.

    The same noise with two data sets reveals their exact difference, so counters, lazy vectors, sketches and the noise
    of vectors refuse to release a step again for other data. Inside the block nothing is refused; earlier releases stay
    on record. `reason` is for readers of the code.

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
    ...     round(first_day(121) - first_day(120), 6)
    1.0
    """
    if not isinstance(reason, str) or not reason.strip():
        raise ValueError("say why other data may get the same noise: allow_noise_reuse(\"compares bytes in a test\")")
    _evertally._allow_noise_reuse(True)
    try:
        yield
    finally:
        _evertally._allow_noise_reuse(False)
