"""Federated averaging with correlated noise, as a strategy of Flower."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import evertally
import numpy as np
from evertally.flower._users import connected, one_each
from evertally.training.federated import RoundsPlan, Server
from evertally.training.federated._record import User
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy

logger = logging.getLogger("evertally.flower")

#: What Flower's mods for clipping on clients call the norm.
_NORM = "clipping_norm"


class PrivateFedAvg(Strategy):
    """Federated averaging with user-level privacy: clipped updates, correlated noise, server momentum.

    ``plan`` is a plan of :func:`evertally.training.federated.plan_rounds`, ``key`` and ``name`` are those of the noise,
    and ``folder`` keeps the record of who took part when and the state after each round. A new process with the same
    arguments continues from it: pass the same initial arrays to :meth:`start`.

    ``users`` names the users of nodes: a function of the grid and the nodes that returns a mapping, such as
    :func:`ask_users`. By default each node is a user. A round starts when ``min_available_nodes`` are connected, by
    default as many as the plan's cohort.

    Clients get the arrays as "arrays" and a configuration "config" with the "server-round" and, if the plan's norm is
    fixed, the "clipping_norm". With ``adaptive_clipping`` in the plan clients must not clip, because the server counts
    the updates within the threshold. They return their arrays under the same keys. A reply that is an error, or that
    has other arrays, does not count as a participation.
    """

    def __init__(
        self,
        plan: RoundsPlan,
        key: evertally.SecretKey,
        name: str,
        *,
        folder: str | os.PathLike[str] | None = None,
        users: Callable[[Grid, list[int]], Mapping[int, User]] | None = None,
        min_available_nodes: int | None = None,
        threads: int = 1,
    ) -> None:
        if plan.bits is not None:
            raise evertally.InvalidError(
                "the plan is for secure aggregation, which hides single updates from a strategy: plan without bits, or "
                "use evertally.training.federated.Server with the sums"
            )
        self.plan, self.name = plan, name
        self._key, self._folder, self._threads = key, folder, threads
        self._name_users = users
        self._least = plan.cohort if min_available_nodes is None else min_available_nodes
        self._server: Server | None = None
        self._keys: list[str] = []
        self._users: dict[int, User] = {}
        self._asked: dict[int, User] = {}

    @property
    def server(self) -> Server:
        """The server of the run, after :meth:`start`."""
        if self._server is None:
            raise evertally.InvalidError("the run has not started: there is no server yet")
        return self._server

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int | None = None,
        timeout: float = 3600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None] | None = None,
    ) -> Result:
        """Runs ``num_rounds`` rounds, by default all that the plan has left, and returns Flower's result. A resumed run
        continues with the arrays of its state. Its rounds are numbered from 1 again in the result and in
        ``evaluate_fn``; the "server-round" of clients is that of the plan.
        """
        self._open(initial_arrays)
        left = self.plan.horizon - self.server.round
        if num_rounds is None and self.plan.rounds is None:
            raise evertally.InvalidError("num_rounds is missing: the plan has no last round")
        rounds = left if num_rounds is None else num_rounds
        if rounds > left:
            raise evertally.HorizonExhausted(
                f"{rounds} rounds are more than the {left} that the plan has left: a longer run needs a new plan"
            )
        return super().start(
            grid, self._arrays(), rounds, timeout, train_config, evaluate_config, evaluate_fn
        )  # fmt: skip

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Samples a cohort of users that may take part, and sends them the arrays."""
        self._open(arrays)
        nodes = connected(grid, self._least)
        new = [node for node in nodes if node not in self._users]
        self._users |= {node: str(node) for node in new} if self._name_users is None else self._name_users(grid, new)
        node_of = one_each(self._users, nodes)
        cohort = self.server.sample(node_of)
        self._asked = {node_of[user]: user for user in cohort}
        logger.info("round %d: %d of %d users", self.server.round + 1, len(cohort), len(node_of))
        own = ConfigRecord(dict(config) | {"server-round": self.server.round + 1})
        if self.plan.adaptive_clipping is None:
            own[_NORM] = self.plan.norm
        record = RecordDict({"arrays": self._arrays(), "config": own})
        return [Message(record, dst_node_id=node, message_type=MessageType.TRAIN) for node in self._asked]

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Clips and sums the updates, and takes the server's step. There are no metrics: they are not covered by the
        guarantee."""
        before = self.server.weights
        updates: dict[User, Any] = {}
        for reply in replies:
            node = reply.metadata.src_node_id
            update = self._update(reply, before)
            if node not in self._asked or update is None:
                logger.warning("the reply of node %d does not count: it is an error or has other arrays", node)
            else:
                updates[self._asked.pop(node)] = update  # the first reply only
        self._asked = {}
        self.server.step_updates(updates)
        return self._arrays(), None

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """No messages: metrics of clients are not covered by the guarantee."""
        return []

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """No metrics."""
        return None

    def summary(self) -> None:
        """Logs the plan."""
        plan = self.plan
        logger.info(
            "cohorts of %d of %d users, at most %d rounds each, at least %d apart; norm %g; noise %s",
            plan.cohort, plan.population, plan.participations, plan.separation, plan.norm, plan.noise.mechanism,
        )  # fmt: skip

    def _open(self, arrays: ArrayRecord) -> None:
        if self._server is None:
            self._keys = list(arrays.keys())
            weights = [array.numpy() for array in arrays.values()]
            self._server = Server(
                self.plan, self._key, self.name, weights, folder=self._folder, threads=self._threads
            )  # fmt: skip

    def _arrays(self) -> ArrayRecord:
        return ArrayRecord({key: Array(part) for key, part in zip(self._keys, self.server.weights, strict=True)})

    def _update(self, reply: Message, before: list[Any]) -> list[Any] | None:
        """What a client added to the weights, or None if its reply does not have arrays of their shapes."""
        if reply.has_error() or len(reply.content.array_records) != 1:
            return None
        record = next(iter(reply.content.array_records.values()))
        if set(record.keys()) != set(self._keys):
            return None
        parts = [record[key].numpy() for key in self._keys]
        pairs = list(zip(parts, before, strict=True))
        if any(part.shape != own.shape or part.dtype.kind not in "fiu" for part, own in pairs):
            return None
        return [part.astype(np.float64) - own for part, own in pairs]
