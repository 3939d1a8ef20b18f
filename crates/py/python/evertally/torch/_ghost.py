"""Clipped sums of gradients without the gradients of single examples (ghost clipping)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Set
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import evertally
import torch
from torch.autograd import forward_ad

from evertally.torch._alone import of_each, place_of, refuse_mixing, single_operations
from evertally.torch._draws import kept as generators_kept
from evertally.torch._examples import alone, called, count, mapped, own_loss, plain, tensors
from evertally.torch._gradients import Weighing, clipped_sums, weighed_sums
from evertally.torch._layers import Formed, Gradients, kind_of, of_bias, of_weight
from evertally.torch._state import OwnTensors, advance, current_level


def clipped_gradients(
    module: torch.nn.Module,
    loss: Callable[..., torch.Tensor] | None,
    inputs: Any,
    targets: Any,
    norm: float,
    *,
    parameters: Iterable[torch.Tensor] | None = None,
    sparse: Iterable[torch.Tensor] = (),
) -> list[torch.Tensor]:
    """The sum of the examples' gradients, each clipped to `norm`: the result of `clip_and_sum` on `grad_samples`,
    without the memory for a gradient of each example (ghost clipping).

    Inputs, targets and `loss` are those of `grad_samples`. The sums are
    float32, one for each of `parameters`, by default the trainable parameters of the module in its order. They are for
    `DPFTRL.step(sums, examples=…)`, which uses the order of its optimizer: give `parameters=` if that differs. The
    parameters in `sparse`, weights of `Embedding` layers, get sparse sums of the rows that were looked up.

    The length of an example's gradient follows from a layer's input and the gradient of its output (Goodfellow 2015,
    arXiv 1510.01799; Li and others 2022, arXiv 2110.05679), and so does the sum, without a second backward pass (Bu and
    others 2022, arXiv 2210.00038). This holds for `Linear`, convolutions and `Embedding`, which may be used several
    times, share their weights, and process sequences. If the gradient of an example is smaller than the data for its
    length, as in convolutions of large images, it is formed (Bu and others 2022, arXiv 2205.10683). All other
    parameters (normalizations, attention's own projections, recurrent cells) get gradients of single examples as in
    `grad_samples`. Each example runs by itself through `torch.func.vmap`: no operation of a module can mix them.

    Lengths are in float64, with a bound on their error and on the rounding of the sum: the contribution of one example
    is never longer than `norm`. An example whose gradient is not finite counts as zero. Batch normalization is refused.

    >>> import torch, evertally.torch
    >>> module, loss = torch.nn.Linear(3, 2), torch.nn.functional.cross_entropy
    >>> inputs, targets = torch.ones(4, 3), torch.tensor([0, 1, 1, 0])
    >>> weight, bias = evertally.torch.clipped_gradients(module, loss, inputs, targets, norm=0.1)
    >>> tuple(weight.shape), tuple(bias.shape)
    ((2, 3), (2,))
    """
    wanted = [p for p in module.parameters() if p.requires_grad] if parameters is None else list(parameters)
    advance(module)
    return clipped_and_losses(module, loss, (inputs, targets), norm, wanted, sparse)[0]


#: A sum for each parameter, and the losses of the examples.
Sums = tuple[list[torch.Tensor], torch.Tensor]


def clipped_and_losses(
    module: torch.nn.Module,
    loss: Callable[..., torch.Tensor] | None,
    batch: tuple[Any, Any],
    norm: float,
    parameters: list[torch.Tensor],
    sparse: Iterable[torch.Tensor] = (),
) -> Sums:
    """The result of `clipped_gradients`, and the loss of each example."""
    few = {id(p) for p in sparse}
    return _sums(module, loss, batch, parameters, lambda found: clipped_sums(found, norm), few)


def weighed_and_losses(
    module: torch.nn.Module,
    loss: Callable[..., torch.Tensor] | None,
    batch: tuple[Any, Any],
    weigh: Weighing,
    parameters: list[torch.Tensor],
) -> Sums:
    """The same with another rule instead of clipping to a norm: the factor of each gradient follows from its length."""
    return _sums(module, loss, batch, parameters, lambda found: weighed_sums(found, weigh), set())


def covered(
    module: torch.nn.Module, loss: Callable[..., torch.Tensor], one: Any, target: Any, parameters: list[torch.Tensor]
) -> int:
    """The number of coordinates of the parameters that belong to layers whose gradients need not be formed, in a batch
    of one example."""
    trained = _trained(module, parameters)
    path = _Path.of(module, loss, one, target, trained)
    called_layers = {call.layer for call in path.calls}
    names = {name for layer, parts in path.layers.items() if layer in called_layers for name in parts.values()}
    return sum(trained[name].numel() for name in names)


def _trained(module: torch.nn.Module, wanted: list[torch.Tensor]) -> dict[str, torch.Tensor]:
    names = {id(p): name for name, p in module.named_parameters() if p.requires_grad}
    return {names[id(p)]: p for p in wanted if id(p) in names}


def _sums(
    module: torch.nn.Module,
    loss: Callable[..., torch.Tensor] | None,
    batch: tuple[Any, Any],
    wanted: list[torch.Tensor],
    sums_of: Callable[[list[Gradients]], list[torch.Tensor]],
    few: set[int],
) -> Sums:
    refuse_mixing(module)
    inputs, targets = map(plain, batch)
    trained = _trained(module, wanted)
    sums: dict[int, torch.Tensor] = {}
    losses = torch.zeros(0, device="cpu")
    if count(inputs) and trained:
        one, target = (mapped(lambda tensor: torch.zeros_like(tensor[:1]), values) for values in (inputs, targets))
        with generators_kept({tensor.device for tensor in (*module.parameters(), *tensors(inputs))}):
            path = _Path.of(module, loss or own_loss, one, target, trained)
        gradients = path.run(inputs, targets)
        losses = gradients.losses
        with _precise(tensors(inputs)[0].device):
            found = path.forms(gradients, {name for name, p in trained.items() if id(p) in few})
            totals = sums_of(list(found.values())) if found else []
        sums = {id(trained[name]): total for name, total in zip(found, totals)}
    return [sums[id(p)] if id(p) in sums else _zeros(p, id(p) in few) for p in wanted], losses


class NotFollowed(evertally.InvalidError):
    """Ghost clipping does not apply to the module."""


@dataclass
class _Call:
    """One use of a layer."""

    layer: torch.nn.Module
    #: The output for one example, which has the shape of the zeros that are added to it.
    output: torch.Tensor


@dataclass
class _Taken:
    """The results of running all examples, with the examples along the first dimension."""

    #: The input of each call, and the gradient of its output.
    inputs: tuple[torch.Tensor, ...]
    outputs: tuple[torch.Tensor, ...]
    #: Gradients of the parameters that no call accounts for.
    others: dict[str, torch.Tensor]
    losses: torch.Tensor


@dataclass
class _Path:
    """The path of one example through a module and a loss."""

    module: torch.nn.Module
    loss: Callable[..., torch.Tensor]
    trained: dict[str, torch.Tensor]
    calls: list[_Call]
    #: For each layer that is called, the parameters for which it accounts.
    layers: dict[torch.nn.Module, dict[str, str]]

    @classmethod
    def of(
        cls, module: torch.nn.Module, loss: Callable[..., torch.Tensor], one: Any, target: Any, trained: dict[str, Any]
    ) -> _Path:
        """Traces one example, of zeros: the module may keep tensors of it. Layers get their parameters detached: a
        parameter that still has a gradient is also used elsewhere, and no call of a layer accounts for it."""
        elsewhere: set[str] = set()
        while True:
            layers = _layers(module, trained, elsewhere)
            path = cls(module, loss, trained, [], layers)
            used = path._follow(one, target)
            if not used:
                return path
            elsewhere |= used

    def _follow(self, one: Any, target: Any) -> set[str]:
        """Records the calls; returns the parameters that layers account for but that are also used elsewhere. Calls
        with keywords, and those inside further transformations such as `torch.func.jacrev`, are not recorded."""
        values = {name: p.detach().requires_grad_() for name, p in self.trained.items()}
        kept: dict[torch.nn.Module, dict[str, Any]] = {}
        seen: list[tuple[torch.Tensor, int]] = []

        def before(layer: torch.nn.Module, args: tuple[Any, ...]) -> None:
            if _is_recorded(args, depth):
                kept[layer] = {part: layer._parameters[part] for part in self.layers[layer]}
                layer._parameters.update({part: value.detach() for part, value in kept[layer].items()})

        def after(layer: torch.nn.Module, args: tuple[Any, ...], output: torch.Tensor) -> None:
            if _is_recorded(args, depth):
                layer._parameters.update(kept.pop(layer))
                self.calls.append(_Call(layer, output.detach()))
                seen.append((args[0], args[0]._version))

        gradients = [None] * len(values)
        depth = _depth()
        try:
            with torch.enable_grad(), single_operations(self.module), OwnTensors(), ExitStack() as hooks:
                for layer in self.layers:
                    hooks.enter_context(_hook(layer.register_forward_pre_hook(before)))
                    hooks.enter_context(_hook(layer.register_forward_hook(after, prepend=True)))
                result = self.loss(self._output(values, one), target)
            if result.requires_grad:
                gradients = torch.autograd.grad(result, list(values.values()), allow_unused=True)
        except evertally.EvertallyError:
            raise
        except Exception as error:
            raise NotFollowed(
                "ghost clipping first follows an example of zeros through module and loss, which fails"
                f"{place_of(error, self.module)} ({type(error).__name__}: {error}). If they work for examples of the "
                f"data, {_OTHERWISE}"
            ) from error
        if any(tensor._version != version for tensor, version in seen):
            raise NotFollowed(
                "the module changes the input of a layer in place, but ghost clipping needs the original: "
                + _OTHERWISE
            )
        accounted = {name for parts in self.layers.values() for name in parts.values()}
        return {name for name, gradient in zip(values, gradients) if gradient is not None and name in accounted}

    def _output(self, values: dict[str, torch.Tensor], one: Any) -> Any:
        """The module's output for a batch of one example. It gets copies of its buffers, because it must not keep state
        of a call."""
        constants = {name: p.detach() for name, p in self.module.named_parameters() if name not in values}
        constants |= {name: buffer.detach().clone() for name, buffer in self.module.named_buffers()}
        return called(self.module, {**constants, **values}, one)

    def run(self, inputs: Any, targets: Any) -> _Taken:
        """Runs all examples, each by itself. Zeros are added to the output of each call, and their gradients are
        returned."""
        accounted = {name for parts in self.layers.values() for name in parts.values()}
        values = {name: p.detach() for name, p in self.trained.items() if name not in accounted}
        zeros = tuple(torch.zeros_like(call.output) for call in self.calls)
        if not values and not zeros:
            return _Taken((), (), {}, torch.zeros(0, device="cpu"))

        def of_one(values: dict[str, Any], zeros: tuple[Any, ...], one: Any, target: Any) -> Any:
            seen: list[torch.Tensor] = []
            depth = _depth()

            def after(layer: torch.nn.Module, args: tuple[Any, ...], output: torch.Tensor) -> torch.Tensor | None:
                if not _is_recorded(args, depth):
                    return None
                if len(seen) == len(zeros) or not self._is_call(len(seen), layer, output):
                    raise NotFollowed(_ANOTHER_WAY)
                seen.append(args[0])
                return output + zeros[len(seen) - 1]

            with OwnTensors(), ExitStack() as hooks:
                for layer in self.layers:
                    hooks.enter_context(_hook(layer.register_forward_hook(after, prepend=True)))
                fixed = {name: self.trained[name].detach() for name in accounted}
                result = self.loss(self._output({**fixed, **values}, alone(one)), alone(target))
            if len(seen) != len(zeros):
                raise NotFollowed(_ANOTHER_WAY)
            return result, (tuple(seen), result)

        gradients = torch.func.grad(of_one, argnums=(0, 1), has_aux=True)
        (others, outputs), (seen, losses) = of_each(gradients, self.module, (values, zeros), (inputs, targets))
        return _Taken(seen, outputs, others, losses.detach())

    def _is_call(self, place: int, layer: torch.nn.Module, output: torch.Tensor) -> bool:
        call = self.calls[place]
        return call.layer is layer and call.output.shape == output.shape and call.output.dtype == output.dtype

    def forms(self, taken: _Taken, sparse: Set[str] = frozenset()) -> dict[str, Gradients]:
        """The gradients of single examples by parameter, each in its form."""
        if not sparse.isdisjoint(taken.others):
            raise ValueError("a table is used in another way than by looking up rows: omit it from tables")
        forms: dict[str, Gradients] = {name: Formed(samples) for name, samples in taken.others.items()}
        uses: dict[tuple[str, str], list[Any]] = {}
        for call, inputs, outputs in zip(self.calls, taken.inputs, taken.outputs):
            for part, name in self.layers[call.layer].items():
                uses.setdefault((part, name), []).append((call.layer, inputs.detach(), outputs.detach()))
        for (part, name), calls in uses.items():
            if part == "weight":
                forms[name] = of_weight(calls, self.trained[name].shape, name in sparse)
            else:
                forms[name] = Formed(torch.stack([of_bias(layer, outputs) for layer, _, outputs in calls]).sum(dim=0))
        return forms


_OTHERWISE = 'use clipping="samples", or grad_samples'
_ANOTHER_WAY = (
    "the module takes another path through its layers than for an example of zeros: ghost clipping needs the same path "
    f"for every example, so {_OTHERWISE}"
)


def _is_recorded(args: tuple[Any, ...], depth: tuple[int, int]) -> bool:
    return len(args) == 1 and _depth() == depth


def _depth() -> tuple[int, int]:
    """The number of transformations that are active, and of those for derivatives in forward mode."""
    return current_level(), forward_ad._current_level


def _layers(
    module: torch.nn.Module, trained: dict[str, torch.Tensor], elsewhere: set[str]
) -> dict[torch.nn.Module, dict[str, str]]:
    """Layers that can account for all their trained parameters, and their names by part."""
    names = {id(p): name for name, p in trained.items()}
    found: dict[torch.nn.Module, dict[str, str]] = {}
    kinds: dict[str, set[Any]] = {}
    for layer in module.modules():
        parts = {part: names[id(p)] for part, p in layer._parameters.items() if id(p) in names}
        if kind_of(layer) is not None and parts:
            found[layer] = parts
            for part, name in parts.items():
                kinds.setdefault(name, set()).add((part, kind_of(layer)))
    several = elsewhere | {name for name, of in kinds.items() if len(of) > 1}
    return {layer: parts for layer, parts in found.items() if not several & set(parts.values())}


def _zeros(parameter: torch.Tensor, is_sparse: bool) -> torch.Tensor:
    if is_sparse:
        rows = torch.zeros(1, 0, dtype=torch.long, device="cpu")
        none = torch.zeros(0, parameter.shape[1], device="cpu")
        return torch.sparse_coo_tensor(
            rows, none, parameter.shape, is_coalesced=True, check_invariants=False, device="cpu"
        )
    return torch.zeros(parameter.shape, dtype=torch.float32, device=parameter.device)


@contextmanager
def _hook(handle: Any) -> Iterator[None]:
    try:
        yield
    finally:
        handle.remove()


@contextmanager
def _precise(device: torch.device) -> Iterator[None]:
    """Computes matrix products in full float32: the margin of the lengths assumes it."""
    products = [torch.backends.cuda.matmul, getattr(torch.backends.mkldnn, "matmul", None)]
    own = [each for each in products if hasattr(each, "fp32_precision")]
    before = [each.fp32_precision for each in own]
    old = None if own else torch.get_float32_matmul_precision()  # before PyTorch 2.9
    try:
        for each in own:
            each.fp32_precision = "ieee"
        if old is not None:
            torch.set_float32_matmul_precision("highest")
        with torch.autocast(device.type, enabled=False), torch.no_grad():
            yield
    finally:
        for each, precision in zip(own, before):
            each.fp32_precision = precision
        if old is not None:
            torch.set_float32_matmul_precision(old)
