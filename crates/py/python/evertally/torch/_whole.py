"""Modules whose parameters are sharded by `torch.distributed.fsdp.fully_shard`, with whole parameters for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

__all__ = ["is_sharded", "whole"]

#: The attributes of a module that hold its parameters and the hooks by which `fully_shard` gathers them.
CHANGED = ("_parameters", "_forward_pre_hooks", "_forward_hooks")


def is_sharded(parameter: torch.Tensor) -> bool:
    """Whether a parameter is a shard of a larger one."""
    return hasattr(parameter, "device_mesh") and hasattr(parameter, "full_tensor")


@contextmanager
def whole(module: torch.nn.Module, parameters: list[torch.Tensor]) -> Iterator[list[torch.Tensor]]:
    """Inside, the module is the one before `fully_shard`: it has whole parameters, and gradients of single examples can
    be computed. Returns them for some of the module's parameters. All ranks must call it together; each then has all
    parameters at once. Does nothing if none is sharded."""
    if not any(map(is_sharded, module.parameters())):
        yield parameters
        return
    gathered = {id(p): _gathered(p) for p in module.parameters()}
    parts = list(module.modules())
    before = [(part, type(part), {name: vars(part)[name] for name in CHANGED}) for part in parts]
    try:
        for part in parts:
            part.__class__ = _without_shards(type(part))
            own = {name: None if p is None else gathered[id(p)] for name, p in part._parameters.items()}
            hooks = {name: _others(vars(part)[name]) for name in CHANGED[1:]}
            vars(part).update({"_parameters": own, **hooks})
        yield [gathered[id(p)] for p in parameters]
    finally:
        for part, kind, attributes in before:
            part.__class__ = kind
            vars(part).update(attributes)


def _gathered(parameter: Any) -> torch.nn.Parameter:
    values = parameter.full_tensor() if is_sharded(parameter) else parameter
    return torch.nn.Parameter(values.detach(), requires_grad=parameter.requires_grad)


def _without_shards(kind: type) -> type:
    """The class of a module before `fully_shard`, which puts its own class first."""
    bases = kind.__bases__
    return bases[1] if len(bases) == 2 and bases[0].__module__.startswith("torch.distributed.") else kind


def _others(hooks: Any) -> Any:
    """The hooks that are not those of `fully_shard`."""
    return type(hooks)((number, hook) for number, hook in hooks.items() if not _gathers(hook))


def _gathers(hook: Any) -> bool:
    functions = (hook, getattr(hook, "__wrapped__", None), getattr(hook, "func", None))
    owners = [type(getattr(function, "__self__", None)) for function in functions]
    return any(owner.__module__.startswith("torch.distributed.") for owner in owners)
