"""Plans of vectors and their noise."""

import copy
import json
import math
import pickle
import threading
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pytest

import evertally as et

HORIZON = 40
# Trees, independent noise, noise that depends on all earlier steps, and convolutions.
MECHANISMS = [
    "smooth",
    "input",
    "binary",
    "blt",
    "banded-sqrt(bands=4)",
    "banded-inverse-sqrt(bands=4)",
    "banded-inverse(bands=2)",
    "sqrt",
    "normalized-sqrt",
]
FLOATS: tuple[Literal["float32", "float64"], ...] = ("float32", "float64")


def plan_of(mechanism: str | None = "smooth", **options: Any) -> et.training.VectorPlan:
    return et.training.plan_vector(HORIZON, rho=0.5, mechanism=mechanism, **options)


def steps(noise: et.VectorNoise, count: int) -> npt.NDArray[Any]:
    """The noise of the next `count` steps, one row for each."""
    return np.stack([noise.next() for _ in range(count)])


def test_a_plan_says_what_it_promises() -> None:
    plan = et.training.plan_vector(
        1000,
        norm=2.5,
        epsilon=2.0,
        delta=1e-6,
        mechanism="smooth",
        objective="mean",
        participations=4,
        separation=250,
        neighbours="replace-one",
        cipher="chacha8",
        meaning={"model": "digits"},
    )
    assert (plan.horizon, plan.norm, plan.series, plan.objective) == (1000, 2.5, "increments", "mean")
    assert (plan.participations, plan.separation, plan.neighbours) == (4, 250, "replace-one")
    assert (plan.cipher, plan.meaning) == ("chacha8", {"model": "digits"})
    assert plan.budget == et.Budget.approximate(2.0, 1e-6)
    assert plan.guarantee.epsilon_at(1e-6) == 2.0 < plan.guarantee.epsilon_at(1e-9)
    assert plan.guarantee.mu == pytest.approx(et.budget.mu_for(2.0, 1e-6))
    assert plan.guarantee.rho == pytest.approx(plan.guarantee.mu**2 / 2)
    # The shift due to replacing an example, in standard deviations.
    assert 2 * plan.norm * plan.sensitivity / plan.sigma == pytest.approx(plan.guarantee.mu, rel=1e-9)
    assert repr(plan.guarantee) == "VectorGuarantee(ε = 2, δ = 1e-6)"
    assert plan.mechanism.startswith("smooth") and plan.mechanism in repr(plan)
    assert et.training.plan_vector(10, budget=et.Budget.zcdp(0.5)).guarantee.mu == pytest.approx(1.0)
    assert plan_of(series="running-sums").series == "running-sums"


def test_errors_are_those_of_the_running_sums() -> None:
    plan = plan_of("binary")
    errors = plan.std_errors()
    assert errors.dtype == np.float64 and errors.shape == (HORIZON,)
    assert errors.max() == pytest.approx(plan.max_std_error, rel=1e-12)
    assert np.sqrt((errors**2).mean()) == pytest.approx(plan.mean_std_error, rel=1e-12)
    assert [plan.std_error(step) for step in (1, 7)] == plan.std_errors([1, 7]).tolist()
    independent = plan_of("input")
    assert independent.std_errors() == pytest.approx(independent.sigma * np.sqrt(np.arange(1, HORIZON + 1)))
    for wrong in (0, HORIZON + 1):
        with pytest.raises(et.InvalidError, match=f"1 to {HORIZON}"):
            plan.std_error(wrong)
        with pytest.raises(et.InvalidError, match=f"1 to {HORIZON}"):
            plan.std_errors([1, wrong])
    with pytest.raises(et.InvalidError, match="ask for some"):
        et.training.plan_vector(2**40, rho=0.5, mechanism="smooth").std_errors()


@pytest.mark.parametrize("objective", ["max", "mean"])
def test_the_ranking_is_in_order_and_the_best_of_constant_memory_is_chosen(objective: Literal["max", "mean"]) -> None:
    plan = et.training.plan_vector(500, rho=0.5, objective=objective)
    relative = [candidate.relative_error for candidate in plan.ranking]
    assert relative == sorted(relative) and relative[0] == 1.0 and len(relative) > 8
    best = next(candidate for candidate in plan.ranking if candidate.constant_memory)
    assert (best.name, best.sigma, best.max_std_error) == (plan.mechanism_name, plan.sigma, plan.max_std_error)
    assert best.sensitivity == plan.sensitivity and best.mean_std_error == plan.mean_std_error
    assert best.above_bound == plan.max_std_error / plan.lower_bound >= 1.0
    assert not all(candidate.constant_memory for candidate in plan.ranking)
    # A plan with a mechanism chosen by the caller also ranks the others, and is the same plan.
    named = et.training.plan_vector(500, rho=0.5, objective=objective, mechanism=plan.mechanism_name)
    assert named == plan and [c.name for c in named.ranking] == [c.name for c in plan.ranking]


