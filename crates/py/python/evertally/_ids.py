"""Names of users."""

import operator
from typing import Any


def id_text(user: Any) -> str | None:
    """A user as text: 5 and "5" are the same user. None if it is neither a text nor a whole number."""
    if isinstance(user, str):
        return user
    if isinstance(user, bool) or not hasattr(user, "__index__"):
        return None
    return str(operator.index(user))
