"""Whole numbers at the ends of their ranges give a plain error or a result, and neither a panic nor endless work."""

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import evertally as et

#: 2^31 and 2^53 are within many ranges, and then give a result.
NUMBERS = [0, -1, 2**31, 2**53, 2**63 - 1, 2**63, 2**64, 2**200]
#: Errors that a person can understand.
ERRORS = (et.EvertallyError, TypeError, ValueError, MemoryError)
#: Time limit of one call, in seconds, on a busy machine.
PATIENCE = 60

KEY = et.SecretKey.insecure_from_test_seed(et.TestSeed(5))
PLAN = et.plan(100, rho=0.5)
VECTOR = et.training.plan_vector(100, rho=0.5, mechanism="smooth")
LONG = et.training.plan_vector(2**62, rho=0.5, mechanism="smooth")
LAZY = et.plan_lazy(100, rho=0.5)
SKETCH = et.plan_sketch(100, rows=3, width=50, rho=0.5)
SAMPLED = et.training.plan_vector(
    40, epsilon=2.0, delta=1e-5, sampling="cyclic-poisson", sampled_fraction=0.1, mechanism="epoch-bands(bands=4)"
)


def noise(plan: et.training.VectorPlan = VECTOR, **more: Any) -> et.VectorNoise:
    return et.VectorNoise(plan, KEY, "integers", **{"coordinates": 3} | more)


def rows(plan: et.training.VectorPlan = VECTOR, **more: Any) -> et.training.RowNoise:
    return et.training.RowNoise(plan, KEY, "integers", **{"rows": 3, "width": 2, "rates": 0.1} | more)


def counter() -> et.Counter:
    return et.Counter(PLAN, KEY, "integers")


def lazy(sums: int = 10) -> et.LazyVector:
    return et.LazyVector(LAZY, KEY, "integers", sums=sums)


def array(*shape: int) -> Any:
    return np.zeros(shape, np.float32)


