"""Training options, plans with sampled examples, and their batches."""

import json
from typing import Any
from xml.etree import ElementTree

import evertally as et
import numpy as np
import pytest

KEY = et.SecretKey.insecure_from_test_seed(et.TestSeed(11))


def plan(**more: Any) -> et.training.VectorPlan:
    given: dict[str, Any] = {"epsilon": 2.0, "delta": 1e-5, "sampled": 0.02, "mechanism": "epoch-bands(bands=8)"} | more
    return et.training.plan_vector(200, **given)


class TestPlanTraining:
    def test_ways_are_ranked_and_say_what_they_are(self) -> None:
        ways = et.training.plan_training(3000, 100, 2, epsilon=1.0, delta=1e-5)
        errors = [way.plan.max_std_error for way in ways]
        assert errors == sorted(errors) and ways.steps == 60
        assert {way.order for way in ways} == {"fixed", "sampled", "bins", "fresh_bins"}
        for way in ways:
            assert way.plan.horizon == 60 and way.plan.guarantee.epsilon_at(1e-5) <= 1.0
            assert way.relative_error == pytest.approx(way.plan.max_std_error / errors[0])
            assert (way.plan.sampled is None) == (way.order == "fixed")
        fixed = next(way.plan for way in ways if way.order == "fixed")
        assert (fixed.participations, fixed.separation) == (2, 30)
        assert ways[-1].words == ways[len(ways) - 1].words and ways.best.words in str(ways)
        with pytest.raises(IndexError):
            ways[len(ways)]

    def test_plain_dp_sgd_is_best_where_it_is(self) -> None:
        ways = et.training.plan_training(1000, 500, 20, epsilon=0.2, delta=1e-5)
        assert "DP-SGD" in ways.best.words or ways.best.plan.groups == 1
        assert f"best: {ways.best.words}" in str(ways)

    def test_memory_decides_what_fits(self) -> None:
        few = et.training.plan_training(2000, 20, 2, epsilon=8.0, delta=1e-5, most_vectors=4)
        assert few.best.vectors <= 4 and any(not way.fits and "too many" in str(few) for way in few)

    def test_the_picture_is_one(self) -> None:
        ways = et.training.plan_training(3000, 100, 1, epsilon=1.0, delta=1e-5)
        assert ElementTree.fromstring(ways.svg()).tag.endswith("svg")
        assert "<table" in ways._repr_html_() and ways.best.words in ways._repr_html_()

    def test_the_picture_has_every_order_and_dp_sgd(self) -> None:
        ways = et.training.plan_training(6000, 200, 10, epsilon=2.0, delta=1e-5)
        assert len(ways) > 7
        orders = ("fixed", "sampled", "bins", "fresh_bins")
        told_apart = [next(way for way in ways if way.order == order) for order in orders]
        told_apart.append(next(way for way in ways if "DP-SGD" in way.words))
        assert all(way.words in ways.svg() for way in told_apart if way.relative_error < 3)
        assert ways[len(ways) - 1].relative_error > 3 and ways[len(ways) - 1].words not in ways.svg()

    def test_without_delta_only_the_fixed_order_is_compared(self) -> None:
        ways = et.training.plan_training(3000, 100, 2, rho=0.5)
        assert {way.order for way in ways} == {"fixed"}

    @pytest.mark.parametrize("run", [(100, 0, 1), (100, 101, 1), (100, 10, 0), (100, 10, float("nan"))])
    def test_senseless_runs_are_refused(self, run: tuple[int, int, float]) -> None:
        with pytest.raises(et.InvalidError):
            et.training.plan_training(*run, rho=0.5)


class TestSampledPlans:
    def test_they_come_back_from_json(self) -> None:
        own = plan()
        again = et.training.VectorPlan.from_json(own.to_json())
        assert again == own and (again.sampled, again.groups, again.participations) == (0.02, 8, 25)
        changed = json.loads(own.to_json()) | {"sampling": {"fraction": 0.01}}
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
            {"sampled": 0.0},
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


