"""The cost of noise in a training step, drawn in the step or drawn ahead, compared with the same step without noise.

    python benches/overlap.py [--steps 40] [--threads 1] [--batch 128]

Needs PyTorch. Two models with more than a million parameters, three mechanisms. A step is clipping (ghost), summing,
noise, and plain SGD, with the log of issued noise and the marks of gradients; the step without noise omits noise, log
and marks. Steps of the three variants alternate in random order. The printed values are medians of ratios to the
neighbouring step without noise: of wall time, and of the processor time of the training thread. The latter equals wall
time if a core is free for the noise, and does not depend on the load of the machine. `all` is the processor time of all
threads. `drawing` is the noise alone, on one core.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import evertally as et
import evertally.torch
import torch
from evertally import _evertally

SEPARATION = 500
MECHANISMS = {
    "normalized-blt(buffers=3)": {"participations": 4, "separation": SEPARATION},
    "smooth": {"participations": 4, "separation": SEPARATION},
    "epoch-bands(bands=8)": {"epsilon": 4.0, "delta": 1e-5, "sampling": "cyclic-poisson", "sampled_fraction": 0.05},
}


class Silent:
    """Noise that is zero and costs nothing."""

    step = 0

    def draw_ahead(self) -> None:
        """Draws nothing."""

    def add_next(self, vector: Any, examples: int | None = None) -> None:
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


def options(model: Any, mechanism: str, key: et.SecretKey, batch: int) -> dict[str, Any]:
    """The same run without noise, with noise drawn in the step, and with noise drawn ahead."""
    torch.manual_seed(1)
    _, shape = model()
    examples = batch * 20
    data = torch.utils.data.TensorDataset(torch.randn(examples, *shape), torch.randint(0, 10, (examples,)))
    given = {"epsilon": 4.0, "delta": 1e-5} | MECHANISMS[mechanism]
    plan = et.training.plan_vector(2000, mechanism=mechanism, **given)
    made = {}
    for way in ("without", "in the step", "ahead"):
        torch.manual_seed(1)
        module, _ = model()
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        name = f"{way} {mechanism} {model.__name__}"
        batches = None if plan.sampling is None else et.training.Batches(plan, key, name, examples=examples)
        options = {"expected_batch_size": batch, "batches": batches, "ahead": way == "ahead"}
        private = et.torch.DPFTRL(optimizer, plan, key, name, **options)
        private.batches = None  # batches of equal size, for comparable times
        run = et.torch.PrivateRun(module, torch.nn.functional.cross_entropy, private, [], "ghost")
        if way == "without":
            private.noise = Silent()
        made[way] = (run, data)
    return made


CLOCKS = (time.perf_counter, time.thread_time, time.process_time)


def measure(made: dict[str, Any], batch: int, steps: int) -> dict[str, list[list[float]]]:
    """For each variant, the three times of every step."""
    times: dict[str, list[list[float]]] = {way: [] for way in made}
    for step in range(steps):
        for way in random.sample(list(made), len(made)):
            run, data = made[way]
            first = step % 20 * batch
            inputs, targets = data[first : first + batch]
            taken = run.optimizer.noise.step % SEPARATION * batch
            begin = [clock() for clock in CLOCKS]
            run.step(inputs, targets, range(taken, taken + batch))
            times[way].append([clock() - start for clock, start in zip(CLOCKS, begin)])
            _evertally._wait_for_noise()  # finish drawing ahead before the next measurement
    return times


def drawing(plan: Any, size: int, steps: int) -> float:
    noise, vector = et.VectorNoise(plan, et.SecretKey.generate(), "alone", coordinates=size), torch.zeros(size).numpy()
    took = []
    for _ in range(steps):
        begin = time.thread_time()
        noise.add_next(vector)
        took.append(time.thread_time() - begin)
    return statistics.median(took[2:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch", type=int, default=128)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    print(f"PyTorch {torch.__version__}, {given.threads} thread(s), batches of {given.batch}, {given.steps} steps")
    print(f"{'':56}{'':18} in the step: clock  thread    ahead: clock  thread     all")
    with tempfile.TemporaryDirectory() as folder:
        et.SecretKey.generate().save(Path(folder) / "key")
        key = et.SecretKey.load(Path(folder) / "key")
        for model in (dense, convolutions):
            for mechanism in MECHANISMS:
                made = options(model, mechanism, key, given.batch)
                measure(made, given.batch, 5)
                times = measure(made, given.batch, given.steps)
                run, _ = made["ahead"]
                size = sum(p.numel() for p in run.module.parameters())
                alone = drawing(run.optimizer.plan, size, 12)

                def ratio(way: str, clock: int) -> float:
                    pairs = zip(times[way], times["without"])
                    return statistics.median(one[clock] / base[clock] for one, base in pairs)

                without = statistics.median(base[1] for base in times["without"])
                print(
                    f"{model.__name__:<13} {size:>10,}  {mechanism:<26} {without * 1e3:6.1f} ms {alone * 1e3:6.1f} ms"
                    f" {ratio('in the step', 0):20.3f} {ratio('in the step', 1):7.3f}"
                    f" {ratio('ahead', 0):15.3f} {ratio('ahead', 1):7.3f} {ratio('ahead', 2):7.3f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
