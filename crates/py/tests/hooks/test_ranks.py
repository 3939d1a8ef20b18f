"""Runs of two processes: they equal the run of one process, bit for bit, and refuse together."""

import copy
from pathlib import Path
from typing import Any
from unittest.mock import patch

import evertally as et
import numpy as np
import pytest

torch = pytest.importorskip("torch")
import evertally.torch  # noqa: E402
from torch import distributed  # noqa: E402

from .processes import RANKS, together  # noqa: E402

EXAMPLES, FEATURES, CLASSES, STEPS, BREAK = 90, 6, 3, 10, 4
LOSS = torch.nn.functional.cross_entropy
#: Fixed and sampled batches, noise without and with a memory.
PLANS: dict[str, Any] = {
    "sampled": lambda: et.training.plan_vector(
        STEPS,
        epsilon=4.0,
        delta=1e-5,
        sampling="cyclic-poisson",
        sampled_fraction=0.2,
        mechanism="epoch-bands(bands=3)",
    ),
    "order": lambda: et.training.plan_vector(STEPS, rho=0.5, participations=2, separation=5, mechanism="blt"),
}


def key() -> et.SecretKey:
    """A public test key, whose noise is not logged: these runs are repeated."""
    return et.SecretKey.insecure_from_test_seed(et.TestSeed(3))


def network(seed: int = 1) -> Any:
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(FEATURES, 5), torch.nn.Tanh(), torch.nn.Linear(5, CLASSES))


def data() -> Any:
    rng = np.random.default_rng(5)
    inputs = rng.standard_normal((EXAMPLES, FEATURES), dtype=np.float32)
    return torch.utils.data.TensorDataset(
        torch.from_numpy(inputs), torch.from_numpy(rng.integers(0, CLASSES, EXAMPLES))
    )


def private_run(plan: str, clipping: str = "samples", group: Any = None, seed: int = 1, **more: Any) -> Any:
    module = network(seed)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.5, momentum=0.5)
    options = more | ({"batch_size": 18} if plan == "order" else {})
    return evertally.torch.make_private(
        module,
        LOSS,
        optimizer,
        data(),
        PLANS[plan](),
        key(),
        "run",
        clipping=clipping,
        microbatch=4,
        group=group,
        **options,
    )


def train(run: Any, through: int = STEPS) -> None:
    for batch in run.loader:
        run.step(*batch)
        if run.optimizer.noise.step == through:
            break


def weights(module: Any) -> Any:
    return torch.cat([p.detach().reshape(-1) for p in module.parameters()])


# ---- Data parallel


def trained(rank: int, folder: Path) -> None:
    for plan in PLANS:
        for clipping in ("samples", "ghost"):
            # The noise of one of them is drawn ahead, on only one rank.
            run = private_run(plan, clipping, distributed.group.WORLD, ahead=clipping == "ghost" and rank == 1)
            size = sum(p.numel() for p in run.module.parameters())
            assert run.optimizer.noise.coordinates < size, "each rank draws a part"
            train(run, BREAK)
            torch.save([run.module.state_dict(), run.optimizer.state_dict()], folder / f"{plan} {clipping} {rank}")
            train(run)
            torch.save(weights(run.module), folder / f"{plan} {clipping} weights {rank}")


def resumed(rank: int, folder: Path) -> None:
    """Resumes from a state of one process."""
    for plan in PLANS:
        run = private_run(plan, group=distributed.group.WORLD, seed=99)
        for part, state in zip((run.module, run.optimizer), torch.load(folder / f"{plan} alone")):
            part.load_state_dict(state)
        assert len(run.loader) == STEPS - BREAK
        train(run)
        torch.save(weights(run.module), folder / f"{plan} resumed {rank}")