def test_json_and_pickle_give_the_same_plan() -> None:
    plan = et.training.plan_vector(
        300, norm=0.1, epsilon=1.0, delta=1e-6, participations=3, separation=100, meaning={"a": "b"}
    )
    again = et.training.VectorPlan.from_json(plan.to_json())
    assert again == plan and again.digest == plan.digest and hash(again) == hash(plan)
    assert pickle.loads(pickle.dumps(plan)) == plan and copy.deepcopy(plan) == plan
    assert again.std_errors().tolist() == plan.std_errors().tolist()
    changed = json.loads(plan.to_json())
    changed["sigma"] *= 0.5
    with pytest.raises(et.InvalidError, match="sigma"):
        et.training.VectorPlan.from_json(json.dumps(changed))
    for text in ("", "{}", "[1, 2]", et.plan(10, rho=0.5).to_json()):
        with pytest.raises(et.InvalidError, match="not a plan for vectors"):
            et.training.VectorPlan.from_json(text)


def test_plans_that_differ_have_different_fingerprints() -> None:
    options: list[dict[str, Any]] = [
        {},
        {"norm": 2.0},
        {"series": "running-sums"},
        {"cipher": "chacha20"},
        {"neighbours": "replace-one"},
        {"participations": 2},
        {"participations": 2, "separation": 20},
        {"meaning": {"a": "b"}},
    ]
    plans = [plan_of(**option) for option in options]
    assert len({plan.digest for plan in plans}) == len(set(plans)) == len(options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epsilon": 1.0}, "pure"),
        ({}, "budget is needed"),
        ({"rho": 0.5, "budget": et.Budget.zcdp(0.5)}, "not both"),
        ({"rho": 1e9}, "rho"),
        ({"rho": 0.5, "norm": 0.0}, "clipping norm"),
        ({"rho": 0.5, "mechanism": "magic"}, "magic"),
        ({"rho": 0.5, "mechanism": "dense"}, "cannot stream"),
        ({"rho": 0.5, "objective": "median"}, "objective"),
        ({"rho": 0.5, "series": "sums"}, "series"),
        ({"rho": 0.5, "neighbours": "near"}, "neighbours"),
        ({"rho": 0.5, "cipher": "rot13"}, 'cipher must be one of "aes-128-ctr", "chacha8", "chacha20", got "rot13"'),
        ({"rho": 0.5, "participations": 0}, "at least"),
        ({"rho": 0.5, "separation": 0}, "at least"),
    ],
)
def test_senseless_requests_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(et.InvalidError, match=message) as caught:
        et.training.plan_vector(10, **options)
    assert "--" not in str(caught.value)
    with pytest.raises(TypeError, match="max_events"):
        et.training.plan_vector(10, rho=0.5, max_events=3)  # type: ignore[call-arg]


