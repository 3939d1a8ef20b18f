"""Gradients of single examples with respect to one parameter, in the form that takes the least memory.

Each form provides two things: an upper bound on the length of each example's gradient, and the sum over the examples,
each times its own factor. Both use the same numbers, so that the lengths are valid for the sum. Lengths bound the
contribution of an example **after rounding**; they never depend on other examples, nor on their number.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import torch

#: Maximum number of terms that a matrix product adds up in float32; longer sums are added up in float64.
TERMS = 1024
#: Error bound of a sum of that many products, relative to the sum of the products' lengths: 2⁻²⁴ for each term, for the
#: factor's product and for the result.
MARGIN = 1.01 * 2.0**-14
#: Error bound of a float32 product if tiny numbers become zero.
TINY = 2.0**-125

CONVOLUTIONS = (torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d)


class Gradients(Protocol):
    """The gradients of single examples with respect to one parameter."""

    def squares(self) -> torch.Tensor:
        """An upper bound on the square of each example's length, in float64."""

    def underflow(self) -> torch.Tensor | float:
        """An upper bound on the excess of an example because tiny numbers are not exact; usually about 1e-30."""

    def sum(self, finite: torch.Tensor, factors: torch.Tensor) -> torch.Tensor:
        """The sum of the finite gradients, each times its factor."""


