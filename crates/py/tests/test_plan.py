"""Plans."""

import copy
import importlib.util
import json
import pickle
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

import evertally as et

ROOT = Path(__file__).parents[3]


def test_a_plan_says_what_it_promises() -> None:
    plan = et.plan(365, epsilon=1.0)
    assert (plan.horizon, plan.noise, plan.unit, plan.budget) == (365, "laplace", "event", et.Budget.pure(1.0))
    assert plan.guarantee.pure_epsilon == 1.0 and plan.guarantee.epsilon_at(1e-6) <= 1.0
    # Of any unbiased mechanism, from 4 sinh²(ε/2): γ is about 2.64 at 365 steps.
    assert plan.lower_bound == pytest.approx(2.535, rel=1e-3)
    assert str(plan.guarantee) == "ε = 1" and "ε = 1" in repr(plan)
    gaussian = et.plan(365, epsilon=1.0, delta=1e-6, max_events=3, max_events_per_step=1, noise="gaussian")
    assert gaussian.unit == "person (max_events=3, max_events_per_step=1)"
    assert gaussian.guarantee.epsilon_at(1e-6) == pytest.approx(1.0, abs=1e-9)
    assert "Guarantee(ε = 1, δ = 1e-6)" == repr(gaussian.guarantee)


def test_people_are_bounded_by_group_gap_and_period() -> None:
    whole = et.plan(360, rho=0.5, max_events=24, max_events_per_step=2)
    monthly = et.plan(360, rho=0.5, max_events_per_step=2, min_gap=3, per=30)
    # Two events in each of ten steps; a period of 30 steps has room for no more.
    assert monthly.unit == "person (max_events=20, max_events_per_step=2, min_gap=3, per=30)"
    assert monthly.max_std_error < whole.max_std_error
    any_month = et.plan(360, rho=0.5, max_events=20, max_events_per_step=2, per=30, protect_window=30)
    assert any_month.unit == "person (max_events=20, max_events_per_step=2, per=30, protect_window=30)"
    assert any_month.max_std_error > monthly.max_std_error
    groups = et.plan(360, rho=0.5, max_events_per_group=3, max_groups=4, per="30 steps")
    assert groups.unit == "person (max_events=12, max_events_per_group=3, max_groups=4, per=30)"
    assert et.plan_sketch(360, rows=3, width=10, rho=0.5, max_events=4, per=30).unit == "person (max_events=4, per=30)"


def test_noise_of_groups_is_correlated_where_that_helps() -> None:
    unit: dict[str, Any] = {"rho": 0.5, "max_events_per_group": 1, "max_groups": 10, "per": 1}
    apart, shared = et.plan(100, **unit), et.plan(100, **unit, group_count=10, correlate_groups="groups")
    assert shared.max_std_error < 0.66 * apart.max_std_error
    assert et.plan(100, **unit, group_count=10, correlate_groups="total") == apart
    assert apart.correlation is None and shared.correlation is not None
    of = shared.correlation
    assert of["groups"] == 10 and 0.2 < of["coefficient"] < 0.3
    assert of["coefficient"] + of["difference_factor"] == pytest.approx(1.0)
    # All ten variances of independent combinations, the total and nine differences, add up to those of the groups.
    assert of["total_factor"] + 9 * of["difference_factor"] == pytest.approx(10.0)
    for keywords in ({"group_count": 10}, {"correlate_groups": "groups"}):
        with pytest.raises(et.InvalidError, match="group_count and correlate_groups go together"):
            et.plan(100, **unit, **keywords)


def test_a_search_reports_its_progress() -> None:
    reports: list[tuple[int, int | None]] = []
    unit: dict[str, Any] = {"rho": 0.5, "max_events": 100, "max_events_per_step": 1}
    observed = et.plan(2000, **unit, progress=lambda done, total: reports.append((done, total)))
    assert observed == et.plan(2000, **unit)
    assert reports and reports == sorted(set(reports)) and all(done < (total or 0) for done, total in reports)

    def fail(done: int, total: int | None) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        et.plan(16384, **unit, progress=fail)


