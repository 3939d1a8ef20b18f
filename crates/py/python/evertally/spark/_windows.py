"""A shard of persons in Spark's state store: events wait for the end of their step, and are bounded then."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from .._cluster.tasks import Batches, Shipped, Task, named
from .._errors import InvalidError

#: Blocks on their way to a shard; an empty one carries the latest time that their reader has seen.
WAITING = "shard int, latest timestamp, step long, block binary"

#: Labels of rows that report the last and the first step that a batch has closed. Shard 0 closes all of them.
CLOSED, FROM = (b"s" + struct.pack(">I", number) for number in (0, 1))


def read(shipped: Shipped, shards: int) -> Task:
    """Turns events into blocks for shards. Shard 0 gets a row of every batch, so that it sees the end of every step."""

    def taken(reading: Any, now: int) -> Batches:
        blocks = pyarrow.table(reading.take())
        none = pyarrow.table({"shard": [0], "step": [0], "block": [b""]}, schema=blocks.schema)
        blocks = pyarrow.concat_tables([none, blocks]).combine_chunks()
        # An event in the future must not end the steps of others.
        latest = min(reading.latest, now) if reading.latest is not None else None
        # One row moves the watermark. The others have no time: Spark would drop them if they are older than it,
        # although their steps may still be open.
        times = pyarrow.array([latest] + [None] * (len(blocks) - 1), pyarrow.timestamp("us", "UTC"))
        yield from blocks.add_column(1, "latest", times).to_batches()

    def task(events: Iterable[Any]) -> Batches:
        reading = shipped.arrived().waiting_reader(shards)
        now = time.time_ns() // 1000
        for batch in events:
            if reading.read(batch):
                yield from taken(reading, now)
        yield from taken(reading, now)

    return named("read", task)


class Shard(StatefulProcessor):
    """One shard. Its state: the last step that is closed, the bounds' state of its persons, and blocks of events of
    open steps."""

    def __init__(self, shipped: Shipped, shards: int, clock_delay: int | None = None) -> None:
        self.shipped = shipped
        self.shards = shards
        #: Milliseconds by the clock that steps stay open after their end; if None, the watermark ends them.
        self.clock_delay = clock_delay

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.memory = handle.getValueState("memory", "closed long, persons binary, shards int, stream string")
        self.waiting = handle.getListState("waiting", "block binary")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        work = self.shipped.arrived()
        closed, persons = self._remembered()
        if key[0] == 0:
            self._remember(closed, persons)  # from the first batch onward
        through = self._through(timerValues)
        blocks, first = [], None
        for row in rows:
            block = bytes(row["block"])
            if block[:1] == b"!":
                yield Row(step=0, label=block, sum=1)
            elif block:
                if row["step"] <= through:  # steps that have ended accept no more events
                    _, fresh, next_step, _ = work.close_shard((through, through), None, [block])
                else:
                    fresh, next_step = [block], row["step"]
                blocks += [(one,) for one in fresh]
                first = min((step for step in (first, next_step) if step is not None), default=None)
        if blocks:
            self.waiting.appendList(blocks)
        if key[0] == 0:
            first = through + 1
        if first is not None:
            self._wait_for(first)
        yield from self._close(key, through)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        yield from self._close(key, self._through(timerValues))

    def _remembered(self) -> tuple[int, bytes | None]:
        """The last closed step, and the state of the shard's persons. Refuses the state of another stream or another
        number of shards. Every caller reads it before it writes anything."""
        identity = self.shipped.arrived().identity
        closed, persons, shards, stream = self.memory.get() or (0, None, self.shards, identity)
        if stream != identity:
            name = stream.split(" ", 1)[1].rsplit(" ", 1)[0]
            raise InvalidError(
                f"this checkpoint is of stream {name!r} with its key and plan; the steps that it has closed would be "
                "missing here. Use a new checkpoint, ledger and sink for another stream"
            )
        if shards != self.shards:
            raise InvalidError(
                f"this checkpoint has {shards} shards with the state of persons, but the query has {self.shards}: the "
                f"bounds would start again from zero. Give shards={shards}"
            )
        return closed, None if persons is None else bytes(persons)

    def _remember(self, closed: int, persons: bytes | None) -> None:
        self.memory.update((closed, persons, self.shards, self.shipped.arrived().identity))

    def _through(self, timers: Any) -> int:
        if self.clock_delay is None:
            now = timers.getCurrentWatermarkInMs()
        else:
            # The time of the batch, which is the same when Spark retries it.
            now = timers.getCurrentProcessingTimeInMs() - self.clock_delay
        return self.shipped.arrived().ended_by(now * 1000)

    def _wait_for(self, step: int) -> None:
        try:
            end = self.shipped.arrived().end_of(step)
        except ValueError:
            return  # after the last step
        self.handle.registerTimer(-(-end // 1000) + (self.clock_delay or 0))

    def _close(self, key: Any, through: int) -> Iterator[Row]:
        closed, persons = self._remembered()
        if through <= closed:
            return
        waiting = [bytes(block) for (block,) in self.waiting.get()]
        persons, waiting, first, rows = self.shipped.arrived().close_shard((closed, through), persons, waiting)
        self._remember(through, persons)
        if waiting:
            self.waiting.put([(block,) for block in waiting])
        else:
            self.waiting.clear()
        if key[0] == 0:
            first = through + 1
        if first is not None:
            self._wait_for(first)
        for step, label, total in rows:
            yield Row(step=step, label=label, sum=total)
        if key[0] == 0:
            yield Row(step=closed + 1, label=FROM, sum=1)
        yield Row(step=through, label=CLOSED, sum=1)

    def close(self) -> None:
        """Does nothing: there is nothing to release."""
