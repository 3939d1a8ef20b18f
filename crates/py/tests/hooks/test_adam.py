"""DPAdam, adaptive thresholds and second moments, in PyTorch and with the real noise."""

import io
import math
from typing import Any

import evertally as et
import numpy as np
import pytest
from evertally.training.moments import AdaptiveClipping, Clipping, SecondMoments

torch = pytest.importorskip("torch")
import evertally.torch  # noqa: E402
from evertally.torch import DPFTRL, DPAdam  # noqa: E402

KEY = et.SecretKey.insecure_from_test_seed(et.TestSeed(3))
BATCH = 8
NAMES = ["threshold", "blocks", "coordinates", "both"]
EXTRAS: list[dict[str, Any]] = [
    {"adaptive_clipping": AdaptiveClipping(initial=0.3)},
    {"second_moments": SecondMoments()},
    {"second_moments": SecondMoments(per="coordinate", scale=4.0)},
    {"adaptive_clipping": AdaptiveClipping(), "second_moments": SecondMoments(share=0.2)},
]


def plan(**more: Any) -> et.training.VectorPlan:
    return et.training.plan_vector(12, **{"epsilon": 4.0, "delta": 1e-5, "mechanism": "blt"} | more)


def model(seed: int = 0) -> Any:
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.ReLU(), torch.nn.Linear(4, 3))


def set_samples(network: Any, step: int) -> np.ndarray:
    """Per-example gradients, one of them not finite; returned as rows."""
    generator = torch.Generator().manual_seed(step)
    for parameter in network.parameters():
        parameter.grad_sample = 0.2 * torch.randn(BATCH, *parameter.shape, generator=generator)
    next(network.parameters()).grad_sample[3, 0, 0] = math.nan
    return np.concatenate([p.grad_sample.reshape(BATCH, -1).numpy() for p in network.parameters()], axis=1)


def private(network: Any, own: et.training.VectorPlan, name: str = "run", adam: bool = True, **options: Any) -> DPFTRL:
    optimizer = (DPAdam if adam else torch.optim.SGD)(network.parameters(), lr=0.1)
    return DPFTRL(optimizer, own, KEY, name, expected_batch_size=BATCH, **options)


def weights(network: Any) -> np.ndarray:
    return torch.nn.utils.parameters_to_vector(network.parameters()).detach().numpy().copy()


