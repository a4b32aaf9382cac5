"""Times that are text, read as ISO 8601: all times of a stream become one type."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from ceql.errors import DataError

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
