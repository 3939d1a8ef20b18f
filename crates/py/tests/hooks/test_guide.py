"""The code of the guide's page on frameworks runs unchanged."""

import re
from pathlib import Path
from typing import Any

import evertally as et
import numpy as np
import pytest

torch = pytest.importorskip("torch")
PAGE = Path(__file__).parents[4] / "docs" / "guide" / "frameworks.md"
BLOCKS = re.findall(r"```text\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
EXAMPLES = 240


def names() -> dict[str, Any]:
    """The names that the blocks assume."""
    torch.manual_seed(1)
    rng = np.random.default_rng(5)
    inputs, targets = rng.standard_normal((EXAMPLES, 6), dtype=np.float32), rng.integers(0, 3, EXAMPLES)
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))
    plan = et.training.plan_vector(
        6, epsilon=4.0, delta=1e-5, sampling="cyclic-poisson", sampled_fraction=0.1, mechanism="epoch-bands(bands=3)"
    )
    key = et.SecretKey.generate()
    return {
        "et": et,
        "torch": torch,
        "model": model,
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.1),
        "loss": torch.nn.functional.cross_entropy,
        "dataset": torch.utils.data.TensorDataset(torch.from_numpy(inputs), torch.from_numpy(targets)),
        "plan": plan,
        "key": key,
        "rank": 0,
    }


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_the_page_runs(block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import evertally.torch

    monkeypatch.chdir(tmp_path)
    for name, value in {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29577"}.items():
        monkeypatch.setenv(name, value)
    known = names()
    if "opacus" in block:
        known["opacus"] = pytest.importorskip("opacus")
    if "optax" in block:
        jax = pytest.importorskip("jax")
        known["optax"] = pytest.importorskip("optax")
        import evertally.jax

        inputs, targets = (tensor.numpy() for tensor in known["dataset"].tensors)
        known |= {"jax": jax, "np": np, "inputs": inputs, "targets": targets, "params": {"w": jax.numpy.ones((6,))}}
        known["loss"] = lambda params, one, target: ((params["w"] * one).sum() - target) ** 2
    if run := re.search(r'"(run [23])", batches', block):
        known["batches"] = et.training.Batches(known["plan"], known["key"], run[1], examples=EXAMPLES)
    loads = "torch.save" in block or "save_checkpoint" in block
    if loads:
        make = evertally.torch.make_private
        arguments = (known[name] for name in ("model", "loss", "optimizer", "dataset", "plan", "key"))
        known["run"] = make(*arguments, "run 7")
    before = torch.nn.utils.parameters_to_vector(known["model"].parameters()).detach().clone()
    try:
        exec(compile(block, str(PAGE), "exec"), known)
    finally:
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()
    after = torch.nn.utils.parameters_to_vector(known["model"].parameters())
    if "optax" not in block and not loads:
        assert not torch.equal(before, after)
        assert (known.get("run") or known["private"]) is not None
