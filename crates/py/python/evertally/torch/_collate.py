"""Checks that collation keeps the examples of a batch independent of each other."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import evertally
import numpy as np
import torch

#: The first batches, of which every example is compared; of each later batch one example is.
WHOLE = 3

MIXES = (
    "collate_fn returns an example with other values, another type or another shape in a batch than alone: one example "
    "can then change the gradients of all others by more than the plan's norm. Pad every example to one length that is "
    "fixed beforehand, not to the longest of the batch; avoid operations that mix examples, such as mixup or batch "
    "statistics"
)
DIFFER = (
    "the examples of a batch have different lengths or shapes, so they cannot be stacked: pad every example to one "
    "length that is fixed beforehand, in the data set or in collate_fn, such as by a tokenizer's padding=\"max_length\""
)
DRAWS = (
    "collate_fn draws at random, so it is impossible to check whether it mixes examples: draw in the data set, in "
    "__getitem__, for each example alone"
)


class Apart:
    """A checked `collate_fn`: it must return each example of a batch as it returns the example alone. All examples of
    the first batches are compared, and one of every later batch.

    The state of random number generators stays as it was, and errors reveal nothing of the data.
    """

    def __init__(self, collate: Callable[[list[Any]], Any]) -> None:
        self._collate, self._batches = collate, 0

    def __call__(self, pairs: list[Any]) -> Any:
        count = len(pairs)
        if count < 2:
            return self._collate(pairs)
        places = range(count) if self._batches < WHOLE else [self._batches % count]
        self._batches += 1
        # Copied first: collation may change the examples.
        kept = {place: copy.deepcopy(pairs[place]) for place in places}
        together = stacked(self._collate, pairs)
        with random_numbers_kept():
            for place, pair in kept.items():
                if not _comes_out(together, self._collate([copy.deepcopy(pair)]), place, count):
                    raise evertally.InvalidError(DRAWS if self._draws(pair) else MIXES)
        return together

    def _draws(self, pair: Any) -> bool:
        """Whether the result for a single example varies."""
        once, again = (self._collate([copy.deepcopy(pair)]) for _ in range(2))
        return not _same(once, again)


def stacked(collate: Callable[[list[Any]], Any], pairs: list[Any]) -> Any:
    """The result for several examples. If it fails, although it succeeds for two copies of the first one, the error
    names the reason and no sizes: they are secret, like the batch."""
    try:
        return collate(pairs)
    except evertally.EvertallyError:
        raise
    except (RuntimeError, TypeError, ValueError):
        if not _stacks(collate, [copy.deepcopy(pairs[0]) for _ in range(2)]):
            raise
    raise evertally.InvalidError(DIFFER)


def _stacks(collate: Callable[[list[Any]], Any], pairs: list[Any]) -> bool:
    with random_numbers_kept(), suppress(RuntimeError, TypeError, ValueError):
        collate(pairs)
        return True
    return False


def _comes_out(together: Any, alone: Any, place: int, count: int) -> bool:
    """Whether the example at a place of a batch is the same as alone; data that belong to no single example must be
    equal."""
    if _is_array(together) and _is_array(alone):
        together, alone = _tensor(together), _tensor(alone)
        if together.ndim and alone.ndim and len(together) == count and len(alone) == 1:
            return _same(together[place], alone[0])
        return _same(together, alone)
    if isinstance(together, Mapping) and isinstance(alone, Mapping):
        return list(together) == list(alone) and all(
            _comes_out(together[name], alone[name], place, count) for name in together
        )
    if _is_list(together) and _is_list(alone):
        if len(together) == len(alone):
            return all(_comes_out(one, other, place, count) for one, other in zip(together, alone))
        return len(together) == count and len(alone) == 1 and _same(together[place], alone[0])
    if _has_parts(together) and type(together) is type(alone):
        return _comes_out(vars(together), vars(alone), place, count)
    return _same(together, alone)


def _same(one: Any, other: Any) -> bool:
    """Whether two results are equal, including type and shape."""
    if _is_array(one) and _is_array(other):
        one, other = _tensor(one), _tensor(other)
        if one.dtype != other.dtype or one.shape != other.shape:
            return False
        if one.is_floating_point() or one.is_complex():
            holes = one.isnan()
            return torch.equal(holes, other.isnan()) and torch.equal(one[~holes], other[~holes])
        return torch.equal(one, other)
    if type(one) is not type(other):
        return False
    if isinstance(one, Mapping):
        return list(one) == list(other) and all(_same(one[name], other[name]) for name in one)
    if _is_list(one):
        return len(one) == len(other) and all(map(_same, one, other))
    if _has_parts(one):
        return _same(vars(one), vars(other))
    # Values that cannot be compared count as different.
    return one is other or (one == other) is True or (one != one and other != other)


def _is_array(value: Any) -> bool:
    return isinstance(value, (torch.Tensor, np.ndarray, np.generic)) and not (
        isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind not in "biufc"
    )


def _tensor(value: Any) -> torch.Tensor:
    tensor = value if isinstance(value, torch.Tensor) else torch.from_numpy(np.array(value))
    if tensor.is_nested:
        raise evertally.InvalidError(MIXES)
    return tensor.detach() if tensor.layout == torch.strided else tensor.detach().to_dense()


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray))


def _has_parts(value: Any) -> bool:
    """Whether a value is an object that is described by its attributes, such as a dataclass."""
    return hasattr(value, "__dict__") and not isinstance(value, type) and not callable(value)


@contextmanager
def random_numbers_kept() -> Iterator[None]:
    """Restores the random number generators afterwards, so that a resumed run gets the same numbers."""
    state = (torch.get_rng_state(), np.random.get_state(), random.getstate())
    try:
        yield
    finally:
        torch.set_rng_state(state[0])
        np.random.set_state(state[1])
        random.setstate(state[2])