def test_windows_have_plans_of_their_own() -> None:
    week = et.plan(1000, rho=0.5, workload="window(7)")
    # The square of the Lebesgue constant of seven steps.
    assert week.std_error(1000) ** 2 == pytest.approx(3.1624, rel=0.01)
    assert week.lower_bound is not None and 0.99 < week.lower_bound / week.std_error(1000) < 1
    days = et.Counter(week, et.SecretKey.generate(), "days")
    for _ in range(20):
        days.add(10**6)
        last = days.tick().value
    assert last == pytest.approx(7 * 10**6, abs=100)
    with pytest.raises(et.EvertallyError, match="not one of sum, window"):
        et.plan(1000, rho=0.5, workload="week")
    with pytest.raises(et.EvertallyError, match="no calendar"):
        et.plan(1000, rho=0.5, workload="window(7d)")


def test_no_mechanism_without_an_end_is_better_than_possible() -> None:
    spec = importlib.util.spec_from_file_location("endless_bound", ROOT / "benches/endless_bound.py")
    assert spec and spec.loader
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    least = script.least_ratio(1, 32, 30)
    # No error is below the bound of its step; with one step no weights show more than that.
    assert script.least_ratio(1, 1, 1) == pytest.approx(1, abs=1e-6) and 1.16 < least
    plan = et.plan(None, rho=0.5)
    ours = max(plan.std_error(step) / bound for step, bound in enumerate(script.bounds(1, 32).tolist(), 1))
    assert least < ours < 1.3 * least


def test_several_workloads_are_read_from_one_release() -> None:
    together = et.plan(365, rho=0.5, workload=["sum", "window(7)*2"])
    total, week = together.readings
    assert (total.workload, week.workload) == ("sum", "window(7)") and total.digest == week.digest
    assert total == together and week != total
    # Half of the budget each: 3.74 and 2.52.
    assert total.max_std_error < 3.5 and week.max_std_error < 2.1
    key = et.SecretKey.generate()
    sums, weeks = (et.Counter(plan, key, "days") for plan in (total, week))
    released = []
    for _ in range(20):
        sums.add(1)
        weeks.add(1)
        released.append((sums.tick().value, weeks.tick().value))
    for step in range(7, 20):
        assert released[step][1] == pytest.approx(released[step][0] - released[step - 7][0], abs=0.01)
    assert et.Plan.from_json(together.to_json()).readings[1].max_std_error == week.max_std_error
    with pytest.raises(et.EvertallyError, match="named twice"):
        et.plan(365, rho=0.5, workload=["sum", "sum"])


def test_errors_are_those_of_the_steps() -> None:
    plan = et.plan(100, rho=0.5)
    errors = plan.std_errors()
    assert errors.dtype == np.float64 and errors.shape == (100,)
    assert errors.max() == pytest.approx(plan.max_std_error, rel=1e-12)
    assert np.sqrt((errors**2).mean()) == pytest.approx(plan.mean_std_error, rel=1e-12)
    assert [plan.std_error(step) for step in (1, 50, 100)] == plan.std_errors([1, 50, 100]).tolist()
    assert plan.std_errors([]).shape == (0,)
    assert plan.half_width(50, 0.99) > plan.half_width(50) > 0
    for wrong in (0, 101):
        with pytest.raises(et.InvalidError, match="1 to 100"):
            plan.std_error(wrong)
        with pytest.raises(et.InvalidError):
            plan.std_errors([1, wrong])
    with pytest.raises(et.InvalidError):
        plan.std_errors([[1, 2]])
    with pytest.raises(et.InvalidError, match="confidence"):
        plan.half_width(1, 1.0)
    long = et.plan(2**40, rho=0.5)
    with pytest.raises(et.InvalidError, match="ask for some"):
        long.std_errors()
    assert long.std_errors([1, 2**40]).shape == (2,)


