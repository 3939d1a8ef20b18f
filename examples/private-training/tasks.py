"""The tasks of `peers.py`: three data sets from Python packages, and a network with its clipped gradients in
NumPy, the same for every library."""

from __future__ import annotations

import csv
import functools
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import languages
import numpy as np

ROOM = 1 - 2.0**-15  # for the rounding of products in float32
TEXTS = 10_240  # training messages, of the 10,395 of languages.py: ten batches


class Model(Protocol):
    """Parameters as one vector, and the methods that the training loop needs."""

    parameters: np.ndarray  # changed in place
    strides: Any  # factors of the learning rate, per parameter

    def clipped_sum(self, numbers: np.ndarray) -> np.ndarray:
        """The sum of the gradients of some training examples, each clipped to length 1."""
        ...

    def accuracy(self) -> float:
        """The accuracy on the test examples."""
        ...


@dataclass(frozen=True)
class Task:
    label: str
    training: int
    batch: int
    epochs: int
    make: Callable[[int], Model]  # from a seed: split and initial weights
    rates: tuple[float, ...]  # to choose from
    tuning_seeds: int = 2

    @property
    def steps(self) -> int:
        return self.epochs * self.training // self.batch


class Network:
    """A hidden layer of tanh, softmax; no gradient of a single example is ever built."""

    strides = 1.0

    def __init__(self, inputs: np.ndarray, targets: np.ndarray, hidden: int, training: int, seed: int) -> None:
        random = np.random.default_rng(seed)
        order = random.permutation(len(inputs))
        self._train, self._test = order[:training], order[training:]
        self._inputs, self._targets = inputs.astype(np.float32), targets
        width, classes = inputs.shape[1], int(targets.max()) + 1
        self._shapes = ((width + 1, hidden), (hidden + 1, classes))
        layers = [random.uniform(-1, 1, shape) / np.sqrt(shape[0] - 1) for shape in self._shapes]
        self.parameters = np.concatenate([layer.reshape(-1) for layer in layers]).astype(np.float32)

    def _layers(self) -> tuple[np.ndarray, np.ndarray]:
        first = self._shapes[0][0] * self._shapes[0][1]
        return self.parameters[:first].reshape(self._shapes[0]), self.parameters[first:].reshape(self._shapes[1])

    def _forward(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        first, second = self._layers()
        inputs = _with_ones(self._inputs[rows])
        hidden = _with_ones(np.tanh(inputs @ first))
        return inputs, hidden, hidden @ second

    def clipped_sum(self, numbers: np.ndarray) -> np.ndarray:
        rows = self._train[numbers]
        inputs, hidden, scores = self._forward(rows)
        wrong = np.exp(scores - scores.max(axis=1, keepdims=True, initial=-1e30))
        wrong /= wrong.sum(axis=1, keepdims=True)
        wrong[np.arange(len(rows)), self._targets[rows]] -= 1
        back = (wrong @ self._layers()[1][:-1].T) * (1 - hidden[:, :-1] ** 2)
        lengths = np.sqrt(_squares(wrong) * _squares(hidden) + _squares(back) * _squares(inputs))
        factors = (ROOM / np.maximum(1, lengths)).astype(np.float32)[:, None]
        return np.concatenate([(inputs.T @ (back * factors)).reshape(-1), (hidden.T @ (wrong * factors)).reshape(-1)])

    def accuracy(self) -> float:
        scores = self._forward(self._test)[2]
        return float((scores.argmax(axis=1) == self._targets[self._test]).mean())


def _with_ones(rows: np.ndarray) -> np.ndarray:
    return np.concatenate([rows, np.ones((len(rows), 1), np.float32)], axis=1)


def _squares(rows: np.ndarray) -> np.ndarray:
    return (rows.astype(np.float64) ** 2).sum(axis=1)


class Languages:
    """The text classifier of `languages.py`: a table of rows, and one layer, which takes shorter steps."""

    def __init__(self, seed: int) -> None:
        self._model = languages.Model(seed)
        order = np.concatenate(languages.split(seed))
        self._train, self._test = order[:TEXTS], order[languages.training() :]
        table, layer = self._model.table, self._model.layer
        self.parameters = np.concatenate([table.reshape(-1), layer.reshape(-1)])
        self.strides = np.repeat(np.array([1.0, 0.5], np.float32), [table.size, layer.size])
        self._table = table.size
        self._model.table = self.parameters[: table.size].reshape(table.shape)
        self._model.layer = self.parameters[table.size :].reshape(layer.shape)

    def clipped_sum(self, numbers: np.ndarray) -> np.ndarray:
        used, rows, layer = self._model.gradients(self._train[numbers], 1.0)
        total = np.zeros(len(self.parameters), np.float32)
        total[: self._table].reshape(self._model.table.shape)[used] = rows
        total[self._table :] = layer.reshape(-1)
        return total

    def accuracy(self) -> float:
        return float(self._model.accuracy(self._test))


@functools.cache
def _digits() -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import load_digits

    pixels, classes = load_digits(return_X_y=True)
    return pixels / 16, classes


@functools.cache
def _diamonds() -> tuple[np.ndarray, np.ndarray]:
    """The decile of the price, from the other columns. Every diamond is scaled independently of the others."""
    spec = importlib.util.find_spec("plotnine")
    if spec is None or spec.submodule_search_locations is None:
        raise SystemExit("the diamonds come from a package: pip install plotnine")
    with open(Path(spec.submodule_search_locations[0]) / "data" / "diamonds.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    cuts = ("Fair", "Good", "Very Good", "Premium", "Ideal")
    clarities = ("I1", "SI2", "SI1", "VS2", "VS1", "VVS2", "VVS1", "IF")
    inputs = [
        [
            2 * np.log(float(row["carat"])),
            (float(row["depth"]) - 62) / 2,
            (float(row["table"]) - 57) / 2,
            float(row["x"]) - 6,
            float(row["y"]) - 6,
            float(row["z"]) - 3.5,
            (cuts.index(row["cut"]) - 2) / 2,
            ("JIHGFED".index(row["color"]) - 3) / 2,
            (clarities.index(row["clarity"]) - 3) / 2,
        ]
        for row in rows
    ]
    prices = np.array([float(row["price"]) for row in rows])
    return np.array(inputs), np.digitize(prices, (646, 837, 1087, 1698, 2401, 3465, 4662, 6301, 9821))


def _digits_network(seed: int) -> Network:
    return Network(*_digits(), hidden=32, training=1440, seed=seed)


def _diamonds_network(seed: int) -> Network:
    return Network(*_diamonds(), hidden=32, training=4_320, seed=seed)


# Epochs consist of complete batches, as random allocation requires.
TASKS = {
    "digits": Task("digits", 1440, 120, 10, _digits_network, (0.5, 1.0, 2.0, 4.0)),
    "languages": Task("languages", TEXTS, 1024, 10, Languages, (30.0, 100.0), tuning_seeds=1),
    "diamonds": Task("diamonds", 4_320, 108, 10, _diamonds_network, (0.5, 1.0, 2.0, 4.0)),
}
