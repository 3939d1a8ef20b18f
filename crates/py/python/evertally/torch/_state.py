"""State that forward functions keep in Python objects between calls: it would carry examples of one step into others.

Restoring covers objects that can be reached from the module. Every other place (global variables, classes, closures) is
covered by a refusal: a tensor that depends on the examples of an earlier call cannot be used.
"""

from __future__ import annotations

import functools
import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import evertally
import torch
from torch._C import _functorch as functorch
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack as untransformed
from torch.overrides import TorchFunctionMode

__all__ = ["OwnTensors", "has_tensors", "restored", "untransformed", "unwrapped"]

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
    `torch.func.grad` all tensors of the current call have the level of the latter, or one that the module adds.

    A tensor of an earlier call that is the same for all examples depends on none, and may be used."""

    def __init__(self) -> None:
        super().__init__()
        self._level = _current_level()

    def __torch_function__(self, function: Callable[..., Any], _: Any, args: Any = (), kwargs: Any = None) -> Any:
        self._check(args)
        if kwargs:
            self._check(kwargs.values())
        return function(*args, **(kwargs or {}))

    def _check(self, values: Iterable[Any]) -> None:
        for value in values:
            if isinstance(value, torch.Tensor):
                if functorch.is_functorch_wrapped_tensor(value) and self._is_earlier(value):
                    raise evertally.InvalidError(EARLIER)
            elif isinstance(value, (tuple, list)):
                self._check(value)

    def _is_earlier(self, tensor: torch.Tensor) -> bool:
        if self._level <= functorch.maybe_get_level(tensor) <= _current_level():  # negative if its call is over
            return False
        while functorch.is_functorch_wrapped_tensor(tensor):
            if functorch.is_batchedtensor(tensor):
                return True
            tensor = functorch.get_unwrapped(tensor)
        return False


def _current_level() -> int:
    """The number of transformations that are active."""
    last = functorch.peek_interpreter_stack()
    return 0 if last is None else int(last.level())


EARLIER = (
    "the module or the loss uses a tensor that an earlier call has kept, such as in a global list: an example would "
    "change the gradients of other examples, or of later steps. Compute it again in each call"
)


@contextmanager
def restored(module: torch.nn.Module) -> Iterator[None]:
    """Restores, at the end, the attributes, lists, dictionaries, sets and objects that can be reached from the module,
    where tensors in them have changed. Others, such as counters, keep their changes."""
    kept = list(_contents(module))
    try:
        yield
    finally:
        for holder, before in kept:
            _restore(holder, before)


def _contents(module: torch.nn.Module) -> Iterator[tuple[Any, Any]]:
    """All objects with contents that can be reached, each with a copy of its contents."""
    seen: set[int] = set()
    left: list[Any] = [module]
    while left:
        value = left.pop()
        if isinstance(value, LEAVES) or id(value) in seen:
            continue
        seen.add(id(value))
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
        missing = object()
        for name in [*holder, *(name for name in before if name not in holder)]:
            now, then = holder.get(name, missing), before.get(name, missing)
            if now is then or not (has_tensors(now) or has_tensors(then)):
                continue
            if then is missing:
                del holder[name]
            else:
                holder[name] = then
    elif len(holder) != len(before) or any(now is not then for now, then in zip(holder, before)):
        if has_tensors(holder) or has_tensors(before):
            holder.clear()
            (holder.update if isinstance(holder, set) else holder.extend)(before)


def has_tensors(value: Any) -> bool:
    """Whether a tensor can be reached from a value."""
    seen: set[int] = set()
    left = [value]
    while left:
        value = left.pop()
        if isinstance(value, torch.Tensor):
            return True
        if isinstance(value, LEAVES) or id(value) in seen:
            continue
        seen.add(id(value))
        left.extend(vars(value).values() if hasattr(value, "__dict__") else ())
        left.extend(value.values() if isinstance(value, dict) else value if isinstance(value, SEQUENCES) else ())
    return False


#: Attributes of every module that hold functions or flags.
HOOKS = set(vars(torch.nn.Module())) - {"_parameters", "_buffers", "_modules"}
#: Objects whose contents may change, and those with contents.
HOLDERS = (list, deque, set)
SEQUENCES = (*HOLDERS, tuple, frozenset)
