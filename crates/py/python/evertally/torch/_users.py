"""Users with many examples: a user's examples have one gradient, which is clipped as a whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import evertally
import evertally.training
import torch

from evertally.torch._examples import alone, mapped


class ByUser(torch.utils.data.Dataset):
    """A data set by user: an item has the examples of a user that are used, repeated up to the largest number of them,
    and which of them count."""

    def __init__(
        self, dataset: Any, users: evertally.training.Users, collate: Callable[[list[Any]], Any] | None
    ) -> None:
        self._dataset, self.users, self._most = dataset, users, users.examples_per_user
        self._collate = collate or torch.utils.data.default_collate

    def __len__(self) -> int:
        return len(self.users)

    def __getitem__(self, user: int) -> Any:
        own = self.users.numbers(user)
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
