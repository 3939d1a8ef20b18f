"""Embeddings whose rows get their noise only when they are used."""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import evertally
import numpy as np
import torch

from evertally.torch._alone import of_each
from evertally.torch._examples import alone, called, count, plain
from evertally.torch._gradients import on_grid
from evertally.torch._optimizer import DPFTRL
from evertally.torch._state import OwnTensors, untransformed, unwrapped

Rates = float | Sequence[float]


class Tables:
    """The embeddings of a run with deferred noise, each with its `evertally.training.RowNoise`.

    Reading rows through the module, its `state_dict()` or a deep copy returns rows that have caught up. The weights
    themselves are not up to date: rows that no recent batch has used lack noise.

    In a group of processes each has all of the tables. They are the same on all, which requires the same calls on all:
    a row that one process uses catches up on every process, and no process may read rows on its own before all have
    called `catch_up()`.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        rates: Mapping[torch.nn.Embedding, Rates],
        private: DPFTRL,
        identity: tuple[evertally.training.VectorPlan, evertally.SecretKey, str],
    ) -> None:
        plan, key, name = identity
        if not isinstance(rates, Mapping):
            raise ValueError("give each table with its learning rate: tables={module.words: 0.5}")
        self.layers, self._ranks = list(rates), private.ranks
        _check(module, self.layers, private)
        self._made = [
            {
                "name": f"{name}, table {place}",
                "rows": layer.num_embeddings,
                "width": layer.embedding_dim,
                "rates": np.divide(rates[layer], private.expected_batch_size).tolist(),
            }
            for place, layer in enumerate(self.layers)
        ]
        self._identity = (plan, key)
        self.noises = [evertally.training.RowNoise(plan, key, **made) for made in self._made]
        #: For each table, the rows that have caught up for the current step.
        self._fresh: list[set[int]] | None = None
        #: The thread that may read only rows that have already caught up.
        self._reader: int | None = None
        #: The thread that saves the module without catching up.
        self._saver: int | None = None
        self._is_loading = False
        #: Whether all rows are known to have all their noise.
        self.caught_up = False
        self._ranks.same(self._made, "the tables, or their rates,")
        for place, layer in enumerate(self.layers):
            self._guard(place, layer)

    def _guard(self, place: int, layer: torch.nn.Embedding) -> None:
        hooks = [
            layer.register_forward_pre_hook(lambda _, *args: self._before(place, *args), with_kwargs=True),
            layer.register_state_dict_pre_hook(lambda *_: self._caught_up(place)),
            layer.register_state_dict_post_hook(_without_the_table),
            layer.register_load_state_dict_pre_hook(lambda *_: self._refuse_other_rows()),
        ]
        # A copy has all its noise, and no hooks.
        layer.__dict__["__deepcopy__"] = lambda memo: self._copied(place, [hook.id for hook in hooks], memo)

    @property
    def weights(self) -> list[torch.Tensor]:
        """The tables."""
        return [layer.weight for layer in self.layers]

    @property
    def step(self) -> int:
        """The number of steps taken, the same for all tables."""
        return self.noises[0].step

    @contextmanager
    def of_step(self, module: torch.nn.Module, inputs: Any) -> Iterator[None]:
        """Catches up the rows that a batch uses; inside, this thread may read no others."""
        self._fresh = [set() for _ in self.layers]
        try:
            with self._ranks.together():
                if count(inputs):
                    self._read(module, inputs)
            if self._ranks.group is not None:
                self._catch_up_with_all()
            self._reader = threading.get_ident()
            yield
        finally:
            self._fresh = self._reader = None

    def _catch_up_with_all(self) -> None:
        """Catches up the rows that the batches of all ranks use."""
        assert self._fresh is not None
        said = self._ranks.tell(self._fresh)
        self._fresh = [set().union(*of_all) for of_all in zip(*said)]
        with self._ranks.together():
            for rows, layer, noise in zip(self._fresh, self.layers, self.noises):
                if rows:
                    noise.catch_up(_array(layer), sorted(rows))

    def of_all_ranks(self, sums: Sequence[torch.Tensor], norm: float) -> list[torch.Tensor]:
        """The sums of the tables over the examples of all ranks, in float32."""
        if self._ranks.group is not None:
            own = [on_grid(total, norm) for total in sums]
            said = self._ranks.tell([(total.indices(), total.values()) for total in own])
            sums = [
                torch.sparse_coo_tensor(torch.cat(rows, dim=1), torch.cat(values), total.shape, device="cpu").coalesce()
                for total, (rows, values) in zip(sums, (zip(*of_all) for of_all in zip(*said)))
            ]
        return [
            torch.sparse_coo_tensor(
                total.indices(),
                total.values().float(),
                total.shape,
                is_coalesced=True,
                check_invariants=False,
                device="cpu",
            )
            for total in sums
        ]

    def _read(self, module: torch.nn.Module, inputs: Any) -> None:
        """Looks up rows, so that they catch up. It has no other effect: the module's buffers and random numbers are
        discarded. The batch runs as one example, so that no tensor of it can be used later."""
        buffers = {name: buffer.clone() for name, buffer in module.named_buffers()}

        def of_batch(nothing: torch.Tensor, batch: Any) -> torch.Tensor:
            with OwnTensors():
                called(module, buffers, batch)
            return nothing

        of_each(torch.func.grad(of_batch), module, (torch.zeros((), device="cpu"),), (alone(plain(inputs)),))

    def check(self, sums: Sequence[torch.Tensor]) -> None:
        """Raises the errors of `descend`, and refuses gradients of rows that were read without their noise."""
        assert self._fresh is not None
        for fresh, layer, noise, total in zip(self._fresh, self.layers, self.noises, sums):
            if not fresh.issuperset(total.indices()[0].tolist()):
                raise ValueError(
                    "the module looks up other rows for one example than for a batch: a row was read without its noise"
                )
            noise.check(_array(layer), total.indices()[0].numpy(), total.values().numpy())

    def descend(self, sums: Sequence[torch.Tensor]) -> None:
        """Takes the step of all tables."""
        self.caught_up = False
        for layer, noise, total in zip(self.layers, self.noises, sums):
            noise.descend(_array(layer), total.indices()[0].numpy(), total.values().numpy())

    def catch_up(self) -> None:
        """Gives all rows the noise that they have missed. In a group all ranks must call it."""
        if self._reader == threading.get_ident():
            raise RuntimeError("the module cannot be saved or copied inside a step: do that after it")
        with self._ranks.together():
            for layer, noise in zip(self.layers, self.noises):
                noise.catch_up(_array(layer))
            self.caught_up = True

    def check_step(self, step: int) -> None:
        """Refuses tables that are at another step than the optimizer."""
        found = sorted({noise.step for noise in self.noises})
        if found != [step]:
            raise ValueError(
                f"the tables are at step {found[0]}, and the optimizer at {step}: a step was interrupted, or a state "
                "of the optimizer alone was loaded. Load a run.state_dict(), which holds both"
            )

    def state(self) -> list[torch.Tensor]:
        """The state of the noise; secret. It belongs to the current contents of the tables."""
        return [torch.frombuffer(bytearray(noise.save()), dtype=torch.uint8) for noise in self.noises]

    def restored(self, states: Sequence[torch.Tensor], step: int) -> list[evertally.training.RowNoise]:
        """The noise from a state after a step."""
        plan, key = self._identity
        if len(states) != len(self.noises):
            raise ValueError(f"the state belongs to a run with {len(states)} tables")
        made = [
            evertally.training.RowNoise.restore(plan, key, own["name"], state.numpy().tobytes(), **_shape(own))
            for own, state in zip(self._made, states)
        ]
        if any(noise.step != step for noise in made):
            raise ValueError("the state's tables and its optimizer are of different steps: it is not a state of a run")
        return made

    def module_state(self, module: torch.nn.Module) -> dict[str, Any]:
        """The state of a module with its tables unchanged, including rows that lack noise."""
        self._saver = threading.get_ident()
        try:
            return copy.deepcopy(module.state_dict())
        finally:
            self._saver = None

    def load(
        self, module: torch.nn.Module, state: dict[str, Any], noises: list[evertally.training.RowNoise], caught_up: bool
    ) -> None:
        """Restores tables and noise."""
        self._is_loading = True
        try:
            module.load_state_dict(state)
        finally:
            self._is_loading = False
        self.noises, self.caught_up = noises, caught_up

    def _before(self, place: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Runs before rows are looked up."""
        if self._reader == threading.get_ident():
            return
        if torch.jit.is_tracing():
            raise RuntimeError("a trace would contain rows without their noise: trace a copy.deepcopy of the module")
        numbers = unwrapped(args[0] if args else kwargs["input"])
        with untransformed():
            rows = torch.unique(numbers).numpy()
            weights = _array(self.layers[place])
        if self._ranks.group is None:
            self.noises[place].catch_up(weights, rows)
        elif self._fresh is None:
            self._refuse_to_read_alone()
        if self._fresh is not None:
            self._fresh[place].update(rows.tolist())

    def _refuse_to_read_alone(self) -> None:
        """Refuses reads on one rank: rows that catch up at other steps than on other ranks would get other noise."""
        if not self.caught_up:
            raise RuntimeError(
                "in a group of processes all ranks must add noise to rows together: call run.catch_up() on all ranks "
                "before one of them calls, copies or saves the module"
            )

    def _caught_up(self, place: int) -> None:
        """Ensures that all rows of a table have all their noise."""
        if self._saver == threading.get_ident():
            return
        if self._reader == threading.get_ident():
            raise RuntimeError("the module cannot be saved or copied inside a step: do that after it")
        if self._ranks.group is not None:
            return self._refuse_to_read_alone()
        self.noises[place].catch_up(_array(self.layers[place]))

    def _refuse_other_rows(self) -> None:
        if not self._is_loading:
            raise RuntimeError(
                "rows that are replaced would later reveal which of them were used: resume with run.load_state_dict(), "
                "or load into a fresh module, and make a run with another name"
            )

    def _copied(self, place: int, hooks: list[int], memo: dict[int, Any]) -> torch.nn.Embedding:
        self._caught_up(place)
        layer = self.layers[place]
        guard = layer.__dict__.pop("__deepcopy__")
        try:
            made = copy.deepcopy(layer, memo)
        finally:
            layer.__dict__["__deepcopy__"] = guard
        for registered in vars(made).values():
            for hook in hooks if isinstance(registered, dict) else ():
                registered.pop(hook, None)
        return made


