"""Seeds of the random numbers of forward passes, such as those of dropout, for all frameworks."""

from __future__ import annotations

import hashlib
from typing import Any

import evertally

__all__ = ["Seeds"]


class Seeds:
    """The seeds of a run: functions of the key, the run's name and a place."""

    def __init__(self, key: evertally.SecretKey, name: str) -> None:
        own = hashlib.blake2b(name.encode(), key=key.expose_bytes(), digest_size=32, person=b"evertally draws")
        self._secret = own.digest()

    def seed(self, *place: Any) -> bytes:
        """32 bytes for a place; nobody can compute them without the key."""
        return hashlib.blake2b(repr(place).encode(), key=self._secret, digest_size=32).digest()
