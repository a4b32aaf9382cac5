"""The query as users hold it: `ceql.compile(text)`, and what can be done with the result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import cached_property, lru_cache
from inspect import cleandoc
from math import inf
from operator import index
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ceql.analysis.first_event import never_begins
from ceql.analysis.looking_back import looks_back
from ceql.analysis.selection import Selection
from ceql.errors import ArgumentError, NoMatchWarning, QueryError, warn_caller
from ceql.io.dicts import is_writable
from ceql.io.nested import with_columns
from ceql.io.ordering import caller_rows, put_in_order
from ceql.io.sequencer import Sequencer, merge_sources
from ceql.io.sorted_runs import EventBatch
from ceql.io.source import Source
from ceql.io.sources import open_streams
from ceql.plan import Plan, make_plan
from ceql.predicates.patterns import check_patterns
from ceql.recognition.aggregation import Aggregation
from ceql.recognition.bound_plan import BoundPlan
from ceql.recognition.file_scan import FileScan
from ceql.recognition.frame import Recognition
from ceql.recognition.graph_totals import listen
from ceql.recognition.options import TIME_UNITS, Lateness, Options, duration
from ceql.recognition.recognise import recognise
from ceql.recognition.result_columns import renumbered
from ceql.recognition.rows import RowStore
from ceql.recognition.totals_table import Request
from ceql.recognition.types_seen import TypesSeen
from ceql.recognizer import Recognizer, restore
from ceql.results.matches import Matches
from ceql.results.source import RowsKept
from ceql.syntax import tree as t
from ceql.syntax.printer import print_query
from ceql.syntax.rules import parse_rule

if TYPE_CHECKING:
    from ceql.diagnose.findings import Diagnosis
    from ceql.explain.automaton import AutomatonView
    from ceql.explain.text import Explanation


class LateEventsWarning(UserWarning):
    """Events were set aside because they came later than the lateness allows."""


def compile(text: str) -> Query:
    """Compile a CEQL query. A wrong one raises `ceql.QueryError`, which says what, where and what was meant.

    One that can never match, since PREV is NULL on the first event, warns of it (`ceql.NoMatchWarning`). One that
    begins with NOT beside WITHIN is told once how far it looks back.
    """
    try:
        plan = make_plan(text)
    except RecursionError:
        raise QueryError(
            "the query is too long: its conditions are nested too deeply once they are simplified"
        ) from None
    check_patterns(plan.query, text)
    reason = never_begins(plan.whole, text)
    if reason is not None:
        warn_caller(reason, NoMatchWarning)
    _tell_once(text, looks_back(plan.query))
    return Query(plan)


@lru_cache(maxsize=1024)
def _tell_once(text: str, note: str | None) -> None:
    if note is not None:
        warn_caller(note, UserWarning)


def rule(
    text: str,
    *,
    attributes: Mapping[str, Sequence[str]],
    within: str | None = None,
    distinct: bool = False,
    strategy: str | None = None,
    consume_by: str | None = None,
    limit: int | None = None,
) -> Query:
    """Compile a conjunctive query, written as a rule over the attributes of each relation, in their order.

    A match has one event for each atom of the body, and ends with the last of them. The result's columns are named
    after the relations, with a number where a relation has several atoms. The options are the clauses
    of a query: `within="100 events"`, `strategy="MAX"`, `consume_by="ANY"`, `limit=10`. The text of the query is
    the rule as CEQL:

    >>> query = rule("Q(x) <- T(x), S(x, _)", attributes={"T": ["a"], "S": ["a", "b"]}, within="100 events")
    >>> print(query.text)
    SELECT T, S
    WHERE T ALL S
      FILTER T.a = S.a
    WITHIN 100 EVENTS
    """
    query = parse_rule(
        text,
        attributes,
        within=within,
        distinct=distinct,
        strategy=strategy,
        consume_by=consume_by,
        limit=limit,
    )
    return compile(print_query(query))


def match(
    text: str,
    events: Any,
    *,
    type: str | None = "type",
    time: str | None = "time",
    time_unit: str | None = None,
    lateness: Lateness = 0,
    memory: int = 4 << 30,
    max_states: int = 1 << 16,
    max_buffered_rows: int = 50_000_000,
    threads: int | Literal["all"] = 1,
    batch_rows: int = 1 << 17,
) -> Matches:
    """Compile and run: `ceql.match(text, events, type=..., time=...)`, with the options of `Query.run`."""
    if not isinstance(text, str) or (_is_query(events) and not _is_query(text)):
        raise ArgumentError(
            "match takes the text of a query first, then the events: ceql.match('SELECT ...', events). A compiled "
            "query is run by query.run(events)"
        )
    return compile(text).run(
        events,
        type=type,
        time=time,
        time_unit=time_unit,
        lateness=lateness,
        memory=memory,
        max_states=max_states,
        max_buffered_rows=max_buffered_rows,
        threads=threads,
        batch_rows=batch_rows,
    )


def _is_query(value: object) -> bool:
    return isinstance(value, Query) or (isinstance(value, str) and value.lstrip()[:6].upper() == "SELECT")


class Query:
    """A compiled query. It is immutable, and can be run any number of times."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._bound: BoundPlan | None = None  # to the columns of the last input; the next one often has the same

    def __reduce__(self) -> tuple[type[Query], tuple[Plan]]:
        return Query, (self._plan,)

    @property
    def text(self) -> str:
        """The query as it was written."""
        return self._plan.source

    @property
    def plan(self) -> Plan:
        """Every stage of the compilation."""
        return self._plan

    def run(
        self,
        events: Any,
        *,
        type: str | None = "type",
        time: str | None = "time",
        time_unit: str | None = None,
        lateness: Lateness = 0,
        memory: int = 4 << 30,
        max_states: int = 1 << 16,
        max_buffered_rows: int = 50_000_000,
        threads: int | Literal["all"] = 1,
        batch_rows: int = 1 << 17,
    ) -> Matches:
        """Find the matches in `events`, lazily: they are found as the result is read.

        `events` is Arrow data, a pandas or polars frame, an iterable of dicts or batches, the path of a Parquet, CSV,
        JSON-lines or Arrow file; or, for several streams, a dict of those by name. `type` and `time` name
        columns.

        Tables, frames, lists and files are put in order of time as a whole, and matches name their events by the
        caller's rows. If they are not in order, `max_buffered_rows` bounds how many rows are held to sort them.
        Of a reader or generator, `lateness` (a number, text such as "10 seconds", or a timedelta) is how far behind the
        latest time an event may come and still be put in order; later ones are left out, and `Matches.late()` has them.

        If the stream is split by a key, and partial matches are many, `threads` work on them at once (`"all"`: as
        many as the machine has cores). Matches and their order do not depend on it.
        """
        options = read_options(type, time, time_unit, lateness, memory, max_states, max_buffered_rows, threads)
        opened = open_streams(events, self._plan.query.streams, whole("batch_rows", batch_rows), time)
        sources = [with_columns(source, options.nested(self._plan.dotted)) for source in opened]
        bound = self._bound  # another thread may run the query on other columns meanwhile
        if bound is None or not bound.fits(sources, options):
            self._bound = bound = BoundPlan.over(self._plan, sources, options)
        return Matches(Run(bound, sources), options.memory)

    def recognizer(
        self,
        *,
        type: str | None = "type",
        time: str | None = "time",
        time_unit: str | None = None,
        lateness: Lateness = 0,
        memory: int = 4 << 30,
        max_states: int = 1 << 16,
        max_buffered_rows: int = 50_000_000,
        threads: int | Literal["all"] = 1,
        keep_rows: bool = True,
    ) -> Recognizer:
        """A recogniser to push events into, piece by piece.

        `keep_rows=False` spares the memory that `Matches.events()` needs: the rows that matches may still name.
        """
        options = read_options(type, time, time_unit, lateness, memory, max_states, max_buffered_rows, threads)
        _tell_once(self._plan.source, self._plan.late_note)
        return Recognizer(self._plan, options, keep_rows)

    def restore(self, snapshot: bytes, *, threads: int | Literal["all"] = 1) -> Recognizer:
        """The recogniser that `snapshot` was taken of, to go on with the very same matches."""
        return restore(self._plan, snapshot, read_threads(threads))

    def explain(
        self,
        schema: pa.Schema | None = None,
        *,
        type: str | None = "type",
        time: str | None = "time",
        time_unit: str | None = None,
    ) -> Explanation:
        """Every stage of the query as text: its class and guarantee, normal form, clauses, guards, automaton.

        With an Arrow `schema` (or anything that has one: a table, a batch), also how its columns are classified.
        Of a query that compares events with each other, it says for each condition how it is checked and why so.
        """
        from ceql.explain.stages import explain

        read_options(type, time, time_unit, 0)  # for its errors
        return explain(self._plan, getattr(schema, "schema", schema), type, time, time_unit)

    def automaton(self) -> AutomatonView:
        """The automaton: `print` shows it as a table, `.to_dot()` and `.to_mermaid()` draw it."""
        from ceql.explain.automaton import AutomatonView

        return AutomatonView(self._plan)

    def diagnose(
        self,
        events: Any,
        *,
        type: str | None = "type",
        time: str | None = "time",
        time_unit: str | None = None,
        lateness: Lateness = 0,
    ) -> Diagnosis:
        """Why did nothing (or so little) match? Reads `events` as `run` does, and says how far it got.

        The result has: the types that came and those that never did, how often each condition held, the furthest
        step that any partial match reached and what it waited for, and what each clause and each condition across
        events took away.
        The arguments are those of `run`.
        """
        from ceql.diagnose.diagnose import diagnose

        return diagnose(self._plan, events, read_options(type, time, time_unit, lateness))

    def __repr__(self) -> str:
        return cleandoc(self.text)


