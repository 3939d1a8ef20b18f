"""Together with other tools for PyTorch: Opacus, functorch, groups of parameters, schedulers, copies."""

import copy
import io
import pickle
from collections.abc import Callable
from typing import Any

import evertally as et
import numpy as np
import pytest

torch = pytest.importorskip("torch")
import evertally.torch  # noqa: E402

EXAMPLES, FEATURES, CLASSES, STEPS = 120, 6, 3, 12
KEY = et.SecretKey.insecure_from_test_seed(et.TestSeed(3))
LOSS = torch.nn.functional.cross_entropy


def sampled_plan() -> et.training.VectorPlan:
    return et.training.plan_vector(
        STEPS,
        epsilon=4.0,
        delta=1e-5,
        sampling="cyclic-poisson",
        sampled_fraction=0.1,
        mechanism="epoch-bands(bands=3)",
    )


def network() -> Any:
    torch.manual_seed(1)
    return torch.nn.Sequential(
        torch.nn.Linear(FEATURES, 8), torch.nn.LayerNorm(8), torch.nn.Tanh(), torch.nn.Linear(8, CLASSES)
    )


def data() -> Any:
    rng = np.random.default_rng(5)
    inputs = rng.standard_normal((EXAMPLES, FEATURES), dtype=np.float32)
    return torch.utils.data.TensorDataset(
        torch.from_numpy(inputs), torch.from_numpy(rng.integers(0, CLASSES, EXAMPLES))
    )


def weights(module: Any) -> Any:
    return torch.cat([p.detach().reshape(-1) for p in module.parameters()])


def private_run(optimizer: Callable[[Any], Any] | None = None, **options: Any) -> Any:
    module = network()
    made = torch.optim.SGD(module.parameters(), lr=0.5) if optimizer is None else optimizer(module)
    return evertally.torch.make_private(module, LOSS, made, data(), sampled_plan(), KEY, "run", **options)


def trained(run: Any) -> Any:
    for batch in run.loader:
        run.step(*batch)
    return weights(run.module)


class TestSamplesFromElsewhere:
    def test_opacus(self) -> None:
        opacus = pytest.importorskip("opacus")
        module, plan = network(), sampled_plan()
        with_samples = opacus.GradSampleModule(module)
        batches = et.training.Batches(plan, KEY, "run", examples=EXAMPLES)
        optimizer = torch.optim.SGD(with_samples.parameters(), lr=0.5)
        private = evertally.torch.DPFTRL(optimizer, plan, KEY, "run", batches=batches)
        loader = torch.utils.data.DataLoader(data(), batch_sampler=batches)
        for (inputs, targets), batch in zip(loader, batches):
            private.zero_grad()
            LOSS(with_samples(inputs), targets).backward()
            private.step(examples=batch)
        assert private.noise.step == STEPS
        torch.testing.assert_close(weights(module), trained(private_run()), rtol=1e-4, atol=1e-5)

    def test_functorch(self) -> None:
        module, plan = network(), sampled_plan()
        batches = et.training.Batches(plan, KEY, "run", examples=EXAMPLES)
        private = evertally.torch.DPFTRL(
            torch.optim.SGD(module.parameters(), lr=0.5), plan, KEY, "run", batches=batches
        )
        inputs, targets = data().tensors

        def loss(values: Any, one: Any, target: Any) -> Any:
            return LOSS(torch.func.functional_call(module, values, (one[None],)), target[None])

        of_all = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))
        for batch in batches:
            samples = of_all(dict(module.named_parameters()), inputs[batch], targets[batch])
            for name, p in module.named_parameters():
                p.grad_sample = samples[name].detach()
            private.step()
        torch.testing.assert_close(weights(module), trained(private_run()), rtol=1e-4, atol=1e-5)


