"""Runs with sampled batches, and DPFTRL as an optimizer."""

import copy
from typing import Any

import evertally as et
import numpy as np
import pytest

torch = pytest.importorskip("torch")
import evertally.torch  # noqa: E402

from .small import EXAMPLES, FEATURES, STEPS, data, key, network  # noqa: E402


def sampled_plan(**more: Any) -> et.training.VectorPlan:
    sampling: dict[str, Any] = {"sampling": "cyclic-poisson", "sampled_fraction": 0.1}
    given = sampling | {"mechanism": "epoch-bands(bands=4)"} | more
    return et.training.plan_vector(STEPS, epsilon=4.0, delta=1e-5, **given)


def run(plan: et.training.VectorPlan, **options: Any) -> Any:
    module = network()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.5, momentum=0.5)
    loss = torch.nn.functional.cross_entropy
    return evertally.torch.make_private(module, loss, optimizer, data(), plan, key(), "run", **options)


def weights(of: Any) -> Any:
    return torch.cat([p.detach().reshape(-1) for p in of.module.parameters()])


class TestMakePrivate:
    def test_it_takes_the_batches_and_is_the_same_again(self) -> None:
        plan = sampled_plan()
        first, second = run(plan), run(plan)
        sizes = []
        for inputs, targets, examples in first.loader:
            sizes.append(len(inputs))
            first.step(inputs, targets, examples)
        for batch in second.loader:
            second.step(*batch)
        assert torch.equal(weights(first), weights(second))
        assert sizes == [len(batch) for batch in et.training.Batches(plan, key(), "run", examples=EXAMPLES)]
        assert first.epsilon_at(1e-5) <= 4.0 and first.optimizer.expected_batch_size == 40
        with pytest.raises(et.HorizonExhausted):
            first.step(inputs, targets, examples)

    def test_the_gradient_is_the_noisy_sum_over_the_expected_size(self) -> None:
        plan = sampled_plan()
        private = run(plan, clipping="samples")
        inputs, targets, _ = next(iter(private.loader))
        evertally.torch.grad_samples(private.module, private.loss, inputs, targets)
        parameters = list(private.module.parameters())
        sums = evertally.torch.clip_and_sum([p.grad_sample for p in parameters], plan.norm)
        # Each sample is the gradient of one example.
        loss = private.loss(private.module(inputs[2:3]), targets[2:3])
        for p, gradient in zip(parameters, torch.autograd.grad(loss, parameters)):
            torch.testing.assert_close(p.grad_sample[2], gradient)
        private.optimizer.step()
        noise = et.VectorNoise(plan, key(), "run", coordinates=sum(p.numel() for p in parameters))
        expected = noise.add_next(torch.cat([total.reshape(-1) for total in sums]).numpy()) / np.float32(40)
        np.testing.assert_array_equal(torch.cat([p.grad.reshape(-1) for p in parameters]).numpy(), expected)

    def test_a_fixed_order_is_that_of_the_plan(self) -> None:
        plan = et.training.plan_vector(8, rho=0.5, participations=2, separation=4)
        private = run(plan, batch_size=100)
        seen = []
        for inputs, targets, examples in private.loader:
            seen.append(inputs[:, 0])
            private.step(inputs, targets, examples)
        assert len(seen) == 8 and torch.equal(seen[0], seen[4]) and not torch.equal(seen[0], seen[1])
        for batch_size in (101, 150, 401, None):
            with pytest.raises(ValueError, match="the plan allows|batch_size must be|missing"):
                run(plan, batch_size=batch_size)
        with pytest.raises(ValueError, match="omit batch_size"):
            run(sampled_plan(), batch_size=30)

    def test_data_and_optimizers_that_do_not_suit_are_refused(self) -> None:
        module, pairs = network(), data()
        optimizer = torch.optim.SGD(module.parameters(), lr=0.5)

        def wrap(given: Any) -> Any:
            loss = torch.nn.functional.cross_entropy
            return evertally.torch.make_private(module, loss, optimizer, given, sampled_plan(), key(), "run")

        with pytest.raises(TypeError, match="give the loader's dataset"):
            wrap(torch.utils.data.DataLoader(pairs))
        with pytest.raises(TypeError, match="TensorDataset"):
            wrap(pairs.tensors)
        wrap(pairs)
        with pytest.raises(ValueError, match="wrapped in a DPFTRL already"):
            wrap(pairs)

    @pytest.mark.parametrize("options", [{}, {"batch_size": 50}])
    def test_a_resumed_run_goes_on_with_the_next_batch(self, options: dict[str, int]) -> None:
        plan = et.training.plan_vector(8, rho=0.5, participations=1) if options else sampled_plan()
        whole, first, second = run(plan, **options), run(plan, **options), run(plan, **options)
        for batch in whole.loader:
            whole.step(*batch)
        for place, batch in enumerate(first.loader):
            first.step(*batch)
            if place == 4:
                break
        second.module.load_state_dict(first.module.state_dict())
        second.optimizer.load_state_dict(first.optimizer.state_dict())
        assert len(second.loader) == plan.horizon - 5
        for batch in second.loader:
            second.step(*batch)
        assert torch.equal(weights(second), weights(whole))

    @pytest.mark.parametrize("options", [{}, {"batch_size": 50}])
    def test_another_batch_is_refused(self, options: dict[str, int]) -> None:
        plan = et.training.plan_vector(8, rho=0.5, participations=1) if options else sampled_plan()
        private = run(plan, **options)
        (one, two), before = list(private.loader)[:2], weights(private)
        with pytest.raises(ValueError, match="not the examples of step 1"):
            private.step(*two)
        with pytest.raises(ValueError, match="gradients of"):
            private.step(two[0][:-1], two[1][:-1], one[2])
        assert torch.equal(before, weights(private)) and private.optimizer.noise.step == 0
        private.step(*one)  # the refused step has added nothing
        assert private.optimizer.noise.step == 1

    def test_batch_normalization_is_refused(self) -> None:
        module = torch.nn.Sequential(torch.nn.Linear(FEATURES, 5), torch.nn.BatchNorm1d(5))
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        loss = torch.nn.functional.cross_entropy
        with pytest.raises(ValueError, match="`1` is batch normalization"):
            evertally.torch.make_private(module, loss, optimizer, data(), sampled_plan(), key(), "run")

    def test_empty_batches_take_their_step(self) -> None:
        plan = et.training.plan_vector(
            40, epsilon=4.0, delta=1e-5, sampling="poisson", sampled_fraction=0.002, mechanism="input"
        )
        private, empty = run(plan), 0
        for inputs, targets, examples in private.loader:
            before = weights(private)
            empty += len(inputs) == 0
            private.step(inputs, targets, examples)
            assert not torch.equal(before, weights(private))
        assert empty > 5


