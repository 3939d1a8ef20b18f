"""State that a module keeps between calls reaches no other step."""

import copy
from collections import deque
from types import SimpleNamespace

import evertally as et
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
    assert not tensors(module.place) and module.calls > 0
    for found, expected in zip(sums_of(module, *batch(8), clipping), sums_of(fresh, *batch(8), clipping)):
        assert torch.equal(found, expected)


def test_other_changes_of_a_module_stay():
    module = Remembering([1, 2], lambda *_: None)
    kept = module.place
    with restored(module):
        kept.append(3)
        module.calls, module.new = 7, "text"
        kept.append({"tensor": torch.ones(1)})
    assert module.place is kept and kept == [1, 2] and module.calls == 7 and module.new == "text"
    with restored(module):
        kept.append(3)
    assert kept == [1, 2, 3]


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
