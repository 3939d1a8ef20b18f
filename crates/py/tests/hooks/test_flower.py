"""The strategy of Flower: updates, limits of users, replies that do not count, and resumption."""

from __future__ import annotations

from pathlib import Path

import evertally as et
import numpy as np
import pytest
from evertally.training import federated

pytest.importorskip("flwr")

from evertally.flower import PrivateFedAvg, ask_users  # noqa: E402
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, MetricRecord, RecordDict  # noqa: E402
from flwr.supercore.task_identity import TaskIdentity  # noqa: E402

KEY = et.SecretKey.insecure_from_test_seed(et.TestSeed(4))


class LocalGrid:
    """Nodes in this process: a reply is a function of a message."""

    def __init__(self, nodes, client):
        self.nodes, self.client, self.sent = list(nodes), client, []

    def get_node_ids(self):
        return self.nodes

    def send_and_receive(self, messages, *, timeout=None):
        messages = list(messages)
        self.sent.append([message.metadata.dst_node_id for message in messages])
        replies = []
        for message in messages:
            replies.append(self.client(message))
        return replies


@pytest.fixture(autouse=True)
def task(monkeypatch):
    """The task in which Flower makes messages."""
    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


def adds(amount):
    """A client that adds a number to all weights, and reports a metric."""

    def client(message):
        if message.metadata.message_type == "query":
            user = ConfigRecord({"id": f"user {message.metadata.dst_node_id % 10}"})
            return Message(RecordDict({"user": user}), reply_to=message)
        arrays = message.content["arrays"]
        assert message.content["config"].get("clipping_norm", 0.5) == 0.5
        moved = ArrayRecord({key: Array(array.numpy() + amount) for key, array in arrays.items()})
        return Message(RecordDict({"arrays": moved, "metrics": MetricRecord({"loss": 1.0})}), reply_to=message)

    return client


def initial():
    return ArrayRecord({"a": Array(np.zeros((2, 2), np.float32)), "b": Array(np.ones(3, np.float32))})


def plan_of(**more):
    asked = {"population": 9, "cohort": 3, "rho": 0.5, "norm": 0.5, "momentum": 0.5}
    asked |= more
    return federated.plan_rounds(asked.pop("rounds", 6), **asked)


def numbers(result):
    return np.concatenate([array.numpy().ravel() for array in result.arrays.values()])


def run_twice(plan, name):
    """A run of the strategy, and one of the server with the same updates."""
    grid = LocalGrid(range(1, 10), adds(0.2))
    strategy = PrivateFedAvg(plan, KEY, name)
    result = strategy.start(grid, initial())
    server = federated.Server(plan, KEY, name, [np.zeros((2, 2), np.float32), np.ones(3, np.float32)])
    for sent in (each for each in grid.sent if each):
        before = server.weights
        server.step_updates({node: [(part + 0.2) - part for part in before] for node in sent})
    return grid, strategy, result, server


def test_a_run_is_that_of_the_server():
    plan = plan_of()
    grid, strategy, result, server = run_twice(plan, "run")
    expected = np.concatenate([part.ravel() for part in server.weights])
    assert np.allclose(numbers(result), expected, atol=1e-6)
    assert result.train_metrics_clientapp == {} and result.evaluate_metrics_clientapp == {}
    rounds = [each for each in grid.sent if each]
    assert len(rounds) == 6
    for node in range(1, 10):
        mine = [number for number, sent in enumerate(rounds) if node in sent]
        assert len(mine) <= plan.participations and all(b - a >= 3 for a, b in zip(mine, mine[1:]))


def test_with_an_adaptive_norm_it_is_that_of_the_server_too():
    plan = plan_of(adaptive_clipping=federated.AdaptiveClipping(initial=0.3))
    _, strategy, result, server = run_twice(plan, "adaptive")
    expected = np.concatenate([part.ravel() for part in server.weights])
    assert np.allclose(numbers(result), expected, atol=1e-5) and server.threshold == strategy.server.threshold != 0.3


def test_clients_get_the_norm_only_if_it_is_fixed():
    for adaptive, expected in ((None, 0.5), (federated.AdaptiveClipping(), None)):
        seen = []

        def client(message):
            seen.append(message.content["config"].get("clipping_norm"))
            return adds(0.1)(message)

        strategy = PrivateFedAvg(plan_of(adaptive_clipping=adaptive), KEY, f"norm {expected}")
        strategy.start(LocalGrid(range(1, 10), client), initial(), num_rounds=1)
        assert seen == [expected] * 3


def test_long_and_broken_updates_are_clipped_or_do_not_count(monkeypatch):
    def client(message):
        node = message.metadata.dst_node_id
        if node == 1:
            return Message(Error(code=0, reason="broken"), reply_to=message)
        if node == 2:
            return Message(RecordDict({"arrays": ArrayRecord({"a": Array(np.zeros((2, 2)))})}), reply_to=message)
        if node == 3:
            return adds(np.float32(np.nan))(message)
        return adds(1e6)(message)

    plan = plan_of(population=12, cohort=12, participations=2, separation=1, mechanism="input", rounds=2)
    strategy = PrivateFedAvg(plan, KEY, "long", min_available_nodes=4)
    seen = []
    strategy._open(initial())
    release = strategy.server._lane.release

    def watched(total, users, again):
        seen.append((total, users))
        return release(total, users, again)

    monkeypatch.setattr(strategy.server._lane, "release", watched)
    strategy.start(LocalGrid(range(1, 5), client), initial(), num_rounds=1)
    total, users = seen[0]
    assert users == 2 and np.linalg.norm(total) == pytest.approx(0.5, rel=1e-6)
    assert [len(strategy.server._record.rounds_of(node)) for node in "1234"] == [0, 0, 1, 1]


def test_users_are_asked_and_one_of_several_nodes_takes_part():
    grid = LocalGrid([*range(1, 10), 11, 12], adds(0.1))
    strategy = PrivateFedAvg(plan_of(), KEY, "asked", users=ask_users)
    strategy.start(grid, initial())
    assert grid.sent[0] == [*range(1, 10), 11, 12]
    assert not {11, 12} & {node for sent in grid.sent[1:] for node in sent}


@pytest.mark.parametrize("stop", [1, 3, 5])
def test_a_run_resumes_bit_for_bit(tmp_path: Path, stop):
    plan = plan_of()
    whole = PrivateFedAvg(plan, KEY, "resumed").start(LocalGrid(range(1, 10), adds(0.1)), initial())
    first = PrivateFedAvg(plan, KEY, "resumed", folder=tmp_path)
    first.start(LocalGrid(range(1, 10), adds(0.1)), initial(), num_rounds=stop)
    second = PrivateFedAvg(plan, KEY, "resumed", folder=tmp_path)
    result = second.start(LocalGrid(range(1, 10), adds(0.1)), initial())
    assert (numbers(result) == numbers(whole)).all()
    assert second.server.round == 6
    with pytest.raises(et.HorizonExhausted, match="a longer run needs a new plan"):
        second.start(LocalGrid(range(1, 10), adds(0.1)), initial(), num_rounds=1)


def test_plans_for_secure_aggregation_are_refused():
    with pytest.raises(et.InvalidError, match="secure aggregation"):
        PrivateFedAvg(plan_of(bits=16), KEY, "bits")