class TestBins:
    def test_every_example_is_in_one_bin_for_the_whole_run(self) -> None:
        plan = et.training.plan_vector(25, epsilon=8.0, delta=1e-5, bins=10, mechanism="blt(buffers=2)")
        assert (plan.bins, plan.groups, plan.sampled, plan.participations) == (10, None, 0.1, 3)
        batches = et.training.Batches(plan, KEY, "bins", examples=1000)
        assert (batches.bins, batches.groups, batches.expected_size, len(batches)) == (10, None, 100.0, 25)
        epoch = np.sort(np.concatenate([batches.batch(step) for step in range(1, 11)]))
        assert (epoch == np.arange(1000)).all()
        assert all((batches.batch(step) == batches.batch(step - 10)).all() for step in range(11, 26))
        assert "10 bins" in repr(batches)

    def test_they_come_back_from_json_and_need_less_noise(self) -> None:
        plan = et.training.plan_vector(20, epsilon=8.0, delta=1e-5, bins=10, mechanism="banded-sqrt(bands=5)")
        again = et.training.VectorPlan.from_json(plan.to_json())
        assert again == plan and again.bins == 10 and again.sigma == plan.sigma
        fixed = et.training.plan_vector(
            20, epsilon=8.0, delta=1e-5, participations=2, separation=10, mechanism="banded-sqrt(bands=5)"
        )
        assert plan.sigma < 0.9 * fixed.sigma
        assert plan.guarantee.epsilon_at(1e-5) == 8.0

    def test_bins_and_a_fraction_exclude_each_other(self) -> None:
        with pytest.raises(et.InvalidError, match="pass only one of sampled, bins and fresh_bins"):
            et.training.plan_vector(20, epsilon=8.0, delta=1e-5, bins=10, sampled=0.1)
        with pytest.raises(et.InvalidError, match="add-remove"):
            et.training.plan_vector(20, epsilon=8.0, delta=1e-5, bins=10, neighbours="replace-one")
        with pytest.raises(et.InvalidError, match="epsilon and delta"):
            et.training.plan_vector(20, rho=0.5, bins=10)
        with pytest.raises(et.InvalidError, match="plan without bins"):
            et.training.plan_vector(20, epsilon=8.0, delta=1e-5, bins=10, mechanism="binary")
        with pytest.raises(et.InvalidError, match="at least as many steps as bins"):
            et.training.plan_vector(20, epsilon=8.0, delta=1e-5, bins=30, mechanism="input")
        with pytest.raises(et.InvalidError, match="bins must be from 1 to 2048"):
            et.training.plan_vector(5000, epsilon=8.0, delta=1e-5, bins=2500, mechanism="input")
        with pytest.raises(et.InvalidError, match="number of bins must be at least 1"):
            et.training.plan_vector(20, epsilon=8.0, delta=1e-5, bins=0)


class TestFreshBins:
    def test_every_example_is_in_a_new_bin_in_every_epoch(self) -> None:
        plan = et.training.plan_vector(30, epsilon=4.0, delta=1e-5, fresh_bins=10, mechanism="banded-sqrt(bands=3)")
        assert (plan.fresh_bins, plan.bins, plan.groups, plan.sampled) == (10, None, None, 0.1)
        assert (plan.participations, plan.separation) == (3, 3)
        batches = et.training.Batches(plan, KEY, "fresh", examples=1000)
        assert (batches.fresh_bins, batches.bins, batches.groups, batches.expected_size) == (10, None, None, 100.0)
        steps: dict[int, list[int]] = {example: [] for example in range(1000)}
        for step, batch in enumerate(batches, 1):
            for example in batch.tolist():
                steps[example].append(step)
        assert all(len(own) == 3 and min(np.diff(own)) >= 3 for own in steps.values())
        assert sum(own[0] + 10 != own[1] for own in steps.values()) > 800
        assert (batches[-1] == batches.batch(30)).all() and (batches[-30] == batches[0]).all()
        assert "10 bins, drawn again in every epoch" in repr(batches)
        with pytest.raises(IndexError, match="30 batches"):
            batches[-31]

    def test_they_come_back_from_json_and_need_less_noise(self) -> None:
        plan = et.training.plan_vector(80, epsilon=2.0, delta=1e-5, fresh_bins=20, mechanism="banded-sqrt(bands=4)")
        again = et.training.VectorPlan.from_json(plan.to_json())
        assert again == plan and again.fresh_bins == 20 and again.sigma == plan.sigma
        kept = et.training.plan_vector(80, epsilon=2.0, delta=1e-5, bins=20, mechanism="banded-sqrt(bands=4)")
        assert plan.sigma < 0.9 * kept.sigma
        assert plan.guarantee.epsilon_at(1e-5) == 2.0

    def test_what_is_not_meant_is_refused(self) -> None:
        def refused(words: str, **more: Any) -> None:
            given: dict[str, Any] = {"epsilon": 8.0, "delta": 1e-5, "fresh_bins": 10, "mechanism": "input"} | more
            with pytest.raises(et.InvalidError, match=words):
                et.training.plan_vector(20, **given)

        refused("pass only one of sampled, bins and fresh_bins", bins=10)
        refused("banded-sqrt", mechanism="blt")
        refused("at most 10 bands", mechanism="banded-sqrt(bands=11)")
        refused("at least as many steps as bins", fresh_bins=30)
        refused("number of bins must be at least 1", fresh_bins=0)
        refused("True is not a whole number", fresh_bins=True)
        refused("omit participations and separation", participations=3, separation=5)
