"""State that a module keeps between calls reaches no other step."""

import copy
import random
from collections import deque
from types import SimpleNamespace

import evertally as et
import numpy as np
import pytest

torch = pytest.importorskip("torch")
from evertally.torch import clip_and_sum, clipped_gradients, grad_samples, make_private  # noqa: E402
from evertally.torch._state import restored  # noqa: E402
from torch import nn  # noqa: E402

from . import small  # noqa: E402

LOSS = nn.functional.cross_entropy
#: Objects in which a module may keep tensors, and how it puts one in.
PLACES = {
    "list": (list, lambda place, seen: place.append(seen)),
    "dictionary": (dict, lambda place, seen: place.update(last=seen)),
    "set": (set, lambda place, seen: place.add(seen)),
    "deque": (deque, lambda place, seen: place.append(seen)),
    "nested": (lambda: {"all": ([],)}, lambda place, seen: place["all"][0].append(seen)),
    "object": (SimpleNamespace, lambda place, seen: vars(place).update(last=seen)),
    "object in a list": (lambda: [SimpleNamespace()], lambda place, seen: vars(place[0]).update(last=seen)),
}


def tensors(place):
    """All tensors in a place."""
    if isinstance(place, torch.Tensor):
        return [place]
    values = place.values() if isinstance(place, dict) else place if hasattr(place, "__iter__") else ()
    return [found for value in [*values, *vars_of(place)] for found in tensors(value)]


def vars_of(place):
    return vars(place).values() if hasattr(place, "__dict__") else ()


class Remembering(nn.Module):
    """Adds the activations of earlier calls to its own."""

    def __init__(self, place, put):
        super().__init__()
        torch.manual_seed(2)
        self.one, self.two = nn.Linear(small.FEATURES, 5), nn.Linear(5, small.CLASSES)
        self.place, self.put, self.calls = place, put, 0

    def forward(self, inputs):
        self.calls += 1
        seen = torch.tanh(self.one(inputs))
        kept = sum((earlier.sum() for earlier in tensors(self.place)), start=torch.zeros(()))
        self.put(self.place, seen)
        return self.two(seen + kept)


def sums_of(module, inputs, targets, clipping):
    if clipping == "ghost":
        return clipped_gradients(module, LOSS, inputs, targets, norm=0.3)
    grad_samples(module, LOSS, inputs, targets)
    return clip_and_sum([p.grad_sample for p in module.parameters()], norm=0.3)


def batch(first, count=8):
    inputs, targets = small.data()[first : first + count]
    return inputs, targets


@pytest.mark.parametrize("clipping", ["samples", "ghost"])
@pytest.mark.parametrize("kind", PLACES)
def test_tensors_in_objects_of_a_module_are_gone_after_a_step(kind, clipping):
    make, put = PLACES[kind]
    module, fresh = Remembering(make(), put), Remembering(make(), put)
    sums_of(module, *batch(0), clipping)
    assert not tensors(module.place) and module.calls == 0
    for found, expected in zip(sums_of(module, *batch(8), clipping), sums_of(fresh, *batch(8), clipping)):
        assert torch.equal(found, expected)


def test_all_contents_of_a_module_are_restored():
    module = Remembering([1, 2], lambda *_: None)
    kept, module.numbers = module.place, np.arange(3)
    with restored(module):
        kept.append(3)
        module.calls, module.new = 7, "text"
        kept.append({"tensor": torch.ones(1)})
        module.numbers += 1
    assert module.place is kept and kept == [1, 2] and module.calls == 0 and not hasattr(module, "new")
    assert module.numbers.tolist() == [0, 1, 2]


@pytest.mark.parametrize("kept", [torch.zeros(1), torch.Generator(), random.Random(1), np.random.default_rng(1)])
def test_contents_that_cannot_be_restored_must_not_change(kept):
    module = Remembering([kept], lambda *_: None)
    with restored(module):
        pass
    with pytest.raises(et.InvalidError, match="the number of its calls"), restored(module):
        if isinstance(kept, torch.Tensor):
            kept.add_(1)
        elif isinstance(kept, torch.Generator):
            torch.rand(1, generator=kept)
        else:
            kept.random()


