"""Audits of training: bounds against brute force and known mechanisms, bets against their distributions, and faults."""

import doctest
import itertools
import math
import re
from collections.abc import Callable
from fractions import Fraction
from statistics import NormalDist
from typing import Any
from xml.etree import ElementTree

import evertally as et
import numpy as np
import numpy.typing as npt
import pytest
from evertally.training import canaries
from evertally.training.canaries import TrainingAudit, _bets, _bounds, _whitening

NORMAL = NormalDist()
Array = npt.NDArray[np.float64]


@pytest.mark.parametrize("name", canaries.__all__)
def test_examples_of_the_docstrings_run(name: str) -> None:
    thing = getattr(canaries, name)
    assert thing.__doc__
    test = doctest.DocTestParser().get_doctest(thing.__doc__, {}, name, None, 0)
    said: list[str] = []
    doctest.DocTestRunner(verbose=False).run(test, out=said.append)
    assert not said, "".join(said)


def exact_p_value(m: int, r: int, v: int, q: Fraction, delta: Fraction) -> Fraction:
    """The formula of the theorem, in rational numbers."""
    law = [math.comb(r, k) * q**k * (1 - q) ** (r - k) for k in range(r + 1)]
    steps = [sum(law[v - i : v], Fraction(0)) / i for i in range(1, v + 1)]
    return sum(law[v:], Fraction(0)) + 2 * m * delta * max(steps, default=Fraction(0))


class TestBoundOnEpsilon:
    def test_the_p_value_is_the_theorems(self) -> None:
        for r in range(9):
            for v in range(r + 1):
                for odds in (1, 3, 7):
                    for delta in (Fraction(0), Fraction(1, 1000), Fraction(1, 50)):
                        exact = min(exact_p_value(r + 2, r, v, Fraction(odds, odds + 1), delta), Fraction(1))
                        found = canaries.p_value_of_epsilon(r + 2, r, v, epsilon=math.log(odds), delta=float(delta))
                        assert found == pytest.approx(float(exact), rel=1e-12), (r, v, odds, delta)

    def test_the_papers_own_numbers(self) -> None:
        assert canaries.epsilon_lower_bound(1000, 100, 75, delta=1e-4) == pytest.approx(0.673, abs=5e-4)
        assert canaries.epsilon_lower_bound(100_000, 1510, 1439, delta=1e-5) == pytest.approx(2.675, abs=1e-3)

    def test_the_bound_is_where_the_p_value_leaves_the_level(self) -> None:
        for m, r, v, delta in [(50, 50, 45, 0.0), (200, 80, 66, 1e-4), (200, 20, 20, 1e-3)]:
            bound = canaries.epsilon_lower_bound(m, r, v, delta=delta, confidence=0.9)
            assert canaries.p_value_of_epsilon(m, r, v, epsilon=bound, delta=delta) <= 0.1
            assert canaries.p_value_of_epsilon(m, r, v, epsilon=bound + 1e-8, delta=delta) > 0.1
        assert canaries.epsilon_lower_bound(50, 50, 25) == 0.0

    def test_randomized_response_has_at_least_the_epsilon_that_is_shown(self) -> None:
        """The theorem is tight for randomized response: at 95 % confidence, at most 5 % of 2000 runs show more than its
        ε, and the bounds are not far below it. Significance of the test: 10⁻⁴."""
        m, epsilon, runs = 300, 1.0, 2000
        rng = np.random.default_rng(1)
        right = rng.binomial(m, 1 / (1 + math.exp(-epsilon)), runs)
        bounds = {int(v): canaries.epsilon_lower_bound(m, m, int(v)) for v in np.unique(right)}
        shown = np.array([bounds[int(v)] for v in right])
        assert (shown > epsilon).mean() <= 0.05 + 3.72 * math.sqrt(0.05 * 0.95 / runs)
        assert (shown > epsilon).mean() > 0.02 and np.median(shown) > 0.7

    @pytest.mark.parametrize("wrong", [(10, 11, 5), (10, 5, 6), (10, 5, -1), (0, 0, 0)])
    def test_senseless_counts_are_refused(self, wrong: tuple[int, int, int]) -> None:
        with pytest.raises(ValueError, match="right guesses"):
            canaries.epsilon_lower_bound(*wrong)
        with pytest.raises(ValueError, match="right guesses"):
            canaries.mu_lower_bound(*wrong)

    def test_senseless_levels_are_refused(self) -> None:
        with pytest.raises(ValueError, match="confidence"):
            canaries.epsilon_lower_bound(10, 5, 5, confidence=1.0)
        with pytest.raises(ValueError, match="delta"):
            canaries.epsilon_lower_bound(10, 5, 5, delta=1.0)


