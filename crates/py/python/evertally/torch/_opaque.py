"""Functions that run code where the checks of operations do not see it: TorchScript, operators of other libraries,
`torch.autograd.Function`, nodes of the graph and hooks of tensors.

Such code can mix examples, or keep their values for later calls. Hooks, and functions of TorchScript that contain no
tensor, are checked; the rest is refused.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import evertally
import torch
from torch._functorch.autograd_function import custom_function_call

from evertally.torch._draws import note_refusal

__all__ = ["active", "seen_through"]

#: The check of the tensors that a function gets, while a module runs for each example by itself.
active: ContextVar[Callable[[Any], None] | None] = ContextVar("active", default=None)

WITHOUT_FUNCTIONS = (
    "which can mix examples, or keep their values, where it is not seen: compute by operations of PyTorch. The value "
    "of y with the gradient of g is g + (y - g).detach(): a straight-through estimator is x + (x.round() - x).detach()"
    ", and a reversed gradient -x + 2 * x.detach()"
)
#: Libraries whose operators compute the same for every example, without a state.
LIBRARIES = ("aten", "prim", "prims", "torchvision")


def seen_through(
    function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], watching: Callable[[], Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call, with those that are functions inside the checks of `watching()`. Refuses functions that
    cannot be seen into."""
    if isinstance(function, torch._ops.OpOverload):
        _check_library(function.namespace, function)
    elif isinstance(function, torch._ops.OpOverloadPacket):
        _check_library(str(function).partition(".")[0], function)
    elif function is custom_function_call:
        raise evertally.InvalidError(
            f"the module calls the torch.autograd.Function {args[0].__name__}, {WITHOUT_FUNCTIONS}"
        )
    elif isinstance(function, torch._ops.HigherOrderOperator):
        raise evertally.InvalidError(
            f"the module calls {function}, whose functions run where it is not seen whether they keep values of "
            "examples: compute by operations of PyTorch, such as torch.where instead of torch.cond"
        )
    elif function == torch.Tensor.grad_fn.__get__:
        raise evertally.InvalidError(
            "the module looks at grad_fn of a tensor, whose hooks can keep gradients of examples where it is not seen: "
            "use register_hook of the tensor, requires_grad to see whether it has a gradient, and torch.func.jvp "
            "instead of torch.func.linearize"
        )
    elif any(map(callable, args)) or any(map(callable, kwargs.values())):
        # Hooks, and functions such as the distance of a loss, are called without the mode that checks this call.
        args = tuple(_inside(value, watching) for value in args)
        kwargs = {name: _inside(value, watching) for name, value in kwargs.items()}
    return args, kwargs


def _check_library(name: str, function: Any) -> None:
    if name not in LIBRARIES:
        raise evertally.InvalidError(
            f"the module calls the operator {function}, which can mix examples, or keep their values, where it is not "
            "seen: compute by operations of PyTorch, or call it in the data set, for each example alone"
        )


def _inside(function: Any, watching: Callable[[], Any]) -> Any:
    """A function that runs inside the checks; other values as they are."""
    if not callable(function) or isinstance(function, type):
        return function

    @functools.wraps(function, updated=())
    def checked(*args: Any, **options: Any) -> Any:
        with watching():
            return function(*args, **options)

    return checked


def _install() -> None:
    """Checks calls of TorchScript, which no mode of PyTorch sees. Outside of private steps nothing changes."""
    if hasattr(torch._C.ScriptFunction.__call__, "__evertally__"):
        return
    for kind, check in ((torch._C.ScriptFunction, _check_script), (torch._C.ScriptMethod, _refuse_script)):
        kind.__call__ = _guarded(kind.__call__, check)


def _guarded(call: Callable[..., Any], check: Callable[..., None]) -> Callable[..., Any]:
    def __call__(self: Any, *args: Any, **options: Any) -> Any:
        own_tensors = active.get()
        if own_tensors is not None:
            check(self, own_tensors, (*args, *options.values()))
        try:
            return call(self, *args, **options)
        except RuntimeError as error:
            note_refusal(error)
            raise

    __call__.__evertally__ = True  # type: ignore[attr-defined]
    return __call__


def _check_script(function: Any, own_tensors: Callable[[Any], None], values: tuple[Any, ...]) -> None:
    """Refuses tensors of earlier calls, and a function that contains a tensor or an object, and so may change it."""
    own_tensors(values)
    graph = function.inlined_graph
    kinds = [str(node.output().type()) for node in graph.findAllNodes("prim::Constant") if node.hasAttribute("value")]
    if any("Tensor" in kind or "__torch__" in kind for kind in kinds):
        raise evertally.InvalidError(f"the TorchScript function `{function.name}` contains a tensor {UNSEEN}")


def _refuse_script(method: Any, *_: Any) -> None:
    raise evertally.InvalidError(f"the module calls `{method.name}` of a TorchScript module {UNSEEN}")


UNSEEN = (
    "that can keep values of examples where it is not seen: call the Python function or module before "
    "torch.jit.script or torch.jit.trace, and pass it tensors as arguments"
)

_install()
