"""The record of who took part when."""

from __future__ import annotations

import hashlib
import operator
import os
import secrets
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import SupportsIndex, TypeAlias

from ..._errors import InvalidError, StateError

User: TypeAlias = SupportsIndex | str

_TABLES = (
    "CREATE TABLE IF NOT EXISTS run (identity BLOB, salt BLOB)",
    "CREATE TABLE IF NOT EXISTS rounds (round INTEGER PRIMARY KEY, mark BLOB)",
    "CREATE TABLE IF NOT EXISTS participations (user TEXT, round INTEGER, PRIMARY KEY (user, round)) WITHOUT ROWID",
)


def names_of(users: Iterable[User]) -> list[str]:
    """The users as text, in order: 5 and "5" are the same user. Refuses a user that is listed twice."""
    names = []
    for user in users:
        if isinstance(user, bool) or not (isinstance(user, str) or hasattr(user, "__index__")):
            raise InvalidError(f"a user must be a text or a whole number, got {type(user).__name__}")
        names.append(user if isinstance(user, str) else str(operator.index(user)))
    if len(set(names)) < len(names):
        twice = next(name for place, name in enumerate(names) if name in names[:place])
        raise InvalidError(f"user {twice} is listed twice in one round: add up one clipped update for each user")
    return names


class Record:
    """Rounds and participations in a database: a file, or memory if there is no path.

    A round is committed before its noise is drawn. A transaction is on the disk, or leaves no trace, also if the power
    fails. A round that is committed again adds to its participants, because nothing shows which of two attempts was
    summed; its sum must be the same.
    """

    def __init__(self, path: Path | None, identity: bytes) -> None:
        if path is not None:
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        self._base = sqlite3.connect(path or ":memory:", isolation_level=None, check_same_thread=False)
        try:
            self._base.execute("PRAGMA synchronous = EXTRA")
            with self._transaction():
                for table in _TABLES:
                    self._base.execute(table)
                run = self._base.execute("SELECT identity, salt FROM run").fetchone()
                if run is None:
                    run = (identity, secrets.token_bytes(32))
                    self._base.execute("INSERT INTO run VALUES (?, ?)", run)
        except sqlite3.DatabaseError as damaged:
            raise StateError(f"{path} is not a record of rounds, or is damaged: {damaged}") from damaged
        if run[0] != identity:
            raise StateError(f"{path} is the record of another run: its plan, key, name or parameters differ")
        self._salt: bytes = run[1]

    def last(self) -> int:
        """The last round that was begun; 0 before the first."""
        return int(self._base.execute("SELECT coalesce(max(round), 0) FROM rounds").fetchone()[0])

    def rounds_of(self, user: str) -> list[int]:
        """The rounds of a user, in order."""
        found = self._base.execute("SELECT round FROM participations WHERE user = ? ORDER BY round", (user,))
        return [number for (number,) in found]

    def commit(self, number: int, users: list[str], total: bytes, limits: tuple[int, int]) -> None:
        """Records a round with its participants and a mark of its sum; `limits` are the participations and the
        separation of the plan.

        Raises InvalidError for a user that the limits exclude, and StateError if the round was begun with another sum.
        """
        mark = hashlib.blake2b(total, key=self._salt, digest_size=32).digest()
        with self._transaction():
            begun = self._base.execute("SELECT mark FROM rounds WHERE round = ?", (number,)).fetchone()
            if begun is not None and begun[0] != mark:
                raise StateError(
                    f"round {number} was begun with another sum: with the same noise, the two would show their exact "
                    "difference. Repeat it with the same sum, or pass over it with skip()"
                )
            for user in users:
                self._check(number, user, limits)
            if begun is None:
                self._base.execute("INSERT INTO rounds VALUES (?, ?)", (number, mark))
            rows = [(user, number) for user in users]
            self._base.executemany("INSERT OR IGNORE INTO participations VALUES (?, ?)", rows)

    def skip(self, number: int) -> None:
        """Records that a round is passed over; it may have been begun."""
        with self._transaction():
            self._base.execute("INSERT OR IGNORE INTO rounds VALUES (?, x'')", (number,))

    def allows(self, number: int, user: str, limits: tuple[int, int]) -> bool:
        """Whether a user may take part in a round."""
        most, separation = limits
        others = [each for each in self.rounds_of(user) if each != number]
        return len(others) < most and all(abs(number - each) >= separation for each in others)

    def _check(self, number: int, user: str, limits: tuple[int, int]) -> None:
        if self.allows(number, user, limits):
            return
        others = [each for each in self.rounds_of(user) if each != number]
        raise InvalidError(
            f"user {user} may not take part in round {number}: it has taken part {len(others)} times, last in round "
            f"{others[-1]}, and the plan allows at most {limits[0]} rounds, at least {limits[1]} apart. Leave the user "
            "out of the sum: eligible() lists those who may take part"
        )

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._base.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._base.execute("ROLLBACK")
            raise
        self._base.execute("COMMIT")

    def close(self) -> None:
        """Closes the file."""
        self._base.close()
