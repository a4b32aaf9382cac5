"""Matches: the lazy result that users hold.

Nothing is read before something is asked for, and no more than is asked for. Over an input that can be read
again, each call is a pass of its own (`to_arrow` keeps its table). Over a reader or generator there is one pass:
`head`, `bool` and the views only look ahead, the first real reader takes it all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import numpy as np
import pyarrow as pa

from ceql.analysis.aggregates import read_summaries
from ceql.errors import DataError, ResourceError
from ceql.io.schemas import conform, one_batch, unify_schemas
from ceql.recognition.match_source import MatchSource
from ceql.recognition.result_columns import positions_of, unique_names, variable_fields
from ceql.recognition.totals_table import Every, Request
from ceql.results import views
from ceql.results.bindings import bindings, names_column, project
from ceql.results.episodes import Gap, episodes
from ceql.results.explorer import Explorer
from ceql.results.match import Match, true_names
from ceql.results.match_ids import MatchIds, names_of, with_ids
from ceql.results.reader import First, Reader, WithRows
from ceql.results.tables import long, wide
from ceql.results.text import clean
from ceql.results.timeline import Timeline

if TYPE_CHECKING:
    import pandas
    import polars

_SHOWN = 10
_MUCH = 8  # the share of the memory from which on it pays to count what is to come: that is another pass

EventsAs = Literal["rows", "wide", "long"]
"""The ways in which a table shows events: by their rows' numbers, as columns of the match, as rows of their own."""


