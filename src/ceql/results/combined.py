"""The matches of several queries as one table: the columns that all queries have, and maps for those that differ."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from ceql.recognition.result_columns import (
    POSITIONS,
    as_lists,
    is_measure,
    true_name,
    unique_names,
    variable_fields,
)
from ceql.recognition.together import Round

QUERY = pa.dictionary(pa.int32(), pa.string())
BINDINGS = pa.map_(pa.string(), POSITIONS)
MEASURES = pa.map_(pa.string(), pa.string())
_FIXED = ("query", "start", "end", "start_time", "end_time", "events", "bindings", "measures")


class Combined:
    """The columns of the table, and how matches become rows of it."""

    def __init__(self, names: Sequence[str], schemas: Sequence[pa.Schema]) -> None:
        self._names = pa.array(names, pa.string())
        self._times = next((list(schema)[2:4] for schema in schemas if "end_time" in schema.names), [])
        self._keys: dict[str, pa.DataType] = {}
        for schema in schemas:
            for field in key_fields(schema):
                known = self._keys.setdefault(true_name(field), field.type)
                if known != field.type:
                    self._keys[true_name(field)] = pa.large_string()
        fields = [pa.field("query", QUERY), pa.field("start", pa.int64()), pa.field("end", pa.int64()), *self._times]
        columns = unique_names(self._keys, taken=_FIXED)
        fields += [pa.field(name, type) for name, type in zip(columns, self._keys.values(), strict=True)]
        fields += [pa.field("events", POSITIONS), pa.field("bindings", BINDINGS), pa.field("measures", MEASURES)]
        self.schema = pa.schema(fields)

    def batch(self, found: Round) -> pa.RecordBatch:
        """The matches of a round as rows."""
        together = pa.concat_batches([self._rows(number, batch) for number, batch in found.found])
        return together if found.order is None else together.take(pa.array(found.order))

    def _rows(self, number: int, batch: pa.RecordBatch) -> pa.RecordBatch:
        rows = batch.num_rows
        query = pa.DictionaryArray.from_arrays(pa.array(np.full(rows, number, np.int32)), self._names)
        own = {true_name(field): batch.column(field.name) for field in key_fields(batch.schema)}
        keys = [
            own[name] if name in own and own[name].type == type else _as(own.get(name), type, rows)
            for name, type in self._keys.items()
        ]
        variables = {true_name(field): as_lists(batch.column(field.name)) for field in variable_fields(batch.schema)}
        measures = {field.name: as_text(batch.column(field.name)) for field in batch.schema if is_measure(field)}
        columns = [query, batch.column("start"), batch.column("end")]
        columns += [batch.column(field.name) for field in self._times]
        columns += [*keys, batch.column("events")]
        columns += [map_of(variables, rows, BINDINGS), map_of(measures, rows, MEASURES)]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def key_fields(schema: pa.Schema) -> list[pa.Field]:
    """The columns of a result that have the partition keys."""
    return list(schema)[4 if "end_time" in schema.names else 2 : schema.get_field_index("events")]


def _as(column: pa.Array | None, type: pa.DataType, rows: int) -> pa.Array:
    return pa.nulls(rows, type) if column is None else column.cast(type)


def as_text(column: pa.Array) -> pa.Array:
    """The values of a measure as text."""
    try:
        return column.cast(pa.string())
    except pa.ArrowNotImplementedError:  # Arrow has no text for durations
        return pa.array([None if value is None else str(value) for value in column.to_pylist()], pa.string())


def map_of(columns: dict[str, pa.Array], rows: int, type: pa.MapType) -> pa.Array:
    """For each row a map with an entry for each column."""
    count = len(columns)
    offsets = pa.array(np.arange(rows + 1, dtype=np.int32) * np.int32(count))
    if not count:
        return pa.MapArray.from_arrays(offsets, pa.nulls(0, type.key_type), pa.nulls(0, type.item_type), type)
    names = pa.array(list(columns), pa.string()).take(pa.array(np.tile(np.arange(count), rows)))
    values = pa.concat_arrays([column.cast(type.item_type) for column in columns.values()])
    places = np.arange(rows * count).reshape(count, rows).T.reshape(-1)
    return pa.MapArray.from_arrays(offsets, names, values.take(pa.array(places)), type)
