"""Values as JSON and as text for people. Both show times exactly, whatever their unit."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import pyarrow as pa

from ceql.results.views import cell

_ZEROS = re.compile(r"(\.\d*?)0+(?=\D|$)")


def to_python(column: pa.Array | pa.ChunkedArray, separator: str = "T") -> list[Any]:
    """The values of a column. Times and dates become ISO 8601, since Python's own types have no nanoseconds."""
    if not (pa.types.is_timestamp(column.type) or pa.types.is_date(column.type) or pa.types.is_time(column.type)):
        if pa.types.is_duration(column.type):
            column = column.cast(pa.int64())
        return list(column.to_pylist())
    texts = column.cast(pa.string()).to_pylist()
    return [None if text is None else _ZEROS.sub(_shorten, text).replace(" ", separator) for text in texts]


def to_rows(table: pa.Table | pa.RecordBatch, separator: str = "T") -> list[dict[str, Any]]:
    """The rows as dicts."""
    columns = [to_python(column, separator) for column in table.columns]
    return [dict(zip(table.schema.names, row, strict=True)) for row in zip(*columns, strict=True)]


def to_json(value: Any) -> str:
    """One line of JSON. NaN and infinity, which JSON lacks, become null; decimals become text.

    >>> to_json({"a": [1, float("nan")], "b": b"x"})
    '{"a": [1, null], "b": "78"}'
    """
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, default=_other)
    except ValueError:
        return json.dumps(_finite(value), ensure_ascii=False, default=_other)


def attributes(row: dict[str, Any], hidden: set[str]) -> str:
    """An event as text: its attributes without the hidden ones and those that are NULL.

    >>> attributes({"type": "T", "id": 3, "tmp": 45.0, "note": None}, hidden={"type"})
    'id=3 tmp=45.0'
    """
    return " ".join(f"{name}={cell(value)}" for name, value in row.items() if name not in hidden and value is not None)


def _shorten(match: re.Match[str]) -> str:
    return "" if match[1] == "." else match[1]


def _other(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


def _finite(value: Any) -> Any:
    match value:
        case float() if not math.isfinite(value):
            return None
        case dict():
            return {key: _finite(item) for key, item in value.items()}
        case list() | tuple():
            return [_finite(item) for item in value]
        case _:
            return value