@pytest.mark.parametrize("horizon", [1, 2, 3, 100, 5000, 2**40])
def test_pictures_are_well_formed(horizon: int) -> None:
    for mechanism in (None, "smooth"):
        plan = et.training.plan_vector(horizon, rho=0.5, mechanism=mechanism)
        svg = ElementTree.fromstring(plan._repr_svg_())
        texts = [element.text for element in svg.iter("{http://www.w3.org/2000/svg}text")]
        assert "step" in texts and "standard error" in texts
        assert [line for line in svg.iter() if line.get("stroke-dasharray")]
        page = ElementTree.fromstring(plan._repr_html_())
        rows = list(page.iter("tr"))
        assert len(rows) == 1 + len(plan.ranking)
        bold = {row[0].text for row in rows[1:] if "bold" in row[0].get("style", "")}
        assert bold <= {plan.mechanism} and (mechanism or bold)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_noise_is_the_same_however_it_is_drawn(key: et.SecretKey, mechanism: str, dtype: Literal["float32"]) -> None:
    plan, d = plan_of(mechanism), 3000
    whole = steps(et.VectorNoise(plan, key, "run", coordinates=d, dtype=dtype), HORIZON)
    assert whole.dtype == dtype and whole.shape == (HORIZON, d)
    for threads, memory in ((0, "keep"), (2, "recompute")):
        tuning: dict[str, Any] = {"threads": threads, "memory": memory}
        tuned = et.VectorNoise(plan, key, "run", coordinates=d, dtype=dtype, **tuning)
        assert steps(tuned, HORIZON).tobytes() == whole.tobytes()
    for first, end in ((0, 1), (1, 600), (1023, 3000)):
        part = et.VectorNoise(plan, key, "run", coordinates=(first, end), dtype=np.dtype(dtype))
        assert (part.coordinates, len(part)) == ((first, end), end - first)
        assert steps(part, HORIZON).tobytes() == whole[:, first:end].tobytes()
    # Another key, name, plan or type has independent noise.
    others = [
        et.VectorNoise(plan, et.SecretKey.insecure_from_test_seed(et.TestSeed(2)), "run", coordinates=d, dtype=dtype),
        et.VectorNoise(plan, key, "other", coordinates=d, dtype=dtype),
        et.VectorNoise(plan_of(mechanism, meaning={"a": "b"}), key, "run", coordinates=d, dtype=dtype),
        et.VectorNoise(plan, key, "run", coordinates=d, dtype="float64" if dtype == "float32" else "float32"),
    ]
    for other in others:
        assert abs(np.corrcoef(other.next(), whole[0])[0, 1]) < 5 / np.sqrt(d)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_run_goes_on_from_any_checkpoint(key: et.SecretKey, mechanism: str) -> None:
    plan, d = plan_of(mechanism), 500
    noise = et.VectorNoise(plan, key, "run", coordinates=d)
    whole = steps(et.VectorNoise(plan, key, "run", coordinates=d), HORIZON)
    for step in range(HORIZON):
        state = noise.save()
        resumed = et.VectorNoise.restore(plan, key, "run", state, coordinates=d, threads=2, memory="recompute")
        assert resumed.step == step == noise.step
        assert resumed.next().tobytes() == noise.next().tobytes() == whole[step].tobytes()
    with pytest.raises(et.StateError):
        et.VectorNoise.restore(plan, key, "run", state[:-1] + bytes([state[-1] ^ 1]), coordinates=d)
    with pytest.raises(et.StateError):
        et.VectorNoise.restore(plan, key, "run", state, coordinates=d + 1)
    with pytest.raises(et.StateError):
        et.VectorNoise.restore(plan, key, "run", state, coordinates=d, dtype="float64")
    with pytest.raises(et.StateError):
        et.VectorNoise.restore(plan, key, "walk", state, coordinates=d)


@pytest.mark.parametrize("mechanism", ["smooth", "input", "binary"])
def test_seeking(key: et.SecretKey, mechanism: str) -> None:
    noise = et.VectorNoise(plan_of(mechanism), key, "run", coordinates=100)
    whole = steps(noise, HORIZON)
    for step in (0, HORIZON - 1, 7, 8, 3):
        noise.seek(step)
        assert noise.step == step and noise.next().tobytes() == whole[step].tobytes()
    noise.seek(HORIZON)
    with pytest.raises(et.HorizonExhausted, match=f"all {HORIZON} steps"):
        noise.next()
    with pytest.raises(et.InvalidError, match="beyond the horizon"):
        noise.seek(HORIZON + 1)
    assert noise.step == HORIZON == noise.horizon
    # If noise depends on all earlier steps, it can only seek forwards.
    noise = et.VectorNoise(plan_of("blt"), key, "run", coordinates=100)
    whole = steps(noise, 5)
    with pytest.raises(et.InvalidError, match="checkpoint"):
        noise.seek(3)
    noise = et.VectorNoise(plan_of("blt"), key, "run", coordinates=100)
    noise.seek(4)
    assert noise.step == 4 and noise.next().tobytes() == whole[4].tobytes()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_noise_has_the_variance_of_the_plan(key: et.SecretKey, mechanism: str) -> None:
    """A sample variance of n normals is off by more than 5 of its standard deviations (√(2/n) relative) with
    probability 6·10⁻⁷; so is a mean."""
    d, horizon = 1_000_000, 6
    for series in ("running-sums", "increments"):
        plan = et.training.plan_vector(horizon, norm=3.0, rho=0.1, mechanism=mechanism, series=series)
        noise = et.VectorNoise(plan, key, series, coordinates=d, threads=0)
        total = np.zeros(d, dtype=np.float32)
        for step in range(1, horizon + 1):
            if series == "increments":
                noise.add_next(total)
            else:
                noise.next_into(total)
            if step in (1, 3, horizon):
                relative = total.astype(np.float64) / plan.std_error(step)
                assert abs((relative**2).mean() - 1) < 5 * np.sqrt(2 / d)
                assert abs(relative.mean()) < 5 / np.sqrt(d)


