"""Training with the real noise: a run that is interrupted and resumed ends with the same weights, bit for bit."""

import io
from collections.abc import Callable
from typing import Any

import evertally as et
import numpy as np
import pytest

KEY = et.SecretKey.insecure_from_test_seed(et.TestSeed(7))
STEPS, BREAK, BATCH, FEATURES, CLASSES = 12, 5, 8, 6, 3
# A tree, noise that depends on all earlier steps, and convolutions.
MECHANISMS = ["smooth", "input", "blt", "banded-inverse-sqrt(bands=4)"]


@pytest.fixture(params=MECHANISMS)
def plan(request: pytest.FixtureRequest) -> et.training.VectorPlan:
    return et.training.plan_vector(STEPS, norm=0.7, rho=0.5, mechanism=request.param, participations=3, separation=4)


def batch(step: int) -> tuple[np.ndarray, np.ndarray]:
    """Four batches, in the same order in every epoch."""
    rng = np.random.default_rng(step % 4)
    return rng.standard_normal((BATCH, FEATURES), dtype=np.float32), rng.integers(0, CLASSES, BATCH)


class TestTorch:
    torch: Any = None

    @pytest.fixture(autouse=True)
    def imported(self) -> None:
        TestTorch.torch = pytest.importorskip("torch")

    def model(self, seed: int) -> Any:
        self.torch.manual_seed(seed)
        return self.torch.nn.Sequential(
            self.torch.nn.Linear(FEATURES, 5), self.torch.nn.Tanh(), self.torch.nn.Linear(5, CLASSES)
        )

    def private(self, network: Any, plan: et.training.VectorPlan, **options: Any) -> Any:
        import evertally.torch

        optimizer = self.torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
        return evertally.torch.DPFTRL(optimizer, plan, KEY, "run", expected_batch_size=BATCH, **options)

    def train(self, network: Any, private: Any, first: int, last: int) -> None:
        torch = self.torch
        parameters = dict(network.named_parameters())

        def loss(values: Any, features: Any, target: Any) -> Any:
            scores = torch.func.functional_call(network, values, (features,))
            return torch.nn.functional.cross_entropy(scores, target)

        gradients = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))
        for step in range(first, last):
            features, targets = (torch.from_numpy(part) for part in batch(step))
            samples = gradients({name: p.detach() for name, p in parameters.items()}, features, targets)
            for name, parameter in parameters.items():
                parameter.grad_sample = samples[name]
            private.step()
            private.zero_grad()

    def weights(self, network: Any) -> np.ndarray:
        return self.torch.nn.utils.parameters_to_vector(network.parameters()).detach().numpy().copy()

    def test_a_resumed_run_ends_with_the_same_weights(self, plan: et.training.VectorPlan) -> None:
        straight = self.model(0)
        self.train(straight, self.private(straight, plan), 0, STEPS)

        broken = self.model(0)
        first = self.private(broken, plan)
        self.train(broken, first, 0, BREAK)
        file = io.BytesIO()
        self.torch.save({"model": broken.state_dict(), "private": first.state_dict()}, file)

        file.seek(0)
        saved = self.torch.load(file, weights_only=True)
        resumed = self.model(99)
        resumed.load_state_dict(saved["model"])
        second = self.private(resumed, plan, threads=2, memory="recompute")
        second.load_state_dict(saved["private"])
        assert second.noise.step == BREAK
        self.train(resumed, second, BREAK, STEPS)
        assert self.weights(resumed).tobytes() == self.weights(straight).tobytes()

    def test_the_noise_is_that_of_the_plan(self, plan: et.training.VectorPlan) -> None:
        """The gradients of a step are the result of add_next on the clipped sum."""
        network = self.model(0)
        private = self.private(network, plan)
        size = len(self.weights(network))
        noise = et.VectorNoise(plan, KEY, "run", coordinates=size)
        for _ in range(3):
            private.step([self.torch.ones_like(p) for p in network.parameters()])
            found = np.concatenate([p.grad.reshape(-1).numpy() for p in network.parameters()])
            expected = noise.add_next(np.ones(size, dtype=np.float32)) / np.float32(BATCH)
            assert found.tobytes() == expected.tobytes()

    def test_beyond_the_horizon_is_an_error(self, plan: et.training.VectorPlan) -> None:
        network = self.model(0)
        private = self.private(network, plan)
        self.train(network, private, 0, STEPS)
        before = self.weights(network)
        with pytest.raises(et.HorizonExhausted):
            self.train(network, private, 0, 1)
        assert self.weights(network).tobytes() == before.tobytes()

    def test_a_state_of_another_name_is_refused(self, plan: et.training.VectorPlan) -> None:
        import evertally.torch

        network = self.model(0)
        state = self.private(network, plan).state_dict()
        optimizer = self.torch.optim.SGD(network.parameters(), lr=0.1)
        other = evertally.torch.DPFTRL(optimizer, plan, KEY, "other run", expected_batch_size=BATCH)
        with pytest.raises(et.StateError):
            other.load_state_dict(state)


