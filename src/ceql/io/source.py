"""Defines a source: one stream of events, with a schema and batches of bounded size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

from ceql.io.plain_types import plain, plain_schema, plain_type
from ceql.io.schemas import check_names, conform, is_text, unify_schemas
from ceql.io.soundness import check
from ceql.io.times import called, to_times, type_of_times

if TYPE_CHECKING:
    from ceql.io.parquet_scan import ParquetScan


class Source:
    """One stream of events. Subclasses define `_schema` and `_batches`."""

    _open_schema = False
    replayable = True
    """Whether `batches` can be called again and gives the same events. Such an input is bounded."""
    steady = True
    """Whether every pass is sure to give the events in the same order."""
    costly = False
    """Whether reading one column takes as long as reading all."""
    held = False
    """Whether all events are in memory already, so that it costs nothing to keep their batches."""
    sound = False
    """Whether `_batches` gives only what `soundness` has checked."""

    def __init__(self, name: str | None, batch_rows: int):
        if batch_rows < 1:
            raise ValueError("batch_rows must be at least 1")
        self.name = name
        self.batch_rows = batch_rows
        self.time: str | None = None
        """The column of times. If it is text, it is read as ISO 8601."""
        self.time_type: pa.DataType | None = None
        """The type that such a column gets; None if the first times decide."""

    @property
    def open_schema(self) -> bool:
        """Whether an attribute that is not in the schema is NULL (dicts), not an error."""
        return self._open_schema

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns, of plain types. A source that can be read only once shows those of its first batch."""
        found = _plain_schema(self._schema(), self.name)
        index = found.get_field_index(self.time) if self.time is not None else -1
        if index < 0 or not is_text(found.field(index).type):
            return found
        type = self.time_type
        if type is None or not pa.types.is_temporal(type):
            first = self._first_batch(found.names[index])
            type = pa.timestamp("ns") if first is None else type_of_times(_column(first, found.names[index]))
        return found.set(index, pa.field(found.names[index], type))

    @property
    def rows(self) -> int | None:
        """The number of events, if it is known without reading them."""
        return None

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Batches of 1 to `batch_rows` events, with those of `columns` that exist; None stands for all.

        If none of them exists, the batches have one other column, so that the number of rows is kept.
        """
        names = set(columns or ())
        schema = self.schema if columns is None else _pruned(self.schema, names)
        seen = 0
        for batch in self._batches(None if columns is None else schema.names):
            if columns is not None:
                batch = batch.select([name for name in batch.schema.names if name in names or name in schema.names])
            batch = self._with_times(batch if self.sound else check(batch), seen)
            seen += batch.num_rows
            batch = conform(batch, schema, self.open_schema)
            if self.open_schema:
                schema = batch.schema
            for start in range(0, batch.num_rows, self.batch_rows):
                yield batch.slice(start, self.batch_rows)

    def scan(self, time: str | None) -> ParquetScan | None:
        """The same events for a pass that reads pieces of Parquet files; None if they are not from such files."""
        return None

    def look_through(self, column: str) -> Iterator[pa.RecordBatch]:
        """The batches with this column alone, for a look ahead of the pass that reads the events."""
        return self.batches([column])

    def _with_times(self, batch: pa.RecordBatch, seen: int) -> pa.RecordBatch:
        """`batch`, with times in place of texts where the schema has times."""
        index = batch.schema.get_field_index(self.time) if self.time is not None else -1
        if index < 0 or not is_text(plain_type(batch.schema.field(index).type)):
            return batch
        name = batch.schema.names[index]
        type = self.schema.field(name).type if name in self.schema.names else pa.null()
        if not pa.types.is_temporal(type):
            return batch
        return batch.set_column(index, name, to_times(_column(batch, name), type, name, called(self.name), seen))

    def _first_batch(self, column: str) -> pa.RecordBatch | None:
        """The first events, with this column at least; None if there are none."""
        first = next((batch for batch in self._batches([column]) if batch.num_rows), None)
        return first if first is None or self.sound else check(first)

    def _schema(self) -> pa.Schema:
        raise NotImplementedError

    def _batches(self, columns: list[str] | None) -> Iterator[pa.RecordBatch]:
        """Batches of any size. They may have more columns than those asked for."""
        raise NotImplementedError


def columns_of(sources: Sequence[Source]) -> tuple[tuple[pa.Schema, ...], pa.Schema, bool]:
    """The columns of each source, those of all, and whether more may come."""
    schemas = tuple(source.schema for source in sources)
    return schemas, unify_schemas(schemas), any(source.open_schema for source in sources)


def have_columns(sources: Sequence[Source], schemas: Sequence[pa.Schema], open_schema: bool) -> bool:
    """Whether these are the columns of the sources, and more may come or not."""
    if any(source.open_schema for source in sources) != open_schema:
        return False
    return all(source.schema.equals(known) for source, known in zip(sources, schemas, strict=True))


_last = (pa.schema([]), pa.schema([]))  # feeds of small batches ask for the plain types of one schema again and again


def _plain_schema(schema: pa.Schema, name: str | None) -> pa.Schema:
    global _last
    known, plain_types = _last
    if not known.equals(schema, check_metadata=True):
        plain_types = plain_schema(check_names(schema, f"stream '{name}'" if name else "the input"))
        _last = schema, plain_types
    return plain_types


def _pruned(schema: pa.Schema, names: set[str]) -> pa.Schema:
    kept = [field for field in schema if field.name in names]
    return pa.schema(kept or list(schema)[:1])


def _column(batch: pa.RecordBatch, name: str) -> pa.Array:
    return plain(batch.column(batch.schema.get_field_index(name)), name)
