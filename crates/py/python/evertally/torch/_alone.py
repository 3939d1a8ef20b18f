"""Runs a module for each example by itself."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

import evertally
import torch

from evertally.torch._draws import Drew, drawn, may_be_quiet
from evertally.torch._dropout import at_this_level, drops_by_example
from evertally.torch._examples import count, mapped, tensors
from evertally.torch._generators import unmoved
from evertally.torch._opaque import WITHOUT_FUNCTIONS
from evertally.torch._recurrent import replacement
from evertally.torch._state import restored

#: Layers that look up rows, and can return sparse gradients.
LOOKUPS = (torch.nn.Embedding, torch.nn.EmbeddingBag)


def refuse_mixing(module: torch.nn.Module) -> None:
    """Refuses layers by which one example changes the gradients of others, or weights without noise, and complex
    parameters, for which there is no noise."""
    refuse_complex({name: p for name, p in module.named_parameters() if p.requires_grad})
    for name, part in module.named_modules():
        place = f"`{name or type(part).__name__}`"
        if isinstance(part, torch.nn.modules.batchnorm._BatchNorm) and (part.training or part.running_mean is None):
            remedy = "Use GroupNorm or LayerNorm"
            if part.running_mean is not None:
                remedy += ", or call eval() of this layer before each step: then it uses fixed statistics"
            raise ValueError(
                f"{place} is batch normalization, which mixes examples: the gradient of a single example has no bound. "
                + remedy
            )
        if isinstance(part, torch.jit.ScriptModule):
            raise ValueError(
                f"{place} was compiled by TorchScript, and can keep state of examples where it is not seen: give the "
                "module before torch.jit.script or torch.jit.trace"
            )
        if isinstance(part, LOOKUPS) and part.max_norm is not None:
            raise ValueError(
                f"{place} has max_norm={part.max_norm}: it shortens the rows that a batch looks up, which reveals the "
                "batch without noise. Omit max_norm"
            )


def refuse_complex(parameters: dict[str, torch.Tensor]) -> None:
    """Refuses complex parameters."""
    for name, parameter in parameters.items():
        if parameter.is_complex():
            raise ValueError(
                f"parameter `{name}` is complex, and noise is for real numbers: use a real parameter with a last "
                "dimension of size 2, and torch.view_as_complex in forward"
            )


def of_each(
    function: Callable[..., Any], module: torch.nn.Module, shared: tuple[Any, ...], batch: tuple[Any, ...]
) -> Any:
    """The function's results for each example of a batch, after the arguments that all share. Each example runs by
    itself, through `torch.func.vmap`, so no operation of the module can mix them.

    There is no loop over examples for modules that vmap cannot run: a module that keeps a state between calls would mix
    them."""
    in_dims = (*(None for _ in shared), *(0 for _ in batch))
    devices = {tensor.device for tensor in (*module.parameters(), *tensors(batch))}

    def numbered(*arguments: Any) -> Any:
        at_this_level()
        return function(*arguments)

    def results(some: tuple[Any, ...], quiet: bool) -> Any:
        def compute(randomness: str) -> Any:
            return torch.func.vmap(numbered, in_dims=in_dims, randomness=randomness)(*shared, *some)

        # One at a time: threads share PyTorch's generators and functions.
        with LOCK, drops_by_example():
            return drawn(compute, count(some), devices, quiet)

    if may_be_quiet():
        with suppress(Drew):
            return _of_all(results, module, batch, quiet=True)
    return _of_all(results, module, batch, quiet=False)


def _of_all(
    results: Callable[[tuple[Any, ...], bool], Any], module: torch.nn.Module, batch: tuple[Any, ...], quiet: bool
) -> Any:
    with single_operations(module):
        try:
            return results(batch, quiet)
        except (evertally.EvertallyError, Drew):
            raise
        except ERRORS as error:
            kind = type(error).__name__
        # The message may contain the number of examples, which is secret if batches are sampled. So the error is that
        # of two copies of an example.
        two = mapped(lambda tensor: torch.cat([tensor[:1]] * 2), batch)
        try:
            results(two, False)
        except evertally.EvertallyError:
            raise
        except ERRORS as error:
            raise evertally.InvalidError(_explained(error, module)) from error
    raise evertally.InvalidError(
        f"the module cannot run for all examples of the batch ({kind}), although it can for the first: every example "
        "must have values in the module's range and need no more memory than there is; see microbatch="
    )


#: Errors of a module's operations.
ERRORS = (RuntimeError, NotImplementedError, ValueError, TypeError, IndexError)


def _explained(problem: Exception, module: torch.nn.Module) -> str:
    """An error of a module that runs under vmap, with a remedy."""
    text = str(problem).strip().split("\n")[0].split(". For (1)")[0]
    where = "in a batch of one under torch.func.vmap" + place_of(problem, module)
    start = f"the module cannot run for each example by itself, {where}: "
    if ".item()" in text:
        return (
            start + "it decides by the values of an example, as in `if mask.all():`, or calls .item(), as "
            "torch.nn.functional.one_hot does. Use operations on tensors instead, such as torch.where or a mask"
        )
    if "in-place" in text or "inplace" in text or "output with shape" in text:
        return (
            start + f"it writes values of an example into a tensor that all examples share ({text}). A buffer must not "
            "keep values of examples, and a tensor made in forward must depend on the input, as x.new_zeros does"
        )
    for part, remedy in REMEDIES.items():
        if part in text:
            return start + remedy
    return f"{start}{type(problem).__name__}: {text}"


#: Parts of PyTorch's messages, and what to do.
REMEDIES = {
    "setup_context": "it calls a torch.autograd.Function (full backward hooks and reentrant checkpoints do so), "
    + WITHOUT_FUNCTIONS,
    "dynamic shape": "its tensors have sizes that depend on the values of an example, as with a boolean mask, nonzero "
    "or unique. Keep all elements, and use torch.where or multiply by the mask",
    "data pointer": "it converts the values of an example to NumPy or to a list. Use operations on tensors, or convert "
    "in the data set",
    "directly with `.data`": "it assigns to .data of a tensor. Change weights after the step, outside of forward",
    "inference tensor": "it uses torch.inference_mode(). Use torch.no_grad()",
    "requires_grad_": "it computes gradients by requires_grad_() and torch.autograd.grad. Use torch.func.grad or "
    "torch.func.jacrev of a function of the tensor",
    "saved tensor hooks": "it uses saved tensor hooks, as torch.utils.checkpoint does. Switch checkpointing of "
    "activations off (in Transformers: gradient_checkpointing_disable()), and limit memory by microbatch=",
    "from the 'Sparse": "it computes sparse gradients, which only layers can: omit sparse=True of functions such as "
    "torch.nn.functional.embedding, or use torch.nn.Embedding",
    "Expected f(*args) to return": "the loss of an example must be a tensor with one number and no dimensions, as with "
    'reduction="mean" or "sum"',
}


def place_of(problem: Exception, module: torch.nn.Module) -> str:
    """The innermost part of a module in which an error has occurred, as ``, in `name` ``."""
    names = {id(part): name for name, part in module.named_modules()}
    found, frame = "", problem.__traceback__
    while frame is not None:
        found = names.get(id(frame.tb_frame.f_locals.get("self")), "") or found
        frame = frame.tb_next
    return f", in `{found}`" if found else ""


@contextmanager
def single_operations(module: torch.nn.Module) -> Iterator[None]:
    """Lets layers compute with operations for which vmap has rules, with the same result. Afterwards tensors that
    forward functions have assigned or added to objects are gone: a state that the next call reads would mix examples.
    """
    # Models of Transformers omit a mask if it is all ones, except while their operations are recorded.
    masks = sys.modules.get("transformers.masking_utils")
    is_tracing = getattr(masks, "is_tracing", None)
    with restored(module):
        attributes = [vars(part) for part in module.modules()]
        before = [(own, {name: own[name] for name in CHANGED if name in own}) for own in attributes]
        try:
            for part in module.modules():
                forward = replacement(part)
                if forward is not None:
                    vars(part).setdefault("forward", forward)
                elif isinstance(part, LOOKUPS):
                    part.sparse = False
            if is_tracing is not None:
                vars(masks)["is_tracing"] = lambda *_: True
            with _not_compiled(), unmoved("the module or the loss"):
                yield
        finally:
            if is_tracing is not None:
                vars(masks)["is_tracing"] = is_tracing
            for own, kept in before:
                for name in CHANGED:
                    own.pop(name, None)
                own.update(kept)


def _not_compiled() -> Any:
    """Inside, functions of `torch.compile` run as they are written, so that each operation is checked."""
    if "torch._dynamo" not in sys.modules or not hasattr(torch.compiler, "set_stance"):  # from PyTorch 2.6
        return nullcontext()
    return torch.compiler.set_stance("force_eager")


#: Held while examples run, and reentrant for modules that run examples themselves.
LOCK = threading.RLock()

#: The attributes that `single_operations` changes.
CHANGED = ("forward", "sparse")