class TestDataParallel:
    @pytest.fixture(scope="class")
    def folder(self, tmp_path_factory: pytest.TempPathFactory) -> Path:
        folder = tmp_path_factory.mktemp("ranks")
        together(trained, folder)
        return folder

    @pytest.fixture(autouse=True)
    def one_thread(self) -> Any:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        yield
        torch.set_num_threads(threads)

    @pytest.mark.parametrize("clipping", ["samples", "ghost"])
    @pytest.mark.parametrize("plan", PLANS)
    def test_two_processes_end_with_the_weights_of_one(self, folder: Path, plan: str, clipping: str) -> None:
        alone = private_run(plan, clipping)
        train(alone)
        for rank in range(RANKS):
            assert torch.equal(torch.load(folder / f"{plan} {clipping} weights {rank}"), weights(alone.module))

    @pytest.mark.parametrize("rank", range(RANKS))
    @pytest.mark.parametrize("plan", PLANS)
    def test_one_process_goes_on_where_two_were(self, folder: Path, plan: str, rank: int) -> None:
        run = private_run(plan, seed=99)
        for part, state in zip((run.module, run.optimizer), torch.load(folder / f"{plan} samples {rank}")):
            part.load_state_dict(state)
        assert run.optimizer.noise.step == BREAK
        train(run)
        assert torch.equal(torch.load(folder / f"{plan} samples weights 0"), weights(run.module))

    def test_two_processes_go_on_where_one_was(self, tmp_path: Path) -> None:
        whole = {}
        for plan in PLANS:
            run = private_run(plan)
            train(run, BREAK)
            torch.save([run.module.state_dict(), run.optimizer.state_dict()], tmp_path / f"{plan} alone")
            train(run)
            whole[plan] = weights(run.module)
        together(resumed, tmp_path)
        for plan in PLANS:
            for rank in range(RANKS):
                assert torch.equal(torch.load(tmp_path / f"{plan} resumed {rank}"), whole[plan])

    def test_a_state_of_another_run_is_refused_on_any_number_of_ranks(self, folder: Path) -> None:
        _, state = torch.load(folder / "sampled samples 0")
        module = network()
        optimizer = torch.optim.SGD(module.parameters(), lr=0.5)
        other = evertally.torch.DPFTRL(optimizer, PLANS["order"](), key(), "run", expected_batch_size=18)
        before = other.state_dict()["noise"]
        with pytest.raises(et.StateError):
            other.load_state_dict(state)
        assert other.state_dict()["noise"]["step"] == before["step"] == 0 and not optimizer.state_dict()["state"]


# ---- Refusals


def refused(rank: int, folder: Path) -> None:
    world, plan = distributed.group.WORLD, PLANS["sampled"]()
    watched = et.SecretKey.load(folder / "own.key")
    batches = et.training.Batches(plan, watched, "run", examples=EXAMPLES)

    def private(name: str = "run", **options: Any) -> Any:
        module = network()
        optimizer = torch.optim.SGD(module.parameters(), lr=0.5, momentum=0.9)
        options = {"batches": batches, "group": world} | options
        return module, evertally.torch.DPFTRL(optimizer, plan, watched, name, **options)

    with pytest.raises(ValueError, match="of rank 1 is not that of rank 0"):
        private(expected_batch_size=18 + rank)
    module, own = private()

    def sums(seed: int, of: Any = module) -> list[Any]:
        generator = torch.Generator().manual_seed(seed)
        return [torch.randn(p.shape, generator=generator) for p in of.parameters()]

    def part(step: int, of: int = rank) -> list[int]:
        return [int(number) for number in batches.batch(step)][of::RANKS]

    def unchanged(match: str, kind: type, *given: Any, **more: Any) -> None:
        before, state = weights(module), copy.deepcopy(own.state_dict())
        with pytest.raises(kind, match=match):
            own.step(*given, **more)
        after = own.state_dict()
        assert torch.equal(before, weights(module)) and own.noise.step == state["noise"]["step"]
        assert [bytes(a.numpy()) for a in after["noise"]["states"]] == [
            bytes(b.numpy()) for b in state["noise"]["states"]
        ]
        for place, kept in state["optimizer"]["state"].items():
            assert torch.equal(kept["momentum_buffer"], after["optimizer"]["state"][place]["momentum_buffer"])

    for step in (1, 2):
        with patch.object(distributed, "get_backend_config", return_value="cuda:nccl"):
            with pytest.raises(ValueError, match='new_group\\(backend="gloo"\\)'):
                private()
        unchanged("give examples=", ValueError, sums(rank))
        unchanged("not the examples of step", ValueError, sums(rank), examples=part(step, of=0) if rank else [])
        unchanged("occurs twice", ValueError, sums(rank), examples=part(step, of=0))
        wrong = sums(rank)[: 4 - rank]
        unchanged(
            *(("3 tensors for 4", ValueError) if rank else ("rank 1 refused", RuntimeError)), wrong, examples=part(step)
        )

        def fails() -> None:
            if rank == 0:
                raise KeyError("no data")
            for p in module.parameters():
                p.grad_sample = torch.zeros(len(part(step)), *p.shape)

        unchanged(*(("rank 0 refused", RuntimeError) if rank else ("no data", KeyError)), fails, examples=part(step))
        own.zero_grad()
        own.step(sums(10 * step + rank), examples=part(step))
        said: list[Any] = [None] * RANKS
        distributed.all_gather_object(said, weights(module))
        assert torch.equal(said[0], said[1]) and own.noise.step == step

    # Another run has other data only in the second half of the coordinates: rank 0 alone would not have refused it.
    again, other = private()
    other.step(sums(10 + rank, again), examples=part(1))
    changed = sums(20 + rank, again)
    changed[-1][-1] += 1
    before, state = weights(again), copy.deepcopy(other.state_dict())
    kind = et.StateError if rank else RuntimeError
    with pytest.raises(kind, match="issued for other data"):
        other.step(changed, examples=part(2))
    after = other.state_dict()
    assert torch.equal(before, weights(again)) and other.noise.step == 1
    assert all(torch.equal(a, b) for a, b in zip(state["noise"]["states"], after["noise"]["states"]))
    other.step(sums(20 + rank, again), examples=part(2))
    assert torch.equal(weights(again), weights(module)), "the same sums get the same noise again"

    # One rank gives sums, the other samples.
    for p in again.parameters():
        p.grad_sample = torch.zeros(len(part(3)), *p.shape)
    other.step(*([sums(3)] if rank else []), examples=part(3))
    assert other.noise.step == 3

    # Ranks that are at different steps.
    _, behind = private()
    if rank:
        behind.noise = other.noise
    with pytest.raises(ValueError, match="different steps"):
        behind.step(sums(rank), examples=part(1))


