"""Users with many examples: a user's examples have one gradient, which is clipped as a whole."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any

import evertally
import torch

from evertally.torch._examples import alone, mapped


class Users(torch.utils.data.Dataset):
    """The examples of a data set by user: an item has the first `most` examples of a user, padded to that number with
    zeros, and which of them are real. Users are numbered in the order of their first example."""

    def __init__(
        self, dataset: Any, owners: Iterable[Hashable], most: int, collate: Callable[[list[Any]], Any] | None
    ) -> None:
        self._dataset, self._most = dataset, most
        self._collate = collate or torch.utils.data.default_collate
        self._numbers: dict[Hashable, list[int]] = {}
        found = 0
        for number, owner in enumerate(owners):
            found += 1
            own = self._numbers.setdefault(owner.item() if hasattr(owner, "item") else owner, [])
            if len(own) < most:
                own.append(number)
        if found != len(dataset):
            raise evertally.InvalidError(
                f"users has {found} entries for {len(dataset)} examples: give the user of each example"
            )
        self._all = list(self._numbers.values())

    def __len__(self) -> int:
        return len(self._all)

    def __getitem__(self, user: int) -> Any:
        own = self._all[user]
        made = self._collate([self._dataset[number] for number in own])
        if not (isinstance(made, (tuple, list)) and len(made) == 2):
            raise evertally.InvalidError("with users, examples are pairs of an input and a target")
        inputs, targets = (mapped(self._padded, values) for values in made)
        return [inputs, torch.arange(self._most, device="cpu") < len(own)], targets

    def _padded(self, tensor: torch.Tensor) -> torch.Tensor:
        padding = tensor.new_zeros(self._most - len(tensor), *tensor.shape[1:])
        return torch.cat([tensor, padding])


class OfUser(torch.nn.Module):
    """A module that gets the examples of one user as a batch."""

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, inputs: Any, real: torch.Tensor) -> Any:
        own = mapped(lambda tensor: tensor.squeeze(0), inputs)
        if isinstance(own, dict):
            return self.module(**own), real
        return self.module(*(own if isinstance(own, list) else [own])), real


def loss_of_user(loss: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """The mean loss of a user's real examples, each by itself."""

    def of_user(output: Any, targets: Any) -> torch.Tensor:
        outputs, real = output
        own = mapped(lambda tensor: tensor.squeeze(0), targets)
        of_each = torch.func.vmap(lambda one, target: loss(alone(one), alone(target)), randomness="different")
        losses = torch.where(real[0], of_each(outputs, own), 0.0)
        return losses.sum() / real.sum().clamp(min=1)

    return of_user
