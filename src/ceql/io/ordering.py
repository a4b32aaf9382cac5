"""Bounded inputs in order of time, whatever their order: `InOrder` sorts a source that can be read again.

The times alone are looked through first. If they are in order, the source is passed on as it is, batch by batch. If
not, it is held in memory as a whole, with the columns that are needed, and its rows are taken in order of time; rows of
the same time keep their order.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain

import numpy as np
import pyarrow as pa

from ceql.errors import ResourceError
from ceql.io.schemas import conform, take_rows, unify_schemas, wide_codes
from ceql.io.sort_keys import Int64s
from ceql.io.sorted_runs import EventBatch, in_order
from ceql.io.source import Source
from ceql.io.times import called, time_keys

_log = logging.getLogger(__name__)
_HELD_BYTES = 1 << 28  # of an input that is costly to read, while its times are looked at for the first time
_MOST_TEXT = (1 << 31) - 1  # bytes that a column of 32-bit offsets can hold


class InOrder(Source):
    """The events of `source` in order of the column `time`. At most `max_rows` are held in memory to sort them."""

    def __init__(self, source: Source, time: str, max_rows: int):
        super().__init__(source.name, source.batch_rows)
        self.source = source
        self._time = time
        self._max_rows = max_rows
        self.order: Int64s | None = None
        """Of the pass begun last: the row of the source that each event is; None while they are the same."""

    @property
    def open_schema(self) -> bool:
        return self.source.open_schema

    @property
    def rows(self) -> int | None:
        return self.source.rows

    def _schema(self) -> pa.Schema:
        return self.source.schema

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Batches as those of the source; time never goes back in them."""
        return (batch for batch, _ in self._ordered(columns))

    def events(self, columns: Sequence[str] | None = None) -> Iterator[EventBatch]:
        """The same, as those of the only stream."""
        return (EventBatch(batch, 0, times=keys) for batch, keys in self._ordered(columns))

    def _ordered(self, columns: Sequence[str] | None) -> Iterator[tuple[pa.RecordBatch, Int64s]]:
        wanted = columns if columns is None else [*columns, self._time]
        if (self.source.costly or self.source.held) and "is_sorted" not in self.__dict__:
            first = self._at_first(wanted)
            if first is not None:
                yield from self._by_time(*first, self.is_sorted)
                return
        if self.source.steady and self.is_sorted:
            self.order = None
            yield from self._with_keys(self.source.batches(wanted))
            return
        found, keys = [], []
        for batch, own in self._with_keys(self._held(wanted)):
            found.append(batch)
            keys.append(own)
        yield from self._by_time(found, keys, ascend(keys))

    def _at_first(self, columns: Sequence[str] | None) -> tuple[list[pa.RecordBatch], list[Int64s]] | None:
        """All batches and their keys, if they take little memory: what is costly to read, or in memory, is read once.

        If they take more, None; the times are known to be in order or not after that.
        """
        found: list[pa.RecordBatch] = []
        keys: list[Int64s] = []
        size = 0
        reading = self._with_keys(self.source.batches(columns))
        for batch, own in reading:
            found.append(batch)
            keys.append(own)
            size += 0 if self.source.held else batch.nbytes
            if size > _HELD_BYTES:
                found = []
                self.is_sorted = ascend(chain(keys, (later for _, later in reading)))
                return None
        self.is_sorted = ascend(keys)
        if not self.is_sorted:
            self.check_room(sum(map(len, keys)))
        return found, keys

    def _by_time(
        self, found: list[pa.RecordBatch], keys: list[Int64s], are_sorted: bool
    ) -> Iterable[tuple[pa.RecordBatch, Int64s]]:
        """The rows of these batches in order of their keys."""
        if are_sorted:
            self.order = None
            return zip(found, keys, strict=True)
        _log.info(
            "%s is not in order of '%s': its %d rows are sorted", called(self.name), self._time, sum(map(len, keys))
        )
        self.order, batches = by_time(found, keys, self.batch_rows)
        ordered, rows = np.concatenate(keys)[self.order], self.batch_rows
        return zip(batches, (ordered[k : k + rows] for k in range(0, len(ordered), rows)), strict=True)

    @cached_property
    def is_sorted(self) -> bool:
        """Whether the source is in order of time as it is; all its times are looked through for it."""
        return ascend(own for _, own in self._with_keys(self.source.look_through(self._time)))

    def _held(self, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        self.check_room(self.source.rows or 0)
        held = 0
        for batch in self.source.batches(columns):
            held += batch.num_rows
            self.check_room(held)
            yield batch

    def _with_keys(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[pa.RecordBatch, Int64s]]:
        type, seen = None, 0
        for batch in batches:
            batch, keys, type = time_keys(batch, self._time, type, called(self.name), seen)
            seen += batch.num_rows
            yield batch, keys

    def check_room(self, rows: int) -> None:
        """Refuse to hold more rows than are allowed."""
        if rows > self._max_rows:
            raise ResourceError(
                f"{called(self.name)} is not in order of '{self._time}', and sorting it would hold at least {rows:,} "
                f"rows in memory, but max_buffered_rows is {self._max_rows:,}: sort it first, or raise the limit",
                limit="max_buffered_rows",
            )


def put_in_order(sources: Sequence[Source], time: str | None, max_rows: int) -> list[Source]:
    """The sources, those that are bounded in order of time."""
    return [source if time is None or not source.replayable else InOrder(source, time, max_rows) for source in sources]


def caller_rows(sources: Sequence[Source]) -> Int64s | None:
    """Of the pass begun last: the caller's row of each event; None where that is its position.

    If several streams are merged, an event has no other number than its position.
    """
    (source,) = sources if len(sources) == 1 else (None,)
    return source.order if isinstance(source, InOrder) else None


def ascend(keys: Iterable[Int64s]) -> bool:
    """Whether the keys of one batch after another never decrease; reads no further than it must."""
    last: int | None = None
    for own in keys:
        if (last is not None and own[0] < last) or not in_order(own):
            return False
        last = int(own[-1])
    return True


def by_time(
    batches: list[pa.RecordBatch], keys: list[Int64s], batch_rows: int
) -> tuple[Int64s, Iterator[pa.RecordBatch]]:
    """The rows of these batches in order of their keys, rows of the same key as they stand; their numbers first."""
    order = np.argsort(np.concatenate(keys), kind="stable")
    rows = together(batches)
    parts = (order[first : first + batch_rows] for first in range(0, len(order), batch_rows))
    return order, (take_rows(rows, pa.array(part)) for part in parts)


def together(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """All rows in one batch."""
    fields = []
    for field in unify_schemas(batch.schema for batch in batches):
        type = wide_codes(field.type)
        if pa.types.is_string(type) or pa.types.is_binary(type):
            held = (batch.schema.get_field_index(field.name) for batch in batches)
            size = sum(batch.column(k).nbytes for batch, k in zip(batches, held, strict=True) if k >= 0)
            if size > _MOST_TEXT:
                type = pa.large_string() if pa.types.is_string(type) else pa.large_binary()
        fields.append(pa.field(field.name, type))
    schema = pa.schema(fields)
    return pa.concat_batches([conform(batch, schema) for batch in batches])
