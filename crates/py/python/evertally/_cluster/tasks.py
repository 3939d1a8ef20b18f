"""Tasks of the workers: a native call for each batch or partition."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow
import pyarrow.compute

from .._evertally import _ClusterWork
from .handover import KeyFile, Pass

#: Rows between processes; see `evertally_tables::cluster`.
SUMS = "step long, label binary, sum long"
BLOCKS = "shard int, step long, block binary"
LANES = [f"lane{number}" for number in range(8)]
DIGESTS = "kind int, index long, label binary, count long, " + ", ".join(f"{lane} long" for lane in LANES)

Batches = Iterator[Any]
Task = Callable[[Iterable[Any]], Batches]

#: The work of runs that this process has seen: each key is fetched once.
_works: dict[tuple[str, Pass | KeyFile], _ClusterWork] = {}


@dataclass(frozen=True)
class Shipped:
    """The work of a release, as it is sent to a worker."""

    work: str
    key: Pass | KeyFile

    def arrived(self) -> _ClusterWork:
        """The work, with its key."""
        known = _works.get((self.work, self.key))
        if known is None:
            known = _works[self.work, self.key] = _ClusterWork.arrived(self.work, self.key.fetch())
        return known


def named(name: str, task: Task) -> Task:
    """The task under a name that plans and the UI show."""
    task.__name__ = task.__qualname__ = f"evertally_{name}"
    return task


def batches(table: Any) -> Batches:
    """A native table as record batches."""
    yield from pyarrow.table(table).to_batches()


def read(shipped: Shipped, shards: int, counts: bool) -> Task:
    """Turns events, or counts of events, into sums or into blocks for shards."""

    def task(events: Iterable[Any]) -> Batches:
        reading = shipped.arrived().reader(shards, counts)
        for batch in events:
            if reading.read(batch):
                yield from batches(reading.take())
        yield from batches(reading.take())

    return named("read", task)


def bound(shipped: Shipped) -> Task:
    """Turns the blocks of whole shards into sums."""

    def task(blocks: Iterable[Any]) -> Batches:
        shard = shipped.arrived().shard()
        for batch in blocks:
            shard.add(batch)
        for table in shard.finish():
            yield from batches(table)

    return named("bound", task)


def digest(shipped: Shipped) -> Task:
    """Turns sums into digests of steps and buckets."""

    def task(sums: Iterable[Any]) -> Batches:
        work = shipped.arrived()
        for batch in sums:
            yield from batches(work.digests(batch))

    return named("digest", task)


def release(shipped: Shipped, digests: dict[int, bytes], buckets: int, time: str) -> Task:
    """Turns the sums of whole buckets, one bucket after the other, into their releases. If a bucket has missing or
    other sums, its digest differs, and nothing of it is released."""

    def released(number: int, sums: list[Any]) -> Batches:
        work = shipped.arrived()
        releasing = work.release((number, buckets), sums, digests.get(number), time)
        while (table := releasing.take()) is not None:
            yield from batches(table)

    def task(sums: Iterable[Any]) -> Batches:
        number = -1
        gathered: list[Any] = []
        for batch in sums:
            start = 0
            column = batch.column("bucket")
            for stretch in pyarrow.compute.run_end_encode(column).run_ends.to_pylist() if len(column) else []:
                bucket = column[start].as_py()
                if bucket != number:
                    if gathered:
                        yield from released(number, gathered)
                    number, gathered = bucket, []
                gathered.append(batch.slice(start, stretch - start))
                start = stretch
        if gathered:
            yield from released(number, gathered)

    return named("release", task)
