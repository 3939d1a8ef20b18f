"""State that forward functions keep in Python objects between calls: it would carry examples of one step into others.

Restoring covers objects that can be reached from the module. Every other place (global variables, classes, closures) is
covered by a refusal: a tensor that depends on the examples of an earlier call cannot be used.

A module runs once for each microbatch, and not at all for an empty batch. So numbers are restored, too: a counter of
calls would carry the number of examples, which is secret, into later steps. Estimates of the weights that need one
update for each step, as in spectral normalization, get it from `advance`.
"""

from __future__ import annotations

import functools
import random
import sys
import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import evertally
import numpy as np
import torch
import torch.nn.utils.parametrize
from torch._C import _functorch as functorch
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack as untransformed
from torch.overrides import TorchFunctionMode

from evertally.torch._draws import note_draws, note_refusal
from evertally.torch._opaque import active, seen_through

__all__ = ["OwnTensors", "advance", "current_level", "restored", "untransformed", "unwrapped"]

FUNCTIONS = (types.FunctionType, types.MethodType, types.BuiltinFunctionType, functools.partial)
#: Types of objects without contents.
LEAVES = (str, bytes, int, float, complex, type(None), torch.Tensor, type, types.ModuleType, *FUNCTIONS)


def unwrapped(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor with the values of all examples, inside `torch.func` transformations."""
    while functorch.is_functorch_wrapped_tensor(tensor):
        tensor = functorch.get_unwrapped(tensor)
    return tensor


class OwnTensors(TorchFunctionMode):
    """Refuses operations on tensors that depend on the examples of an earlier call. Inside a `torch.func.vmap` of a
    `torch.func.grad` all tensors of the current call have the level of the latter, below those that the module adds.

    A tensor of an earlier call that is the same for all examples depends on none, and may be used."""

    def __init__(self, level: int | None = None) -> None:
        super().__init__()
        self._level = current_level() if level is None else level
        self._before: list[Any] = []

    def __enter__(self) -> OwnTensors:
        self._before.append(active.set(self._check))
        super().__enter__()
        return self

    def __exit__(self, *problem: Any) -> None:
        super().__exit__(*problem)
        active.reset(self._before.pop())

    def __torch_function__(self, function: Callable[..., Any], _: Any, args: Any = (), kwargs: Any = None) -> Any:
        self._check(args)
        if kwargs:
            self._check(kwargs.values())
        note_draws(function, kwargs or {})
        args, kwargs = seen_through(function, args, kwargs or {}, lambda: OwnTensors(self._level))
        try:
            return function(*args, **kwargs)
        except RuntimeError as error:
            note_refusal(error)
            raise

    def _check(self, values: Iterable[Any]) -> None:
        for value in values:
            if isinstance(value, torch.Tensor):
                if functorch.is_functorch_wrapped_tensor(value) and self._is_earlier(value):
                    raise evertally.InvalidError(EARLIER)
            elif isinstance(value, (tuple, list)):
                self._check(value)

    def _is_earlier(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor has examples, and these are not below the level of the current call. Of the layers above it,
        those of finished transformations have no level (it is negative), but a batch keeps its level."""
        highest = current_level()
        while functorch.is_functorch_wrapped_tensor(tensor):
            level = functorch.maybe_get_level(tensor)
            if functorch.is_batchedtensor(tensor):
                if not self._level < level <= highest:
                    return True
            elif level == self._level:
                return False
            tensor = functorch.get_unwrapped(tensor)
        return False


def current_level() -> int:
    """The number of transformations that are active."""
    last = functorch.peek_interpreter_stack()
    return 0 if last is None else int(last.level())


EARLIER = (
    "the module or the loss uses a tensor that an earlier call has kept, such as in a global list: an example would "
    "change the gradients of other examples, or of later steps. Compute it again in each call"
)


@contextmanager
def restored(module: torch.nn.Module) -> Iterator[None]:
    """Restores, at the end, the attributes, lists, dictionaries, sets, arrays and objects that can be reached from the
    module. A tensor or a generator that has changed in place is refused; buffers must be given to it as copies."""
    kept = list(_contents(module))
    try:
        yield
    finally:
        for holder, before in kept:
            _restore(holder, before)
    if any(isinstance(holder, IN_PLACE) and _version(holder) != before for holder, before in kept):
        raise evertally.InvalidError(CHANGED_IN_PLACE)


def advance(module: torch.nn.Module) -> None:
    """Lets parametrizations in training mode, and hooks of spectral normalization, update their estimates once. They
    see the weights alone."""
    old = sys.modules["torch.nn.utils.spectral_norm"].SpectralNorm
    with torch.no_grad():
        for part in module.modules():
            if part.training and torch.nn.utils.parametrize.is_parametrized(part):
                for name in list(part.parametrizations):
                    getattr(part, name)
            for hook in part._forward_pre_hooks.values():
                if isinstance(hook, old):
                    hook(part, ())


def _contents(module: torch.nn.Module) -> Iterator[tuple[Any, Any]]:
    """All objects with contents that can be reached, each with a copy of its contents."""
    seen: set[int] = set()
    left: list[Any] = [module]
    while left:
        value = left.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, IN_PLACE):
            yield value, _version(value)
        if isinstance(value, np.ndarray):
            yield value, value.copy()
        if isinstance(value, LEAVES):
            continue
        own = getattr(value, "__dict__", None)
        if isinstance(value, torch.nn.Module):
            yield own, dict(vars(value))
            left.extend(kept for name, kept in vars(value).items() if name not in HOOKS)
        elif isinstance(own, dict):
            left.append(own)
        if isinstance(value, dict):
            yield value, dict(value)
            left.extend(value.values())
        elif isinstance(value, HOLDERS):
            yield value, list(value)
            left.extend(value)
        elif isinstance(value, tuple):
            left.extend(value)


def _restore(holder: Any, before: Any) -> None:
    if isinstance(holder, dict):
        for name in [name for name in holder if name not in before]:
            del holder[name]
        for name, then in before.items():
            if name not in holder or holder[name] is not then:
                holder[name] = then
    elif isinstance(holder, np.ndarray):
        if holder.flags.writeable:
            holder[...] = before
    elif isinstance(holder, HOLDERS):
        if len(holder) != len(before) or any(now is not then for now, then in zip(holder, before)):
            holder.clear()
            (holder.update if isinstance(holder, set) else holder.extend)(before)


def _version(value: Any) -> Any:
    """A value that differs if a tensor or a generator has changed in place."""
    if isinstance(value, torch.Tensor):
        return None if value.is_inference() else value._version
    if isinstance(value, torch.Generator):
        return value.get_state().numpy().tobytes()
    if isinstance(value, random.Random):
        return value.getstate()
    state = value.bit_generator.state if isinstance(value, np.random.Generator) else value.get_state(legacy=False)
    return repr(state)


#: Attributes of every module that hold functions or flags.
HOOKS = set(vars(torch.nn.Module())) - {"_parameters", "_buffers", "_modules"}
#: Objects whose contents may change.
HOLDERS = (list, deque, set)
#: Objects that have no copies of their contents.
IN_PLACE = (torch.Tensor, torch.Generator, random.Random, np.random.Generator, np.random.RandomState)
CHANGED_IN_PLACE = (
    "the module changes a tensor or a random number generator that it keeps: the number of its calls, which depends on "
    "the batch, would reach later steps. Make the tensor a buffer (register_buffer), which has the same values in each "
    "call, change weights after the step, and draw from the default generator"
)
