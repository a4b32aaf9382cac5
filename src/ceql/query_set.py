"""Several queries as one: `ceql.compile_all({"fraud": ..., "bot": ...})`, and what can be done with the result.

The queries of a set run over the same events in one pass. The events are read and put in order once; the types,
conditions and keys that the queries ask for are read once for all of them (`recognition.together`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, Literal

import pyarrow as pa

from ceql.errors import ArgumentError, ResourceError, naming, warn_caller
from ceql.io.nested import with_columns
from ceql.io.ordering import caller_rows, put_in_order
from ceql.io.source import Source
from ceql.io.sources import open_streams
from ceql.jit import Array
from ceql.plan import Plan
from ceql.query import Query, Run, compile, read_options, read_threads, whole
from ceql.recognition.bound_plan import BoundPlan
from ceql.recognition.file_scan import FileScan
from ceql.recognition.options import Lateness, Options
from ceql.recognition.recognise import recognise
from ceql.recognition.result_columns import renumbered
from ceql.recognition.rows import RowStore
from ceql.recognition.together import BoundTogether, Round, in_order, in_rounds, rounds
from ceql.recognition.types_seen import TypesSeen
from ceql.results.kept_matches import KeptMatches
from ceql.results.kept_rows import KeptRows
from ceql.results.match_set import MatchSet, Shown
from ceql.results.source import MatchSource
from ceql.set_recognizer import SetRecognizer, restore

BATCH_ROWS = 1 << 20
"""Larger than those of a single query: each query's turn at a batch has a price."""


def compile_all(queries: Mapping[str, str | Query]) -> QuerySet:
    """Compile queries that are to run together, each under its name: texts, or queries that are compiled.

    A wrong one raises `ceql.QueryError`, which names it.

    >>> rules = compile_all({"pair": "SELECT * WHERE A ; B", "late": "SELECT * WHERE B ; C"})
    >>> matches = rules.run([{"type": "A"}, {"type": "B"}, {"type": "C"}])
    >>> [(name, match.events) for name, match in matches]
    [('pair', (0, 1)), ('late', (1, 2))]
    >>> matches.count()
    {'pair': 1, 'late': 1}
    """
    if not isinstance(queries, Mapping):
        raise ArgumentError(f"compile_all takes a dict of queries by name, not a {type(queries).__name__}")
    if not queries:
        raise ArgumentError("a set has at least one query, and none was given")
    compiled: dict[str, Query] = {}
    for name, query in queries.items():
        if not isinstance(name, str) or not name:
            raise ArgumentError(f"the name of a query is a text that is not empty, not {name!r}")
        if not isinstance(query, str | Query):
            raise ArgumentError(f"query '{name}' is a text or a ceql.Query, not a {type(query).__name__}")
        with naming(name):
            compiled[name] = query if isinstance(query, Query) else compile(query)
    return QuerySet(compiled)


