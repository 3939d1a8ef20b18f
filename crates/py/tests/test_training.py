"""Training options, plans with sampled examples, and their batches."""

import json
import pathlib
from typing import Any
from xml.etree import ElementTree

import evertally as et
import numpy as np
import pytest
from evertally.training._order import order_of

KEY = et.SecretKey.insecure_from_test_seed(et.TestSeed(11))
SCHEMES = ("poisson", "cyclic-poisson", "random-allocation", "per-epoch-random-allocation")


def plan(**more: Any) -> et.training.VectorPlan:
    given: dict[str, Any] = {"epsilon": 2.0, "delta": 1e-5, "mechanism": "epoch-bands(bands=8)"}
    sampling: dict[str, Any] = {"sampling": "cyclic-poisson", "sampled_fraction": 0.02}
    return et.training.plan_vector(200, **(given | sampling | more))


def allocated(horizon: int, steps_per_epoch: int, *, per_epoch: bool = False, **more: Any) -> et.training.VectorPlan:
    sampling: Any = "per-epoch-random-allocation" if per_epoch else "random-allocation"
    given: dict[str, Any] = {"delta": 1e-5, "sampling": sampling, "steps_per_epoch": steps_per_epoch}
    return et.training.plan_vector(horizon, **(given | more))


class TestPlanTraining:
    def test_options_are_ranked_and_described(self) -> None:
        options = et.training.plan_training(3000, 100, 2, epsilon=1.0, delta=1e-5)
        errors = [option.plan.max_std_error for option in options]
        assert errors == sorted(errors) and options.steps == 60
        assert {option.sampling for option in options} == {None, *SCHEMES}
        for option in options:
            assert option.plan.horizon == 60 and option.plan.guarantee.epsilon_at(1e-5) <= 1.0
            assert option.relative_error == pytest.approx(option.plan.max_std_error / errors[0])
            assert (option.steps, option.batch_size) == (60, 100.0) and option.memory_gib is None
            assert option.noise_multiplier == option.plan.noise_multiplier == option.plan.sigma
            assert option.plan.sampling == option.sampling
        fixed = next(option.plan for option in options if option.sampling is None)
        assert (fixed.participations, fixed.separation) == (2, 30)
        assert options[-1].description == options[len(options) - 1].description and options.best.description in str(
            options
        )
        with pytest.raises(IndexError):
            options[len(options)]

    def test_independent_noise_is_best_where_it_is(self) -> None:
        options = et.training.plan_training(1000, 500, 20, epsilon=0.2, delta=1e-5)
        assert "DP-SGD" in options.best.description or "independent noise" in options.best.description
        assert options.best.plan.mechanism == "input"
        assert f"best: {options.best.description}" in str(options)

    def test_memory_decides_what_fits(self) -> None:
        few = et.training.plan_training(2000, 20, 2, epsilon=8.0, delta=1e-5, max_memory=4)
        assert few.best.memory <= 4 and any(not option.fits and "too much" in str(few) for option in few)

    def test_batches_need_not_divide_the_data(self) -> None:
        options = et.training.plan_training(1030, 100, 2, epsilon=1.0, delta=1e-5)
        allocated = [option for option in options if option.sampling in SCHEMES[2:]]
        assert {option.sampling for option in allocated} == set(SCHEMES[2:])
        assert all((option.steps, option.batch_size) == (20, 103.0) for option in allocated)
        poisson = next(option for option in options if option.sampling == "poisson")
        assert (poisson.steps, poisson.batch_size) == (options.steps, 100.0) == (21, 100.0)
        errors = [option.plan.max_std_error / option.batch_size for option in options]
        assert errors == sorted(errors) and "103" in str(options)
        batches = et.training.Batches(allocated[0].plan, KEY, "uneven", examples=1030)
        assert batches.expected_size == 103.0 and len(np.unique(np.concatenate([*batches][:10]))) == 1030
        assert order_of(allocated[0].plan, KEY, "uneven", 1030, 100).expected_size == 103.0
        with pytest.raises(ValueError, match="not 90"):
            order_of(allocated[0].plan, KEY, "uneven", 1030, 90)

    def test_options_out_of_reach_are_listed(self) -> None:
        options = et.training.plan_training(100, 100, 3, epsilon=1.0, delta=1e-5)
        omitted = {option.description: option.reason for option in options.omitted}
        assert "one step" in omitted["random allocation"] and "random allocation" in str(options)
        assert "not available" in str(options).lower() and "Not available" in options._repr_html_()
        without_delta = et.training.plan_training(3000, 100, 2, rho=0.5)
        assert all("give the budget as epsilon and delta" in option.reason for option in without_delta.omitted)
        assert "OmittedOption(" in repr(options.omitted[0]) and options.omitted[0].sampling is not None

    def test_more_steps_than_any_mechanism_has(self) -> None:
        options = et.training.plan_training(3_000_000, 1, 1, epsilon=2.0, delta=1e-7)
        assert "DP-SGD" in str(options) and options.best.plan.horizon == 3_000_000
        reasons = [option.reason for option in options.omitted]
        assert any("1048576 steps" in reason for reason in reasons) and not any("`input`, " in text for text in reasons)

    def test_memory_in_gib(self) -> None:
        options = et.training.plan_training(2000, 20, 2, epsilon=8.0, delta=1e-5, parameters=2**28, memory=4.0)
        for option in options:
            assert option.memory_gib is not None and option.fits == (option.memory_gib <= 4.0)
        assert options.best.memory_gib is not None and 0 < options.best.memory_gib <= 4.0 and "GiB" in str(options)
        assert any(not option.fits for option in options)
        independent = next(option for option in options if option.plan.mechanism == "input")
        assert independent.memory_gib == 0.0
        for wrong in ({"memory": 1.0}, {"parameters": 0}, {"parameters": 5, "memory": -1.0}):
            with pytest.raises(et.InvalidError):
                et.training.plan_training(2000, 20, 2, epsilon=8.0, delta=1e-5, **wrong)

    def test_progress_has_an_estimate_of_the_total(self) -> None:
        seen: list[tuple[int, int | None]] = []
        et.training.plan_training(1000, 50, 2, epsilon=2.0, delta=1e-5, progress=lambda *own: seen.append(own))
        assert all(total is not None and done <= total for done, total in seen)

    def test_plans_are_saved(self, tmp_path: pathlib.Path) -> None:
        plan = et.training.plan_training(1000, 50, 2, epsilon=2.0, delta=1e-5).plan
        plan.save(tmp_path / "plan.json")
        assert et.training.VectorPlan.load(str(tmp_path / "plan.json")) == plan
        with pytest.raises(OSError):
            et.training.VectorPlan.load(tmp_path / "other.json")

    def test_the_picture_is_one(self) -> None:
        options = et.training.plan_training(3000, 100, 1, epsilon=1.0, delta=1e-5)
        assert ElementTree.fromstring(options.svg()).tag.endswith("svg")
        assert "<table" in options._repr_html_() and options.best.description in options._repr_html_()

    def test_the_picture_has_every_scheme_and_dp_sgd(self) -> None:
        options = et.training.plan_training(6000, 200, 10, epsilon=2.0, delta=1e-5)
        assert len(options) > 7
        required = [next(option for option in options if option.sampling == scheme) for scheme in (None, *SCHEMES)]
        required.append(next(option for option in options if "DP-SGD" in option.description))
        assert all(option.description in options.svg() for option in required if option.relative_error < 3)
        assert (
            options[len(options) - 1].relative_error > 3 and options[len(options) - 1].description not in options.svg()
        )

    def test_without_delta_only_the_fixed_order_is_compared(self) -> None:
        options = et.training.plan_training(3000, 100, 2, rho=0.5)
        assert {option.sampling for option in options} == {None}

    @pytest.mark.parametrize("run", [(100, 0, 1), (100, 101, 1), (100, 10, 0), (100, 10, float("nan"))])
    def test_senseless_runs_are_refused(self, run: tuple[int, int, float]) -> None:
        with pytest.raises(et.InvalidError):
            et.training.plan_training(*run, rho=0.5)


