"""What is measured, and what a peer hands back. Peers know nothing of clocks, processes or reports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Case:
    """One measurement: a peer, in one of its variants, in one setting."""

    setting: str  # "normals", "scalar", "figure5" or "wide"
    peer: str  # module in `peer/`
    variant: str  # what that module calls one of its ways; "" if it has only one
    horizon: int  # T
    coordinates: int  # d
    steps: int  # steps of one round; equal to the horizon where a round is a whole run

    @property
    def name(self) -> str:
        parts = (self.setting, self.peer, self.variant, f"T{self.horizon}", f"d{self.coordinates}")
        return "/".join(part for part in parts if part)


@dataclass(frozen=True)
class Work:
    """A prepared measurement."""

    label: str  # how the report calls it
    round: Callable[[], None]  # one round; must leave nothing running in the background
    coordinate_steps: int  # noise values that a round produces
    rounds: int = 9  # at most this many rounds, because a peer's horizon ends
    note: str = ""
    gradient: Callable[[], Any] | None = None  # the vector that noise was added to, for the tests


class Unavailable(Exception):
    """The peer cannot run here; the message says why."""