def test_the_ranking_is_in_order_and_above_the_bound() -> None:
    objectives: tuple[Literal["max", "mean"], ...] = ("max", "mean")
    for objective in objectives:
        plan = et.plan(200, rho=0.5, objective=objective)
        best = plan.ranking[0]
        assert (best.name, best.noise, best.relative_error) == (plan.mechanism_name, plan.noise, 1.0)
        relative = [candidate.relative_error for candidate in plan.ranking]
        assert relative == sorted(relative) and 1 < len(relative) <= 12
        assert plan.lower_bound is not None
        above = [c.above_bound for c in plan.ranking if c.noise == "gaussian"]
        assert all(ratio is not None for ratio in above)
        if objective == "max":
            assert all(ratio >= 1.0 - 1e-9 for ratio in above if ratio is not None)
    # A plan with a mechanism chosen by the caller also ranks the others.
    named = et.plan(200, rho=0.5, mechanism="binary")
    assert named.mechanism == "binary" and named.ranking[0].max_std_error < named.max_std_error
    assert {c.noise for c in et.plan(200, epsilon=1.0).ranking} == {"laplace"}


def test_json_and_pickle_give_the_same_plan() -> None:
    plan = et.plan(365, epsilon=1.0, delta=1e-6, bounds=(-3, "12.5"), grid="0.5", meaning={"what": "sales"})
    again = et.Plan.from_json(plan.to_json())
    assert again == plan and again.digest == plan.digest and hash(again) == hash(plan)
    assert again.meaning == {"what": "sales"}
    assert pickle.loads(pickle.dumps(plan)) == plan and copy.deepcopy(plan) == plan
    changed = json.loads(plan.to_json())
    changed["budget"]["epsilon"] = 0.5
    with pytest.raises(et.InvalidError):
        et.Plan.from_json(json.dumps(changed))
    for text in ("", "{}", "[1, 2]"):
        with pytest.raises(et.InvalidError, match="not a plan"):
            et.Plan.from_json(text)
    count = json.loads(et.plan(10, rho=0.5).to_json()) | {"grid": "0.001"}
    with pytest.raises(et.InvalidError, match="grid 1"):
        et.Plan.from_json(json.dumps(count))


@pytest.mark.parametrize(
    ("horizon", "options"),
    [(365, {"rho": 0.5}), (365, {"epsilon": 1.0}), (3000, {"rho": 0.1, "objective": "mean"}), (2**20, {"rho": 0.5})],
)
def test_the_search_gives_the_plan_of_its_best_mechanism(horizon: int, options: dict[str, object]) -> None:
    searched = et.plan(horizon, **options)  # type: ignore[arg-type]
    best: dict[str, object] = {"mechanism": searched.mechanism_name, "noise": searched.noise}
    named = et.plan(horizon, **best, **options)  # type: ignore[arg-type]
    assert named == searched and named.std_errors([1, horizon]).tolist() == searched.std_errors([1, horizon]).tolist()


def test_meaning_makes_another_plan() -> None:
    assert et.plan(50, rho=0.5, meaning={"a": "b"}) != et.plan(50, rho=0.5)


