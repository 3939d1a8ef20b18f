"""The steps of a pipeline on its workers: events to sums, and sums to one file."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import apache_beam
import pyarrow
from apache_beam.io.filesystems import FileSystems
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.windowed_value import WindowedValue

from .. import _tables
from .._cluster.tasks import Shipped
from .._errors import SumOverflowError, TableError

#: Rows that are read together.
ROWS = 10_000
#: Rows of sums that are added up together.
SUMS = 1_000_000
#: Sums of any number of events are exact.
EXACT = pyarrow.decimal128(38, 0)
SCHEMA = pyarrow.schema({"step": pyarrow.int64(), "label": pyarrow.binary(), "sum": EXACT})
#: The kind of times in the metadata of sums, and the identity of their release.
TIME, IDENTITY = b"evertally time", b"evertally release"


def to_bytes(sums: pyarrow.Table) -> bytes:
    """Sums as an Arrow stream, which is the same for every runner."""
    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, sums.schema) as writer:
        writer.write_table(sums)
    return bytes(sink.getvalue())


def from_bytes(stored: bytes) -> pyarrow.Table:
    """Sums from an Arrow stream."""
    return pyarrow.ipc.open_stream(stored).read_all()


def _added_up(tables: list[pyarrow.Table]) -> pyarrow.Table:
    """The sums of all tables, with the kind of their times."""
    kinds = {kind for table in tables if (kind := (table.schema.metadata or {}).get(TIME))}
    one = pyarrow.concat_tables([table.cast(SCHEMA) for table in tables]) if tables else SCHEMA.empty_table()
    added = one.group_by(["step", "label"]).aggregate([("sum", "sum")])
    added = added.select(["step", "label", "sum_sum"]).rename_columns(SCHEMA.names).cast(SCHEMA)
    kind = kinds.pop() if len(kinds) == 1 else b"text"
    return added.replace_schema_metadata({TIME: kind} if tables else None)


class _Output:
    """Rows of a task: blocks for shards of persons, or sums."""

    def __init__(self, kind: bytes) -> None:
        self.kind = kind

    def of(self, table: Any) -> Iterator[Any]:
        table = pyarrow.table(table)
        if "block" not in table.column_names:
            yield to_bytes(table.cast(SCHEMA).replace_schema_metadata({TIME: self.kind}))
            return
        columns = (table[name].to_pylist() for name in ("shard", "step", "block"))
        yield from ((shard, (step, block, self.kind)) for shard, step, block in zip(*columns, strict=True))


class Read(apache_beam.DoFn):  # type: ignore[misc, unused-ignore]
    """Turns events (rows, or Arrow tables) into sums, or into blocks for shards of persons."""

    def __init__(self, shipped: Shipped, columns: list[str], time: str, shards: int) -> None:
        self.shipped, self.columns, self.time, self.shards = shipped, columns, time, shards

    def start_bundle(self) -> None:
        self.reading = self.shipped.arrived().reader(self.shards, False)
        self.rows: list[Mapping[str, Any]] = []
        self.output = _Output(b"text")

    def process(self, element: Any) -> Iterator[Any]:
        if isinstance(element, (pyarrow.Table, pyarrow.RecordBatch)):
            _tables._check_columns(self.columns, element.schema.names)
            yield from self._read(element.select(self.columns))
            return
        self.rows.append(self._row(element))
        if len(self.rows) >= ROWS:
            yield from self._read_rows()

    def finish_bundle(self) -> Iterator[WindowedValue]:
        window = GlobalWindow()
        for element in [*self._read_rows(), *self.output.of(self.reading.take())]:
            yield WindowedValue(element, window.max_timestamp(), [window])

    def _row(self, element: Any) -> Mapping[str, Any]:
        row = element if isinstance(element, Mapping) else None
        for name in ("_asdict", "as_dict"):  # a named tuple, or a Row of Beam
            if row is None and hasattr(element, name):
                row = getattr(element, name)()
        if row is None:
            raise TypeError(f"expected rows (dict, NamedTuple, beam.Row) or Arrow tables, not {type(element).__name__}")
        _tables._check_columns(self.columns, list(row))
        return {name: row[name] for name in self.columns}

    def _read_rows(self) -> Iterator[Any]:
        rows, self.rows = self.rows, []
        if not rows:
            return
        try:
            table = pyarrow.Table.from_pylist(rows)
        except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError):
            # The message of Arrow quotes the value.
            raise TableError("the values of a column have several types; convert them to one") from None
        yield from self._read(table)

    def _read(self, table: Any) -> Iterator[Any]:
        self.output.kind = _kind(table.schema.field(self.time).type)
        if self.reading.read(table):
            yield from self.output.of(self.reading.take())


def _kind(type_: pyarrow.DataType) -> bytes:
    """The kind of times of a column, as in releases."""
    if pyarrow.types.is_timestamp(type_):
        return b"civil" if type_.tz is None else b"instant"
    return b"date" if pyarrow.types.is_date(type_) else b"text"


class Bound(apache_beam.DoFn):  # type: ignore[misc, unused-ignore]
    """Turns the blocks of a whole shard into sums."""

    def __init__(self, shipped: Shipped) -> None:
        self.shipped = shipped

    def process(self, element: tuple[int, Iterable[tuple[int, bytes, bytes]]]) -> Iterator[bytes]:
        number, blocks = element
        shard = self.shipped.arrived().shard()
        output = _Output(b"text")
        schema = pyarrow.schema({"shard": pyarrow.int32(), "step": pyarrow.int64(), "block": pyarrow.binary()})
        for step, block, kind in blocks:
            output.kind = kind
            row = {"shard": [number], "step": [step], "block": [block]}
            shard.add(pyarrow.RecordBatch.from_pydict(row, schema=schema))
        for table in shard.finish():
            yield from output.of(table)


class AddUp(apache_beam.CombineFn):  # type: ignore[misc, unused-ignore]
    """Adds up sums, some tables at a time."""

    def create_accumulator(self) -> list[bytes]:
        return []

    def add_input(self, accumulator: list[bytes], element: bytes) -> list[bytes]:
        return self._short([*accumulator, element])

    def merge_accumulators(self, accumulators: Iterable[list[bytes]]) -> list[bytes]:
        return self._short([element for accumulator in accumulators for element in accumulator])

    def extract_output(self, accumulator: list[bytes]) -> bytes:
        return to_bytes(_added_up([from_bytes(one) for one in accumulator]))

    def _short(self, tables: list[bytes]) -> list[bytes]:
        return tables if len(tables) < 64 else [self.extract_output(tables)]


class Write(apache_beam.DoFn):  # type: ignore[misc, unused-ignore]
    """Writes all sums to one file. A retry replaces it with the same sums."""

    def __init__(self, path: str, identity: str) -> None:
        self.path, self.identity = path, identity

    def process(self, element: bytes) -> Iterator[str]:
        sums = from_bytes(element)
        metadata = {TIME: b"text", **(sums.schema.metadata or {}), IDENTITY: self.identity.encode()}
        stored = to_bytes(sums.replace_schema_metadata(metadata))
        fresh = f"{self.path}.{uuid.uuid4().hex}.new"
        if FileSystems.get_scheme(self.path) is None:
            # Exact sums: only their owner may read them.
            with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(stored)
                file.flush()
                os.fsync(file.fileno())
            os.replace(fresh, self.path)
        else:
            with FileSystems.create(fresh) as file:
                file.write(stored)
            with contextlib.suppress(Exception):  # there may be none
                FileSystems.delete([self.path])
            FileSystems.rename([fresh], [self.path])
        yield self.path


def exact_sums(stored: bytes) -> tuple[pyarrow.Table, str, str]:
    """The sums in a file, the kind of their times, and the identity of their release."""
    sums = from_bytes(stored)
    metadata = sums.schema.metadata or {}
    try:
        whole = sums.cast(SCHEMA.set(2, pyarrow.field("sum", pyarrow.int64())))
    except pyarrow.ArrowInvalid:
        raise SumOverflowError(
            "the sum of a step exceeds the range of 64-bit multiples of the grid; use a coarser grid"
        ) from None
    return whole, metadata.get(TIME, b"text").decode(), metadata.get(IDENTITY, b"").decode()
