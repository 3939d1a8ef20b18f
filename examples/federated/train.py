"""Federated learning on handwritten digits with Flower: noise correlated over rounds, compared with independent noise.

    python3 train.py [--seeds 5] [--simulation]

Needs flwr, scikit-learn and matplotlib. Writes accuracy.csv, accuracy.svg and accuracy.png next to this file. The nodes
run in this process, through Flower's classes; with --simulation one run is repeated in Flower's simulation, which needs
ray, and must give the same weights.
"""

import argparse
import csv
import logging
from pathlib import Path

import evertally as et
import numpy as np
from evertally.flower import PrivateFedAvg, ask_users
from evertally.training import federated
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from sklearn.datasets import load_digits

HERE = Path(__file__).resolve().parent
USERS, COHORT, ROUNDS, DELTA = 500, 50, 100, 1e-3
NORM, MOMENTUM, LOCAL_RATE, LOCAL_STEPS = 0.3, 0.9, 0.5, 5
#: The noise, and the clipping norm: fixed, or adaptive from ten times that norm.
METHODS = {"blt": ("blt", None), "adaptive": ("blt", 10 * NORM), "input": ("input", None)}
#: The server's learning rate for each method and ε: the best of 0.05, 0.1, 0.2, 0.4, 0.8 over the first two seeds.
RATES = {
    ("blt", 2.0): 0.2, ("adaptive", 2.0): 0.1, ("input", 2.0): 0.2,
    ("blt", 8.0): 0.8, ("adaptive", 8.0): 0.4, ("input", 8.0): 0.8,
}  # fmt: skip
LABELS = {
    "blt": "correlated noise (BLT)", "adaptive": "correlated noise, adaptive norm", "input": "independent noise",
}  # fmt: skip
Examples = tuple[np.ndarray, np.ndarray]


def data(seed: int) -> tuple[list[Examples], Examples]:
    """The examples of each user, three of at most two digits each, and test examples that are public here."""
    digits = load_digits()
    features = np.hstack([digits.data / 16, np.ones((len(digits.data), 1))])  # a fixed scale, and a constant
    order = np.random.default_rng(seed).permutation(len(features))
    features, labels = features[order], digits.target[order]
    train, test = (features[: 3 * USERS], labels[: 3 * USERS]), (features[3 * USERS :], labels[3 * USERS :])
    by_label = np.argsort(train[1], kind="stable").reshape(USERS, 3)
    return [(train[0][own], train[1][own]) for own in by_label], test


def trained(weights: np.ndarray, examples: Examples) -> np.ndarray:
    """The weights after some steps of softmax regression on the examples of one user."""
    features, labels = examples
    for _ in range(LOCAL_STEPS):
        scores = np.exp(features @ weights - (features @ weights).max(axis=1, keepdims=True))
        scores /= scores.sum(axis=1, keepdims=True)
        scores[np.arange(len(labels)), labels] -= 1
        weights = weights - LOCAL_RATE * features.T @ scores / len(labels)
    return weights


def accuracy(weights: np.ndarray, test: Examples) -> float:
    return float((np.argmax(test[0] @ weights, axis=1) == test[1]).mean())


class LocalGrid:
    """Flower's grid, with all nodes in this process."""

    def __init__(self, app: ClientApp) -> None:
        self.app = app

    def get_node_ids(self) -> list[int]:
        return list(range(1, USERS + 1))

    def send_and_receive(self, messages: list[Message], *, timeout: float | None = None) -> list[Message]:
        return [self.app(message, self.context(message.metadata.dst_node_id)) for message in messages]

    def context(self, node: int) -> Context:
        own = {"partition-id": node - 1}
        return Context(run_id=1, node_id=node, node_config=own, state=RecordDict(), run_config={})


def clients(seed: int) -> ClientApp:
    """Clients that train the weights on their user's examples, and name their user."""
    app, users = ClientApp(), data(seed)[0]

    @app.train()
    def train(message: Message, context: Context) -> Message:
        weights = message.content["arrays"]["weights"].numpy()
        new = trained(weights, users[int(context.node_config["partition-id"])])
        content = {"arrays": ArrayRecord({"weights": Array(new)})}
        return Message(RecordDict(content), reply_to=message)

    @app.query()
    def query(message: Message, context: Context) -> Message:
        user = ConfigRecord({"id": int(context.node_config["partition-id"])})
        return Message(RecordDict({"user": user}), reply_to=message)

    return app


