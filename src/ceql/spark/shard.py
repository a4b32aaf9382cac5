"""One recogniser over many keys, as it runs in a task: shipped rows in time order in, rows of the result out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ceql.engine.common.machine import Events
from ceql.errors import DataError
from ceql.io.sorted_runs import EventBatch
from ceql.io.times import time_keys
from ceql.jit import Array
from ceql.recognition.bound_plan import BoundPlan
from ceql.recognition.recognise import recognise
from ceql.recognition.result_columns import ResultColumns
from ceql.recognition.rows import RowStore
from ceql.recognition.snapshot import schema_from_text, schema_to_text
from ceql.results.bindings import bindings, project
from ceql.results.matches import pieces
from ceql.spark.commutation import commutation
from ceql.spark.shipment import MAIN, TIME, Shipment, ShippedSymbols
from ceql.spark.ties import Ties

NO_TIME = "an event has no time: the time column is NULL; filter such rows out, or give them a time"
FEED_ROWS = 1 << 16
_COMPACT_ROWS = 1 << 18  # rows of events are thinned out when there are this many more than were needed


class Shard:
    """The state of a query over the rows of one task (or one bucket of a stream)."""

    def __init__(self, shipment: Shipment, schema: pa.Schema) -> None:
        self.shipment = shipment
        options = replace(shipment.options, type=None, time=TIME)
        bound = BoundPlan(shipment.plan, schema, (None,), options, decided=True)
        self.recognition = recognise(bound, symbols=lambda table: ShippedSymbols(shipment, table))
        self._ties = Ties(commutation(shipment.plan), self.recognition.table, shipment.ordered_by)
        self.recognition.inspect = self._inspect
        self._columns = [shipment.place[name] for name in shipment.shown]
        self.rows = RowStore(self._named(schema.empty_table().select(self._columns)).schema)
        self._emit_from = 0
        self._kept = 0  # rows after the last compaction

    def _inspect(self, events: Events, batch: pa.RecordBatch) -> None:
        first = self.recognition.position - batch.num_rows
        self._ties.check(events, batch, first, self.recognition.reused)

    def _named(self, data: Any) -> Any:
        """The shown attributes under their own names."""
        return data.rename_columns(list(self.shipment.shown))

    def feed(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Recognise rows that come in time order; matches come out as rows of the result."""
        if not batch.num_rows:
            return
        times = batch.column(TIME)
        if times.null_count:
            raise DataError(NO_TIME)
        if pa.types.is_floating(times.type):  # NaN is no time either
            time_keys(batch, TIME, None, "the DataFrame", self.recognition.position)
        if MAIN in batch.schema.names:
            self._find_main(batch.column(MAIN))
        self.rows.add(self._named(batch.select(self._columns)))
        for found in self.recognition.feed(EventBatch(batch, 0)):
            yield from self._results(found)
        if self.rows.count > 2 * self._kept + _COMPACT_ROWS:
            yield from self.compact()

    def flush(self) -> Iterator[pa.RecordBatch]:
        """The matches that wait in the buffers."""
        for found in self.recognition.flush():
            yield from self._results(found)

    def compact(self, now: int | None = None) -> Iterator[pa.RecordBatch]:
        """Let go of all that the window has left, and of the rows that no match can name any more.

        `now` is the key of a time before which no event will come.
        """
        for found in self.recognition.compact(now):
            yield from self._results(found)
        self.rows.keep(self.recognition.held())
        self._kept = self.rows.count

    @property
    def is_idle(self) -> bool:
        """Whether no match is under way, after `compact`; what follows does not depend on what was."""
        return not self.rows.count and self.recognition.is_idle

    @property
    def expires_at(self) -> int | None:
        """The time (its key) from which all that is under way will have left the window, where that is by time."""
        return self.recognition.expires_at

    # --- state ---

    def state(self) -> tuple[dict[str, Any], dict[str, Array], dict[str, list[pa.RecordBatch]]]:
        """The state after `compact`: a header, arrays and tables for a snapshot."""
        header, arrays, own = self.recognition.state()
        tables = {"rows": self.rows.batches} | {name: [batch] for name, batch in own.items()}
        full = {"recognition": header, "first_schema": schema_to_text(self.recognition.bound.schema)}
        return full, {**arrays, "rows.positions": self.recognition.held()}, tables

    @classmethod
    def from_state(
        cls,
        shipment: Shipment,
        header: dict[str, Any],
        arrays: dict[str, Array],
        tables: dict[str, list[pa.RecordBatch]],
    ) -> Shard:
        """Go on from a `state`."""
        self = cls(shipment, schema_from_text(header["first_schema"]))
        own = {name: batches[0] for name, batches in tables.items() if name not in ("rows", "waiting")}
        self.recognition.restore(header["recognition"], arrays, own)
        if tables["rows"]:
            self.rows.restore(arrays["rows.positions"], tables["rows"][0], self.recognition.position)
        else:
            self.rows.restore(np.zeros(0, np.int64), None, self.recognition.position)
        self._kept = self.rows.count
        return self

    def _find_main(self, main: pa.Array) -> None:
        """Where the chunk proper begins: rows before it only warm the recogniser up."""
        if self._emit_from == self.recognition.position:
            inside = np.flatnonzero(main.to_numpy(zero_copy_only=False))
            self._emit_from += int(inside[0]) if len(inside) else len(main)

    def _results(self, found: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        if self._emit_from:
            ends = found.column("end").to_numpy()
            found = found.slice(int(np.searchsorted(ends, self._emit_from)))
        for piece in pieces(found):
            yield result_rows(piece, self.rows.take, self.shipment, self.recognition.bound.result)


def result_rows(
    matches: pa.RecordBatch,
    take: Callable[[npt.NDArray[np.int64]], pa.Table],
    shipment: Shipment,
    columns: ResultColumns,
) -> pa.RecordBatch:
    """Matches as rows of the result: keys, times, one list of events for each variable, all events."""
    variables = columns.variables
    events = matches.column("events")
    after = matches.schema.get_field_index("events") + 1
    own = matches.columns[after:]
    positions = np.unique(np.asarray(events.flatten()))
    data = take(positions).combine_chunks()
    first_key = after - 1 - len(columns.keys)
    keys = [
        column.cast(pa.float64()) if k in shipment.keys_as_text else column
        for k, column in enumerate(matches.columns[first_key : after - 1])
    ]
    found = [*keys, matches.column("start_time"), matches.column("end_time")]
    projections = {} if shipment.ids else shipment.plan.projections
    for name, column in zip(variables, own, strict=True):
        shown = list(projections.get(name, shipment.shown))
        found.append(_lists(column, positions, _values(data.select(shown), shipment.ids)))
    if projections and variables:
        rows = np.searchsorted(positions, np.asarray(events.flatten()))
        taken = data.take(pa.array(rows)).combine_chunks().to_batches()
        if taken:
            masked = project(taken[0], bindings(events, own), variables, projections)
            all_events = _with_offsets(events, _values(pa.table(masked), False))
        else:
            all_events = _lists(events, positions, _values(data, False))
    else:
        all_events = _lists(events, positions, _values(data, shipment.ids))
    found.append(all_events)
    return pa.RecordBatch.from_arrays(found, names=result_names(shipment.keys, variables))


def result_names(keys: Iterable[str], variables: Iterable[str]) -> list[str]:
    """The columns of the result in order; one that is called like another gets underscores at its end.

    Spark does not tell `A` from `a`, so neither do we.
    """
    keys = list(keys)
    used = {"start_time", "end_time", "events"}
    names = []
    for name in [*keys, *variables]:
        while name.lower() in used:
            name += "_"
        used.add(name.lower())
        names.append(name)
    return [*names[: len(keys)], "start_time", "end_time", *names[len(keys) :], "events"]


def _values(data: pa.Table, ids: bool) -> pa.Array:
    """Events as structs of their attributes, or as their ids."""
    columns = [column.combine_chunks() for column in data.columns]
    columns = [c.chunk(0) if isinstance(c, pa.ChunkedArray) else c for c in columns]
    return columns[0] if ids else pa.StructArray.from_arrays(columns, fields=list(data.schema))


def _lists(positions: pa.Array, known: Array, values: pa.Array) -> pa.Array:
    """Lists of positions as lists of the values at them; `values[k]` stands at position `known[k]`."""
    rows = np.searchsorted(known, np.asarray(positions.flatten()))
    return _with_offsets(positions, values.take(pa.array(rows)))


def _with_offsets(lists: pa.Array, values: pa.Array) -> pa.Array:
    offsets = np.asarray(lists.offsets).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets - offsets[0]), values)


def recogniser(shipment: Shipment) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that a task of a batch job runs over its rows, which are in order."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        shard: Shard | None = None
        for batch in larger(batches):
            shard = Shard(shipment, batch.schema) if shard is None else shard
            yield from shard.feed(batch)
        if shard is not None:
            yield from shard.flush()

    return run


def larger(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in fewer batches: Spark's ten thousand rows are too few to spread the cost of a call over."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        if rows and rows + batch.num_rows > FEED_ROWS:
            yield pa.concat_batches(waiting)
            waiting, rows = [], 0
        if batch.num_rows:
            waiting.append(batch)
            rows += batch.num_rows
    if waiting:
        yield pa.concat_batches(waiting)