def test_arrays_are_written_in_place(key: et.SecretKey) -> None:
    plan, d = plan_of(), 24
    first = et.VectorNoise(plan, key, "run", coordinates=d).next()
    for shape in ((24,), (4, 6), (2, 3, 4), (1, 24, 1)):
        noise = et.VectorNoise(plan, key, "run", coordinates=d)
        array = np.full(shape, 10.0, dtype=np.float32)
        assert noise.next_into(array) is array
        assert array.reshape(-1).tobytes() == first.tobytes()
        again = et.VectorNoise(plan, key, "run", coordinates=d)
        array = np.full(shape, 10.0, dtype=np.float32)
        assert again.add_next(array) is array
        assert array.reshape(-1).tobytes() == (np.float32(10.0) + first).tobytes()
    # Part of a larger array: nothing next to it changes.
    large = np.zeros(100, dtype=np.float32)
    et.VectorNoise(plan, key, "run", coordinates=d).next_into(large[10:34])
    assert large[10:34].tobytes() == first.tobytes() and not large[:10].any() and not large[34:].any()


def wrong_arrays() -> list[tuple[Any, type[Exception], str]]:
    d = 24
    read_only = np.zeros(d, dtype=np.float32)
    read_only.flags.writeable = False
    unaligned = np.frombuffer(bytearray(4 * d + 1), dtype=np.uint8)[1:].view(np.float32)
    return [
        (np.zeros(d), TypeError, "the dtype of the noise, float32, got float64"),
        (np.zeros(d, dtype=np.int32), TypeError, "got int32"),
        (np.zeros(d, dtype=">f4"), TypeError, "got >f4"),
        ([0.0] * d, TypeError, "numpy.ndarray, got list"),
        (bytearray(4 * d), TypeError, "numpy.ndarray, got bytearray"),
        (None, TypeError, "got NoneType"),
        (np.zeros(d + 1, dtype=np.float32), et.InvalidError, r"24 coordinates, but the array has 25 \(shape \(25,\)\)"),
        (np.zeros((2, 11), dtype=np.float32), et.InvalidError, r"shape \(2, 11\)"),
        (np.zeros(0, dtype=np.float32), et.InvalidError, "the array has 0"),
        (np.zeros(2 * d, dtype=np.float32)[::2], et.InvalidError, r"C-contiguous and aligned, got strides \(8,\)"),
        (np.zeros(d, dtype=np.float32)[::-1], et.InvalidError, "strides"),
        (np.zeros((4, 6), dtype=np.float32, order="F"), et.InvalidError, "C-contiguous"),
        (np.broadcast_to(np.float32(0), (d,)), et.InvalidError, "C-contiguous"),
        (unaligned, et.InvalidError, "aligned"),
        (read_only, et.InvalidError, "read-only"),
    ]


@pytest.mark.parametrize(("array", "kind", "message"), wrong_arrays())
def test_arrays_that_cannot_be_written_are_refused(
    key: et.SecretKey, array: Any, kind: type[Exception], message: str
) -> None:
    noise = et.VectorNoise(plan_of(), key, "run", coordinates=24)
    methods: list[Callable[[Any], Any]] = [noise.add_next, noise.next_into]
    for method in methods:
        with pytest.raises(kind, match=message):
            method(array)
    assert noise.step == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"coordinates": 0}, "must not be empty"),
        ({"coordinates": (5, 5)}, "must not be empty"),
        ({"coordinates": (0, 2**56 + 1)}, r"2\^56"),
        ({"coordinates": -1}, r"a range \(first, end\), got -1"),
        ({"coordinates": 1.5}, "got 1.5"),
        ({"coordinates": (1, 2, 3)}, "got"),
        ({"coordinates": 5, "dtype": "float16"}, 'dtype must be "float32" or "float64", got'),
        ({"coordinates": 5, "dtype": "much"}, "dtype"),
        ({"coordinates": 5, "dtype": ">f4"}, "dtype"),
        ({"coordinates": 5, "memory": "forget"}, 'memory must be one of "keep", "recompute", got "forget"'),
    ],
)
def test_senseless_streams_are_refused(key: et.SecretKey, options: dict[str, Any], message: str) -> None:
    with pytest.raises(et.InvalidError, match=message):
        et.VectorNoise(plan_of(), key, "run", **options)


