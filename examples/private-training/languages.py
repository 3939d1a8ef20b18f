"""Trains a text classifier with an embedding table privately: it recognizes the language of a short message.

    python languages.py

README.md describes the comparison and the picture.
"""

from __future__ import annotations

import argparse
import csv
import functools
import importlib.util
import re
import statistics
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import evertally as et
import numpy as np

HERE = Path(__file__).parent
DELTA = 1e-5
EPSILONS = (1.0, 2.0, 4.0, 8.0)
NORM = 1.0
ROWS, WIDTH = 1 << 14, 16  # hashed letter trigrams; coordinates per row
BATCH = 1024
EPOCHS = 20
SEEDS = 3
METHODS = {
    "independent": "independent noise, sampled (DP-SGD)",
    "planned": "bands, sampled",
    "fixed": "bands or BLT, fixed order",
}
# Okabe and Ito's colours, which colour-blind readers can distinguish; the markers differ for prints in grey.
STYLES = {"independent": ("#000000", "s"), "planned": ("#D55E00", "v"), "fixed": ("#0072B2", "o")}
LANGUAGES = "az cs da de dsb es et fi fr ga gd gl hsb hu id it lt lv nl pl pt_BR ro sk sl sq sv tr".split()
# Learning rates of table and layer, times the batch, by ε: the best of RATES for both sampling methods with seed 100
# (--tune).
RATES = ((10.0, 8.0), (30.0, 16.0), (100.0, 16.0), (100.0, 32.0))
CHOSEN = {1.0: 0, 2.0: 1, 4.0: 1, 8.0: 1}
STRING = r'"((?:[^"\\]|\\.)*)"'


