"""Audits of runs with PyTorch: sound ones, and loops with one fault each."""

from collections.abc import Callable
from typing import Any

import evertally as et
import numpy as np
import pytest

torch = pytest.importorskip("torch")
import evertally.torch  # noqa: E402

from .small import CLASSES, EXAMPLES, STEPS, data, key, network  # noqa: E402

BATCH = 50
LOSS = torch.nn.functional.cross_entropy


def fixed_plan(**more: Any) -> et.training.VectorPlan:
    # 600 examples including canaries, in batches of 50: an epoch has 12 steps.
    given: dict[str, Any] = {"rho": 8.0, "participations": 2, "separation": 12, "mechanism": "banded-sqrt(bands=4)"}
    return et.training.plan_vector(STEPS, **(given | more))


def sampled_plan() -> et.training.VectorPlan:
    return et.training.plan_vector(
        STEPS,
        epsilon=8.0,
        delta=1e-5,
        sampling="cyclic-poisson",
        sampled_fraction=0.1,
        mechanism="epoch-bands(bands=4)",
    )


class TestAuditRun:
    def audited(self, plan: et.training.VectorPlan, seed: int = 1, **options: Any) -> Any:
        module = network()
        optimizer = torch.optim.SGD(module.parameters(), lr=0.5, momentum=0.5, weight_decay=0.01)
        return evertally.torch.audit_run(
            module, LOSS, optimizer, data(), plan, key(seed), f"audit {seed}", seed=seed, **options
        )

    @pytest.mark.parametrize("plan", [fixed_plan(), fixed_plan(neighbours="replace-one"), fixed_plan(mechanism="blt")])
    def test_a_sound_run_in_a_fixed_order(self, plan: et.training.VectorPlan) -> None:
        run = self.audited(plan, batch_size=BATCH)
        for batch in run.loader:
            assert not run.step(*batch)
        report = run.report()
        assert report.steps == STEPS and not report.refuted and not report.blind
        for factor in (report.canary, report.decoy, report.noise):
            assert abs(factor.value - 1) < 4.5 * factor.std_error < 0.6
        assert report.bounds.refuted is False and 0 < report.bounds.mu < plan.guarantee.mu

    def test_a_sound_run_with_sampling(self) -> None:
        run = self.audited(sampled_plan())
        for batch in run.loader:
            run.step(*batch)
        report = run.report()
        assert not report.refuted and report.bounds.epsilon < 8.0
        assert abs(report.canary.value - 1) < 4.5 * report.canary.std_error

    def test_a_few_steps_are_enough_to_watch(self) -> None:
        run = self.audited(fixed_plan(), batch_size=BATCH, steps=3)
        for batch in run.loader:
            run.step(*batch)
        assert run.report().steps == 3 and run.report().bounds is not None

    def test_a_fault_in_the_library_would_show(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Noise that is missing between the sum and the optimizer."""
        run = self.audited(fixed_plan(), batch_size=BATCH)

        class Silent:
            def __init__(self, noise: Any) -> None:
                self.noise = noise

            def __getattr__(self, name: str) -> Any:
                return getattr(self.noise, name)

            def add_next(self, array: Any, examples: int | None = None) -> Any:
                kept = array.clone()
                self.noise.add_next(array, examples)
                array.copy_(kept)

        run.run.optimizer.noise = Silent(run.run.optimizer.noise)
        assert run.step(*next(iter(run.loader))) and run.refuted
        assert run.report().families[0] == "smaller"

    def test_the_module_is_the_real_one_for_real_examples(self) -> None:
        run = self.audited(fixed_plan(), batch_size=BATCH)
        module, (inputs, targets) = run.audit.module, data()[:7]
        assert torch.equal(module(inputs), module.inner(inputs))
        evertally.torch.grad_samples(module, LOSS, inputs, targets)
        assert all(not p.grad_sample.any() for p in module.canaries)
        evertally.torch.grad_samples(module, LOSS, module.inputs, data()[0][1].repeat(200))
        assert all(not p.grad_sample.any() for p in module.inner.parameters())
        found = torch.cat([p.grad_sample for p in module.canaries], dim=1).numpy()
        np.testing.assert_allclose(found, run.audit.audit.directions().reshape(200, -1), rtol=1e-5)

    def test_canaries_are_among_the_data(self) -> None:
        run = self.audited(fixed_plan(), batch_size=BATCH)
        dataset = run.audit.dataset
        assert len(dataset) == EXAMPLES + 200
        numbers = dataset.numbers.reshape(-1)
        assert len(set(numbers.tolist())) == 200 and (dataset.numbers[:, 1] == dataset.numbers[:, 0] + 1).all()
        others = [dataset[number][0] for number in range(len(dataset)) if number not in set(numbers.tolist())]
        assert torch.equal(torch.stack(others), data().tensors[0])


class InOrder:
    """The same batches in every epoch."""

    def batch(self, step: int) -> range:
        first = (step - 1) % 12 * BATCH
        return range(first, first + BATCH)


def per_example(module: Any, inputs: Any, targets: Any) -> Any:
    """The gradients over all parameters together: examples, coordinates."""
    evertally.torch.grad_samples(module, LOSS, inputs, targets)
    return torch.cat([p.grad_sample.reshape(len(inputs), -1) for p in module.parameters()], dim=1)


def clipped(gradients: Any, norm: float) -> Any:
    return gradients * (norm / gradients.norm(dim=1, keepdim=True)).clamp(max=1.0)


class Loop:
    """A hand-written loop, with the noise of the plan."""

    order: Any = InOrder()

    def __init__(self, plan: et.training.VectorPlan, seed: int = 1) -> None:
        self.plan = plan
        self.audit = evertally.torch.RunAudit(network(), LOSS, data(), plan, seed=seed)
        self.optimizer = torch.optim.Adam(self.audit.module.parameters(), lr=0.01)
        self.audit.watch(self.optimizer, InOrder(), expected_batch_size=BATCH)
        self.size = sum(p.numel() for p in self.audit.module.parameters())
        self.noise = et.VectorNoise(plan, key(seed + 100), "loop", coordinates=self.size)

    def total(self, inputs: Any, targets: Any) -> Any:
        return clipped(per_example(self.audit.module, inputs, targets), self.plan.norm).sum(dim=0)

    def noisy(self, total: Any) -> Any:
        return torch.from_numpy(self.noise.add_next(total.numpy().copy()))

    def run(self) -> Any:
        for step in range(1, STEPS + 1):
            pairs = [self.audit.dataset[number] for number in self.order.batch(step)]
            inputs, targets = torch.utils.data.default_collate(pairs)
            gradient = self.noisy(self.total(inputs, targets)) / BATCH
            first = 0
            for parameter in self.audit.module.parameters():
                parameter.grad = gradient[first : first + parameter.numel()].view_as(parameter).clone()
                first += parameter.numel()
            self.optimizer.step()
            if self.audit.refuted:
                break
        return self.audit.report()


class Doubled(Loop):
    def total(self, inputs: Any, targets: Any) -> Any:
        return super().total(torch.cat([inputs, inputs]), torch.cat([targets, targets]))


class Unclipped(Loop):
    def total(self, inputs: Any, targets: Any) -> Any:
        return per_example(self.audit.module, inputs, targets).sum(dim=0)


class ClippedByTensor(Loop):
    def total(self, inputs: Any, targets: Any) -> Any:
        gradients = per_example(self.audit.module, inputs, targets)
        sizes = [p.numel() for p in self.audit.module.parameters()]
        return torch.cat([clipped(part, self.plan.norm).sum(dim=0) for part in gradients.split(sizes, dim=1)])


class ClippedByMicroBatch(Loop):
    def total(self, inputs: Any, targets: Any) -> Any:
        gradients = per_example(self.audit.module, inputs, targets)
        sums = torch.stack([gradients[first : first + 2].sum(dim=0) for first in range(0, len(gradients), 2)])
        return clipped(sums, self.plan.norm).sum(dim=0)


class Noiseless(Loop):
    def noisy(self, total: Any) -> Any:
        return total


class HalfTheNoise(Loop):
    def noisy(self, total: Any) -> Any:
        return total + (super().noisy(total) - total) / 2


class NoiseAgain(Loop):
    """The generator is seeded again in every epoch."""

    def noisy(self, total: Any) -> Any:
        if self.noise.step == 12:
            with et.allow_noise_reuse("a fault"):
                self.noise = et.VectorNoise(self.plan, key(101), "loop", coordinates=self.size)
                return super().noisy(total)
        with et.allow_noise_reuse("a fault"):
            return super().noisy(total)


class MeanNotSum(Loop):
    """The mean of the clipped gradients, with the noise of the sum divided by the batch twice."""

    def noisy(self, total: Any) -> Any:
        return total + (super().noisy(total) - total) / BATCH


class OtherOrder(Loop):
    """Two batches in each step: every example takes part twice in an epoch."""

    class Double:
        def batch(self, step: int) -> Any:
            first = (step - 1) % 12 * BATCH
            other = (step + 5) % 12 * BATCH
            return [*range(first, first + BATCH), *range(other, other + BATCH)]

    order = Double()


FAULTS: dict[type[Loop], str] = {
    Doubled: "larger",
    Unclipped: "larger",
    ClippedByTensor: "larger",
    ClippedByMicroBatch: "outweighs",
    Noiseless: "smaller",
    HalfTheNoise: "smaller",
    MeanNotSum: "smaller",
    NoiseAgain: "again",
    OtherOrder: "repeated",
}


class TestOwnLoop:
    def test_a_sound_loop(self) -> None:
        report = Loop(fixed_plan()).run()
        assert report.steps == STEPS and not report.refuted and not report.blind

    @pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
    def test_faults_are_caught(self, fault: Callable[..., Loop]) -> None:
        report = fault(fixed_plan(rho=10.0)).run()
        assert report.refuted, str(report)
        assert report.families[0] == FAULTS[fault], str(report)

    def test_canaries_that_do_not_arrive_are_missed(self) -> None:
        class Augmented(Loop):
            def total(self, inputs: Any, targets: Any) -> Any:
                return super().total(inputs * 1.01, targets)

        report = Augmented(fixed_plan(rho=10.0)).run()
        assert report.blind and not report.refuted and "hardly reach" in str(report)

    def test_an_optimizer_without_the_canaries_is_refused(self) -> None:
        module = network()
        audit = evertally.torch.RunAudit(module, LOSS, data(), fixed_plan())
        with pytest.raises(ValueError, match="lacks the canaries"):
            audit.watch(torch.optim.SGD(module.parameters(), lr=0.1), InOrder(), expected_batch_size=BATCH)
        with pytest.raises(RuntimeError, match="nothing was watched"):
            audit.report()

    def test_inputs_that_cannot_be_told_apart_are_refused(self) -> None:
        short = torch.utils.data.TensorDataset(torch.zeros(9, 1, dtype=torch.long), torch.zeros(9, dtype=torch.long))
        with pytest.raises(ValueError, match="distinguished from each other"):
            evertally.torch.RunAudit(network(), LOSS, short, fixed_plan())

    def test_whole_numbers_are_inputs_too(self) -> None:
        rng = np.random.default_rng(0)
        words = torch.from_numpy(rng.integers(0, 50, (100, 12)))
        texts = torch.utils.data.TensorDataset(words, torch.from_numpy(rng.integers(0, CLASSES, 100)))
        module = torch.nn.Sequential(torch.nn.Embedding(50, 4), torch.nn.Flatten(), torch.nn.Linear(48, CLASSES))
        audit = evertally.torch.RunAudit(module, LOSS, texts, fixed_plan(), canaries=20)
        inputs, targets = torch.utils.data.default_collate([audit.dataset[int(n)] for n in audit.dataset.numbers[:, 1]])
        evertally.torch.grad_samples(audit.module, LOSS, inputs, targets)
        assert all(p.grad_sample.diagonal().lt(0).all() for p in audit.module.canaries)


class TestOpacus:
    @pytest.fixture(autouse=True)
    def imported(self) -> None:
        pytest.importorskip("opacus")

    def report(self, multiplier: float) -> Any:
        """DP-SGD with Opacus, with a noise multiplier relative to the one that the plan requires."""
        from opacus import GradSampleModule
        from opacus.optimizers import DPOptimizer

        plan = fixed_plan(mechanism="input")
        audit = evertally.torch.RunAudit(network(), LOSS, data(), plan, seed=3)
        module = GradSampleModule(audit.module, strict=False)
        plain = torch.optim.SGD(module.parameters(), lr=0.1)
        torch.manual_seed(3)
        optimizer = DPOptimizer(
            plain,
            noise_multiplier=multiplier * plan.sigma / plan.norm,
            max_grad_norm=plan.norm,
            expected_batch_size=BATCH,
        )
        audit.watch(plain, InOrder(), expected_batch_size=BATCH)
        for step in range(1, STEPS + 1):
            pairs = [audit.dataset[number] for number in InOrder().batch(step)]
            inputs, targets = torch.utils.data.default_collate(pairs)
            optimizer.zero_grad()
            LOSS(module(inputs), targets).backward()
            optimizer.step()
        return audit.report()

    def test_its_dp_sgd_keeps_the_plan(self) -> None:
        report = self.report(1.0)
        assert report.steps == STEPS and not report.refuted and not report.blind, str(report)

    def test_a_smaller_multiplier_does_not(self) -> None:
        report = self.report(0.8)
        assert report.refuted and report.families[0] == "smaller", str(report)
