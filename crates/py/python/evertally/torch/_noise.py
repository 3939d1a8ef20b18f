"""The noise of a flat vector, or of a rank's ranges of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import evertally
import torch
from evertally import _evertally

Range = tuple[int, int]
#: Plan, key and name.
Identity = tuple[evertally.training.VectorPlan, evertally.SecretKey, str]


class RangedNoise:
    """`VectorNoise` of one or more ranges of coordinates, all at the same step."""

    def __init__(self, identity: Identity, ranges: Sequence[Range], total: int, **options: Any) -> None:
        self._identity, self._total, self._options = identity, total, options
        self._ranges = [own for own in ranges if own[0] < own[1]]
        self._parts: list[evertally.VectorNoise] = [self._made(own) for own in self._ranges]
        self._step = 0

    @property
    def step(self) -> int:
        """The last step drawn; 0 before the first."""
        return self._step

    @property
    def coordinates(self) -> int:
        """The number of coordinates of these ranges."""
        return sum(end - first for first, end in self._ranges)

    @property
    def ranges(self) -> list[Range]:
        """The ranges of coordinates of this rank."""
        return list(self._ranges)

    def add_next(self, vector: torch.Tensor, examples: int | None = None) -> None:
        """Adds the next step's noise to these ranges of the whole vector, which is a sum of `examples` examples, if
        that is known. Adds it to all ranges or to none."""
        numbers = vector.numpy()
        try:
            for (first, end), part in zip(self._ranges, self._parts):
                part.add_next(numbers[first:end], examples=examples)
        except BaseException:
            self.stand_at(self._step)
            raise
        self._step += 1

    def draw_ahead(self) -> None:
        """Starts to draw the next step in the background: see `VectorNoise.draw_ahead`."""
        if len(self._parts) == 1:
            self._parts[0].draw_ahead()
        elif self._parts:
            _evertally._draw_ahead(self._parts)  # on one thread

    def stand_at(self, step: int) -> None:
        """Positions all ranges after a step: a range that is at another step is made again."""
        for place, part in enumerate(self._parts):
            if part.step != step:
                self._parts[place] = self._made(self._ranges[place], step)
        self._step = step

    def state(self) -> dict[str, Any]:
        """The state for `restored`; as secret as the key."""
        states = [torch.frombuffer(bytearray(part.save()), dtype=torch.uint8) for part in self._parts]
        return {"step": self._step, "ranges": [list(own) for own in self._ranges], "states": states}

    def restored(self, state: dict[str, Any]) -> RangedNoise:
        """The noise from a state of these ranges or of others; the noise of ranges that the state lacks is drawn again
        through the state's step."""
        saved = {tuple(own): bytes(kept.numpy().tobytes()) for own, kept in zip(state["ranges"], state["states"])}
        noise = RangedNoise(self._identity, (), self._total, **self._options)
        noise._ranges, noise._step = self._ranges, int(state["step"])
        if not set(self._ranges) <= set(saved):
            for own, kept in saved.items():  # refuses those of another run
                noise._step = self._made(own, state=kept).step
        noise._parts = [
            self._made(own, state=saved[own]) if own in saved else self._made(own, noise._step) for own in self._ranges
        ]
        if any(part.step != noise._step for part in noise._parts):
            raise evertally.StateError("the ranges of the state are of different steps: it is not a state of a DPFTRL")
        return noise

    def _made(self, own: Range, step: int = 0, state: bytes | None = None) -> evertally.VectorNoise:
        (plan, key, name), coordinates = self._identity, self._total if own == (0, self._total) else own
        if state is not None:
            return evertally.VectorNoise.restore(plan, key, name, state, coordinates=coordinates, **self._options)
        noise = evertally.VectorNoise(plan, key, name, coordinates=coordinates, **self._options)
        if step:
            noise.seek(step)
        return noise
