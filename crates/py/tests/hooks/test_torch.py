"""The PyTorch hook."""

import io
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from evertally.torch import DPFTRL, clip_and_sum  # noqa: E402

KEY = bytes([7, 1])
BATCH = 8


def model(seed: int = 0) -> torch.nn.Module:
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.ReLU(), torch.nn.Linear(4, 3))


def set_samples(network: torch.nn.Module, step: int) -> list[torch.Tensor]:
    """Artificial per-example gradients, some longer than the norm and some shorter."""
    generator = torch.Generator().manual_seed(step)
    for parameter in network.parameters():
        parameter.grad_sample = 0.2 * torch.randn(BATCH, *parameter.shape, generator=generator)
    return [parameter.grad_sample for parameter in network.parameters()]


def flat_clipped_sum(samples: list[torch.Tensor], norm: float) -> np.ndarray:
    rows = np.concatenate([sample.reshape(BATCH, -1).numpy() for sample in samples], axis=1).astype(np.float64)
    lengths = np.linalg.norm(rows, axis=1)
    assert (lengths > norm).any() and (lengths < norm).any()
    return (rows * np.minimum(1, norm / lengths)[:, None]).sum(axis=0)


def wrapped(network, plan, **options) -> DPFTRL:
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
    return DPFTRL(optimizer, plan, KEY, "run", expected_batch_size=BATCH, **options)


def weights(network: torch.nn.Module) -> np.ndarray:
    return torch.nn.utils.parameters_to_vector(network.parameters()).detach().numpy().copy()


def test_gradient_is_clipped_sum_plus_noise_over_expected_batch(noise_type, plan):
    network = model()
    private = wrapped(network, replace(plan, norm=1.2))
    for step in (1, 2, 3):
        samples = set_samples(network, step)
        expected = flat_clipped_sum(samples, 1.2) + noise_type.expected(KEY, step, len(weights(network)))
        private.step()
        found = np.concatenate([parameter.grad.reshape(-1).numpy() for parameter in network.parameters()])
        np.testing.assert_allclose(found, expected / BATCH, rtol=1e-4, atol=1e-6)
        assert private.noise.step == step
        assert all(parameter.grad_sample is None for parameter in network.parameters())


def test_own_sums_are_taken_as_they_are(noise_type, plan):
    network = model()
    private = wrapped(network, plan)
    before = weights(network)
    private.step(torch.full_like(parameter, 50.0) for parameter in network.parameters())
    noise = noise_type.expected(KEY, 1, len(before))
    np.testing.assert_allclose(weights(network), before - 0.1 * (50.0 + noise) / BATCH, rtol=1e-4, atol=1e-6)


def test_gradients_on_the_cpu_share_one_vector(noise_type, plan):
    network = model()
    private = wrapped(network, plan)
    set_samples(network, 1)
    private.step()
    start = private._gradient.data_ptr()
    for parameter in network.parameters():
        assert parameter.grad.data_ptr() == start
        start += 4 * parameter.numel()


def test_parameter_without_samples_gets_noise(noise_type, plan):
    network = model()
    private = wrapped(network, plan)
    set_samples(network, 1)
    unused = network[2].bias
    unused.grad_sample = None
    private.step()
    noise = noise_type.expected(KEY, 1, len(weights(network)))
    np.testing.assert_allclose(unused.grad.numpy(), noise[-3:] / BATCH, rtol=1e-5)


def test_frozen_parameters_take_no_coordinates(noise_type, plan):
    network = model()
    network[0].weight.requires_grad_(False)
    assert wrapped(network, plan).noise.coordinates == 4 + 12 + 3


def test_parameters_without_noise_are_never_stepped(noise_type, plan):
    network = model()
    network[0].weight.requires_grad_(False)
    private = wrapped(network, plan)
    network[0].weight.requires_grad_(True)
    set_samples(network, 1)
    with pytest.raises(ValueError, match="no noise"):
        private.step()
    network[0].weight.requires_grad_(False)
    private.step()
    private.optimizer.add_param_group({"params": [torch.nn.Parameter(torch.zeros(2))]})
    set_samples(network, 2)
    with pytest.raises(ValueError, match="no noise"):
        private.step()


def test_lists_of_samples_are_joined(noise_type, plan):
    one, other = model(), model()
    for network in (one, other):
        set_samples(network, 1)
    for parameter in other.parameters():
        parameter.grad_sample = list(parameter.grad_sample.split(3))
    for network in (one, other):
        wrapped(network, plan).step()
    np.testing.assert_array_equal(weights(one), weights(other))