class TestDPAdam:
    @pytest.mark.parametrize("decay", [0.0, 0.1])
    def test_without_noise_it_is_adam(self, decay: float) -> None:
        ours, theirs = model(), model()
        one = DPAdam(ours.parameters(), lr=0.01, betas=(0.8, 0.95), weight_decay=decay)
        other = torch.optim.AdamW(theirs.parameters(), lr=0.01, betas=(0.8, 0.95), weight_decay=decay)
        one.noise_std = 0.0
        for step in range(20):
            for mine, its in zip(ours.parameters(), theirs.parameters()):
                mine.grad = torch.randn(mine.shape, generator=torch.Generator().manual_seed(step))
                its.grad = mine.grad.clone()
            one.step()
            other.step()
        np.testing.assert_allclose(weights(ours), weights(theirs), rtol=1e-5, atol=1e-6)

    @pytest.mark.parametrize("second", [0.9, 0.999])
    def test_squares_are_those_without_the_noise(self, second: float) -> None:
        """Over 200,000 coordinates the mean of `v - u` is g² within five standard errors, with noise that changes from
        step to step; and its spread over the coordinates is at most what the floor implies."""
        parameter, steps, size = torch.nn.Parameter(torch.zeros(200_000)), 30, 0.3
        optimizer = DPAdam([parameter], betas=(0.9, second))
        generator = torch.Generator().manual_seed(1)
        for step in range(steps):
            optimizer.noise_std = 1.0 + step % 3
            parameter.grad = size + optimizer.noise_std * torch.randn(200_000, generator=generator)
            optimizer.step()
        state = optimizer.state[parameter]
        whole = 1 - second**steps
        found = ((state["square"].double() - state["noise"]) / whole).numpy()
        assert abs(found.mean() - size**2) < 5 * found.std() / math.sqrt(len(found))
        # The floor includes only the noise's part of the variance of a square, 2σ⁴ + 4σ²g².
        floor = math.sqrt(state["error"]) / whole
        assert floor < found.std() < 1.1 * floor
        assert found.mean() + state["noise"] / whole > 30 * size**2  # plain Adam would divide by its root

    def test_no_square_is_below_the_floor(self) -> None:
        parameter = torch.nn.Parameter(torch.zeros(3))
        optimizer = DPAdam([parameter], lr=1.0, eps=0.0, floor=2.0)
        optimizer.noise_std = 3.0
        parameter.grad = torch.tensor([0.0, 1.0, 100.0])
        optimizer.step()
        floor = 2 * math.sqrt(2) * 9
        expected = [0, -1 / math.sqrt(floor), -100 / math.sqrt(10_000 - 9)]
        np.testing.assert_allclose(parameter.detach(), expected, rtol=1e-5)

    def test_released_moments_take_the_place_of_squares(self) -> None:
        first, other = torch.nn.Parameter(torch.zeros(2, 2)), torch.nn.Parameter(torch.zeros(2))
        optimizer = DPAdam([first, other], lr=1.0, eps=0.0)
        optimizer.noise_std = 1.0
        each = torch.tensor([4.0, 9.0, 16.0, 25.0], dtype=torch.float64)
        optimizer.second_moments = [(each, 0.5), (torch.tensor([-1.0]), 4.0)]
        first.grad, other.grad = torch.ones(2, 2), torch.ones(2)
        optimizer.step()
        np.testing.assert_allclose(first.detach().reshape(-1), [-1 / 2, -1 / 3, -1 / 4, -1 / 5], rtol=1e-6)
        np.testing.assert_allclose(other.detach(), [-1 / 2, -1 / 2], rtol=1e-6)  # the floor

    def test_without_noise_std_nothing_moves(self) -> None:
        network = model()
        optimizer = DPAdam(network.parameters())
        before = weights(network)
        for parameter in network.parameters():
            parameter.grad = torch.ones_like(parameter)
        with pytest.raises(RuntimeError, match="noise_std"):
            optimizer.step()
        assert (weights(network) == before).all() and not optimizer.state

    @pytest.mark.parametrize("given", [{"betas": (0.9, 1.0)}, {"floor": -1.0}, {"eps": math.nan}, {"lr": math.inf}])
    def test_mistakes_are_named(self, given: dict[str, Any]) -> None:
        with pytest.raises(ValueError, match=next(iter(given))):
            DPAdam(model().parameters(), **given)


