"""Users with many examples: one gradient for each user."""

import math

import evertally as et
import numpy as np
import pytest

torch = pytest.importorskip("torch")
import evertally.torch  # noqa: E402
from evertally.torch import make_private  # noqa: E402
from evertally.training.moments import AdaptiveClipping, SecondMoments  # noqa: E402

from . import small  # noqa: E402

LOSS, NORM, STEPS, MOST = torch.nn.functional.cross_entropy, 0.5, 6, 4
#: 20 users with 1, 3, 5, … examples, in a mixed order.
OWNERS = [f"user {math.isqrt(number * 7 % small.EXAMPLES)}" for number in range(small.EXAMPLES)]
FIRST = list(dict.fromkeys(OWNERS))


def run(dataset=None, clipping="ghost", owners=OWNERS, **options):
    plan = et.training.plan_vector(STEPS, norm=NORM, rho=0.5, mechanism="input", participations=STEPS, separation=1)
    options = {"users": owners, "examples_per_user": MOST, "batch_size": len(FIRST), "clipping": clipping} | options
    module = options.pop("module", None) or small.network()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    return make_private(module, LOSS, optimizer, dataset or small.data(), plan, small.key(), "users", **options)


def sums(made, batch):
    inputs, targets, _ = batch
    return torch.cat([total.reshape(-1) for total in made._sums_of_all(inputs, targets)])


def gradient(module, inputs, targets):
    """The gradient of a user's mean loss, in float64."""
    of_all = torch.autograd.grad(LOSS(module(inputs), targets), list(module.parameters()))
    return torch.cat([part.double().reshape(-1) for part in of_all])


