"""The last part of a release: the record of its exact sums, and their publication."""

from __future__ import annotations

import inspect
import struct
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow
import pyarrow.compute

from .. import _functions
from .._errors import EvertallyError, TableError
from .._evertally import SecretKey, _ClusterWork
from . import tasks

#: Kinds of digests.
STEP, BUCKET, NO_SUM = range(3)


def arguments(table: Any, keywords: dict[str, Any], called: str) -> dict[str, Any]:
    """The arguments of a release, with its defaults; `called` names the function in errors."""
    signature = inspect.signature(_functions.release)
    try:
        bound = signature.bind(table, **keywords)
    except TypeError as problem:
        raise TypeError(f"evertally.{called}: {problem}") from None
    bound.apply_defaults()
    given = dict(bound.arguments)
    del given["table"]
    return given


def columns(facts: dict[str, Any]) -> list[str]:
    """The columns that a release reads, each once."""
    named = [facts["time"], facts["time_of_day"], *facts["labels"], facts["person"], facts["value"], *facts["filter"]]
    return list(dict.fromkeys(name for name in named if name is not None))


def digests(rows: Iterable[Any], facts: dict[str, Any]) -> dict[int, Any]:
    """Digests of steps and of buckets, from rows with the columns of `tasks.DIGESTS`; raises the errors of refused
    rows."""
    found: dict[int, Any] = {STEP: [], BUCKET: {}}
    refused: list[str] = []
    for row in rows:
        if row["kind"] == NO_SUM:
            label = bytes(row["label"])
            if label[:1] == b"!":
                refused.append(label[1:].decode())
            elif row["count"] != 1:
                raise EvertallyError(
                    "a shard of persons was split, so per-person bounds would not hold; nothing was released"
                )
            continue
        digest = struct.pack("<8Iq", *[row[lane] & 0xFFFFFFFF for lane in tasks.LANES], row["count"])
        if row["kind"] == STEP:
            found[STEP].append((row["index"], digest))
        else:
            found[BUCKET][row["index"]] = digest
    if refused:
        raise TableError(min(refused).replace(f"column `{facts['counts']}`", f"column `{facts['value']}`"))
    return found


def publish(
    exact: pyarrow.Table, work: _ClusterWork, secret: SecretKey, facts: dict[str, Any], time: str, budget_file: Any
) -> pyarrow.Table:
    """Records the exact sums of all steps, and returns their release. One process does both; the same sums always give
    the same bytes, and other sums are refused."""
    exact = exact.cast(exact.schema.set(1, pyarrow.field("label", pyarrow.binary())))
    bucket = pyarrow.repeat(pyarrow.scalar(0, pyarrow.int32()), len(exact))
    batches = exact.append_column("bucket", bucket).combine_chunks().to_batches()

    def digested() -> Iterator[Any]:
        for batch in batches:
            yield from pyarrow.table(work.digests(batch)).to_pylist()

    found = digests(digested(), facts)
    work.record(secret, found[STEP], budget_file)
    kept = [batch.filter(pyarrow.compute.greater(batch.column("step"), 0)) for batch in batches]
    releasing = work.release((0, 1), kept, found[BUCKET].get(0), time)
    tables = [pyarrow.table(table) for table in iter(releasing.take, None)]
    return pyarrow.concat_tables([pyarrow.table(work.released(time)), *tables])
