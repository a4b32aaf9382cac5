"""Reads a source: once or again and again, with the events or without, ahead of the next reader or for good."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain

import numpy as np
import pyarrow as pa

from ceql.analysis.selection import Selection
from ceql.errors import DataError
from ceql.io.schemas import one_batch, take_rows
from ceql.recognition.aggregation import Aggregation
from ceql.recognition.match_source import MatchSource, Positions, RowsKept
from ceql.recognition.result_columns import positions_of
from ceql.results.match import EventRows, Match, to_matches

EVENT_ROWS = 1 << 16
_MATCH_ROWS = 1 << 10
_SPENT = (
    "these matches were already read, and their input (a reader or generator) can be read only once; "
    "keep the result of to_arrow(), or run over a table, frame, list or file"
)

Batches = Iterator[tuple[pa.RecordBatch, pa.Table | None]]
WithRows = Iterator[tuple[pa.RecordBatch, pa.Table]]


@dataclass(frozen=True)
class First:
    """The first matches for a view: in one batch, with the rows of their events where these are known."""

    matches: pa.RecordBatch
    rows: pa.RecordBatch | None
    total: int | None
    """How many matches there are; None if that is not known."""
    selection: Selection
    time: str | None = None
    """The column of times."""
    hidden: frozenset[str] = frozenset()
    """Attributes that events do not repeat, unless SELECT names them."""


class Reader:
    """The passes over a source, and what is kept of them."""

    def __init__(self, source: MatchSource) -> None:
        self._source = source
        self.table: pa.Table | None = None
        self.any: bool | None = None
        self._ahead: list[tuple[pa.RecordBatch, pa.Table | None]] = []
        self._pass: Iterator[pa.RecordBatch] | None = None
        self._spent = False
        self._cut_short = False  # the pass that spent the source, which may then be begun again
        self._kept: list[tuple[pa.RecordBatch, pa.Table]] | None = None  # of the only pass
        self._all_rows: pa.Table | None = None

    def spend(self) -> bool:
        """Whether the source can be read from its beginning; if only once, it cannot after this."""
        if not self._source.replayable:
            if self._spent or self._pass is not None:
                return False
            self._spent = True
        return True

    def read(self, rows: bool = False) -> Batches:
        """A pass that takes what was looked at ahead first: batches, and their events where the source is past them."""
        if self._kept is not None:
            return iter(self._kept)
        if rows and self.table is not None and self._source.rows_kept is RowsKept.ALL:
            return ((batch, None) for batch in self.table.to_batches())
        if self._source.replayable:
            return self._noting((batch, None) for batch in self._source.batches(rows))
        self._check_unspent()
        return self._only_pass(rows)

    def _only_pass(self, rows: bool) -> Batches:
        self._check_unspent()
        self._spent = self._cut_short = True
        ahead, self._ahead = self._ahead, []
        rest = self._source.batches(rows) if self._pass is None else self._pass
        yield from self._noting(chain(ahead, ((batch, None) for batch in rest)))
        self._cut_short = False

    def count(self) -> int:
        """The source's count, which is a pass over it."""
        self._cut_short = True
        found = self._source.count()
        self._cut_short = False
        return found

    def add_up(self, aggregation: Aggregation) -> None:
        """Add up all matches: by the source's own pass, or by those that can still be read."""
        if self.spend():
            self._cut_short = True
            self._source.add_up(aggregation)
            self._cut_short = False
            return
        for batch, rows in self.with_rows():
            aggregation.add(batch, partial(_events_at, batch, rows))

    def _check_unspent(self) -> None:
        if self._spent:
            if not (self._cut_short and self._source.restarts):
                raise DataError(_SPENT)
            self._spent = False
            self._ahead, self._pass = [], None

    def _noting(self, batches: Batches) -> Batches:
        """The batches; whether there are any matches is known after that."""
        for batch, rows in batches:
            self.any = self.any or batch.num_rows > 0 or None
            yield batch, rows
        self.any = bool(self.any)

    def peek(self, rows: bool = False) -> Batches:
        """Batches from the first on, as `read` gives them, without taking them from the next reader."""
        if self.table is not None and not rows:
            yield from ((batch, None) for batch in self.table.to_batches())
            return
        if self._kept is not None or self._source.replayable or self.table is not None:
            yield from self.read(rows)
            return
        self._check_unspent()
        if self._pass is None:
            self._pass = iter(self._source.batches(rows=True))
        yield from self._ahead
        while True:
            self._spent = self._cut_short = True  # unless it comes to the end of the loop
            if self._ahead and self._ahead[-1][1] is None and self._source.rows_kept is RowsKept.LAST:
                # the source is about to move on
                last = self._ahead[-1][0]
                self._ahead[-1] = (last, self._source.rows(positions_of(last)))
            batch = next(self._pass, None)
            if batch is not None:
                self._ahead.append((batch, None))
            self._spent = False
            if batch is None:
                return
            yield batch, None

    def first(self, n: int) -> First:
        """The first `n` matches; the input is read no further than one more."""
        source = self._source
        with_rows = source.rows_kept is not RowsKept.NONE
        if self.table is not None and self._kept is None and not source.replayable:
            with_rows = with_rows and source.rows_kept is RowsKept.ALL
        batches, tables, found, more = [], [], 0, False
        for batch, known in self.peek(rows=with_rows):
            piece = batch.slice(0, n - found)
            more = piece.num_rows < batch.num_rows
            if piece.num_rows:
                batches.append(piece)
                positions = positions_of(piece)
                if with_rows:
                    tables.append(source.rows(positions) if known is None else known.slice(0, len(positions)))
            found += piece.num_rows
            if more:
                break
        matches = one_batch(pa.Table.from_batches(batches, source.schema))
        rows = one_batch(pa.concat_tables(tables, promote_options="permissive")) if tables else None
        total = self.table.num_rows if self.table is not None else None if more else found
        hidden = source.selection.keys | {name for name in (source.type, source.time) if name is not None}
        return First(matches, rows, total, source.selection, source.time, hidden)

    def with_rows(self) -> WithRows:
        """The matches in batches of bounded size, each with the rows of its column `events`."""
        return self._with_rows(self.read(rows=True))

    def _with_rows(self, batches: Batches) -> WithRows:
        for batch, known in batches:
            done = 0
            for piece in pieces(batch):
                positions = positions_of(piece)
                if known is None:
                    rows = self._source.rows(positions)
                else:
                    rows = known.slice(done, len(positions))
                done += len(positions)
                yield piece, rows

    def all(self, weighed: Callable[[WithRows], WithRows] = iter) -> list[tuple[pa.RecordBatch, pa.Table]]:
        """All of `with_rows`, by way of `weighed`; kept if there is no second pass."""
        if self._kept is not None:
            return self._kept
        found = list(weighed(self.with_rows()))
        if not self._source.replayable:
            self._kept = found
            self.table = pa.Table.from_batches((batch for batch, _ in found), self._source.schema)
        return found

    def objects(self) -> Iterator[Match]:
        """The matches one by one, with their events."""
        return self._objects(self.read(rows=True)) if self.table is None else self._objects_of_table(self.table)

    def _objects(self, batches: Batches) -> Iterator[Match]:
        for batch, known in batches:
            done = 0
            for begin in range(0, batch.num_rows, _MATCH_ROWS):
                piece = batch.slice(begin, _MATCH_ROWS)
                positions, places = np.unique(positions_of(piece), return_index=True)
                if known is not None:
                    rows = pa.table(take_rows(one_batch(known), pa.array(places + done)))
                elif self._source.rows_kept is not RowsKept.NONE:
                    rows = self._source.rows(positions)
                else:
                    rows = None
                load = partial(self._source.rows, positions) if rows is None else partial(_given, rows)
                yield from to_matches(piece, EventRows(positions, load, self._source.selection))
                done += len(piece.column("events").flatten())

    def _objects_of_table(self, table: pa.Table) -> Iterator[Match]:
        """The matches of the kept table; their events are read when they are asked for."""
        done = 0
        for batch in table.to_batches(_MATCH_ROWS):
            positions = positions_of(batch)
            load = partial(self._rows_between, done, len(positions))
            yield from to_matches(batch, EventRows(positions, load, self._source.selection))
            done += len(positions)

    def _rows_between(self, first: int, n: int) -> pa.Table:
        """Of the events of all matches in a row, `n` from the first on."""
        if self._all_rows is None:
            tables = [rows for _, rows in self.all()]
            self._all_rows = pa.concat_tables(tables, promote_options="permissive")
        return self._all_rows.slice(first, n)


def pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Slices of at most EVENT_ROWS events, or of one match that has more."""
    ends = np.cumsum(np.asarray(batch.column("events").value_lengths()).astype(np.int64))
    start = 0
    while start < batch.num_rows:
        before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + EVENT_ROWS, side="right")))
        yield batch.slice(start, stop - start)
        start = stop


def _events_at(batch: pa.RecordBatch, rows: pa.Table, positions: Positions) -> pa.RecordBatch:
    """Of the rows of a batch's column `events`, those at these positions."""
    known, places = np.unique(positions_of(batch), return_index=True)
    return take_rows(one_batch(rows), pa.array(places[np.searchsorted(known, positions)]))


def _given(rows: pa.Table) -> pa.Table:
    return rows
