"""Dropout for each example by itself, without a look at every operation.

Inside a `torch.func.vmap`, `torch.nn.functional.dropout` draws the masks of all examples at once, each from the
generator of its example. So does `scaled_dot_product_attention` for its weights.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch._C import _functorch as functorch
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack as untransformed
from torch.utils._python_dispatch import _disable_current_modes as without_modes

__all__ = ["Masks", "at_this_level", "drops_by_example"]

functional: Any = torch.nn.functional
ORIGINAL = {name: getattr(functional, name) for name in ("dropout", "scaled_dot_product_attention")}


class Masks:
    """The masks of some examples, each from its own seed."""

    def __init__(self, seeds: Sequence[int]) -> None:
        self._seeds, self._level = seeds, 0
        self._generators: dict[torch.device, list[torch.Generator]] = {}

    @contextmanager
    def drawing(self) -> Iterator[None]:
        """Inside, dropout draws these masks, at the level of a `torch.func.vmap` over the examples."""
        before = _current.set(self)
        try:
            yield
        finally:
            _current.reset(before)

    def of(self, values: torch.Tensor, rate: float) -> torch.Tensor:
        """A mask for the values of an example: 0 with a probability of `rate`, otherwise 1 / (1 - rate)."""
        with untransformed(), without_modes(), torch.no_grad():
            if values.device not in self._generators:
                self._generators[values.device] = [
                    torch.Generator(values.device).manual_seed(seed) for seed in self._seeds
                ]
            masks = torch.empty((len(self._seeds), *values.shape), dtype=values.dtype, device=values.device)
            for mask, generator in zip(masks, self._generators[values.device]):
                mask.bernoulli_(1 - rate, generator=generator)
            masks.div_(1 - rate)
        return functorch._add_batch_dim(masks, 0, self._level)


#: The masks of the examples that run now.
_current: ContextVar[Masks | None] = ContextVar("masks", default=None)


def at_this_level() -> None:
    """Declares that the innermost transformation is the `torch.func.vmap` over the examples."""
    masks, last = _current.get(), functorch.peek_interpreter_stack()
    if masks is not None and last is not None:
        masks._level = last.level()


@contextmanager
def drops_by_example() -> Iterator[None]:
    """Inside, functions of `torch.nn.functional` draw by example. Threads may nest this: where one ends first, another
    draws by the original functions, as modules do that have imported those by name."""
    for name, replacement in (("dropout", _dropout), ("scaled_dot_product_attention", _attention)):
        setattr(functional, name, replacement)
    try:
        yield
    finally:
        for name, original in ORIGINAL.items():
            setattr(functional, name, original)


def _dropout(input: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> torch.Tensor:
    """`torch.nn.functional.dropout`."""
    masks = _current.get()
    if masks is None or not training or not 0 < p < 1:
        return ORIGINAL["dropout"](input, p, training, inplace)
    values = ORIGINAL["dropout"](input, p, False, inplace)  # the same values, after the checks of every operation
    with torch._C.DisableTorchFunction():  # masks belong to no single call of the module
        mask = masks.of(values, p)
        return values.mul_(mask) if inplace else values * mask


def _attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """`torch.nn.functional.scaled_dot_product_attention`, by the formula of its documentation where it draws."""
    if _current.get() is None or not 0 < dropout_p < 1:
        options = {"scale": scale} | ({"enable_gqa": True} if enable_gqa else {})
        return ORIGINAL["scaled_dot_product_attention"](query, key, value, attn_mask, dropout_p, is_causal, **options)
    if enable_gqa:
        key, value = (each.repeat_interleave(query.shape[-3] // each.shape[-3], dim=-3) for each in (key, value))
    scores = query @ key.transpose(-2, -1) * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    if is_causal:
        later = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool, device=query.device).triu(1)
        scores = scores.masked_fill(later, -math.inf)
    if attn_mask is not None:
        is_allowed = attn_mask.dtype == torch.bool
        scores = scores.masked_fill(~attn_mask, -math.inf) if is_allowed else scores + attn_mask
    return _dropout(scores.softmax(dim=-1), dropout_p) @ value