#: Every whole number that the package accepts, by the call that takes it.
CALLS: dict[str, Callable[[int], Any]] = {
    "plan(horizon)": lambda n: et.plan(n, rho=0.5),
    "plan(horizon) for epsilon": lambda n: et.plan(n, epsilon=0.5),
    "plan(max_events)": lambda n: et.plan(100, rho=0.5, max_events=n),
    "plan(max_events_per_step)": lambda n: et.plan(100, rho=0.5, max_events=9, max_events_per_step=n),
    "plan(max_groups)": lambda n: et.plan(100, rho=0.5, max_groups=n),
    "plan(group_count)": lambda n: et.plan(100, rho=0.5, max_groups=2, group_count=n, correlate_groups="groups"),
    "plan(max_events_per_group)": lambda n: et.plan(100, rho=0.5, max_events=9, max_events_per_group=n),
    "plan(min_gap)": lambda n: et.plan(100, rho=0.5, max_events=5, min_gap=n),
    "plan(per)": lambda n: et.plan(100, rho=0.5, max_events=5, per=n),
    "plan(protect_window)": lambda n: et.plan(100, rho=0.5, max_events=5, per=10, protect_window=n),
    "plan(sums_per_event)": lambda n: et.plan(100, rho=0.5, sums_per_event=n),
    "plan(bounds)": lambda n: et.plan(100, rho=0.5, bounds=(0, n)),
    "plan.std_error": lambda n: PLAN.std_error(n),
    "plan.std_errors": lambda n: PLAN.std_errors([n]),
    "plan_lazy(horizon)": lambda n: et.plan_lazy(n, rho=0.5),
    "plan_sketch(horizon)": lambda n: et.plan_sketch(n, rows=3, width=10, rho=0.5),
    "plan_sketch(rows)": lambda n: et.plan_sketch(100, rows=n, width=10, rho=0.5),
    "plan_sketch(width)": lambda n: et.plan_sketch(100, rows=3, width=n, rho=0.5),
    "plan_vector(horizon)": lambda n: et.training.plan_vector(n, rho=0.5),
    "plan_vector(horizon) of a mechanism": lambda n: et.training.plan_vector(n, rho=0.5, mechanism="blt"),
    "plan_vector(horizon) with sampling": lambda n: et.training.plan_vector(
        n, epsilon=1.0, delta=1e-5, sampling="poisson", sampled_fraction=0.01, mechanism="input"
    ),
    "plan_vector(participations)": lambda n: et.training.plan_vector(100, rho=0.5, participations=n),
    "plan_vector(separation)": lambda n: et.training.plan_vector(100, rho=0.5, separation=n),
    "plan_vector(both)": lambda n: et.training.plan_vector(
        n, rho=0.5, participations=n, separation=n, mechanism="smooth"
    ),
    "plan_vector(steps_per_epoch)": lambda n: et.training.plan_vector(
        40, epsilon=2.0, delta=1e-5, sampling="random-allocation", steps_per_epoch=n, mechanism="input"
    ),
    "plan_vector(steps_per_epoch) in every epoch": lambda n: et.training.plan_vector(
        40, epsilon=2.0, delta=1e-5, sampling="per-epoch-random-allocation", steps_per_epoch=n, mechanism="input"
    ),
    "plan_vector(examples)": lambda n: et.training.plan_vector(
        40, epsilon=2.0, delta=1e-5, sampling="truncated-poisson", sampled_fraction=0.1, examples=n, mechanism="input"
    ),
    "plan_vector(max_batch_size)": lambda n: et.training.plan_vector(
        40,
        epsilon=2.0,
        delta=1e-5,
        sampling="truncated-poisson",
        sampled_fraction=0.1,
        examples=100,
        max_batch_size=n,
        mechanism="input",
    ),
    "plan_vector(max_memory)": lambda n: et.training.plan_vector(40, rho=0.5, max_memory=n),
    "plan_vector(average_steps)": lambda n: et.training.plan_vector(
        40, rho=0.5, learning_rate=0.1, average_steps=n, mechanism="smooth"
    ),
    "plan_vector(counted_steps)": lambda n: et.training.plan_vector(
        40, rho=0.5, learning_rate=0.1, counted_steps=n, mechanism="smooth"
    ),
    "plan_vector(warmup)": lambda n: et.training.plan_vector(
        40, rho=0.5, learning_rate=0.1, schedule="cosine", warmup=n, mechanism="smooth"
    ),
    "plan_training(examples)": lambda n: et.training.plan_training(n, 1, 1e-300, rho=0.5),
    "plan_training(examples) for an epoch": lambda n: et.training.plan_training(n, max(n // 10, 1), 1, rho=0.5),
    "plan_training(batch)": lambda n: et.training.plan_training(1000, n, 1, rho=0.5),
    "plan_training(parameters)": lambda n: et.training.plan_training(1000, 100, 1, rho=0.5, parameters=n),
    "plan_training(epochs)": lambda n: et.training.plan_training(1000, 100, n, rho=0.5),
    "vector plan.std_error": lambda n: VECTOR.std_error(n),
    "vector plan.std_errors": lambda n: VECTOR.std_errors([n]),
    "noise_stds of a long plan": lambda n: LONG.noise_stds(),
    "noise_matrix of a long plan": lambda n: LONG.noise_matrix(),
    "Batches(examples)": lambda n: len(et.training.Batches(SAMPLED, KEY, "integers", examples=n)),
    "Batches(examples).batch": lambda n: et.training.Batches(
        SAMPLED, KEY, "integers", examples=max(n, 2**32 + 1)
    ).batch(1),
    "Batches.batch": lambda n: et.training.Batches(SAMPLED, KEY, "integers", examples=100).batch(n),
    "Batches[]": lambda n: _index(et.training.Batches(SAMPLED, KEY, "integers", examples=100), n),
    "FixedBatches(examples)": lambda n: et.training.FixedBatches(VECTOR, examples=n, batch_size=max(n // 100, 1)),
    "FixedBatches(batch_size)": lambda n: et.training.FixedBatches(VECTOR, examples=100, batch_size=n),
    "Users(examples_per_user)": lambda n: et.training.Users(["a"], examples_per_user=n),
    "Users(population)": lambda n: et.training.Users([0], examples_per_user=1, population=n),
    "Users.numbers": lambda n: et.training.Users([0], examples_per_user=1, population=10**12).numbers(n),
    "FixedBatches.batch": lambda n: et.training.FixedBatches(VECTOR, examples=100, batch_size=1).batch(n),
    "VectorNoise(coordinates)": lambda n: noise(coordinates=n),
    "VectorNoise(range)": lambda n: noise(coordinates=(n, n + 3)),
    "VectorNoise(threads)": lambda n: noise(threads=n).next(),
    "VectorNoise.add_next(examples)": lambda n: noise().add_next(array(3), examples=n),
    "VectorNoise.seek": lambda n: noise().seek(n),
    "VectorNoise.seek in a long plan": lambda n: noise(LONG).seek(n),
    "RowNoise(rows)": lambda n: rows(rows=n),
    "RowNoise(width)": lambda n: rows(width=n),
    "RowNoise(threads)": lambda n: rows(threads=n).catch_up(array(3, 2)),
    "RowNoise of a long plan": lambda n: rows(LONG),
    "RowNoise.catch_up": lambda n: rows().catch_up(array(3, 2), [n]),
    "RowNoise.descend(examples)": lambda n: rows().descend(array(3, 2), [], array(0, 2), examples=n),
    "Counter.add": lambda n: counter().add(n),
    "LazyVector(sums)": lambda n: lazy(n),
    "LazyVector.add": lambda n: lazy().add([n]),
    "LazyVector.read": lambda n: lazy().read(n),
    "LazyVector.read(step)": lambda n: lazy().read(1, step=n),
    "CountSketch.add": lambda n: et.CountSketch(SKETCH, KEY, "integers").add(n),
    "CountSketch.estimate": lambda n: et.CountSketch(SKETCH, KEY, "integers").estimate(n),
    "epsilon_of_sampled(steps)": lambda n: et.budget.epsilon_of_sampled(1.0, rate=1.0, steps=n, delta=1e-5),
    "noise_of_sampled(steps)": lambda n: et.budget.noise_of_sampled(1.0, 1e-5, rate=1.0, steps=n),
    "TestSeed": lambda n: et.SecretKey.insecure_from_test_seed(et.TestSeed(n)),
}


def _index(sequence: Any, place: int) -> Any:
    try:
        return sequence[place]
    except IndexError:
        return None


@pytest.mark.parametrize("number", NUMBERS)
def test_every_number_gives_a_result_or_a_plain_error(number: int) -> None:
    """In a separate process: some faults end it, and endless work is stopped."""
    told = subprocess.run([sys.executable, __file__, str(number)], capture_output=True, text=True, timeout=900)
    assert told.returncode == 0, told.stdout[-3000:] + told.stderr[-3000:]


def test_every_whole_number_of_the_functions_is_tried() -> None:
    import inspect
    import re

    for function in (et.plan, et.plan_lazy, et.plan_sketch, et.training.plan_vector, et.training.plan_training):
        for name, parameter in inspect.signature(function).parameters.items():
            shared = function in (et.plan_lazy, et.plan_sketch) and name in inspect.signature(et.plan).parameters
            of_vectors = inspect.signature(et.training.plan_vector).parameters
            of_training = function is et.training.plan_training and name in of_vectors
            if re.search(r"\bint\b", str(parameter.annotation)) and not (shared or of_training):
                tried = any(call.startswith(f"{function.__name__}({name})") for call in CALLS)
                assert tried or name in ("rows", "width", "progress"), f"{function.__name__}({name}) is not in CALLS"


def main(number: int) -> None:
    """Tries all calls with a number; a call that takes too long raises `TimeoutError` while it runs Python code, and is
    reported otherwise."""
    import faulthandler

    with et.allow_noise_reuse("every call starts from the beginning"):
        for name, call in CALLS.items():
            faulthandler.dump_traceback_later(PATIENCE, exit=True)
            print(name, flush=True)
            try:
                call(number)
            except ERRORS:
                pass
            except OverflowError as error:
                assert name == "Counter.add", (name, error)
            finally:
                faulthandler.cancel_dump_traceback_later()


if __name__ == "__main__":
    main(int(sys.argv[1]))
