"""Users with many examples: the examples of each, in one order for all frameworks."""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import evertally

from .._ids import id_text

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["Users"]


class Users:
    """The examples of each user, for runs whose privacy unit is a user with all examples.

    ``users`` has the user of each example, a text or a whole number; 5 and "5" are the same. The first
    ``examples_per_user`` examples of a user are used. Plan for ``len(users)`` users, and sample batches of them.

    Users are numbered in the order of a hash of their names, so another user moves the number of a user by at most
    one. With ``population``, the number of users in all, ``users`` are their numbers, from 0: nobody's number moves,
    and a user may have no examples. Batches in a fixed order, cyclic Poisson sampling and per-epoch random allocation
    need it if a user may be added or removed.

    Raises :class:`InvalidError` for a missing user, such as ``None`` or NaN, and for a user of another type.

    >>> import evertally as et
    >>> users = et.training.Users(["ann", "bob", "ann", "ann"], examples_per_user=2)
    >>> len(users), sorted(users.numbers(user) for user in range(2))
    (2, [[0, 2], [1]])
    """

    def __init__(self, users: Iterable[Hashable], *, examples_per_user: int, population: int | None = None) -> None:
        most = operator.index(examples_per_user)
        if most < 1:
            raise evertally.InvalidError(
                f"examples_per_user is {most}: give the maximum number of examples of a user, at least 1"
            )
        found: dict[str, list[int]] = {}
        #: The number of examples, of all users.
        self.examples = 0
        for number, user in enumerate(users):
            self.examples += 1
            own = found.setdefault(_name(user, number), [])
            if len(own) < most:
                own.append(number)
        #: The largest number of examples of a user that is used.
        self.examples_per_user = most
        self._found = found
        #: The names by the users' numbers.
        self._names: list[str] | _Numbers
        self._names = sorted(found, key=_hash) if population is None else _Numbers(found, population)

    @classmethod
    def of(
        cls, users: Iterable[Hashable] | None, examples: int, examples_per_user: int | None, population: int | None
    ) -> Users | None:
        """The users of a data set, from the arguments of `make_private`; None without users."""
        if population is not None and users is None:
            raise evertally.InvalidError(
                "population is the number of users: give users, the number of the user of each example"
            )
        if (users is None) != (examples_per_user is None):
            raise evertally.InvalidError(
                "give users and examples_per_user together: the maximum number of examples of a user"
            )
        if users is None or examples_per_user is None:
            return None
        made = cls(users, examples_per_user=examples_per_user, population=population)
        if made.examples != examples:
            raise evertally.InvalidError(
                f"users has {made.examples} entries for {examples} examples: give the user of each example"
            )
        return made

    def numbers(self, user: int) -> list[int]:
        """The numbers of the examples of a user that are used."""
        if not 0 <= user < len(self):
            raise evertally.InvalidError(f"user {user} is not one of {len(self)} users, which are numbered from 0")
        return list(self._found.get(self._names[user], []))

    def batch(
        self, users: Sequence[int] | npt.NDArray[Any], size: int | None = None
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """The numbers of the examples of some users, and which of them count: two arrays with a row for each user and
        ``examples_per_user`` columns. With ``size`` there are as many rows, the last ones without a user.

        The first example of a user fills up its row: a loss has a gradient there, which it need not have at zeros.
        Rows without examples have example 0, which does not count.

        >>> import evertally as et
        >>> users = et.training.Users([1, 0, 1, 1], examples_per_user=3, population=3)
        >>> numbers, real = users.batch([0, 1], size=3)
        >>> numbers.tolist()
        [[1, 1, 1], [0, 2, 3], [0, 0, 0]]
        >>> real.sum(axis=1).tolist()
        [1, 3, 0]
        """
        import numpy as np

        size = len(users) if size is None else size
        if len(users) > size:
            raise evertally.InvalidError(f"there are {len(users)} users for {size} rows: give a larger size")
        numbers = np.zeros((size, self.examples_per_user), np.int64)
        real = np.zeros(numbers.shape, np.bool_)
        for row, user in enumerate(users):
            own = self.numbers(int(user))
            if own:
                numbers[row] = own[0]
                numbers[row, : len(own)] = own
                real[row, : len(own)] = True
        return numbers, real

    def __len__(self) -> int:
        """The number of users."""
        return len(self._names)

    def __repr__(self) -> str:
        return f"Users({len(self)} users of {self.examples} examples)"


Users.__module__ = "evertally"


class _Numbers:
    """The names of a population: the numbers of its users, as texts."""

    def __init__(self, found: Iterable[str], population: int) -> None:
        self._count = operator.index(population)
        if not 1 <= self._count <= MOST:
            raise evertally.InvalidError(
                f"population is {population}: give the number of users, at least 1 and at most {MOST}"
            )
        others = [name for name in found if not self._is_number(name)]
        if others:
            raise evertally.InvalidError(
                f"with population={population}, users are whole numbers from 0 to {population - 1}, got {min(others)}"
            )

    def _is_number(self, name: str) -> bool:
        is_short = len(name) < 20 and name.isascii() and name.isdigit()
        return is_short and int(name) < self._count and str(int(name)) == name

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, user: int) -> str:
        return str(user)


#: The largest population.
MOST = 2**62


def _name(user: Any, row: int) -> str:
    """The name of the user of a row."""
    user = user.item() if hasattr(user, "item") else user
    name = id_text(user)
    if name is None:
        missing = user is None or user != user
        found = "is missing" if missing else f"has the type {type(user).__name__}"
        raise evertally.InvalidError(
            f"the user of example {row} {found}: give the user of each example as a text or a whole number, and remove "
            "examples without a user"
        )
    return name


def _hash(name: str) -> bytes:
    return hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16, person=b"evertally users").digest()
