"""Measurements, and the interface of a peer. Peers know nothing about clocks, processes or reports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Case:
    """One measurement: a peer, in one of its variants, in one setting."""

    setting: str  # "normals", "scalar", "figure5" or "wide"
    peer: str  # module in `peer/`
    variant: str  # name of a variant in that module; "" if it has only one
    horizon: int  # T
    coordinates: int  # d
    steps: int  # steps of one round; equal to the horizon if a round is a whole run

    @property
    def name(self) -> str:
        parts = (self.setting, self.peer, self.variant, f"T{self.horizon}", f"d{self.coordinates}")
        return "/".join(part for part in parts if part)


@dataclass(frozen=True)
class Work:
    """A prepared measurement."""

    label: str  # the name in the report
    round: Callable[[], None]  # one round; must leave nothing running in the background
    coordinate_steps: int  # noise values that a round produces
    rounds: int = 9  # at most this many rounds, because a peer's horizon ends
    note: str = ""
    gradient: Callable[[], Any] | None = None  # the vector to which noise was added, for the tests


class Unavailable(Exception):
    """The peer cannot run here; the message says why."""
