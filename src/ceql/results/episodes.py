"""Episodes: matches of a key that overlap, or that are near each other, as one row.

In: the batches of matches. Out: a table. Two matches of one key belong to one episode if the later one begins no more
than `gap` after the earlier one's end, and so on from match to match. Each batch is united by itself; what is held is
united again whenever it has doubled, so that memory depends on episodes and their events, not on matches.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import timedelta
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ceql.errors import ArgumentError
from ceql.io.sort_keys import bounds, encode, ticks
from ceql.jit import Array
from ceql.recognition.options import duration
from ceql.recognition.result_columns import as_lists, unique_names

Gap = str | int | float | timedelta | None
_OWN = ("matches", "events")
_FEW = 1 << 14  # rows that are held before they are united


class _Held(NamedTuple):
    """Matches, or episodes that may still become one."""

    ends: pa.Table
    """The columns of the matches up to `events`: start, end, times, keys."""
    matches: Array
    owner: Array
    """Of each event: the row that has it."""
    position: Array


def episodes(batches: Iterable[pa.RecordBatch], schema: pa.Schema, gap: Gap = None) -> pa.Table:
    """The episodes of matches, in order of their start; see `Matches.episodes`."""
    before = schema.get_field_index("events")
    names = unique_names([*schema.names[:before], *_OWN], taken=())
    work = _Uniting(schema.names[:before], schema, gap)
    for batch in batches:
        work.add(batch)
    found = work.all()
    columns = [
        *found.ends.columns,
        pa.array(found.matches),
        pa.array(np.bincount(found.owner, minlength=len(found.matches))),
    ]
    table = pa.table(columns, names)
    by = ["start_time", "start"] if work.time is not None else ["start"]
    return table.sort_by([(name, "ascending") for name in by])


class _Uniting:
    def __init__(self, names: list[str], schema: pa.Schema, gap: Gap) -> None:
        self.names = names
        self.time = schema.field("start_time").type if "start_time" in names[2:3] else None
        self.keys = names[2 if self.time is None else 4 :]
        self.width = width_of(gap, self.time)
        empty = pa.table([pa.nulls(0, field.type) for field in list(schema)[: len(names)]], names)
        self.held = _Held(empty, *(np.zeros(0, np.int64) for _ in range(3)))
        self.new: list[_Held] = []
        self.waiting = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Take in a batch of matches."""
        if not batch.num_rows:
            return
        lists = as_lists(batch.column("events"))
        owner = np.repeat(np.arange(batch.num_rows), np.asarray(lists.value_lengths()).astype(np.int64))
        ends = pa.table(batch.columns[: len(self.names)], self.names)
        one = _Held(ends, np.ones(batch.num_rows, np.int64), owner, np.asarray(lists.flatten()).astype(np.int64))
        self.new.append(self._united(one))
        self.waiting += len(self.new[-1].position)
        if self.waiting > max(_FEW, len(self.held.position)):
            self.all()

    def all(self) -> _Held:
        """What all matches so far are united to."""
        if self.new:
            every = [self.held, *self.new]
            first = np.cumsum([0, *(one.ends.num_rows for one in every)])
            owner = [one.owner + begin for one, begin in zip(every, first, strict=False)]
            ends = pa.concat_tables([one.ends for one in every], promote_options="permissive").combine_chunks()
            matches, position = (np.concatenate([one[k] for one in every]) for k in (1, 3))
            self.held = self._united(_Held(ends, matches, np.concatenate(owner), position))
            self.new, self.waiting = [], 0
        return self.held

    def _united(self, one: _Held) -> _Held:
        key, start, end = self._keys(one.ends), self._order(one.ends, "start"), self._order(one.ends, "end")
        order = np.lexsort((one.ends["start"].to_numpy(), start, key))
        key, start, end = key[order], start[order], end[order]
        # places in order of key and end: their greatest so far is that of the same key
        by_end = np.lexsort((one.ends["end"].to_numpy()[order], end, key))
        place = np.empty(len(order), np.int64)
        place[by_end] = np.arange(len(order))
        latest = by_end[np.maximum.accumulate(place)]
        begins = np.ones(len(order), np.bool_)
        begins[1:] = (key[1:] != key[:-1]) | (end[latest[:-1]] < self._least(start[1:]))
        row = np.cumsum(begins) - 1
        first = np.flatnonzero(begins)
        last = latest[np.append(first[1:], len(order)) - 1]
        ends = self._outermost(one.ends, order[first], order[last])
        number = np.empty(len(order), np.int64)
        number[order] = row
        pairs = np.stack([number[one.owner], one.position], axis=1)
        pairs = pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]
        new = np.ones(len(pairs), np.bool_)
        new[1:] = (pairs[1:] != pairs[:-1]).any(axis=1)
        matches = np.bincount(row, one.matches[order], len(first)).astype(np.int64)
        return _Held(ends, matches, pairs[new, 0], pairs[new, 1])

    def _outermost(self, ends: pa.Table, first: Array, last: Array) -> pa.Table:
        """The row of each episode: its first match's start, its last one's end."""
        columns = [ends[name].take(pa.array(last if name in ("end", "end_time") else first)) for name in self.names]
        return pa.table(columns, self.names)

    def _keys(self, ends: pa.Table) -> Array:
        """A number for the key of each row."""
        key: Array = np.zeros(ends.num_rows, np.int64)
        for name in self.keys:
            column = ends[name].combine_chunks()
            column = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
            code = pc.dictionary_encode(column, null_encoding="encode").indices.to_numpy()
            _, key = np.unique(key * (int(code.max(initial=0)) + 1) + code, return_inverse=True)
        return key

    def _order(self, ends: pa.Table, which: str) -> Array:
        """The starts or ends as numbers in order: of times where there is time."""
        column = ends[which if self.time is None else f"{which}_time"].combine_chunks()
        return np.asarray(encode(column, which) if self.time is not None else column.to_numpy())

    def _least(self, start: Array) -> Array:
        """The least end of what may come before matches that start here."""
        if self.time is None:
            return np.asarray(start - int(self.width))
        return np.asarray(bounds(start, self.time, self.width))


def width_of(gap: Gap, time: pa.DataType | None) -> Fraction:
    """The gap in units of the time column, or in events where there is no time; `ArgumentError` if it is none."""
    if gap is None:
        return Fraction(0)
    width: Fraction | None = None
    if isinstance(gap, str | timedelta) and time is not None and pa.types.is_temporal(time):
        try:
            nanoseconds = duration(gap) if isinstance(gap, str) else (gap // timedelta(microseconds=1)) * 1000
        except ValueError as error:
            raise ArgumentError(f"gap: {error}") from error
        width = ticks(nanoseconds, time, None)
    elif isinstance(gap, int | float) and not isinstance(gap, bool) and math.isfinite(gap):
        counts_events, is_number = time is None and gap == int(gap), time is not None and not pa.types.is_temporal(time)
        width = Fraction(gap) if counts_events or is_number else None
    if width is not None and width >= 0:
        return width
    if time is None:
        raise ArgumentError(f"there is no time column: gap= is a number of events from 0 up, not {gap!r}")
    if pa.types.is_temporal(time):
        raise ArgumentError(f"gap= is a duration such as '5 minutes' or a timedelta, not {gap!r}")
    raise ArgumentError(f"times are plain numbers ({time}): gap= is a number in their unit from 0 up, not {gap!r}")