def read_options(
    type: object,
    time: object,
    time_unit: object,
    lateness: object,
    memory: object = 4 << 30,
    max_states: object = 1 << 16,
    max_buffered_rows: object = 50_000_000,
    threads: object = 1,
) -> Options:
    """The options of a call; an `ArgumentError` names the one that makes no sense."""
    for name, column in (("type", type), ("time", time)):
        if column is not None and not (isinstance(column, str) and is_writable(column)):
            raise ArgumentError(f"{name}= is the name of a column or None, not {column!r}")
    if time_unit is not None and time_unit not in TIME_UNITS:
        raise ArgumentError(f"time_unit must be one of {', '.join(TIME_UNITS)}, not {time_unit!r}")
    limits = {"memory": memory, "max_states": max_states, "max_buffered_rows": max_buffered_rows}
    counts = [whole(name, value) for name, value in limits.items()]
    options = Options(type, time, time_unit, _checked_lateness(lateness), *counts)  # type: ignore[arg-type]
    return replace(options, threads=read_threads(threads))


def read_threads(value: object) -> int | Literal["all"]:
    if value == "all":
        return "all"
    try:
        return whole("threads", value)
    except ArgumentError:
        raise ArgumentError(f"threads= is a whole number of at least 1, or 'all', not {value!r}") from None