def test_more_than_the_memory_is_an_error(key: et.SecretKey) -> None:
    with pytest.raises(MemoryError, match="coordinates"):
        et.VectorNoise(plan_of(), key, "run", coordinates=2**50)


def test_wrong_names_are_refused_and_nothing_secret_is_shown(key: et.SecretKey) -> None:
    with pytest.raises(et.InvalidError):
        et.VectorNoise(plan_of(), key, "", coordinates=5)
    noise = et.VectorNoise(plan_of(), key, "run", coordinates=(5, 9))
    assert repr(noise) == f'VectorNoise("run", coordinates=(5, 9), dtype="float32", step 0 of {HORIZON})'
    assert (noise.name, noise.dtype, noise.plan) == ("run", "float32", plan_of())
    for copied in (pickle.dumps, copy.copy):
        with pytest.raises(TypeError, match="checkpoint"):
            copied(noise)


def test_memory_is_what_is_kept(key: et.SecretKey) -> None:
    keep, recompute = (
        et.VectorNoise(plan_of("binary"), key, "run", coordinates=1000, memory=memory)
        for memory in ("keep", "recompute")
    )
    for noise in (keep, recompute):
        assert noise.memory_bytes == 0
        steps(noise, HORIZON)
    assert keep.memory_bytes > recompute.memory_bytes


def test_threads_take_turns_at_one_stream(key: et.SecretKey) -> None:
    plan, d = plan_of(), 20_000
    expected = {row.tobytes() for row in steps(et.VectorNoise(plan, key, "run", coordinates=d), HORIZON)}
    noise, found, refused = et.VectorNoise(plan, key, "run", coordinates=d), [], []

    def draw() -> None:
        try:
            while True:
                found.append(noise.next().tobytes())
        except et.HorizonExhausted as error:
            refused.append(error)

    workers = [threading.Thread(target=draw) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert set(found) == expected and len(found) == HORIZON and len(refused) == 4


def test_one_array_is_never_written_by_two_streams_at_once(key: et.SecretKey) -> None:
    """While one thread works on an array, another thread gets an error. They try until it happens."""
    plan = et.training.plan_vector(100_000, rho=0.5, mechanism="smooth")
    array = np.zeros(1_000_000, dtype=np.float32)
    streams = [et.VectorNoise(plan, key, f"run {i}", coordinates=len(array)) for i in range(2)]
    problems: list[Exception] = []
    done = [0, 0]

    def draw(worker: int) -> None:
        while not problems and done[worker] < plan.horizon:
            try:
                streams[worker].add_next(array)
                done[worker] += 1
            except Exception as problem:
                problems.append(problem)

    workers = [threading.Thread(target=draw, args=(worker,)) for worker in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert problems and [noise.step for noise in streams] == done
    assert all(isinstance(problem, et.InvalidError) and "another thread" in str(problem) for problem in problems)


def test_an_optimizer_is_planned_for() -> None:
    rates = [0.1 * (1 - t / HORIZON) for t in range(HORIZON)]
    for options in (
        {"learning_rate": 0.1, "momentum": 0.9},
        {"learning_rate": 0.1, "schedule": "cosine", "warmup": 4, "momentum": 0.9, "weight_decay": 0.1},
        {"learning_rate": rates},
        {"learning_rate": np.array(rates), "weight_decay": 0.5},
        {"learning_rate": 0.1, "momentum": 0.9, "nesterov": True},
        {"learning_rate": 0.1, "average_decay": 0.9},
        {"learning_rate": 0.1, "average_steps": 5},
    ):
        plan = plan_of(None, **options)
        # The same mechanism, without and with an optimizer: the guarantee is the same, the errors differ.
        sums = plan_of(plan.mechanism_name)
        assert plan.sigma == sums.sigma and plan.digest != sums.digest
        assert plan.optimizer is not None and plan.optimizer in plan._repr_html_()
        assert plan.max_std_error == pytest.approx(plan.std_errors().max())
        assert plan.ranking[0].max_std_error <= plan.max_std_error
        assert plan.lower_bound < plan.max_std_error
        assert et.training.VectorPlan.from_json(plan.to_json()) == plan
    last = plan_of(None, learning_rate=0.1, counted_steps=1)
    assert last.max_std_error == pytest.approx(last.std_errors()[-1]) == pytest.approx(last.mean_std_error)
    # The error of the parameters equals that of a loop.
    plan = plan_of("normalized-blt", learning_rate=rates, momentum=0.5)
    key = et.SecretKey.insecure_from_test_seed(et.TestSeed(3))
    noise = et.VectorNoise(plan, key, "loop", coordinates=20_000, dtype="float64")
    momentum, parameters = np.zeros(20_000), np.zeros(20_000)
    for rate, error in zip(rates, plan.std_errors(), strict=True):
        momentum = 0.5 * momentum + noise.next()
        parameters -= rate * momentum
        assert parameters.std() == pytest.approx(error, rel=5 / np.sqrt(2 * 20_000))


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"momentum": 0.9}, "learning_rate"),
        ({"learning_rate": 0.1, "momentum": 1.5}, "momentum"),
        ({"learning_rate": [0.1]}, "1 learning rates"),
        ({"learning_rate": 0.1, "warmup": 3}, "cosine"),
        ({"learning_rate": 0.1, "schedule": "linear"}, "linear"),
        ({"learning_rate": -0.1}, "learning rates"),
        ({"learning_rate": 0.1, "weight_decay": 20.0}, "above 1"),
        ({"nesterov": True}, "learning_rate"),
        ({"learning_rate": 0.1, "average_decay": 0.9, "average_steps": 5}, "one average"),
        ({"learning_rate": 0.1, "average_decay": 1.0}, "0.999999"),
        ({"learning_rate": 0.1, "counted_steps": 1000}, "1000 last steps"),
    ],
)
def test_senseless_optimizers_are_refused(options: dict[str, Any], part: str) -> None:
    with pytest.raises(et.InvalidError, match=part):
        plan_of(**options)