class TestSampledPlans:
    def test_they_come_back_from_json(self) -> None:
        own = plan()
        again = et.training.VectorPlan.from_json(own.to_json())
        assert again == own and (again.sampled_fraction, again.groups, again.participations) == (0.02, 8, 25)
        assert again.sampling == "cyclic-poisson" and plan(mechanism="input").sampling == "poisson"
        changed = json.loads(own.to_json()) | {"sampling": {"cyclic-poisson": {"fraction": 0.01}}}
        with pytest.raises(et.InvalidError):
            et.training.VectorPlan.from_json(json.dumps(changed))

    def test_independent_noise_is_that_of_dp_sgd(self) -> None:
        own = plan(mechanism="input", norm=3.0)
        noise = et.budget.noise_of_sampled(2.0, 1e-5, rate=0.02, steps=200)
        assert own.sigma == pytest.approx(3 * noise, rel=1e-9) and own.sigma >= 3 * noise
        assert et.budget.epsilon_of_sampled(noise, rate=0.02, steps=200, delta=1e-5) <= 2.0
        # dp-accounting 0.6 (PLD, both directions): 0.95911 for 1000 steps at 0.01
        assert et.budget.noise_of_sampled(2.0, 1e-5, rate=0.01, steps=1000) == pytest.approx(0.9591, rel=2e-3)

    def test_no_bound_is_claimed(self) -> None:
        own = plan(mechanism=None)
        assert own.lower_bound == 0.0 and own.ranking[0].above_bound == float("inf")
        assert "inf" not in own._repr_html_()

    @pytest.mark.parametrize(
        "more",
        [
            {"epsilon": None, "delta": None, "rho": 0.5},
            {"neighbours": "replace-one"},
            {"mechanism": "blt"},
            {"mechanism": "epoch-bands(bands=51)"},
            {"sampled_fraction": 0.0},
            {"sampling": "poisson"},
            {"participations": 3, "separation": 10},
        ],
    )
    def test_what_has_no_proof_is_refused(self, more: dict[str, Any]) -> None:
        with pytest.raises(et.InvalidError):
            plan(**more)