class TestOptimizer:
    def private(self, plan: et.training.VectorPlan | None = None, **options: Any) -> tuple[Any, Any]:
        module = network()
        optimizer = torch.optim.SGD(module.parameters(), lr=0.5)
        plan = plan or et.training.plan_vector(8, rho=0.5)
        options.setdefault("expected_batch_size", 4)
        return module, evertally.torch.DPFTRL(optimizer, plan, key(), "run", **options)

    def test_other_examples_than_the_batches_are_refused(self) -> None:
        plan = sampled_plan()
        batches = et.training.Batches(plan, key(), "run", examples=EXAMPLES)
        module, private = self.private(plan, batches=batches)
        own = batches.batch(1)
        zeros = [torch.zeros_like(p) for p in module.parameters()]
        before = [p.detach().clone() for p in module.parameters()]
        with pytest.raises(ValueError, match="give examples="):
            private.step(zeros)
        with pytest.raises(ValueError, match="not the examples of step 1"):
            private.step(zeros, examples=[*own[:-1], own[-1] + 1])
        for p in module.parameters():
            p.grad_sample = torch.zeros(EXAMPLES, *p.shape)
        with pytest.raises(ValueError, match=f"gradients of {EXAMPLES} examples"):
            private.step(examples=own)
        for count in (len(own) - 1, 0):
            for p in module.parameters():
                p.grad_sample = torch.zeros(count, *p.shape) if count else None
            with pytest.raises(ValueError, match=f"the batch of step 1 has {len(own)}"):
                private.step()
        assert private.noise.step == 0
        assert all(torch.equal(p, old) for p, old in zip(module.parameters(), before))
        private.step(zeros, examples=own)
        for p in module.parameters():  # in two parts, as accumulated
            p.grad_sample = [torch.zeros(3, *p.shape), torch.zeros(len(batches.batch(2)) - 3, *p.shape)]
        private.step()
        assert private.noise.step == 2

    def test_plan_and_batches_go_together(self) -> None:
        plan = sampled_plan()
        with pytest.raises(ValueError, match="requires sampled batches: give batches"):
            self.private(plan)
        with pytest.raises(ValueError, match="another plan, key or name"):
            self.private(plan, batches=et.training.Batches(plan, key(), "other run", examples=EXAMPLES))
        with pytest.raises(ValueError, match="another plan, key or name"):
            self.private(plan, batches=et.training.Batches(plan, key(4), "run", examples=EXAMPLES))
        with pytest.raises(ValueError, match="another plan, key or name"):
            self.private(batches=et.training.Batches(plan, key(), "run", examples=EXAMPLES))
        with pytest.raises(ValueError, match="expected_batch_size is missing"):
            self.private(expected_batch_size=None)

    def test_a_step_on_exact_gradients_is_refused(self) -> None:
        module, private = self.private()
        before = [p.detach().clone() for p in module.parameters()]
        module(torch.ones(2, FEATURES)).sum().backward()
        with pytest.raises(RuntimeError, match="exact gradients"):
            private.optimizer.step()
        assert all(torch.equal(p, old) for p, old in zip(module.parameters(), before))

    def test_a_closure_cannot_unfreeze(self) -> None:
        module = network()
        module[0].weight.requires_grad_(False)
        private = evertally.torch.DPFTRL(
            torch.optim.SGD(module.parameters(), lr=1.0),
            et.training.plan_vector(8, rho=0.5),
            key(),
            "run",
            expected_batch_size=4,
        )
        inputs, targets = torch.ones(4, FEATURES), torch.zeros(4, dtype=torch.long)

        def closure() -> None:
            evertally.torch.grad_samples(module, torch.nn.functional.cross_entropy, inputs, targets)
            module[0].weight.requires_grad_(True)
            torch.nn.functional.cross_entropy(module(inputs), targets).backward()

        before = module[0].weight.detach().clone()
        with pytest.raises(ValueError, match="would get no noise"):
            private.step(closure)
        assert torch.equal(before, module[0].weight)

    def test_no_gradient_is_clipped_to_more_than_the_norm(self) -> None:
        for size, norm, dtype in [(1e45, 1.0, torch.float64), (1e38, 1e-7, torch.float32), (3e38, 1e-3, torch.float32)]:
            total = evertally.torch.clip_and_sum([torch.tensor([[size, 0.0]], dtype=dtype)], norm)[0]
            assert float(torch.linalg.vector_norm(total, dtype=torch.float64)) <= norm

    def test_schedulers_closures_and_words(self) -> None:
        module, private = self.private()
        scheduler = torch.optim.lr_scheduler.StepLR(private, step_size=2, gamma=0.1)
        inputs, targets = torch.ones(4, FEATURES), torch.zeros(4, dtype=torch.long)

        def closure() -> Any:
            return evertally.torch.grad_samples(module, torch.nn.functional.cross_entropy, inputs, targets).sum()

        assert float(private.step(closure)) > 0
        scheduler.step()
        private.step([torch.zeros_like(p) for p in module.parameters()])
        scheduler.step()
        assert private.param_groups[0]["lr"] == pytest.approx(0.05) == private.optimizer.param_groups[0]["lr"]
        assert isinstance(private, torch.optim.Optimizer) and "step 2 of 8" in repr(private)
        with pytest.raises(ValueError, match="cannot be added"):
            private.add_param_group({"params": []})
        with pytest.raises(TypeError, match="not pickled"):
            copy.deepcopy(private)
