"""Runs that resume from a `torch.distributed.checkpoint`, on the same number of ranks and on others."""

import os
import warnings
from pathlib import Path
from typing import Any

import evertally as et
import pytest

torch = pytest.importorskip("torch")
import evertally.torch  # noqa: E402
from evertally.torch import AdaptiveClipping, DPAdam, load_checkpoint, save_checkpoint  # noqa: E402
from torch import distributed  # noqa: E402

from . import small  # noqa: E402
from .processes import RANKS, together  # noqa: E402

BREAK = 9
LOSS = torch.nn.functional.cross_entropy
#: Kinds of runs: an optimizer whose state is tensors, and one whose state also has numbers.
RUNS: dict[str, Any] = {
    "adam": (lambda p: torch.optim.Adam(p, lr=0.05), {}),
    "adaptive": (lambda p: DPAdam(p, lr=0.05), {"adaptive_clipping": AdaptiveClipping(initial=0.3), "ahead": True}),
}


def plan() -> et.training.VectorPlan:
    return et.training.plan_vector(
        small.STEPS,
        epsilon=4.0,
        delta=1e-5,
        sampling="cyclic-poisson",
        sampled_fraction=0.1,
        mechanism="epoch-bands(bands=3)",
    )


def private_run(kind: str, group: Any = None, seed: int = 1) -> Any:
    module = small.network()
    torch.manual_seed(seed)
    if seed != 1:
        for p in module.parameters():
            torch.nn.init.normal_(p)
    optimizer, options = RUNS[kind]
    own = optimizer(module.parameters())
    given = {"clipping": "ghost", "microbatch": 8, "group": group} | options
    return et.torch.make_private(module, LOSS, own, small.data(), plan(), small.key(), "run", **given)


def train(run: Any, through: int = small.STEPS) -> Any:
    for batch in run.loader:
        run.step(*batch)
        if run.optimizer.noise.step == through:
            break
    return torch.nn.utils.parameters_to_vector(run.module.parameters()).detach().clone()


def saved(rank: int, folder: Path) -> None:
    for kind in RUNS:
        run = private_run(kind, distributed.group.WORLD)
        train(run, BREAK)
        save_checkpoint(folder / f"{kind} of two", run)
        again = private_run(kind, distributed.group.WORLD, seed=99)
        load_checkpoint(folder / f"{kind} of two", again)
        torch.save([train(run), train(again)], folder / f"{kind} {rank}")


def resumed(rank: int, folder: Path) -> None:
    for kind in RUNS:
        run = private_run(kind, distributed.group.WORLD, seed=99)
        load_checkpoint(folder / f"{kind} of one", run)
        assert run.optimizer.noise.step == BREAK
        torch.save(train(run), folder / f"{kind} {rank}")


@pytest.fixture(autouse=True)
def one_thread() -> Any:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def test_two_ranks_go_on_as_two_and_as_one(tmp_path: Path) -> None:
    together(saved, tmp_path)
    for kind in RUNS:
        straight = train(private_run(kind))
        for rank in range(RANKS):
            assert all(torch.equal(found, straight) for found in torch.load(tmp_path / f"{kind} {rank}"))
        run = private_run(kind, seed=99)
        load_checkpoint(tmp_path / f"{kind} of two", run)
        assert run.optimizer.noise.step == BREAK and torch.equal(train(run), straight)
        if os.name == "posix":
            assert (tmp_path / f"{kind} of two").stat().st_mode & 0o077 == 0


def test_one_process_goes_on_as_one_and_as_two(tmp_path: Path) -> None:
    straight = {}
    for kind in RUNS:
        run = private_run(kind)
        train(run, BREAK)
        save_checkpoint(tmp_path / f"{kind} of one", run)
        straight[kind] = train(run)
        again = private_run(kind, seed=99)
        load_checkpoint(tmp_path / f"{kind} of one", again)
        assert torch.equal(train(again), straight[kind])
    together(resumed, tmp_path)
    for kind in RUNS:
        for rank in range(RANKS):
            assert torch.equal(torch.load(tmp_path / f"{kind} {rank}"), straight[kind])