class TestJax:
    @pytest.fixture(autouse=True)
    def imported(self) -> None:
        pytest.importorskip("jax")
        pytest.importorskip("optax")

    def training(
        self, plan: et.training.VectorPlan, checkpoint: bytes | None = None, **options: Any
    ) -> tuple[Any, Callable[..., Any], Callable[[Any, int, int], Any]]:
        """The transformation, a function that creates the first state of a run, and one that takes steps."""
        import jax
        import jax.numpy as jnp
        import optax

        import evertally.jax as ej

        noise = ej.correlated_noise(plan, KEY, "run", saved=checkpoint, **options)
        optimizer = optax.chain(noise, optax.scale(1 / BATCH), optax.adam(0.05))

        def loss(params: Any, features: Any, target: Any) -> Any:
            scores = jnp.tanh(features @ params["inner"]) @ params["outer"] + params["bias"]
            return optax.softmax_cross_entropy_with_integer_labels(scores, target)

        def start() -> Any:
            rng = np.random.default_rng(1)
            shapes = {"inner": (FEATURES, 5), "outer": (5, CLASSES), "bias": (CLASSES,)}
            params = {name: jnp.asarray(rng.standard_normal(shape, np.float32)) for name, shape in shapes.items()}
            return params, optimizer.init(params)

        @jax.jit
        def update(run: Any, features: Any, targets: Any) -> Any:
            params, state = run
            gradients = jax.vmap(jax.grad(loss), in_axes=(None, 0, 0))(params, features, targets)
            updates, state = optimizer.update(ej.clip_and_sum(gradients, plan.norm), state, params)
            return optax.apply_updates(params, updates), state

        def train(run: Any, first: int, last: int) -> Any:
            for step in range(first, last):
                run = update(run, *batch(step))
            return jax.block_until_ready(run)

        return noise, start, train

    @pytest.mark.parametrize("saved", [False, True], ids=["sought", "checkpoint"])
    def test_a_resumed_run_ends_with_the_same_weights(self, plan: et.training.VectorPlan, saved: bool) -> None:
        import jax

        _, start, train = self.training(plan)
        straight = train(start(), 0, STEPS)

        noise, start, train = self.training(plan)
        broken = train(start(), 0, BREAK)
        leaves, tree = jax.tree.flatten(broken)
        kept = [np.asarray(leaf) for leaf in leaves]
        state = noise.save() if saved else None

        _, _, train = self.training(plan, state, threads=2, memory="recompute")
        resumed = train(jax.tree.unflatten(tree, [jax.numpy.asarray(leaf) for leaf in kept]), BREAK, STEPS)
        for found, expected in zip(jax.tree.leaves(resumed), jax.tree.leaves(straight), strict=True):
            assert np.asarray(found).tobytes() == np.asarray(expected).tobytes()

    def test_the_noise_is_that_of_the_plan(self, plan: et.training.VectorPlan) -> None:
        import jax.numpy as jnp

        import evertally.jax as ej

        hook = ej.correlated_noise(plan, KEY, "run")
        state, noise = hook.init(jnp.zeros(30)), et.VectorNoise(plan, KEY, "run", coordinates=30)
        for _ in range(STEPS):
            updates, state = hook.update(jnp.ones(30), state)
            assert np.asarray(updates).tobytes() == noise.add_next(np.ones(30, dtype=np.float32)).tobytes()
        with pytest.raises(Exception, match=f"all {STEPS} steps"):
            hook.update(jnp.ones(30), state)[0].block_until_ready()