class TestGroupsAndSchedulers:
    @pytest.mark.parametrize("clipping", ["samples", "ghost"])
    def test_groups_in_another_order_have_their_own_rates(self, clipping: str) -> None:
        def two_groups(module: Any) -> Any:
            last = {"params": list(module[3].parameters()), "lr": 0.05, "momentum": 0.9}
            return torch.optim.SGD([last, {"params": [*module[1].parameters(), *module[0].parameters()]}], lr=0.5)

        run, twin = private_run(two_groups, clipping=clipping), network()
        plain = two_groups(twin)
        inputs, targets, examples = next(iter(run.loader))
        evertally.torch.grad_samples(twin, LOSS, inputs, targets)
        order = [p for group in plain.param_groups for p in group["params"]]
        sums = evertally.torch.clip_and_sum([p.grad_sample for p in order], run.optimizer.plan.norm)
        noise = et.VectorNoise(sampled_plan(), KEY, "run", coordinates=weights(twin).numel())
        noisy = torch.from_numpy(noise.add_next(torch.cat([total.reshape(-1) for total in sums]).numpy()))
        for p, part in zip(order, noisy.split([p.numel() for p in order])):
            p.grad = part.view(p.shape) / run.optimizer.expected_batch_size
        plain.step()
        run.step(inputs, targets, examples)
        torch.testing.assert_close(weights(run.module), weights(twin), rtol=1e-4, atol=1e-5)

    @pytest.mark.parametrize(
        "scheduler",
        [
            lambda of: torch.optim.lr_scheduler.OneCycleLR(of, max_lr=0.5, total_steps=STEPS),
            lambda of: torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(of, T_0=4),
            lambda of: torch.optim.lr_scheduler.LambdaLR(of, lambda step: 1 / (1 + step)),
            lambda of: torch.optim.lr_scheduler.ReduceLROnPlateau(of, patience=1),
        ],
    )
    def test_schedulers_do_what_they_do_with_a_plain_optimizer(self, scheduler: Any) -> None:
        run, twin = private_run(lambda module: torch.optim.SGD(module.parameters(), lr=0.5, momentum=0.9)), network()
        plain = torch.optim.SGD(twin.parameters(), lr=0.5, momentum=0.9)
        ours, theirs = scheduler(run.optimizer), scheduler(plain)
        rates = []
        for step, batch in enumerate(run.loader):
            run.step(*batch)
            for p, own in zip(twin.parameters(), run.module.parameters()):
                p.grad = own.grad.clone()
            plain.step()
            public = [1.0] * (step > 3)  # a metric of public data
            metric = public or [10.0 - step]
            for each in (ours, theirs):
                each.step(*metric) if isinstance(each, torch.optim.lr_scheduler.ReduceLROnPlateau) else each.step()
            rates.append(run.optimizer.param_groups[0]["lr"])
            assert run.optimizer.param_groups[0] == {**plain.param_groups[0], "params": list(run.module.parameters())}
            if step == STEPS - 2:
                break
        assert torch.equal(weights(run.module), weights(twin)) and len(set(rates)) > 1
        again = scheduler(
            private_run(lambda module: torch.optim.SGD(module.parameters(), lr=0.5, momentum=0.9)).optimizer
        )
        again.load_state_dict(ours.state_dict())
        assert again.state_dict() == ours.state_dict()


