"""Embeddings with deferred noise in PyTorch: rows get it when they are used."""

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


def plan(epsilon: float = 4.0, **more: Any) -> et.training.VectorPlan:
    given: dict[str, Any] = {"epsilon": epsilon, "delta": 1e-5, "sampling": "cyclic-poisson", "sampled_fraction": 0.2}
    return et.training.plan_vector(12, **(given | more))


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
    """With almost no noise, a run with a table equals one in which the optimizer has all parameters."""
    weak = et.training.plan_vector(
        12, rho=1e6, participations=12, separation=1, allow_weak_budget=True, mechanism="input"
    )
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
    assert (module.words.weight[250:255] != before[250:255]).all(), "rows that are read have their noise"
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
    assert torch.equal(other.state_dict()["words.weight"], kept), "a copy does not change"
    again = copy.deepcopy(module)  # the guard works a second time
    assert (again.words.weight != kept).all() and copy.deepcopy(other) is not other
    with pytest.raises((AttributeError, TypeError, pickle.PicklingError)):
        pickle.dumps(module)
    averaged = torch.optim.swa_utils.AveragedModel(module)
    assert torch.equal(averaged.module.words.weight, module.words.weight)
    with pytest.raises(RuntimeError, match="trace a copy"):
        torch.jit.trace(module, torch.arange(5)[None])


def test_what_was_saved_stays_as_it_was(key: et.SecretKey) -> None:
    module = model()
    private = run(module, key)
    train(private, 3)
    best = module.state_dict()
    kept = best["words.weight"].clone()
    train(private, 1)
    assert torch.equal(best["words.weight"], kept)
    with pytest.raises(RuntimeError, match="rows that are replaced"):
        module.load_state_dict(best)
    with pytest.raises(ValueError, match="table of another run"):
        run(module, key, "second")
    fresh = model()
    fresh.load_state_dict(best)
    train(run(fresh, key, "second"), 2)


def test_reading_ahead_changes_nothing_else(key: et.SecretKey) -> None:
    """Buffers and random numbers are the same as if the batch had not been read before its gradients."""

    class Noting(Words):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.zeros(()))

        def forward(self, texts: Any) -> Any:
            self.seen = 0.5 * self.seen + texts.float().mean().detach() * (len(texts) > 1)
            return super().forward(texts)

    torch.manual_seed(4)
    module = Noting()
    private = run(module, key)
    batch = next(iter(private.loader))
    state = torch.get_rng_state()
    private.tables._fresh = [set()]
    private.tables._read(module, batch[0])
    assert float(module.seen) == 0 and torch.equal(state, torch.get_rng_state())


def test_a_step_that_is_broken_off_is_noticed(key: et.SecretKey, monkeypatch: pytest.MonkeyPatch) -> None:
    module = model()
    private = run(module, key)
    train(private, 2)
    state = copy.deepcopy(private.state_dict())
    with monkeypatch.context() as broken:
        broken.setattr(private.tables, "descend", lambda sums: (_ for _ in ()).throw(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            train(private, 1)
    for call in (lambda: train(private, 1), private.state_dict):
        with pytest.raises(ValueError, match="the tables are at step 2, and the optimizer at 3"):
            call()
    private.load_state_dict(state)
    train(private, 2)
    alone = private.optimizer.state_dict()
    train(private, 1)
    private.optimizer.load_state_dict(alone)
    with pytest.raises(ValueError, match="a state of the optimizer alone"):
        train(private, 1)


def test_wrong_examples_change_nothing(key: et.SecretKey) -> None:
    module = model()
    private = run(module, key)
    train(private, 3)
    before = module.words.weight.detach().clone()
    inputs, targets, examples = next(iter(private.loader))
    with pytest.raises(ValueError, match="not the examples of step 4"):
        private.step(inputs[1:], targets[1:], examples[1:])
    assert torch.equal(before, module.words.weight)


def test_a_second_table_rate_under_one_name_is_refused(key: et.SecretKey) -> None:
    train(run(model(), key))
    module = model()
    with pytest.raises(et.StateError, match="issued for other data"):
        train(run(module, key, tables={module.words: 0.25}))


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
    with pytest.raises(et.StateError, match="issued for other data"):
        other = run(model(), key)
        torch.nn.init.zeros_(other.module.out.weight)
        train(other)


def test_what_cannot_wait_is_refused(key: et.SecretKey) -> None:
    module = model()
    for more, said in [
        ({"clipping": "samples"}, 'clipping="ghost"'),
        ({"adaptive_clipping": et.torch.AdaptiveClipping()}, "a fixed threshold"),
        ({"tables": {module.out: 0.5}}, "neither in the optimizer nor in tables"),
        ({"tables": {module.words: 0.5, torch.nn.Embedding(3, 2): 0.5}}, "Embedding layers of the module"),
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
            return super().forward(texts + (len(texts) == 1) * 50)  # a single example reads other rows

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
    rare = plan(sampling="cyclic-poisson", sampled_fraction=0.002)
    private = run(module, key, plan=rare)
    sizes = []
    for batch in private.loader:
        sizes.append(len(batch[0]))
        private.step(*batch)
    assert 0 in sizes and private.tables.noises[0].step == 12