class Matches:
    """The matches of a query over an input, in order of their end. There is no len(): see `count`."""

    def __init__(self, source: MatchSource, memory: int = 4 << 30, name: str | None = None):
        self._source = source
        self._name = name
        self._memory = memory
        self._reader = Reader(source)
        self._count: int | None = None
        self._looked: tuple[int, First] | None = None

    @property
    def schema(self) -> pa.Schema:
        """The columns: start, end, times, partition keys, events, one per selected variable, one per measure."""
        return self._source.schema

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The matches as record batches of bounded size, found as they are asked for."""
        if self._reader.table is not None:
            return iter(self._reader.table.to_batches())
        return (batch for batch, _ in self._reader.read())

    def to_reader(self) -> pa.RecordBatchReader:
        """The same as a reader, for whatever takes one."""
        return pa.RecordBatchReader.from_batches(self.schema, self.to_batches())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def to_arrow(self, events: EventsAs = "rows") -> pa.Table:
        """All matches as a table.

        `events` says how it shows their events:

        - "rows": lists of row numbers (positions), in the column `events` and one for each selected variable.
        - "wide": the attributes, in columns `x.a` for each selected variable x and attribute a; lists, if x may
          be bound to several events.
        - "long": a row for each event of each match, with `match` (its number), `variable`, `row` and the attributes.

        `SELECT x[a, b]` shows the attributes it names; partition keys are shown in any case.
        """
        if events != "rows":
            return self._table_of(events)
        if self._reader.table is None:
            with self._within_memory() as weighed:
                self._reader.table = pa.Table.from_batches(weighed(self.to_batches()), self.schema)
        return self._reader.table

    def to_pandas(self, events: EventsAs = "rows") -> pandas.DataFrame:
        """All matches as a pandas.DataFrame; for `events` see `to_arrow`."""
        _require("pandas")
        table = self.to_arrow(events)
        try:
            return table.to_pandas()
        except pa.ArrowException as error:
            raise DataError(f"pandas cannot hold a column: {error}; to_arrow() and to_polars() keep it") from error

    def to_polars(self, events: EventsAs = "rows") -> polars.DataFrame:
        """All matches as a polars.DataFrame; for `events` see `to_arrow`."""
        return _require("polars").from_arrow(self.to_arrow(events))

    def __iter__(self) -> Iterator[Match]:
        return self._reader.objects()

    def __bool__(self) -> bool:
        """True if there are any matches; the input is read no further than the first."""
        if self._reader.any is None:
            self._reader.any = (self.head(1).num_rows if self._count is None else self._count) > 0
        return self._reader.any

    def __len__(self) -> NoReturn:
        raise TypeError("matches are found as they are read, so that they have no len(): write matches.count()")

    def __getitem__(self, number: object) -> NoReturn:
        raise TypeError(
            "matches are found as they are read, so that they have no numbers: write list(matches)[0], "
            "next(iter(matches)) for the first one, or matches.head(10) for a table of the first ten"
        )

    def with_ids(self, id: str | Sequence[str] | None = None, name: str = "match_id") -> pa.Table:
        """All matches as a table, whose first column (`name`) has an id of each: 32 hexadecimal digits.

        It is a hash (128 bits) of the query, the keys and the events of each variable, the same in every run, batching,
        time zone and process, and the same that `ceql.spark.match` gives with `match_id=`: the key to merge, upsert or
        deduplicate by. `id` is the column (or columns) that identifies an event; without it, an event is told by all of
        its values. A query that is one of a set is told by its name there, any other by its meaning.
        """
        ids = MatchIds(self._name or self._source.plans[0].fingerprint, names_of(id))
        with self._within_memory() as weighed:
            return with_ids(iter(self._reader.all(weighed)), self.schema, ids, name)

    def iter_events(self) -> Iterator[pa.RecordBatch]:
        """The events of the matches, in record batches of bounded size; see `events` for the columns."""
        return self._explode(self.with_rows())

    def with_rows(self) -> WithRows:
        """The matches in record batches of bounded size, each with the rows of their column `events`, in its order."""
        return self._reader.with_rows()

    def events(self) -> pa.Table:
        """The events of all matches, one row for each event of each match.

        Columns: `match` (which match, from 0), `position`, `variables` (the selected ones it is bound to), then those
        of the input; one that is called like the first three gets an underscore at its end. Where SELECT names
        attributes (`x[a, b]`), the others are NULL, but for partition keys.
        """
        with self._within_memory() as weighed:
            batches = list(weighed(self.iter_events()))
        if not batches:
            empty = pa.RecordBatch.from_pylist([], self.schema)
            batches = [self.event_rows(empty, self._no_rows(), 0)]
        # the columns of dicts may grow on the way
        return pa.concat_tables([pa.table(batch) for batch in batches], promote_options="permissive")

    def count(self) -> int:
        """Count the matches, without enumerating them where that is possible."""
        if self._count is None:
            if self._reader.table is not None:
                self._count = int(self._reader.table.num_rows)
            elif self._reader.spend():
                self._count = int(self._reader.count())
            else:
                self._count = sum(batch.num_rows for batch in self.to_batches())
        return self._count

    def aggregate(
        self,
        columns: Mapping[str, str] | None = None,
        /,
        *,
        by: Sequence[str] | str = (),
        every: Every = None,
        **more: str,
    ) -> pa.Table:
        """Totals over all matches, without enumerating them where that is possible.

        Each column is an aggregate: `n="COUNT(*)"` counts matches, and `COUNT(x)`, `SUM(x.a)`, `AVG(x.a)`, `MIN(x.a)`
        and `MAX(x.a)` are over each event of x in each match. NULL is skipped. `by` names keys of PARTITION BY, and
        `every` (`"1 minute"`) divides matches by the time of their end: a row for each combination, in order. Columns
        of other names than arguments can be are given as a dict.

        Whole numbers are exact, whatever their size: int64 if all of a column fit, else decimal128(38, 0), else
        decimal256(76, 0), else text. The manual says which queries' matches are enumerated for it.
        """
        keys = (by,) if isinstance(by, str) else tuple(by)
        request = Request(read_summaries(self._source.query, {**(columns or {}), **more}), keys, every)
        aggregation = self._source.aggregation(request)
        self._reader.add_up(aggregation)
        return aggregation.table()

    def episodes(self, gap: Gap = None) -> pa.Table:
        """Matches of a key that overlap, or are no more than `gap` apart, united: a row for each such episode.

        Columns: `start`, `end` (positions); `start_time`, `end_time` where there is time; the keys of PARTITION BY;
        `matches`, how many there are; `events`, how many different events they show. In order of the start.

        `gap` is from the latest end so far to the next start: `"5 minutes"` or a timedelta; a number in the unit of
        times where these are plain numbers, and a number of events where there is no time. Without it, matches must
        overlap or touch. All matches are enumerated, and as much is held as episodes and their events take.
        """
        return episodes(self.to_batches(), self.schema, gap)

    def late(self) -> pa.Table:
        """The events that came later than the lateness allows, and took no part."""
        return self._source.late()

    def head(self, n: int = 10) -> pa.Table:
        """The first `n` matches; the input is read no further than these need."""
        batches, missing = [], n
        for batch, _ in self._reader.peek() if n > 0 else ():
            batches.append(batch.slice(0, missing))
            missing -= batches[-1].num_rows
            if missing <= 0:
                break
        return pa.Table.from_batches(batches, self.schema)

    def _first(self, n: int) -> First:
        """The first matches with their rows; kept, since a notebook asks for text and HTML both."""
        if self._looked is None or self._looked[0] != n:
            self._looked = n, self._reader.first(n)
        first = self._looked[1]
        return replace(first, total=self._count) if first.total is None else first

    def timeline(self, n: int = _SHOWN) -> Timeline:
        """A picture of the first `n` matches: a lane for each, its events as marks at their times."""
        return Timeline(self._first(n))

    def explore(self, n: int = 100) -> Explorer:
        """The first `n` matches as one piece of HTML: a timeline that zooms, a table that sorts, the events of a match.

        A notebook shows it, `save("matches.html")` writes a page. All data are inside; nothing is fetched.
        """
        return Explorer(self._first(n))

    def __repr__(self) -> str:
        return self._view(views.text, lambda why: f"<Matches: {clean(why)}>")

    def _repr_html_(self) -> str:
        return self._view(_html, views.html_note)

    def _view(self, render: Callable[[First], str], note: Callable[[str], str]) -> str:
        """The first matches; a view never fails, since a debugger or a notebook may ask at any time."""
        try:
            return render(self._first(_SHOWN))
        except Exception as error:
            return note(str(error) or type(error).__name__)

    @contextmanager
    def _within_memory(self) -> Iterator[Callable[[Iterable[Any]], Iterator[Any]]]:
        """For what holds all matches at once: has a function that weighs them on their way, and stops at the limit."""

        def weighed(pieces: Iterable[Any]) -> Iterator[Any]:
            held, rows, foreseen = 0, 0, False
            for piece in pieces:
                parts = piece if isinstance(piece, tuple) else (piece,)
                held += sum(part.nbytes for part in parts)
                rows += parts[0].num_rows
                if held > self._memory // _MUCH and not foreseen:
                    foreseen = True
                    self._foresee(held, rows)
                if held > self._memory:
                    raise self._too_many(f"more than {self._memory:,} bytes")
                yield piece

        try:
            yield weighed
        except MemoryError as error:
            raise self._too_many("more memory than there is") from error

    def _foresee(self, held: int, rows: int) -> None:
        """Refuse matches that cannot all fit, before the memory is full of them; `rows` of them, at most, are held."""
        count = self._source.foreseen()
        if count is not None and held + (count - rows) * _least_bytes(self.schema) > self._memory:
            raise self._too_many(f"more than {self._memory:,} bytes, since there are {count:,}")

    @staticmethod
    def _too_many(size: str) -> ResourceError:
        return ResourceError(
            f"all matches together take {size}: count() counts them, head(n) has the first ones, to_batches() and "
            "iter_events() give them piece by piece; or raise memory=",
            limit="memory",
        )

    def _no_rows(self) -> pa.Table:
        return self._source.rows(np.zeros(0, np.int64))

    def _table_of(self, events: EventsAs) -> pa.Table:
        if events not in ("wide", "long"):
            raise ValueError(f"events must be 'rows', 'wide' or 'long', not {events!r}")
        with self._within_memory() as weighed:
            found = self._reader.all(weighed) or [(pa.RecordBatch.from_pylist([], self.schema), self._no_rows())]
        # the columns of dicts may grow on the way
        schema = unify_schemas(rows.schema for _, rows in found)
        selection, first, tables = self._source.selection, 0, []
        for batch, rows in found:
            data = conform(one_batch(rows), schema)
            tables.append(wide(batch, data, selection) if events == "wide" else long(batch, data, selection, first))
            first += batch.num_rows
        return pa.Table.from_batches(tables)

    def _explode(self, batches: WithRows) -> Iterator[pa.RecordBatch]:
        first = 0
        for batch, rows in batches:
            if rows.num_rows:
                yield self.event_rows(batch, rows, first)
            first += batch.num_rows

    def event_rows(self, batch: pa.RecordBatch, rows: pa.Table, first: int) -> pa.RecordBatch:
        """The rows that `events` shows of a batch of `with_rows`; `first` is the number of its first match."""
        _, names = true_names(self.schema)
        events = batch.column("events")
        found = bindings(events, [batch.column(field.name) for field in variable_fields(self.schema)])
        lengths = np.asarray(events.value_lengths()).astype(np.int64)
        selection = self._source.selection
        shown = project(one_batch(rows), found, names, selection.projections, selection.keys)
        columns = [
            pa.array(np.repeat(np.arange(first, first + batch.num_rows), lengths)),
            pa.array(positions_of(batch)),
            names_column(found, names),
        ]
        own = ["match", "position", "variables"]
        return pa.RecordBatch.from_arrays(
            columns + shown.columns, names=own + unique_names(rows.schema.names, taken=own)
        )


def _least_bytes(schema: pa.Schema) -> int:
    """The memory that a match takes at the least: its numbers, and where its lists end."""
    widths = (getattr(field.type, "bit_width", 32) if pa.types.is_primitive(field.type) else 32 for field in schema)
    return sum(widths) // 8


def _html(first: First) -> str:
    return f"<div>{views.html(first)}{Timeline(first)._repr_html_()}</div>"


def _require(module: str) -> Any:
    try:
        return __import__(module)
    except ImportError as error:
        raise ImportError(f"to_{module}() needs {module}: pip install 'ceql[{module}]'") from error
