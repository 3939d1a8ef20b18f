"""Runs whose noise is drawn ahead are the same as without, at every point where they can be resumed or interrupted."""

import copy
import time
from pathlib import Path
from typing import Any

import evertally as et
import pytest

torch = pytest.importorskip("torch")
import evertally.torch  # noqa: E402

from . import small  # noqa: E402

LOSS = torch.nn.functional.cross_entropy
PLANS: dict[str, Any] = {
    "blt": lambda: et.training.plan_vector(small.STEPS, rho=0.5, participations=2, separation=12, mechanism="blt"),
    "tree": lambda: et.training.plan_vector(small.STEPS, rho=0.5, participations=2, separation=12, mechanism="smooth"),
    "bands": lambda: et.training.plan_vector(
        small.STEPS,
        epsilon=4.0,
        delta=1e-5,
        sampling="cyclic-poisson",
        sampled_fraction=0.1,
        mechanism="epoch-bands(bands=3)",
    ),
}


def run(plan: str, key: et.SecretKey | None = None, **options: Any) -> Any:
    module = small.network()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.5, momentum=0.5)
    options |= {} if plan == "bands" else {"batch_size": 30}
    key = small.key() if key is None else key
    return et.torch.make_private(module, LOSS, optimizer, small.data(), PLANS[plan](), key, "run", **options)


def weights(of: Any) -> Any:
    return torch.nn.utils.parameters_to_vector(of.module.parameters()).detach().clone()


def same(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other


@pytest.mark.parametrize("plan", PLANS)
def test_weights_and_states_are_those_without(plan: str) -> None:
    plain, ahead = run(plan), run(plan, ahead=True, threads=2)
    for step, (batch, own) in enumerate(zip(plain.loader, ahead.loader)):
        plain.step(*batch)
        ahead.step(*own)
        assert same(plain.state_dict(), ahead.state_dict())
        if step == 9:
            state, again = copy.deepcopy(ahead.state_dict()), run(plan, ahead=True)
    assert torch.equal(weights(plain), weights(ahead)) and ahead.optimizer.noise.step == small.STEPS
    again.load_state_dict(state)
    for batch in again.loader:
        again.step(*batch)
    assert torch.equal(weights(again), weights(plain))


@pytest.mark.parametrize("plan", PLANS)
def test_what_breaks_a_step_off_changes_nothing(plan: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plain, ahead = run(plan), run(plan, ahead=True)
    for step, (batch, own) in enumerate(zip(plain.loader, ahead.loader)):
        plain.step(*batch)
        if step in (0, 3, 4) and len(own[0]):
            before = copy.deepcopy(ahead.state_dict())
            with pytest.raises(ValueError, match="not the examples"):
                ahead.step(own[0][:-1], own[1][:-1], own[2][:-1])
            with monkeypatch.context() as broken:
                broken.setattr(ahead, "loss", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
                with pytest.raises(KeyboardInterrupt):
                    ahead.step(*own)
            assert same(before, ahead.state_dict())
        ahead.step(*own)
        if step == 6:
            break
    assert torch.equal(weights(plain), weights(ahead))


def test_other_gradients_are_refused_with_the_noise_that_waits(tmp_path: Path) -> None:
    et.SecretKey.generate().save(tmp_path / "key")
    key = et.SecretKey.load(tmp_path / "key")
    first, second = (run("blt", key, ahead=True) for _ in range(2))
    with torch.no_grad():
        second.module[0].weight += 1
    first.step(*next(iter(first.loader)))
    before, state = weights(second), copy.deepcopy(second.state_dict())
    with pytest.raises(et.StateError, match="issued for other data"):
        second.step(*next(iter(second.loader)))
    assert torch.equal(before, weights(second)) and same(state, second.state_dict())


def test_drawing_begins_before_the_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    own = run("blt", ahead=True)
    part, seen = own.optimizer.noise._parts[0], []

    def loss(*given: Any) -> Any:
        end = time.monotonic() + 20
        while not part.memory_bytes and time.monotonic() < end:
            time.sleep(0.001)
        seen.append(part.memory_bytes)
        return LOSS(*given)

    monkeypatch.setattr(own, "loss", loss)
    own.step(*next(iter(own.loader)))
    assert min(seen) > 0
