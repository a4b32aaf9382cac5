"""Sources: anything that holds events, as Arrow record batches of bounded size.

In: tables, readers, frames, dicts, paths. Out: a `Source`, which has a schema and batches. A source reads nothing
before it is asked for one of them, and copies nothing that Arrow can slice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import chain
from os import PathLike
from typing import Any

import pyarrow as pa

from ceql.errors import DataError, SchemaError, did_you_mean
from ceql.io.dicts import dict_batches
from ceql.io.files import Parquet, Reader, open_file
from ceql.io.frames import from_pandas, is_lazy, is_pandas
from ceql.io.nested import with_columns
from ceql.io.parquet_scan import ParquetScan
from ceql.io.schemas import check_names, conform, no_rows, unify_schemas
from ceql.io.soundness import check
from ceql.io.source import Source

BATCH_ROWS = 1 << 16
_SMALL_CHUNK = 1 << 12


class _BatchSource(Source):
    """A record batch, as feeds often are. To make a table of it first would take a good part of a small feed's time."""

    held = True

    def __init__(self, name: str | None, batch_rows: int, batch: pa.RecordBatch):
        super().__init__(name, batch_rows)
        self._batch = batch

    @property
    def rows(self) -> int | None:
        return int(self._batch.num_rows)

    def _schema(self) -> pa.Schema:
        return self._batch.schema

    def _batches(self, columns: list[str] | None) -> Iterator[pa.RecordBatch]:
        batch = self._batch if columns is None else self._batch.select(columns)
        return iter([batch] if batch.num_rows else [])


class TableSource(Source):
    """A table, which is loaded when it is first needed (frames, lists of dicts)."""

    held = True

    def __init__(self, name: str | None, batch_rows: int, load: Callable[[], pa.Table], open_schema: bool = False):
        super().__init__(name, batch_rows)
        self._load = load
        self._open_schema = open_schema

    @cached_property
    def _table(self) -> pa.Table:
        table = self._load()
        chunks = max((column.num_chunks for column in table.columns), default=0)
        # each chunk becomes a batch: copying many tiny ones into one costs less
        if chunks > 1 and chunks * _SMALL_CHUNK > table.num_rows and self.batch_rows >= _SMALL_CHUNK:
            for batch in table.to_batches():
                check(batch)
            # dictionaries that outgrow their codes when combined stay apart, and layouts that Arrow cannot combine
            with suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError):
                table = table.combine_chunks()
        return table

    @property
    def rows(self) -> int | None:
        return int(self._table.num_rows)

    def _schema(self) -> pa.Schema:
        return self._table.schema

    def _batches(self, columns: list[str] | None) -> Iterator[pa.RecordBatch]:
        table = self._table if columns is None else self._table.select(columns)
        return iter(table.to_batches(max_chunksize=self.batch_rows))


class _FileSource(Source):
    sound = True

    def __init__(self, name: str | None, batch_rows: int, reader: Reader):
        super().__init__(name, batch_rows)
        self._reader = reader
        self._open_schema = reader.open_schema
        self.costly = reader.is_parsed and not reader.in_memory

    @property
    def rows(self) -> int | None:
        return self._reader.rows

    def _schema(self) -> pa.Schema:
        return self._reader.schema

    def scan(self, time: str | None) -> ParquetScan | None:
        if not isinstance(self._reader, Parquet) or not self._reader.pieces.fits:
            return None
        return ParquetScan(self._reader, time, self.name, self.batch_rows)

    def _batches(self, columns: list[str] | None) -> Iterator[pa.RecordBatch]:
        # a file whose columns may still grow must not be pruned to the columns of its first block
        return self._reader.batches(None if self.open_schema else columns, self.batch_rows)


class _LazyFrameSource(Source):
    """A polars query. Each pass runs it again, for the columns that are needed."""

    steady = False

    def __init__(self, name: str | None, batch_rows: int, frame: Any):
        super().__init__(name, batch_rows)
        self._frame = frame

    def _schema(self) -> pa.Schema:
        return pa.table(self._frame.head(0).collect()).schema

    def _batches(self, columns: list[str] | None) -> Iterator[pa.RecordBatch]:
        frame = self._frame if columns is None else self._frame.select(columns)
        return iter(pa.table(frame.collect()).to_batches())


class OnceSource(Source):
    """A reader or an iterator. Its first batch is read for the schema and kept until it is asked for."""

    replayable = False

    def __init__(self, name: str | None, batch_rows: int, start: Callable[[], tuple[Iterator[pa.RecordBatch], bool]]):
        super().__init__(name, batch_rows)
        self._start = start
        self._taken = False
        self._ahead: list[pa.RecordBatch] = []

    @cached_property
    def _opened(self) -> tuple[pa.Schema, Iterator[pa.RecordBatch], bool]:
        batches, open_schema = self._start()
        if isinstance(batches, pa.RecordBatchReader):
            return batches.schema, iter(batches), open_schema
        first = next(batches, None)
        if first is None:
            return pa.schema([]), iter(()), True
        return first.schema, chain([first], batches), open_schema

    @property
    def open_schema(self) -> bool:
        return self._opened[2]

    def _schema(self) -> pa.Schema:
        return self._opened[0]

    def _first_batch(self, column: str) -> pa.RecordBatch | None:
        first = next((batch for batch in self._opened[1] if batch.num_rows), None)
        self._ahead = [] if first is None else [first]
        return first if first is None else check(first)

    def _batches(self, columns: list[str] | None) -> Iterator[pa.RecordBatch]:
        if self._taken:
            raise DataError("this input can be read only once (a reader or generator); pass a table or list instead")
        self._taken = True
        return chain(self._ahead, self._opened[1])


