"""Batches: a tensor, or a tuple, list or mapping of them, each with the examples along its first dimension."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import evertally
import torch


def mapped(function: Callable[[torch.Tensor], Any], values: Any) -> Any:
    """The values with a function applied to each tensor. Mappings become dictionaries, sequences lists."""
    if isinstance(values, torch.Tensor):
        return function(values)
    if isinstance(values, Mapping):
        return {name: mapped(function, value) for name, value in values.items()}
    if isinstance(values, Sequence) and not isinstance(values, (str, bytes)):
        return [mapped(function, value) for value in values]
    raise evertally.InvalidError(
        f"a batch contains a {type(values).__name__} instead of a tensor: remove this part of the examples, or convert "
        "it to numbers in the data set or in collate_fn"
    )


def plain(values: Any) -> Any:
    """The values as tensors without gradients, in dictionaries and lists."""
    return mapped(torch.Tensor.detach, values)


def tensors(values: Any) -> list[torch.Tensor]:
    """All tensors of a batch."""
    found: list[torch.Tensor] = []
    mapped(found.append, values)
    return found


def count(values: Any) -> int:
    """The number of examples of a batch."""
    lengths = {len(tensor) if tensor.ndim else -1 for tensor in tensors(values)}
    if len(lengths) != 1 or -1 in lengths:
        raise evertally.InvalidError(
            "the tensors of a batch have different numbers of examples: the first dimension of each counts the examples"
        )
    return lengths.pop()


def part(values: Any, which: slice) -> Any:
    """Some examples of a batch."""
    return mapped(lambda tensor: tensor[which], values)


def alone(values: Any) -> Any:
    """One example as a batch of one."""
    return mapped(lambda tensor: tensor.unsqueeze(0), values)


def moved(values: Any, device: torch.device) -> Any:
    """A batch on a device."""
    return mapped(lambda tensor: tensor.to(device), values)


def called(module: torch.nn.Module, parameters: dict[str, torch.Tensor], inputs: Any) -> Any:
    """The module's output with these parameters and buffers. A mapping becomes keyword arguments, and a sequence
    positional ones."""
    if isinstance(inputs, Mapping):
        return torch.func.functional_call(module, parameters, (), dict(inputs))
    arguments = (inputs,) if isinstance(inputs, torch.Tensor) else tuple(inputs)
    return torch.func.functional_call(module, parameters, arguments)


def own_loss(output: Any, _: Any) -> torch.Tensor:
    """The loss that a module computes by itself, as models of Hugging Face's Transformers do from `labels`."""
    loss = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
    if not isinstance(loss, torch.Tensor):
        raise evertally.InvalidError(
            "the module's output has no loss: give a loss function instead of None, or examples with `labels`"
        )
    return loss
