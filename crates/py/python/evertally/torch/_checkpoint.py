"""Checkpoints of runs in the format of `torch.distributed.checkpoint`, for any number of ranks."""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from evertally._paths import local
from evertally.torch._optimizer import DPFTRL
from evertally.torch._run import PrivateRun

ADVICE = "for other stores give a storage_writer, and a storage_reader, of torch.distributed.checkpoint"

#: A run, or a module and its private optimizer.
Trained = PrivateRun | tuple[torch.nn.Module, DPFTRL]


def save_checkpoint(folder: str | os.PathLike[str], run: Trained, **options: Any) -> None:
    """Saves a run with `torch.distributed.checkpoint`: each rank saves its own part, and shared data are saved once.
    `run` is the result of `make_private`, or a module and its :class:`DPFTRL` as `(module, optimizer)`, sharded or not.
    All ranks of the optimizer's group must call it.

    The folder is as secret as the key: it has the noise's state. If it does not exist, it is created with access for
    its owner only. Use a new folder each time, so that an interrupted save leaves the last checkpoint intact. `options`
    go to `torch.distributed.checkpoint.save`.
    """
    from torch.distributed import checkpoint

    module, optimizer = _parts(run)
    with optimizer.ranks.together():
        state = _state(run)
        if "storage_writer" not in options:
            folder = local(folder, "folder", ADVICE)
            Path(folder).mkdir(mode=0o700, parents=True, exist_ok=True)
    own = state["optimizer"]
    tensors, others = _apart({"module": state["module"]} | {f"optimizer.{i}": of for i, of in _states(own).items()})
    tensors |= {_noise_name(*ends): kept for ends, kept in zip(own["noise"]["ranges"], own["noise"]["states"])}
    tensors |= {f"table.{place}": kept for place, kept in enumerate(state["tables"])}
    described = {
        "others": others,
        "groups": own["optimizer"]["param_groups"],
        "step": own["noise"]["step"],
        "tables": len(state["tables"]),
        "caught_up": state.get("caught_up", False),
        **{name: own[name] for name in _PLAIN},
    }
    with _quiet():
        checkpoint.save(tensors | {"run": _packed(described)}, checkpoint_id=folder, **_among(optimizer), **options)


def load_checkpoint(folder: str | os.PathLike[str], run: Trained, **options: Any) -> None:
    """Resumes, bit for bit, from a checkpoint of `save_checkpoint` of a run with the same plan, key, name, module and
    optimizer; refuses others without changing anything. All ranks must call it. There may be more or fewer ranks than
    before, with or without shards: parameters and the optimizer's state are moved to their ranks, and the noise of
    coordinates that another rank had is drawn again from the first step. `options` go to
    `torch.distributed.checkpoint.load`.
    """
    from torch.distributed import checkpoint

    module, optimizer = _parts(run)
    with optimizer.ranks.together():
        if "storage_reader" not in options:
            folder = local(folder, "folder", ADVICE)
        reader = options.pop("storage_reader", None) or checkpoint.FileSystemReader(folder)
        known = reader.read_metadata().state_dict_metadata
        if "run" not in known:
            raise ValueError(f"{folder} is not a checkpoint of save_checkpoint")
        of_module, _ = _apart({"module": _module_state(run)})
        wanted = {name: torch.empty_like(value) for name, value in of_module.items()}
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        noises = _noise_of(optimizer, list(known))
        for name, about in known.items():
            kind, _, rest = name.partition(".")
            if kind == "optimizer":
                wanted[name] = _place_for(about, parameters[int(rest.partition(".")[0])])
            elif kind in ("table", "run") or name in noises:
                wanted[name] = _place_for(about)
    with _quiet():
        checkpoint.load(wanted, checkpoint_id=folder, storage_reader=reader, **_among(optimizer), **options)
    described = _unpacked(wanted["run"])
    found = described["others"] | wanted
    states: dict[int, dict[str, Any]] = {}
    for name, value in found.items():
        if name.startswith("optimizer."):
            _, place, part = name.split(".", 2)
            states.setdefault(int(place), {})[part] = value
    of_optimizer = {
        "optimizer": {"state": states, "param_groups": described["groups"]},
        "noise": {
            "step": described["step"],
            "ranges": [_ends_of(name) for name in noises],
            "states": [wanted[name] for name in noises],
        },
        **{name: described[name] for name in _PLAIN},
    }
    own = {name.removeprefix("module."): value for name, value in found.items() if name.startswith("module.")}
    if isinstance(run, PrivateRun):
        tables = [wanted[f"table.{place}"] for place in range(described["tables"])]
        whole = {"module": own, "optimizer": of_optimizer, "tables": tables, "caught_up": described["caught_up"]}
        return run.load_state_dict(whole)
    optimizer.load_state_dict(of_optimizer)
    module.load_state_dict(own)


