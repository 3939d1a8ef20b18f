"""Trains a logistic regression privately, and compares it with DP-SGD and with training without privacy.

    python3 train.py [--epsilon 1] [--rate 6] [--run NAME]

Needs training.key, made by `evertally key new training.key`. Writes accuracy.svg and weights.csv next to this file.
"""

import argparse
import sys
from pathlib import Path

import evertally as et
import numpy as np

HERE = Path(__file__).resolve().parent
EXAMPLES, TESTS, FEATURES = 6000, 4000, 200
BATCH, EPOCHS, DELTA = 100, 1, 1e-5
COLORS = ("#000000", "#0072b2", "#d55e00")


def data() -> tuple[np.ndarray, np.ndarray]:
    """Made-up features and labels, +1 or -1. Each example is scaled to length 1, without looking at the others."""
    draw = np.random.default_rng(7)
    truth = draw.normal(size=FEATURES)
    features = draw.normal(size=(EXAMPLES + TESTS, FEATURES))
    labels = np.sign(features @ truth + draw.normal(size=len(features)) * 2)
    return features / np.linalg.norm(features, axis=1, keepdims=True), labels


def clipped_sum(weights: np.ndarray, features: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The sum of the gradients of some examples, each clipped to length 1."""
    gradients = features * (-labels / (1 + np.exp(labels * (features @ weights))))[:, None]
    lengths = np.linalg.norm(gradients, axis=1, keepdims=True)
    total: np.ndarray = (gradients / np.maximum(1, lengths)).sum(axis=0)
    return total


def train(
    plan: et.training.VectorPlan, key: et.SecretKey, name: str, rate: float, private: bool = True
) -> tuple[np.ndarray, list[float]]:
    """The weights after the last step, and the accuracy on the test examples after each step."""
    features, labels = data()
    batches = et.training.Batches(plan, key, name, examples=EXAMPLES)
    noise = et.VectorNoise(plan, key, name, coordinates=FEATURES, dtype="float64", batches=batches)
    weights, accuracies = np.zeros(FEATURES), []
    for step in range(1, len(batches) + 1):
        batch = batches.batch(step)
        gradient = clipped_sum(weights, features[batch], labels[batch])
        if private:
            noise.add_next(gradient)
        weights -= rate / batches.expected_size * gradient  # never by the size of the batch
        right = np.sign(features[EXAMPLES:] @ weights) == labels[EXAMPLES:]
        accuracies.append(float(right.mean()))
    return weights, accuracies


def picture(curves: dict[str, list[float]]) -> str:
    """Accuracy after each step, as SVG."""
    width, height, left, top = 520, 300, 60, 40
    low, high, steps = 0.45, 0.95, len(next(iter(curves.values())))

    def x(step: int) -> int:
        return left + round(step * width / steps)

    def y(value: float) -> int:
        return top + round(height * (high - value) / (high - low))

    parts = ['<text x="60" y="24" font-size="16" font-weight="bold">Accuracy on test examples</text>']
    for level in (0.5, 0.6, 0.7, 0.8, 0.9):
        parts.append(f'<path d="M{left} {y(level)}h{width}" stroke="#ddd"/>')
        parts.append(f'<text x="{left - 8}" y="{y(level) + 4}" text-anchor="end" fill="#555">{level:.0%}</text>')
    for step in range(0, steps + 1, 10):
        parts.append(f'<text x="{x(step)}" y="{top + height + 20}" text-anchor="middle" fill="#555">{step}</text>')
    parts.append(f'<text x="{x(steps // 2)}" y="{top + height + 40}" text-anchor="middle" fill="#555">step</text>')
    label = 0
    for (name, values), color in zip(curves.items(), COLORS, strict=True):
        line = "L".join(f"{x(step)} {y(value)}" for step, value in enumerate(values, 1))
        label = max(y(values[-1]) + 4, label + 16)  # labels do not overlap; curves come from high to low
        parts.append(f'<path d="M{line}" fill="none" stroke="{color}" stroke-width="2"/>')
        parts.append(f'<text x="{x(steps) + 8}" y="{label}" fill="{color}">{name}</text>')
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 800 {top + height + 50}" width="800"'
    return f'{head} font-family="sans-serif" font-size="13">\n<rect width="100%" height="100%" fill="#fff"/>\n' + (
        "\n".join(parts) + "\n</svg>\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Private training of a logistic regression.")
    parser.add_argument("--epsilon", type=float, default=1.0, help="privacy budget, with delta = 1e-5 (default: 1)")
    parser.add_argument("--rate", type=float, default=6.0, help="learning rate (default: 6)")
    parser.add_argument("--run", default="run 1", help="name of the run; other settings need another name")
    arguments = parser.parse_args()
    rate, run = arguments.rate, arguments.run
    try:
        key = et.SecretKey.load(HERE / "training.key")
    except et.InvalidError as error:
        sys.exit(f"error: {error}")
    options = et.training.plan_training(EXAMPLES, BATCH, EPOCHS, epsilon=arguments.epsilon, delta=DELTA)
    dp_sgd = next(option for option in options if "DP-SGD" in option.description)
    for option in (options.best, dp_sgd):
        print(f"standard error {option.plan.max_std_error:.2f}: {option.description}")
    weights, best = train(options.plan, key, f"{run}, best", rate)
    curves = {
        "not private": train(options.plan, key, f"{run}, not private", rate, private=False)[1],
        "correlated noise": best,
        "independent noise (DP-SGD)": train(dp_sgd.plan, key, f"{run}, DP-SGD", rate)[1],
    }
    for name, values in curves.items():
        print(f"accuracy {values[-1]:.1%}: {name}")
    np.savetxt(HERE / "weights.csv", weights, fmt="%.6f")
    (HERE / "accuracy.svg").write_text(picture(curves), encoding="utf-8")


if __name__ == "__main__":
    main()