class TestBoundOnMu:
    def gaussian(self, mu: float, m: int, runs: int, seed: int) -> tuple[Array, npt.NDArray[np.bool_]]:
        rng = np.random.default_rng(seed)
        present = rng.integers(0, 2, (runs, m)).astype(bool)
        return mu * (present - 0.5) + rng.standard_normal((runs, m)), present

    def test_no_tail_of_a_known_mechanism_is_heavier(self) -> None:
        """Independent canaries: the tail is binomial. One noisy sum of all coins: all guesses are equal, and the
        distribution of the number of right ones is an integral. Both are μ-GDP."""
        m = 12
        for mu in (0.3, 1.0, 2.0):
            q = NORMAL.cdf(mu / 2)
            for v in range(m + 1):
                tail = sum(math.comb(m, k) * q**k * (1 - q) ** (m - k) for k in range(v, m + 1))
                assert tail <= canaries.p_value_of_mu(m, m, v, mu=mu) * (1 + 1e-6)
                # Guess all present if the sum of coins and a normal variable of deviation 1/mu is above the middle.
                tail = 0.0
                for k in range(m + 1):
                    above = NORMAL.cdf((k - m / 2) * mu)
                    weight = math.comb(m, k) / 2**m
                    tail += weight * (above * (k >= v) + (1 - above) * (m - k >= v))
                assert tail <= canaries.p_value_of_mu(m, m, v, mu=mu) * (1 + 1e-6)

    def test_the_recursion_is_that_of_the_definition(self) -> None:
        """Against the probabilities themselves: from the tail down, each is the smallest that the theorem allows."""
        found = []
        for r, v, mu, tail in itertools.product([6, 9, 20], [5, 6], [0.1, 0.5, 1.0], [0.05, 0.3, 0.6, 0.9]):
            m, v = r + 3, min(v * r // 7 + 1, r)
            chances = [0.0] * (r + 1)
            chances[v] = tail
            for i in range(v, 0, -1):
                a = sum(j * chances[j] for j in range(i, r + 1)) / m
                b = sum((r - j) * chances[j] for j in range(i, r + 1)) / m
                least = NORMAL.cdf(NORMAL.inv_cdf(a) - mu) if a < 1 else 1.0
                chances[i - 1] = max(0.0, (least - b) * m / (r - i + 1))
            found.append(sum(chances) > 1)
            assert found[-1] == _bounds._is_too_much(m, r, v, mu, tail), (r, v, mu, tail)
        assert 10 < sum(found) < len(found) - 10

    def test_the_gaussian_mechanism_has_at_least_what_is_shown(self) -> None:
        """At 95 % confidence, of 1000 runs; significance of the test 10⁻⁴."""
        m, mu, runs = 200, 1.0, 1000
        scores, present = self.gaussian(mu, m, runs, 3)
        most = 0.05 + 3.72 * math.sqrt(0.05 * 0.95 / runs)
        right = ((scores > 0) == present).sum(axis=1)
        known = {int(v): canaries.mu_lower_bound_if_independent(m, int(v)) for v in np.unique(right)}
        shown = np.array([known[int(v)] for v in right])
        assert 0.02 < (shown > mu).mean() <= most and np.median(shown) > 0.6
        surest = np.argsort(-np.abs(scores), axis=1)[:, :25]
        right = np.take_along_axis((scores > 0) == present, surest, axis=1).sum(axis=1)
        known = {int(v): canaries.mu_lower_bound(m, 25, int(v)) for v in np.unique(right)}
        shown = np.array([known[int(v)] for v in right])
        assert (shown > mu).mean() <= most and np.median(shown) > 0.2
        delta = 1e-5
        epsilon = et.budget.epsilon_of_gaussian(mu, delta)
        known = {int(v): canaries.epsilon_lower_bound(m, 25, int(v), delta=delta) for v in np.unique(right)}
        assert np.mean([known[int(v)] > epsilon for v in right]) <= most

    def test_the_bound_is_where_the_p_value_leaves_the_level(self) -> None:
        for m, r, v in [(100, 100, 80), (100, 20, 19), (64, 64, 64)]:
            bound = canaries.mu_lower_bound(m, r, v, confidence=0.9)
            assert bound > 0.1
            assert canaries.p_value_of_mu(m, r, v, mu=bound - 1e-6) <= 0.1 * (1 + 1e-6)
            assert canaries.p_value_of_mu(m, r, v, mu=bound + 1e-6) >= 0.1 * (1 - 1e-6)


class TestBets:
    """Each factor is at most 1 in the mean for every distribution that keeps the plan: by integration."""

    x = np.linspace(-12, 12, 1201)

    def mean(self, bet: Callable[[Array], Array], shift: float, scale: float) -> float:
        density = np.exp(-0.5 * ((self.x - shift) / scale) ** 2) / (scale * math.sqrt(2 * math.pi))
        return float(np.trapezoid(bet(self.x) * density, self.x))

    def test_shifts(self) -> None:
        for delta in (0.1, 1.0, 5.0):
            for share in (0.03, 1.0):

                def bet(x: Array, delta: float = delta, share: float = share) -> Array:
                    return np.exp([_bets._tanh_bet(np.array([delta * one]), share) for one in x])

                density = np.exp(-0.5 * self.x**2)
                assert np.sum(bet(self.x) * density) / np.sum(density) == pytest.approx(1.0, abs=1e-6)
                np.testing.assert_allclose(bet(self.x), 1 + share * np.tanh(delta * self.x), atol=1e-12)
                for shift, scale in [(0.0, 2.0), (-0.3, 1.0), (-1.0, 1.5)]:
                    assert self.mean(lambda x: 1 + np.tanh(delta * x), shift, scale) <= 1 + 1e-6  # noqa: B023

    def test_small_noise(self) -> None:
        for rho in _bets.SMALLER[:4]:

            def bet(x: Array, rho: float = rho) -> Array:
                return np.exp([_bets._small_bet(np.array([one]), rho) for one in x])

            assert self.mean(bet, 0.0, 1.0) == pytest.approx(1.0, abs=1e-6)
            for shift, scale in [(0.0, 1.5), (0.5, 1.0), (-2.0, 1.1)]:
                assert self.mean(bet, shift, scale) < 1.0
            assert self.mean(bet, 0.0, 0.8) > 1.0


def correlated(**more: Any) -> et.training.VectorPlan:
    given: dict[str, Any] = {"rho": 2.0, "participations": 4, "separation": 10, "mechanism": "banded-sqrt(bands=4)"}
    return et.training.plan_vector(40, **(given | more))


MECHANISMS = ["input", "output", "binary", "smooth", "subtract", "honaker-online", "blt", "normalized-blt", "sqrt"]
MECHANISMS += ["normalized-sqrt", "banded-sqrt(bands=4)", "banded-inverse-sqrt(bands=4)", "epoch-bands(bands=4)"]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_whitened_noise_is_white(mechanism: str, key: et.SecretKey) -> None:
    """The plan's errors follow from the covariances, and so does the noise itself: each entry within 5 deviations."""
    steps, size = 12, 40_000
    plan = et.training.plan_vector(steps, norm=0.5, rho=0.5, participations=2, separation=6, mechanism=mechanism)
    covariance = _whitening.noise_covariance(plan, steps)
    sums = np.tril(np.ones((steps, steps)))
    np.testing.assert_allclose(np.sqrt(np.diag(sums @ covariance @ sums.T)), plan.std_errors(), rtol=1e-6)
    noise = et.VectorNoise(plan, key, mechanism, coordinates=size, dtype="float64")
    white = _whitening.whitening(covariance) @ np.stack([noise.next() for _ in range(steps)])
    np.testing.assert_allclose(white @ white.T / size, np.eye(steps), atol=5 * math.sqrt(2 / size))


def test_noise_that_is_a_function_of_other_steps_is_refused() -> None:
    with pytest.raises(ValueError, match="determined by that of others"):
        _whitening.whitening(np.ones((3, 3)))


BANDS: list[dict[str, Any]] = [
    {"rho": 0.5, "participations": 3, "separation": 20, "objective": "mean"},
    {"epsilon": 2.0, "delta": 1e-5, "sampling": "cyclic-poisson", "sampled_fraction": 0.02},
    {"rho": 0.5, "participations": 3, "separation": 20, "learning_rate": 0.1, "momentum": 0.9},
    {"rho": 0.5, "participations": 3, "separation": 20, "learning_rate": [0.1 / t for t in range(1, 61)]},
    {"rho": 0.5, "participations": 3, "separation": 20, "learning_rate": 0.1, "schedule": "cosine", "warmup": 5},
    {"rho": 0.5, "participations": 3, "separation": 20, "learning_rate": 0.1, "momentum": 0.9, "weight_decay": 0.01},
]


@pytest.mark.parametrize("bands", [1, 4])
@pytest.mark.parametrize("given", BANDS, ids=lambda given: " ".join(given))
def test_bands_are_those_of_the_noise(bands: int, given: dict[str, Any], key: et.SecretKey) -> None:
    """Whatever the errors refer to, whitened noise is white, even that of the last step, which may enter none of
    them."""
    steps, size = 60, 10_000
    plan = et.training.plan_vector(steps, mechanism=f"epoch-bands(bands={bands})", **given)
    noise = et.VectorNoise(plan, key, "bands", coordinates=size, dtype="float64")
    whitening = _whitening.whitening(_whitening.noise_covariance(plan, steps))
    white = whitening @ np.stack([noise.next() for _ in range(steps)])
    np.testing.assert_allclose(white @ white.T / size, np.eye(steps), atol=7 / math.sqrt(size))


def clipped(gradients: Array, norm: float) -> Array:
    lengths = np.linalg.norm(gradients, axis=-1, keepdims=True)
    return np.asarray(gradients * np.minimum(1.0, norm / np.maximum(lengths, 1e-300)))


class Loop:
    """A training loop in NumPy, sound or with a fault, with only the audit's coordinates."""

    def __init__(self, plan: et.training.VectorPlan, seed: int, canaries: int = 100, **options: Any) -> None:
        self.plan = plan
        self.audit = TrainingAudit(plan, canaries, seed=seed, **options)
        self.rng = np.random.default_rng(seed + 10_000)
        normals = self.rng.standard_normal((self.audit.steps, self.audit.coordinates))
        self.noise = np.linalg.inv(self.audit._whitening) @ normals

    def gradients(self, step: int) -> Array:
        return self.audit.canaries(step)

    def total(self, step: int) -> Array:
        return np.asarray(clipped(self.gradients(step), self.plan.norm).sum(axis=0))

    def released(self, step: int) -> Array:
        return np.asarray(self.total(step) + self.noise[step - 1])

    def run(self) -> TrainingAudit:
        for step in range(1, self.audit.steps + 1):
            if self.audit.observe(step, self.released(step)):
                break
        return self.audit


class Doubled(Loop):
    def total(self, step: int) -> Array:
        return 2 * super().total(step)


class Unclipped(Loop):
    def total(self, step: int) -> Array:
        return np.asarray(self.gradients(step).sum(axis=0))


class ClippedByTensor(Loop):
    def total(self, step: int) -> Array:
        parts = self.gradients(step).reshape(-1, self.audit.tensors, self.audit.coordinates // self.audit.tensors)
        return np.asarray(clipped(parts, self.plan.norm).sum(axis=0).reshape(-1))


class ClippedByMicroBatch(Loop):
    def total(self, step: int) -> Array:
        gradients = self.gradients(step)
        sums = [gradients[first : first + 2].sum(axis=0) for first in range(0, len(gradients), 2)]
        return np.asarray(clipped(np.array(sums).reshape(-1, self.audit.coordinates), self.plan.norm).sum(axis=0))


class Noiseless(Loop):
    def released(self, step: int) -> Array:
        return self.total(step)


class HalfTheNoise(Loop):
    def released(self, step: int) -> Array:
        return np.asarray(self.total(step) + self.noise[step - 1] / 2)


class NoiseOfNineTenths(Loop):
    def released(self, step: int) -> Array:
        return np.asarray(self.total(step) + 0.9 * self.noise[step - 1])


class NoiseAgain(Loop):
    """From step 10 on, the noise of step 3."""

    def released(self, step: int) -> Array:
        return np.asarray(self.total(step) + self.noise[step - 1 if step < 10 else 2])


class NoiseForTensors(Loop):
    """The noise of one tensor for all tensors."""

    def released(self, step: int) -> Array:
        part = self.noise[step - 1].reshape(self.audit.tensors, -1)[0]
        return np.asarray(self.total(step) + np.tile(part, self.audit.tensors))


class NoiseForCoordinates(Loop):
    """One number for all coordinates of a tensor."""

    def released(self, step: int) -> Array:
        part = self.noise[step - 1].reshape(self.audit.tensors, -1)[:, :1]
        return np.asarray(self.total(step) + np.repeat(part, self.audit.coordinates // self.audit.tensors))


class DividedBySize(Loop):
    """Batches of 60 examples on average: sums are divided by the batch size, and the observed values multiplied by
    60."""

    def released(self, step: int) -> Array:
        return super().released(step) * 60 / self.rng.poisson(60)


class TwiceAsOften(Loop):
    """Every example takes part again five steps later."""

    def gradients(self, step: int) -> Array:
        return np.concatenate([self.audit.canaries(step), self.audit.canaries(step - 5)])


FAULTS = {
    Doubled: "larger",
    Unclipped: "larger",
    ClippedByTensor: "larger",
    ClippedByMicroBatch: "outweighs",
    Noiseless: "smaller",
    HalfTheNoise: "smaller",
    NoiseOfNineTenths: "smaller",
    NoiseAgain: "again",
    NoiseForTensors: "smaller",
    NoiseForCoordinates: "alike",
    DividedBySize: "sometimes",
    TwiceAsOften: "repeated",
}


class TestAudit:
    @pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
    def test_faults_are_caught(self, fault: type[Loop]) -> None:
        plan = correlated(rho=8.0)
        audit = fault(plan, 5).run()
        report = audit.report()
        assert report.refuted and report.alarm is not None and report.alarm <= 40 and report.p_value <= 0.01
        assert FAULTS[fault] in report.families[:2], report.families
        assert any(reason == _bets.REASONS[FAULTS[fault]] for reason in report.reasons)
        assert report.reasons[0] in str(report)
        assert f"alarm after step {report.alarm}" in str(report)

    @pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
    def test_sound_runs_raise_alarms_as_seldom_as_they_say(self, neighbours: str) -> None:
        """150 runs at a significance of 0.05, over all steps: 17 alarms have a probability of at most 2·10⁻³."""
        plan = correlated(neighbours=neighbours)
        covariance = _whitening.noise_covariance(plan, 20)
        loops = (Loop(plan, seed, 20, steps=20, significance=0.05, covariance=covariance) for seed in range(150))
        assert sum(loop.run().refuted for loop in loops) < 17

    def test_too_much_noise_and_small_contributions_are_no_fault(self) -> None:
        class Careful(Loop):
            def released(self, step: int) -> Array:
                return np.asarray(0.6 * self.total(step) + 2 * self.noise[step - 1])

        covariance = _whitening.noise_covariance(correlated(), 20)
        loops = [
            Careful(correlated(), seed, 20, steps=20, significance=0.05, covariance=covariance) for seed in range(60)
        ]
        assert sum(loop.run().refuted for loop in loops) < 10
        assert "hardly reach" in str(Careful(correlated(rho=10.0), 1, 200).run().report())

    def test_the_bounds_of_sound_runs_are_below_the_promise(self) -> None:
        """And not far below it: at least half of μ."""
        plan = correlated(rho=8.0)
        for seed in range(5):
            bounds = Loop(plan, seed, 200).run().report().bounds
            assert bounds is not None and bounds.mu is not None and not bounds.refuted
            assert 0.4 * plan.guarantee.mu < bounds.mu < plan.guarantee.mu == bounds.promised_mu
            assert 1.0 < bounds.epsilon < bounds.promised_epsilon

    def test_examples_that_are_sampled(self, key: et.SecretKey) -> None:
        plan = et.training.plan_vector(
            60,
            epsilon=4.0,
            delta=1e-5,
            sampling="cyclic-poisson",
            sampled_fraction=0.05,
            mechanism="epoch-bands(bands=4)",
        )
        batches = et.training.Batches(plan, key, "sampled", examples=1000)
        sound = Loop(plan, 3, batches=batches).run().report()
        assert not sound.refuted and sound.bounds is not None and sound.bounds.mu is None
        assert sound.bounds.epsilon < sound.bounds.promised_epsilon == pytest.approx(4.0, rel=1e-3)
        assert abs(sound.canary.value - 1) < 4 * sound.canary.std_error
        assert Doubled(plan, 3, batches=batches).run().refuted
        assert Noiseless(plan, 3, batches=batches).run().report().alarm == 1

        class OtherBatches(Loop):
            others = et.training.Batches(plan, key, "other sampled", examples=1000)

            def gradients(self, step: int) -> Array:
                numbers = [int(n) - 800 for n in self.others.batch(step) if n >= 800]
                return np.asarray(self.audit.directions().reshape(200, -1)[numbers])

        report = OtherBatches(plan, 3, batches=batches).run().report()
        assert report.blind and "hardly reach" in str(report)
        with pytest.raises(ValueError, match="samples its examples"):
            TrainingAudit(plan)

    def test_batches_of_fixed_size(self, key: et.SecretKey) -> None:
        """A canary that is replaced takes part in the same steps, with the opposite gradient."""
        plan = et.training.plan_vector(
            60,
            epsilon=6.0,
            delta=1e-5,
            sampling="fixed-size",
            sampled_fraction=0.1,
            neighbours="replace-one",
            mechanism="epoch-bands(bands=2)",
        )
        batches = et.training.Batches(plan, key, "fixed size", examples=1000)
        sound = Loop(plan, 3, batches=batches).run().report()
        assert not sound.refuted and sound.bounds is not None and sound.bounds.mu is None
        assert 0.0 < sound.bounds.epsilon < sound.bounds.promised_epsilon == pytest.approx(6.0, rel=1e-3)
        assert abs(sound.canary.value - 1) < 4 * sound.canary.std_error
        assert Doubled(plan, 3, batches=batches).run().refuted

    def test_noise_of_the_library(self, key: et.SecretKey) -> None:
        """With the plan's own noise, and the same noise with other data."""
        plan = correlated(rho=8.0)
        sound = Loop(plan, 11)
        noise = et.VectorNoise(plan, key, "sound", coordinates=sound.audit.coordinates, dtype="float64")
        for step in range(1, 41):
            sound.audit.observe(step, noise.add_next(sound.total(step)))
        report = sound.audit.report()
        assert not report.refuted and abs(report.noise.value - 1) < 4 * report.noise.std_error

    def test_whatever_is_scaled_is_said_to_be(self) -> None:
        class Scaled(Loop):
            def released(self, step: int) -> Array:
                return 2 * super().released(step)

        audit = Scaled(correlated(rho=10.0), 2)
        report = audit.run().report()
        assert report.refuted and "everything, including the noise, is" in report.reasons[0]
        assert str(report).startswith("The observed sums")

    def test_a_report_prints_and_draws(self) -> None:
        for loop in (Loop(correlated(), 1, 20), HalfTheNoise(correlated(), 1, 20)):
            report = loop.run().report()
            drawn = ElementTree.fromstring(report.svg())
            assert drawn.tag.endswith("svg") and report._repr_svg_() == report.svg()
            svg = "{http://www.w3.org/2000/svg}"
            texts = ["".join(text.itertext()) for text in drawn.iter(f"{svg}text")]
            found = f"alarm after step {report.alarm}" if report.refuted else f"none after {report.steps} steps"
            assert f"Evidence against the plan: {found}" in texts and {"evidence", "alarm", "step", "0"} <= {*texts}
            paths = list(drawn.iter(f"{svg}path"))
            assert any(path.get("stroke-dasharray") for path in paths), "the level of an alarm"
            corners = [len(re.findall(r"[-\d.]+,[-\d.]+", str(path.get("d")))) for path in paths]
            assert report.steps + 1 in corners, "the start, and one point a step"
            assert "proves nothing" in str(report)
            assert ("ε ≥" in str(report)) == (report.bounds is not None) == (report.steps == 40)
        empty = TrainingAudit(correlated(), 4).report()
        assert empty.p_value == 1.0 and "not seen" in str(empty) and ElementTree.fromstring(empty.svg())

    def test_what_is_wrong_is_refused_and_changes_nothing(self, key: et.SecretKey) -> None:
        plan = correlated()
        audit = TrainingAudit(plan, 4, seed=1)
        with pytest.raises(ValueError, match="does not follow"):
            audit.observe(2, np.zeros(16))
        with pytest.raises(ValueError, match="16 coordinates"):
            audit.observe(1, np.zeros(15))
        with pytest.raises(ValueError, match="not finite"):
            audit.observe(1, np.full(16, np.nan))
        audit.observe(1, clipped(audit.canaries(1), 1.0).sum(axis=0))
        assert audit.report().steps == 1
        with pytest.raises(ValueError, match="give 2 or more"):
            TrainingAudit(plan, 1)
        with pytest.raises(ValueError, match="the plan has 40"):
            TrainingAudit(plan, 4, steps=41)
        with pytest.raises(ValueError, match="significance"):
            TrainingAudit(plan, 4, significance=0.0)
        with pytest.raises(ValueError, match="covariance has shape"):
            TrainingAudit(plan, 4, covariance=np.eye(3))
        with pytest.raises(ValueError, match="running-sums"):
            TrainingAudit(et.training.plan_vector(40, rho=1.0, series="running-sums"), 4)

        class TooOften:
            def batch(self, step: int) -> list[int]:
                return [0, 1]

        with pytest.raises(ValueError, match="the plan allows 4, 10 apart"):
            TrainingAudit(plan, 2, batches=TooOften(), numbers=np.arange(4))
        with pytest.raises(ValueError, match="numbers= is missing"):
            TrainingAudit(plan, 2, batches=TooOften())
        with pytest.raises(ValueError, match="each its own"):
            TrainingAudit(plan, 2, batches=TooOften(), numbers=[[0, 0], [1, 2]])

    def test_coins_are_fair_and_its_own(self) -> None:
        plan = correlated()
        together = np.concatenate([TrainingAudit(plan, 40).presence() for _ in range(20)])
        assert 330 < together.sum() < 470
        again = [TrainingAudit(plan, 40, seed=1).presence().tolist() for _ in range(2)]
        assert again[0] == again[1]
