"""Column types and schemas: which types compare, one type for two, one schema for many batches; taking rows.

In: batches whose columns differ from batch to batch (dicts, files read in blocks, merged streams). Out: batches of one
schema, in the layouts of `plain_types`. No value ever changes: a cast that would lose something is an error that names
the column.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from ceql.errors import DataError, SchemaError
from ceql.io.plain_types import plain, plain_type
from ceql.jit import Array


def check_names(schema: pa.Schema, of: str = "the input") -> pa.Schema:
    """Returns `schema`, or raises an error if two of its columns have the same name, or one a name that is no text."""
    try:
        names = schema.names
    except UnicodeDecodeError as error:
        raise SchemaError(f"{of} has a column whose name is not UTF-8: {error.object!r}") from error
    twice = [name for name, n in Counter(names).items() if n > 1]
    if twice:
        raise SchemaError(f"{of} has more than one column named '{twice[0]}'; rename all but one")
    return schema


def unify_types(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    """The type that holds the values of both, or None when there is none (text and number).

    >>> unify_types(pa.int64(), pa.float64())
    DataType(double)
    >>> unify_types(pa.int64(), pa.string()) is None
    True
    """
    if a == b:
        return a
    if is_text(a) and is_text(b):
        return pa.large_string() if pa.large_string() in (a, b) else pa.string()
    schemas = [pa.schema([("x", a)]), pa.schema([("x", b)])]
    try:
        return pa.unify_schemas(schemas, promote_options="permissive").field(0).type
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        return None


def wide_codes(type: pa.DataType) -> pa.DataType:
    """A dictionary type with codes of at least 32 bits, since merged dictionaries may outgrow 8 or 16."""
    if pa.types.is_dictionary(type) and type.index_type.bit_width < 32:
        return pa.dictionary(pa.int32(), type.value_type, type.ordered)
    return type


def value_type(type: pa.DataType) -> pa.DataType:
    """The type of the values: that of its dictionary for a dictionary-encoded column."""
    return type.value_type if pa.types.is_dictionary(type) else type


def is_text(type: pa.DataType) -> bool:
    """Whether values of this type are text, however they are laid out."""
    type = value_type(type)
    return bool(pa.types.is_string(type) or pa.types.is_large_string(type) or pa.types.is_string_view(type))


def is_comparable(type: pa.DataType) -> bool:
    """Whether values of this type can be compared with each other."""
    type = value_type(type)
    return not (pa.types.is_nested(type) or pa.types.is_interval(type))


def kind_of(type: pa.DataType) -> str:
    """A word for what values of this type are. Two types can be compared if they have the same word."""
    type = value_type(type)
    if pa.types.is_null(type):
        return "null"
    if pa.types.is_boolean(type):
        return "truth value"
    if pa.types.is_integer(type) or pa.types.is_floating(type) or pa.types.is_decimal(type):
        return "number"
    if pa.types.is_timestamp(type):
        return "zoned time" if type.tz else "time"
    if pa.types.is_duration(type):
        return "duration"
    return "text" if is_text(type) else str(type)


def names_near(schema: pa.Schema, name: str) -> list[str]:
    """The names that may have been meant by `name`: the columns, and if it has a dot, the fields of nested ones."""
    names = list(schema.names)
    todo = [(field.name, field.type) for field in schema] if "." in name else []
    for prefix, type in todo:  # grows on the way
        if pa.types.is_struct(type):
            inner = [(f"{prefix}.{field.name}", field.type) for field in type]
            names = [*names, *(inner_name for inner_name, _ in inner)]
            todo += inner
    return names


def unify_schemas(schemas: Iterable[pa.Schema]) -> pa.Schema:
    """The union of the columns by name, in order of first appearance, of plain types; text and number: a DataError."""
    types: dict[str, pa.DataType] = {}
    for schema in schemas:
        for field in schema:
            type = plain_type(field.type)
            before = types.get(field.name, type)
            both = unify_types(before, type)
            if both is None:
                raise DataError(changed(field.name, before, type))
            types[field.name] = both
    return pa.schema(list(types.items()))


def conform(batch: pa.RecordBatch, schema: pa.Schema, open_schema: bool = False) -> pa.RecordBatch:
    """`batch` with the columns of `schema`, in its order. The types of `schema` must be plain.

    A missing column is filled with NULLs. A column of another type is cast; if that would lose something, it is a
    DataError. A column of type `null` in `schema` takes the batch's type. A new column is left out.
    With `open_schema`, a new column is added at the end and a type may widen (int64, then double); conform the next
    batch to the schema of the result.
    """
    if batch.schema.equals(schema):
        return batch
    columns, fields = [], []
    for field in schema:
        index = batch.schema.get_field_index(field.name)
        if index < 0:
            column = pa.nulls(batch.num_rows, field.type)
        else:
            column = _cast(batch.column(index), field.name, field.type, open_schema)
        columns.append(column)
        fields.append(pa.field(field.name, column.type))
    if open_schema:
        for field, column in zip(batch.schema, batch.columns, strict=True):
            if schema.get_field_index(field.name) < 0:
                columns.append(plain(column, field.name))
                fields.append(pa.field(field.name, columns[-1].type))
    if not columns:
        return without_columns(batch.num_rows)
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def column_of(batch: pa.RecordBatch, name: str) -> pa.Array:
    """The column of this name; NULLs where the batch has none."""
    index = batch.schema.get_field_index(name)
    return batch.column(index) if index >= 0 else pa.nulls(batch.num_rows)


def codes_of(column: pa.DictionaryArray) -> Array:
    """The codes of a dictionary-encoded column as int64, -1 for NULL, in memory of their own."""
    codes = column.indices
    if codes.null_count:
        codes = codes.cast(pa.int64()).fill_null(-1)
    return np.array(codes.to_numpy(zero_copy_only=False), np.int64)


def take_rows(batch: pa.RecordBatch, rows: pa.Array) -> pa.RecordBatch:
    """The rows of `batch` at the indices `rows` (a NULL index gives a row of NULLs); the schema stays."""
    if not batch.num_columns:
        return without_columns(len(rows))
    return pa.RecordBatch.from_arrays([column.take(rows) for column in batch.columns], schema=batch.schema)


def one_batch(rows: pa.Table) -> pa.RecordBatch:
    """All rows in one record batch."""
    batches = rows.combine_chunks().to_batches()
    if batches:
        return batches[0]
    return no_rows(rows.schema) if rows.num_columns else without_columns(rows.num_rows)


def _cast(column: pa.Array, name: str, type: pa.DataType, widen: bool) -> pa.Array:
    column = plain(column, name)
    if column.type == type or pa.types.is_null(type):
        return column
    both = unify_types(type, column.type)
    if both is not None:
        # a struct that is cast to one with fewer fields would lose the others
        for target in (both,) if widen and pa.types.is_nested(both) else (type, both) if widen else (type,):
            try:
                return column.cast(target)
            except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
                continue
    raise DataError(changed(name, type, column.type))


def changed(name: str, before: pa.DataType, after: pa.DataType) -> str:
    """The message about a column whose type changed to one that does not fit."""
    return f"column '{name}' was {before} and is now {after}, and its values do not fit; give it one type"


def no_rows(schema: pa.Schema) -> pa.RecordBatch:
    """A batch of these columns without rows."""
    return pa.RecordBatch.from_arrays([pa.nulls(0, type) for type in schema.types], schema=schema)


def without_columns(rows: int) -> pa.RecordBatch:
    """A batch of `rows` rows and no columns."""
    return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))