class Counting(nn.Module):
    """Changes sign with each of its calls, or with a buffer."""

    def __init__(self, in_buffer):
        super().__init__()
        torch.manual_seed(2)
        self.end, self.calls, self.in_buffer = nn.Linear(small.FEATURES, small.CLASSES), 0, in_buffer
        self.register_buffer("sign", torch.ones(()))

    def forward(self, inputs):
        self.calls += 1
        if self.in_buffer:
            with torch.no_grad():
                self.sign.mul_(-1)
            return self.end(inputs) * self.sign
        return self.end(inputs) * (-1) ** self.calls


def run_of(module, clipping, loss=LOSS, **options):
    plan = et.training.plan_vector(4, norm=0.3, rho=0.5, mechanism="input")
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    options = {"batch_size": 8, "clipping": clipping, "microbatch": 4} | options
    return make_private(module, loss, optimizer, small.data(), plan, small.key(), "state", **options)


@pytest.mark.parametrize("in_buffer", [False, True], ids=["number", "buffer"])
@pytest.mark.parametrize("clipping", ["samples", "ghost"])
def test_the_number_of_calls_reaches_no_later_step(clipping, in_buffer):
    """It is that of the microbatches: a secret if batches are sampled."""
    found = []
    for count in (0, 4, 5):
        run = run_of(Counting(in_buffer), clipping)
        if in_buffer and clipping == "samples" and count:
            with pytest.raises(et.InvalidError, match="batch of one"):
                run._sums_of_all(*batch(0, count))
            continue
        run._sums_of_all(*batch(0, count))
        if not (in_buffer and clipping == "samples"):
            found.append(torch.cat([each.flatten() for each in run._sums_of_all(*batch(8))]))
    assert all(torch.equal(each, found[0]) for each in found)


def test_losses_that_count_their_calls_are_restored():
    class Loss(nn.Module):
        calls = 0

        def forward(self, output, target):
            self.calls += 1
            return LOSS(output, target) * (-1) ** self.calls

    run = run_of(small.network(), "samples", Loss())
    once, again = ([each.clone() for each in run._sums_of_all(*batch(0, count))] for count in (4, 4))
    assert all(map(torch.equal, once, again)) and run.loss.calls == 0


@pytest.mark.parametrize("norm_of", [nn.utils.parametrizations.spectral_norm, nn.utils.spectral_norm])
@pytest.mark.parametrize("clipping", ["samples", "ghost"])
def test_spectral_normalization_iterates_once_a_step(clipping, norm_of):
    states = []
    for microbatch in (2, 8):
        torch.manual_seed(3)
        module = nn.Sequential(norm_of(nn.Linear(small.FEATURES, 30)), nn.Tanh(), nn.Linear(30, small.CLASSES))
        run = run_of(module, clipping, microbatch=microbatch)
        before = [buffer.clone() for buffer in module.buffers()]
        run._sums_of_all(*batch(0))
        assert all(map(torch.equal, before, module.buffers()))
        reference = copy.deepcopy(module)
        run.step(*next(iter(run.loader)))
        assert not all(map(torch.equal, before, module.buffers()))
        with torch.no_grad():
            for own, other in zip(reference.parameters(), module.parameters()):
                own.copy_(other)
            reference(small.data()[:1][0])
        for own, other in zip(reference.buffers(), module.buffers()):
            torch.testing.assert_close(own, other)
        states.append([buffer.clone() for buffer in module.buffers()])
    for own, other in zip(*states):
        torch.testing.assert_close(own, other, atol=1e-4, rtol=1e-4)


EVERYWHERE: list = []


