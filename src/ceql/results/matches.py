"""Matches: the lazy result that users hold.

Nothing is read before something is asked for, and no more than is asked for. Over an input that can be read
again, each call is a pass of its own (`to_arrow` keeps its table). Over a reader or generator there is one pass:
`head` and the views only look ahead, the first real reader takes it all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ceql.errors import DataError
from ceql.recognition.result_columns import NAME, unique_names
from ceql.results import views
from ceql.results.bindings import bindings, names_column, project

EVENT_ROWS = 1 << 16
_MATCH_ROWS = 1 << 10
_SHOWN = 10
_SPENT = (
    "these matches were already read, and their input (a reader or generator) can be read only once; "
    "keep the result of to_arrow(), or run over a table, frame, list or file"
)


class MatchSource(Protocol):
    """A query with its input, which finds the matches."""

    @property
    def schema(self) -> pa.Schema: ...

    @property
    def replayable(self) -> bool: ...

    @property
    def projections(self) -> Mapping[str, tuple[str, ...]]:
        """The attributes to show of a variable's events (`SELECT x[a, b]`); all, of variables that are not here."""

    def batches(self, rows: bool = False) -> Iterator[pa.RecordBatch]:
        """A pass over the input, in batches of bounded size; with `rows`, one whose events can be asked for."""

    def count(self) -> int:
        """The number of matches, by a pass that does not enumerate them."""

    def late(self) -> pa.Table:
        """The events of the last pass that came too late."""

    def rows(self, positions: npt.NDArray[np.int64]) -> pa.Table:
        """The events at these positions, in this order, repeats too: of the batch that came last of such a pass."""


@dataclass(frozen=True, slots=True)
class Match:
    """One match: its interval, the positions of its events, and those that each selected variable is bound to."""

    start: int
    end: int
    events: tuple[int, ...]
    bindings: dict[str, tuple[int, ...]] = field(default_factory=dict)
    start_time: Any = None
    end_time: Any = None
    partition: dict[str, Any] = field(default_factory=dict)


