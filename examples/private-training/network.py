"""Trains a small network privately under the same guarantee: with Opacus, with independent noise, and with the best
noise that `plan_training` finds.

    python network.py

README.md describes the comparison and the picture.
"""

from __future__ import annotations

import argparse
import csv
import functools
import itertools
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import evertally as et
import torch
from evertally.torch import make_private
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

try:
    import opacus
except ImportError:
    opacus = None  # its rows in network.csv are kept

HERE = Path(__file__).parent
DELTA = 1e-5
EPSILONS = (1.0, 2.0, 4.0, 8.0)
NORM = 1.0
TRAINING = 1440  # of 1797 pictures; the others measure the accuracy
BATCH = 120
EPOCHS = 10
STEPS = EPOCHS * TRAINING // BATCH
METHODS = {
    "opacus": "Opacus (DP-SGD)",
    "independent": "evertally, independent noise (DP-SGD)",
    "planned": "evertally, least maximal error",
    "planned-mean": "evertally, least mean error",
}
PLANNED = {"planned": "max", "planned-mean": "mean"}  # the objective of plan_training
# Okabe and Ito's colours, which colour-blind readers can distinguish; the markers differ for prints in grey.
STYLES = {
    "opacus": ("#0072B2", "o"),
    "independent": ("#000000", "s"),
    "planned": ("#D55E00", "v"),
    "planned-mean": ("#009E73", "D"),
}
SEEDS = 10
LOSS = nn.functional.cross_entropy


@dataclass(frozen=True)
class Descent:
    """Gradient descent with momentum, whose final step size is that of `rate` without it: `rate` is divided."""

    rate: float
    momentum: float

    def over(self, network: nn.Module) -> torch.optim.SGD:
        return torch.optim.SGD(network.parameters(), lr=self.rate * (1 - self.momentum), momentum=self.momentum)


# Chosen by accuracies with other seeds, `--tune`: momentum per method, and rates per ε for all methods. See README.md.
GRID = [Descent(rate, momentum) for momentum in (0.0, 0.9) for rate in (0.5, 1.0, 2.0, 4.0)]
TUNING_SEEDS = range(1000, 1004)
RATES = {1.0: 1.0, 2.0: 2.0, 4.0: 2.0, 8.0: 4.0}
MOMENTA = {"opacus": 0.0, "independent": 0.0, "planned": 0.9, "planned-mean": 0.9}
WITHOUT = Descent(2.0, 0.9)


def chosen(method: str, epsilon: float) -> Descent:
    return WITHOUT if method == "none" else Descent(RATES[epsilon], MOMENTA[method])


@dataclass(frozen=True)
class Split:
    training: TensorDataset
    inputs: torch.Tensor
    targets: torch.Tensor


@functools.cache
def split(seed: int) -> Split:
    """The pictures in an order that depends on the seed."""
    pixels, classes = load_digits(return_X_y=True)
    inputs, targets = torch.tensor(pixels / 16, dtype=torch.float32), torch.tensor(classes)
    order = torch.randperm(len(inputs), generator=torch.Generator().manual_seed(seed))
    train, test = order[:TRAINING], order[TRAINING:]
    return Split(TensorDataset(inputs[train], targets[train]), inputs[test], targets[test])


def network() -> nn.Module:
    """2,410 weights."""
    return nn.Sequential(nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 10))


@functools.cache
def best(method: str, epsilon: float) -> et.training.TrainingOption:
    """The best training option within the memory limit."""
    return et.training.plan_training(
        TRAINING,
        BATCH,
        EPOCHS,
        norm=NORM,
        epsilon=epsilon,
        delta=DELTA,
        objective=PLANNED[method],
        max_memory=500,
    ).best


@functools.cache
def plan_for(method: str, epsilon: float) -> et.training.VectorPlan:
    if method in PLANNED:
        return best(method, epsilon).plan
    return et.training.plan_vector(
        STEPS,
        norm=NORM,
        epsilon=epsilon,
        delta=DELTA,
        mechanism="input",
        series="increments",
        sampling="poisson",
        sampled_fraction=BATCH / TRAINING,
    )