def strategy_of(method: str, epsilon: float, seed: int) -> PrivateFedAvg:
    mechanism, initial = METHODS[method]
    adaptive = None if initial is None else federated.AdaptiveClipping(quantile=0.5, initial=initial)
    plan = federated.plan_rounds(
        ROUNDS, population=USERS, cohort=COHORT, norm=NORM, epsilon=epsilon, delta=DELTA, mechanism=mechanism,
        learning_rate=RATES[method, epsilon], momentum=MOMENTUM, adaptive_clipping=adaptive,
    )  # fmt: skip
    key = et.SecretKey.insecure_from_test_seed(et.TestSeed(seed))  # the same noise again; a real run has a secret key
    return PrivateFedAvg(plan, key, f"{method} {epsilon} {seed}", users=ask_users, min_available_nodes=USERS)


def run(grid: object, method: str, epsilon: float, seed: int) -> tuple[np.ndarray, list[float]]:
    """The weights after the last round, and the accuracy after each."""
    test = data(seed)[1]
    accuracies: list[float] = []

    def evaluate(number: int, arrays: ArrayRecord) -> MetricRecord:
        accuracies.append(accuracy(arrays["weights"].numpy(), test))
        return MetricRecord({"accuracy": accuracies[-1]})

    initial = ArrayRecord({"weights": Array(np.zeros((65, 10)))})
    result = strategy_of(method, epsilon, seed).start(grid, initial, evaluate_fn=evaluate)  # type: ignore[arg-type]
    return result.arrays["weights"].numpy(), accuracies


def simulated(method: str, epsilon: float, seed: int) -> np.ndarray:
    """The weights of a run in Flower's simulation, with ray."""
    from flwr.serverapp import ServerApp
    from flwr.simulation import run_simulation

    app, found = ServerApp(), []

    @app.main()
    def main(grid: object, context: Context) -> None:
        found.append(run(grid, method, epsilon, seed)[0])

    run_simulation(app, clients(seed), USERS, backend_config={"client_resources": {"num_cpus": 1}})
    return found[0]


def picture(curves: dict[tuple[str, float], np.ndarray]) -> None:
    """A panel for each ε: mean accuracy over the seeds, with the range."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update({"svg.hashsalt": "evertally", "axes.spines.top": False, "axes.spines.right": False})
    figure, panels = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
    for panel, epsilon in zip(panels, (2.0, 8.0)):
        for method, color, line in (("blt", "#0072B2", "-"), ("adaptive", "#D55E00", "-."), ("input", "#000000", "--")):
            own = curves[method, epsilon]
            rounds = np.arange(own.shape[1])
            panel.fill_between(rounds, own.min(axis=0), own.max(axis=0), color=color, alpha=0.15, linewidth=0)
            panel.plot(rounds, own.mean(axis=0), color=color, linestyle=line, label=LABELS[method])
        panel.set_title(f"ε = {epsilon:g}")
        panel.set_xlabel("round")
        panel.set_ylim(0, 1)
        panel.grid(axis="y", color="0.92")
    panels[0].set_ylabel("test accuracy")
    panels[1].legend(loc="lower right", frameon=False)
    figure.savefig(HERE / "accuracy.svg", metadata={"Date": None})
    figure.savefig(HERE / "accuracy.png", dpi=160, metadata={"Software": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--simulation", action="store_true", help="compare one run with Flower's simulation")
    options = parser.parse_args()
    logging.getLogger("flwr").setLevel(logging.WARNING)
    if options.simulation:
        weights = simulated("blt", 8.0, 0)
        in_task()
        print("equal weights:", np.array_equal(weights, run(LocalGrid(clients(0)), "blt", 8.0, 0)[0]))
        return
    in_task()
    curves = {}
    rows = [["epsilon", "method", "rate", "seed", "accuracy"]]
    for (method, epsilon), rate in RATES.items():
        runs = [run(LocalGrid(clients(seed)), method, epsilon, seed)[1] for seed in range(options.seeds)]
        curves[method, epsilon] = np.array(runs)
        rows += [[epsilon, method, rate, seed, f"{own[-1]:.4f}"] for seed, own in enumerate(runs)]
        last = curves[method, epsilon][:, -1]
        print(f"ε = {epsilon:g}, {LABELS[method]}: {last.mean():.3f} ({last.min():.3f} to {last.max():.3f})")
    with open(HERE / "accuracy.csv", "w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)
    picture(curves)


def in_task() -> None:
    """Names the task in which Flower makes messages; a simulation or a deployment does it by itself."""
    from flwr.supercore.task_identity import TaskIdentity

    TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1


if __name__ == "__main__":
    main()