def _without_the_table(layer: torch.nn.Module, state: dict[str, Any], prefix: str, _: Any) -> None:
    """Copies the weight in a saved state, so that it does not change with the table."""
    state[prefix + "weight"] = state[prefix + "weight"].clone()


def _array(layer: torch.nn.Embedding) -> Any:
    return layer.weight.detach().numpy()


def _shape(made: dict[str, Any]) -> dict[str, Any]:
    return {part: value for part, value in made.items() if part != "name"}


def _check(module: torch.nn.Module, layers: Sequence[torch.nn.Module], optimizer: torch.optim.Optimizer) -> None:
    weights = {id(p) for group in optimizer.param_groups for p in group["params"]}
    for layer in layers:
        if type(layer) is not torch.nn.Embedding or layer not in set(module.modules()):
            found = type(layer).__name__
            raise ValueError(f"tables must be torch.nn.Embedding layers of the module, got another layer ({found})")
        if "__deepcopy__" in layer.__dict__:
            raise ValueError(
                "this embedding is a table of another run: give a copy.deepcopy of the module, or a fresh one"
            )
        weight = layer.weight
        if layer.max_norm is not None or layer.scale_grad_by_freq or layer.padding_idx is not None:
            raise ValueError("a table must be an Embedding without max_norm, scale_grad_by_freq or padding_idx")
        if weight.device.type != "cpu" or weight.dtype != torch.float32 or not weight.is_contiguous():
            raise ValueError("a table must be contiguous float32 in the CPU's memory, where its noise is added")
        if not weight.requires_grad:
            raise ValueError("a table's weight does not require gradients: omit a frozen embedding from tables")
        if id(weight) in weights:
            raise ValueError(
                "the optimizer has the weight of a table: omit it; tables take plain steps with their own rates"
            )
        if sum(weight is p for part in module.modules() for p in part._parameters.values()) > 1:
            raise ValueError("a table's weight is used by another layer, too, which would read rows that lack noise")
