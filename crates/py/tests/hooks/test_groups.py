"""Adaptive thresholds, and tables with deferred noise, on two ranks: the results of one process, bit for bit."""

import copy
import math
from pathlib import Path
from typing import Any

import evertally as et
import numpy as np
import pytest

torch = pytest.importorskip("torch")
import evertally.torch  # noqa: E402
from evertally.torch import AdaptiveClipping, DPAdam, SecondMoments  # noqa: E402
from torch import distributed  # noqa: E402

from . import small  # noqa: E402
from .processes import RANKS, together  # noqa: E402

LOSS = torch.nn.functional.cross_entropy
BREAK = 5
#: Additional releases, and how gradients are clipped.
EXTRAS: dict[str, Any] = {
    "ghost": {"clipping": "ghost", "adaptive_clipping": AdaptiveClipping(initial=0.01)},
    "samples": {"adaptive_clipping": AdaptiveClipping(initial=3.0)},
    "moments": {"adaptive_clipping": AdaptiveClipping(), "second_moments": SecondMoments()},
}
ROWS, WIDTH, KINDS, STEPS = 300, 6, 3, 12


@pytest.fixture(autouse=True)
def one_thread() -> Any:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


# ---- Thresholds


def adapting(kind: str, group: Any = None, **more: Any) -> Any:
    plan = et.training.plan_vector(
        small.STEPS,
        epsilon=4.0,
        delta=1e-5,
        sampling="cyclic-poisson",
        sampled_fraction=0.1,
        mechanism="epoch-bands(bands=3)",
    )
    module = small.network()
    optimizer = DPAdam(module.parameters(), lr=0.05)
    given = {"group": group} | EXTRAS[kind] | more
    return et.torch.make_private(module, LOSS, optimizer, small.data(), plan, small.key(), "run", **given)


def train(run: Any, through: int = 100) -> Any:
    for batch in run.loader:
        run.step(*batch)
        if run.optimizer.noise.step == through:
            break
    return torch.nn.utils.parameters_to_vector(run.module.parameters()).detach().clone()


def adapted(rank: int, folder: Path) -> None:
    for kind in EXTRAS:
        run = adapting(kind, distributed.group.WORLD, microbatch=8)
        found = train(run)
        torch.save([found, run.optimizer.threshold], folder / f"{kind} {rank}")
    other = {"adaptive_clipping": AdaptiveClipping(initial=0.5 + rank)}
    with pytest.raises(ValueError, match="clipping of rank 1 is not that of rank 0"):
        adapting("samples", distributed.group.WORLD, **other)
    own = adapting("ghost", distributed.group.WORLD, microbatch=8)
    first, second = list(own.loader)[:2]
    own.step(*first)
    before, state = copy.deepcopy(own.state_dict()), own.optimizer.threshold
    refused, said = (RuntimeError, "rank 1 refused") if rank == 0 else (ValueError, "numbers of")
    with pytest.raises(refused, match=said):
        own.step(second[0][rank:], second[1], second[2])  # rank 1 lacks one
    after = own.state_dict()
    assert own.optimizer.threshold == state and before["optimizer"]["noise"]["step"] == 1
    assert all(torch.equal(one, after["module"][name]) for name, one in before["module"].items())
    assert not own.optimizer.further.any()
    own.step(*second)


def test_thresholds_on_two_ranks_are_those_of_one(tmp_path: Path) -> None:
    together(adapted, tmp_path)
    for kind in EXTRAS:
        run = adapting(kind, microbatch=8)
        straight, first = train(run), EXTRAS[kind]["adaptive_clipping"].initial
        assert run.optimizer.threshold != first
        for rank in range(RANKS):
            found, threshold = torch.load(tmp_path / f"{kind} {rank}")
            assert torch.equal(found, straight) and threshold == run.optimizer.threshold


@pytest.mark.parametrize("initial", [1e-3, 0.3, 30.0])
@pytest.mark.parametrize("microbatch", [None, 7])
def test_ghost_clipping_adapts_as_samples_do(initial: float, microbatch: int | None) -> None:
    clipping = AdaptiveClipping(initial=initial)
    runs = [
        adapting(kind, adaptive_clipping=clipping, microbatch=microbatch if kind == "ghost" else None)
        for kind in ("ghost", "samples")
    ]
    for step, batches in enumerate(zip(*(run.loader for run in runs))):
        for run, batch in zip(runs, batches):
            run.step(*batch)
        assert math.isclose(runs[0].optimizer.threshold, runs[1].optimizer.threshold, rel_tol=1e-5)
        if step == 5:
            break
    found = [torch.nn.utils.parameters_to_vector(run.module.parameters()) for run in runs]
    torch.testing.assert_close(*found, rtol=1e-3, atol=1e-4)


def test_an_example_adds_no_more_than_the_norm() -> None:
    """Gradients far shorter and far longer than the threshold; examples that are not finite have the vector zero."""
    for initial in (1e-6, 1.0, 1e6):
        run = adapting("ghost", adaptive_clipping=AdaptiveClipping(initial=initial))
        inputs, targets = (tensor[:1] for tensor in small.data().tensors)
        for size in (1e-30, 1e-6, 1.0, 1e12, 1e30, math.inf):
            *sums, further = run._encoded(inputs * size, targets)
            vector = torch.cat([total.reshape(-1).double() for total in [*sums, further]])
            assert vector.isfinite().all() and float(vector.norm()) <= run.optimizer.plan.norm
            assert float(vector.norm()) > 0.2 or size > 1e12, "an example counts if tiny numbers are exact enough"
        assert not vector.any(), "an example that is not finite has the vector zero"