class TestBatches:
    def test_they_are_those_of_plan_key_and_name(self) -> None:
        own = plan()
        batches = et.training.Batches(own, KEY, "run", examples=1000)
        assert len(batches) == 200 and batches.expected_size == 20.0 and batches.groups == 8
        for step, batch in enumerate(batches, 1):
            assert batch.dtype == np.int64 and (batch % 8 == (step - 1) % 8).all()
            np.testing.assert_array_equal(batch, batches.batch(step))
        assert batches.is_of(own, KEY, "run")
        other = et.SecretKey.insecure_from_test_seed(et.TestSeed(12))
        assert not (batches.is_of(plan(norm=2.0), KEY, "run") or batches.is_of(own, other, "run"))
        assert not batches.is_of(own, KEY, "other")
        for step in (0, 201):
            with pytest.raises(et.InvalidError):
                batches.batch(step)
        with pytest.raises(et.InvalidError, match="no sampling"):
            et.training.Batches(et.training.plan_vector(10, rho=0.5), KEY, "run", examples=10)


class TestRandomAllocation:
    def test_every_example_is_in_one_step_of_every_epoch(self) -> None:
        plan = allocated(25, 10, epsilon=8.0, mechanism="blt(buffers=2)")
        assert (plan.sampling, plan.steps_per_epoch, plan.groups) == ("random-allocation", 10, None)
        assert (plan.sampled_fraction, plan.participations) == (0.1, 3)
        batches = et.training.Batches(plan, KEY, "allocated", examples=1000)
        assert (batches.sampling, batches.steps_per_epoch, batches.groups) == ("random-allocation", 10, None)
        assert (batches.expected_size, len(batches)) == (100.0, 25)
        epoch = np.sort(np.concatenate([batches.batch(step) for step in range(1, 11)]))
        assert (epoch == np.arange(1000)).all()
        assert all((batches.batch(step) == batches.batch(step - 10)).all() for step in range(11, 26))
        assert "random-allocation, 25 steps, 10 per epoch" in repr(batches)

    def test_plans_come_back_from_json_and_need_less_noise(self) -> None:
        plan = allocated(20, 10, epsilon=8.0, mechanism="banded-sqrt(bands=5)")
        again = et.training.VectorPlan.from_json(plan.to_json())
        assert again == plan and again.steps_per_epoch == 10 and again.sigma == plan.sigma
        fixed = et.training.plan_vector(
            20, epsilon=8.0, delta=1e-5, participations=2, separation=10, mechanism="banded-sqrt(bands=5)"
        )
        assert plan.sigma < 0.9 * fixed.sigma
        assert plan.guarantee.epsilon_at(1e-5) == 8.0

    def test_senseless_sampling_is_refused(self) -> None:
        def refused(words: str, horizon: int = 20, steps_per_epoch: int | None = 10, **more: Any) -> None:
            given: dict[str, Any] = {"sampling": "random-allocation", "epsilon": 8.0, "delta": 1e-5} | more
            with pytest.raises(et.InvalidError, match=words):
                et.training.plan_vector(horizon, steps_per_epoch=steps_per_epoch, **given)

        refused("needs steps_per_epoch", sampled_fraction=0.1)
        refused("needs steps_per_epoch", steps_per_epoch=None)
        refused("needs sampled_fraction", sampling="poisson")
        refused("needs sampled_fraction", sampling="cyclic-poisson", sampled_fraction=0.1)
        refused("name it", sampling=None)
        refused("name it", sampling=None, steps_per_epoch=None, sampled_fraction=0.1)
        refused('sampling must be one of "poisson", .* got "bins"', sampling="bins")
        refused("add-remove", neighbours="replace-one")
        refused("epsilon and delta", epsilon=None, delta=None, rho=0.5)
        refused("plan without sampling", mechanism="binary")
        refused("plan at least one epoch", steps_per_epoch=30, mechanism="input")
        refused("1 to 2048 steps per epoch", 5000, 2500, mechanism="banded-sqrt(bands=2)")
        refused("steps per epoch must be at least 1", steps_per_epoch=0)


