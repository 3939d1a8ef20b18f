"""The users of Flower's nodes."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable

import evertally
from evertally.training.federated._record import User, names_of
from flwr.app import Message, MessageType, RecordDict
from flwr.serverapp import Grid

logger = logging.getLogger("evertally.flower")

#: Seconds between two looks at the connected nodes.
_PAUSE = 1.0


def ask_users(grid: Grid, nodes: Iterable[int], timeout: float = 600.0) -> dict[int, User]:
    """Asks nodes for their users, by a message of type "query". A node answers with a ``ConfigRecord`` "user" that has
    the "id" of its user, a text or a whole number. Nodes that do not answer, or with an error, take no part.

        @app.query()
        def query(message, context):
            user = ConfigRecord({"id": context.node_config["partition-id"]})
            return Message(content=RecordDict({"user": user}), reply_to=message)

    Nodes of a simulation have new numbers in each run, so that a run that is resumed needs this, or another function
    that names users. A node that names another's user can only exclude it: it takes part once for both.
    """
    messages = [Message(RecordDict(), dst_node_id=node, message_type=MessageType.QUERY) for node in nodes]
    found: dict[int, User] = {}
    for reply in grid.send_and_receive(messages, timeout=timeout):
        node = reply.metadata.src_node_id
        user = None if reply.has_error() else _user_of(reply)
        if user is None:
            logger.warning("node %d names no user, and takes no part", node)
        else:
            found[node] = user
    return found


def _user_of(reply: Message) -> User | None:
    record = reply.content.config_records.get("user")
    user = record.get("id") if record is not None else None
    return user if isinstance(user, (int, str)) and not isinstance(user, bool) else None


def connected(grid: Grid, least: int) -> list[int]:
    """The connected nodes, in order; waits until there are `least`."""
    while len(nodes := sorted(grid.get_node_ids())) < least:
        logger.info("waiting for nodes: %d of %d are connected", len(nodes), least)
        time.sleep(_PAUSE)
    return nodes


def one_each(users: dict[int, User], nodes: Iterable[int]) -> dict[User, int]:
    """One node for each user, the first of several."""
    names: set[str] = set()
    found: dict[User, int] = {}
    for node in nodes:
        if node not in users:
            continue
        (name,) = names_of([users[node]])
        if name not in names:
            names.add(name)
            found[users[node]] = node
    if not found:
        raise evertally.InvalidError("none of the connected nodes names a user: see evertally.flower.ask_users")
    return found
