"""Budgets and conversions."""

import math

import pytest

import evertally as et
from evertally import budget


def test_a_budget_is_its_numbers() -> None:
    pure, approximate, zcdp = et.Budget.pure(1.5), et.Budget.approximate(1.0, 1e-6), et.Budget.zcdp(0.25)
    assert (pure.epsilon, pure.delta, pure.rho) == (1.5, None, None)
    assert (approximate.epsilon, approximate.delta, approximate.rho) == (1.0, 1e-6, None)
    assert (zcdp.epsilon, zcdp.delta, zcdp.rho) == (None, None, 0.25)
    assert pure == et.Budget.pure(1.5) and hash(pure) == hash(et.Budget.pure(1.5))
    assert pure != et.Budget.pure(1.25) and pure != 1.5
    assert repr(approximate) == "Budget.approximate(1.0, 1e-06)" and str(zcdp) == "ρ = 0.25 (zCDP)"
    assert eval(repr(zcdp), {"Budget": et.Budget}) == zcdp


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf, 21.0])
def test_budgets_out_of_range_are_refused(bad: float) -> None:
    with pytest.raises(et.InvalidError):
        et.Budget.pure(bad)
    with pytest.raises(ValueError):
        et.Budget.zcdp(bad)
    with pytest.raises(et.EvertallyError):
        et.Budget.approximate(1.0, bad)


def test_weak_budgets_need_to_be_asked_for() -> None:
    with pytest.raises(et.InvalidError, match="allow_weak"):
        et.plan(10, epsilon=21.0)
    assert et.Budget.pure(21.0, allow_weak=True).epsilon == 21.0
    assert et.plan(10, epsilon=21.0, allow_weak_budget=True).budget.epsilon == 21.0


def test_conversions_are_valid_and_round_to_the_safe_side() -> None:
    for epsilon, delta in [(0.1, 1e-9), (1.0, 1e-6), (8.0, 1e-3)]:
        rho = budget.rho_for(epsilon, delta)
        assert epsilon * (1 - 1e-9) < budget.epsilon_of_zcdp(rho, delta) <= epsilon
        assert delta * (1 - 1e-6) < budget.delta_of_zcdp(rho, epsilon) <= delta * (1 + 1e-9)
        mu = budget.mu_for(epsilon, delta)
        assert budget.delta_of_gaussian(mu, epsilon) <= delta
        assert epsilon * (1 - 1e-9) < budget.epsilon_of_gaussian(mu, delta) <= epsilon * (1 + 1e-9)
    assert et.Budget.pure(2.0).to_zcdp() == et.Budget.zcdp(budget.zcdp_of_pure(2.0))
    approximate = et.Budget.approximate(1.0, 1e-6)
    assert approximate.epsilon_at(1e-5) == 1.0 and approximate.epsilon_at(1e-7) == math.inf
    with pytest.raises(et.InvalidError, match="implies no"):
        approximate.to_zcdp()
    with pytest.raises(et.InvalidError, match="mu must lie"):
        budget.delta_of_gaussian(0.0, 1.0)
    # At ε = 0: 2 Φ(μ/2) - 1.
    assert budget.delta_of_gaussian(1.0, 0.0) == pytest.approx(math.erf(0.5 / math.sqrt(2)), rel=1e-12)


def test_one_way_to_give_a_budget() -> None:
    assert et.plan(50, budget=et.Budget.zcdp(0.5)) == et.plan(50, rho=0.5)
    for wrong in [{}, {"delta": 1e-6}, {"epsilon": 1.0, "rho": 0.5}, {"budget": et.Budget.zcdp(0.5), "rho": 0.5}]:
        with pytest.raises(et.InvalidError):
            et.plan(50, **wrong)  # type: ignore[arg-type]
