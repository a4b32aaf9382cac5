"""Plain types: the layouts of Arrow columns that all later stages know.

In: a column of any type. Out: the same values as a column of a plain type. Views, as polars has them, become strings,
binaries and lists; run-end encoded columns are decoded, and dictionaries too unless they are of text or bytes; small
decimals become decimal128, extension types their storage. For other layouts Arrow lacks `take`, casts and comparisons.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ceql.errors import SchemaError


def plain_type(type: pa.DataType) -> pa.DataType:
    """The plain type for values of this type.

    >>> plain_type(pa.dictionary(pa.int8(), pa.string_view()))
    DictionaryType(dictionary<values=large_string, indices=int8, ordered=0>)
    """
    if isinstance(type, pa.BaseExtensionType):
        return plain_type(type.storage_type)
    if pa.types.is_run_end_encoded(type):
        return plain_type(type.value_type)
    if pa.types.is_string_view(type):
        return pa.large_string()
    if pa.types.is_binary_view(type):
        return pa.large_binary()
    if pa.types.is_dictionary(type):
        values = plain_type(type.value_type)
        return pa.dictionary(type.index_type, values, type.ordered) if _is_bytes(values) else values
    if pa.types.is_decimal32(type) or pa.types.is_decimal64(type):
        return pa.decimal128(type.precision, type.scale)
    if pa.types.is_struct(type):
        return pa.struct([field.with_type(plain_type(field.type)) for field in type])
    if pa.types.is_map(type):
        return pa.map_(plain_type(type.key_type), plain_type(type.item_type), type.keys_sorted)
    if pa.types.is_nested(type) and not pa.types.is_union(type):
        item = type.value_field.with_type(plain_type(type.value_type))
        if pa.types.is_fixed_size_list(type):
            return pa.list_(item, type.list_size)
        large = pa.types.is_large_list(type) or pa.types.is_large_list_view(type)
        return pa.large_list(item) if large else pa.list_(item)
    return type


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """`schema` with plain types."""
    return pa.schema([field.with_type(plain_type(field.type)) for field in schema])


def plain_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """`batch` with plain types; columns that have one are not copied."""
    schema = plain_schema(batch.schema)
    if batch.schema.equals(schema):
        return batch
    columns = [plain(column, name) for name, column in zip(schema.names, batch.columns, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def plain(column: pa.Array, name: str) -> pa.Array:
    """The values of the column `name` in its plain type."""
    if column.type == plain_type(column.type):
        return column
    try:
        return _plain(column)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        known = plain_type(column.type)
        raise SchemaError(f"column '{name}' is {column.type}, which cannot be read; convert it to {known}") from error


def _plain(column: pa.Array) -> pa.Array:
    type, wanted = column.type, plain_type(column.type)
    if type == wanted:
        return column
    if isinstance(type, pa.BaseExtensionType):
        return _plain(column.storage)
    if pa.types.is_run_end_encoded(type):
        ends = column.run_ends.to_numpy()
        rows = np.searchsorted(ends, np.arange(column.offset, column.offset + len(column)), side="right")
        return _plain(column.values).take(pa.array(rows))
    if pa.types.is_dictionary(type):
        values = _plain(column.dictionary)
        if pa.types.is_dictionary(wanted):
            return pa.DictionaryArray.from_arrays(column.indices, values, ordered=type.ordered)
        return values.take(column.indices)
    if pa.types.is_struct(type):
        children = [_plain(child) for child in column.flatten()]
        return pa.StructArray.from_arrays(children, fields=list(wanted), mask=column.is_null())
    if pa.types.is_list(wanted) or pa.types.is_large_list(wanted):
        lengths = pc.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False)
        offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32() if pa.types.is_list(wanted) else None)
        make = pa.ListArray if pa.types.is_list(wanted) else pa.LargeListArray
        return make.from_arrays(offsets, _plain(column.flatten()), type=wanted, mask=column.is_null())
    return column.cast(wanted)


def _is_bytes(type: pa.DataType) -> bool:
    """Whether values are text or bytes of any length."""
    return bool(
        pa.types.is_string(type)
        or pa.types.is_large_string(type)
        or pa.types.is_binary(type)
        or pa.types.is_large_binary(type)
    )
