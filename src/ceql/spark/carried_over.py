"""Carries the state of a bucket over to other queries and other columns than it was written with.

Of a set, queries of the same name and meaning go on with their state; the others begin anew. Columns are told by their
names: one that is new is NULL in the events from before, one that is gone is dropped, and a whole number may become a
wider one. A column that no query reads may become whatever its old values can be cast to.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from ceql.errors import DataError
from ceql.spark.task_spec import ATTRIBUTE, TaskSpec


def check_columns(before: pa.Schema, now: pa.Schema, spec: TaskSpec, read: frozenset[str]) -> None:
    """Refuse shipped columns whose values from before mean something else now; `read` are those that matter."""
    names = {column: name for name, column in spec.place.items()}
    for field in now:
        if field.name not in before.names:
            continue
        old = before.field(field.name).type
        if _in_utc(old) == _in_utc(field.type) or _widens(old, field.type):
            continue
        if field.name in read or not field.name.startswith(ATTRIBUTE):
            raise DataError(
                f"column '{names.get(field.name, field.name)}' was {old} when the checkpoint was made, and is "
                f"{field.type} now; a query reads it, so cast it to {old}, or start with a new checkpointLocation"
            )


def adapted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Rows from before with the columns that rows have now."""
    columns = []
    for field in schema:
        at = batch.schema.get_field_index(field.name)
        columns.append(pa.nulls(batch.num_rows, field.type) if at < 0 else _cast(batch.column(at), field))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def retyped(tables: Mapping[str, list[pa.RecordBatch]], schema: pa.Schema) -> dict[str, list[pa.RecordBatch]]:
    """Tables of a state, whose columns that rows have, too, get the types that these have now."""

    def one(batch: pa.RecordBatch) -> pa.RecordBatch:
        fields = [schema.field(f.name) if f.name in schema.names else f for f in batch.schema]
        columns = [
            _cast(column, field) if field.name in schema.names else column
            for column, field in zip(batch.columns, fields, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))

    return {name: [one(batch) for batch in batches] for name, batches in tables.items()}


def _cast(column: pa.Array, field: pa.Field) -> pa.Array:
    if column.type == field.type:
        return column
    try:
        return column.cast(field.type)
    except pa.ArrowException as error:
        raise DataError(
            f"a column was {column.type} when the checkpoint was made, and is {field.type} now, and its old values "
            f"cannot be cast: {error}; start with a new checkpointLocation"
        ) from error


def in_utc(schema: pa.Schema) -> list[tuple[str, pa.DataType]]:
    """Names and types, with UTC for the zones of times: a session's may change, and instants do not."""
    return [(field.name, _in_utc(field.type)) for field in schema]


def _in_utc(kind: pa.DataType) -> pa.DataType:
    zoned = pa.types.is_timestamp(kind) and kind.tz is not None
    return pa.timestamp(kind.unit, "UTC") if zoned else kind


def _widens(old: pa.DataType, new: pa.DataType) -> bool:
    whole = pa.types.is_integer(old) and pa.types.is_integer(new)
    return bool(whole and new.bit_width > old.bit_width and not pa.types.is_unsigned_integer(new))
