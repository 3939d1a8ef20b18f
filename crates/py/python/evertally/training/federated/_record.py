"""The record of who took part when."""

from __future__ import annotations

import hashlib
import os
import secrets
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import SupportsIndex, TypeAlias

from ..._errors import InvalidError, StateError
from ..._ids import id_text

User: TypeAlias = SupportsIndex | str

_TABLES = (
    "CREATE TABLE IF NOT EXISTS run (identity BLOB, salt BLOB)",
    "CREATE TABLE IF NOT EXISTS rounds (round INTEGER PRIMARY KEY, mark BLOB, completed INTEGER)",
    "CREATE TABLE IF NOT EXISTS participations (user TEXT, round INTEGER, PRIMARY KEY (user, round)) WITHOUT ROWID",
)


def names_of(users: Iterable[User]) -> list[str]:
    """The users as text, in order: 5 and "5" are the same user. Refuses a user that is listed twice."""
    names = []
    for user in users:
        name = id_text(user)
        if name is None:
            raise InvalidError(f"a user must be a text or a whole number, got {type(user).__name__}")
        names.append(name)
    if len(set(names)) < len(names):
        twice = next(name for place, name in enumerate(names) if name in names[:place])
        raise InvalidError(f"user {twice} is listed twice in one round: add up one clipped update for each user")
    return names


class Record:
    """Rounds and participations in a database: a file, or memory if there is no path.

    A round is committed before its noise is drawn, and completed before its weights are returned. A transaction is on
    the disk, or leaves no trace, also if the power fails. A round that is committed again adds to its participants,
    because nothing shows which of two attempts was summed.

    The mark of a round covers its sum and the mark of the round before it, hence all sums so far: noise of running
    sums would show the difference of two courses that differ in any earlier round. So only a round that was not
    completed may be skipped: the sums of others are in weights that were released.
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

    def check(self, number: int, users: list[str], total: bytes, before: bytes, limits: tuple[int, int]) -> bytes:
        """The mark of a round with its sum. `before` is the mark of the round before it; `limits` are the
        participations and the separation of the plan.

        Raises InvalidError for a user that the limits exclude, and StateError if the round was begun with another sum,
        or was skipped.
        """
        mark, begun = self._mark(before, b"sum", total), self._begun(number)
        if begun == self._mark(before, b"skip"):
            raise StateError(f"round {number} was skipped: pass over it with skip() again")
        if begun is not None and begun != mark:
            raise StateError(
                f"round {number} was begun with another sum: with the same noise, the two would show their exact "
                "difference. Repeat it with the same sum, or pass over it with skip() if it was not completed"
            )
        for user in users:
            self._check(number, user, limits)
        return mark

    def commit(self, number: int, users: list[str], total: bytes, before: bytes, limits: tuple[int, int]) -> bytes:
        """Checks a round as `check` does, records it with its participants, and returns the mark of its sum."""
        with self._transaction():
            mark = self.check(number, users, total, before, limits)
            self._base.execute("UPDATE rounds SET completed = 1 WHERE round < ?", (number,))
            self._base.execute("INSERT OR IGNORE INTO rounds VALUES (?, ?, 0)", (number, mark))
            rows = [(user, number) for user in users]
            self._base.executemany("INSERT OR IGNORE INTO participations VALUES (?, ?)", rows)
        return mark

    def withdraw(self, number: int) -> None:
        """Forgets that a round was begun or skipped, but not its participants."""
        with self._transaction():
            self._base.execute("DELETE FROM rounds WHERE round = ? AND NOT completed", (number,))

    def skip(self, number: int, before: bytes) -> bytes:
        """Records that a round is passed over, and returns its mark; it may have been begun.

        Raises StateError if it was completed: its weights may have been published.
        """
        mark = self._mark(before, b"skip")
        with self._transaction():
            found = self._base.execute("SELECT mark, completed FROM rounds WHERE round = ?", (number,)).fetchone()
            if found is None:
                self._base.execute("INSERT INTO rounds VALUES (?, ?, 0)", (number, mark))
            elif found[0] != mark:
                if found[1]:  # as are all rounds before another that was begun
                    raise StateError(
                        f"round {number} was completed, and its weights may have been published: a run that passes "
                        "over it would show its exact sum. Repeat it with the same sum, or load the last state"
                    )
                self._base.execute("UPDATE rounds SET mark = ? WHERE round = ?", (mark, number))
            self._base.execute("UPDATE rounds SET completed = 1 WHERE round < ?", (number,))
        return mark

    def complete(self, number: int, mark: bytes) -> None:
        """Records that the weights of a round may be published.

        Raises StateError if the record does not have this round with this mark: then nothing may be published.
        """
        if number == 0:
            return
        with self._transaction():
            if self._begun(number) != mark:
                raise StateError(
                    f"the record of participations does not have round {number} as it was summed here: the state is of "
                    "another course of this run"
                )
            self._base.execute("UPDATE rounds SET completed = 1 WHERE round <= ?", (number,))

    def is_begun(self, number: int) -> bool:
        """Whether a round was begun or skipped."""
        return self._begun(number) is not None

    def _begun(self, number: int) -> bytes | None:
        found = self._base.execute("SELECT mark FROM rounds WHERE round = ?", (number,)).fetchone()
        return None if found is None else bytes(found[0])

    def _mark(self, before: bytes, kind: bytes, total: bytes = b"") -> bytes:
        return hashlib.blake2b(before + total, key=self._salt, digest_size=32, person=kind).digest()

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
