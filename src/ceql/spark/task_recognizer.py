"""Recognises one query or several over many keys in a task: shipped rows in time order in, rows of the result out."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
import pyarrow as pa

from ceql import jit
from ceql.engine.common.check import require
from ceql.engine.common.layout import Events
from ceql.errors import DataError
from ceql.io.schemas import no_rows
from ceql.io.sort_keys import encode
from ceql.io.sorted_runs import EventBatch
from ceql.io.soundness import check
from ceql.io.times import time_keys
from ceql.jit import Array
from ceql.predicates.symbols import SymbolTable
from ceql.recognition import snapshot
from ceql.recognition.bound_plan import BoundPlan, Sharing, SymbolsOver
from ceql.recognition.frame import Recognition
from ceql.recognition.recognise import recognise
from ceql.recognition.rows import RowStore
from ceql.results.combined import key_fields
from ceql.results.reader import pieces
from ceql.results.suppression import Periods, keys_of, period_in
from ceql.spark.carried_over import adapted, retyped
from ceql.spark.result_rows import result_rows, rows_of
from ceql.spark.shipped_symbols import ShippedSymbols, Together
from ceql.spark.task_spec import MAIN, TIME, SetSpec, Specs, TaskSpec, own_name
from ceql.spark.ties import TieCheck, swappable_symbols

PERIODS = "periods:"
"""Before the names of queries in a state, for what they suppress."""
NO_TIME = "an event has no time: the time column is NULL; filter such rows out, or give them a time"
FEED_ROWS = 1 << 16
_COMPACT_ROWS = 1 << 18  # rows of events are thinned out when there are this many more than were needed


@cache
def tell_if_interpreted() -> None:
    """Warn once per worker if kernels run uncompiled."""
    if jit.INTERPRETED:
        warnings.warn(
            "Numba is switched off (NUMBA_DISABLE_JIT): this worker runs kernels as plain Python, hundreds of times "
            "slower than compiled; take the setting out of the workers' environment",
            RuntimeWarning,
            stacklevel=2,
        )


class TaskQuery:
    """One query at work on the rows of a task."""

    def __init__(
        self,
        spec: TaskSpec,
        schema: pa.Schema,
        symbols: SymbolsOver | None = None,
        sharing: Sharing | None = None,
    ) -> None:
        self.spec = spec
        options = replace(spec.options, type=None, time=own_name(TIME))
        times = (spec.options.time,) if spec.options.time in spec.place else ()
        decided = symbols or partial(ShippedSymbols, spec)
        bound = BoundPlan(spec.plan, schema, (None,), options, timed=times, decided=decided, sharing=sharing)
        self.recognition = recognise(bound)
        self._ties = TieCheck(swappable_symbols(spec.plan), self.recognition.table, spec.ordered_by)
        self.recognition.inspect = self._inspect
        self.periods: Periods | None = None
        """Those in which matches are suppressed."""
        if spec.suppress is not None:
            count, nanoseconds = spec.suppress
            time = schema.field(own_name(TIME)).type
            self.periods = Periods(count, period_in(nanoseconds, time, spec.options.time_unit))
        self.relevant = 0
        """Events that were recognised since this was made: without those that can change nothing."""
        self.matches = 0
        """Matches that were given out since this was made."""
        self.suppressed = 0
        """Matches that were not, since there were so many."""
        self.rejected = 0
        """Events that it would have read, were they sound."""
        self.state_bytes = 0
        """Bytes of its own in the last `state`, before they are compressed: without what it shares with others."""

    def _inspect(self, events: Events, batch: pa.RecordBatch) -> None:
        first = self.recognition.position - batch.num_rows
        self.relevant += len(events.symbol)
        self._ties.check(events, batch, first, self.recognition.reused)

    def reject(self, view: pa.RecordBatch) -> None:
        """Count those of these events that it would have read: all, where it compares neighbours, which they lack."""
        asked = None if self.spec.plan.lags else ShippedSymbols(self.spec, SymbolTable())
        self.rejected += view.num_rows if asked is None else len(asked.relevant(view, 0)[0])

    def kept(self, matches: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.Array | None]:
        """The matches that are not suppressed, and how many were before each."""
        if self.periods is None:
            return matches, None
        keys = keys_of([matches.column(field.name) for field in key_fields(matches.schema)], matches.num_rows)
        kept, before = self.periods.keep(keys, encode(matches.column("end_time"), "end_time"))
        return matches.filter(pa.array(kept)), pa.array(before)

    def forget(self, now: int) -> None:
        """Forget the periods that are over at this time (its key), whatever waits to be decided."""
        if self.periods is not None:
            waits = self.spec.plan.waits and not self.recognition.is_idle
            if not waits:
                self.periods.forget(now)

    @property
    def is_idle(self) -> bool:
        """Whether the future does not depend on the past."""
        return self.recognition.is_idle and (self.periods is None or self.periods.is_idle)

    @property
    def expires_at(self) -> int | None:
        """The time (its key) from which something is over; None if there is none."""
        times = [] if self.recognition.is_idle else [self.recognition.expires_at]
        if self.periods is not None and (over := self.periods.over_at) is not None:
            times.append(over + 2 * self.periods.period)
        return min((time for time in times if time is not None), default=None)

    @property
    def groups(self) -> int:
        """Substreams that are remembered."""
        keys = self.recognition.keys
        return keys.known if keys is not None else 1


class TaskRecognizer:
    """The state of a query, or of several, over the rows of one task, or of one bucket of a stream.

    Each query has its own recognition. Types, conditions and keys are read once for all, and the rows that matches may
    name are kept once.
    """

    def __init__(self, specs: Specs, schema: pa.Schema) -> None:
        tell_if_interpreted()
        self.specs = specs
        self.spec = spec = specs.first
        self.schema = schema
        self._view = spec.view(no_rows(schema)).schema
        self._queries = _queries(specs, self._view)
        self.rows = RowStore(pa.schema([self._view.field(name) for name in spec.kept]))
        self._emit_from = 0
        self._kept = 0  # rows after the last compaction
        self._held = np.zeros(0, np.int64)  # their positions

    @property
    def recognition(self) -> Recognition:
        """The recognition of the (first) query."""
        return self._queries[0].recognition

    @property
    def relevant(self) -> int:
        """Events that were recognised since this was made, added up over the queries."""
        return sum(query.relevant for query in self._queries)

    @property
    def groups(self) -> int:
        """Substreams that are remembered, added up over the queries."""
        return sum(query.groups for query in self._queries)

    def by_rule(self) -> dict[str, dict[str, int]]:
        """What each query has done since this was made, and what it holds, by name; without those that have nothing."""
        found = {
            name: {
                "events": query.relevant,
                "matches": query.matches,
                "suppressed": query.suppressed,
                "rejected": query.rejected,
                "partial": query.recognition.measures()["nodes"],
                "state_bytes": query.state_bytes,
            }
            for name, query in zip(self.specs.names, self._queries, strict=True)
        }
        return {name: counts for name, counts in found.items() if any(counts.values())}

    def feed(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Recognise rows that come in time order; matches come out as rows of the result."""
        if not batch.num_rows:
            return
        times = batch.column(TIME)
        if times.null_count:
            raise DataError(NO_TIME)
        if pa.types.is_floating(times.type):  # NaN is no time either
            time_keys(batch, TIME, None, "the DataFrame", self.rows.following)
        if MAIN in batch.schema.names:
            self._find_main(batch.column(MAIN))
        view = self.spec.view(batch)
        self.rows.add(view.select(list(self.spec.kept)))
        for number, query in enumerate(self._queries):
            for found in query.recognition.feed(EventBatch(view, 0)):
                yield from self._results(number, found)
        if self.rows.count > 2 * self._kept + _COMPACT_ROWS:
            yield from self.compact()

    def reject(self, rows: pa.RecordBatch) -> None:
        """Count rows that make no sense by the queries that they concern."""
        view = self.spec.view(rows)
        for query in self._queries:
            query.reject(view)

    def finish(self) -> Iterator[pa.RecordBatch]:
        """The matches that are left, once no rows will come."""
        for number, query in enumerate(self._queries):
            for found in query.recognition.finish():
                yield from self._results(number, found)

    def compact(self, now: int | None = None) -> Iterator[pa.RecordBatch]:
        """Forget everything that the window has left, and the rows that no match can name any more.

        `now` is the key of a time before which no event will come.
        """
        for number, query in enumerate(self._queries):
            for found in query.recognition.compact(now):
                yield from self._results(number, found)
            if now is not None:
                query.forget(now)
        held = [query.recognition.held() for query in self._queries]
        self._held = held[0] if len(held) == 1 else np.unique(np.concatenate(held))
        self.rows.keep(self._held)
        self._kept = self.rows.count

    @property
    def is_idle(self) -> bool:
        """Whether no match is under way, after `compact`, so that the future does not depend on the past."""
        return not self.rows.count and all(query.is_idle for query in self._queries)

    @property
    def expires_at(self) -> int | None:
        """The time (its key) from which all that is under way will have left the window, where that is by time.

        Of several queries, the one for which this is so first.
        """
        busy = [query.expires_at for query in self._queries]
        return min((time for time in busy if time is not None), default=None)

    # --- state ---

    def state(self) -> snapshot.Parts:
        """The state after `compact`: a header, arrays and tables for a snapshot."""
        header, arrays, tables = self._state_of_queries()
        header["first_schema"] = snapshot.schema_to_text(self.schema)
        return header, arrays | {"rows.positions": self._held}, tables | {"rows": self.rows.batches}

    def _state_of_queries(self) -> snapshot.Parts:
        """The states of the queries by name. One that is idle has none: it begins anew where the others are."""
        states = {
            name: query.recognition.state()
            for name, query in zip(self.specs.names, self._queries, strict=True)
            if not query.recognition.is_idle
        }
        for name, query in zip(self.specs.names, self._queries, strict=True):
            _, own_arrays, own_tables = states.get(name, ({}, {}, {}))
            query.state_bytes = sum(part.nbytes for part in [*own_arrays.values(), *own_tables.values()])
        headers, arrays, tables = snapshot.joined(list(states.values()))
        for own in headers:
            del own["schema"]  # that of all queries is there already
        header = {"position": self.rows.following, "queries": list(states), "recognitions": headers}
        for name, query in zip(self.specs.names, self._queries, strict=True):
            if query.periods is not None and not query.periods.is_idle:
                arrays[f"{PERIODS}{name}"] = query.periods.state()
        return header, arrays, tables

    def restore(
        self,
        header: dict[str, Any],
        arrays: dict[str, Array],
        tables: dict[str, list[pa.RecordBatch]],
        only: frozenset[str] | None = None,
    ) -> None:
        """Go on from a `state`: of a set, these queries alone, while the others begin anew."""
        if header["first_schema"] != snapshot.schema_to_text(self.schema):
            tables = retyped(tables, self._view)
        self._restore_queries(header, arrays, tables, only)
        rows = adapted(tables["rows"][0], self.rows.schema) if tables["rows"] else None
        self._held = arrays["rows.positions"] if rows is not None else self._held
        self.rows.restore(self._held, rows, self.recognition.position)
        self._kept = self.rows.count

    def _restore_queries(
        self,
        header: dict[str, Any],
        arrays: dict[str, Array],
        tables: dict[str, list[pa.RecordBatch]],
        only: frozenset[str] | None,
    ) -> None:
        for name, query in zip(self.specs.names, self._queries, strict=True):
            periods = arrays.get(f"{PERIODS}{name}")
            if query.periods is not None and periods is not None and (only is None or name in only):
                query.periods.restore(periods)
        arrays = {name: array for name, array in arrays.items() if not name.startswith(PERIODS)}
        headers = [{**own, "schema": snapshot.schema_to_text(self._view)} for own in header["recognitions"]]
        known = dict(zip(header["queries"], snapshot.parted(headers, arrays, tables), strict=True))
        if only is not None:
            known = {name: state for name, state in known.items() if name in only}
        for name, query in zip(self.specs.names, self._queries, strict=True):
            if name in known:
                query.recognition.restore(*known.pop(name))
            else:
                query.recognition.begin_at(header["position"])
        require(not known, "it has states of queries that are not in the set")
        positions = {query.recognition.position for query in self._queries}
        require(positions == {header["position"]}, "its queries are not at the same place")

    # --- matches ---

    def _find_main(self, main: pa.Array) -> None:
        """Find where the chunk proper begins: the rows before only warm the recogniser up."""
        if self._emit_from == self.rows.following:
            inside = np.flatnonzero(main.to_numpy(zero_copy_only=False))
            self._emit_from += int(inside[0]) if len(inside) else len(main)

    def _results(self, number: int, found: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Matches of the query with this number as rows of the result, without those that are left to others."""
        if self._emit_from:
            ends = found.column("end").to_numpy()
            found = found.slice(int(np.searchsorted(ends, self._emit_from)))
        for piece in pieces(found):
            kept, suppressed = self._queries[number].kept(piece)
            self._queries[number].matches += kept.num_rows
            self._queries[number].suppressed += piece.num_rows - kept.num_rows
            if kept.num_rows:
                yield self._shown(number, kept, suppressed)

    def _shown(self, number: int, matches: pa.RecordBatch, suppressed: pa.Array | None) -> pa.RecordBatch:
        if isinstance(self.specs, SetSpec):
            return rows_of(self.specs, number, matches, self.rows.take, suppressed)
        return result_rows(matches, self.rows.take, self.spec, self.recognition.bound.result, suppressed)


def _queries(specs: Specs, schema: pa.Schema) -> list[TaskQuery]:
    if isinstance(specs, TaskSpec):
        return [TaskQuery(specs, schema)]
    together = Together(specs)
    return [
        TaskQuery(own, schema, partial(together.reader, number, own), together)
        for number, own in enumerate(specs.specs)
    ]


Task = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def batch_task(specs: Specs) -> Task:
    """The function that a task of a batch job runs over its rows, which are in order."""
    return task_of(partial(TaskRecognizer, specs))


def task_of(make: Callable[[pa.Schema], TaskRecognizer]) -> Task:
    """The function that feeds a task's rows to the recogniser that is made for their schema."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        recognizer: TaskRecognizer | None = None
        for batch in larger(batches):
            recognizer = make(batch.schema) if recognizer is None else recognizer
            yield from recognizer.feed(batch)
        if recognizer is not None:
            yield from recognizer.finish()

    return run


def larger(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows, checked, in fewer batches: Spark's ten thousand rows are too few for the cost of a call."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in map(check, batches):
        if rows and rows + batch.num_rows > FEED_ROWS:
            yield pa.concat_batches(waiting)
            waiting, rows = [], 0
        if batch.num_rows:
            waiting.append(batch)
            rows += batch.num_rows
    if waiting:
        yield pa.concat_batches(waiting)