class TestMicrobatches:
    @pytest.mark.parametrize("clipping", ["samples", "ghost"])
    def test_parts_of_a_batch_add_up_to_it(self, clipping: str) -> None:
        whole = trained(private_run(clipping=clipping))
        for microbatch in (1, 5, EXAMPLES):
            found = trained(private_run(clipping=clipping, microbatch=microbatch))
            torch.testing.assert_close(found, whole, rtol=1e-4, atol=1e-5)

    def test_no_more_examples_than_that_are_at_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        seen, original = [], evertally.torch._run.stored_samples

        def noted(module: Any, loss: Any, inputs: Any, *rest: Any) -> Any:
            seen.append(len(inputs))
            return original(module, loss, inputs, *rest)

        monkeypatch.setattr(evertally.torch._run, "stored_samples", noted)
        run = private_run(microbatch=5, clipping="samples")
        batch = next(iter(run.loader))
        run.step(*batch)
        assert max(seen) == 5 and sum(seen) == len(batch[0]) and len(seen) == -(-len(batch[0]) // 5)

    @pytest.mark.parametrize("options", [{"microbatch": 0}, {"clipping": "none"}])
    def test_senseless_options_are_refused(self, options: dict[str, Any]) -> None:
        with pytest.raises(ValueError, match="microbatch is 0|clipping must be"):
            private_run(**options)

    @pytest.mark.parametrize("clipping", ["samples", "ghost"])
    @pytest.mark.parametrize("microbatch", [None, 5])
    def test_a_refusal_leaves_all_as_it_was(self, clipping: str, microbatch: int | None) -> None:
        run = private_run(
            lambda module: torch.optim.Adam(module.parameters()), clipping=clipping, microbatch=microbatch
        )
        one, two, three = list(run.loader)[:3]
        run.step(*one)
        before, state = weights(run.module), copy.deepcopy(run.optimizer.state_dict())
        for given in (
            (three[0], three[1], three[2]),
            (two[0][:-1], two[1][:-1], two[2]),
            (two[0], two[1][:-1], two[2]),
        ):
            with pytest.raises(ValueError, match="not the examples of step 2|gradients of"):
                run.step(*given)
        with pytest.raises((RuntimeError, et.InvalidError), match="shape|size|mat"):
            run.step(two[0][:, 1:], two[1], two[2])
        after = run.optimizer.state_dict()
        assert torch.equal(before, weights(run.module)) and run.optimizer.noise.step == 1
        assert all(torch.equal(a, b) for a, b in zip(state["noise"]["states"], after["noise"]["states"]))
        for place, kept in state["optimizer"]["state"].items():
            assert all(torch.equal(kept[name], after["optimizer"]["state"][place][name]) for name in kept)
        assert all(getattr(p, "grad_sample", None) is None for p in run.module.parameters())
        run.step(*two)


class TestCopies:
    @pytest.mark.parametrize(
        "copied", [copy.copy, copy.deepcopy, pickle.dumps, lambda of: torch.save(of, io.BytesIO())]
    )
    @pytest.mark.parametrize("which", ["private", "wrapped"])
    def test_neither_optimizer_is_copied(self, copied: Callable[[Any], Any], which: str) -> None:
        run = private_run()
        of = run.optimizer if which == "private" else run.optimizer.optimizer
        with pytest.raises(TypeError, match="not pickled or copied|not copied or pickled"):
            copied(of)
        assert run.optimizer.noise.step == 0

    def test_exact_gradients_are_not_stepped(self) -> None:
        run = private_run()
        LOSS(run.module(torch.ones(4, FEATURES)), torch.zeros(4, dtype=torch.long)).backward()
        before = weights(run.module)
        with pytest.raises(RuntimeError, match="exact gradients"):
            run.optimizer.optimizer.step()
        assert torch.equal(before, weights(run.module)) and run.optimizer.noise.step == 0
        run.step(*next(iter(run.loader)))  # they are not in the way

    def test_optimizers_that_look_at_the_loss_are_refused(self) -> None:
        with pytest.raises(ValueError, match="LBFGS evaluates the exact loss"):
            private_run(lambda module: torch.optim.LBFGS(module.parameters()))

    def test_distributed_modules_are_refused(self) -> None:
        module = object.__new__(torch.nn.parallel.DistributedDataParallel)
        torch.nn.Module.__init__(module)
        module.module = network()
        optimizer = torch.optim.SGD(module.parameters(), lr=0.5)
        with pytest.raises(ValueError, match="the module inside"):
            evertally.torch.make_private(module, LOSS, optimizer, data(), sampled_plan(), KEY, "run")
