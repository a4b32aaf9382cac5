"""Guesses which columns have the types and the times of events, where nobody has said so: by name, else by type."""

from __future__ import annotations

import pyarrow as pa

from ceql.io.schemas import is_text

_TYPES = ("type", "event", "event_type", "kind")
_TIMES = ("time", "timestamp", "ts", "datetime", "date")


def type_column(schema: pa.Schema) -> str | None:
    """The column of types: text of one of the usual names, in any case.

    >>> type_column(pa.schema([("TS", pa.int64()), ("Event", pa.string())]))
    'Event'
    """
    return _of_name(schema, _TYPES, [f.name for f in schema if is_text(f.type) or pa.types.is_dictionary(f.type)])


def time_column(schema: pa.Schema) -> str | None:
    """The column of times: one of the usual names, else the first that has dates or times.

    >>> time_column(pa.schema([("paid_at", pa.timestamp("ms")), ("n", pa.int64())]))
    'paid_at'
    """
    times = [f.name for f in schema if pa.types.is_timestamp(f.type) or pa.types.is_date(f.type)]
    return _of_name(schema, _TIMES, schema.names) or (times[0] if times else None)


def _of_name(schema: pa.Schema, wanted: tuple[str, ...], allowed: list[str]) -> str | None:
    folded = {name.lower(): name for name in reversed(schema.names) if name in allowed}
    return next((folded[name] for name in wanted if name in folded), None)