def test_a_separation_alone_is_as_often_as_it_allows() -> None:
    """Min-separation is how DP-FTRL and federated learning describe participation."""
    both = et.training.plan_vector(2000, epsilon=2.0, delta=1e-6, mechanism="input", participations=42, separation=48)
    alone = et.training.plan_vector(2000, epsilon=2.0, delta=1e-6, mechanism="input", separation=48)
    once = et.training.plan_vector(2000, epsilon=2.0, delta=1e-6, mechanism="input")
    assert (alone.participations, alone.separation) == (42, 48) and alone == both
    assert alone.sigma == pytest.approx(once.sigma * math.sqrt(42))
    assert (once.participations, once.separation) == (1, 1)
    assert et.training.plan_vector(10, rho=1.0, separation=1, mechanism="input").participations == 10
    assert et.training.plan_vector(10, rho=1.0, separation=50, mechanism="input").participations == 1
    assert et.training.plan_vector(10, rho=1.0, participations=3, mechanism="input").separation == 1


@pytest.mark.parametrize("order", [{"participations": 1}, {"separation": 3}, {"participations": 2, "separation": 9}])
def test_orders_that_contradict_the_sampling_are_refused(order: dict[str, Any]) -> None:
    with pytest.raises(et.InvalidError, match="omit participations and separation"):
        sampling: dict[str, Any] = {"sampling": "cyclic-poisson", "sampled_fraction": 0.1}
        et.training.plan_vector(40, epsilon=2.0, delta=1e-5, mechanism="epoch-bands(bands=4)", **sampling, **order)


