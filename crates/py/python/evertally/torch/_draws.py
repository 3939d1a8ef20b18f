"""Random numbers of forward passes, such as those of dropout: each example has its own.

A generator that all examples share gives each the numbers of its place in the batch. Then an example that is removed
changes the numbers of all later ones, and their gradients: the difference of the two sums has no bound. So an example's
numbers are a function of the key, the run's name, the step, the example's number and the place of the draw in the
module. They are the same with any other examples, microbatches and processes, and after a run is resumed.

Where examples have no numbers, all generators are seeded secretly for each call. Then the draws of a batch are
independent, identically distributed and unknown, so those of a neighbouring batch can be coupled with them.
"""

from __future__ import annotations

import hashlib
import random
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import evertally
import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

__all__ = ["Draws", "drawn", "kept", "seed_all"]

Result = TypeVar("Result")


class Draws:
    """The random numbers of a run."""

    def __init__(self, key: evertally.SecretKey, name: str) -> None:
        own = hashlib.blake2b(name.encode(), key=key.expose_bytes(), digest_size=32, person=b"evertally draws")
        self._secret = own.digest()

    def seed(self, *place: Any) -> bytes:
        """32 bytes for a place; nobody can compute them without the key."""
        return hashlib.blake2b(repr(place).encode(), key=self._secret, digest_size=32).digest()

    def seeds(self, step: int, examples: Sequence[int]) -> list[int]:
        """A seed for each example of a step, for draws while the example is loaded."""
        return [int.from_bytes(self.seed(step, "data", int(each))[:8], "little") for each in examples]

    @contextmanager
    def of_step(self, step: int, examples: Sequence[int] | None) -> Iterator[None]:
        """Inside, modules that run for these examples draw the numbers of this step."""
        before = _current.set((self, step, None if examples is None else [int(each) for each in examples]))
        try:
            yield
        finally:
            _current.reset(before)


#: The run, the step and the examples for which modules draw.
_current: ContextVar[tuple[Draws, int, list[int] | None] | None] = ContextVar("draws", default=None)


def drawn(compute: Callable[[], Result], count: int, devices: Iterable[torch.device]) -> Result:
    """The result of a function that runs a module for `count` examples under `torch.func.vmap`. The public generators
    are the same afterwards."""
    found = _current.get()
    with kept(devices) as generators:
        if found is None:
            seed_all(secrets.token_bytes(32), generators)
            return compute()
        draws, step, examples = found
        seed_all(draws.seed(step), generators)
        if examples is None or count not in (1, len(examples)):
            return compute()
        for generator in generators:  # for draws without a row for each example
            _seed(generator, draws.seed(step, "all", examples[:1]))
        with _Rows(lambda number, call: draws.seed(step, number, call), examples, int(count != len(examples))):
            return compute()


class _Rows(TorchDispatchMode):
    """Draws for each example by itself. Operations arrive here with a row for each example along the first dimension,
    or along the second if the whole batch runs as one example."""

    def __init__(self, seed: Callable[[int, int], bytes], examples: list[int], along: int) -> None:
        super().__init__()
        self._seed, self._examples, self._along, self._calls = seed, examples, along, 0

    def __torch_dispatch__(self, function: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if torch.Tag.nondeterministic_seeded not in function.tags:
            return function(*args, **kwargs)
        if kwargs.get("generator") is not None:
            kwargs = {**kwargs, "generator": None}
        tensors = [value for value in args if isinstance(value, torch.Tensor)]
        most = max((value.dim() for value in tensors), default=0)
        rows = [self._has_rows(value, most) for value in args]
        if not any(rows):
            return function(*args, **kwargs)  # all draws of one example, one after the other
        device = tensors[0].device if tensors else torch.device(kwargs.get("device") or "cpu")
        (generator,) = _generators([device])
        self._calls += 1
        made, before = [], generator.get_state()
        for place, number in enumerate(self._examples):
            _seed(generator, self._seed(number, self._calls), short=True)
            own = [self._row(value, place) if has else value for value, has in zip(args, rows)]
            made.append(function(*own, **kwargs))
        generator.set_state(before)  # for draws without rows
        if function._schema.is_mutable:
            return args[0]
        if isinstance(made[0], torch.Tensor):
            return torch.cat(made, dim=self._along)
        return tuple(torch.cat(parts, dim=self._along) for parts in zip(*made))

    def _has_rows(self, value: Any, most: int) -> bool:
        """Whether a tensor, or a list of sizes, has a row for each example."""
        if isinstance(value, torch.Tensor):
            if value.dim() < most:
                return False
            value = value.shape
        if not isinstance(value, (list, tuple)) or len(value) <= self._along:
            return False
        return value[self._along] == len(self._examples) and value[0] in (1, len(self._examples))

    def _row(self, value: Any, place: int) -> Any:
        if isinstance(value, torch.Tensor):
            return value.narrow(self._along, place, 1)
        return [1 if index == self._along else size for index, size in enumerate(value)]


@contextmanager
def kept(devices: Iterable[torch.device] = ()) -> Iterator[list[torch.Generator]]:
    """Restores all random number generators afterwards: those of PyTorch for the CPU and some devices, which it
    returns, of NumPy, and of Python."""
    generators = _generators({torch.device("cpu"), *devices})
    states = [generator.get_state() for generator in generators]
    others = np.random.get_state(), random.getstate()
    try:
        yield generators
    finally:
        for generator, state in zip(generators, states):
            generator.set_state(state)
        np.random.set_state(others[0])
        random.setstate(others[1])


def _generators(devices: Iterable[torch.device]) -> list[torch.Generator]:
    """The default generators of devices, where they can be reached."""
    found: list[torch.Generator] = []
    for device in devices:
        if device.type == "cpu":
            found.append(torch.default_generator)
        elif device.type == "mps":
            found.append(torch.mps._get_default_mps_generator())
        elif device.type != "meta":
            module = getattr(torch, device.type)
            module.init()
            found.append(module.default_generators[module.current_device() if device.index is None else device.index])
    return found


def seed_all(seed: bytes, generators: Iterable[torch.Generator], short: bool = False) -> None:
    """Seeds the generators of PyTorch, and those of NumPy and Python."""
    for generator in generators:
        _seed(generator, seed, short)
    np.random.seed(np.frombuffer(seed, dtype=np.uint32))
    random.seed(seed)


#: The words of the state of PyTorch's generator for the CPU (MT19937), each in 8 bytes, and the first of them.
WORDS, FIRST = 624, 24


def _seed(generator: torch.Generator, seed: bytes, short: bool = False) -> None:
    """Seeds a generator. On the CPU `manual_seed` uses only 32 bits, which anyone can try: unless a short seed
    suffices, all words of the state are set."""
    generator.manual_seed(int.from_bytes(seed[:8], "little") >> 1)
    if generator.device.type == "cpu" and not short:
        state = generator.get_state()
        words = np.frombuffer(hashlib.shake_256(seed).digest(4 * WORDS), dtype="<u4").astype("<u8")
        state[FIRST : FIRST + 8 * WORDS] = torch.from_numpy(words.view(np.uint8))
        generator.set_state(state)
