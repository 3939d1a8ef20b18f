"""Destinations of the releases of a stream."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pyarrow
import pyarrow.parquet

from .._errors import EvertallyError


def folder_of_steps(folder: str) -> Callable[[int, pyarrow.Table], None]:
    """Writes a Parquet file for every step to a folder; an existing file must have the same content."""
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)

    def write(step: int, table: pyarrow.Table) -> None:
        path = place / f"step-{step:012}.parquet"
        if path.exists():
            if not pyarrow.parquet.read_table(path).equals(table):
                raise EvertallyError(f"{path} already exists, and is not the release of step {step}; move it away")
            return
        fresh = place / f".step-{step:012}.{os.getpid()}.new"
        with fresh.open("wb") as file:
            pyarrow.parquet.write_table(table, file)
            file.flush()
            os.fsync(file.fileno())
        fresh.rename(path)

    return write