class QuerySet:
    """Queries that run together. It is immutable, and can be run any number of times."""

    def __init__(self, queries: Mapping[str, Query]) -> None:
        self._queries = dict(queries)
        first = next(iter(self._queries))
        for name, query in self._queries.items():
            if query.plan.query.streams != self.streams:
                raise ArgumentError(
                    f"queries '{first}' and '{name}' read FROM different streams; make a set of those that read the "
                    "same"
                )

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the queries, in order."""
        return tuple(self._queries)

    def __getitem__(self, name: str) -> Query:
        return self._queries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._queries)

    def __len__(self) -> int:
        return len(self._queries)

    @property
    def plans(self) -> dict[str, Plan]:
        """The plan of each query."""
        return {name: query.plan for name, query in self._queries.items()}

    @property
    def streams(self) -> tuple[str, ...]:
        """The streams of FROM, which all queries have in common."""
        return next(iter(self._queries.values())).plan.query.streams

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
        batch_rows: int = BATCH_ROWS,
    ) -> MatchSet:
        """Find the matches of all queries in `events`, lazily, in one pass; the arguments are those of `Query.run`.

        `memory` bounds the partial matches of each query, and all matches that are kept.
        """
        options = read_options(type, time, time_unit, lateness, memory, max_states, max_buffered_rows, threads)
        opened = open_streams(events, self.streams, whole("batch_rows", batch_rows), time)
        sources = [with_columns(source, options.nested(self.dotted)) for source in opened]
        return MatchSet(SetRun(self.plans, sources, options))

    @property
    def dotted(self) -> tuple[str, ...]:
        """The attributes with a dot in their names, which may be fields of nested ones."""
        return tuple(dict.fromkeys(name for plan in self.plans.values() for name in plan.dotted))

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
    ) -> SetRecognizer:
        """A recogniser of all queries to push events into, piece by piece.

        `keep_rows=False` spares the memory of the rows that matches may still name.
        """
        options = read_options(type, time, time_unit, lateness, memory, max_states, max_buffered_rows, threads)
        for note in {plan.late_note for plan in self.plans.values()} - {None}:
            warn_caller(str(note), UserWarning)
        return SetRecognizer(self.plans, options, keep_rows)

    def restore(self, snapshot: bytes, *, threads: int | Literal["all"] = 1) -> SetRecognizer:
        """The recogniser that `snapshot` was taken of, to go on with the very same matches."""
        return restore(self.plans, snapshot, read_threads(threads))

    def __repr__(self) -> str:
        names = ", ".join(self.names[:5]) + (", …" if len(self) > 5 else "")
        return f"<QuerySet of {len(self)} quer{'y' if len(self) == 1 else 'ies'}: {names}>"


class SetRun(Run):
    """Several queries over an input (`results.match_set.MatchSetSource`)."""

    def __init__(self, plans: Mapping[str, Plan], sources: list[Source], options: Options) -> None:
        self.names = tuple(plans)
        self.memory = options.memory

        self._together = BoundTogether(plans, lambda plan, sharing: BoundPlan.over(plan, sources, options, sharing))
        self._bounds = self._together.bounds
        self._bound = self._bounds[0]
        self._sources = put_in_order(sources, self._bound.time, options.max_buffered_rows)
        self._types = TypesSeen(self._bound, {name: plan.query.formula for name, plan in plans.items()})
        self._late = pa.table({})
        self._rows = RowStore(self._bound.schema)
        self._scanning = None
        self._position_of = None
        self._found: list[Shown] | None = None
        self._kept_rows: KeptRows | None = None

    @cached_property
    def _scan(self) -> FileScan | None:
        """Files are read whole: what a scan leaves out for one query, another may want."""
        return None

    @property
    def schemas(self) -> list[pa.Schema]:
        return [bound.result.schema for bound in self._bounds]

    def rounds(self, rows: bool = False) -> Iterator[Shown]:
        recognitions = [recognise(bound) for bound in self._bounds]
        if rows:
            self._rows = RowStore(self._bound.schema)
            self._position_of = None
        for batch in self._ordered(None if rows or self._bound.open_schema else self._together.needed_columns):
            if rows:
                self._rows.add(batch.data)
            yield from map(self._shown, rounds(recognitions, batch))
            if rows:
                self._rows.forget_before(min(one.oldest_position() for one in recognitions))
        yield from map(self._shown, in_rounds([recognition.finish() for recognition in recognitions]))

    def _shown(self, found: Round) -> Shown:
        """The matches with the caller's rows in place of positions; their order is that of positions."""
        rows, order = caller_rows(self._sources), in_order(found)
        if rows is None:
            return Shown(found, order)
        return Shown([(k, renumbered(batch, rows)) for k, batch in found], order)

    # --- what is kept ---

    @property
    def is_kept(self) -> bool:
        return self._found is not None

    def kept(self) -> list[Shown]:
        if self._found is None:
            found: list[Shown] = []
            kept = KeptRows()
            held = 0
            once = not self.replayable
            for shown in self.rounds(rows=once):
                found.append(shown)
                held += sum(batch.nbytes for _, batch in shown.found)
                if once:
                    held += kept.add([batch for _, batch in shown.found], self.rows)
                if held > self.memory:
                    raise ResourceError(
                        f"all matches together take more than {self.memory:,} bytes: count() counts them, to_batches() "
                        "and iteration give them piece by piece; or raise memory=",
                        limit="memory",
                    )
            self._found = found
            self._kept_rows = kept if once else None
        return self._found

    def rows_of_kept(self, positions: Array) -> pa.Table:
        """The events of matches that are kept. If the input can be read again, it is, for all of them at once."""
        if self._kept_rows is None:
            kept = KeptRows()
            found = [batch for shown in self.kept() for _, batch in shown.found]
            kept.read(found, self._ordered(None), caller_rows(self._sources), self._bound.schema)
            self._kept_rows = kept
        return self._kept_rows.take(positions)

    def of_query(self, number: int) -> list[pa.RecordBatch]:
        """The matches of one query that are kept."""
        return [batch for shown in self.kept() for k, batch in shown.found if k == number]

    def counts(self) -> list[int]:
        if self._found is not None:
            return [sum(batch.num_rows for batch in self.of_query(k)) for k in range(len(self.names))]
        recognitions = [recognise(bound, counting=True) for bound in self._bounds]
        for batch in self._ordered(None if self._bound.open_schema else self._together.needed_columns):
            for recognition in recognitions:
                for _ in recognition.feed(batch):
                    pass
        for recognition in recognitions:
            for _ in recognition.finish():
                pass
        return [recognition.counted for recognition in recognitions]

    def source(self, number: int) -> MatchSource:
        bound = self._bounds[number]
        return KeptMatches(
            bound.plan,
            bound.result.schema,
            bound,
            lambda: self.of_query(number),
            self.rows_of_kept,
            self.late,
        )
