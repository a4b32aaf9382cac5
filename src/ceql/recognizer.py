"""The push API: events go in as they come, matches come out as they happen.

`feed` gives the matches that end in the events fed, lazily. If you feed again (or take a snapshot) before you have read
them all, the rest is found first and kept in memory, within the limit `memory`.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from datetime import timedelta
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ceql.analysis.selection import Selection
from ceql.errors import DataError, ResourceError, SchemaError, did_you_mean
from ceql.io.nested import with_columns
from ceql.io.schemas import conform, unify_schemas
from ceql.io.sequencer import Sequencer
from ceql.io.sorted_runs import EventBatch
from ceql.io.sources import open_source
from ceql.plan import Plan
from ceql.recognition import snapshot
from ceql.recognition.bound_plan import BoundPlan
from ceql.recognition.frame import Recognition
from ceql.recognition.options import Options
from ceql.recognition.recognise import recognise
from ceql.recognition.result_columns import ResultColumns
from ceql.recognition.rows import RowStore
from ceql.recognition.types_seen import TypesSeen
from ceql.results.matches import Matches
from ceql.results.source import RowsKept


class Recognizer:
    """A query that is fed piece by piece. Made by `Query.recognizer` and `Query.restore`."""

    def __init__(self, plan: Plan, options: Options, keep_rows: bool = True) -> None:
        self._plan = plan
        self._options = options
        self._keep_rows = keep_rows
        self._nested = options.nested(plan.query)
        self._streams: tuple[str | None, ...] = plan.query.streams or (None,)
        self._schemas: dict[int, pa.Schema] = {}
        self._open = False
        self._sequencer: Sequencer | None = None
        self._recognition: Recognition | None = None
        self._types: TypesSeen | None = None
        self._rows = RowStore(pa.schema([]))
        self._waiting: list[tuple[pa.RecordBatch, int]] = []  # fed before every stream's columns were known
        self._todo: deque[EventBatch] = deque()  # in order, and not yet recognised
        self._last: Fed | None = None
        self._finished = False

    def feed(self, events: Any, stream: str | None = None) -> Matches:
        """Push events (a batch, table, frame, dicts, ...), of `stream` where FROM lists several.

        A dict of streams by name feeds several at once.
        """
        if self._finished:
            raise DataError("this recogniser is finished and takes no more events")
        self._settle()
        ordered: list[EventBatch] = []
        if isinstance(events, Mapping) and len(self._streams) > 1 and set(events) <= set(self._streams):
            for name in self._streams:
                if name in events:
                    ordered += self._push(events[name], self._stream_number(name))
        else:
            if isinstance(events, Mapping):
                events = [events]  # one event
            ordered += self._push(events, self._stream_number(stream))
        return self._matches(ordered)

    def finish(self) -> Matches:
        """Say that no more events come; the events that lateness held back are recognised now."""
        self._settle()
        ordered: list[EventBatch] = []
        if not self._finished:
            self._finished = True
            if self._sequencer is None and self._waiting:
                ordered += self._start()
            if self._sequencer is not None:
                ordered += self._sequencer.finish()
        matches = self._matches(ordered)
        if self._types is not None:
            self._types.conclude()
        return matches

    def late(self) -> pa.Table:
        """The events that came later than the lateness allows, and took no part."""
        return self._sequencer.late() if self._sequencer is not None else pa.table({})

    @property
    def position(self) -> int:
        """How many events have been recognised so far; the position of the next one."""
        return self._recognition.position if self._recognition is not None else 0

    @property
    def memory(self) -> int:
        """The budget of partial matches in bytes. After a `ResourceError` it can be raised, to go on from there."""
        return self._options.memory

    @memory.setter
    def memory(self, memory: int) -> None:
        self._options = replace(self._options, memory=memory)
        if self._recognition is not None:
            self._recognition.set_memory(memory)

    @property
    def partitions(self) -> int:
        """How many substreams of PARTITION BY hold partial matches, or did when memory was last looked through."""
        keys = self._recognition.keys if self._recognition is not None else None
        return keys.known if keys is not None else 1

    def __repr__(self) -> str:
        waiting = sum(batch.num_rows for batch, _ in self._waiting) + sum(batch.data.num_rows for batch in self._todo)
        waiting += self._sequencer.buffered_rows if self._sequencer is not None else 0
        used = self._recognition.machine.used if self._recognition is not None else 0
        parts = [f"position {self.position:,}", f"{waiting:,} row{'s' * (waiting != 1)} waiting"]
        if self._recognition is not None and self._recognition.keys is not None:
            parts.append(f"{self.partitions:,} partition{'s' * (self.partitions != 1)}")
        parts.append(f"{used / 1e6:,.1f} of {self.memory / 1e6:,.0f} MB of memory")
        return f"<Recognizer: {', '.join(parts)}{', finished' * self._finished}>"

    # --- feeding ---

    def _stream_number(self, stream: str | None) -> int:
        if stream is None:
            if len(self._streams) > 1:
                raise DataError(
                    f"say which stream these events are of: stream= one of {', '.join(map(str, self._streams))}"
                )
            return 0
        if stream not in self._streams:
            known = [s for s in self._streams if s is not None]
            hint = did_you_mean(stream, known) or ""
            raise DataError(f"the query's FROM lists no stream '{stream}'. {hint}".strip())
        return self._streams.index(stream)

    def _push(self, events: Any, stream: int) -> list[EventBatch]:
        source = open_source(events)
        source.time = self._options.time
        known = self._schemas.get(stream)
        if known is not None and source.time in known.names:
            source.time_type = known.field(source.time).type
        source = with_columns(source, self._nested)
        self._open = self._open or source.open_schema
        batches = list(source.batches())
        if stream not in self._schemas:
            if source.open_schema and not batches:
                return []  # without a dict, the columns are not known yet
            self._schemas[stream] = source.schema
        ready: list[EventBatch] = []
        if self._sequencer is None:
            self._waiting += [(batch, stream) for batch in batches]
            return self._start() if len(self._schemas) == len(self._streams) else []
        for batch in batches:
            batch = conform(batch, self._schemas[stream], self._open)
            if self._open:
                self._schemas[stream] = batch.schema
            ready += self._sequencer.push(batch, stream)
        return ready

    def _start(self) -> list[EventBatch]:
        """Bind the query to the columns, now that every stream has shown its own."""
        self._begin(unify_schemas(self._schemas[k] for k in sorted(self._schemas)))
        assert self._sequencer is not None
        waiting, self._waiting = self._waiting, []
        return [ready for batch, stream in waiting for ready in self._sequencer.push(batch, stream)]

    def _begin(self, schema: pa.Schema) -> None:
        nothing = pa.schema([])
        untyped = self._options.untyped([self._schemas.get(k, nothing) for k in range(len(self._streams))])
        bound = BoundPlan(self._plan, schema, self._streams, self._options, self._open, untyped)
        lateness = self._options.lateness_in(bound.time_type)
        self._recognition = recognise(bound)
        self._types = TypesSeen(bound)
        self._sequencer = Sequencer(self._streams, bound.time, lateness, self._options.max_buffered_rows)
        self._rows = RowStore(schema)

    def _matches(self, ordered: list[EventBatch]) -> Matches:
        self._todo.extend(ordered)
        if self._types is not None:
            for batch in ordered:
                self._types.look(batch)
        fed = Fed(self)
        matches = Matches(fed)
        fed.owner = weakref.ref(matches)
        self._last = fed
        return matches

    def _settle(self) -> None:
        """Recognise the events of the last `feed` to the end; its matches are kept for whoever still holds them."""
        if self._last is not None:
            self._last.settle(self._options.memory)
            self._last = None
            if self._recognition is not None:
                self._rows.forget_before(self._recognition.oldest_position())

    def _work(self) -> Iterator[pa.RecordBatch]:
        """Recognise the events that are in order; after an exception, a new call goes on where it happened."""
        recognition = self._recognition
        if recognition is None:
            return
        yield from recognition.resume()
        while self._todo:
            batch = self._todo.popleft()
            if self._keep_rows:
                self._rows.add(batch.data)
            yield from recognition.feed(batch)
        yield from recognition.flush()

    # --- snapshots ---

    def snapshot(self) -> bytes:
        """The state as bytes, from which `Query.restore` goes on, in this process or another."""
        self._settle()
        header: dict[str, Any] = {
            "query": self._plan.fingerprint,
            "options": _options_to_json(self._options),
            "keep_rows": self._keep_rows,
            "finished": self._finished,
            "open": self._open,
            "schemas": {str(k): snapshot.schema_to_text(s) for k, s in self._schemas.items()},
            "waiting": [stream for _, stream in self._waiting],
        }
        arrays: dict[str, Any] = {}
        tables: dict[str, list[pa.RecordBatch]] = {}
        for k, (batch, _) in enumerate(self._waiting):
            tables[f"waiting.{k}"] = [batch]
        if self._recognition is not None and self._sequencer is not None:
            header["recognition"], arrays, states = self._recognition.state()
            tables |= {name: [table] for name, table in states.items()}
            header["sequencer"], tables["sequencer"] = self._sequencer.state()
            header["schema"] = snapshot.schema_to_text(self._recognition.bound.schema)
            header["rows"] = [self._rows.first, len(self._rows.batches)]
            for k, batch in enumerate(self._rows.batches):
                tables[f"rows.{k}"] = [batch]
        return snapshot.write(header, arrays, tables)


def restore(plan: Plan, blob: bytes) -> Recognizer:
    """The recogniser that `blob` was taken of."""
    header, arrays, tables = snapshot.read(blob)
    if header["query"] != plan.fingerprint:
        raise DataError("the snapshot is of another query; restore it with the query it was taken of")
    recognizer = Recognizer(plan, _options_from_json(header["options"]), header["keep_rows"])
    recognizer._finished = header["finished"]
    recognizer._open = header["open"]
    recognizer._schemas = {int(k): snapshot.schema_from_text(s) for k, s in header["schemas"].items()}
    recognizer._waiting = [(tables[f"waiting.{k}"][0], stream) for k, stream in enumerate(header["waiting"])]
    if "recognition" in header:
        recognizer._begin(snapshot.schema_from_text(header["schema"]))
        assert recognizer._recognition is not None
        recognizer._types = None  # a snapshot does not tell which types came before it
        states = {name: batches[0] for name, batches in tables.items() if batches}
        recognizer._recognition.restore(header["recognition"], arrays, states)
        recognizer._sequencer = Sequencer.from_state(header["sequencer"], tables["sequencer"])
        first, count = header["rows"]
        recognizer._rows = RowStore(recognizer._recognition.bound.schema, first)
        for k in range(count):
            recognizer._rows.add(tables[f"rows.{k}"][0])
    return recognizer


class Fed:
    """The matches of one `feed` (`results.source.MatchSource`): found as they are read, or when they must be."""

    replayable = False

    def __init__(self, recognizer: Recognizer) -> None:
        self._recognizer = recognizer
        self._work = recognizer._work()
        self._found: deque[pa.RecordBatch] = deque()
        self._own_rows: RowStore | None = None
        self.owner: weakref.ref[Matches] | None = None

    @property
    def schema(self) -> pa.Schema:
        recognition = self._recognizer._recognition
        if recognition is None:  # no events were fed, so the columns are not known
            return ResultColumns(self._recognizer._plan.columns).schema
        return recognition.bound.result.schema

    @property
    def selection(self) -> Selection:
        return self._recognizer._plan.selection

    @property
    def type(self) -> str | None:
        recognition = self._recognizer._recognition
        return recognition.bound.type if recognition is not None else None

    @property
    def time(self) -> str | None:
        recognition = self._recognizer._recognition
        return recognition.bound.time if recognition is not None else None

    @property
    def rows_kept(self) -> RowsKept:
        return RowsKept.ALL if self._recognizer._keep_rows else RowsKept.NONE

    def batches(self, rows: bool = False) -> Iterator[pa.RecordBatch]:
        while True:
            batch = self._found.popleft() if self._found else self._next()
            if batch is None:
                return
            yield batch

    def _next(self) -> pa.RecordBatch | None:
        try:
            return next(self._work, None)
        except BaseException:
            self._work = self._recognizer._work()  # once the cause is mended, a new reader gets the rest
            raise

    def settle(self, memory: int) -> None:
        """Find the rest now, and keep it, with the rows it names, if anyone can still ask for it."""
        wanted = self.owner is not None and self.owner() is not None
        size = 0
        while (batch := self._next()) is not None:
            if wanted:
                self._found.append(batch)
                size += batch.nbytes
                if size > memory:
                    raise ResourceError(
                        f"matches that were not read take more than {memory:,} bytes; "
                        "read what feed() returns before feeding again, or raise memory=",
                        limit="memory",
                    )
        if wanted:
            self._own_rows = self._recognizer._rows.copy()

    def count(self) -> int:
        return sum(batch.num_rows for batch in self.batches())

    def late(self) -> pa.Table:
        return self._recognizer.late()

    def rows(self, positions: npt.NDArray[np.int64]) -> pa.Table:
        if not self._recognizer._keep_rows:
            raise SchemaError("this recogniser keeps no rows; make it with keep_rows=True")
        rows = self._recognizer._rows if self._own_rows is None else self._own_rows
        return rows.take(positions)


def _options_to_json(options: Options) -> dict[str, Any]:
    fields = asdict(options)
    if isinstance(options.lateness, timedelta):
        fields["lateness"] = f"{options.lateness // timedelta(microseconds=1) / 1_000_000:.6f} seconds"
    return fields


def _options_from_json(fields: dict[str, Any]) -> Options:
    return Options(**fields)
