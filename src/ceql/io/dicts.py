"""Dicts to Arrow record batches of bounded size; the types are inferred batch by batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime
from itertools import chain, islice
from typing import Any

import pyarrow as pa

from ceql.errors import DataError
from ceql.io.schemas import conform, without_columns

Event = Mapping[str, Any]


def dicts_to_batch(events: Sequence[Event], first: int = 0) -> pa.RecordBatch:
    """One batch of `events`. An attribute that an event lacks is NULL. `first` is the position of the first event.

    >>> dicts_to_batch([{"a": 1}, {"a": 2.5, "b": "x"}]).to_pylist()
    [{'a': 1.0, 'b': None}, {'a': 2.5, 'b': 'x'}]
    """
    try:
        names = dict.fromkeys(chain.from_iterable(events))
        columns = [_column(name, [event.get(name) for event in events]) for name in names]
    except (TypeError, AttributeError):
        _check_dicts(events, first)
        raise
    for name in names:
        if not isinstance(name, str) or not is_writable(name):
            raise DataError(f"an attribute's name must be text, not {name!r}")
    if not columns:
        return without_columns(len(events))
    return pa.RecordBatch.from_arrays(columns, names=list(names))


def dict_batches(events: Iterable[Event], batch_rows: int) -> Iterator[pa.RecordBatch]:
    """Batches of at most `batch_rows` events. Reads no further than the batch that is asked for.

    Each batch has at least the columns of those before it, of the same or a wider type.
    """
    iterator = iter(events)
    schema: pa.Schema | None = None
    first = 0
    while rows := list(islice(iterator, batch_rows)):
        batch = dicts_to_batch(rows, first)
        if schema is not None:
            batch = conform(batch, schema, open_schema=True)
        schema = batch.schema
        first += len(rows)
        yield batch


def _column(name: str, values: list[Any]) -> pa.Array:
    try:
        column = pa.array(values)
        if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
            _check_times(name, values)
        return column
    except OverflowError:
        with suppress(OverflowError, pa.ArrowInvalid, pa.ArrowTypeError):
            return pa.array(values, pa.uint64())
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, TypeError, ValueError):
        pass
    return as_text(values)


def is_writable(name: str) -> bool:
    """Whether a name can be written: halves of characters cannot."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_times(name: str, values: list[Any]) -> None:
    """Refuse what Arrow would take without a word: moments as days, times without a zone among others as UTC."""
    moments = [value for value in values if isinstance(value, datetime) and value == value]  # NaT is no moment
    if any(isinstance(value, date) and not isinstance(value, datetime) for value in values) and moments:
        raise DataError(f"attribute '{name}' mixes values of types date and datetime; give all a time of day, or none")
    if len({moment.tzinfo is None for moment in moments}) > 1:
        raise DataError(f"attribute '{name}' mixes times with a zone and without; give all a zone, or none")


def _check_dicts(events: Sequence[Any], first: int) -> None:
    """Raises an error that names the first event that is not a dict."""
    for position, event in enumerate(events, first):
        if not isinstance(event, Mapping):
            raise DataError(f"event {position} is a {type(event).__name__}, not a dict")


_FIELD = "objects as text"  # messages show it with the type


def as_text(values: Iterable[Any]) -> pa.Array:
    """The objects as text.

    >>> as_text([10**20, "one", None]).to_pylist()
    [{'objects as text': '100000000000000000000'}, {'objects as text': 'one'}, None]
    """
    texts = [None if value is None else str(value).encode(errors="backslashreplace").decode() for value in values]
    column = pa.array(texts, pa.large_string())
    return pa.StructArray.from_arrays([column], [_FIELD], mask=column.is_null())