def test_a_folder_is_not_a_url(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    run = private_run("adam")
    with pytest.raises(et.InvalidError, match="folder is the URL 's3://bucket/one'.* give a storage_writer"):
        save_checkpoint("s3://bucket/one", run)
    assert not list(tmp_path.iterdir())
    save_checkpoint((tmp_path / "one").as_uri(), run)
    load_checkpoint((tmp_path / "one").as_uri(), run)


def test_checkpoints_of_other_runs_change_nothing(tmp_path: Path) -> None:
    run = private_run("adam")
    train(run, BREAK)
    save_checkpoint(tmp_path / "one", run)
    with warnings.catch_warnings(action="ignore"):
        torch.distributed.checkpoint.save({"other": torch.zeros(2)}, checkpoint_id=tmp_path / "two", no_dist=True)
    other = et.training.plan_vector(
        small.STEPS,
        epsilon=4.0,
        delta=1e-5,
        sampling="cyclic-poisson",
        sampled_fraction=0.1,
        mechanism="epoch-bands(bands=2)",
    )
    module = small.network()
    optimizer = torch.optim.Adam(module.parameters(), lr=0.05)
    mine = et.torch.make_private(module, LOSS, optimizer, small.data(), other, small.key(), "run")
    before = torch.nn.utils.parameters_to_vector(module.parameters()).detach().clone()
    for folder, kind, said in (
        ("one", et.StateError, "belong"),
        ("two", ValueError, "is not a checkpoint of save_checkpoint"),
    ):
        with pytest.raises(kind, match=said):
            load_checkpoint(tmp_path / folder, mine)
    assert torch.equal(before, torch.nn.utils.parameters_to_vector(module.parameters()))
    assert mine.optimizer.noise.step == 0 and not optimizer.state


# ---- Shards


def sharded(rank: int, folder: Path) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    def made() -> Any:
        module, own = small.network(), plan()
        for layer in (module[0], module[2], module):
            fully_shard(layer, mesh=init_device_mesh("cpu", (RANKS,)))
        batches = et.training.Batches(own, small.key(), "run", examples=small.EXAMPLES)
        optimizer = torch.optim.Adam(module.parameters(), lr=0.05)
        options = {"batches": batches, "group": distributed.group.WORLD, "ahead": True}
        return module, et.torch.DPFTRL(optimizer, own, small.key(), "run", **options)

    def steps(module: Any, private: Any, through: int) -> Any:
        for step in range(private.noise.step + 1, through + 1):
            own = private.batches.batch(step)[rank::RANKS]
            private.step([torch.full(p.shape, 0.1 * step) for p in module.parameters()], examples=own)
        return torch.cat([p.full_tensor().detach().reshape(-1) for p in module.parameters()])

    straight = made()
    steps(*straight, BREAK)
    save_checkpoint(folder / "sharded", straight)
    again = made()
    steps(*again, 2)
    load_checkpoint(folder / "sharded", again)
    assert torch.equal(steps(*again, small.STEPS), steps(*straight, small.STEPS))
    alone = made()
    load_checkpoint(folder / "whole", alone)
    torch.save([steps(*straight, small.STEPS), steps(*alone, small.STEPS)], folder / f"weights {rank}")


def test_shards_go_on_as_shards_and_as_whole_parameters(tmp_path: Path) -> None:
    def made() -> Any:
        module, own = small.network(), plan()
        batches = et.training.Batches(own, small.key(), "run", examples=small.EXAMPLES)
        optimizer = torch.optim.Adam(module.parameters(), lr=0.05)
        return module, et.torch.DPFTRL(optimizer, own, small.key(), "run", batches=batches)

    def steps(module: Any, private: Any, through: int) -> Any:
        for step in range(private.noise.step + 1, through + 1):
            # The sums of two ranks, added up.
            sums = [
                RANKS * et.torch._gradients.on_grid(torch.full(p.shape, 0.1 * step), 1.0) for p in module.parameters()
            ]
            private.step(sums, examples=private.batches.batch(step))
        return torch.nn.utils.parameters_to_vector(module.parameters()).detach().clone()

    straight = made()
    steps(*straight, BREAK)
    save_checkpoint(tmp_path / "whole", straight)
    whole = steps(*straight, small.STEPS)
    together(sharded, tmp_path)
    for rank in range(RANKS):
        for found in torch.load(tmp_path / f"weights {rank}"):
            assert torch.equal(found, whole)
    again = made()
    load_checkpoint(tmp_path / "sharded", again)
    assert torch.equal(steps(*again, small.STEPS), whole)


# ---- Parts that were not restored


def test_a_refusal_says_what_was_not_restored(tmp_path: Path) -> None:
    et.SecretKey.generate().save(tmp_path / "key")
    key = et.SecretKey.load(tmp_path / "key")

    def made(seed: int) -> Any:
        module = small.network()
        if seed:
            torch.manual_seed(seed)
            torch.nn.init.normal_(module[0].weight)
        optimizer = torch.optim.SGD(module.parameters(), lr=0.5)
        return et.torch.make_private(module, LOSS, optimizer, small.data(), plan(), key, "run")

    run = made(0)
    train(run, 3)
    state = run.state_dict()
    state["module"] = {name: value.clone() for name, value in state["module"].items()}
    train(run, 5)
    fresh, half, other = made(1), made(1), made(0)
    half.optimizer.load_state_dict(state["optimizer"])
    other.load_state_dict(state)
    other.loss = lambda *given: 2 * LOSS(*given)
    for again, said in (
        (fresh, "Nothing was restored here"),
        (half, "restored as after step 3, but the module's parameters differ"),
        (other, "the parameters are those of that step. Something else"),
    ):
        with pytest.raises(et.StateError, match=said):
            train(again)
    later = made(0)
    later.load_state_dict(state)
    train(later, 4)
    later.loss = other.loss
    with pytest.raises(et.StateError, match="Steps 4 to 4 were the same as before"):
        train(later)
