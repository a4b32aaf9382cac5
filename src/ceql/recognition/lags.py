"""Lags as columns of the events: what an attribute was some events before, in the substream.

In: a batch, and the substream of each row. Out: the batch with a column for each lag (`analysis.neighbours`), computed
for all rows at once: one pass over the substreams' numbers says where the events before are, and Arrow takes the values
from there, whatever their type. The last events of each substream are kept for the next batch. The rows that were kept
lie in pieces of doubling size, so that neither few nor many substreams make a small batch dear.

No match needs an event that no partial match has, so what is kept of a substream goes when the engine forgets it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import accumulate

import numpy as np
import pyarrow as pa

from ceql.analysis.neighbours import Lag, lag_name
from ceql.engine.common.check import require
from ceql.io.schemas import conform, take_rows
from ceql.jit import Array
from ceql.recognition.lag_kernels import keep_last, look_back
from ceql.recognition.lag_words import LagWords, in_words

_MOST_BITS = 62  # of a word, which says which of the latest values there are
_THIN_OUT = 1 << 16  # kept rows that no substream has any more, besides as many as those that it has


def with_lags(schema: pa.Schema, lags: tuple[Lag, ...]) -> pa.Schema:
    """The schema with a column for each lag of an attribute that it has."""
    for attribute, steps in lags:
        index = schema.get_field_index(attribute)
        if index >= 0:
            field = schema.field(index).with_name(lag_name((attribute, steps))).with_nullable(True)
            schema = schema.append(field)
    return schema


class LaggedEvents:
    """The last events of each substream, and the lags of the events that come."""

    def __init__(self, lags: tuple[Lag, ...]) -> None:
        self.lags = lags
        self.depth = max(steps for _, steps in lags)
        self._names = tuple(dict.fromkeys(attribute for attribute, steps in lags if steps))
        self._pieces: list[pa.RecordBatch] = []
        self._kept = 0  # rows of the pieces
        self._thinned = 0  # those that were left when they were last looked through
        self._last: Array = np.full((1, max(1, self.depth)), -1, np.int64)
        self._words: dict[str, LagWords] = {}
        """The latest values, in place of rows, where all attributes are numbers and times."""

    @property
    def nbytes(self) -> int:
        """The memory that the kept events take."""
        words = sum(words.nbytes for words in self._words.values())
        return int(self._last.nbytes) + words + sum(int(piece.get_total_buffer_size()) for piece in self._pieces)

    def extended(self, batch: pa.RecordBatch, partitions: Array, count: int) -> pa.RecordBatch:
        """The batch with its lags, given the substream of each row, of `count` substreams; its events are past then."""
        rows = batch.num_rows
        own = self._own(batch)
        columns: dict[Lag, pa.Array] = {}
        if self.depth and own is not None and self._has_words(own, count):
            for name, words in self._words.items():
                wanted = [steps for attribute, steps in self.lags if attribute == name and steps]
                found = words.lags(own.column(name), partitions, wanted, count)
                columns |= {(name, k): column for k, column in zip(wanted, found, strict=True)}
        elif self.depth and own is not None:
            if count > len(self._last):
                more = np.full((max(count - len(self._last), len(self._last)), self.depth), -1, np.int64)
                self._last = np.concatenate([self._last, more])
            places, wanted = np.empty((2, self.depth, rows), np.int64)
            counts: Array = np.zeros(self.depth, np.int64)
            look_back(partitions, self._last, self._kept, places, wanted, counts)
            for k in range(self.depth):
                before = self._take(wanted[k, : counts[k]], own.schema)
                for attribute, steps in self.lags:
                    if steps == k + 1 and attribute in own.schema.names:
                        mine = own.column(attribute)
                        taken = [] if before is None else [before.column(attribute)]
                        values = pa.concat_arrays([mine, pa.nulls(1, mine.type), *taken])
                        columns[attribute, steps] = values.take(pa.array(places[k]))
            self._keep(own, partitions)
        for attribute, steps in self.lags:
            index = batch.schema.get_field_index(attribute)
            if index >= 0:
                column = columns.get((attribute, steps))
                column = pa.nulls(rows, batch.schema.field(index).type) if column is None else column
                batch = batch.append_column(lag_name((attribute, steps)), column)
        return batch

    def _own(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        """The columns that are asked for later, without codes, which are those of one batch."""
        columns = {}
        for name in self._names:
            index = batch.schema.get_field_index(name)
            if index >= 0:
                column = batch.column(index)
                columns[name] = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
        return pa.record_batch(columns) if columns else None

    def _has_words(self, own: pa.RecordBatch, count: int) -> bool:
        """Whether the latest values are kept as words: from the first events on, while the columns stay as they are."""
        types = {name: own.schema.field(name).type for name in own.schema.names}
        if self._words:
            if {name: words.type for name, words in self._words.items()} == types:
                return True
            arrays, tables = self.state(np.arange(count))  # go on with rows
            self._words = {}
            self._put_rows(arrays["last"], tables.get("last"))
        elif not self._kept and self.depth <= _MOST_BITS and all(map(in_words, types.values())):
            self._words = {name: LagWords(type, self.depth, count) for name, type in types.items()}
        return bool(self._words)

    # --- kept rows ---

    def _take(self, rows: Array, schema: pa.Schema) -> pa.RecordBatch | None:
        """Kept rows, in this order."""
        if not len(rows):
            return None
        self._conform(schema)
        if len(self._pieces) > 1 and 8 * len(rows) > self._kept:
            self._pieces = [_joined(self._pieces)]
        if len(self._pieces) == 1:
            return take_rows(self._pieces[0], pa.array(rows))
        found, order = [], []
        for first, piece in zip(self._firsts(), self._pieces, strict=True):
            here = np.flatnonzero((rows >= first) & (rows < first + piece.num_rows))
            if len(here):
                found.append(take_rows(piece, pa.array(rows[here] - first)))
                order.append(here)
        back = np.empty(len(rows), np.int64)
        back[np.concatenate(order)] = np.arange(len(rows))
        return take_rows(_joined(found), pa.array(back))

    def _firsts(self) -> Iterator[int]:
        return accumulate((piece.num_rows for piece in self._pieces[:-1]), initial=0)

    def _conform(self, schema: pa.Schema) -> None:
        """Let kept rows have these columns: an open schema grows."""
        if self._pieces and not self._pieces[-1].schema.equals(schema):
            self._pieces = [conform(piece, schema, open_schema=True) for piece in self._pieces]

    def _keep(self, own: pa.RecordBatch, partitions: Array) -> None:
        """Keep the rows of a batch that are the last of their substreams."""
        self._conform(own.schema)
        rows: Array = np.empty(len(partitions), np.int64)
        count = keep_last(partitions, self._last, self._kept, rows)
        if count:
            self._pieces.append(take_rows(own, pa.array(rows[:count])))
            self._kept += count
        while len(self._pieces) > 1 and 2 * self._pieces[-1].num_rows >= self._pieces[-2].num_rows:
            self._pieces[-2:] = [_joined(self._pieces[-2:])]
        if self._kept > 2 * self._thinned + _THIN_OUT:
            self._thin_out()

    def _thin_out(self) -> None:
        alive = self._renumber(self._last)
        self._pieces = [take_rows(_joined(self._pieces), pa.array(alive))] if len(alive) else []
        self._kept = self._thinned = len(alive)

    def _renumber(self, last: Array) -> Array:
        """The kept rows that substreams have, ascending; `last` is told their places among these."""
        marked = np.zeros(self._kept + 1, np.bool_)
        marked[last] = True
        marked[-1] = False  # where -1 is
        places = np.cumsum(marked) - 1
        places[-1] = -1
        last[:] = places[last]
        return np.flatnonzero(marked)

    def forget(self, partitions: Array) -> None:
        """Forget the events of these substreams."""
        for words in self._words.values():
            words.forget(partitions)
        self._last[partitions[partitions < len(self._last)]] = -1

    # --- state ---

    def state(self, partitions: Array) -> tuple[dict[str, Array], dict[str, pa.RecordBatch]]:
        """Where the last events of these substreams are, and the rows."""
        if not self.depth:
            return {}, {}
        last = np.full((len(partitions), self.depth), -1, np.int64)
        if self._words:
            known = np.any([words.known(partitions) for words in self._words.values()], axis=0)
            last[known] = np.arange(np.count_nonzero(known))
            columns = {name: words.values(partitions, known) for name, words in self._words.items()}
            return {"last": last}, {"last": pa.record_batch(columns)} if known.any() else {}
        known = partitions < len(self._last)
        last[known] = self._last[partitions[known]]
        alive = self._renumber(last)
        rows = {"last": take_rows(_joined(self._pieces), pa.array(alive))} if len(alive) else {}
        return {"last": last}, rows

    def restore(self, arrays: Mapping[str, Array], tables: Mapping[str, pa.RecordBatch], count: int) -> None:
        """Continue from a `state` of `count` substreams."""
        if not self.depth:
            return
        last, rows = arrays["last"], tables.get("last")
        kept = rows.num_rows if rows is not None else 0
        sound = last.shape == (count, self.depth) and bool(((last >= -1) & (last < kept)).all())
        require(sound, "the last events of its substreams are not there")
        require(rows is None or set(rows.schema.names) <= set(self._names), "its last events have other columns")
        self._words = {}
        if (
            rows is not None
            and kept
            and self.depth <= _MOST_BITS
            and all(in_words(field.type) for field in rows.schema)
        ):
            self._words = {field.name: LagWords(field.type, self.depth, count) for field in rows.schema}
            for name, words in self._words.items():
                words.put(last, rows.column(name))
        else:
            self._put_rows(last, rows)

    def _put_rows(self, last: Array, rows: pa.RecordBatch | None) -> None:
        kept = rows.num_rows if rows is not None else 0
        self._last = np.array(last, np.int64).reshape(-1, self.depth) if len(last) else self._last
        self._pieces = [rows] if rows is not None and kept else []
        self._kept = self._thinned = kept


def _joined(pieces: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Batches as one."""
    if len(pieces) == 1:
        return pieces[0]
    schema = pieces[0].schema
    columns = [pa.concat_arrays([piece.column(k) for piece in pieces]) for k in range(len(schema))]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
