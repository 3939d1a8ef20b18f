"""Random numbers of modules, such as those of dropout: no example changes those of others."""

import random

import evertally as et
import numpy as np
import pytest

torch = pytest.importorskip("torch")
import evertally.torch  # noqa: E402
from evertally.torch import _generators  # noqa: E402
from evertally.torch._draws import _seed, kept  # noqa: E402
from torch import nn  # noqa: E402

from . import small  # noqa: E402

NORM, LOSS = 0.5, nn.functional.cross_entropy


class Drawing(nn.Module):
    """Draws in several ways."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.one, self.two, self.drop = nn.Linear(small.FEATURES, 8), nn.Linear(8, small.CLASSES), nn.Dropout(0.5)

    def forward(self, inputs):
        hidden = self.drop(torch.tanh(self.one(inputs)))
        hidden = nn.functional.alpha_dropout(hidden, 0.3, training=True) + torch.rand(8)
        hidden = hidden + torch.randn_like(hidden) + hidden[:, torch.multinomial(torch.ones(8), 3)].sum()
        hidden = torch.normal(hidden, 0.1) * torch.bernoulli(torch.full_like(hidden, 0.8))
        return nn.functional.gumbel_softmax(self.two(hidden)) * np.random.uniform(1, 2) * random.uniform(1, 2)


def run(clipping, module=None, key=None, **options):
    plan = et.training.plan_vector(6, norm=NORM, rho=0.5, mechanism="input", participations=6, separation=1)
    module = module or Drawing()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    options = {"clipping": clipping, "batch_size": 40} | options
    name = options.pop("name", "draws")
    dataset = options.pop("dataset", None) or small.data()
    return et.torch.make_private(module, LOSS, optimizer, dataset, plan, key or small.key(), name, **options)


def sums(made, numbers):
    with torch.no_grad():
        own = made._sums_of_all(*small.data()[numbers], numbers)
    return torch.cat([total.double().reshape(-1) for total in own])


@pytest.mark.parametrize("microbatch", [None, 5])
@pytest.mark.parametrize("clipping", ["ghost", "samples"])
def test_a_removed_example_changes_the_sum_by_at_most_the_norm(clipping, microbatch):
    made, numbers = run(clipping, microbatch=microbatch), list(range(3, 20))
    whole = sums(made, numbers)
    for place in (0, 8, 16):
        move = whole - sums(made, [*numbers[:place], *numbers[place + 1 :]])
        assert 0 < float(move.norm()) <= NORM * (1 + 1e-5)
    assert torch.allclose(whole, sums(run(clipping), numbers), atol=1e-5)


def test_numbers_differ_between_examples_steps_keys_and_names():
    def of_one(number, made):
        own = made._sums_of_all(*small.data()[[7]], [number])
        return torch.cat([total.reshape(-1) for total in own])

    made = run("samples")
    same = of_one(1, run("samples"))
    assert torch.equal(of_one(1, made), same)
    others = [of_one(2, made), of_one(1, run("samples", name="other")), of_one(1, run("samples", key=small.key(4)))]
    made.optimizer.noise.stand_at(1)
    for other in [*others, of_one(1, made)]:
        assert not torch.equal(other, same)


@pytest.mark.parametrize("clipping", ["ghost", "samples"])
def test_public_generators_neither_change_nor_matter(clipping):
    found = []
    for seed in (1, 2):
        made = run(clipping, name=f"public {clipping}")
        first = next(iter(made.loader))
        torch.manual_seed(seed)
        np.random.seed(seed)
        random.seed(seed)
        before = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()
        made.step(*first)
        after = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()
        assert torch.equal(before[0], after[0]) and before[1:] == after[1:]
        found.append([parameter.detach().clone() for parameter in made.module.parameters()])
    assert all(map(torch.equal, *found))


def test_dropout_has_its_rate():
    class Ones(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale, self.drop = nn.Parameter(torch.ones(1000)), nn.Dropout(0.25)

        def forward(self, inputs):
            return self.drop(inputs[:, :1] * 0 + self.scale)

    made = run("samples", Ones())
    made.loss = lambda output, _: output.sum()
    with made._drawing(list(range(100))):
        samples = made._samples(made.loss, *small.data()[:100], 1.0)[0]
    kept_ones = samples != 0
    # 10^5 draws: 5 standard deviations are 0.0069. Masks of two examples agree as often as independent ones.
    assert abs(float(kept_ones.float().mean()) - 0.75) < 0.0069
    agree = (kept_ones[:-1] == kept_ones[1:]).float().mean()
    assert abs(float(agree) - 0.625) < 0.01


def test_without_numbers_the_seed_is_secret():
    inputs, targets = small.data()[:8]
    found = []
    for clipping in ("ghost", "samples") * 2:
        torch.manual_seed(1)
        module, before = nn.Sequential(nn.Linear(small.FEATURES, 40), nn.Dropout(0.5)), torch.get_rng_state()
        if clipping == "ghost":
            found.append(et.torch.clipped_gradients(module, LOSS, inputs, targets, NORM)[0])
        else:
            et.torch.grad_samples(module, LOSS, inputs, targets)
            found.append(et.torch.clip_and_sum([p.grad_sample for p in module.parameters()], NORM)[0])
        assert torch.equal(before, torch.get_rng_state())
    assert not any(torch.equal(found[0], other) or torch.equal(found[1], other) for other in found[2:])


def test_the_whole_seed_counts():
    """Of a seed of `manual_seed`, 32 bits count on the CPU."""
    with kept() as (generator,):
        found = []
        for seed in (bytes(32), bytes(31) + b"\1", bytes(31) + b"\1"):
            _seed(generator, seed)
            found.append(torch.rand(2000))
        assert torch.equal(found[1], found[2]) and not (found[0] == found[1]).any()
        assert abs(float(found[0].mean()) - 0.5) < 0.033  # 5 standard deviations


class Augmented(torch.utils.data.Dataset):
    """Examples with noise from all generators."""

    def __len__(self):
        return small.EXAMPLES

    def __getitem__(self, number):
        inputs, target = small.data()[number]
        return inputs + torch.rand(small.FEATURES) + np.random.uniform() + random.uniform(0, 1), target


@pytest.mark.parametrize("workers", [0, 1])
def test_augmentation_depends_on_no_other_example(workers):
    made = [run("ghost", nn.Linear(small.FEATURES, 3), dataset=Augmented(), batch_size=size) for size in (30, 40)]
    batches = []
    for seed, each in enumerate(made):
        torch.manual_seed(seed)
        before = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()
        own = each.loader.dataset.__getitems__(next(iter(each.loader.batch_sampler)))
        assert torch.equal(before[0], torch.get_rng_state()) and before[1] == np.random.get_state()[1].tolist()
        assert before[2] == random.getstate()
        batches.append([inputs for _, (inputs, _) in own])
    assert all(map(torch.equal, batches[0], batches[1]))
    loader = torch.utils.data.DataLoader(
        made[1].loader.dataset, batch_sampler=made[1].loader.batch_sampler, collate_fn=list, num_workers=workers
    )
    first, second = (batch for _, batch in zip(range(2), loader))
    assert all(torch.equal(inputs, own) for (_, (inputs, _)), own in zip(first, batches[1]))
    assert len(second) == 40


class Layers(nn.Module):
    """A network, and a function that may draw, with a counter of its calls."""

    def __init__(self, between=lambda hidden: hidden):
        super().__init__()
        torch.manual_seed(1)
        self.one, self.two, self.between = nn.Linear(small.FEATURES, 8), nn.Linear(8, small.CLASSES), between

    def forward(self, inputs):
        return self.two(self.between(torch.tanh(self.one(inputs))))


def attention(hidden):
    options = {"attn_mask": torch.tensor([[0.0, -1.0], [0.5, 0.0]]), "dropout_p": 0.4, "scale": 0.7}
    queries = hidden.reshape(-1, 1, 2, 4)
    return nn.functional.scaled_dot_product_attention(queries, queries, queries, **options).reshape(-1, 8)


def forked(hidden, draw=torch.randn_like):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return hidden + draw(hidden)


def caught(hidden):
    """Draws if that is not refused."""
    try:
        return hidden + torch.randn_like(hidden)
    except RuntimeError:
        return hidden * 3


def caught_in_another_form(hidden):
    try:
        return hidden + torch.rand(8)
    except RuntimeError:
        raise ValueError("cannot draw") from None


@torch.jit.script
def scripted(hidden):
    return hidden + torch.rand_like(hidden)


def caught_in_a_script(hidden):
    try:
        return scripted(hidden)
    except RuntimeError:
        return hidden * 3


def read_seed(hidden):
    """Depends on the state of the default generator."""
    return hidden * (1 + torch.rand_like(hidden)) * (1 + torch.initial_seed() % 7) * (1 + torch.get_rng_state()[30])


#: A generator that no module owns.
OWN = torch.Generator().manual_seed(1)
#: Functions that draw, and whether every operation must be looked at.
DRAWING = {
    "nothing": (lambda hidden: hidden, False),
    "dropout": (lambda hidden: nn.functional.dropout(hidden, 0.5), False),
    "in place": (lambda hidden: nn.functional.dropout(hidden + 1, 0.3, inplace=True), False),
    "attention": (attention, False),
    "heads": (nn.Sequential(nn.Unflatten(1, (2, 4)), nn.TransformerEncoderLayer(4, 2, 8, 0.3), nn.Flatten()), False),
    "noise": (lambda hidden: hidden + torch.randn_like(hidden), True),
    "a fixed seed": (forked, True),
    "another generator": (lambda hidden: hidden + torch.randn(8, generator=OWN), True),
    "a caught refusal": (caught, True),
    "another error": (caught_in_another_form, True),
    "a caught refusal of a script": (caught_in_a_script, True),
    "the seed": (read_seed, True),
    "features": (lambda hidden: nn.functional.dropout1d(hidden[:, None], 0.5)[:, 0], True),
}


@pytest.mark.parametrize("clipping", ["ghost", "samples"])
@pytest.mark.parametrize("kind", DRAWING)
def test_every_kind_of_draw_is_noticed_and_divided_by_example(kind, clipping):
    between, is_looked_at = DRAWING[kind]
    made, numbers = run(clipping, Layers(between)), list(range(3, 15))
    state = OWN.get_state()
    whole = sums(made, numbers)
    assert made._draws.others == is_looked_at
    for place in (0, 11):
        move = whole - sums(made, [*numbers[:place], *numbers[place + 1 :]])
        assert 0 < float(move.norm()) <= NORM * (1 + 1e-5)
    # The first step that is looked at, and later ones, have the same numbers; and so has each example alone.
    assert torch.equal(whole, sums(made, numbers))
    assert torch.allclose(whole, sum(sums(made, [number]) for number in numbers), atol=1e-5)
    assert torch.equal(state, OWN.get_state()) or clipping == "ghost"  # which follows an example of zeros


@pytest.mark.parametrize(
    "draw",
    [
        torch.ops.aten.exponential,
        torch.ops.aten.uniform.default,
        lambda hidden: forked(hidden, lambda hidden: torch.randint_like(hidden, torch.tensor(9))),
        lambda hidden: hidden[torch.randperm(len(hidden))],
        lambda hidden: torch.multinomial(hidden.softmax(0).expand(5, -1), 1).sum() * hidden,
    ],
)
def test_operations_that_vmap_calls_for_one_example_after_the_other_are_refused(draw):
    made = run("samples", Layers(lambda hidden: hidden + draw(hidden)))
    for _ in range(2):
        with pytest.raises(et.InvalidError, match="share one sequence of numbers"):
            sums(made, list(range(12)))


def test_a_refused_draw_cannot_be_caught():
    def between(hidden):
        try:
            return hidden[:, torch.randperm(8)]
        except et.InvalidError:
            return hidden

    made = run("samples", Layers(between))
    sums(made, [3])
    with pytest.raises(et.InvalidError, match="share one sequence of numbers"):
        sums(made, [3, 4])


def test_dropout_is_the_same_where_every_operation_is_looked_at():
    one, other = (run("samples", Layers(DRAWING["dropout"][0])) for _ in range(2))
    other._draws.others = True
    assert torch.equal(sums(one, [5, 6, 9]), sums(other, [5, 6, 9]))


def test_a_module_that_begins_to_draw_is_noticed():
    module = Layers(lambda hidden: hidden + torch.randn_like(hidden) * module.strength if module.strength else hidden)
    module.strength, numbers = 0.0, list(range(12))
    made = run("samples", module)
    sums(made, numbers)
    assert not made._draws.others
    module.strength = 2.0
    move = sums(made, numbers) - sums(made, numbers[1:])
    assert made._draws.others and 0 < float(move.norm()) <= NORM * (1 + 1e-5)


def test_draws_of_a_step_do_not_depend_on_earlier_steps():
    """A module that draws in some steps, and in others computes something else if it cannot."""
    ways = {"none": lambda hidden: hidden, "draws": lambda hidden: hidden + torch.randn_like(hidden), "tries": caught}
    found, numbers = {way: [] for way in ways}, list(range(8))
    for history in (["none", "tries"], ["draws", "none", "tries", "draws"], ["tries", "none"]):
        made = run("samples", module := Layers())
        for way in history:
            module.between = ways[way]
            found[way].append(sums(made, numbers))
    assert all(torch.equal(one, own[0]) for own in found.values() for one in own)
    assert torch.equal(found["draws"][0], found["tries"][0]) and not torch.equal(found["none"][0], found["tries"][0])


@pytest.mark.parametrize(
    "draw",
    [
        lambda values: torch.normal(values.mean(), values.abs()),
        lambda values: torch.normal(values, values.abs().mean()),
        lambda values: torch.normal(values, 0.1) + torch.normal(0.1, values.abs()) + torch.normal(0.0, 1.0, (4,)),
        lambda values: torch.bernoulli(values.sigmoid()) + torch.bernoulli(torch.full((4,), 0.5)),
        lambda values: values + torch.empty_like(values).uniform_() + torch.rand(4, 1).sum() + torch.randint(9, (4,)),
        lambda values: torch.multinomial(values.softmax(0), 2).sum() + torch.poisson(torch.full((4,), 3.0)),
        lambda values: torch.distributions.Gamma(values.exp(), torch.ones(4)).rsample(),
        lambda values: torch._sample_dirichlet(values.exp().detach()) * values + torch.rand(()),
        lambda values: nn.functional.gumbel_softmax(values) + nn.functional.dropout1d(values[None], 0.5)[0],
    ],
)
def test_four_examples_of_four_values_draw_as_each_alone(draw):
    """The number of examples is that of their values, so that a mistaken dimension would not be an error."""
    made, numbers = run("samples", Layers(lambda hidden: hidden + draw(hidden[0, :4]).sum())), [5, 9, 2, 11]
    whole = sums(made, numbers)
    assert torch.allclose(whole, sum(sums(made, [number]) for number in numbers), atol=1e-5)
    assert torch.allclose(whole, sums(made, numbers[::-1]), atol=1e-5)


#: Generators that no module owns.
NUMPY, PYTHON = np.random.default_rng(1), random.Random(1)


@pytest.mark.parametrize(
    "draw", [lambda: NUMPY.uniform(1, 2), lambda: PYTHON.uniform(1, 2), lambda: PYTHON.seed(5) or 1.0]
)
@pytest.mark.parametrize("options", [{"clipping": "ghost"}, {"clipping": "samples", "microbatch": 1}])
def test_other_generators_in_global_variables_are_refused(draw, options):
    _generators.known = _generators._Known()
    made = run(module=Layers(lambda hidden: hidden * draw()), **options)
    with pytest.raises(et.InvalidError, match="the module or the loss draws from a random number generator"):
        sums(made, [1, 2, 3])
    made = run(module=Layers(lambda hidden: hidden * np.random.default_rng(torch.initial_seed()).uniform()), **options)
    whole = sums(made, [1, 2, 3])
    assert torch.allclose(whole, sums(made, [1]) + sums(made, [2]) + sums(made, [3]), atol=1e-5)


def test_a_generator_of_a_data_set_is_refused():
    class Own(Augmented):
        def __init__(self):
            self.rng = np.random.default_rng(1)

        def __getitem__(self, number):
            inputs, target = small.data()[number]
            return inputs * self.rng.uniform(), target

    _generators.known = _generators._Known()
    made = run("ghost", nn.Linear(small.FEATURES, 3), dataset=Own())
    with pytest.raises(et.InvalidError, match="the data set draws from a random number generator"):
        next(iter(made.loader))


def test_attention_without_dropped_weights_is_that_of_pytorch():
    from evertally.torch import _dropout

    values = torch.randn(3, 2, 4, 5, generator=torch.Generator().manual_seed(2))
    few = values[:, :1]
    mask = torch.rand(4, 4, generator=torch.Generator().manual_seed(3)) > 0.3
    mask.fill_diagonal_(True)
    masks = _dropout.Masks([0])
    masks.of = lambda weights, _: torch.ones_like(weights)
    for options in ({"is_causal": True}, {"attn_mask": mask}, {"attn_mask": mask.float()}, {"scale": 0.1}):
        expected = nn.functional.scaled_dot_product_attention(values, few, few, **options, enable_gqa=True)
        with masks.drawing():
            found = _dropout._attention(values, few, few, dropout_p=0.5, **options, enable_gqa=True)
        torch.testing.assert_close(found, expected)


def test_dropout_of_an_earlier_tensor_is_refused():
    kept_values = []

    def between(hidden):
        kept_values.append(hidden)
        return hidden + nn.functional.dropout(kept_values[0], 0.5)

    made = run("samples", Layers(between))
    sums(made, [1, 2])
    with pytest.raises(et.InvalidError, match="an earlier call has kept"):
        sums(made, [3, 4])
