"""Impossible sums, and orders that contradict the plan, are refused before the weights move."""

from typing import Any

import evertally as et
import numpy as np
import pytest

PLAN = et.training.plan_vector(6, norm=0.7, rho=0.5, participations=3, separation=2)
BATCH = 4


class TestTorch:
    @pytest.fixture(autouse=True)
    def imported(self) -> None:
        pytest.importorskip("torch")
        import evertally.torch  # noqa: F401

    def private(self, key: Any, plan: Any = PLAN, **options: Any) -> tuple[Any, Any]:
        import torch

        weights = torch.nn.Parameter(torch.zeros(100))
        kind = options.pop("optimizer", torch.optim.SGD)
        options = {"expected_batch_size": BATCH} | options
        return weights, et.torch.DPFTRL(kind([weights], lr=0.1), plan, key, "run", **options)

    @pytest.mark.parametrize("bad", [float("nan"), float("inf")])
    def test_sums_that_are_not_finite(self, key: Any, bad: float) -> None:
        import torch

        weights, private = self.private(key)
        total = torch.zeros(100)
        total[3] = bad
        with pytest.raises(et.InvalidError, match="NaN or infinite"):
            private.step([total])
        assert private.noise.step == 0 and not weights.detach().any() and weights.grad is None
        private.step([torch.zeros(100)])
        assert weights.isfinite().all()

    def test_sums_that_are_too_long(self, key: Any) -> None:
        import torch

        weights, private = self.private(key)
        longest = torch.full((100,), 0.07 * BATCH)
        with pytest.raises(et.InvalidError, match="longer than"):
            private.step([1.01 * longest], examples=range(BATCH))
        batches = et.training.FixedBatches(PLAN, examples=8, batch_size=BATCH)
        _, other = self.private(key, batches=batches)
        with pytest.raises(et.InvalidError, match="longer than"):
            other.step([1.01 * longest], examples=range(BATCH))
        assert private.noise.step == other.noise.step == 0 and not weights.detach().any()
        private.step([longest], examples=range(BATCH))

    def test_samples_that_are_not_real_numbers(self, key: Any) -> None:
        import torch

        weights, private = self.private(key)
        for wrong in (torch.int64, torch.complex64):
            weights.grad_sample = torch.ones(BATCH, 100, dtype=wrong)
            with pytest.raises(ValueError, match="real floating-point numbers"):
                private.step(examples=range(BATCH))
        assert private.noise.step == 0

    def test_a_step_inside_another(self, key: Any) -> None:
        import torch

        weights, private = self.private(key)

        def nested() -> None:
            weights.grad_sample = torch.zeros(BATCH, 100)
            with pytest.raises(RuntimeError, match="another step is in progress"):
                private.step([torch.zeros(100)], examples=range(BATCH, 2 * BATCH))

        private.step(nested, examples=range(BATCH))
        assert private.noise.step == 1
        private.step([torch.zeros(100)], examples=range(BATCH, 2 * BATCH))

    def test_dp_adam_by_itself(self) -> None:
        import torch

        moved, broken = torch.nn.Parameter(torch.zeros(3)), torch.nn.Parameter(torch.zeros(3))
        adam = et.torch.DPAdam([moved, broken])
        adam.noise_std = 1.0
        moved.grad, broken.grad = torch.ones(3), torch.tensor([1.0, float("nan"), 1.0])
        with pytest.raises(ValueError, match="NaN or infinite"):
            adam.step()
        assert not moved.detach().any() and not adam.state

    def test_examples_that_come_too_often_or_too_soon(self, key: Any) -> None:
        import torch

        _, private = self.private(key)
        zeros = [torch.zeros(100)]
        private.step(zeros, examples=[1, 2])
        with pytest.raises(et.InvalidError, match="the plan allows an example at most 3 steps, at least 2 apart"):
            private.step(zeros, examples=[2, 3])
        assert private.noise.step == 1
        private.step(zeros, examples=[3])
        private.step(zeros, examples=[1, 2])
        _, resumed = self.private(key)
        resumed.load_state_dict(private.state_dict())
        for each in (private, resumed):
            each.step(zeros, examples=[7])
        resumed.step(zeros, examples=[1, 2])
        resumed.step(zeros, examples=[7, 8])
        with pytest.raises(et.InvalidError, match="takes part in step 5"):
            private.step(zeros, examples=[7])

    def test_batches_of_a_fixed_order(self, key: Any) -> None:
        import torch

        batches = et.training.FixedBatches(PLAN, examples=8, batch_size=BATCH)
        _, private = self.private(key, batches=batches, expected_batch_size=None)
        assert private.expected_batch_size == BATCH
        with pytest.raises(ValueError, match="not the examples of step 1"):
            private.step([torch.zeros(100)], examples=[4, 5, 6, 7])
        for batch in batches:
            private.step([torch.zeros(100)], examples=batch)
        with pytest.raises(ValueError, match="another plan, key or name"):
            self.private(key, plan=et.training.plan_vector(6, rho=0.5, participations=3, separation=2), batches=batches)
        with pytest.raises(TypeError, match="FixedBatches"):
            self.private(key, batches=[[0, 1, 2, 3]] * 6)


class TestJax:
    @pytest.fixture(autouse=True)
    def imported(self) -> None:
        pytest.importorskip("jax")
        import evertally.jax  # noqa: F401

    @pytest.mark.parametrize("on", ["host", "device"])
    @pytest.mark.parametrize("bad", [np.nan, -np.inf])
    def test_sums_that_are_not_finite(self, key: Any, on: Any, bad: float) -> None:
        import jax
        import jax.numpy as jnp

        noise = et.jax.correlated_noise(PLAN, key, "run", on=on)
        update = jax.jit(noise.update)
        total = {"a": jnp.zeros(70), "b": jnp.zeros((3, 10)).at[1, 1].set(bad)}
        with pytest.raises(Exception, match="NaN or infinite"):
            jax.block_until_ready(update(total, noise.init(total)))
        fine = jax.tree.map(jnp.zeros_like, total)
        noisy, state = update(fine, noise.init(fine))
        assert int(state.step) == 1 and np.isfinite(np.asarray(noisy["b"])).all()

    @pytest.mark.parametrize("on", ["host", "device"])
    def test_sums_that_are_too_long(self, key: Any, on: Any) -> None:
        import jax
        import jax.numpy as jnp

        batches = et.training.FixedBatches(PLAN, examples=8, batch_size=BATCH)
        noise = et.jax.correlated_noise(PLAN, key, "run", on=on, batches=batches)
        longest = jnp.full(10_000, 0.007 * BATCH)
        with pytest.raises(Exception, match="longer than"):
            jax.block_until_ready(noise.update(1.01 * longest, noise.init(longest)))
        jax.block_until_ready(noise.update(longest, noise.init(longest)))

    def test_batches_of_another_plan(self, key: Any) -> None:
        batches = et.training.FixedBatches(PLAN, examples=8, batch_size=BATCH)
        with pytest.raises(ValueError, match="another plan, key or name"):
            et.jax.correlated_noise(et.training.plan_vector(6, rho=0.5), key, "run", batches=batches)
        with pytest.raises(TypeError, match="FixedBatches"):
            et.jax.correlated_noise(PLAN, key, "run", batches=[[0]] * 6)  # type: ignore[arg-type]