def whole(name: str, value: object) -> int:
    try:
        number = index(value)  # type: ignore[arg-type]
    except TypeError:
        number = 0
    if number < 1 or isinstance(value, bool):
        raise ArgumentError(f"{name}= is a whole number of at least 1, not {value!r}")
    return number


def _checked_lateness(value: object) -> Lateness:
    match value:
        case str():
            try:
                duration(value)
            except ValueError as error:
                raise ArgumentError(f"lateness: {error}") from error
            return value
        case timedelta() if value >= timedelta(0):
            return value
        case int() | float() if 0 <= value < inf:
            return value
    raise ArgumentError(
        f"lateness= is a number of at least 0, a duration such as '10 seconds', or a timedelta, not {value!r}"
    )


class Run:
    """A query over an input: one pass for each reading (`results.source.MatchSource`)."""

    rows_kept = RowsKept.LAST
    restarts = False

    def __init__(self, bound: BoundPlan, sources: list[Source]) -> None:
        self._bound = bound
        self._sources = put_in_order(sources, bound.time, bound.options.max_buffered_rows)
        self._types = TypesSeen(self._bound)
        self._late = pa.table({})
        self._rows = RowStore(self._bound.schema)
        self._scanning: FileScan | None = None  # the scan that the last pass with rows was made by
        self._position_of: npt.NDArray[np.int64] | None = None  # of each of the caller's rows

    @property
    def query(self) -> t.Query:
        return self._bound.plan.query

    @property
    def schema(self) -> pa.Schema:
        return self._bound.result.schema

    @property
    def replayable(self) -> bool:
        return all(s.replayable for s in self._sources)

    @property
    def selection(self) -> Selection:
        return self._bound.plan.selection

    @property
    def type(self) -> str | None:
        return self._bound.type

    @property
    def time(self) -> str | None:
        return self._bound.time

    def batches(self, rows: bool = False) -> Iterator[pa.RecordBatch]:
        """A pass over the input; matches in batches of bounded size. `rows`: the events are wanted too."""
        recognition = recognise(self._bound)
        if rows:
            self._rows = RowStore(self._bound.schema)
            self._position_of = None
            self._scanning = self._scan
        store = self._rows if self._scan is None else self._scan
        for batch in self._ordered(self._bound.needed_columns() if self._scan or not rows else None, rows):
            if rows and self._scan is None:
                self._rows.add(batch.data)
            yield from self._by_caller_rows(recognition.feed(batch))
            if rows:
                yield from self._by_caller_rows(recognition.flush())
                store.forget_before(recognition.oldest_position())
        yield from self._by_caller_rows(recognition.finish())

    @cached_property
    def _scan(self) -> FileScan | None:
        """Reads Parquet files piece by piece, if that is what the events are in."""
        return FileScan.over(self._bound, self._sources)

    def _by_caller_rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The matches with the caller's rows in place of positions."""
        for batch in batches:
            order = caller_rows(self._sources) if self._scan is None else self._scan.order
            yield batch if order is None else renumbered(batch, order)

    def count(self) -> int:
        return self._counted(recognise(self._bound, counting=True))

    def foreseen(self) -> int | None:
        recognition = recognise(self._bound, counting=True)
        return None if recognition.enumerates or not self.replayable else self._counted(recognition)

    def _counted(self, recognition: Recognition) -> int:
        for batch in self._ordered(self._bound.needed_columns()):
            for _ in recognition.feed(batch):
                pass
        return recognition.counted

    def aggregation(self, request: Request) -> Aggregation:
        return Aggregation(request, self._bound)

    def add_up(self, aggregation: Aggregation) -> None:
        recognition = recognise(self._bound)
        listen(aggregation, recognition)
        columns = {*self._bound.needed_columns(), *aggregation.request.attributes} & {*self._bound.schema.names}
        for batch in self._ordered(None if self._bound.open_schema else sorted(columns)):
            for _ in recognition.feed(batch):
                pass
        for _ in recognition.finish():
            pass

    def _ordered(self, columns: list[str] | None, rows: bool = False) -> Iterator[EventBatch]:
        if self._scan is not None and columns is not None:
            yield from self._scan.batches(columns, self._types, rows)
            self._late = pa.table({})
            return
        bound, options = self._bound, self._bound.options
        lateness = options.lateness_in(bound.time_type)
        if self.replayable:
            lateness *= 0  # all is in order already
        sequencer = Sequencer(list(bound.streams), bound.time, lateness, options.max_buffered_rows)
        for batch in merge_sources(self._sources, sequencer, columns):
            self._types.look(batch)
            yield batch
        if not sequencer.late_rows:  # one that is left out may have the type
            self._types.conclude()
        self._late = sequencer.late()
        if sequencer.late_rows:
            warn_caller(
                f"{sequencer.late_rows} event{'s' * (sequencer.late_rows > 1)} came later than the lateness allows "
                "and took no part; "
                "raise lateness=, or see Matches.late()",
                LateEventsWarning,
            )

    def late(self) -> pa.Table:
        return self._late

    def rows(self, positions: npt.NDArray[np.int64]) -> pa.Table:
        if self._scanning is not None:
            return self._scanning.rows(positions)
        order = caller_rows(self._sources)
        if order is not None:
            if self._position_of is None:
                self._position_of = np.empty_like(order)
                self._position_of[order] = np.arange(len(order))
            positions = self._position_of[positions]
        return self._rows.take(positions)
