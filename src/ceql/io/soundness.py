"""Checks that Arrow data is what it says it is, so that no data can make the process read beyond its memory.

In: batches from outside. Arrow takes their buffers as they are, and its kernels, like ours, trust every offset, code
and count of NULLs in them. Out: nothing, or a `DataError` that names the column. `check` looks at all that memory
safety depends on. It costs a fraction of a nanosecond for a text or a code, and next to nothing for other columns.
Data in memory is checked so as it is read. `check_fully` also looks at the values: text that is not UTF-8, decimals
of too many digits. Files are checked so.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ceql.errors import DataError
from ceql.io.sorted_runs import in_order
from ceql.jit import Array

_INLINE = 12  # bytes that a view holds in itself


def check(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Returns `batch`; raises an error if a column points outside of its memory."""
    return _checked(batch, False)


def check_fully(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Returns `batch`; raises an error if a column points outside of its memory or has values that its type forbids."""
    return _checked(batch, True)


def is_utf8(column: pa.Array) -> bool:
    """Whether all texts are UTF-8. Plain ASCII, where this is quick to see, is looked at as a whole."""
    if pa.types.is_dictionary(column.type):
        return is_utf8(column.dictionary)
    if _has_offsets(column.type):
        offsets, data = _offsets(column), column.buffers()[2]
        if data is None or np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]].max(initial=0) < 128:
            return True
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def require_utf8(column: pa.Array, what: str) -> pa.Array:
    """Returns `column`; raises an error if it has text that is not UTF-8. `what` names the column."""
    if not is_utf8(column):
        raise DataError(f"{what} has text that is not UTF-8")
    return column


def _checked(batch: pa.RecordBatch, fully: bool) -> pa.RecordBatch:
    try:
        batch.validate()  # the sizes of buffers
    except pa.ArrowException:
        fixed: frozenset[int] = frozenset()  # the column that is damaged is found below
    else:
        fixed = _fixed_width(batch.schema)
    for k, column in enumerate(batch.columns):
        try:
            if k in fixed:
                _check_nulls(column)
            else:
                _check(column, fully)
        except (pa.ArrowException, _Unsound) as error:
            name = batch.schema.field(k).name
            raise DataError(f"column '{name}' ({column.type}) is damaged: {error}") from error
    return batch


_last: tuple[pa.Schema, frozenset[int]] = (pa.schema([]), frozenset())  # many small batches have the same one


def _fixed_width(schema: pa.Schema) -> frozenset[int]:
    """The columns in which every number is a value, so that only the count of NULLs can be wrong."""
    global _last
    known, fixed = _last
    if not known.equals(schema):
        numbers = (pa.types.is_integer, pa.types.is_floating, pa.types.is_temporal, pa.types.is_boolean)
        fixed = frozenset(k for k, field in enumerate(schema) if any(is_one(field.type) for is_one in numbers))
        _last = schema, fixed
    return fixed


class _Unsound(Exception):
    """The data is not what it says it is."""


def _check(column: pa.Array, fully: bool) -> None:
    type = column.type
    column.validate()  # the sizes of buffers
    if isinstance(type, pa.BaseExtensionType):
        _check(column.storage, fully)
    elif pa.types.is_dictionary(type):
        _check(column.indices, fully)
        _check_codes(column.indices, len(column.dictionary))
        _check(column.dictionary, fully)
    elif _has_offsets(type):
        _check_nulls(column)
        _check_offsets(column)
        if fully and not is_utf8(column):
            raise _Unsound("it has text that is not UTF-8")
    elif _is_view(type) and not fully:
        _check_nulls(column)
        _check_views(column)
    elif pa.types.is_struct(type):
        _check_nulls(column)
        for k in range(type.num_fields):
            _check(column.field(k), fully)
    elif fully or pa.types.is_nested(type) or pa.types.is_run_end_encoded(type) or pa.types.is_decimal(type):
        column.validate(full=True)
    else:
        _check_nulls(column)


def _check_nulls(column: pa.Array) -> None:
    """Kernels make room for as many values as the count of NULLs leaves."""
    bitmap = column.buffers()[0]
    if bitmap is not None:
        valid = pa.Array.from_buffers(pa.bool_(), len(column), [None, bitmap], 0, column.offset).true_count
        if len(column) - valid != column.null_count:
            raise _Unsound(f"it says that it has {column.null_count} NULLs, and has {len(column) - valid}")


def _check_codes(codes: pa.Array, size: int) -> None:
    ends = pc.min_max(codes)
    low, high = ends["min"].as_py(), ends["max"].as_py()
    if low is not None and not 0 <= low <= high < size:
        raise _Unsound(f"its codes are from {low} to {high}, and its dictionary has {size} values")


def _check_offsets(column: pa.Array) -> None:
    if not len(column):
        return
    offsets, data = _offsets(column), column.buffers()[2]
    size = 0 if data is None else data.size
    if offsets[0] < 0 or offsets[-1] > size or not in_order(offsets):
        raise _Unsound(f"its offsets do not ascend within its {size} bytes")


def _check_views(column: pa.Array) -> None:
    _, views, *data = column.buffers()
    if views is None:
        return
    parts = np.frombuffer(views, np.int32, 4 * (column.offset + len(column))).reshape(-1, 4)[column.offset :]
    if column.null_count:
        parts = parts[np.asarray(column.is_valid())]
    length = parts[:, 0]
    if (length < 0).any():
        raise _Unsound("it has a text of less than no bytes")
    far = parts[length > _INLINE]
    if not len(far):
        return
    sizes = np.array([0 if buffer is None else buffer.size for buffer in data], np.int64)
    buffer, start = far[:, 2], far[:, 3].astype(np.int64)
    if (buffer < 0).any() or (buffer >= len(sizes)).any():
        raise _Unsound("it has a text in a buffer that is not there")
    if (start < 0).any() or (start + far[:, 0] > sizes[buffer]).any():
        raise _Unsound("it has a text beyond the end of its buffer")


def _offsets(column: pa.Array) -> Array:
    """The offsets of the texts, one more than there are texts."""
    wide = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
    buffer = column.buffers()[1]
    if buffer is None or not buffer.size:  # allowed where there are no texts
        return np.zeros(1, np.int64)
    offsets: Array = np.frombuffer(buffer, np.int64 if wide else np.int32, column.offset + len(column) + 1)
    return offsets[column.offset :]


def _has_offsets(type: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(type)
        or pa.types.is_binary(type)
        or pa.types.is_large_string(type)
        or pa.types.is_large_binary(type)
    )


def _is_view(type: pa.DataType) -> bool:
    return bool(pa.types.is_string_view(type) or pa.types.is_binary_view(type))