class Formed:
    """Gradients in full, with the examples along the first dimension."""

    def __init__(self, gradients: torch.Tensor) -> None:
        self._gradients = gradients

    def squares(self) -> torch.Tensor:
        rows = self._gradients[:, None].flatten(1)
        return torch.linalg.vector_norm(rows, dim=1, dtype=torch.float64).square()

    def underflow(self) -> float:
        return 0.0  # each number times a factor that is not tiny

    def sum(self, finite: torch.Tensor, factors: torch.Tensor) -> torch.Tensor:
        # In float64, so that the contribution of one example is neither lost nor increased among many others.
        total = torch.zeros(self._gradients.shape[1:], dtype=torch.float64, device=self._gradients.device)
        some = max(1, 2**20 // max(1, total.numel()))  # a few at a time, so that copies are small
        pieces = (part.split(some) for part in (finite.to(total.device), self._gradients, factors.to(total.device)))
        for own, gradients, factor in zip(*pieces):
            # An elementwise product, not a matrix product, which may round more coarsely than float32 (TF32).
            clipped = _each(own, gradients, 0.0) * _along(factor, gradients)
            total += clipped.sum(dim=0, dtype=torch.float64)
        return total.to(torch.float32)


class Products:
    """Sums over t of products of a layer's input and the gradient of its output: one matrix for each example and group
    of channels, which is never formed.

    `inputs` is (examples, groups, t, in), `outputs` (examples, groups, t, out), in float32.
    """

    def __init__(self, inputs: torch.Tensor, outputs: torch.Tensor, shape: torch.Size) -> None:
        self._inputs, self._outputs, self._shape = inputs, outputs, shape
        self._of_inputs = torch.linalg.vector_norm(inputs, dim=-1, dtype=torch.float64)
        self._of_outputs = torch.linalg.vector_norm(outputs, dim=-1, dtype=torch.float64)

    def squares(self) -> torch.Tensor:
        terms, width = self._inputs.shape[2], self._inputs.shape[3] + self._outputs.shape[3]
        # The maximum length of the matrix, to which its rounding is proportional: terms may cancel.
        longest = (self._of_inputs * self._of_outputs).sum(dim=2)
        if terms == 1:
            return longest.square().sum(dim=1)
        error = (width + terms**2 + 8) * 2.0**-53
        some = max(1, 2**22 // (self._inputs.shape[1] * terms**2))
        pieces = zip(self._inputs.split(some), self._outputs.split(some))
        squares = torch.cat([_gram(*piece) for piece in pieces])
        lengths = (squares + error * longest.square()).clamp(min=0).sqrt() + MARGIN * longest
        return lengths.square().sum(dim=1)

    def underflow(self) -> torch.Tensor:
        terms, wide, high = self._inputs.shape[2], self._inputs.shape[3], self._outputs.shape[3]
        inputs, outputs = self._of_inputs.sum(dim=(1, 2)), self._of_outputs.sum(dim=(1, 2))
        count = self._inputs.shape[1] * terms * math.sqrt(wide * high)
        return TINY * (math.sqrt(high) * inputs + math.sqrt(wide) * outputs + count)

    def sum(self, finite: torch.Tensor, factors: torch.Tensor) -> torch.Tensor:
        outputs = _each(finite, self._outputs, 0.0) * _along(factors, self._outputs)
        inputs = _each(finite, self._inputs, 0.0)
        left, right = outputs.transpose(0, 1).flatten(1, 2), inputs.transpose(0, 1).flatten(1, 2)
        pieces = zip(left.split(TERMS, dim=1), right.split(TERMS, dim=1))
        total = torch.zeros((), device=left.device)
        for place, (high, wide) in enumerate(pieces):
            part = high.transpose(1, 2) @ wide
            total = part if place == 0 else total.double().add_(part)
        return total.to(torch.float32).reshape(self._shape)


class Rows:
    """Gradients of a table of which each example has looked up a few rows.

    `numbers` is (examples, t), `outputs` (examples, t, width), in float32.
    """

    def __init__(self, numbers: torch.Tensor, outputs: torch.Tensor, shape: torch.Size) -> None:
        examples, terms, width = outputs.shape
        self._examples, self._shape = examples, shape
        of = torch.arange(examples, device=numbers.device)[:, None] * shape[0]
        # A row that an example looks up more than once has one gradient.
        keys, places = torch.unique((of + numbers).reshape(-1), return_inverse=True)
        sums = torch.zeros(len(keys), width, dtype=torch.float64, device=outputs.device)
        sums.index_add_(0, places, outputs.reshape(-1, width).double())
        self._of, self._rows, self._gradients = keys // shape[0], keys % shape[0], sums.to(torch.float32)

    def squares(self) -> torch.Tensor:
        lengths = torch.linalg.vector_norm(self._gradients, dim=1, dtype=torch.float64)
        return lengths.new_zeros(self._examples).index_add_(0, self._of, lengths.square())

    def underflow(self) -> float:
        return 0.0

    def sum(self, finite: torch.Tensor, factors: torch.Tensor) -> torch.Tensor:
        rows, total = self._totals(finite, factors)
        return total.new_zeros(self._shape).index_copy_(0, rows, total)

    def _totals(self, finite: torch.Tensor, factors: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The rows that were looked up, and the sum for each: only these are added up in float64."""
        clipped = _each(finite[self._of], self._gradients, 0.0) * _along(factors[self._of], self._gradients)
        rows, places = torch.unique(self._rows, return_inverse=True)
        total = clipped.new_zeros(len(rows), clipped.shape[1], dtype=torch.float64)
        return rows, total.index_add_(0, places, clipped.double()).to(torch.float32)


class FewRows(Rows):
    """The same for a table that is too large to be written at every step: sums are sparse."""

    def sum(self, finite: torch.Tensor, factors: torch.Tensor) -> torch.Tensor:
        rows, total = self._totals(finite, factors)
        return torch.sparse_coo_tensor(
            rows[None], total, self._shape, is_coalesced=True, check_invariants=False, device=total.device
        )


def kind_of(layer: torch.nn.Module) -> type | None:
    """The form for layers whose weight's gradient follows from the input and the gradient of the output. Subclasses
    have none: they may compute something else."""
    if type(layer) is torch.nn.Embedding:  # `sparse` does not matter: `single_operations` switches it off
        return Rows if layer.max_norm is None and not layer.scale_grad_by_freq else None
    return Products if type(layer) in (torch.nn.Linear, *CONVOLUTIONS) else None


def of_bias(layer: torch.nn.Module, outputs: torch.Tensor) -> torch.Tensor:
    """The gradients of a layer's bias."""
    outputs = outputs.float()
    if isinstance(layer, torch.nn.Linear):
        return outputs.reshape(len(outputs), -1, outputs.shape[-1]).sum(dim=1)
    channels = outputs.flatten(outputs.dim() - len(layer.kernel_size))  # (examples, …, channels, t)
    return channels.reshape(len(outputs), -1, *channels.shape[-2:]).sum(dim=(1, 3))


def of_weight(
    calls: list[tuple[Any, torch.Tensor, torch.Tensor]], shape: torch.Size, is_sparse: bool = False
) -> Gradients:
    """The gradients of a weight, from the layers that have used it, their inputs, and the gradients of their outputs,
    with the examples along the first dimension."""
    if kind_of(calls[0][0]) is Rows:
        pairs = [_looked_up(*call) for call in calls]
        numbers, rows = (torch.cat(parts, dim=1) for parts in zip(*pairs))
        return (FewRows if is_sparse else Rows)(numbers, rows, shape)
    pairs = [_terms(*call) for call in calls]
    inputs, outputs = (torch.cat(parts, dim=2) if len(pairs) > 1 else parts[0] for parts in zip(*pairs))
    terms, wide, high = inputs.shape[2], inputs.shape[3], outputs.shape[3]
    if terms * (wide + high) > wide * high:
        gradients = outputs.transpose(2, 3) @ inputs
        return Formed(gradients.reshape(len(inputs), *shape))
    return Products(inputs, outputs, shape)


def _looked_up(layer: Any, numbers: torch.Tensor, outputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    numbers, rows = numbers.reshape(len(numbers), -1), outputs.float().reshape(len(outputs), -1, outputs.shape[-1])
    if layer.padding_idx is not None:
        rows = torch.where((numbers == layer.padding_idx)[:, :, None], 0.0, rows)
    return numbers, rows


def _terms(layer: Any, inputs: torch.Tensor, outputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The arguments of `Products`."""
    inputs, outputs, examples = inputs.float(), outputs.float(), len(inputs)
    if isinstance(layer, torch.nn.Linear):
        return inputs.reshape(examples, 1, -1, inputs.shape[-1]), outputs.reshape(examples, 1, -1, outputs.shape[-1])
    axes = len(layer.kernel_size)
    patches = _patches(layer, inputs.reshape(-1, *inputs.shape[-1 - axes :]))
    high = (
        outputs.flatten(outputs.dim() - axes).reshape(len(patches), layer.groups, -1, patches.shape[2]).transpose(2, 3)
    )

    def by_example(parts: torch.Tensor) -> torch.Tensor:
        """Concatenates the images of one example along t."""
        several = parts.unflatten(0, (examples, -1)).transpose(1, 2)
        return several.flatten(2, 3)

    return by_example(patches), by_example(high)


def _patches(layer: Any, inputs: torch.Tensor) -> torch.Tensor:
    """The inputs of each output of a convolution: (images, groups, t, channels and places)."""
    mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode
    seen = torch.nn.functional.pad(inputs, layer._reversed_padding_repeated_twice, mode=mode)
    axes = len(layer.kernel_size)
    for axis, (size, step, spread) in enumerate(zip(layer.kernel_size, layer.stride, layer.dilation)):
        seen = seen.unfold(2 + axis, (size - 1) * spread + 1, step)[..., ::spread]
    seen = seen.flatten(2, 1 + axes) if axes > 1 else seen  # (images, channels, t, places…)
    seen = seen.unflatten(1, (layer.groups, -1)).transpose(2, 3)
    return seen.flatten(3)


def _gram(inputs: torch.Tensor, outputs: torch.Tensor) -> torch.Tensor:
    """The squared length of the matrix of each example and group, in float64, where products of float32 are exact."""
    inputs, outputs = inputs.double(), outputs.double()
    return ((inputs @ inputs.transpose(2, 3)) * (outputs @ outputs.transpose(2, 3))).sum(dim=(2, 3))


def _along(factors: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    return factors.to(values.device).reshape(-1, *[1] * (values.dim() - 1))


def _each(finite: torch.Tensor, values: torch.Tensor, otherwise: float) -> torch.Tensor:
    return torch.where(_along(finite, values), values, otherwise)
