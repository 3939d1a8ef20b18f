"""The output of ``key spent`` and ``budget show`` for random streams, compared with independent sums and conversions:
50 decimal digits, and the theorems as published. No printed number may be below them.
"""

import itertools
import json
import math
import random
import subprocess
from decimal import Decimal, getcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import evertally as et

getcontext().prec = 50
# Printed doubles are rounded to the safe side: by a few units in the last place, and the error of a search over orders.
ABOVE = Decimal("1e-6")


def of_zcdp(rho: Decimal, delta: Decimal) -> Decimal:
    """The smallest ε of ρ-zCDP at δ, from orders of Rényi divergence (Canonne, Kamath and Steinke 2020, Proposition
    12)."""

    def epsilon(order: Decimal) -> Decimal:
        less = order - 1
        return order * rho + (-(delta.ln()) + less * (less / order).ln() - order.ln()) / less

    # Convex in the order's distance from 1: golden-section search over its logarithm.
    low, high = Decimal(-12), Decimal(25)
    share = (Decimal(5).sqrt() - 1) / 2
    for _ in range(120):
        first, second = high - share * (high - low), low + share * (high - low)
        if epsilon(1 + first.exp()) < epsilon(1 + second.exp()):
            high = second
        else:
            low = first
    return max(Decimal(0), epsilon(1 + low.exp()))


def failure(shift: float, epsilon: float) -> float:
    """δ of Gaussian noise at this ε (Balle and Wang 2018, Theorem 8)."""

    def above(x: float) -> float:
        return math.erfc(x / math.sqrt(2)) / 2

    return above(epsilon / shift - shift / 2) - math.exp(epsilon) * above(epsilon / shift + shift / 2)