@dataclass(frozen=True)
class Texts:
    """Trigrams of all messages, one message after the other, with the share of each in its message."""

    rows: np.ndarray
    weights: np.ndarray
    starts: np.ndarray  # of each message, and the end
    languages: np.ndarray

    def __len__(self) -> int:
        return len(self.languages)

    def of(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rows and weights of some messages, and the start of each message."""
        lengths = self.starts[numbers + 1] - self.starts[numbers]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        places = np.arange(starts[-1]) + np.repeat(self.starts[numbers] - starts[:-1], lengths)
        return self.rows[places], self.weights[places], starts[:-1]


def messages() -> Iterator[tuple[str, int]]:
    """The messages of Django in each language, without placeholders."""
    spec = importlib.util.find_spec("django")
    if spec is None or spec.submodule_search_locations is None:
        raise SystemExit("the messages come from a package: pip install django")
    folder = Path(spec.submodule_search_locations[0])
    for number, language in enumerate(LANGUAGES):
        found = set()
        for path in sorted(folder.glob(f"**/locale/{language}/LC_MESSAGES/django.po")):
            for match in re.finditer(rf"^msgstr(?:\[\d\])? ((?:{STRING}\n?)+)", path.read_text("utf-8"), re.MULTILINE):
                text = "".join(re.findall(STRING, match[1]))
                text = re.sub(r"%\([a-z_]+\)[sd]|%[sd]|\\n|\{[^}]*\}|<[^>]*>", " ", text).strip().lower()
                if len(text) >= 12 and "content-type" not in text:
                    found.add(text)
        yield from ((text, number) for text in sorted(found))


@functools.cache
def texts() -> Texts:
    rows, weights, starts, languages = [], [], [0], []
    for text, language in messages():
        padded = f" {text} "
        grams = [zlib.crc32(padded[i : i + 3].encode()) % ROWS for i in range(len(padded) - 2)]
        own, counts = np.unique(grams, return_counts=True)
        rows.append(own)
        weights.append(counts / len(grams))
        starts.append(starts[-1] + len(own))
        languages.append(language)
    return Texts(
        np.concatenate(rows), np.concatenate(weights).astype(np.float32), np.array(starts), np.array(languages)
    )


def split(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the training messages (four of five), and of the others."""
    order = np.random.default_rng(seed).permutation(len(texts()))
    return order[: training()], order[training() :]


def training() -> int:
    return 4 * len(texts()) // 5


def steps() -> int:
    return EPOCHS * training() // BATCH


def plan_for(method: str, epsilon: float) -> et.training.VectorPlan:
    if method == "fixed":
        order = {"participations": EPOCHS, "separation": training() // BATCH}
    else:
        order = {"sampling": "cyclic-poisson", "sampled_fraction": BATCH / training()}
    mechanism = {"mechanism": "input"} if method == "independent" else {"objective": "mean"}
    horizon = training() // BATCH * EPOCHS if method == "fixed" else steps()
    return et.training.plan_vector(horizon, norm=NORM, epsilon=epsilon, delta=DELTA, **order, **mechanism)


class Model:
    """The mean of a message's rows, and one layer."""

    def __init__(self, seed: int) -> None:
        random = np.random.default_rng(seed)
        self.table = 0.3 * random.standard_normal((ROWS, WIDTH)).astype(np.float32)
        self.layer = np.zeros((len(LANGUAGES), WIDTH), np.float32)

    def means(self, numbers: np.ndarray) -> np.ndarray:
        rows, weights, starts = texts().of(numbers)
        return np.add.reduceat(weights[:, None] * self.table[rows], starts, axis=0)

    def accuracy(self, numbers: np.ndarray) -> float:
        scores = self.means(numbers) @ self.layer.T
        return float((scores.argmax(axis=1) == texts().languages[numbers]).mean())

    def gradients(self, numbers: np.ndarray, norm: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The rows that messages use, and the sums over messages of their gradients with respect to rows and layer, each
        message's clipped to `norm` over both together. No gradient of a single message is ever built."""
        if len(numbers) == 0:
            return np.zeros(0, np.int64), np.zeros((0, WIDTH), np.float32), np.zeros_like(self.layer)
        rows, weights, starts = texts().of(numbers)
        means = self.means(numbers)
        scores = means @ self.layer.T
        wrong = np.exp(scores - scores.max(axis=1, keepdims=True))
        wrong /= wrong.sum(axis=1, keepdims=True)
        wrong[np.arange(len(numbers)), texts().languages[numbers]] -= 1
        back = wrong @ self.layer
        squares = np.add.reduceat(weights.astype(np.float64) ** 2, starts)
        lengths = np.sqrt(_squares(wrong) * _squares(means) + _squares(back) * squares)
        # Allow for the rounding of products in float32.
        factors = (np.minimum(1.0, norm / np.maximum(lengths, 1e-30)) * (1 - 2.0**-15)).astype(np.float32)
        wrong, back = wrong * factors[:, None], back * factors[:, None]
        used, places = np.unique(rows, return_inverse=True)
        of_rows = np.zeros((len(used), WIDTH), np.float32)
        message = np.repeat(np.arange(len(numbers)), np.diff(np.append(starts, len(rows))))
        np.add.at(of_rows, places, weights[:, None] * back[message])
        return used, of_rows, wrong.T @ means


def _squares(rows: np.ndarray) -> np.ndarray:
    return (rows.astype(np.float64) ** 2).sum(axis=1)


def train(model: Model, numbers: np.ndarray, method: str, epsilon: float, rates: tuple[float, float], seed: int) -> float:
    """Returns the seconds spent on the table's noise."""
    plan = plan_for(method, epsilon)
    # A key from a seed makes the experiment reproducible, and protects nobody. These messages are public.
    key = et.SecretKey.insecure_from_test_seed(et.TestSeed(seed))
    name = f"{method}, {epsilon}, {rates}"
    table = et.training.RowNoise(plan, key, name, rows=ROWS, width=WIDTH, rates=rates[0] / BATCH)
    layer = et.VectorNoise(plan, key, name, coordinates=model.layer.size)
    if method == "fixed":
        epoch = training() // BATCH
        batches = [np.arange(step % epoch * BATCH, (step % epoch + 1) * BATCH) for step in range(plan.horizon)]
    else:
        batches = et.training.Batches(plan, key, name, examples=len(numbers))
    waited = 0.0
    for batch in batches:
        mine = numbers[batch]
        begun = time.perf_counter()
        table.catch_up(model.table, np.unique(texts().of(mine)[0]) if len(mine) else [])
        waited += time.perf_counter() - begun
        used, of_rows, of_layer = model.gradients(mine, plan.norm)
        table.descend(model.table, used, of_rows)
        model.layer -= rates[1] / BATCH * layer.add_next(of_layer)
    table.catch_up(model.table)
    return waited


def train_plainly(model: Model, numbers: np.ndarray, rates: tuple[float, float], seed: int) -> None:
    random = np.random.default_rng(seed)
    for _ in range(steps()):
        used, of_rows, of_layer = model.gradients(random.choice(numbers, BATCH, replace=False), NORM)
        model.table[used] -= rates[0] / BATCH * of_rows
        model.layer -= rates[1] / BATCH * of_layer


def accuracy(method: str, epsilon: float, rates: tuple[float, float], seed: int) -> float:
    numbers, others = split(seed)
    model = Model(seed)
    if method == "none":
        train_plainly(model, numbers, rates, seed)
    else:
        train(model, numbers, method, epsilon, rates, seed)
    return model.accuracy(others)


def experiment(seeds: int) -> Iterator[dict]:
    """One row for each method and ε; the row without privacy has an empty ε."""
    for method, epsilon in [("none", 0.0), *((method, epsilon) for method in METHODS for epsilon in EPSILONS)]:
        rates = RATES[CHOSEN[epsilon or EPSILONS[-1]]]
        found = [accuracy(method, epsilon, rates, seed) for seed in range(seeds)]
        plan = None if method == "none" else plan_for(method, epsilon)
        yield {
            "method": method,
            "epsilon": epsilon or "",
            "median": round(statistics.median(found), 4),
            "lowest": round(min(found), 4),
            "highest": round(max(found), 4),
            "mechanism": plan.mechanism.split(",run")[0].removesuffix(")") + ")" * ("(" in plan.mechanism) if plan else "",
            "mean_error": f"{plan.mean_std_error:.4g}" if plan else "",
        }


def read(path: Path) -> list[dict]:
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        row["epsilon"] = float(row["epsilon"]) if row["epsilon"] else ""
        row |= {name: float(row[name]) for name in ("median", "lowest", "highest")}
    return rows


def write(rows: list[dict], path: Path) -> None:
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def table(rows: list[dict]) -> str:
    """Markdown: median, with lowest and highest."""
    found = {(row["method"], row["epsilon"]): row for row in rows}
    lines = ["| method \\ ε (δ = 10⁻⁵) | " + " | ".join(f"{epsilon:g}" for epsilon in EPSILONS) + " |"]
    lines.append("|---" * (len(EPSILONS) + 1) + "|")
    for method, label in METHODS.items():
        mine = [found[method, epsilon] for epsilon in EPSILONS]
        cells = " | ".join(f"{row['median']:.3f} ({row['lowest']:.3f}–{row['highest']:.3f})" for row in mine)
        lines.append(f"| {label} | {cells} |")
    return "\n".join(lines)


def draw(rows: list[dict], folder: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update(
        {"svg.hashsalt": "evertally", "font.size": 10, "axes.spines.top": False, "axes.spines.right": False}
    )
    figure, panel = plt.subplots(figsize=(7, 4.6), layout="constrained")
    without = next(row["median"] for row in rows if row["method"] == "none")
    for level, text in ((without, "without privacy"), (1 / len(LANGUAGES), "chance")):
        panel.axhline(level, color="0.5", linestyle=":", linewidth=1)
        panel.annotate(text, (EPSILONS[0], level), xytext=(0, 3), textcoords="offset points", color="0.35", fontsize=9)
    for method, label in METHODS.items():
        color, marker = STYLES[method]
        mine = [row for row in rows if row["method"] == method]
        lowest, highest = ([row[name] for row in mine] for name in ("lowest", "highest"))
        panel.fill_between(EPSILONS, lowest, highest, color=color, alpha=0.13, linewidth=0)
        panel.plot(EPSILONS, [row["median"] for row in mine], color=color, marker=marker, markersize=5, label=label)
    panel.set_xscale("log", base=2)
    panel.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
    panel.set_ylim(0, 1)
    panel.set_xlabel("ε (δ = 10⁻⁵)")
    panel.set_ylabel(f"test accuracy, {len(LANGUAGES)} languages")
    panel.grid(axis="y", color="0.92")
    panel.set_axisbelow(True)
    panel.legend(loc="lower right", frameon=False)
    figure.savefig(folder / "languages.svg", metadata={"Date": None})
    figure.savefig(folder / "languages.png", dpi=160, metadata={"Software": None})


def tune() -> None:
    """Accuracies for all rates, with a seed that the experiment does not use."""
    for epsilon in EPSILONS:
        for place, rates in enumerate(RATES):
            found = [accuracy(method, epsilon, rates, 100) for method in ("independent", "planned")]
            print(f"ε = {epsilon:g}, {place}: {rates}: {statistics.mean(found):.3f}", found, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--tune", action="store_true", help="compare learning rates instead")
    arguments = parser.parse_args()
    if arguments.tune:
        return tune()
    print(f"{len(texts())} messages in {len(LANGUAGES)} languages, {training()} to train, {steps()} steps", flush=True)
    rows = []
    for row in experiment(arguments.seeds):
        rows.append(row)
        print(*row.values(), flush=True)
    write(rows, HERE / "languages.csv")
    draw(rows, HERE)
    print(table(rows))


if __name__ == "__main__":
    main()