def given_the_same_total(rank: int, folder: Path) -> None:
    """Without a group, each rank adds the whole noise."""
    watched = et.SecretKey.load(folder / "own.key")
    module = network()
    plan = PLANS["order"]()
    private = evertally.torch.DPFTRL(
        torch.optim.SGD(module.parameters(), lr=0.5), plan, watched, "totals", expected_batch_size=18
    )
    same = [torch.ones_like(p) for p in module.parameters()]
    private.step(same)
    said: list[Any] = [None] * RANKS
    distributed.all_gather_object(said, weights(module))
    assert torch.equal(said[0], said[1])
    before = weights(module)
    for turn in range(RANKS):
        if turn == rank == 0:
            private.step(same)
        elif turn == rank:
            with pytest.raises(et.StateError, match="issued for other data"):
                private.step([2 * tensor for tensor in same])
            assert torch.equal(before, weights(module)) and private.noise.step == 1
        distributed.barrier()


class TestRefusals:
    def test_what_one_rank_refuses_all_do(self, tmp_path: Path) -> None:
        et.SecretKey.generate().save(tmp_path / "own.key")
        together(refused, tmp_path)

    def test_ranks_that_give_different_totals_are_refused(self, tmp_path: Path) -> None:
        et.SecretKey.generate().save(tmp_path / "own.key")
        together(given_the_same_total, tmp_path)

    def test_a_group_needs_processes_that_know_each_other(self) -> None:
        optimizer = torch.optim.SGD(network().parameters(), lr=0.5)
        with pytest.raises(ValueError, match="init_process_group"):
            evertally.torch.DPFTRL(optimizer, PLANS["order"](), key(), "run", expected_batch_size=18, group=object())


# ---- Shards


def sharded(rank: int, folder: Path, gives: str) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard

    mesh = init_device_mesh("cpu", (RANKS,))
    module, plain, plan = network(), network(), PLANS["sampled"]()
    for layer in (module[0], module[2], module):
        fully_shard(layer, mesh=mesh)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.5, momentum=0.5)
    batches = et.training.Batches(plan, key(), "run", examples=EXAMPLES)
    private = evertally.torch.DPFTRL(optimizer, plan, key(), "run", batches=batches, group=distributed.group.WORLD)
    inputs, targets = data().tensors
    older = FullyShardedDataParallel(network(), use_orig_params=True, device_id=torch.device("cpu"))
    with pytest.raises(ValueError, match="fully_shard"):
        evertally.torch.DPFTRL(
            torch.optim.SGD(older.parameters(), lr=0.5), plan, key(), "run", batches=batches, group=private.ranks.group
        )
    for step in range(1, STEPS + 1):
        batch = torch.from_numpy(batches.batch(step))
        with torch.no_grad():
            for own, shard in zip(plain.parameters(), module.parameters(), strict=True):
                own.copy_(shard.full_tensor())
        if gives == "sums":  # each rank gives the sums of its part of the examples, over all parameters
            mine = batch[rank::RANKS]
            sums = evertally.torch.clipped_gradients(plain, LOSS, inputs[mine], targets[mine], plan.norm)
            private.step(sums, examples=mine)
        else:  # each rank gives the samples of all examples, for its own shards
            evertally.torch.grad_samples(plain, LOSS, inputs[batch], targets[batch])
            for own, shard in zip(plain.parameters(), module.parameters()):
                shard.grad_sample = own.grad_sample.chunk(RANKS, dim=1)[rank]
            private.step(examples=batch)
        if step == BREAK:
            state, kept = private.state_dict()["noise"], private.noise
            private.noise = private.noise.restored(state)
            assert private.noise is not kept and private.noise.step == BREAK
            torch.save(state, folder / f"noise {rank}")
    full = torch.cat([p.full_tensor().detach().reshape(-1) for p in module.parameters()])
    torch.save(full, folder / f"sharded {rank}")