def test_what_does_not_go_together_is_refused() -> None:
    for more, said in (
        ({"clipping": "ghost", "second_moments": SecondMoments()}, "second moments need the gradients of single"),
        ({"scale": 1024.0}, "omit scale"),
    ):
        with pytest.raises(ValueError, match=said):
            adapting("samples", **more)


# ---- Tables


class Words(torch.nn.Module):
    """The mean of rows of two tables, then a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.pairs = torch.nn.Embedding(ROWS, WIDTH), torch.nn.Embedding(ROWS, WIDTH)
        self.out = torch.nn.Linear(WIDTH, KINDS)

    def forward(self, texts: Any) -> Any:
        found = self.words(texts) + self.pairs(texts.roll(1, -1) * 7 % ROWS)
        return self.out(torch.tanh(found.mean(dim=1)))


def texts(count: int = 120) -> Any:
    torch.manual_seed(3)
    return torch.utils.data.TensorDataset(torch.randint(0, 200, (count, 5)), torch.randint(0, KINDS, (count,)))


def with_tables(
    key: et.SecretKey, group: Any = None, name: str = "run", sampled_fraction: float = 0.2, **more: Any
) -> Any:
    torch.manual_seed(4)
    module = Words()
    plan = et.training.plan_vector(
        STEPS, epsilon=4.0, delta=1e-5, sampling="cyclic-poisson", sampled_fraction=sampled_fraction
    )
    optimizer = torch.optim.SGD(module.out.parameters(), lr=0.1)
    given = {"tables": {module.words: 0.5, module.pairs: 0.25}, "clipping": "ghost", "microbatch": 4, "group": group}
    return et.torch.make_private(module, LOSS, optimizer, texts(), plan, key, name, **given | more)


def tabled(rank: int, folder: Path) -> None:
    key, world = et.SecretKey.load(folder / "key"), distributed.group.WORLD
    run = with_tables(key, world)
    train(run, BREAK)
    torch.save(run.state_dict(), folder / f"state {rank}")
    again = with_tables(key, world)
    again.load_state_dict(torch.load(folder / f"state {1 - rank}"))
    for of in (run, again):  # twice the same, with logged noise
        train(of)
        with pytest.raises(RuntimeError, match="run.catch_up\\(\\) on all ranks"):
            of.module(torch.arange(3)[None])
        with pytest.raises(RuntimeError, match="run.catch_up\\(\\) on all ranks"):
            of.module.state_dict()
        of.catch_up()
        of.module(torch.arange(3)[None])
        if rank:  # on one rank alone
            copy.deepcopy(of.module)
        torch.save(of.module.state_dict(), folder / f"module {rank} {of is run}")
    with pytest.raises(ValueError, match="tables, or their rates, of rank 1"):
        module = Words()
        optimizer = torch.optim.SGD(module.out.parameters(), lr=0.1)
        both = {module.words: 0.5, module.pairs: 0.25 + rank}
        plan = et.training.plan_vector(STEPS, epsilon=4.0, delta=1e-5, sampling="cyclic-poisson", sampled_fraction=0.2)
        et.torch.make_private(
            module, LOSS, optimizer, texts(), plan, key, "other", tables=both, clipping="ghost", group=world
        )
    rare = with_tables(key, world, "rare", sampled_fraction=0.005)  # ranks without examples, and steps without any
    train(rare)
    rare.catch_up()
    torch.save(rare.module.state_dict(), folder / f"rare {rank}")


def test_tables_on_two_ranks_are_those_of_one(tmp_path: Path) -> None:
    et.SecretKey.generate().save(tmp_path / "key")
    together(tabled, tmp_path)
    key = et.SecretKey.load(tmp_path / "key")
    with et.allow_noise_reuse("repeats the shares of two ranks in one process"):
        straight = with_tables(key)
        train(straight)
        straight.catch_up()
        resumed = with_tables(key)
        resumed.load_state_dict(torch.load(tmp_path / "state 1"))
        train(resumed)
        resumed.catch_up()
        rare = with_tables(key, name="rare", sampled_fraction=0.005)
        train(rare)
        rare.catch_up()
    states = [of.module.state_dict() for of in (straight, resumed, rare)]
    for name, value in states[0].items():
        assert torch.equal(states[1][name], value), name
        for rank in range(RANKS):
            assert torch.equal(torch.load(tmp_path / f"rare {rank}")[name], states[2][name]), name
            for which in (True, False):
                assert torch.equal(torch.load(tmp_path / f"module {rank} {which}")[name], value), name


def test_microbatches_of_tables_add_up(tmp_path: Path) -> None:
    found = []
    for microbatch in (None, 1, 5):
        run = with_tables(small.key(), name="same", microbatch=microbatch)
        train(run)
        run.catch_up()
        found.append(torch.cat([p.detach().reshape(-1) for p in run.module.parameters()]))
    for other in found[1:]:
        torch.testing.assert_close(other, found[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(found[0].isfinite(), True)
