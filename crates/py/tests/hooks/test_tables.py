"""Embeddings whose rows get their noise when they are used, in PyTorch."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import evertally as et
import pytest

torch = pytest.importorskip("torch")
import evertally.torch  # noqa: E402

ROWS, WIDTH, KINDS = 300, 6, 3


class Words(torch.nn.Module):
    """The mean of rows, then two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.words = torch.nn.Embedding(ROWS, WIDTH)
        self.out = torch.nn.Linear(WIDTH, KINDS)

    def forward(self, texts: Any) -> Any:
        return self.out(torch.tanh(self.words(texts).mean(dim=1)))


def data(count: int = 120) -> Any:
    torch.manual_seed(3)
    return torch.utils.data.TensorDataset(torch.randint(0, 200, (count, 5)), torch.randint(0, KINDS, (count,)))


def model() -> Words:
    torch.manual_seed(4)
    return Words()


LOSS = torch.nn.functional.cross_entropy


def plan(epsilon: float = 4.0, **more: Any) -> et.VectorPlan:
    return et.plan_vector(12, **({"epsilon": epsilon, "delta": 1e-5, "sampled": 0.2} | more))


@pytest.fixture
def key(tmp_path: Path) -> et.SecretKey:
    et.SecretKey.generate().save(tmp_path / "key")
    return et.SecretKey.load(tmp_path / "key")


def run(module: Words, key: et.SecretKey, name: str = "run", **more: Any) -> Any:
    optimizer = torch.optim.SGD(module.out.parameters(), lr=0.1)
    given = {"tables": {module.words: 0.5}, "clipping": "ghost", "plan": plan()} | more
    return et.torch.make_private(module, LOSS, optimizer, data(), given.pop("plan"), key, name, **given)


def train(private: Any, steps: int = 12) -> None:
    for step, batch in enumerate(private.loader):
        if step == steps:
            return
        private.step(*batch)


def test_steps_are_those_of_a_dense_table_without_noise(key: et.SecretKey) -> None:
    """With noise that is next to nothing, a run with a table is one in which the optimizer has all parameters."""
    weak = et.plan_vector(12, rho=1e6, participations=12, separation=1, allow_weak_budget=True, mechanism="input")
    modules = [model(), model()]
    late = run(modules[0], key, "late", plan=weak, batch_size=10)
    groups = [{"params": modules[1].words.parameters(), "lr": 0.5}, {"params": modules[1].out.parameters()}]
    optimizer = torch.optim.SGD(groups, lr=0.1)
    dense = et.torch.make_private(modules[1], LOSS, optimizer, data(), weak, key, "dense", batch_size=10)
    for private in (late, dense):
        train(private)
    late.catch_up()
    for one, other in zip(modules[0].parameters(), modules[1].parameters()):
        assert torch.allclose(one, other, atol=5e-3), float((one - other).abs().max())


def test_noise_waits_until_rows_are_read(key: et.SecretKey) -> None:
    module = model()
    private = run(module, key)
    before = module.words.weight.detach().clone()
    train(private, 4)
    noise = private.tables.noises[0]
    assert noise.step == 4 and 0 < noise.touched <= 200
    assert torch.equal(module.words.weight[200:], before[200:]), "no batch has used these"
    some = torch.arange(250, 255)[None]
    module(some)
    assert (module.words.weight[250:255] != before[250:255]).all(), "whoever reads rows reads their noise"
    assert torch.equal(module.words.weight[260:], before[260:])
    seen = module.state_dict()["words.weight"]
    assert (seen != before).all() and torch.equal(seen, module.words.weight)
    once = seen.clone()
    private.catch_up()
    assert torch.equal(once, module.words.weight)


def test_copies_have_all_noise(key: et.SecretKey) -> None:
    module = model()
    private = run(module, key)
    before = module.words.weight.detach().clone()
    train(private, 4)
    other = copy.deepcopy(module)
    assert (other.words.weight != before).all() and torch.equal(other.words.weight, module.words.weight)
    train(private, 2)
    kept = other.words.weight.detach().clone()
    other(torch.arange(5)[None])
    assert torch.equal(other.state_dict()["words.weight"], kept), "a copy stays as it is"
    again = copy.deepcopy(module)  # the guard is there a second time
    assert (again.words.weight != kept).all() and copy.deepcopy(other) is not other
    with pytest.raises((AttributeError, TypeError, pickle.PicklingError)):
        pickle.dumps(module)


def test_a_run_goes_on_bit_for_bit(key: et.SecretKey) -> None:
    whole = model()
    private = run(whole, key)
    train(private)
    private.catch_up()
    with et.allow_noise_reuse("compares a run with itself"):
        first = model()
        private = run(first, key)
        train(private, 5)
        state = copy.deepcopy(private.state_dict())
        again = model()
        private = run(again, key)
        private.load_state_dict(state)
        train(private)
        private.catch_up()
    for one, other in zip(whole.parameters(), again.parameters()):
        assert torch.equal(one, other)
    with pytest.raises(et.StateError, match="given out for other data"):
        other = run(model(), key)
        torch.nn.init.zeros_(other.module.out.weight)
        train(other)


def test_what_cannot_wait_is_refused(key: et.SecretKey) -> None:
    module = model()
    for more, said in [
        ({"clipping": "samples"}, 'clipping="ghost"'),
        ({"microbatch": 4}, "whole batches"),
        ({"tables": {module.out: 0.5}}, "Embedding layers of the module"),
        ({"tables": {torch.nn.Embedding(3, 2): 0.5}}, "Embedding layers of the module"),
        ({"tables": {module.words: float("nan")}}, "finite"),
    ]:
        with pytest.raises(ValueError, match=said):
            run(module, key, **more)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    with pytest.raises(ValueError, match="the optimizer has the weight"):
        et.torch.make_private(
            module, LOSS, optimizer, data(), plan(), key, "run", tables={module.words: 0.5}, clipping="ghost"
        )
    module.tied = torch.nn.Linear(WIDTH, ROWS, bias=False)
    module.tied.weight = module.words.weight
    with pytest.raises(ValueError, match="used by another layer"):
        run(module, key)


def test_a_module_that_reads_other_rows_is_refused_before_anything_changes(key: et.SecretKey) -> None:
    class Odd(Words):
        def forward(self, texts: Any) -> Any:
            return super().forward(texts + (len(texts) == 1) * 50)  # one example alone reads other rows

    torch.manual_seed(4)
    module = Odd()
    private = run(module, key)
    before = [parameter.detach().clone() for parameter in module.parameters()]
    batch = next(batch for batch in private.loader)
    with pytest.raises(ValueError, match="without its noise"):
        private.step(*batch)
    assert all(torch.equal(one, other) for one, other in zip(before, module.parameters()))
    assert (private.optimizer.noise.step, private.tables.noises[0].step) == (0, 0)


def test_an_empty_batch_takes_its_step(key: et.SecretKey) -> None:
    module = model()
    rare = plan(sampled=0.002)
    private = run(module, key, plan=rare)
    sizes = []
    for batch in private.loader:
        sizes.append(len(batch[0]))
        private.step(*batch)
    assert 0 in sizes and private.tables.noises[0].step == 12