def private_shards(rank: int, folder: Path) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import FSDPModule, fully_shard

    mesh = init_device_mesh("cpu", (RANKS,))
    for clipping in ("samples", "ghost", "auto"):
        module = network()
        for layer in (module[0], module[2], module):
            fully_shard(layer, mesh=mesh)
        optimizer = torch.optim.SGD(module.parameters(), lr=0.5, momentum=0.5)
        options = {"clipping": clipping, "microbatch": 4, "group": distributed.group.WORLD}
        run = evertally.torch.make_private(module, LOSS, optimizer, data(), PLANS["sampled"](), key(), "run", **options)
        assert run.clipping == clipping.replace("auto", "ghost")
        train(run, BREAK)
        state = copy.deepcopy(run.state_dict())
        inputs, targets, examples = next(iter(run.loader))
        refusal = (ValueError, "pass the values") if rank else (RuntimeError, "rank 1 refused this")
        with pytest.raises(refusal[0], match=refusal[1]):
            run.step(inputs, torch.cat([targets, targets]) if rank else targets, examples)
        train(run, STEPS - 2)
        run.load_state_dict(state)
        assert run.optimizer.noise.step == BREAK
        train(run)
        assert isinstance(module[0], FSDPModule) and all(hasattr(p, "full_tensor") for p in module.parameters())
        assert all(p.grad.to_local().shape == p.to_local().shape for p in module.parameters())
        full = torch.cat([p.full_tensor().detach().reshape(-1) for p in module.parameters()])
        torch.save(full, folder / f"{clipping} {rank}")


def test_sharded_modules_end_with_the_weights_of_one_process(tmp_path: Path) -> None:
    together(private_shards, tmp_path)
    threads = torch.get_num_threads()
    for clipping in ("samples", "ghost"):
        torch.set_num_threads(1)
        alone = private_run("sampled", clipping)
        train(alone)
        torch.set_num_threads(threads)
        for rank in range(RANKS):
            assert torch.equal(torch.load(tmp_path / f"{clipping} {rank}"), weights(alone.module))
            assert clipping == "samples" or torch.equal(torch.load(tmp_path / f"auto {rank}"), weights(alone.module))


@pytest.mark.parametrize("gives", ["sums", "samples"])
def test_shards_are_those_of_one_process(gives: str, tmp_path: Path) -> None:
    together(sharded, tmp_path, gives)
    module, plan = network(), PLANS["sampled"]()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.5, momentum=0.5)
    batches = et.training.Batches(plan, key(), "run", examples=EXAMPLES)
    private = evertally.torch.DPFTRL(optimizer, plan, key(), "run", batches=batches)
    inputs, targets = data().tensors
    for step in range(1, STEPS + 1):
        batch = torch.from_numpy(batches.batch(step))
        evertally.torch.grad_samples(module, LOSS, inputs[batch], targets[batch])
        private.step(examples=batch)
        if step == BREAK:
            kept = copy.deepcopy(private.state_dict())
    straight = weights(module)
    for rank in range(RANKS):  # the noise continues in one process, bit for bit
        private.load_state_dict(kept | {"noise": torch.load(tmp_path / f"noise {rank}")})
        for step in range(BREAK + 1, STEPS + 1):
            private.step([torch.zeros_like(p) for p in module.parameters()], examples=batches.batch(step))
        noise = et.VectorNoise(plan, key(), "run", coordinates=straight.numel())
        noise.seek(STEPS - 1)
        found = torch.cat([p.grad.reshape(-1) for p in module.parameters()]).numpy()
        assert (found == noise.next() / np.float32(batches.expected_size)).all()
    for rank in range(RANKS):
        torch.testing.assert_close(torch.load(tmp_path / f"sharded {rank}"), straight, rtol=1e-5, atol=1e-6)
