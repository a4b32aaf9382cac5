"""The time column of a batch: checks it and turns it into sort keys.

Times that are text are read as ISO 8601, all times of a stream as one type.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ceql.errors import DataError, SchemaError, did_you_mean
from ceql.io.sort_keys import encode, is_ordered


def called(stream: str | None) -> str:
    """How messages call a stream."""
    return f"stream '{stream}'" if stream else "the stream"


def time_keys(
    batch: pa.RecordBatch, name: str, known: pa.DataType | None, called: str, seen: int
) -> tuple[pa.RecordBatch, npt.NDArray[np.int64], pa.DataType]:
    """The batch with its time column cast to the `known` type (None: its own), the column's sort keys, and its type.

    Messages name the stream as `called`, and count its events from `seen`, the number of those before this batch.
    """
    index = batch.schema.get_field_index(name)
    if index < 0:
        raise SchemaError(f"{called} has no time column '{name}'", suggestion=did_you_mean(name, batch.schema.names))
    column = batch.column(index)
    if column.null_count:
        row = seen + int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
        raise DataError(f"event {row} of {called} has no time: '{name}' is NULL")
    if known is not None and column.type != known:
        column = _cast(column, name, known, called, seen)
        batch = batch.set_column(index, name, column)
    if not is_ordered(column.type):
        raise SchemaError(f"column '{name}' is {column.type}, which is no time; use a timestamp, date or number")
    if pa.types.is_floating(column.type):
        undefined = np.isnan(column.to_numpy(zero_copy_only=False))
        if undefined.any():
            row = seen + int(np.argmax(undefined))
            raise DataError(f"event {row} of {called} has no time: '{name}' is NaN")
    return batch, encode(column, name), column.type


def _cast(column: pa.Array, name: str, known: pa.DataType, called: str, seen: int) -> pa.Array:
    """Casts a later batch of a stream to the type of its first. Two streams must have the same type."""
    problem = f"time column '{name}' is {known}, but {column.type} in {called}"
    if not seen:
        raise SchemaError(f"{problem}; give all streams the same type")
    try:
        return column.cast(known)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise DataError(f"{problem} from event {seen} on; give it one type") from error


_ZONE = r"[Zz]$|[+-]\d\d(:?\d\d)?$"


def type_of_times(texts: pa.Array | pa.ChunkedArray) -> pa.DataType:
    """The type for these times: in UTC if one of them has a zone, else without a zone.

    >>> type_of_times(pa.array(["2024-01-01T10:00:00+02:00"]))
    TimestampType(timestamp[ns, tz=UTC])
    """
    # `-05` at the end is a zone only after a time of day; else it is the day of a date
    texts = texts.cast(pa.large_string())
    zoned = pc.and_(pc.match_substring_regex(texts, r"\d\d:\d\d"), pc.match_substring_regex(texts, _ZONE))
    return pa.timestamp("ns", "UTC" if pc.any(zoned).as_py() else None)


def to_times(texts: pa.Array, type: pa.DataType, name: str, called: str, seen: int) -> pa.Array:
    """The texts of the column `name` as times of this type.

    Messages name the stream as `called`, and count its events from `seen`, the number of those before these.
    """
    texts = texts.cast(pa.large_string())
    try:
        return texts.cast(type)
    except pa.ArrowInvalid:
        good, bad = 0, len(texts)  # the first that cannot be read is in between
        while bad - good > 1:
            middle = (good + bad) // 2
            try:
                texts.slice(good, middle - good).cast(type)
                good = middle
            except pa.ArrowInvalid:
                bad = middle
    zone = "" if not pa.types.is_timestamp(type) else " with a zone, as others have," if type.tz else " without a zone"
    found = texts[good].as_buffer().to_pybytes().decode(errors="replace")
    raise DataError(
        f"event {seen + good} of {called} has the time {found!r} in column '{name}'; "
        f"an ISO 8601 time{zone} is expected, such as 2024-12-31T23:59:59{'Z' if getattr(type, 'tz', None) else ''}"
    )