class Matches:
    """The matches of a query over an input, in order of their end. There is no len(): see `count`."""

    def __init__(self, source: MatchSource):
        self._source = source
        self._table: pa.Table | None = None
        self._count: int | None = None
        self._ahead: list[tuple[pa.RecordBatch, pa.Table | None]] = []
        self._pass: Iterator[pa.RecordBatch] | None = None
        self._spent = False

    @property
    def schema(self) -> pa.Schema:
        """The columns: start, end, times, partition keys, events, one per selected variable."""
        return self._source.schema

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The matches as record batches of bounded size, found as they are asked for."""
        if self._table is not None:
            return iter(self._table.to_batches())
        return (batch for batch, _ in self._read())

    def to_reader(self) -> pa.RecordBatchReader:
        """The same as a reader, for whatever takes one."""
        return pa.RecordBatchReader.from_batches(self.schema, self.to_batches())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def to_arrow(self) -> pa.Table:
        """All matches as a table, which is kept."""
        if self._table is None:
            self._table = pa.Table.from_batches(self.to_batches(), self.schema)
        return self._table

    def to_pandas(self) -> Any:
        """All matches as a pandas.DataFrame."""
        _require("pandas")
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """All matches as a polars.DataFrame."""
        return _require("polars").from_arrow(self.to_arrow())

    def __iter__(self) -> Iterator[Match]:
        return _matches(self.to_batches(), self.schema)

    def iter_events(self) -> Iterator[pa.RecordBatch]:
        """The events of the matches, in record batches of bounded size; see `events` for the columns."""
        return self._explode(self.with_rows())

    def with_rows(self) -> Iterator[tuple[pa.RecordBatch, pa.Table]]:
        """The matches in record batches of bounded size, each with the rows of their column `events`, in its order."""
        return self._with_rows(self._read(rows=True))

    def events(self) -> pa.Table:
        """The events of all matches, one row for each event of each match.

        Columns: `match` (which match, from 0), `position`, `variables` (the selected ones it is bound to), then those
        of the input; one that is called like the first three gets an underscore at its end. Where SELECT names
        attributes (`x[a, b]`), the others are NULL.
        """
        batches = list(self.iter_events())
        if not batches:
            empty = pa.RecordBatch.from_pylist([], self.schema)
            batches = [self.event_rows(empty, self._source.rows(np.zeros(0, np.int64)), 0)]
        # the columns of dicts may grow on the way
        return pa.concat_tables([pa.table(batch) for batch in batches], promote_options="permissive")

    def count(self) -> int:
        """How many matches there are; they are counted without being enumerated where that is possible."""
        if self._count is None:
            if self._table is not None:
                self._count = int(self._table.num_rows)
            elif self._source.replayable or (self._pass is None and not self._spent):
                self._spent = not self._source.replayable
                self._count = int(self._source.count())
            else:
                self._count = sum(batch.num_rows for batch in self.to_batches())
        return self._count

    def late(self) -> pa.Table:
        """The events that came later than the lateness allows, and took no part."""
        return self._source.late()

    def head(self, n: int = 10) -> pa.Table:
        """The first `n` matches; the input is read no further than these need."""
        batches, missing = [], n
        for batch in self._peek() if n > 0 else ():
            batches.append(batch.slice(0, missing))
            missing -= batches[-1].num_rows
            if missing <= 0:
                break
        return pa.Table.from_batches(batches, self.schema)

    def __repr__(self) -> str:
        return self._view(views.text, lambda why: f"<Matches: {views.clean(why)}>")

    def _repr_html_(self) -> str:
        return self._view(views.html, views.html_note)

    def _view(self, render: views.Render, note: views.Note) -> str:
        """The first matches; a view never fails, since a debugger or a notebook may ask at any time."""
        try:
            table = self.head(_SHOWN + 1)
            return render(table.slice(0, _SHOWN), table.num_rows > _SHOWN)
        except Exception as error:
            return note(str(error) or type(error).__name__)

    def _read(self, rows: bool = False) -> Iterator[tuple[pa.RecordBatch, pa.Table | None]]:
        """A pass that takes what was looked at ahead first: batches, and their events where the source is past them."""
        if self._source.replayable:
            return ((batch, None) for batch in self._source.batches(rows))
        if self._spent:
            raise DataError(_SPENT)
        self._spent = True
        ahead, self._ahead = self._ahead, []
        rest = self._source.batches(rows) if self._pass is None else self._pass
        return chain(ahead, ((batch, None) for batch in rest))

    def _peek(self) -> Iterator[pa.RecordBatch]:
        """Batches from the first on, without taking them from the next reader."""
        if self._table is not None or self._source.replayable:
            yield from self.to_batches()
            return
        if self._spent:
            raise DataError(_SPENT)
        if self._pass is None:
            self._pass = iter(self._source.batches(rows=True))
        yield from (batch for batch, _ in self._ahead)
        while True:
            if self._ahead and self._ahead[-1][1] is None:
                # the source knows only the events of the batch that came last, and is about to move on
                last = self._ahead[-1][0]
                self._ahead[-1] = (last, self._source.rows(_positions(last)))
            batch = next(self._pass, None)
            if batch is None:
                return
            self._ahead.append((batch, None))
            yield batch

    def _with_rows(
        self, batches: Iterator[tuple[pa.RecordBatch, pa.Table | None]]
    ) -> Iterator[tuple[pa.RecordBatch, pa.Table]]:
        for batch, known in batches:
            done = 0
            for piece in pieces(batch):
                positions = _positions(piece)
                if known is None:
                    rows = self._source.rows(positions)
                else:
                    rows = known.slice(done, len(positions))
                done += len(positions)
                yield piece, rows

    def _explode(self, batches: Iterator[tuple[pa.RecordBatch, pa.Table]]) -> Iterator[pa.RecordBatch]:
        first = 0
        for batch, rows in batches:
            if rows.num_rows:
                yield self.event_rows(batch, rows, first)
            first += batch.num_rows

    def event_rows(self, batch: pa.RecordBatch, rows: pa.Table, first: int) -> pa.RecordBatch:
        """The rows that `events` shows of a batch of `with_rows`; `first` is the number of its first match."""
        _, names = _names(self.schema)
        events = batch.column("events")
        after = self.schema.get_field_index("events") + 1
        found = bindings(events, batch.columns[after:])
        lengths = np.asarray(events.value_lengths()).astype(np.int64)
        data = rows.combine_chunks().to_batches()
        shown = project(data[0], found, names, self._source.projections) if data else rows
        columns = [
            pa.array(np.repeat(np.arange(first, first + batch.num_rows), lengths)),
            pa.array(_positions(batch)),
            names_column(found, names),
        ]
        own = ["match", "position", "variables"]
        columns += shown.columns if data else [pa.nulls(0, type) for type in rows.schema.types]
        return pa.RecordBatch.from_arrays(columns, names=own + unique_names(rows.schema.names, taken=own))


def _positions(batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """The events of all matches in a row."""
    return np.asarray(batch.column("events").flatten())


def pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Slices of at most EVENT_ROWS events, or of one match that has more."""
    ends = np.cumsum(np.asarray(batch.column("events").value_lengths()).astype(np.int64))
    start = 0
    while start < batch.num_rows:
        before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + EVENT_ROWS, side="right")))
        yield batch.slice(start, stop - start)
        start = stop


def _names(schema: pa.Schema) -> tuple[list[str], list[str]]:
    """The partition keys and the variables by their true names."""
    names = [(f.metadata or {}).get(NAME, f.name.encode()).decode() for f in schema]
    middle = schema.get_field_index("events")
    return names[4 if "end_time" in schema.names else 2 : middle], names[middle + 1 :]


def _matches(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[Match]:
    keys, variables = _names(schema)
    middle = schema.get_field_index("events")
    first_key = middle - len(keys)
    for batch in batches:
        for begin in range(0, batch.num_rows, _MATCH_ROWS):
            columns = [column.to_pylist() for column in batch.slice(begin, _MATCH_ROWS).columns]
            for row in zip(*columns, strict=True):
                start_time, end_time = row[2:first_key] or (None, None)
                bound = dict(zip(variables, map(tuple, row[middle + 1 :]), strict=True))
                partition = dict(zip(keys, row[first_key:middle], strict=True))
                yield Match(row[0], row[1], tuple(row[middle]), bound, start_time, end_time, partition)


def _require(module: str) -> Any:
    try:
        return __import__(module)
    except ImportError as error:
        raise ImportError(f"to_{module}() needs {module}: pip install 'ceql[{module}]'") from error
