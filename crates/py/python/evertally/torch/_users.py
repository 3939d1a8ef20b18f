"""Users with many examples: a user's examples have one gradient, which is clipped as a whole."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterable
from typing import Any

import evertally
import torch

from evertally._ids import id_text
from evertally.torch._examples import alone, mapped


class Users(torch.utils.data.Dataset):
    """The examples of a data set by user: an item has the first `most` examples of a user, repeated up to that number,
    and which of them count. Users are numbered in the order of a hash of their names, or by themselves if the
    population is known."""

    def __init__(
        self,
        dataset: Any,
        owners: Iterable[Hashable],
        most: int,
        population: int | None,
        collate: Callable[[list[Any]], Any] | None,
    ) -> None:
        self._dataset, self._most = dataset, most
        self._collate = collate or torch.utils.data.default_collate
        self._numbers: dict[str, list[int]] = {}
        found = 0
        for number, owner in enumerate(owners):
            found += 1
            own = self._numbers.setdefault(_name(owner, number), [])
            if len(own) < most:
                own.append(number)
        if found != len(dataset):
            raise evertally.InvalidError(
                f"users has {found} entries for {len(dataset)} examples: give the user of each example"
            )
        self._all = self._in_order(population)

    def _in_order(self, population: int | None) -> list[list[int]]:
        """The examples of each user, by the users' numbers."""
        if population is None:
            return [self._numbers[name] for name in sorted(self._numbers, key=_hash)]
        if population < 1:
            raise evertally.InvalidError(f"population is {population}: give the number of users, at least 1")
        numbers = [str(number) for number in range(population)]
        others = self._numbers.keys() - set(numbers)
        if others:
            raise evertally.InvalidError(
                f"with population={population}, users are whole numbers from 0 to {population - 1}, got {min(others)}"
            )
        return [self._numbers.get(name, []) for name in numbers]

    def __len__(self) -> int:
        return len(self._all)

    def __getitem__(self, user: int) -> Any:
        own = self._all[user]
        made = self._collate([self._dataset[number] for number in own or [0]])
        if not (isinstance(made, (tuple, list)) and len(made) == 2):
            raise evertally.InvalidError("with users, examples are pairs of an input and a target")
        if not own:  # only the shapes of another user's example
            made = [mapped(torch.zeros_like, values) for values in made]
        inputs, targets = (mapped(self._padded, values) for values in made)
        return [inputs, torch.arange(self._most, device="cpu") < len(own)], targets

    def _padded(self, tensor: torch.Tensor) -> torch.Tensor:
        """Repeats the first example, of which the module has a gradient; zeros may have none."""
        return torch.cat([tensor, *[tensor[:1]] * (self._most - len(tensor))])


def _name(owner: Any, row: int) -> str:
    """The name of the user of a row."""
    owner = owner.item() if hasattr(owner, "item") else owner
    name = id_text(owner)
    if name is None:
        missing = owner is None or owner != owner
        found = "is missing" if missing else f"has the type {type(owner).__name__}"
        raise evertally.InvalidError(
            f"the user of example {row} {found}: give the user of each example as a text or a whole number, and remove "
            "examples without a user"
        )
    return name


def _hash(name: str) -> bytes:
    return hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16, person=b"evertally users").digest()


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


class LossOfUser:
    """The mean loss of a user's real examples, each by itself."""

    def __init__(self, loss: Callable[..., torch.Tensor]) -> None:
        self.loss = loss

    def __call__(self, output: Any, targets: Any) -> torch.Tensor:
        outputs, real = output
        own = mapped(lambda tensor: tensor.squeeze(0), targets)
        of_one = lambda one, target: self.loss(alone(one), alone(target))  # noqa: E731
        losses = torch.where(real[0], torch.func.vmap(of_one, randomness="different")(outputs, own), 0.0)
        return losses.sum() / real.sum().clamp(min=1)
