"""Which clipping applies to a module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import evertally
import torch

from evertally.torch._examples import mapped, moved, own_loss
from evertally.torch._ghost import covered


def choose(
    module: torch.nn.Module,
    loss: Callable[..., torch.Tensor] | None,
    example: Callable[[], tuple[Any, Any]],
    parameters: list[torch.Tensor],
    second_moments: bool,
) -> tuple[str, str]:
    """`"ghost"` if it applies, otherwise `"samples"`, and the reason. It follows from the module and from the shapes of
    an example, as a batch of one; its values are not used."""
    if second_moments:
        return "samples", "second moments need the gradients of single examples"
    try:
        inputs, targets = (moved(mapped(torch.zeros_like, part), parameters[0].device) for part in example())
        with torch.random.fork_rng(devices=[]):
            found = covered(module, loss or own_loss, inputs, targets, parameters)
    except evertally.InvalidError as problem:
        if not isinstance(problem.__cause__, Exception):
            return "samples", str(problem)
        # The loop may change batches before their steps, so the module need not run for an example of the data set.
        return "ghost", f"the module was not traced, so the first step decides: {problem}"
    except Exception as problem:
        reason = f"{type(problem).__name__} for an example of the data set"
        return "ghost", f"the module was not traced, so the first step decides: {reason}"
    if not found:
        return "samples", "no trained parameter belongs to a Linear, convolution or Embedding layer that is called"
    share = found / sum(p.numel() for p in parameters)
    return "ghost", f"{share:.0%} of the trained parameters belong to Linear, convolution and Embedding layers"
