"""Runs under `torch.set_default_device`: the noise's vectors stay in the CPU's memory."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import evertally as et
import pytest

torch = pytest.importorskip("torch")
import evertally.torch  # noqa: E402
from evertally.training.moments import AdaptiveClipping  # noqa: E402

from . import small  # noqa: E402

LOSS = torch.nn.functional.cross_entropy


@pytest.fixture
def other_default() -> Iterator[None]:
    """A default device without any data: a tensor that is made there by mistake fails as soon as it is used."""
    torch.set_default_device("meta")
    try:
        yield
    finally:
        torch.set_default_device("cpu")


def trained(folder: Path, key: et.SecretKey, **options: Any) -> Any:
    """The weights after a run with a checkpoint."""
    plan = et.training.plan_vector(
        small.STEPS, epsilon=4.0, delta=1e-5, sampling="cyclic-poisson", sampled_fraction=0.1, mechanism="input"
    )

    def made() -> Any:
        with torch.device("cpu"):
            module = small.network()
        optimizer = torch.optim.SGD(module.parameters(), lr=0.5)
        return et.torch.make_private(module, LOSS, optimizer, data, plan, key, "run", **options)

    with torch.device("cpu"):
        data = small.data()
    def batches() -> Any:
        with torch.device("cpu"):
            return iter(run.loader)  # PyTorch draws a seed, which needs data

    run = made()
    for _, batch in zip(range(5), batches()):
        run.step(*batch)
    et.torch.save_checkpoint(folder, run)
    run = made()
    et.torch.load_checkpoint(folder, run)
    for batch in batches():
        run.step(*batch)
    return torch.nn.utils.parameters_to_vector(run.module.parameters()).detach()


@pytest.mark.parametrize(
    "options",
    [
        {"clipping": "samples"},
        {"clipping": "ghost"},
        {"clipping": "ghost", "microbatch": 7, "ahead": True},
        {"adaptive_clipping": AdaptiveClipping()},
    ],
    ids=str,
)
def test_weights_do_not_depend_on_it(tmp_path: Path, request: pytest.FixtureRequest, options: dict[str, Any]) -> None:
    key = small.key()
    expected = trained(tmp_path / "one", key, **options)
    request.getfixturevalue("other_default")
    assert torch.equal(trained(tmp_path / "other", key, **options), expected)
