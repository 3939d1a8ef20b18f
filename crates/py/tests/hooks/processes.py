"""Two processes that run the same function, for tests. Needs PyTorch."""

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import distributed

RANKS = 2


def start(rank: int, work: Callable[..., None], folder: Path, *arguments: Any) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=RANKS)
    try:
        work(rank, folder, *arguments)
    except BaseException:
        (folder / f"failed {rank}").write_text(traceback.format_exc())
        raise
    finally:
        distributed.destroy_process_group()


def together(work: Callable[..., None], folder: Path, *arguments: Any) -> None:
    """Runs the function on all ranks."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as in the other processes
    try:
        torch.multiprocessing.spawn(start, args=(work, folder, *arguments), nprocs=RANKS)
    except Exception:
        raise AssertionError(
            "\n".join(path.read_text() for path in folder.glob("failed *")) or "a rank was killed"
        ) from None
    finally:
        torch.set_num_threads(threads)
