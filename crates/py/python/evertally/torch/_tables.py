"""Embeddings whose rows get their noise when they are used."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import evertally
import numpy as np
import torch

Rates = float | Sequence[float]


class Tables:
    """The embeddings of a run whose noise waits, each with its `evertally.RowNoise`.

    Whoever reads rows through the module reads rows that have caught up, and so does whoever takes its `state_dict()` or
    a deep copy. The weights themselves are behind.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        rates: Mapping[torch.nn.Embedding, Rates],
        optimizer: torch.optim.Optimizer,
        identity: tuple[evertally.VectorPlan, evertally.SecretKey, str],
        expected_batch_size: float,
    ) -> None:
        plan, key, name = identity
        self.layers = list(rates)
        _check(module, self.layers, optimizer)
        self._made = [
            {
                "name": f"{name}, table {place}",
                "rows": layer.num_embeddings,
                "width": layer.embedding_dim,
                "rates": np.divide(rates[layer], expected_batch_size).tolist(),
            }
            for place, layer in enumerate(self.layers)
        ]
        self._identity = (plan, key)
        self.noises = [evertally.RowNoise(plan, key, **made) for made in self._made]
        #: Of each table, the rows that the step at hand has caught up with.
        self._fresh: list[set[int]] | None = None
        self._is_quiet = False
        for place, layer in enumerate(self.layers):
            read = layer.register_forward_pre_hook(lambda _, args, place=place: self._before(place, args))
            saved = layer.register_state_dict_pre_hook(lambda *_, place=place: self._before_state(place))
            # A copy has no hooks, and so all noise.
            layer.__dict__["__deepcopy__"] = lambda memo, place=place, hooks=(read.id, saved.id): self._copied(
                place, hooks, memo
            )

    @property
    def weights(self) -> list[torch.Tensor]:
        """The tables."""
        return [layer.weight for layer in self.layers]

    @contextmanager
    def of_step(self, module: torch.nn.Module, inputs: Any) -> Iterator[None]:
        """Catches up with the rows that a batch uses; inside, no others may have gradients."""
        self._fresh = [set() for _ in self.layers]
        try:
            if len(inputs):
                with torch.no_grad():
                    module(inputs)  # the rows catch up as they are looked up
            with self._quiet():
                yield
        finally:
            self._fresh = None

    def check(self, sums: Sequence[torch.Tensor]) -> None:
        """Refuses gradients of rows that were read without their noise."""
        assert self._fresh is not None
        for fresh, total in zip(self._fresh, sums):
            if not fresh.issuperset(total.indices()[0].tolist()):
                raise ValueError(
                    "the module looks up other rows for one example than for a batch: a row was read without its noise"
                )

    def descend(self, sums: Sequence[torch.Tensor]) -> None:
        """The step of all tables."""
        for layer, noise, total in zip(self.layers, self.noises, sums):
            noise.descend(_array(layer), total.indices()[0].numpy(), total.values().numpy())

    def catch_up(self) -> None:
        """All rows get the noise that they have missed."""
        for layer, noise in zip(self.layers, self.noises):
            noise.catch_up(_array(layer))

    def state(self) -> list[torch.Tensor]:
        """Of the noise, secret; beside the tables as they are now."""
        return [torch.frombuffer(bytearray(noise.save()), dtype=torch.uint8) for noise in self.noises]

    def restored(self, states: Sequence[torch.Tensor]) -> list[evertally.RowNoise]:
        """The noise as it was."""
        plan, key = self._identity
        if len(states) != len(self.noises):
            raise ValueError(f"the state is that of a run with {len(states)} tables")
        return [
            evertally.RowNoise.restore(plan, key, made["name"], state.numpy().tobytes(), **_shape(made))
            for made, state in zip(self._made, states)
        ]

    @contextmanager
    def _quiet(self) -> Iterator[None]:
        """Nothing catches up here."""
        before, self._is_quiet = self._is_quiet, True
        try:
            yield
        finally:
            self._is_quiet = before

    def module_state(self, module: torch.nn.Module) -> dict[str, Any]:
        """The state of a module with its tables as they are, rows without their noise and all."""
        with self._quiet():
            return {name: value.clone() for name, value in module.state_dict().items()}

    def _before(self, place: int, args: tuple[Any, ...]) -> None:
        """Before rows are looked up."""
        if self._is_quiet:
            return
        rows = torch.unique(args[0]).numpy()
        self.noises[place].catch_up(_array(self.layers[place]), rows)
        if self._fresh is not None:
            self._fresh[place].update(rows.tolist())

    def _before_state(self, place: int) -> None:
        if not self._is_quiet:
            self.noises[place].catch_up(_array(self.layers[place]))


    def _copied(self, place: int, hooks: tuple[int, int], memo: dict[int, Any]) -> torch.nn.Embedding:
        self._before_state(place)
        layer = self.layers[place]
        guard = layer.__dict__.pop("__deepcopy__")
        try:
            made = copy.deepcopy(layer, memo)
        finally:
            layer.__dict__["__deepcopy__"] = guard
        made._forward_pre_hooks.pop(hooks[0], None)
        made._state_dict_pre_hooks.pop(hooks[1], None)
        return made


def _array(layer: torch.nn.Embedding) -> Any:
    return layer.weight.detach().numpy()


def _shape(made: dict[str, Any]) -> dict[str, Any]:
    return {part: value for part, value in made.items() if part != "name"}


def _check(module: torch.nn.Module, layers: Sequence[torch.nn.Module], optimizer: torch.optim.Optimizer) -> None:
    weights = {id(p) for group in optimizer.param_groups for p in group["params"]}
    for layer in layers:
        if type(layer) is not torch.nn.Embedding or layer not in set(module.modules()):
            raise ValueError(f"tables are torch.nn.Embedding layers of the module, got {layer}")
        weight = layer.weight
        if layer.max_norm is not None or layer.scale_grad_by_freq or layer.padding_idx is not None:
            raise ValueError("a table is an Embedding without max_norm, scale_grad_by_freq or padding_idx")
        if weight.device.type != "cpu" or weight.dtype != torch.float32 or not weight.is_contiguous():
            raise ValueError("a table is in float32 in the CPU's memory: its noise is written to it there")
        if not weight.requires_grad:
            raise ValueError("a table's weight does not require gradients: leave a frozen embedding out of tables")
        if id(weight) in weights:
            raise ValueError(
                "the optimizer has the weight of a table: leave it out; tables take plain steps with their own rates"
            )
        if sum(weight is p for part in module.modules() for p in part._parameters.values()) > 1:
            raise ValueError("a table's weight is used by another layer, too: rows that wait would be read there")