class TestPerEpochRandomAllocation:
    def test_every_example_is_in_another_step_in_every_epoch(self) -> None:
        plan = allocated(30, 10, per_epoch=True, epsilon=4.0, mechanism="banded-sqrt(bands=3)")
        assert (plan.sampling, plan.steps_per_epoch) == ("per-epoch-random-allocation", 10)
        assert (plan.groups, plan.sampled_fraction) == (None, 0.1)
        assert (plan.participations, plan.separation) == (3, 3)
        batches = et.training.Batches(plan, KEY, "fresh", examples=1000)
        assert (batches.sampling, batches.steps_per_epoch) == ("per-epoch-random-allocation", 10)
        assert (batches.groups, batches.expected_size) == (None, 100.0)
        steps: dict[int, list[int]] = {example: [] for example in range(1000)}
        for step, batch in enumerate(batches, 1):
            for example in batch.tolist():
                steps[example].append(step)
        assert all(len(own) == 3 and min(np.diff(own)) >= 3 for own in steps.values())
        assert sum(own[0] + 10 != own[1] for own in steps.values()) > 800
        assert (batches[-1] == batches.batch(30)).all() and (batches[-30] == batches[0]).all()
        assert "per-epoch-random-allocation, 30 steps, 10 per epoch" in repr(batches)
        with pytest.raises(IndexError, match="30 batches"):
            batches[-31]

    def test_plans_come_back_from_json_and_need_less_noise(self) -> None:
        given: dict[str, Any] = {"epsilon": 2.0, "mechanism": "banded-sqrt(bands=4)"}
        plan = allocated(80, 20, per_epoch=True, **given)
        again = et.training.VectorPlan.from_json(plan.to_json())
        assert again == plan and again.steps_per_epoch == 20 and again.sigma == plan.sigma
        assert plan.sigma < 0.9 * allocated(80, 20, **given).sigma
        assert plan.guarantee.epsilon_at(1e-5) == 2.0

    def test_senseless_sampling_is_refused(self) -> None:
        def refused(words: str, steps_per_epoch: Any = 10, **more: Any) -> None:
            given: dict[str, Any] = {"epsilon": 8.0, "mechanism": "input"} | more
            with pytest.raises(et.InvalidError, match=words):
                allocated(20, steps_per_epoch, per_epoch=True, **given)

        refused("needs steps_per_epoch", sampled_fraction=0.1)
        refused("banded-sqrt", mechanism="blt")
        refused("at most 10 bands", mechanism="banded-sqrt(bands=11)")
        refused("plan at least one epoch", 30)
        refused("steps per epoch must be at least 1", 0)
        refused("True is not a whole number", True)
        refused("omit participations and separation", participations=3, separation=5)


