"""Several optimizers for one model, such as Muon for matrices and AdamW for all other parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from evertally.torch._adam import DPAdam


class Several(torch.optim.Optimizer):
    """Optimizers of different parameters, which take their steps one after the other. Schedulers belong to each.

    Its groups and its state are those of all of them, in their order.
    """

    def __init__(self, optimizers: Sequence[torch.optim.Optimizer]) -> None:
        if not optimizers:
            raise ValueError("the list of optimizers is empty: give at least one")
        for optimizer in optimizers:
            if not isinstance(optimizer, torch.optim.Optimizer):
                raise TypeError(f"the list of optimizers has a {type(optimizer).__name__}: give torch.optim.Optimizers")
            if isinstance(optimizer, DPAdam) and len(optimizers) > 1:
                raise ValueError("DPAdam must be the only optimizer of its run: it reads the moments of all parameters")
        # Does not call the base's __init__, which would make separate groups and a separate state.
        self.optimizers = list(optimizers)
        moved = [id(p) for group in self.param_groups for p in group["params"]]
        if len(set(moved)) < len(moved):
            raise ValueError("a parameter is in two optimizers, and both would move it: give each parameter to one")
        self._optimizer_step_pre_hooks: dict[int, Any] = {}
        self._optimizer_step_post_hooks: dict[int, Any] = {}

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """The groups of all optimizers."""
        return [group for optimizer in self.optimizers for group in optimizer.param_groups]

    @param_groups.setter
    def param_groups(self, _: list[dict[str, Any]]) -> None:
        raise AttributeError("groups belong to the optimizers of the list: set theirs")

    @property
    def state(self) -> Any:
        """The state of all optimizers, by parameter."""
        return {parameter: own for optimizer in self.optimizers for parameter, own in optimizer.state.items()}

    @property
    def defaults(self) -> dict[str, Any]:
        """No defaults: each optimizer has its own."""
        return {}

    def __repr__(self) -> str:
        return "\n".join(map(repr, self.optimizers))

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> Any:
        """Registers a function that is called before a step of each optimizer."""
        return [optimizer.register_step_pre_hook(hook) for optimizer in self.optimizers]

    def step(self, closure: Any = None) -> Any:
        """One step of each optimizer."""
        if closure is not None:
            raise ValueError("several optimizers take no closure: it would be called by each of them")
        for optimizer in self.optimizers:
            optimizer.step()

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clears the gradients of all parameters."""
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=set_to_none)

    def state_dict(self) -> dict[str, Any]:
        """The states of all optimizers as that of one: parameters are numbered in the order of the groups."""
        state: dict[int, Any] = {}
        groups: list[dict[str, Any]] = []
        for first, optimizer in zip(self._firsts(), self.optimizers):
            own = optimizer.state_dict()
            state |= {first + place: of for place, of in own["state"].items()}
            for group in own["param_groups"]:
                groups.append(group | {"params": [first + place for place in group["params"]]})
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continues from a `state_dict` of the same optimizers in the same order."""
        groups = list(state_dict["param_groups"])
        if len(groups) != len(self.param_groups):
            raise ValueError(f"the state has {len(groups)} groups of parameters instead of {len(self.param_groups)}")
        for first, optimizer in zip(self._firsts(), self.optimizers):
            few, groups = groups[: len(optimizer.param_groups)], groups[len(optimizer.param_groups) :]
            end = first + _count(optimizer)
            own = {place - first: of for place, of in state_dict["state"].items() if first <= place < end}
            moved = [group | {"params": [place - first for place in group["params"]]} for group in few]
            optimizer.load_state_dict({"state": own, "param_groups": moved})

    def _firsts(self) -> Iterable[int]:
        """The number of the first parameter of each optimizer."""
        first = 0
        for optimizer in self.optimizers:
            yield first
            first += _count(optimizer)


def _count(optimizer: torch.optim.Optimizer) -> int:
    return sum(len(group["params"]) for group in optimizer.param_groups)


def all_of(optimizer: torch.optim.Optimizer) -> list[torch.optim.Optimizer]:
    """The optimizers that an optimizer consists of."""
    return optimizer.optimizers if isinstance(optimizer, Several) else [optimizer]


def as_one(optimizers: torch.optim.Optimizer | Sequence[torch.optim.Optimizer]) -> torch.optim.Optimizer:
    """An optimizer that takes the steps of all."""
    return optimizers if isinstance(optimizers, torch.optim.Optimizer) else Several(list(optimizers))