def train_ours(model: nn.Module, data: Split, descent: Descent, method: str, epsilon: float, seed: int) -> None:
    plan = plan_for(method, epsilon)
    # A key from a seed makes the experiment reproducible, and protects nobody. These pictures are public.
    key = et.SecretKey.insecure_from_test_seed(et.TestSeed(seed))
    name = f"{method}, {epsilon}, {descent.rate}, {descent.momentum}"
    fixed = {} if plan.sampling is not None else {"batch_size": BATCH}
    run = make_private(model, LOSS, descent.over(model), data.training, plan, key, name, **fixed)
    for batch in run.loader:
        run.step(*batch)


@functools.cache
def opacus_multiplier(epsilon: float) -> float:
    """The noise multiplier, which `make_private_with_epsilon` would search again in every call."""
    from opacus.accountants.utils import get_noise_multiplier

    return get_noise_multiplier(
        target_epsilon=epsilon, target_delta=DELTA, sample_rate=BATCH / TRAINING, epochs=EPOCHS, accountant="prv"
    )


def train_opacus(model: nn.Module, data: Split, descent: Descent, epsilon: float) -> None:
    private, optimizer, loader = opacus.PrivacyEngine(accountant="prv").make_private(
        module=model,
        optimizer=descent.over(model),
        data_loader=DataLoader(data.training, batch_size=BATCH),
        noise_multiplier=opacus_multiplier(epsilon),
        max_grad_norm=NORM,
        poisson_sampling=True,
    )
    train_plainly(private, optimizer, loader)


def train_plainly(model: nn.Module, optimizer: torch.optim.Optimizer, loader: DataLoader) -> None:
    for _ in range(EPOCHS):
        for inputs, targets in loader:
            optimizer.zero_grad()
            LOSS(model(inputs), targets).backward()
            optimizer.step()


def accuracy(method: str, epsilon: float, descent: Descent, seed: int) -> float:
    """Test accuracy after the last step. Split and initial weights are the same for all methods."""
    data = split(seed)
    torch.manual_seed(seed)
    model = network()
    if method == "none":
        loader = DataLoader(data.training, batch_size=BATCH, shuffle=True)
        train_plainly(model, descent.over(model), loader)
    elif method == "opacus":
        train_opacus(model, data, descent, epsilon)
    else:
        train_ours(model, data, descent, method, epsilon, seed)
    with torch.no_grad():
        return float((model(data.inputs).argmax(dim=1) == data.targets).float().mean())


def way_of(method: str, epsilon: float) -> str:
    if method in PLANNED:
        return best(method, epsilon).description
    return "" if method == "none" else "Poisson sampling, independent noise (DP-SGD)"


def multiplier(method: str, epsilon: float) -> float | str:
    """Standard deviation of the noise of a step before correlation, divided by the norm."""
    if method == "none":
        return ""
    return round(opacus_multiplier(epsilon) if method == "opacus" else plan_for(method, epsilon).sigma / NORM, 4)


def experiment(seeds: int) -> Iterator[dict]:
    """One row for each method and ε; the row without privacy has an empty ε."""
    cases = [("none", 0.0), *itertools.product(METHODS, EPSILONS)]
    for method, epsilon in cases:
        if method == "opacus" and opacus is None:
            continue
        found = [accuracy(method, epsilon, chosen(method, epsilon), seed) for seed in range(seeds)]
        yield {
            "method": method,
            "epsilon": epsilon or "",
            "median": round(statistics.median(found), 4),
            "lowest": round(min(found), 4),
            "highest": round(max(found), 4),
            "seeds": seeds,
            "multiplier": multiplier(method, epsilon),
            "way": way_of(method, epsilon),
        }


def read(path: Path) -> list[dict]:
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        row["epsilon"] = float(row["epsilon"]) if row["epsilon"] else ""
        row["seeds"] = int(row["seeds"])
        row |= {name: float(row[name]) for name in ("median", "lowest", "highest")}
    return rows