@pytest.mark.parametrize(
    ("horizon", "options", "message"),
    [
        (0, {"epsilon": 1.0}, "at least 1"),
        (10, {"epsilon": 1.0, "mechanism": "magic"}, "magic"),
        (10, {"epsilon": 1.0, "noise": "uniform"}, "noise"),
        (10, {"epsilon": 1.0, "noise": "gaussian"}, "pure"),
        (10, {"epsilon": 1.0, "objective": "median"}, "objective"),
        (10, {"epsilon": 1.0, "neighbours": "near"}, "neighbours"),
        (10, {"epsilon": 1.0, "bounds": (2, 1)}, "above the upper"),
        (10, {"epsilon": 1.0, "bounds": (0, 0.5)}, "not a multiple of the grid"),
        (10, {"epsilon": 1.0, "bounds": ("x", 1)}, "is not a number"),
        (10, {"epsilon": 1.0, "grid": "0.1"}, "grid needs bounds"),
        (10, {"epsilon": 1.0, "bounds": (0, 1), "grid": "0"}, "grid"),
        (10, {"epsilon": 1.0, "max_events": 0}, "at least 1"),
        (10, {"epsilon": 1.0, "max_events_per_step": 1}, "max_events"),
        (10, {"epsilon": 1.0, "sums_per_event": 0}, "at least 1"),
        (10, {"epsilon": 1.0, "min_gap": 2}, "min_gap needs max_events: how many"),
        (10, {"epsilon": 1.0, "max_events": 2, "min_gap": 0}, "at least 1"),
        (10, {"epsilon": 1.0, "max_events": 2, "per": "month"}, "per 1mo: there is no calendar here.*per=31"),
        (10, {"epsilon": 1.0, "max_events": 2, "per": "fortnight"}, "per: `fortnight` is not a period"),
        (10, {"epsilon": 1.0, "max_events": 2, "per": 0}, "per: `0` is not a period"),
    ],
)
def test_senseless_requests_are_refused(horizon: int, options: dict[str, object], message: str) -> None:
    with pytest.raises(et.InvalidError, match=message) as caught:
        et.plan(horizon, **options)  # type: ignore[arg-type]
    assert "--" not in str(caught.value)


def test_unknown_arguments_are_named() -> None:
    with pytest.raises(TypeError, match="epsilonn"):
        et.plan(10, epsilonn=1.0)  # type: ignore[call-arg]
    with pytest.raises(et.InvalidError, match="epsilon: invalid type"):
        et.plan(10, epsilon="much")  # type: ignore[arg-type]
    for horizon in (-1, 2**64, -(10**5000)):
        with pytest.raises(et.InvalidError, match="argument horizon: .* not a whole number"):
            et.plan(horizon, epsilon=1.0)
    with pytest.raises(et.InvalidError, match="max_events: -3 is not a whole number"):
        et.plan(10, epsilon=1.0, max_events=-3)
    with pytest.raises(et.InvalidError, match="-1 is not a whole number"):
        et.plan(10, epsilon=1.0).std_error(-1)


@pytest.mark.parametrize("horizon", [1, 2, 3, 100, 5000, 2**40])
def test_pictures_are_well_formed(horizon: int) -> None:
    for plan in (et.plan(horizon, rho=0.5), et.plan(horizon, epsilon=1.0)):
        svg = ElementTree.fromstring(plan._repr_svg_())
        texts = [element.text for element in svg.iter("{http://www.w3.org/2000/svg}text")]
        assert "step" in texts and "standard error" in texts
        dashed = [line for line in svg.iter() if line.get("stroke-dasharray")]
        assert bool(dashed) == (plan.lower_bound is not None)
        width, height = 640, 260
        paths = [path.get("d", "") for path in svg.iter("{http://www.w3.org/2000/svg}path")]
        points = [point.split(",") for path in paths for point in re.split("[MLZ ]", path) if point]
        assert points
        for x, y in points:
            assert 0 <= float(x) <= width and 0 <= float(y) <= height
        page = ElementTree.fromstring(plan._repr_html_())
        rows = list(page.iter("tr"))
        assert len(rows) == 1 + len(plan.ranking)
        bold = [cell for cell in rows[1].iter("td") if "bold" in cell.get("style", "")]
        assert bold and bold[0].text == plan.mechanism


def test_fewer_steps_spend_less() -> None:
    plan = et.plan(1000, rho=0.5)
    spent = [plan.spent(through=steps).rho for steps in (1, 10, 100, 1000)]
    assert spent == sorted(spent) and spent[0] < 0.3 and spent[-1] == plan.guarantee.rho
    with pytest.raises(et.InvalidError, match="there is no step 0"):
        plan.spent(through=0)
    training = et.training.plan_vector(
        400, epsilon=2.0, delta=1e-5, mechanism="input", sampling="poisson", sampled_fraction=0.01
    )
    epsilon = [training.spent(through=steps).epsilon_at(1e-5) for steps in (1, 100, 400)]
    assert epsilon == sorted(epsilon) and epsilon[1] < 1.5 and epsilon[2] == 2.0