def open_source(events: Any, name: str | None = None, batch_rows: int = BATCH_ROWS) -> Source:
    """`events` as a source. Tries the kinds of input from the most to the least specific."""
    if isinstance(events, Source):
        return events

    def table(load: Callable[[], pa.Table], open_schema: bool = False) -> Source:
        return TableSource(name, batch_rows, load, open_schema)

    if isinstance(events, pa.Table):
        return table(lambda: events)
    if isinstance(events, pa.RecordBatch):
        return _BatchSource(name, batch_rows, events)
    if isinstance(events, pa.RecordBatchReader):
        return OnceSource(name, batch_rows, lambda: (events, False))
    if isinstance(events, (str, PathLike)):
        return _FileSource(name, batch_rows, open_file(events))
    if is_pandas(events):
        return table(lambda: from_pandas(events))
    if is_lazy(events):
        return _LazyFrameSource(name, batch_rows, events)
    if hasattr(events, "__arrow_c_array__"):
        return table(lambda: pa.Table.from_batches([_imported(pa.record_batch, events)]))
    if hasattr(events, "__arrow_c_stream__"):
        # an object with a size is a table and can be exported again; a bare stream may be exported only once
        if hasattr(events, "__len__") or hasattr(events, "num_rows"):
            return table(lambda: _imported(pa.table, events))
        stream = pa.RecordBatchReader.from_stream
        return OnceSource(name, batch_rows, lambda: (_imported(stream, events), False))
    if isinstance(events, Mapping):
        raise DataError("a dict of streams needs a query with FROM; pass a single event as a list of one dict")
    if isinstance(events, Sequence) and not isinstance(events, (bytes, bytearray)):
        is_arrow = bool(events) and _is_batch(events[0])
        return table(lambda: _from_sequence(events), open_schema=not is_arrow)
    if isinstance(events, Iterable) and not isinstance(events, (bytes, bytearray)):
        return OnceSource(name, batch_rows, lambda: _from_iterator(iter(events), batch_rows))
    raise DataError(f"cannot read events from a {type(events).__name__}; pass Arrow data, a frame, dicts or a path")


def open_streams(
    events: Any,
    streams: Sequence[str] = (),
    batch_rows: int = BATCH_ROWS,
    time: str | None = None,
    nested: Sequence[str] = (),
) -> list[Source]:
    """The sources of a query, in the order of its FROM list (`streams`); without FROM, of the dict `events`.

    They have columns for the dotted names of `nested` that are fields.
    """
    sources = _open_streams(events, streams, batch_rows)
    for source in sources:
        source.time = time
    return [with_columns(source, nested) for source in sources] if nested else sources


def _open_streams(events: Any, streams: Sequence[str], batch_rows: int) -> list[Source]:
    if isinstance(events, Mapping):
        for name in events:
            if not isinstance(name, str):
                raise SchemaError(f"a stream's name must be text, not {name!r}")
        names = list(streams) or list(events)
        for name in names:
            if name not in events:
                hint = did_you_mean(name, list(events))
                raise SchemaError(f"the query reads FROM '{name}', but no such stream was passed", suggestion=hint)
        for name in events:
            if name not in names:
                hint = did_you_mean(name, names)
                raise SchemaError(f"stream '{name}' was passed, but the query does not read FROM it", suggestion=hint)
        if not names:
            raise SchemaError("no streams were passed")
        return [open_source(events[name], name, batch_rows) for name in names]
    if len(streams) > 1:
        shape = ", ".join(f'"{name}": …' for name in streams)
        raise SchemaError(
            f"the query reads FROM {len(streams)} streams; pass a dict with one input for each: {{{shape}}}"
        )
    return [open_source(events, streams[0] if streams else None, batch_rows)]


def _is_batch(value: Any) -> bool:
    if isinstance(value, Mapping):
        return False
    return hasattr(value, "__arrow_c_array__") or hasattr(value, "__arrow_c_stream__")


def _from_sequence(events: Sequence[Any]) -> pa.Table:
    batches = list(_from_iterator(iter(events), BATCH_ROWS)[0])
    if batches and all(batch.schema.equals(batches[0].schema) for batch in batches):
        return pa.Table.from_batches(batches)
    schema = unify_schemas(check_names(batch.schema) for batch in batches)
    return pa.Table.from_batches([conform(check(batch), schema) for batch in batches], schema)


def _from_iterator(events: Iterator[Any], batch_rows: int) -> tuple[Iterator[pa.RecordBatch], bool]:
    """Batches, and whether their columns may grow: they may if the first item is a dict, not Arrow data."""
    try:
        first = next(events)
    except StopIteration:
        return iter(()), True
    everything = chain([first], events)
    if _is_batch(first):
        return chain.from_iterable(_as_batches(item) for item in everything), False
    return dict_batches(everything, batch_rows), True


def _as_batches(item: Any) -> list[pa.RecordBatch]:
    """The batches of one item of an iterable; at least one, so that its columns are known."""
    if hasattr(item, "__arrow_c_array__"):
        return [_imported(pa.record_batch, item)]
    table = _imported(pa.table, item)
    return table.to_batches() or [no_rows(table.schema)]


def _imported(read: Callable[[Any], Any], value: Any) -> Any:
    try:
        return read(value)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise DataError(f"cannot read events from a {type(value).__name__}: {error}") from error
