"""How close to the bounds of all horizons a mechanism without an end can be at best.

    python benches/endless_bound.py [--events 1,10,100] [--steps 128] [--rounds 40]

Without an end, one mechanism serves every horizon t at once, and its error at step t is compared with b(t), the lower
bound for a horizon of t. Divide row t of the matrix A of running sums by b(t). Then every factorization L R = A obeys,
for all weights p of steps and q of runs of events, both with sum 1,

    max_t ‖L_t‖ / b(t) · max_u ‖R u‖ ≥ ‖diag(√p / b) A U diag(√q)‖_*,

where the columns of U are the runs of m consecutive steps: a weighted mean is at most the maximum, and the nuclear norm
of a product is at most the product of the Frobenius norms. So every printed value is a bound, however good the weights
are. They are improved in rounds until the gradients of the nuclear norm agree with them. Takes minutes for several
events; needs NumPy.
"""

from __future__ import annotations

import argparse

import evertally as et
import numpy as np


def bounds(events: int, steps: int) -> np.ndarray:
    """The lower bound of the standard error of each horizon up to `steps`, at ρ = ½."""
    unit = {} if events == 1 else {"max_events": events, "max_events_per_step": 1}
    return np.array([et.plan(step, rho=0.5, mechanism="input", **unit).lower_bound for step in range(1, steps + 1)])


def least_ratio(events: int, steps: int, rounds: int) -> float:
    """A lower bound of the largest ratio, over the first `steps` steps, of any error to the bound of its horizon."""
    numbers = np.arange(1, steps + 1)
    # Row t of A U: how many steps of each run, which begins at `numbers`, are at most t.
    scaled = np.clip(numbers[:, None] - numbers + 1, 0, events) / bounds(events, steps)[:, None]
    p = 1 / numbers / sum(1 / numbers)
    q, best = p.copy(), 0.0
    for _ in range(rounds):
        left, values, right = np.linalg.svd(np.sqrt(p)[:, None] * scaled * np.sqrt(q), full_matrices=False)
        best = max(best, values.sum())
        p, q = np.sqrt(p * (left**2 @ values)), np.sqrt(q * (values @ right**2))
        p, q = p / p.sum(), q / q.sum()
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description="How close to all bounds a mechanism without an end can be.")
    parser.add_argument("--events", default="1,10,100", help="largest numbers of events of a person, one a step")
    parser.add_argument("--steps", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=40)
    options = parser.parse_args()
    for events in map(int, options.events.split(",")):
        ratio = least_ratio(events, options.steps, options.rounds)
        print(f"{events} events, {options.steps} steps: no mechanism is within {ratio:.3f} of every bound")


if __name__ == "__main__":
    main()