class TestInDPFTRL:
    @pytest.mark.parametrize(
        "own",
        [
            plan(),
            plan(sampling="cyclic-poisson", sampled_fraction=0.1, mechanism=None),
            plan(participations=3, separation=4),
        ],
    )
    def test_it_is_told_the_noise_of_every_step(self, own: et.training.VectorPlan) -> None:
        network = model()
        batches = et.training.Batches(own, KEY, "told", examples=80) if own.sampling else None
        optimizer = DPAdam(network.parameters())
        given = {"batches": batches} if batches else {"expected_batch_size": BATCH}
        wrapped = DPFTRL(optimizer, own, KEY, "told", **given)
        told = []
        for step in range(1, 13):
            numbers = batches.batch(step) if batches else None
            wrapped.step([torch.zeros_like(p) for p in network.parameters()], examples=numbers)
            told.append(optimizer.noise_std)
        np.testing.assert_allclose(told, own.noise_stds() / wrapped.expected_batch_size, rtol=1e-12)

    @pytest.mark.parametrize("extras", EXTRAS, ids=NAMES)
    def test_gradients_moments_and_thresholds_are_those_of_the_numpy_object(self, extras: dict[str, Any]) -> None:
        network, own, name = model(), plan(norm=1.5), f"twin of {NAMES[EXTRAS.index(extras)]}"
        wrapped = private(network, own, name, **extras)
        sizes = [p.numel() for p in network.parameters()]
        given = {"adaptive": extras.get("adaptive_clipping"), "moments": extras.get("second_moments")}
        twin = Clipping.for_plan(own, sizes, BATCH, **given)
        noise = et.VectorNoise(own, KEY, f"{name}, alone", coordinates=twin.coordinates)
        for step in range(1, 13):
            rows = set_samples(network, step)
            assert wrapped.threshold == pytest.approx(twin.threshold, rel=1e-5)
            with et.allow_noise_reuse("the twin's noise is that of the run"):
                same = et.VectorNoise(own, KEY, name, coordinates=twin.coordinates)
                same.seek(step - 1) if step > 1 else None
                noisy = same.next() + twin.encode(rows).sum(axis=0)
            scale = twin.noise_scale
            expected, moments = twin.decode(noisy), twin.second_moments(noisy) if twin.moments else None
            twin.update(noisy)
            wrapped.step()
            found = np.concatenate([p.grad.reshape(-1).numpy() for p in network.parameters()])
            np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-5)
            assert wrapped.optimizer.noise_std == pytest.approx(own.noise_stds()[step - 1] * scale, rel=1e-5)
            if moments is not None:
                told = np.concatenate([part.numpy() for part, _ in wrapped.optimizer.second_moments])
                np.testing.assert_allclose(told, moments, rtol=1e-3, atol=1e-5)
        del noise

    @pytest.mark.parametrize("extras", [{}, *EXTRAS], ids=["none", *NAMES])
    def test_a_resumed_run_goes_on_bit_for_bit(self, extras: dict[str, Any]) -> None:
        name = f"resumed {[{}, *EXTRAS].index(extras)}"
        straight, broken, resumed = model(), model(), model(99)
        with et.allow_noise_reuse("the same run twice"):
            run = private(straight, plan(), name, **extras)
            for step in range(1, 10):
                set_samples(straight, step)
                run.step()
            first = private(broken, plan(), name, **extras)
            for step in range(1, 5):
                set_samples(broken, step)
                first.step()
            file = io.BytesIO()
            torch.save({"model": broken.state_dict(), "private": first.state_dict()}, file)
            file.seek(0)
            saved = torch.load(file, weights_only=True)
            resumed.load_state_dict(saved["model"])
            second = private(resumed, plan(), name, **extras)
            second.load_state_dict(saved["private"])
            for step in range(5, 10):
                set_samples(resumed, step)
                second.step()
        assert weights(resumed).tobytes() == weights(straight).tobytes()
        assert second.threshold == run.threshold

    def test_a_state_of_other_clipping_is_refused_and_changes_nothing(self) -> None:
        state = private(model(), plan(), "other", **EXTRAS[0]).state_dict()
        for extras in ({}, *EXTRAS[1:]):
            wrapped = private(model(), plan(), "other", **extras)
            with pytest.raises(ValueError, match="other clipping"):
                wrapped.load_state_dict(state)
            assert wrapped.noise.step == 0

    def test_sums_are_refused_where_lengths_are_needed(self) -> None:
        network = model()
        wrapped = private(network, plan(), "sums", **EXTRAS[0])
        with pytest.raises(ValueError, match="single examples"):
            wrapped.step([torch.zeros_like(p) for p in network.parameters()])
        assert wrapped.noise.step == 0

    @pytest.mark.parametrize("extras", EXTRAS, ids=NAMES)
    def test_an_empty_batch_takes_its_step_and_has_the_vector_zero(self, extras: dict[str, Any]) -> None:
        own, name = (
            plan(sampling="poisson", sampled_fraction=0.002, mechanism="input"),
            f"empty {NAMES[EXTRAS.index(extras)]}",
        )
        batches = et.training.Batches(own, KEY, name, examples=100)
        empty = next(step for step in range(2, 13) if not len(batches.batch(step)))
        network = model()
        wrapped = DPFTRL(DPAdam(network.parameters()), own, KEY, name, batches=batches, **extras)
        for step in range(1, empty + 1):
            if len(batches.batch(step)):
                for parameter in network.parameters():
                    parameter.grad_sample = torch.ones(len(batches.batch(step)), *parameter.shape)
            scale = wrapped.released.clipping.noise_scale
            wrapped.step()
        size = len(weights(network))
        with et.allow_noise_reuse("shows that the gradient is the noise"):
            noise = et.VectorNoise(own, KEY, name, coordinates=wrapped.released.coordinates)
            noise.seek(empty - 1)
            expected = noise.next()[:size] * np.float32(scale)
        found = np.concatenate([p.grad.reshape(-1).numpy() for p in network.parameters()])
        np.testing.assert_allclose(found, expected, rtol=1e-6)

    def test_a_parameter_that_no_example_reached_counts_as_zero(self) -> None:
        one, other = model(), model()
        for network, name in ((one, "none"), (other, "zeros")):
            set_samples(network, 1)
            bias = network[2].bias
            bias.grad_sample = None if name == "none" else torch.zeros(BATCH, *bias.shape)
            with et.allow_noise_reuse("the same step twice"):
                private(network, plan(), "unreached", **EXTRAS[3]).step()
        assert weights(one).tobytes() == weights(other).tobytes()

    def test_make_private_takes_them(self) -> None:
        inputs = torch.randn(48, 5, generator=torch.Generator().manual_seed(1))
        data = torch.utils.data.TensorDataset(inputs, torch.arange(48) % 3)
        own, network = plan(participations=2, separation=6), model()
        loss, optimizer = torch.nn.functional.cross_entropy, DPAdam(network.parameters())
        run = et.torch.make_private(network, loss, optimizer, data, own, KEY, "wrapped", batch_size=8, **EXTRAS[3])
        before = run.optimizer.threshold
        for batch in run.loader:
            run.step(*batch)
        assert run.optimizer.threshold != before and run.optimizer.noise.step == 12
        assert len(optimizer.second_moments or ()) == 4 and np.isfinite(weights(network)).all()


