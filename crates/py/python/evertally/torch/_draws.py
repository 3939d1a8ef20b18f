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
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any, TypeVar

import evertally
import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from evertally.torch._dropout import Masks
from evertally.training._seeds import Seeds

__all__ = ["Draws", "Drew", "drawn", "kept", "may_be_quiet", "note_draws", "note_refusal", "seed_all"]

Result = TypeVar("Result")


class Draws(Seeds):
    """The random numbers of a run."""

    def __init__(self, key: evertally.SecretKey, name: str) -> None:
        super().__init__(key, name)
        #: Whether other operations than dropout have drawn: then each operation is looked at from the start.
        self.others = False

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


class Drew(Exception):
    """The module draws in a way that only a look at every operation can divide by example."""


#: The draws in a run of a module that must not draw, including those that `torch.func.vmap` has refused.
_noted: ContextVar[list[bool] | None] = ContextVar("noted", default=None)


def note_draws(function: Any, arguments: Any) -> None:
    """Notes calls that may draw from another generator, or without a rule of vmap."""
    noted = _noted.get()
    if noted is None:
        return
    draws = any(torch.Tag.nondeterministic_seeded in operation.tags for operation in _operations(function))
    # Of the functions in Python only these draw without a rule: randint_like up to a tensor, and some with out=.
    unruled = function is torch.randint_like or arguments.get("out") is not None
    if draws or unruled or arguments.get("generator") is not None:
        noted.append(True)
        raise Drew


def note_refusal(error: RuntimeError) -> None:
    """Notes an error of a call if it is vmap's refusal to draw: the module may catch it, and compute something else."""
    noted = _noted.get()
    if noted is not None and "randomness" in str(error):
        noted.append(True)


def _operations(function: Any) -> list[Any]:
    if isinstance(function, torch._ops.OpOverloadPacket):
        return [getattr(function, name) for name in function.overloads()]
    return [function] if isinstance(function, torch._ops.OpOverload) else []


def may_be_quiet() -> bool:
    """Whether a run of a module should be tried in which only dropout draws."""
    found = _current.get()
    return found is not None and found[2] is not None and not found[0].others


def drawn(compute: Callable[[str], Result], count: int, devices: Iterable[torch.device], quiet: bool = False) -> Result:
    """The result of a function that runs a module for `count` examples under `torch.func.vmap`, with this `randomness`.
    The public generators are the same afterwards.

    Where nothing but dropout draws, nobody needs to look at every operation. With `quiet` this is so, and is checked in
    each call: vmap refuses to draw, and generators must not move. Otherwise `Drew` is raised."""
    found = _current.get()
    with kept(devices) as generators:
        if found is None:
            seed_all(secrets.token_bytes(32), generators)
            return compute("different")
        draws, step, examples = found
        seed_all(draws.seed(step), generators)
        if examples is None or count not in (1, len(examples)):
            return compute("different")
        masks = Masks([_short(draws.seed(step, number, "dropout")) for number in examples])
        with masks.drawing() if count == len(examples) else nullcontext():
            if quiet:
                return _without_draws(draws, compute, generators)
            rows = _Rows(lambda number, call: draws.seed(step, number, call), examples, int(count != len(examples)))
            with rows:
                result = compute("different")
            if rows.refused is not None:  # the module has caught it, and a single example is not refused
                raise rows.refused
            return result


def _without_draws(draws: Draws, compute: Callable[[str], Result], generators: Sequence[torch.Generator]) -> Result:
    """The result, if no operation has drawn or tried to."""
    before, noted = [generator.get_state() for generator in generators], list[bool]()
    token = _noted.set(noted)
    try:
        result = compute("error")
    except Exception as error:
        noted += ["randomness" in str(error)]
        if not any(noted):  # otherwise the error is that of a module that must not draw
            raise
    finally:
        _noted.reset(token)
        moved = [not torch.equal(generator.get_state(), state) for generator, state in zip(generators, before)]
        draws.others = any(noted) or any(moved)
    if draws.others:
        raise Drew
    return result


class _Rows(TorchDispatchMode):
    """Draws for each example by itself. Operations arrive here with a row for each example along the first dimension,
    or along the second if the whole batch runs as one example."""

    def __init__(self, seed: Callable[[int, int], bytes], examples: list[int], along: int) -> None:
        super().__init__()
        self._seed, self._examples, self._along, self._calls = seed, examples, along, 0
        self.refused: evertally.InvalidError | None = None

    def __torch_dispatch__(self, function: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if torch.Tag.nondeterministic_seeded not in function.tags:
            return function(*args, **kwargs)
        if kwargs.get("generator") is not None:
            kwargs = {**kwargs, "generator": None}
        tensors = [value for value in args if isinstance(value, torch.Tensor)]
        most = max((value.dim() for value in tensors), default=0)
        rows = [self._has_rows(value, most) for value in args]
        device = tensors[0].device if tensors else torch.device(kwargs.get("device") or "cpu")
        (generator,) = _generators([device])
        if not torch._C._dispatch_has_kernel_for_dispatch_key(function.name(), "FuncTorchVmapMode"):
            return self._without_rule(function, args, kwargs, generator)
        if not any(rows):
            if self._along == 0 and len(self._examples) > 1:
                raise self._mixes(function, "which has no row for each example under torch.func.vmap")
            if self._along == 1:  # the result for the batch as one example is not used
                return function(*args, **kwargs)
        self._calls += 1
        made, before = [], generator.get_state()
        for place, number in enumerate(self._examples):
            _seed(generator, self._seed(number, self._calls), short=True)
            own = [self._row(value, place) if has else value for value, has in zip(args, rows)]
            made.append(function(*own, **kwargs))
        generator.set_state(before)  # the module can read it, and it must not depend on the examples
        if function._schema.is_mutable:
            return args[0]
        if len(made) == 1:
            return made[0]
        if isinstance(made[0], torch.Tensor):
            return torch.cat(made, dim=self._along)
        return tuple(torch.cat(parts, dim=self._along) for parts in zip(*made))

    def _without_rule(self, function: Any, args: Any, kwargs: Any, generator: torch.Generator) -> Any:
        """The result of an operation that may draw, but that vmap calls for one example after the other: they would
        share one sequence of numbers."""
        before = generator.get_state()
        made = function(*args, **kwargs)
        if not torch.equal(generator.get_state(), before):
            raise self._mixes(function, "for which torch.func.vmap has no rule")
        return made

    def _mixes(self, function: Any, why: str) -> evertally.InvalidError:
        self.refused = evertally.InvalidError(
            f"the module draws with {function}, {why}, so examples would share one sequence of numbers: draw with "
            "torch.rand, torch.randn or torch.bernoulli, and compute from these, as in torch.rand(n).argsort()"
        )
        return self.refused

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


def _short(seed: bytes) -> int:
    return int.from_bytes(seed[:8], "little") >> 1


#: The words of the state of PyTorch's generator for the CPU (MT19937), each in 8 bytes, and the first of them.
WORDS, FIRST = 624, 24


def _seed(generator: torch.Generator, seed: bytes, short: bool = False) -> None:
    """Seeds a generator. On the CPU `manual_seed` uses only 32 bits, which anyone can try: unless a short seed
    suffices, all words of the state are set."""
    generator.manual_seed(_short(seed))
    if generator.device.type == "cpu" and not short:
        state = generator.get_state()
        words = np.frombuffer(hashlib.shake_256(seed).digest(4 * WORDS), dtype="<u4").astype("<u8")
        state[FIRST : FIRST + 8 * WORDS] = torch.from_numpy(words.view(np.uint8))
        generator.set_state(state)
