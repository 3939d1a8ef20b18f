"""Random number generators of NumPy and Python that a module or a data set keeps, in an attribute or a global variable.

The number of their draws would depend on the batch, and so the numbers of all later examples and steps. They are found
by a search of all objects of the process. Searches take at most a hundredth of the time, so a generator that was made
during a run may be noticed some steps late.
"""

from __future__ import annotations

import gc
import pickle
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import evertally
import numpy as np

__all__ = ["unmoved"]

KINDS = (np.random.BitGenerator, random.Random)
#: The default generators, which a private run seeds.
DEFAULT = (np.random.mtrand._rand._bit_generator, vars(random)["_inst"])


class _Known:
    """The generators of the process that were found by the last search."""

    def __init__(self) -> None:
        self._found: list[Any] = []
        self._next = 0.0

    def all(self) -> list[Any]:
        """The generators, after another search if the last one was long ago."""
        start = time.perf_counter()
        if start >= self._next:
            self._found = _search()
            end = time.perf_counter()
            self._next = end + 100 * (end - start)
        return self._found


def _search() -> list[Any]:
    objects = gc.get_objects()
    kinds = {kind for kind in set(map(type, objects)) if issubclass(kind, KINDS)}
    kinds = {kind for kind in kinds if not issubclass(kind, random.SystemRandom)}  # which has no state
    return [each for each in objects if type(each) in kinds and not any(each is own for own in DEFAULT)]


known = _Known()


@contextmanager
def unmoved(drawing: str) -> Iterator[None]:
    """Refuses a block in which a generator other than the default ones draws; `drawing` names the block in the error.
    """
    states = [(each, _state(each)) for each in known.all()]
    yield
    for each, before in states:
        if _state(each) != before:
            raise evertally.InvalidError(
                f"{drawing} draws from a random number generator that it keeps ({type(each).__name__}): one example "
                "changes the draws of all later ones. Draw from the default generators of torch, numpy or random, or "
                "make one in each call, as numpy.random.default_rng(torch.initial_seed())"
            )


def _state(generator: Any) -> Any:
    return generator.getstate() if isinstance(generator, random.Random) else pickle.dumps(generator.state)