class TestFixedBatches:
    plan = et.training.plan_vector(12, rho=0.5, participations=3, separation=4)

    def test_they_are_the_same_in_every_epoch(self) -> None:
        batches = et.training.FixedBatches(self.plan, examples=33, batch_size=8)
        assert [batch.tolist() for batch in batches] == [list(range(8 * k, 8 * k + 8)) for k in (0, 1, 2, 3)] * 3
        assert len(batches) == 12 and batches[-1].tolist() == batches.batch(12).tolist() == list(range(24, 32))
        assert batches.expected_size == 8
        for step in (0, 13):
            with pytest.raises(et.InvalidError, match="not one of the plan's 12 steps"):
                batches.batch(step)
        with pytest.raises(IndexError):
            batches[12]

    @pytest.mark.parametrize(("examples", "size"), [(32, 16), (24, 8), (31, 8), (8, 8)])
    def test_what_contradicts_the_plan_is_refused(self, examples: int, size: int) -> None:
        with pytest.raises(et.InvalidError, match="plan with participations="):
            et.training.FixedBatches(self.plan, examples=examples, batch_size=size)

    def test_plans_with_lots_and_senseless_sizes_are_refused(self) -> None:
        sampled = et.training.plan_vector(
            40, epsilon=2, delta=1e-5, sampling="cyclic-poisson", sampled_fraction=0.1, mechanism="epoch-bands(bands=4)"
        )
        with pytest.raises(et.InvalidError, match="requires sampled batches"):
            et.training.FixedBatches(sampled, examples=100, batch_size=10)
        for size in (0, -1, 34):
            with pytest.raises(et.InvalidError, match="batch_size must be 1 to 33"):
                et.training.FixedBatches(self.plan, examples=33, batch_size=size)

    def test_noise_takes_its_own_batches_alone(self, key: et.SecretKey) -> None:
        other = et.training.plan_vector(12, rho=1.0, participations=3, separation=4)
        batches = et.training.FixedBatches(self.plan, examples=32, batch_size=8)
        et.VectorNoise(self.plan, key, "own batches", coordinates=3, batches=batches)
        with pytest.raises(et.InvalidError, match="another plan, key or name"):
            et.VectorNoise(other, key, "own batches", coordinates=3, batches=batches)
        sampled = et.training.plan_vector(
            40, epsilon=2, delta=1e-5, sampling="cyclic-poisson", sampled_fraction=0.1, mechanism="epoch-bands(bands=4)"
        )
        drawn = et.training.Batches(sampled, key, "drawn", examples=100)
        with pytest.raises(et.InvalidError, match="another plan, key or name"):
            et.VectorNoise(sampled, key, "other name", coordinates=3, batches=drawn)


class TestSumsThatCannotBe:
    """Impossible sums are refused before noise is drawn for them."""

    plan = et.training.plan_vector(12, norm=0.7, rho=0.5, mechanism="smooth", participations=3, separation=4)

    @pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    def test_not_finite(self, key: et.SecretKey, bad: float, dtype: Literal["float32"]) -> None:
        noise = et.VectorNoise(self.plan, key, f"finite {bad} {dtype}", coordinates=1000, dtype=dtype)
        total = np.zeros(1000, dtype)
        total[517] = bad
        with pytest.raises(et.InvalidError, match="NaN or infinite"):
            noise.add_next(total)
        with pytest.raises(et.InvalidError, match="NaN or infinite"):
            noise.next(of=total)
        assert noise.step == 0 and (total[:517] == 0).all()
        noise.add_next(np.zeros(1000, dtype))  # the step is still available for any sum

    def test_too_long(self, key: et.SecretKey) -> None:
        batches = et.training.FixedBatches(self.plan, examples=32, batch_size=8)
        noise = et.VectorNoise(self.plan, key, "too long", coordinates=100, batches=batches)
        long = np.full(100, 0.7 * 8 / 10, np.float32)
        with pytest.raises(et.InvalidError, match="longer than possible for its number of examples"):
            noise.add_next(np.float32(1.01) * long)
        with pytest.raises(et.InvalidError, match="a different number of examples"):
            noise.add_next(long.copy(), examples=9)
        assert noise.step == 0
        noise.add_next(long.copy())
        free = et.VectorNoise(self.plan, key, "said", coordinates=100)
        with pytest.raises(et.InvalidError, match="longer than possible for its number of examples"):
            free.add_next(long.copy(), examples=7)
        free.add_next(long.copy(), examples=8)

    def test_rows(self, key: et.SecretKey) -> None:
        noise = et.training.RowNoise(self.plan, key, "rows", rows=10, width=4, rates=0.1)
        table = noise.catch_up(np.zeros((10, 4), np.float32), [3])
        before = table.copy()
        for gradient, examples, part in [(np.nan, None, "NaN or infinite"), (2.0, 5, "longer than")]:
            given = np.full((1, 4), gradient, np.float32)
            for call in (noise.descend, noise.check):
                with pytest.raises(et.InvalidError, match=part):
                    call(table, [3], given, examples=examples)
        assert noise.step == 0 and (table == before).all()
        noise.descend(table, [3], np.full((1, 4), 1.75, np.float32), examples=5)