@pytest.mark.parametrize("clipping", ["ghost", "samples"])
def test_the_sum_is_that_of_clipped_gradients_of_users(clipping):
    made = run(clipping=clipping)
    batch = next(iter(made.loader))
    assert batch[2].tolist() == list(range(len(FIRST)))
    inputs, targets = small.data().tensors
    expected, counts = 0.0, set()
    for user in FIRST:
        own = [number for number, owner in enumerate(OWNERS) if owner == user][:MOST]
        counts.add(len(own))
        one = gradient(made.module.module, inputs[own], targets[own])
        expected = expected + one * min(1.0, NORM / float(one.norm()))
    assert len(counts) > 2
    assert torch.allclose(sums(made, batch).double(), expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("clipping", ["ghost", "samples"])
@pytest.mark.parametrize("value", [1e6, math.nan, math.inf])
def test_all_examples_of_a_user_change_the_sum_by_at_most_the_norm_twice(clipping, value):
    inputs, targets = (tensor.clone() for tensor in small.data().tensors)
    own = [number for number, owner in enumerate(OWNERS) if owner == FIRST[3]]
    assert len(own) > 1
    inputs[own] = value
    changed = torch.utils.data.TensorDataset(inputs, targets)
    one, other = run(clipping=clipping), run(changed, clipping)
    move = sums(one, next(iter(one.loader))) - sums(other, next(iter(other.loader)))
    assert 0 < float(move.norm()) <= 2 * NORM * (1 + 1e-5) and move.isfinite().all()


@pytest.mark.parametrize(
    ("clipping", "extra"),
    [
        ("ghost", {"adaptive_clipping": AdaptiveClipping(initial=0.001, share=0.5)}),
        ("samples", {"adaptive_clipping": AdaptiveClipping(initial=0.001, share=0.5)}),
        ("samples", {"second_moments": SecondMoments(share=0.3)}),
    ],
)
def test_a_user_without_examples_is_absent_in_all_that_is_released(clipping, extra):
    """A mark or moments of an empty user would be further from those of a present one than the norm."""
    owners = [FIRST.index(owner) for owner in OWNERS]
    left = [number for number, owner in enumerate(owners) if owner != 3]
    found = []
    for kept in (range(len(owners)), left):
        inputs, targets = (tensor[list(kept)] for tensor in small.data().tensors)
        data, own = torch.utils.data.TensorDataset(100 * inputs, targets), [owners[number] for number in kept]
        made = run(data, clipping, owners=own, population=len(FIRST), **extra)
        of_gradients = sums(made, next(iter(made.loader)))
        found.append(torch.cat([of_gradients.double(), made.optimizer.further]))
    assert 0.9 * NORM < float((found[0] - found[1]).norm()) <= NORM * (1 + 1e-5)


def test_runs_sample_users_and_refuse_others():
    plan = et.training.plan_vector(
        8, epsilon=8.0, delta=1e-5, sampling="poisson", sampled_fraction=0.1, mechanism="input"
    )
    module = small.network()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    options = {"users": OWNERS, "examples_per_user": MOST}
    made = make_private(module, LOSS, optimizer, small.data(), plan, small.key(), "sampled", **options)
    batches = et.training.Batches(plan, small.key(), "sampled", examples=len(FIRST))
    assert made.clipping == "ghost" and made.optimizer.expected_batch_size == len(FIRST) / 10
    for batch, expected in zip(made.loader, batches, strict=True):
        assert batch[2].tolist() == expected.tolist()
        made.step(*batch)
    with pytest.raises(ValueError, match="399 entries for 400"):
        run(owners=OWNERS[1:])
    with pytest.raises(ValueError, match="together"):
        run(examples_per_user=None)
    with pytest.raises(ValueError, match="at least 1"):
        run(examples_per_user=0)


@pytest.mark.parametrize("missing", [None, math.nan, 1.0, True, torch.tensor(2.0), b"a", (1,)])
def test_users_are_texts_or_whole_numbers(missing):
    with pytest.raises(et.InvalidError, match="the user of example 7 (is missing|has the type)"):
        run(owners=[*OWNERS[:7], missing, *OWNERS[8:]])


def test_five_is_the_same_user_in_all_types():
    owners = [5, "5", np.int64(5), torch.tensor(5)] * (small.EXAMPLES // 4)
    assert len(run(owners=owners, batch_size=1).loader.dataset) == 1


@pytest.mark.parametrize("clipping", ["ghost", "samples"])
def test_a_removed_user_of_a_population_moves_no_other(clipping):
    owners = [math.isqrt(number * 7 % small.EXAMPLES) for number in range(small.EXAMPLES)]
    kept = [number for number, owner in enumerate(owners) if owner != 3]
    fewer = torch.utils.data.TensorDataset(*small.data()[kept])
    one = run(clipping=clipping, owners=owners, population=25, batch_size=25)
    other = run(fewer, clipping, [owners[number] for number in kept], population=25, batch_size=25)
    moved = [sums(each, next(iter(each.loader))) for each in (one, other)]
    assert 0 < float((moved[0] - moved[1]).norm()) <= NORM
    batch = next(iter(other.loader))
    none = evertally.torch._examples.mapped(lambda tensor: tensor[3:4], batch[:2])
    assert not sums(other, (*none, None)).any()
    for population in (0, 19):
        with pytest.raises(et.InvalidError, match="population"):
            run(owners=owners, population=population)
    with pytest.raises(ValueError, match="give users"):
        run(owners=None, examples_per_user=None, population=25)


@pytest.mark.parametrize("clipping", ["ghost", "samples"])
def test_modules_without_a_gradient_at_zero_count_users_with_few_examples(clipping):
    class Directions(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.end = torch.nn.Linear(small.FEATURES, small.CLASSES)

        def forward(self, inputs):
            return self.end(inputs / inputs.norm(dim=-1, keepdim=True))

    module = torch.nn.Sequential(torch.nn.Linear(small.FEATURES, small.FEATURES, bias=False), Directions())
    made = run(clipping=clipping, module=module)
    users = made.loader.dataset._dataset.users
    few = next(place for place in range(len(FIRST)) if len(users.numbers(place)) < MOST)
    one = evertally.torch._examples.mapped(lambda tensor: tensor[few : few + 1], next(iter(made.loader))[:2])
    own = users.numbers(few)
    expected = gradient(module, *small.data()[own])
    expected *= min(1.0, NORM / float(expected.norm()))
    assert torch.allclose(sums(made, (*one, None)).double(), expected, rtol=1e-3, atol=1e-4)
