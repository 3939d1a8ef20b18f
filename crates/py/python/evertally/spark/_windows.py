"""A shard of persons in the state store of Spark: events wait for the end of their step, and are bounded then."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from .._errors import InvalidError
from ._tasks import Batches, Shipped, Task, named

#: Blocks on their way to a shard; an empty one has the latest time that their reader has seen.
WAITING = "shard int, latest timestamp, step long, block binary"

#: A row that says that the steps through its own are closed, and one that says from which on: shard 0 closes all of them.
CLOSED, FROM = (b"s" + struct.pack(">I", number) for number in (0, 1))


def read(shipped: Shipped, shards: int) -> Task:
    """Events to blocks for shards. Shard 0 hears of every batch, so that it sees all ends of steps."""

    def taken(reading: Any, now: int) -> Batches:
        blocks = pyarrow.table(reading.take())
        none = pyarrow.table({"shard": [0], "step": [0], "block": [b""]}, schema=blocks.schema)
        blocks = pyarrow.concat_tables([none, blocks]).combine_chunks()
        # An event of the future must not end the steps of others.
        latest = min(reading.latest, now) if reading.latest is not None else None
        # One row moves the watermark. The others have no time: Spark would drop them behind it, where their steps may be
        # open still.
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
    """One shard. What it remembers: through which step it is closed, what was kept of its persons, and blocks of events
    of open steps."""

    def __init__(self, shipped: Shipped, shards: int, clock_delay: int | None = None) -> None:
        self.shipped = shipped
        self.shards = shards
        #: Milliseconds that steps stay open behind the clock; where there are none, the watermark ends them.
        self.clock_delay = clock_delay

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.memory = handle.getValueState("memory", "closed long, persons binary, shards int, stream string")
        self.waiting = handle.getListState("waiting", "block binary")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        work = self.shipped.arrived()
        closed, persons = self._remembered()
        if key[0] == 0:
            self._remember(closed, persons)  # from the first batch on
        through = self._through(timerValues)
        blocks, first = [], None
        for row in rows:
            block = bytes(row["block"])
            if block[:1] == b"!":
                yield Row(step=0, label=block, sum=1)
            elif block:
                if row["step"] <= through:  # of steps that have ended nothing is taken in any more
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
        """Through which step the shard is closed, and what was kept of its persons, if that is of this stream and of so many
        shards. Looked at before anything is written, whatever calls."""
        identity = self.shipped.arrived().identity
        closed, persons, shards, stream = self.memory.get() or (0, None, self.shards, identity)
        if stream != identity:
            name = stream.split(" ", 1)[1].rsplit(" ", 1)[0]
            raise InvalidError(
                f"this checkpoint is of stream {name!r} under its key and plan; what it has closed would be missing here. Take a "
                f"new checkpoint, ledger and sink for another stream"
            )
        if shards != self.shards:
            raise InvalidError(
                f"this checkpoint has {shards} shards, in which persons are remembered, and the query {self.shards}: their "
                f"bounds would begin anew. Say shards={shards}"
            )
        return closed, None if persons is None else bytes(persons)

    def _remember(self, closed: int, persons: bytes | None) -> None:
        self.memory.update((closed, persons, self.shards, self.shipped.arrived().identity))

    def _through(self, timers: Any) -> int:
        if self.clock_delay is None:
            now = timers.getCurrentWatermarkInMs()
        else:
            # The time of the batch, which is the same when it is tried again.
            now = timers.getCurrentProcessingTimeInMs() - self.clock_delay
        return self.shipped.arrived().ended_by(now * 1000)

    def _wait_for(self, step: int) -> None:
        try:
            end = self.shipped.arrived().end_of(step)
        except ValueError:
            return  # behind the last
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
        """Nothing is left open."""
