"""What the noise of a training step costs, drawn in the step and drawn ahead, beside the same step without noise.

    python benches/overlap.py [--steps 40] [--threads 1] [--batch 128] [--buffers 3]

Needs PyTorch. Two models with more than a million parameters, three mechanisms. Steps of all ways follow each other in
turn, and what is printed are medians of the ratios of steps that were taken one after the other: other work on the
machine slows all ways alike. A step is clipping (ghost), summing, noise, and plain SGD, with the notes of what was given
out and the marks of gradients; without noise it is all of that but the noise. `drawing` is the noise alone, on one core.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import evertally as et
import evertally.torch
import torch

MECHANISMS = {
    "normalized-blt(buffers=3)": {"participations": 4, "separation": 500},
    "smooth": {"participations": 4, "separation": 500},
    "epoch-bands(bands=8)": {"epsilon": 4.0, "delta": 1e-5, "sampled": 0.05},
}


class Silent:
    """Noise of zeros, at no cost."""

    step = 0

    def draw_ahead(self) -> None:
        """Nothing is drawn."""

    def add_next(self, vector: Any) -> None:
        self.step += 1


def dense() -> Any:
    sizes = [784, 1024, 512, 10]
    layers = [layer for into, out in zip(sizes, sizes[1:]) for layer in (torch.nn.Linear(into, out), torch.nn.ReLU())]
    return torch.nn.Sequential(*layers[:-1]), (784,)


def convolutions() -> Any:
    module = torch.nn.Sequential(
        torch.nn.Conv2d(3, 32, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(32, 64, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(4096, 256),
        torch.nn.ReLU(),
        torch.nn.Linear(256, 10),
    )
    return module, (3, 32, 32)


def ways(model: Any, mechanism: str, key: et.SecretKey, batch: int, count: int) -> dict[str, Any]:
    """The same run without noise, with it, and with noise that is drawn ahead."""
    torch.manual_seed(1)
    _, shape = model()
    examples = batch * 20
    data = torch.utils.data.TensorDataset(torch.randn(examples, *shape), torch.randint(0, 10, (examples,)))
    given = {"epsilon": 4.0, "delta": 1e-5} | MECHANISMS[mechanism]
    plan = et.plan_vector(2000, mechanism=mechanism, **given)
    made = {}
    for way in ("without", "in the step", "ahead"):
        torch.manual_seed(1)
        module, _ = model()
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        private = et.torch.DPFTRL(
            optimizer,
            plan,
            key,
            f"{way} {mechanism} {model.__name__} {count}",
            expected_batch_size=batch,
            batches=None if plan.sampled is None else et.Batches(plan, key, f"{way} {mechanism} {model.__name__} {count}", examples=examples),
            ahead=way == "ahead",
        )
        private.batches = None  # batches of one size, for times that compare
        run = et.torch.PrivateRun(module, torch.nn.functional.cross_entropy, private, [], "ghost")
        if way == "without":
            private.noise = Silent()
        made[way] = (run, data)
    return made


def measure(made: dict[str, Any], batch: int, steps: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {way: [] for way in made}
    for step in range(steps):
        for way, (run, data) in made.items():
            first = step % 20 * batch
            inputs, targets = data[first : first + batch]
            begin = time.perf_counter()
            run.step(inputs, targets, range(first, first + batch))
            times[way].append(time.perf_counter() - begin)
    return times


def drawing(plan: Any, size: int, steps: int) -> float:
    noise, vector = et.VectorNoise(plan, et.SecretKey.generate(), "alone", coordinates=size), torch.zeros(size).numpy()
    took = []
    for _ in range(steps):
        begin = time.perf_counter()
        noise.add_next(vector)
        took.append(time.perf_counter() - begin)
    return statistics.median(took[2:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch", type=int, default=128)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    print(f"PyTorch {torch.__version__}, {given.threads} thread(s), batches of {given.batch}, {given.steps} steps")
    print("model         parameters  mechanism                  without   drawing  in the step    ahead")
    with tempfile.TemporaryDirectory() as folder:
        et.SecretKey.generate().save(Path(folder) / "key")
        key = et.SecretKey.load(Path(folder) / "key")
        for model in (dense, convolutions):
            for mechanism in MECHANISMS:
                made = ways(model, mechanism, key, given.batch, 0)
                measure(made, given.batch, 5)
                times = measure(made, given.batch, given.steps)
                ratios = {
                    way: statistics.median(one / base for one, base in zip(times[way], times["without"])) for way in times
                }
                run, _ = made["ahead"]
                size = sum(p.numel() for p in run.module.parameters())
                alone = drawing(run.optimizer.plan, size, 12)
                print(
                    f"{model.__name__:<13} {size:>10,}  {mechanism:<26} {statistics.median(times['without']) * 1e3:5.1f} ms"
                    f" {alone * 1e3:6.1f} ms {ratios['in the step']:12.3f} {ratios['ahead']:8.3f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
