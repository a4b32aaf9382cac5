"""Fields of nested attributes as columns of their own: `ctx.path` is the field `path` of the column `ctx`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from ceql.io.source import Source


def with_columns(source: Source, names: Sequence[str]) -> Source:
    """The source with a column for each of the dotted `names` that is a field and not a column already."""
    return WithColumns(source, names) if names else source


class WithColumns(Source):
    """A source and some of its fields. An open schema may show a field later."""

    sound = True

    def __init__(self, source: Source, names: Sequence[str]):
        super().__init__(source.name, source.batch_rows)
        self._source = source
        self._fields = names
        self.replayable = source.replayable
        self.steady = source.steady
        self.held = source.held

    @property
    def open_schema(self) -> bool:
        return self._source.open_schema

    @property
    def rows(self) -> int | None:
        return self._source.rows

    def look_through(self, column: str) -> Iterator[pa.RecordBatch]:
        if column in self._fields and field_path(self._source.schema, column):
            return super().look_through(column)
        return self._source.look_through(column)

    def _schema(self) -> pa.Schema:
        schema = self._source.schema
        for name in self._fields:
            if path := field_path(schema, name):
                schema = schema.append(pa.field(name, _type(schema, path)))
        return schema

    def _batches(self, columns: list[str] | None) -> Iterator[pa.RecordBatch]:
        wanted = None
        if columns is not None and not self.open_schema:
            paths = [field_path(self._source.schema, name) for name in columns]
            wanted = [path[0] if path else name for name, path in zip(columns, paths, strict=True)]
        for batch in self._source.batches(wanted):
            for name in self._fields:
                if path := field_path(batch.schema, name):
                    batch = batch.append_column(name, pc.struct_field(batch.column(path[0]), list(path[1:])))
            yield batch


def field_path(schema: pa.Schema, name: str) -> tuple[str, ...] | None:
    """The column and the fields in it that a name stands for; None if it is a column, or nothing."""
    if name in schema.names:
        return None
    column, *fields = name.split(".")
    while fields and column not in schema.names:
        column = f"{column}.{fields.pop(0)}"
    path = (column, *fields)
    return path if fields and _type(schema, path) is not None else None


def _type(schema: pa.Schema, path: tuple[str, ...]) -> pa.DataType | None:
    if path[0] not in schema.names:
        return None
    type = schema.field(path[0]).type
    for name in path[1:]:
        if not pa.types.is_struct(type) or type.get_field_index(name) < 0:
            return None
        type = type.field(name).type
    return type