class Global(nn.Module):
    """Keeps activations where they cannot be reached from the module."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(2)
        self.end = nn.Linear(small.FEATURES, small.CLASSES)

    def forward(self, inputs):
        seen = self.end(inputs)
        kept = [tensor.mean() for tensor in EVERYWHERE]
        EVERYWHERE.append(seen.detach())
        return seen + sum(kept)


@pytest.mark.parametrize("count", [8, 5], ids=["same size", "other size"])
@pytest.mark.parametrize("clipping", ["samples", "ghost"])
def test_tensors_of_an_earlier_step_in_a_global_list_are_refused(clipping, count):
    EVERYWHERE.clear()
    module = Global()
    sums_of(module, *batch(0), clipping)
    with pytest.raises(et.InvalidError, match="an earlier call has kept"):
        sums_of(module, *batch(8, count), clipping)
    EVERYWHERE.clear()


def test_tensors_that_depend_on_no_example_may_be_kept():
    """Such as a cache of positions."""
    cache = {}

    class Cached(Global):
        def forward(self, inputs):
            if "places" not in cache:
                cache["places"] = torch.arange(small.CLASSES) * 0.1
            return self.end(inputs) + cache["places"]

    module = Cached()
    once, again = sums_of(module, *batch(0), "ghost"), sums_of(module, *batch(0), "ghost")
    assert all(torch.equal(one, other) for one, other in zip(once, again)) and cache


@pytest.mark.parametrize("is_global", [False, True])
def test_reading_rows_of_tables_keeps_nothing_of_the_batch(is_global):
    class Words(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(2)
            self.words, self.end, self.kept = nn.Embedding(20, 4), nn.Linear(4, 2), []

        def forward(self, numbers):
            seen = self.words(numbers).mean(dim=1)
            place = EVERYWHERE if is_global else self.kept
            before = sum(tensor.mean() for tensor in place)
            place.append(seen)
            return self.end(seen + before)

    EVERYWHERE.clear()
    plan = et.training.plan_vector(4, norm=1.0, rho=0.5, mechanism="input")
    numbers = torch.arange(40).reshape(20, 2) % 20
    dataset = torch.utils.data.TensorDataset(numbers, numbers[:, 0] % 2)
    module = Words()
    optimizer = torch.optim.SGD(module.end.parameters(), lr=0.1)
    options = {"batch_size": 5, "clipping": "ghost", "tables": {module.words: 0.1}}
    run = make_private(module, LOSS, optimizer, dataset, plan, small.key(), "kept", **options)
    first, *_ = run.loader
    if is_global:
        with pytest.raises(et.InvalidError, match="an earlier call has kept"):
            run.step(*first)
        EVERYWHERE.clear()
    else:
        before = copy.deepcopy(module.end.weight)
        run.step(*first)
        assert module.kept == [] and not torch.equal(before, module.end.weight)


def test_compiled_modules_are_refused():
    module = nn.Sequential(torch.jit.trace(nn.Linear(small.FEATURES, 3), torch.ones(1, small.FEATURES)))
    with pytest.raises(ValueError, match="TorchScript"):
        sums_of(module, *batch(0), "samples")


class Decaying(nn.Module):
    """Makes its weights smaller in each call."""

    def __init__(self, through):
        super().__init__()
        self.end, self.through = nn.Linear(small.FEATURES, small.CLASSES), through

    def forward(self, inputs):
        self.through(self.end.weight)
        return self.end(inputs)


def without_gradient(weight):
    with torch.no_grad():
        weight.mul_(0.5)


@pytest.mark.parametrize("clipping", ["samples", "ghost"])
@pytest.mark.parametrize(
    "through", [lambda weight: weight.data.mul_(0.5), lambda weight: weight.detach().mul_(0.5), without_gradient]
)
def test_weights_that_change_in_a_call_are_refused(through, clipping):
    with pytest.raises(et.InvalidError, match="the number of its calls"):
        sums_of(Decaying(through), *batch(0), clipping)
