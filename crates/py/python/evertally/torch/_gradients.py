"""Gradients of single examples, clipped and summed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from evertally.torch._alone import of_each, refuse_mixing
from evertally.torch._examples import alone, called, count, own_loss, plain
from evertally.torch._layers import Formed, Gradients
from evertally.torch._state import OwnTensors, advance

# A clipped vector must not exceed the norm after it is rounded to float32 (relative error 2⁻²⁴ per coordinate, and as
# much in the factor); norms are computed in float64. So the factor is reduced by more than both.
SHRINK = 1.0 - 2.0**-20


def clip_and_sum(grad_samples: Sequence[torch.Tensor], norm: float) -> list[torch.Tensor]:
    """Clips each example's gradient over all tensors together to `norm` and sums over the examples.

    Each tensor has the examples along its first dimension. The sums are float32, on their tensor's device. An example
    whose gradient is not finite counts as zero: otherwise the sum, and the whole model, would reveal it.
    """
    same_number(grad_samples)
    return clipped_sums([Formed(tensor) for tensor in grad_samples], norm)


def same_number(grad_samples: Sequence[torch.Tensor]) -> None:
    """Refuses gradients of different numbers of examples."""
    examples = {len(tensor) for tensor in grad_samples}
    if len(examples) != 1:
        raise ValueError(
            f"per-example gradients of one step have {sorted(examples)} examples: all must have the same number"
        )


#: A function of the examples' lengths and of their possible excess due to underflow: returns which examples count, and
#: the factors of their gradients, in float32 and at most 1.
Weighing = Callable[[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]


def clipped_sums(
    gradients: Sequence[Gradients], norm: float, over: Callable[[torch.Tensor], torch.Tensor] | None = None
) -> list[torch.Tensor]:
    """The sums over the examples, each clipped over all parameters together to `norm`. `over` adds up squares of
    lengths with those of other shards."""

    def weigh(lengths: torch.Tensor, underflow: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        finite = lengths.isfinite() & ~(underflow > norm * 2.0**-22)
        factors = torch.clamp(norm / lengths, max=1.0) * SHRINK
        # Below the normal numbers float32 rounds by far more than SHRINK allows for: such an example counts as zero.
        return finite, torch.where(finite & (factors >= 2.0**-126), factors, 0.0).to(torch.float32)

    return weighed_sums(gradients, weigh, over)


def weighed_sums(
    gradients: Sequence[Gradients], weigh: Weighing, over: Callable[[torch.Tensor], torch.Tensor] | None = None
) -> list[torch.Tensor]:
    """The sums over the examples, each times the factor that `weigh` computes from its length over all parameters."""
    squares = [each.squares() for each in gradients]
    if squares:
        square = torch.stack([own.to(squares[0].device) for own in squares]).sum(dim=0)
    else:
        square = torch.zeros(0, device="cpu")
    lengths = (square if over is None else over(square)).sqrt()
    excess = [torch.as_tensor(each.underflow(), device=lengths.device) for each in gradients]
    underflow = sum(excess, start=torch.zeros((), device=lengths.device))
    finite, factors = weigh(lengths, underflow)
    return [each.sum(finite, factors) for each in gradients]


def on_grid(total: torch.Tensor, norm: float) -> torch.Tensor:
    """A clipped sum, rounded to a grid of 2⁻³⁶ of the norm. On it float64 adds exactly up to 2¹⁶ - 1 examples, so that
    sums of sums are the same in every order."""
    step = 2.0 ** (math.frexp(norm)[1] - 37)
    if total.is_sparse:
        own = total.coalesce()
        rounded = on_grid(own.values(), norm)
        options: dict[str, Any] = {"is_coalesced": True, "check_invariants": False, "device": rounded.device}
        return torch.sparse_coo_tensor(own.indices(), rounded, own.shape, **options)
    return (total.to(device="cpu", dtype=torch.float64) / step).round_().mul_(step)


def added_up(several: Iterable[Sequence[torch.Tensor]], norm: float) -> list[torch.Tensor]:
    """The sum over several parts of a batch, each rounded to the grid, in float64: the same in every order."""
    totals: list[torch.Tensor] = []
    for sums in several:
        rounded = [on_grid(total, norm) for total in sums]
        totals = [_plus(before, more) for before, more in zip(totals, rounded)] if totals else rounded
    return totals


def _plus(total: torch.Tensor, more: torch.Tensor) -> torch.Tensor:
    return (total + more).coalesce() if total.is_sparse else total.add_(more)


def grad_samples(
    module: torch.nn.Module,
    loss: Callable[..., torch.Tensor] | None,
    inputs: Any,
    targets: Any,
    *,
    accumulate: bool = False,
) -> torch.Tensor:
    """Stores the gradient of each example's own loss in `p.grad_sample` of every trainable parameter, with
    `torch.func`; returns the losses, one for each example.

    Inputs and targets are tensors with the examples along the first dimension, or tuples or mappings of such tensors.
    The module gets a mapping as keyword arguments, and a tuple as positional ones. `loss` takes the module's output for
    a batch of one example and its target, such as `torch.nn.functional.cross_entropy`; with None, it is the `loss` of
    the module's output. With `accumulate`, existing samples stay, as the first part of the same batch.
    Batch normalization mixes examples, and is refused.

    Random numbers, such as those of dropout, are drawn from a secret seed of the operating system, because examples
    have no numbers here; the generators keep their state. Attributes and buffers of the module are as before
    afterwards, except that spectral normalization updates its estimates once. So call it for empty batches, too.
    """
    if not accumulate:
        advance(module)
    return stored_samples(module, loss, inputs, targets, accumulate)


def stored_samples(
    module: torch.nn.Module,
    loss: Callable[..., torch.Tensor] | None,
    inputs: Any,
    targets: Any,
    accumulate: bool = False,
) -> torch.Tensor:
    """The same for a part of a batch: estimates of the module stay."""
    refuse_mixing(module)
    loss = loss or own_loss
    trained = {name: p for name, p in module.named_parameters() if p.requires_grad}
    others = {name: p.detach() for name, p in module.named_parameters() if not p.requires_grad}
    others |= {name: buffer.detach().clone() for name, buffer in module.named_buffers()}

    def of_one(values: dict[str, torch.Tensor], one: Any, target: Any) -> torch.Tensor:
        with OwnTensors():
            return loss(called(module, {**others, **values}, alone(one)), alone(target))

    if not count(inputs):
        for parameter in trained.values() if not accumulate else ():
            parameter.grad_sample = None
        return torch.zeros(0, device=next(iter(trained.values())).device if trained else "cpu")
    values = {name: p.detach() for name, p in trained.items()}
    samples, losses = of_each(torch.func.grad_and_value(of_one), module, (values,), (plain(inputs), plain(targets)))
    for name, parameter in trained.items():
        before = getattr(parameter, "grad_sample", None) if accumulate else None
        parameter.grad_sample = samples[name] if before is None else torch.cat([before, samples[name]])
    return losses.detach()