def table(rows: list[dict]) -> str:
    """Markdown: median, with lowest and highest."""
    found = {(row["method"], row["epsilon"]): row for row in rows}
    lines = ["| method \\ ε | " + " | ".join(f"{epsilon:g}" for epsilon in EPSILONS) + " |"]
    lines.append("|---" * (len(EPSILONS) + 1) + "|")
    for method, label in METHODS.items():
        if (method, EPSILONS[0]) in found:
            mine = [found[method, epsilon] for epsilon in EPSILONS]
            cells = " | ".join(f"{row['median']:.3f} ({row['lowest']:.3f}–{row['highest']:.3f})" for row in mine)
            lines.append(f"| {label} | {cells} |")
    row = found["none", ""]
    lines.append(f"\nwithout privacy {row['median']:.3f} ({row['lowest']:.3f}–{row['highest']:.3f})\n")
    for method, epsilon in itertools.product(PLANNED, EPSILONS):
        lines.append(f"{METHODS[method]}, ε = {epsilon:g}: {found[method, epsilon]['way']}")
    return "\n".join(lines)


def draw(rows: list[dict], folder: Path) -> None:
    """Medians with lowest and highest; writes network.svg and network.png."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update(
        {"svg.hashsalt": "evertally", "font.size": 10, "axes.spines.top": False, "axes.spines.right": False}
    )
    figure, panel = plt.subplots(figsize=(7.2, 4.4), layout="constrained")
    without = next(row["median"] for row in rows if row["method"] == "none")
    panel.axhline(without, color="0.5", linestyle=":", linewidth=1)
    note = {"xytext": (0, 3), "textcoords": "offset points", "color": "0.35", "fontsize": 9}
    panel.annotate("without privacy", (EPSILONS[0], without), **note)
    shown = [method for method in METHODS if any(row["method"] == method for row in rows)]
    for place, method in enumerate(shown):
        color, marker = STYLES[method]
        mine = [row for row in rows if row["method"] == method]
        # Next to each other, so that no bar hides another.
        across = [epsilon * 1.045 ** (place - (len(shown) - 1) / 2) for epsilon in EPSILONS]
        medians = [row["median"] for row in mine]
        below = [row["median"] - row["lowest"] for row in mine]
        above = [row["highest"] - row["median"] for row in mine]
        look = {"color": color, "marker": marker, "markersize": 6, "linewidth": 1.2, "elinewidth": 1.2}
        panel.errorbar(across, medians, yerr=[below, above], label=METHODS[method], capsize=2, **look)
    panel.set_xscale("log", base=2)
    panel.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
    panel.set_xlabel("ε (δ = 10⁻⁵)")
    panel.set_ylabel("test accuracy")
    panel.grid(axis="y", color="0.92")
    panel.set_axisbelow(True)
    panel.legend(loc="lower right", frameon=False)
    figure.savefig(folder / "network.svg", metadata={"Date": None})
    figure.savefig(folder / "network.png", dpi=160, metadata={"Software": None})


def tune() -> None:
    """Prints the mean accuracy for each rate and momentum: one column per ε."""
    for method, descent in itertools.product((*METHODS, "none"), GRID):
        if method == "opacus" and opacus is None:
            continue
        epsilons = (0.0,) if method == "none" else EPSILONS
        means = [statistics.mean(accuracy(method, e, descent, seed) for seed in TUNING_SEEDS) for e in epsilons]
        cells = " ".join(f"{mean:.3f}" for mean in means)
        print(f"{method:12}  rate {descent.rate:3}  momentum {descent.momentum}  {cells}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Private training of a network, compared with Opacus.")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="repetitions, each with its own split and noise")
    parser.add_argument("--out", type=Path, default=HERE, help="folder for network.csv, network.svg and network.png")
    parser.add_argument("--tune", action="store_true", help="compare learning rates with other seeds instead")
    args = parser.parse_args()
    if args.tune:
        return tune()
    rows = list(experiment(args.seeds))
    if opacus is None:
        print("Opacus is missing (pip install opacus): its rows are copied from the network.csv next to this script")
        rows += [row for row in read(HERE / "network.csv") if row["method"] == "opacus"]
    args.out.mkdir(parents=True, exist_ok=True)
    with open(args.out / "network.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    print(table(rows))
    draw(rows, args.out)


if __name__ == "__main__":
    main()
