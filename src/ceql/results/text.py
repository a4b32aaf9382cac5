"""Values and events as text for people. Times are exact, whatever their unit; text from the data is made harmless."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pyarrow as pa

from ceql.errors import DataError
from ceql.io.schemas import is_text
from ceql.io.sort_keys import PER_SECOND

_CELL = 40
_ITEMS = 8
_ZEROS = re.compile(r"(\.\d*?)0+(?=\D|$)")


def python_values(column: pa.Array | pa.ChunkedArray, name: str) -> list[Any]:
    """The values of the column `name` as Python's own."""
    try:
        return list(column.to_pylist())
    except (KeyError, ValueError, OverflowError, pa.ArrowException) as error:  # an unknown zone, the year 20000
        raise DataError(
            f"column '{name}' ({column.type}) has what Python cannot hold: {error}; to_arrow() and events() keep it"
        ) from error


def to_python(column: pa.Array | pa.ChunkedArray, separator: str = "T") -> list[Any]:
    """The values of a column. Times and dates become ISO 8601, since Python's own types have no nanoseconds.

    Durations do, too, or with another separator text for people.
    """
    if not (pa.types.is_timestamp(column.type) or pa.types.is_date(column.type) or pa.types.is_time(column.type)):
        if pa.types.is_duration(column.type):
            size = 10**9 // PER_SECOND[column.type.unit]
            show = iso_duration if separator == "T" else duration
            return [None if ticks is None else show(ticks * size) for ticks in column.cast(pa.int64()).to_pylist()]
        try:
            return list(column.to_pylist())
        except UnicodeDecodeError:
            if not is_text(column.type):
                raise
            texts = column.cast(pa.large_string()).cast(pa.large_binary()).to_pylist()
            return [None if text is None else text.decode(errors="replace") for text in texts]
    texts = column.cast(pa.string()).to_pylist()
    return [None if text is None else _ZEROS.sub(_shorten, text).replace(" ", separator) for text in texts]


def duration(nanoseconds: int) -> str:
    """A duration for people.

    >>> duration(0), duration(90 * 10**9), duration(-1500 * 10**6), duration(90061 * 10**9)
    ('0 s', '1 min 30 s', '-1.5 s', '1 d 1 h 1 min 1 s')
    """
    sign, *parts = _parts(nanoseconds)
    units = ("d", "h", "min", "s")
    shown = [f"{part} {unit}" for part, unit in zip(parts, units, strict=True) if part != "0"]
    return sign + (" ".join(shown) or "0 s")


def iso_duration(nanoseconds: int) -> str:
    """A duration in ISO 8601.

    >>> iso_duration(0), iso_duration(90 * 10**9), iso_duration(-1500 * 10**6), iso_duration(90000 * 10**9)
    ('PT0S', 'PT1M30S', '-PT1.5S', 'P1DT1H')
    """
    sign, days, *parts = _parts(nanoseconds)
    shown = "".join(f"{part}{unit}" for part, unit in zip(parts, "HMS", strict=True) if part != "0")
    day = f"{days}D" if days != "0" else ""
    return f"{sign}P{day}T{shown}" if shown else f"{sign}P{day}" if day else "PT0S"


def _parts(nanoseconds: int) -> tuple[str, str, str, str, str]:
    """The sign, days, hours, minutes and seconds of a duration."""
    seconds, fraction = divmod(abs(nanoseconds), 10**9)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    rest = f"{seconds}.{fraction:09}".rstrip("0") if fraction else str(seconds)
    return "-" if nanoseconds < 0 else "", str(days), str(hours), str(minutes), rest


def to_rows(table: pa.Table | pa.RecordBatch, separator: str = "T") -> list[dict[str, Any]]:
    """The rows as dicts."""
    if not table.num_columns:
        return [{} for _ in range(table.num_rows)]
    columns = [to_python(column, separator) for column in table.columns]
    return [dict(zip(table.schema.names, row, strict=True)) for row in zip(*columns, strict=True)]


def cell(value: Any, room: int = _CELL) -> str:
    """A value in at most `room` printable characters; a fraction with 8 digits, unless it is very large or small.

    >>> cell([1, 2, 3]), cell(None), cell("a\\nb"), cell(41.660072334172)
    ('[1, 2, 3]', '', 'a\\\\nb', '41.660072')
    """
    if value is None:
        return ""
    if isinstance(value, float) and 1e-4 <= abs(value) < 1e8:
        shortest, rounded = str(value), f"{value:.8g}"
        value = rounded if len(rounded) < len(shortest) - 2 else shortest
    if isinstance(value, list):
        shown = [cell(item) for item in value[:_ITEMS]] + (["…"] if len(value) > _ITEMS else [])
        value = f"[{', '.join(shown)}]"
    return shorten(clean(str(value)), room)


def shorten(text: str, room: int = _CELL) -> str:
    """`text`, cut if it is longer than `room`."""
    return text if len(text) <= room else text[: room - 1] + "…"


def clean(value: str) -> str:
    """`value` with everything that a terminal would obey instead of show (line ends, escape codes) spelled out."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in value)


def attributes(row: Mapping[str, Any], hidden: Collection[str] = ()) -> str:
    """An event as text: its attributes without the hidden ones and those that are NULL.

    >>> attributes({"type": "T", "id": 3, "tmp": 45.0, "note": None}, hidden={"type"})
    'id=3 tmp=45.0'
    """
    return " ".join(
        f"{clean(name)}={cell(value)}" for name, value in row.items() if name not in hidden and value is not None
    )


def event_text(position: int, row: Mapping[str, Any], names: Sequence[str] | None, hidden: Collection[str]) -> str:
    """An event as text: the attributes `names` (the value alone, if it is one), else all but the hidden ones."""
    if names is None:
        return attributes(row, hidden) or f"#{position}"
    if len(names) == 1:
        return cell(row.get(names[0]))
    return attributes({name: row.get(name) for name in names}) or f"#{position}"


def between(start: Any, end: Any) -> str:
    """Two times; the second without its date if that is the same.

    >>> between("2024-05-17 02:26:49", "2024-05-17 02:31:16")
    '2024-05-17 02:26:49 .. 02:31:16'
    """
    first, last = cell(start), cell(end)
    day = first.partition(" ")[0] + " "
    return f"{first} .. {last.removeprefix(day) if ' ' in first else last}"


def _shorten(match: re.Match[str]) -> str:
    return "" if match[1] == "." else match[1]