def run(program: str, folder: Path, *arguments: object) -> str:
    done = subprocess.run([program, *map(str, arguments)], cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def close(printed: float, exact: Decimal) -> None:
    assert exact <= Decimal(printed) * (1 + Decimal("1e-15")), (printed, exact)
    assert Decimal(printed) <= exact * (1 + ABOVE) + Decimal("1e-12"), (printed, exact)


def release(program: str, folder: Path, name: str, budget: dict[str, str], *more: str) -> None:
    flags = [word for option, value in budget.items() for word in (f"--{option}", value)]
    run(program, folder, "release", "events.csv", "--key", "k", "--stream", name, "--every", "1d",
        "--start", "2024-01-01", "--steps", "3", "--all", "--out", f"{name}.csv", "--no-plot", "-q",
        *flags, *more)  # fmt: skip


def budgets(draw: random.Random, kinds: list[str]) -> list[dict[str, str]]:
    plans = []
    for _ in range(draw.randint(2, 4)):
        number = f"{draw.randint(1, 90) / 100}"
        made = {
            "pure": {"epsilon": number},
            "rho": {"rho": number},
            "approximate": {"epsilon": number, "delta": f"{draw.randint(1, 9)}e-8"},
        }
        plans.append(made[draw.choice(kinds)])
    return plans


def total(plans: list[dict[str, str]], name: str, of: Any = lambda plan: True) -> Decimal:
    return sum((Decimal(plan[name]) for plan in plans if name in plan and of(plan)), Decimal(0))


def is_pure(plan: dict[str, str]) -> bool:
    return "epsilon" in plan and "delta" not in plan


@pytest.mark.parametrize("kinds", [["pure"], ["rho"], ["pure", "rho"], ["pure", "rho", "approximate"]], ids="-".join)
@pytest.mark.parametrize("seed", range(3))
def test_key_spent_prints_what_was_spent(program: str, tmp_path: Path, kinds: list[str], seed: int) -> None:
    draw = random.Random(f"{kinds} {seed}")
    plans = budgets(draw, kinds)
    (tmp_path / "events.csv").write_text("time\n2024-01-01\n2024-01-02\n")
    run(program, tmp_path, "key", "new", "k")
    for number, budget in enumerate(plans):
        release(program, tmp_path, f"stream {number}", budget)
        release(program, tmp_path, f"stream {number}", budget)  # the same again costs nothing
    delta = draw.choice(["1e-6", "0.001"])
    (spent,) = json.loads(run(program, tmp_path, "key", "spent", "k", "--delta", delta, "--json"))["totals"]
    by_kinds = {"pure": total(plans, "epsilon", is_pure), "rho": total(plans, "rho")}
    rho = by_kinds["rho"] + sum(Decimal(plan["epsilon"]) ** 2 / 2 for plan in plans if is_pure(plan))
    approximate = [plan for plan in plans if "delta" in plan]
    if all(map(is_pure, plans)):
        close(spent["pure_epsilon"], by_kinds["pure"])
    else:
        assert spent["pure_epsilon"] is None
    if not approximate:
        close(spent["rho"], rho)
    else:
        assert spent["rho"] is None
    # Pure guarantees add up directly, or as ρ together with those in ρ, whichever is better; the others add ε and δ.
    others, left = total(approximate, "epsilon"), Decimal(delta) - total(approximate, "delta")
    assert left > 0
    pure, ways = [Decimal(plan["epsilon"]) for plan in plans if is_pure(plan)], []
    for chosen in itertools.product([False, True], repeat=len(pure)):
        own = by_kinds["rho"] + sum(epsilon**2 / 2 for epsilon, in_rho in zip(pure, chosen, strict=True) if in_rho)
        alone = sum((epsilon for epsilon, in_rho in zip(pure, chosen, strict=True) if not in_rho), Decimal(0))
        ways.append(others + alone + (of_zcdp(own, left) if own else 0))
    assert Decimal(spent["delta"]) == Decimal(float(delta))
    close(spent["epsilon"], min(ways))


@pytest.mark.parametrize("rho", ["0.3", "2"])
def test_one_stream_has_spent_what_its_report_says(program: str, tmp_path: Path, rho: str) -> None:
    """For one stream the distribution of its noise is known: ε is at least that of Gaussian noise with this ρ, and at
    most that of any noise with it."""
    (tmp_path / "events.csv").write_text("time\n2024-01-01\n")
    run(program, tmp_path, "key", "new", "k")
    release(program, tmp_path, "one", {"rho": rho})
    (spent,) = json.loads(run(program, tmp_path, "key", "spent", "k", "--delta", "1e-6", "--json"))["totals"]
    shift, epsilon = math.sqrt(2 * float(rho)), spent["epsilon"]
    # At this ε, and slightly below it.
    assert failure(shift, epsilon) <= 1e-6 * (1 + 1e-9) and failure(shift, epsilon - 0.01) > 1e-6
    assert Decimal(epsilon) <= of_zcdp(Decimal(rho), Decimal("1e-6"))


@pytest.mark.parametrize("seed", range(6))
def test_a_sketch_promises_what_its_noise_gives(program: str, tmp_path: Path, seed: int) -> None:
    """An event adds 1 or -1 to one cell of every row, and so to every node of the binary tree above its step."""
    draw = random.Random(seed)
    rows, steps, rho = draw.choice([1, 3, 5, 7]), draw.randint(1, 40), f"{draw.randint(1, 200) / 100}"
    (tmp_path / "events.csv").write_text("time,item\n2024-01-01,a\n")
    (tmp_path / "items.csv").write_text("item\na\n")
    run(program, tmp_path, "key", "new", "k")
    run(program, tmp_path, "sketch", "events.csv", "--key", "k", "--every", "1d", "--start", "2024-01-01",
        "--steps", steps, "--rho", rho, "--key-columns", "item", "--queries", "items.csv", "--rows", rows,
        "--width", 32, "--mechanism", "binary", "--all", "--out", "s.csv", "--no-plot", "-q")  # fmt: skip
    report = json.loads((tmp_path / "s.report.json").read_text())
    numerator, denominator = map(Decimal, report["noise"]["parameter"].split("/"))
    variance = numerator / denominator / Decimal(report["noise"]["noise_divisor"]) ** 2
    levels = steps.bit_length()  # above the first step, which is in the most nodes
    spent = rows * levels / (2 * variance)
    promise = report["guarantee"]
    close(promise["rho"], spent)
    assert Decimal(promise["rho"]) <= Decimal(rho) * (1 + Decimal("1e-15")), (rows, steps, rho)
    shift = math.sqrt(2 * float(spent))
    for stated in promise["epsilon_at_delta"]:
        delta, epsilon = stated["delta"], stated["epsilon"]
        assert Decimal(epsilon) <= of_zcdp(Decimal(promise["rho"]), Decimal(delta)) * (1 + ABOVE)
        assert failure(shift, epsilon) <= delta * 1.001


def patterns(horizon: int, participations: int, separation: int) -> list[tuple[int, ...]]:
    """All choices of steps in which an example may take part."""
    return [
        chosen
        for count in range(1, participations + 1)
        for chosen in itertools.combinations(range(horizon), count)
        if all(second - first >= separation for first, second in itertools.pairwise(chosen))
    ]


@pytest.mark.parametrize(
    "mechanism", ["input", "binary", "smooth", "sqrt", "normalized-blt(buffers=2)", "banded-sqrt(bands=3)"]
)
@pytest.mark.parametrize("participations, separation", [(1, 1), (2, 3), (3, 2), (4, 1)])
def test_a_vector_plan_promises_what_its_noise_gives(mechanism: str, participations: int, separation: int) -> None:
    """Brute force over the steps of an example and the directions of its gradients, with the noise itself."""
    steps, norm = 8, 1.5
    plan = et.training.plan_vector(
        steps, rho=0.4, norm=norm, mechanism=mechanism, participations=participations, separation=separation
    )
    noise = plan.noise_matrix()
    precision = np.linalg.inv(noise @ noise.T)
    largest = max(
        norm**2 * np.array(signs) @ precision[np.ix_(chosen, chosen)] @ np.array(signs)
        for chosen in patterns(steps, participations, separation)
        for signs in itertools.product([1, -1], repeat=len(chosen))
    )
    own = plan.guarantee
    assert largest / 2 <= own.rho * (1 + 1e-9) and own.rho <= 0.4, (largest / 2, own.rho)
    assert math.sqrt(largest) <= own.mu * (1 + 1e-9)
    assert largest / 2 > 0.4 * (0.999 if participations == 1 else 0.5), largest / 2
    delta = 1e-6
    assert failure(own.mu, own.epsilon_at(delta)) <= delta * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_budget_show_prints_what_is_spent_and_left(program: str, tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    plans = budgets(draw, ["pure", "rho"])
    (tmp_path / "events.csv").write_text("time\n2024-01-01\n")
    run(program, tmp_path, "key", "new", "k")
    run(program, tmp_path, "budget", "new", "b", "--name", "source", "--unit", "event", "--rho", "9")
    for number, budget in enumerate(plans):
        release(program, tmp_path, f"stream {number}", budget, "--budget-file", "b")
    shown = json.loads(run(program, tmp_path, "budget", "show", "b", "--json"))
    costs = [Decimal(plan["rho"]) if "rho" in plan else Decimal(plan["epsilon"]) ** 2 / 2 for plan in plans]
    for stream, cost in zip(shown["streams"], costs, strict=True):
        close(stream["counts"]["rho"], cost)
    close(shown["spent"]["rho"], sum(costs, Decimal(0)))
    left = 9 - sum(costs, Decimal(0))
    assert left * (1 - ABOVE) <= Decimal(shown["left"]["rho"]) <= left * (1 + Decimal("1e-15"))
