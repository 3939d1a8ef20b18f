"""Gradients in half precision: scaled losses, overflow, autocast."""

import copy
from typing import Any

import evertally as et
import numpy as np
import pytest

torch = pytest.importorskip("torch")
import evertally.torch  # noqa: E402

EXAMPLES, FEATURES, CLASSES = 200, 6, 3
KEY = et.SecretKey.insecure_from_test_seed(et.TestSeed(3))
PLAN = et.training.plan_vector(
    12, epsilon=4.0, delta=1e-5, sampling="cyclic-poisson", sampled_fraction=0.1, mechanism="epoch-bands(bands=3)"
)
LOSS = torch.nn.functional.cross_entropy


def network() -> Any:
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(FEATURES, 5), torch.nn.Tanh(), torch.nn.Linear(5, CLASSES))


def data(worst: float = 1.0) -> Any:
    rng = np.random.default_rng(5)
    inputs = rng.standard_normal((EXAMPLES, FEATURES), dtype=np.float32)
    inputs[::7] *= worst
    return torch.utils.data.TensorDataset(
        torch.from_numpy(inputs), torch.from_numpy(rng.integers(0, CLASSES, EXAMPLES))
    )


def private_run(worst: float = 1.0, **options: Any) -> Any:
    module = network()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.5, momentum=0.5)
    return evertally.torch.make_private(module, LOSS, optimizer, data(worst), PLAN, KEY, "run", **options)


def wrapped(norm: float = 1.0) -> tuple[Any, Any]:
    module = network()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.5, momentum=0.5)
    plan = et.training.plan_vector(8, norm=norm, rho=0.5)
    return module, evertally.torch.DPFTRL(optimizer, plan, KEY, "run", expected_batch_size=4)


def weights(module: Any) -> Any:
    return torch.cat([p.detach().reshape(-1) for p in module.parameters()])


def leave_samples(module: Any, scale: float, dtype: Any, seed: int = 1) -> None:
    """Sets gradients that float16 can represent, multiplied by the scale of the loss."""
    generator = torch.Generator().manual_seed(seed)
    for p in module.parameters():
        own = torch.randn(4, *p.shape, generator=generator).to(torch.float16).float() * 2.0**-6
        p.grad_sample = (own * scale).to(dtype)


class TestScale:
    def test_samples_are_unscaled_before_they_are_clipped(self) -> None:
        found = []
        for scale, dtype in [(1.0, torch.float32), (1024.0, torch.float16), (0.25, torch.float32)]:
            module, private = wrapped()
            leave_samples(module, scale, dtype)
            private.step(scale=scale)
            found.append(weights(module))
        assert torch.equal(found[0], found[1]) and torch.equal(found[0], found[2])

    def test_small_gradients_survive(self) -> None:
        module, private = wrapped(norm=1e-6)
        for p in module.parameters():
            p.grad_sample = torch.full((4, *p.shape), 1e-9 * 65536).to(torch.float16)
        noise = et.VectorNoise(private.plan, KEY, "run", coordinates=weights(module).numel()).next()
        private.step(scale=65536.0)
        total = 4 * torch.cat([p.grad.reshape(-1) for p in module.parameters()]).double().numpy() - noise
        assert total == pytest.approx(4e-9, rel=1e-2), "far below the range of float16"

    def test_examples_that_overflow_count_as_zero_and_the_step_is_taken(self) -> None:
        found = []
        for bad in (float("inf"), float("nan"), 0.0):
            module, private = wrapped()
            leave_samples(module, 1024.0, torch.float16)
            for p in module.parameters():
                p.grad_sample[2] = 0
            module[0].weight.grad_sample[2, 0, 0] = bad
            private.step(scale=1024.0)
            assert private.noise.step == 1
            found.append(weights(module))
        assert torch.equal(found[0], found[2]) and torch.equal(found[1], found[2])
        for p in module.parameters():  # all of them
            p.grad_sample = torch.full((4, *p.shape), float("inf"))
        before = weights(module)
        private.step(scale=1024.0)
        assert private.noise.step == 2 and weights(module).isfinite().all() and not torch.equal(before, weights(module))

    @pytest.mark.parametrize("scale", [0.0, -2.0, 1000.0, 2.0**-140, float("inf"), float("nan")])
    def test_other_scales_than_powers_of_two_are_refused(self, scale: float) -> None:
        module, private = wrapped()
        leave_samples(module, 1.0, torch.float32)
        before = weights(module)
        with pytest.raises(ValueError, match="power of two"):
            private.step(scale=scale)
        with pytest.raises(ValueError, match="power of two"):
            private_run(scale=scale)
        with pytest.raises(ValueError, match="omit scale"):
            private.step([torch.zeros_like(p) for p in module.parameters()], scale=2.0)
        assert private.noise.step == 0 and torch.equal(before, weights(module))

    @pytest.mark.parametrize("clipping", ["samples", "ghost"])
    @pytest.mark.parametrize("microbatch", [None, 7])
    def test_a_run_with_a_scale_is_the_same(self, clipping: str, microbatch: int | None) -> None:
        found = []
        for scale in (1.0, 4096.0):
            run = private_run(clipping=clipping, microbatch=microbatch, scale=scale)
            for batch in run.loader:
                run.step(*batch)
            found.append(weights(run.module))
        assert torch.equal(*found)


