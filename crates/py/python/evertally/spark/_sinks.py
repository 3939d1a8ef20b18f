"""Where the releases of a stream go."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pyarrow
import pyarrow.parquet

from .._errors import EvertallyError


def folder_of_steps(folder: str) -> Callable[[int, pyarrow.Table], None]:
    """A folder with a Parquet file for every step; a file that is there must say the same."""
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)

    def write(step: int, table: pyarrow.Table) -> None:
        path = place / f"step-{step:012}.parquet"
        if path.exists():
            if not pyarrow.parquet.read_table(path).equals(table):
                raise EvertallyError(f"{path} holds something else than the release of step {step}; move it away")
            return
        fresh = place / f".step-{step:012}.{os.getpid()}.new"
        with fresh.open("wb") as file:
            pyarrow.parquet.write_table(table, file)
            file.flush()
            os.fsync(file.fileno())
        fresh.rename(path)

    return write