#: Parts of the optimizer's state that are saved unchanged.
_PLAIN = ("shapes", "clipping", "parameters", "attendance")


def _parts(run: Trained) -> tuple[torch.nn.Module, DPFTRL]:
    return (run.module, run.optimizer) if isinstance(run, PrivateRun) else run


def _state(run: Trained) -> dict[str, Any]:
    if isinstance(run, PrivateRun):
        return run.state_dict()
    module, optimizer = run
    return {"module": module.state_dict(), "optimizer": optimizer.state_dict(), "tables": []}


def _module_state(run: Trained) -> dict[str, Any]:
    """The current state of the module, for its shapes."""
    if isinstance(run, PrivateRun) and run.tables:
        return run.tables.module_state(run.module)
    return _parts(run)[0].state_dict()


def _among(optimizer: DPFTRL) -> dict[str, Any]:
    """The options that name the processes which save and load together."""
    group = optimizer.ranks.group
    return {"no_dist": True} if group is None else {"process_group": group}


def _states(state: dict[str, Any]) -> dict[int, dict[str, Any]]:
    """The state of the wrapped optimizer, by the place of the parameter."""
    states: dict[int, dict[str, Any]] = state["optimizer"]["state"]
    return states


def _apart(several: dict[str, dict[str, Any]]) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Separates tensors, which are loaded into their places, from everything else."""
    all_of_it = {f"{of}.{name}": value for of, values in several.items() for name, value in values.items()}
    tensors = {name: value for name, value in all_of_it.items() if isinstance(value, torch.Tensor)}
    return tensors, {name: value for name, value in all_of_it.items() if name not in tensors}


def _packed(described: dict[str, Any]) -> torch.Tensor:
    """Packs the description as a tensor: a checkpoint has only tensors, and loading it runs no code."""
    file = io.BytesIO()
    torch.save(described, file)
    return torch.frombuffer(bytearray(file.getvalue()), dtype=torch.uint8)


def _unpacked(packed: torch.Tensor) -> dict[str, Any]:
    described: dict[str, Any] = torch.load(io.BytesIO(packed.numpy().tobytes()), weights_only=True)
    return described


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppresses a warning of PyTorch about a single process, which is intended."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.distributed is")
        yield


def _noise_name(first: int, end: int) -> str:
    return f"noise.{first}.{end}"


def _ends_of(name: str) -> list[int]:
    return [int(end) for end in name.split(".")[1:]]


def _place_for(about: Any, parameter: torch.Tensor | None = None) -> torch.Tensor:
    """An empty tensor for a saved one: like the parameter, if it has the parameter's shape."""
    if parameter is not None and about.size == parameter.shape:
        return torch.empty_like(parameter.detach(), dtype=about.properties.dtype)
    return torch.empty(about.size, dtype=about.properties.dtype, device="cpu")


def _noise_of(optimizer: DPFTRL, known: list[str]) -> list[str]:
    """The states of the noise that this rank needs: those of this rank's ranges, or if the checkpoint lacks one of
    them, any state, which identifies the noise."""
    own = [_noise_name(*ends) for ends in optimizer.noise.ranges]
    if set(own) <= set(known):
        return own
    return sorted(name for name in known if name.startswith("noise."))[:1]