class TestOptax:
    @pytest.fixture(autouse=True)
    def imported(self) -> None:
        pytest.importorskip("jax")

    def test_it_is_that_of_torch(self) -> None:
        import evertally.jax as ej
        import jax

        stds = np.array([0.5, 2.0, 1.0, 3.0, 0.1], np.float32)
        rng = np.random.default_rng(1)
        parameter = torch.nn.Parameter(torch.zeros(50))
        ours = DPAdam([parameter], lr=0.1, betas=(0.8, 0.9), floor=1.5)
        transformation = ej.scale_by_dp_adam(stds, 0.8, 0.9, floor=1.5)
        state, total = transformation.init(jax.numpy.zeros(50)), np.zeros(50)
        update = jax.jit(transformation.update)
        for std in stds:
            gradient = rng.standard_normal(50).astype(np.float32)
            ours.noise_std, parameter.grad = float(std), torch.from_numpy(gradient)
            ours.step()
            scaled, state = update(jax.numpy.asarray(gradient), state)
            total -= 0.1 * np.asarray(scaled)
        np.testing.assert_allclose(total, parameter.detach().numpy(), rtol=1e-4, atol=1e-6)

    def test_it_trains_after_the_noise(self) -> None:
        import evertally.jax as ej
        import jax.numpy as jnp
        import optax

        own = plan()
        chain = optax.chain(
            ej.correlated_noise(own, KEY, "optax"),
            optax.scale(1 / BATCH),
            ej.scale_by_dp_adam(own.noise_stds() / BATCH),
            optax.scale_by_learning_rate(0.1),
        )
        params = {"one": jnp.zeros(3), "other": jnp.ones((2, 2))}
        state = chain.init(params)
        for _ in range(own.horizon):
            updates, state = chain.update(params, state, params)
            params = optax.apply_updates(params, updates)
        assert int(state[2].step) == own.horizon and all(np.isfinite(leaf).all() for leaf in params.values())

    @pytest.mark.parametrize("given", [([],), ([-1.0],), (1.0, 1.0), (1.0, 0.9, 0.99, -1.0)])
    def test_mistakes_are_named(self, given: Any) -> None:
        import evertally.jax as ej

        with pytest.raises(ValueError, match="noise_stds|b1|eps"):
            ej.scale_by_dp_adam(*given)