def replaced(**more: Any) -> et.training.VectorPlan:
    given: dict[str, Any] = {"sampling": "fixed-size", "sampled_fraction": 0.01, "neighbours": "replace-one"}
    return et.training.plan_vector(1000, delta=1e-5, **(given | more))


class TestFixedSize:
    def test_the_noise_is_that_of_replaced_examples(self) -> None:
        # From a fine grid of losses, composed in NumPy: ε = 2.198924 for noise of twice the norm.
        own = replaced(epsilon=2.198924, mechanism="input")
        assert own.sigma == pytest.approx(2.0, rel=1e-4)
        assert (own.sampling, own.groups, own.neighbours) == ("fixed-size", 1, "replace-one")
        assert et.training.VectorPlan.from_json(own.to_json()) == own
        assert own.guarantee.epsilon_at(1e-6) > 2.2 and own.spent(through=10).epsilon_at(1e-5) < 2.0
        with pytest.raises(et.InvalidError, match="replace-one"):
            replaced(epsilon=2.0, neighbours="add-remove", mechanism="input")

    def test_batches_have_one_size(self) -> None:
        own = replaced(epsilon=2.0, mechanism="epoch-bands(bands=2)")
        batches = et.training.Batches(own, KEY, "fixed", examples=1001)
        assert (batches.sampling, batches.groups, batches.expected_size, batches.max_size) == ("fixed-size", 2, 10, 10)
        for step in range(1, 50):
            batch = batches.batch(step)
            assert len(set(batch.tolist())) == 10 and (batch % 2 == (step - 1) % 2).all()
        assert (batches.batch(1) != batches.batch(3)).any()

    def test_it_competes_for_replaced_examples(self) -> None:
        options = et.training.plan_training(1000, 100, 1, epsilon=2.0, delta=1e-5, neighbours="replace-one")
        assert {option.sampling for option in options} == {None, "fixed-size"}


class TestTruncatedPoisson:
    def test_the_maximum_is_planned_or_declared(self) -> None:
        sampling: dict[str, Any] = {"sampling": "truncated-poisson", "sampled_fraction": 0.02, "mechanism": "input"}
        own, plain = plan(examples=5000, **sampling), plan(sampling="poisson", mechanism="input")
        assert own.max_batch_size is not None and 150 < own.max_batch_size < 180
        assert plain.sigma < own.sigma < 1.0002 * plain.sigma and plain.max_batch_size is None
        assert et.training.VectorPlan.from_json(own.to_json()) == own
        batches = et.training.Batches(own, KEY, "truncated", examples=4000)
        assert (batches.sampling, batches.max_size) == ("truncated-poisson", own.max_batch_size)
        tight = plan(examples=5000, max_batch_size=own.max_batch_size - 12, **sampling)
        assert tight.sigma > own.sigma
        for words, more in {
            "at most 5000 examples": None,
            "needs examples": {},
            "raise the maximum batch": {"examples": 5000, "max_batch_size": 120},
        }.items():
            with pytest.raises(et.InvalidError, match=words):
                if more is None:
                    et.training.Batches(own, KEY, "truncated", examples=5001)
                else:
                    plan(**sampling, **more)
        with pytest.raises(et.InvalidError, match="truncated-poisson"):
            plan(examples=5000)