def test_half_precision_parameters(noise_type, plan):
    network = model().to(torch.bfloat16)
    private = wrapped(network, plan)
    for parameter in network.parameters():
        parameter.grad_sample = torch.ones(BATCH, *parameter.shape, dtype=torch.bfloat16)
    private.step()
    assert all(parameter.grad.dtype == torch.bfloat16 for parameter in network.parameters())


def test_resumed_run_continues_bit_for_bit(noise_type, plan):
    straight, broken = model(), model()
    run = wrapped(straight, plan)
    for step in range(1, 9):
        set_samples(straight, step)
        run.step()

    first = wrapped(broken, plan)
    for step in range(1, 4):
        set_samples(broken, step)
        first.step()
    file = io.BytesIO()
    torch.save({"model": broken.state_dict(), "private": first.state_dict()}, file)

    file.seek(0)
    saved = torch.load(file, weights_only=True)
    resumed = model(seed=99)
    resumed.load_state_dict(saved["model"])
    second = wrapped(resumed, plan)
    second.load_state_dict(saved["private"])
    for step in range(4, 9):
        set_samples(resumed, step)
        second.step()
    assert weights(resumed).tobytes() == weights(straight).tobytes()
    assert second.noise.step == 8


def test_a_refused_step_shows_no_sum_without_its_noise(noise_type, plan):
    network = model()
    private = wrapped(network, replace(plan, horizon=1))
    set_samples(network, 1)
    private.step()
    before = weights(network)
    set_samples(network, 2)
    with pytest.raises(ValueError, match="horizon"):
        private.step()
    assert all((parameter.grad == 0).all() for parameter in network.parameters())
    assert (weights(network) == before).all()


def test_state_of_another_model_is_refused(noise_type, plan):
    state = wrapped(model(), plan).state_dict()
    private = wrapped(torch.nn.Linear(39, 1), plan)
    with pytest.raises(ValueError, match="other parameters"):
        private.load_state_dict(state)


def test_clipped_examples_are_never_longer_than_the_norm():
    generator = torch.Generator().manual_seed(3)
    for scale in (1e-20, 1.0, 1e30):
        sample = scale * torch.randn(1, 10_001, generator=generator)
        (clipped,) = clip_and_sum([sample], norm=0.5 * scale)
        length = np.linalg.norm(clipped.numpy().astype(np.float64))
        assert 0.4999 * scale < length <= 0.5 * scale


def test_short_examples_keep_their_length():
    (total,) = clip_and_sum([torch.tensor([[0.3, 0.4]])], norm=1.0)
    np.testing.assert_allclose(total.numpy(), [0.3, 0.4], rtol=2e-6)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_examples_that_are_not_finite_count_as_zero(bad):
    samples = torch.tensor([[0.3, 0.4], [bad, 0.1]])
    (total,) = clip_and_sum([samples], norm=1.0)
    (alone,) = clip_and_sum([samples[:1]], norm=1.0)
    np.testing.assert_array_equal(total.numpy(), alone.numpy())


def test_zero_gradients_and_empty_batches():
    assert clip_and_sum([torch.zeros(2, 3)], norm=1.0)[0].tolist() == [0, 0, 0]
    assert clip_and_sum([torch.zeros(0, 3)], norm=1.0)[0].tolist() == [0, 0, 0]


def test_mistakes_are_named_before_any_noise_is_drawn(noise_type, plan):
    network = model()
    private = wrapped(network, plan)
    with pytest.raises(ValueError, match="grad_sample"):
        private.step()
    with pytest.raises(ValueError, match="2 tensors for 4"):
        private.step([torch.zeros(1), torch.zeros(1)])
    set_samples(network, 1)
    network[0].bias.grad_sample = torch.zeros(BATCH, 5)
    with pytest.raises(ValueError, match="dimension"):
        private.step()
    set_samples(network, 1)
    network[0].bias.grad_sample = torch.zeros(BATCH + 1, 4)
    with pytest.raises(ValueError, match="same number"):
        private.step()
    assert private.noise.step == 0
    with pytest.raises(ValueError, match="increments"):
        wrapped(network, replace(plan, series="running-sums"))
    with pytest.raises(ValueError, match="positive"):
        DPFTRL(private.optimizer, plan, KEY, "run", expected_batch_size=0)


def test_parameters_that_noise_does_not_fit_are_refused(noise_type, plan):
    layer = torch.nn.Linear(3, 2)
    twice = torch.optim.SGD([layer.weight, layer.bias, layer.weight], lr=0.1)
    imaginary = torch.optim.SGD([torch.nn.Parameter(torch.zeros(2, dtype=torch.complex64))], lr=0.1)
    for optimizer, match in ((twice, "a parameter twice"), (imaginary, "view_as_complex")):
        with pytest.raises(ValueError, match=match):
            DPFTRL(optimizer, plan, KEY, "run", expected_batch_size=BATCH)