class TestGradScaler:
    @pytest.mark.parametrize("unscaled", [False, True])
    def test_a_scale_that_follows_the_gradients_is_refused(self, unscaled: bool) -> None:
        module, private = wrapped()
        leave_samples(module, 1.0, torch.float32, seed=2)
        private.step()  # so that there is a state
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        scaler.scale(LOSS(module(torch.ones(4, FEATURES)), torch.zeros(4, dtype=torch.long))).backward()
        leave_samples(module, 1024.0, torch.float16)
        if unscaled:
            scaler.unscale_(private)
        before, state = weights(module), copy.deepcopy(private.state_dict())
        with pytest.raises(ValueError, match=r"scale=1024\): an example that overflows counts as zero"):
            scaler.step(private)
        after = private.state_dict()
        assert torch.equal(before, weights(module)) and private.noise.step == 1
        assert all(torch.equal(a, b) for a, b in zip(state["noise"]["states"], after["noise"]["states"]))
        for place, kept in state["optimizer"]["state"].items():
            assert torch.equal(kept["momentum_buffer"], after["optimizer"]["state"][place]["momentum_buffer"])
        private.step(scale=1024.0)  # as the error suggests
        assert private.noise.step == 2

    def test_one_that_is_switched_off_does_nothing(self) -> None:
        found = []
        for scaler in (None, torch.amp.GradScaler("cpu", enabled=False)):
            module, private = wrapped()
            leave_samples(module, 1.0, torch.float32)
            if scaler is None:
                private.step()
            else:
                scaler.step(private)
                scaler.update()
            found.append(weights(module))
        assert torch.equal(*found)


class TestAutocast:
    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
    @pytest.mark.parametrize("clipping", ["samples", "ghost"])
    def test_runs_are_those_in_float32_but_for_rounding(self, clipping: str, dtype: Any) -> None:
        run, exact = private_run(clipping=clipping, scale=256.0), private_run(clipping=clipping)
        for batch in run.loader:
            with torch.autocast("cpu", dtype):
                run.step(*batch)
            exact.step(*batch)
        found, expected = weights(run.module), weights(exact.module)
        assert not torch.equal(found, expected)
        assert float((found - expected).norm()) < 0.02 * float((expected - weights(network())).norm())

    @pytest.mark.parametrize("clipping", ["samples", "ghost"])
    def test_examples_that_overflow_in_float16_take_nothing_with_them(self, clipping: str) -> None:
        """Every seventh example overflows float16."""
        run = private_run(worst=1e6, clipping=clipping)
        inputs, targets, examples = next(iter(run.loader))
        assert (inputs.abs().amax(dim=1) > 65504).any()
        with torch.autocast("cpu", torch.float16):
            sums = run._sums(inputs, targets)
            fine = inputs.abs().amax(dim=1) < 65504
            expected = run._sums(inputs[fine], targets[fine])
            run.step(inputs, targets, examples)
        for found, own in zip(sums, expected):
            torch.testing.assert_close(found, own, rtol=1e-3, atol=1e-3)
        assert run.optimizer.noise.step == 1 and weights(run.module).isfinite().all()
