"""The push API: events go in as they come, matches come out as they happen.

`feed` gives the matches that end in the events fed, lazily. If you feed again (or take a snapshot) before you have read
them all, the rest is found first and kept in memory, within the limit `memory`.

A feed is a transaction. Whatever exception comes, and wherever: either the recogniser has taken in all events of the
feed, or it is as it was before. What is taken in stands in one immutable `_Intake`, which a feed replaces in the end.
What recognition does with it can be done again (`recognition.journal`).
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import timedelta
from time import perf_counter
from typing import Any, Literal, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ceql.analysis.selection import Selection
from ceql.errors import ArgumentError, CeqlError, DataError, ResourceError, SchemaError, did_you_mean
from ceql.io.growing import Growing
from ceql.io.nested import with_columns
from ceql.io.schemas import conform, no_rows, one_batch, unify_schemas
from ceql.io.sequencer import Sequencer
from ceql.io.sorted_runs import ENDED, EventBatch
from ceql.io.source import Source
from ceql.io.sources import open_source
from ceql.plan import Plan
from ceql.recognition import snapshot, taken_in
from ceql.recognition.aggregation import Aggregation
from ceql.recognition.bound_plan import BoundPlan
from ceql.recognition.frame import Recognition
from ceql.recognition.journal import ALLOWANCE, MANY, Journal, Work
from ceql.recognition.metrics import Metrics
from ceql.recognition.options import Options
from ceql.recognition.result_columns import ResultColumns
from ceql.recognition.rows import RowStore
from ceql.recognition.totals_table import Request
from ceql.recognition.types_seen import TypesSeen
from ceql.results.matches import Matches
from ceql.results.source import RowsKept
from ceql.syntax import tree as t

_log = logging.getLogger(__name__)
_NO_ROWS = "this recogniser keeps no rows; make it with keep_rows=True"


class _Intake(NamedTuple):
    """What a recogniser has taken in. A feed makes a new one; nothing that the old one needs is changed."""

    rows: RowStore
    schemas: dict[int, pa.Schema]
    waiting: Growing[tuple[pa.RecordBatch, int]]
    """Fed before every stream's columns were known."""
    waiting_rows: int = 0
    open: bool = False
    sequencer: Sequencer | None = None
    journal: Journal | None = None
    types: TypesSeen | None = None
    finished: bool = False
    feeds: int = 0
    """How many feeds brought events in order; the journal's number of the next one."""
    last: Fed | None = None

    @property
    def fed(self) -> int:
        """How many events were taken in."""
        return self.waiting_rows + (self.sequencer.seen_rows if self.sequencer is not None else 0)


class Recognizer:
    """A query that is fed piece by piece. Made by `Query.recognizer` and `Query.restore`.

    Several threads may use one recogniser; they take turns.
    """

    def __init__(self, plan: Plan, options: Options, keep_rows: bool = True) -> None:
        self._plan = plan
        self._options = options
        self._keep_rows = keep_rows
        self._nested = options.nested(plan.dotted)
        self._streams: tuple[str | None, ...] = plan.query.streams or (None,)
        self._intake = _Intake(RowStore(pa.schema([])), {}, waiting=Growing())
        self._turn = threading.RLock()
        self._row_bytes = 0.0  # of an event, as it was last measured
        self._unmeasured = 0  # batches until it is measured again
        self._check_at = 0  # when so many events are taken in, the memory they take is looked at
        self._matches_found = 0  # in feeds before the last one
        self._feed_seconds = self._recognise_seconds = self._snapshot_seconds = 0.0
        self._snapshots = self._snapshot_bytes = 0

    def feed(self, events: Any, stream: str | None = None) -> Matches:
        """Push events (a batch, table, frame, dicts, ...), of `stream` where FROM lists several.

        A dict of streams by name feeds several at once. After an exception, `fed` tells whether the events were taken
        in: all of them, or none.
        """
        self._refuse_nested()
        begun = perf_counter()
        with self._turn:
            if self._intake.finished:
                raise DataError("this recogniser is finished and takes no more events")
            self._settle()
            before = self._intake
            intake, ordered = self._draft(), list[EventBatch]()
            if isinstance(events, Mapping) and len(self._streams) > 1 and set(events) <= set(self._streams):
                for name in self._streams:
                    if name in events:
                        intake, ready = self._push(intake, events[name], stream_number(name, self._streams))
                        ordered += ready
            else:
                if isinstance(events, Mapping):
                    events = [events]  # one event
                intake, ordered = self._push(intake, events, stream_number(stream, self._streams))
            matches = self._take_in(before, intake, ordered)
            self._feed_seconds += perf_counter() - begun
            return matches

    def advance(self, time: Any) -> Matches:
        """Say that time has come to `time`: no event before it will be fed any more, and one that is comes late.

        The events that lateness held back until then are recognised now, and matches with NOT at the end whose window
        is over come out.
        """
        self._refuse_nested()
        with self._turn:
            if self._intake.finished:
                raise DataError("this recogniser is finished, and time has come to its end")
            self._settle()
            before, intake = self._intake, self._draft()
            sequencer = intake.sequencer
            if sequencer is None:
                raise DataError("there is no time to move on: no event with a time has come")
            key = sequencer.key(time)
            ordered = sequencer.advance(key)
            return self._take_in(before, intake, [*ordered, self._mark(intake, key)])

    @staticmethod
    def _mark(intake: _Intake, until: int) -> EventBatch:
        """No events, and the word that none before a time will come."""
        assert intake.journal is not None
        return EventBatch(no_rows(intake.journal.recognition.schema), 0, until)

    def finish(self) -> Matches:
        """Say that no more events come; the events that lateness held back are recognised now."""
        self._refuse_nested()
        with self._turn:
            if not self._intake.finished:
                self._settle()
                before, intake, ordered = self._intake, self._draft(), list[EventBatch]()
                if intake.sequencer is None and intake.waiting:
                    intake, ordered = self._start(intake)
                if intake.sequencer is not None:
                    ordered += intake.sequencer.finish()
                    ordered += [self._mark(intake, ENDED)] if self._plan.waits else []
                self._take_in(before, intake._replace(finished=True), ordered)
            matches = self._matches()
            types, sequencer = self._intake.types, self._intake.sequencer
            if types is not None and not (sequencer is not None and sequencer.late_rows):
                types.conclude()
            return matches

    @property
    def last(self) -> Matches:
        """The matches of the last feed once more, for those whom an exception kept from getting them.

        The next feed gives up those that were not read by then, unless somebody holds the result.
        """
        return self._matches()

    @property
    def fed(self) -> int:
        """How many events were taken in: recognised, still waiting for their turn, or late."""
        return self._intake.fed

    def late(self) -> pa.Table:
        """The events that came later than the lateness allows, and took no part."""
        sequencer = self._intake.sequencer
        return sequencer.late() if sequencer is not None else pa.table({})

    @property
    def position(self) -> int:
        """How many events have been recognised so far; the position of the next one."""
        journal = self._intake.journal
        return journal.position if journal is not None else 0

    @property
    def memory(self) -> int:
        """The budget of partial matches in bytes. After a `ResourceError` it can be raised, to go on from there."""
        return self._options.memory

    @memory.setter
    def memory(self, memory: int) -> None:
        self._refuse_nested()
        with self._turn:
            try:
                self._options = replace(self._options, memory=memory)
            except ValueError:
                raise ArgumentError(f"memory is a whole number of at least 1, not {memory!r}") from None
            self._check_at = 0
            if self._intake.journal is not None:
                self._intake.journal.set_memory(memory)

    @property
    def partitions(self) -> int:
        """How many substreams of PARTITION BY hold partial matches, or did when memory was last looked through."""
        keys = self._recognition.keys if self._recognition is not None else None
        return keys.known if keys is not None else 1

    def metrics(self) -> Metrics:
        """What the recogniser has done and holds, as numbers. Other threads may ask in the middle of a feed."""
        intake = self._intake
        sequencer, journal, last = intake.sequencer, intake.journal, intake.last
        measures = journal.measures() if journal is not None else {}
        rows, waiting, held = self._held(intake)
        return Metrics(
            **measures,
            events=intake.fed,
            recognised=self.position,
            late=sequencer.late_rows if sequencer is not None else 0,
            waiting=intake.waiting_rows + (sequencer.buffered_rows if sequencer is not None else 0),
            waiting_limit=self._options.max_buffered_rows,
            states_limit=self._options.max_states,
            feeds=intake.feeds,
            matches=self._matches_found + (last.found if last is not None else 0),
            partitions=self.partitions,
            memory_rows=rows,
            memory_waiting=waiting,
            memory_used=held + measures.get("memory_graph", 0) + (journal.state_bytes if journal is not None else 0),
            memory_limit=self.memory,
            feed_seconds=self._feed_seconds,
            recognise_seconds=self._recognise_seconds,
            snapshots=self._snapshots,
            snapshot_bytes=self._snapshot_bytes,
            snapshot_seconds=self._snapshot_seconds,
        )

    def worked(self, seconds: float) -> None:
        """Add to the time that finding matches took."""
        self._recognise_seconds += seconds

    def _held(self, intake: _Intake) -> tuple[int, int, int]:
        """The bytes of rows that are kept, of rows that wait, and of all that is held besides the graph's own."""
        sequencer, journal = intake.sequencer, intake.journal
        if sequencer is None or journal is None:
            waiting = sum(batch.nbytes for batch, _ in intake.waiting)
            return 0, waiting, waiting
        rows = int(intake.rows.count * self._row_bytes)
        waiting = int((sequencer.buffered_rows + sequencer.late_kept) * (self._row_bytes + 8))
        # the journal's feeds are among the rows that are kept, where these are kept
        recognition = journal.recognition
        asked = recognition.keys_bytes + recognition.rows_bytes
        return rows, waiting, waiting + max(rows, journal.feeds_bytes) + asked

    @property
    def _recognition(self) -> Recognition | None:
        return self._intake.journal.recognition if self._intake.journal is not None else None

    def __repr__(self) -> str:
        intake = self._intake
        waiting = intake.waiting_rows + (intake.last.waiting if intake.last is not None else 0)
        waiting += intake.sequencer.buffered_rows if intake.sequencer is not None else 0
        used = self._recognition.used if self._recognition is not None else 0
        parts = [f"position {self.position:,}", f"{waiting:,} row{'s' * (waiting != 1)} waiting"]
        if self._recognition is not None and self._recognition.keys is not None:
            parts.append(f"{self.partitions:,} partition{'s' * (self.partitions != 1)}")
        parts.append(f"{used / 1e6:,.1f} of {self.memory / 1e6:,.0f} MB of memory")
        return f"<Recognizer: {', '.join(parts)}{', finished' * intake.finished}>"

    # --- feeding ---

    def _refuse_nested(self) -> None:
        refuse_nested(self._turn)

    def _draft(self) -> _Intake:
        """The intake, to be changed: what changes in place is copied."""
        intake = self._intake
        sequencer = intake.sequencer.copy() if intake.sequencer is not None else None
        return intake._replace(schemas=intake.schemas.copy(), sequencer=sequencer, last=None)

    def _push(self, intake: _Intake, events: Any, stream: int) -> tuple[_Intake, list[EventBatch]]:
        source = open_fed(events, self._options, intake.schemas.get(stream), self._nested)
        if source.open_schema:
            intake = intake._replace(open=True)
        batches = list(source.batches())
        for batch in batches:
            self._measure(batch)
        if stream not in intake.schemas:
            if source.open_schema and not batches:
                return intake, []  # without a dict, the columns are not known yet
            intake.schemas[stream] = source.schema
        if intake.sequencer is None:
            for batch in batches:
                rows = intake.waiting_rows + batch.num_rows
                intake = intake._replace(waiting=intake.waiting.plus((batch, stream)), waiting_rows=rows)
            if len(intake.schemas) == len(self._streams):
                return self._start(intake)
            check_waiting(intake.waiting_rows, intake.schemas, self._streams, self._options)
            return intake, []
        ready: list[EventBatch] = []
        for batch in batches:
            batch = conform(batch, intake.schemas[stream], intake.open)
            if intake.open:
                intake.schemas[stream] = batch.schema
            ready += intake.sequencer.push(batch, stream)
        return intake, ready

    def _measure(self, batch: pa.RecordBatch) -> None:
        """Measure the bytes of an event. To ask Arrow takes long, so small batches are taken to be like others."""
        self._unmeasured -= 1
        if batch.num_rows >= MANY or self._unmeasured < 0:
            self._row_bytes = batch.nbytes / max(1, batch.num_rows)
            self._unmeasured = MANY

    def _start(self, intake: _Intake) -> tuple[_Intake, list[EventBatch]]:
        """Bind the query to the columns, now that every stream has shown its own."""
        waiting = intake.waiting
        intake = self._begin(intake, unify_schemas(intake.schemas[k] for k in sorted(intake.schemas)))
        sequencer = intake.sequencer
        assert sequencer is not None
        return intake, [ready for batch, stream in waiting for ready in sequencer.push(batch, stream)]

    def _begin(self, intake: _Intake, schema: pa.Schema) -> _Intake:
        bound = self._bind(intake, schema)
        lateness = self._options.lateness_in(bound.time_type)
        return intake._replace(
            journal=Journal(bound, self._keep_rows),
            types=TypesSeen(bound),
            sequencer=Sequencer(self._streams, bound.time, lateness, self._options.max_buffered_rows),
            rows=RowStore(schema),
            waiting=Growing(),
            waiting_rows=0,
        )

    def _bind(self, intake: _Intake, schema: pa.Schema) -> BoundPlan:
        nothing = pa.schema([])
        untyped = self._options.untyped([intake.schemas.get(k, nothing) for k in range(len(self._streams))])
        return BoundPlan(self._plan, schema, self._streams, self._options, intake.open, untyped)

    def _take_in(self, before: _Intake, intake: _Intake, ordered: list[EventBatch]) -> Matches:
        """Make the events part of the recogniser, by one assignment."""
        types = intake.types
        if types is not None and not types.settled:
            types = types.copy()
            for batch in ordered:
                types.look(batch)
        if intake.journal is not None and intake.fed >= self._check_at:
            self._check_budget(intake, intake.journal)
        fed = Fed(self, before, intake, ordered)
        matches = fed.matches(self.memory)
        self._intake = intake._replace(types=types, feeds=intake.feeds + bool(ordered), last=fed)
        return matches

    def _check_budget(self, intake: _Intake, journal: Journal) -> None:
        """Leave partial matches what the budget has left beside all else; an error if that is less than they have."""
        rows, waiting, held = self._held(intake)
        held, used = max(0, held - ALLOWANCE), journal.recognition.used + journal.state_bytes
        journal.leave_room(self.memory - held)
        self._check_at = intake.fed + int((ALLOWANCE >> 3) / max(1.0, self._row_bytes))
        if held and held + used > self.memory:
            self._check_at = 0
            what = [f"events kept for matches {rows:,} (keep_rows=False keeps none)"] * bool(rows)
            what += [f"events that wait or came late {waiting:,}"] * bool(waiting)
            what += [f"partial matches {used:,}"]
            raise ResourceError(
                f"the recogniser holds {held + used:,} bytes, and memory= is {self.memory:,}: {', '.join(what)}; "
                "raise memory=, or bound the query with a (smaller) WITHIN window, PARTITION BY or CONSUME BY",
                limit="memory",
            )

    def _take_back(self, fed: Fed) -> None:
        """Be as before this feed, whose events cannot be recognised."""
        if self._intake.last is fed:
            self._intake = fed.before._replace(last=None)

    def _matches(self) -> Matches:
        last = self._intake.last
        fed = last if last is not None else Fed(self, self._intake, self._intake, [])
        return fed.matches(self.memory)

    def _settle(self) -> None:
        """Recognise the events of the last `feed` to the end; its matches are kept for whoever still holds them."""
        intake = self._intake
        if intake.last is not None:
            intake.last.settle(self._options.memory)
            self._matches_found += intake.last.take_found()
            if intake.journal is not None:
                intake.rows.cut(intake.journal.position)
                intake.rows.forget_before(intake.journal.oldest_position(intake.feeds))

    # --- snapshots ---

    def snapshot(self) -> bytes:
        """The state as bytes, from which `Query.restore` goes on, in this process or another."""
        self._refuse_nested()
        begun = perf_counter()
        with self._turn:
            self._settle()
            intake = self._intake
            bound = intake.journal.recognition.bound if intake.journal is not None else None
            header, tables = taken_in.written(intake, self._keep_rows, bound)
            header |= {"query": self._plan.fingerprint, "options": options_to_json(self._options)}
            arrays: dict[str, Any] = {}
            if intake.journal is not None:
                header["recognition"], arrays, states = intake.journal.state(intake.feeds)
                tables |= {name: [table] for name, table in states.items()}
            blob = snapshot.write(header, arrays, tables)
            self._snapshots, self._snapshot_bytes = self._snapshots + 1, len(blob)
            self._snapshot_seconds += perf_counter() - begun
            _log.debug("a snapshot of %d bytes, after %d events", len(blob), intake.fed)
            return blob


def restore(plan: Plan, blob: bytes, threads: int | Literal["all"] = 1) -> Recognizer:
    """The recogniser that `blob` was taken of. `DataError` if there can be no such recogniser."""
    header, arrays, tables = snapshot.read(blob)
    with snapshot.guarded():
        if header["query"] != plan.fingerprint:
            raise DataError("the snapshot is of another query; restore it with the query it was taken of")
        taken_in.check_flags(header)
        recognizer = Recognizer(plan, options_from_json(header["options"], threads), header["keep_rows"])
        schemas, waiting = taken_in.waiting_in(header, tables, recognizer._streams)
        intake = _Intake(
            RowStore(pa.schema([])),
            schemas,
            waiting,
            waiting_rows=sum(batch.num_rows for batch, _ in waiting),
            open=header["open"],
            finished=header["finished"],
        )
        if "recognition" in header:
            bound = recognizer._bind(intake, snapshot.schema_from_text(header["schema"]))
            states = {name: batches[0] for name, batches in tables.items() if batches}
            journal = Journal(bound, header["keep_rows"], (header["recognition"], arrays, states))
            sequencer, rows = taken_in.ordered_in(header, tables, recognizer._streams, bound, journal.position)
            # a snapshot does not tell which types came before it: `types` stays None
            intake = intake._replace(journal=journal, sequencer=sequencer, rows=rows)
        recognizer._intake = intake
        return recognizer


class Fed:
    """The matches of one `feed` (`results.source.MatchSource`): found as they are read, or when they must be.

    Until the next feed, each pass begins with the first match. The next feed keeps what was not handed out by then.

    The recogniser has its last result, so the result knows the recogniser by a weak reference alone, and goes on
    without it. A cycle of the two would hold the memory of a recogniser that is given up until Python's collector looks
    through all objects, which may be hours later.
    """

    replayable = False

    def __init__(self, recognizer: Recognizer, before: _Intake, intake: _Intake, batches: list[EventBatch]) -> None:
        self.before = before
        self._recognizer = weakref.ref(recognizer)
        self._turn, self._plan, self._keep_rows = recognizer._turn, recognizer._plan, recognizer._keep_rows
        self._intake = intake
        self._batches = batches
        self._done = not batches  # whether there is nothing to find any more
        self._given = 0  # matches handed out in this pass
        self.found = 0
        """How many matches were read or counted, in whatever pass had most."""
        self._work: Work | None = None  # finds those that follow
        self._kept: list[pa.RecordBatch] | None = None  # what was left when the next feed came
        self._own_rows: RowStore | None = None
        self._error: Exception | None = None
        self._pass: weakref.ref[_Pass] | None = None
        self._owners: list[weakref.ref[Matches]] = []

    def matches(self, memory: int) -> Matches:
        """A result for the user, whose tables may take so many bytes."""
        matches = Matches(self, memory)
        self._owners.append(weakref.ref(matches))
        return matches

    @property
    def waiting(self) -> int:
        """How many events are not recognised yet."""
        return 0 if self._done or self._kept is not None else sum(batch.data.num_rows for batch in self._batches)

    @property
    def query(self) -> t.Query:
        return self._plan.query

    @property
    def schema(self) -> pa.Schema:
        recognition = self._recognition
        if recognition is None:  # no events were fed, so the columns are not known
            return ResultColumns(self._plan.columns, singles=self._plan.selection.singles).schema
        return recognition.bound.result.schema

    @property
    def _recognition(self) -> Recognition | None:
        return self._intake.journal.recognition if self._intake.journal is not None else None

    @property
    def selection(self) -> Selection:
        return self._plan.selection

    @property
    def type(self) -> str | None:
        return self._recognition.bound.type if self._recognition is not None else None

    @property
    def time(self) -> str | None:
        return self._recognition.bound.time if self._recognition is not None else None

    @property
    def rows_kept(self) -> RowsKept:
        return RowsKept.ALL if self._keep_rows else RowsKept.NONE

    @property
    def restarts(self) -> bool:
        return self._kept is None or not self._given

    def batches(self, rows: bool = False) -> Iterator[pa.RecordBatch]:
        if self._kept is None:
            self._done = not self._batches
            self._given, self._work = 0, None
        found = _Pass(self)
        self._pass = weakref.ref(found)
        return found

    def next_of(self, reading: _Pass) -> pa.RecordBatch | None:
        """The next matches of a pass."""
        refuse_nested(self._turn)
        with self._turn:
            if self._kept is not None:
                reading.kept += 1
                return self._kept[reading.kept - 1] if reading.kept <= len(self._kept) else None
            if self._error is not None:
                raise self._error
            if self._pass is None or self._pass() is not reading:
                raise DataError("these matches are being read anew, and this reader cannot go on")
            if self._done:
                return None
            begun = perf_counter()
            try:
                work, self._work = self._begun(), None  # an exception leaves no work that has gone on
                batch = next(work, None)
            except Exception as error:
                self._failed(error)
            self._worked(begun)
            if batch is None:
                self._done = True
            else:
                self._given += batch.num_rows
                self.found = max(self.found, self._given)
                self._work = work
            return batch

    def _begun(self) -> Work:
        """Finds the matches after those that were handed out."""
        if self._work is not None:
            return self._work
        intake = self._intake
        assert intake.journal is not None
        return _after(self._given, intake.journal.work(intake.feeds, self._batches, self._rows_to_fill))

    def _worked(self, begun: float) -> None:
        recognizer = self._recognizer()
        if recognizer is not None:
            recognizer.worked(perf_counter() - begun)

    def _take_back(self) -> None:
        recognizer = self._recognizer()
        if recognizer is not None:
            recognizer._take_back(self)

    @property
    def _rows_to_fill(self) -> RowStore | None:
        return self._intake.rows if self._keep_rows else None

    def _failed(self, error: Exception) -> NoReturn:
        """What the caller can mend leaves the feed to be done again; any other error takes it back."""
        if not isinstance(error, ResourceError | MemoryError):
            self._error = error
            self._take_back()
        raise error

    def settle(self, memory: int) -> None:
        """Find the rest now, and keep it, with the rows it names, if anyone can still ask for it."""
        if self._kept is not None:
            return
        try:
            rest = self._rest(memory)
        except (ResourceError, MemoryError):
            raise
        except Exception as error:
            if self._done:  # all events are recognised: what failed is not to blame on them
                raise
            self._error = error
            self._take_back()
            message = f"the events fed before cannot be recognised, and were taken back: {error}"
            raise (DataError(message) if isinstance(error, CeqlError) else error) from error
        self.found = max(self.found, self._given + sum(batch.num_rows for batch in rest))
        if rest:
            self._own_rows = self._intake.rows.copy()
        self._kept = rest
        self._batches = []
        self.before = self._intake  # it is not taken back any more

    def take_found(self) -> int:
        """How many matches were found, to be added to a total once."""
        found, self.found = self.found, 0
        return found

    def _rest(self, memory: int) -> list[pa.RecordBatch]:
        rest: list[pa.RecordBatch] = []
        if self._done or self._error is not None:
            return rest
        reading = self._pass() if self._pass is not None else None
        if not any(owner() is not None for owner in self._owners) or (self._given and reading is None):
            self._drop()
            return rest
        size = 0
        work, self._work = self._begun(), None
        for batch in work:
            rest.append(batch)
            size += batch.nbytes
            if size > memory:
                raise ResourceError(
                    f"matches that were not read take more than {memory:,} bytes; "
                    "read what feed() returns before feeding again, or raise memory=",
                    limit="memory",
                )
        return rest

    def _drop(self) -> None:
        """Come to the end of the events without their matches."""
        intake = self._intake
        assert intake.journal is not None
        work, self._work = self._begun(), None
        intake.journal.finish(intake.feeds, self._batches, self._rows_to_fill, work)

    def _at_once(self, work: Callable[[Journal], int]) -> int | None:
        """Do the feed whole by `work`, which gives the number of its matches; None if they are found already."""
        refuse_nested(self._turn)
        with self._turn:
            if self._error is not None:
                raise self._error
            journal = self._intake.journal
            if self._kept is not None or self._done or journal is None:
                return None
            begun = perf_counter()
            try:
                found = work(journal)
            except Exception as error:
                self._failed(error)
            self._worked(begun)
            self._done = True
            self.found = found
            return found

    def count(self) -> int:
        found = self._at_once(lambda journal: journal.count(self._intake.feeds, self._batches, self._rows_to_fill))
        return sum(batch.num_rows for batch in self._kept or ()) if found is None else found

    def foreseen(self) -> int | None:
        return None  # a feed is read once

    def aggregation(self, request: Request) -> Aggregation:
        if self._recognition is None:
            raise DataError("no events were fed yet, so their columns are not known")
        if request.attributes and not self._keep_rows:
            raise SchemaError(_NO_ROWS)
        return Aggregation(request, self._recognition.bound)

    def add_up(self, aggregation: Aggregation) -> None:
        def gather(journal: Journal) -> int:
            journal.gather(self._intake.feeds, self._batches, self._rows_to_fill, aggregation, self._attributes_at)
            return sum(aggregation.totals.counts.values())

        if self._at_once(gather) is None:
            for batch in self._kept or ():
                aggregation.add(batch, self._attributes_at)

    def _attributes_at(self, positions: npt.NDArray[np.int64]) -> pa.RecordBatch:
        return one_batch(self.rows(positions))

    def late(self) -> pa.Table:
        recognizer, sequencer = self._recognizer(), self._intake.sequencer
        if recognizer is not None:
            return recognizer.late()
        return sequencer.late() if sequencer is not None else pa.table({})

    def rows(self, positions: npt.NDArray[np.int64]) -> pa.Table:
        if not self._keep_rows:
            raise SchemaError(_NO_ROWS)
        rows = self._intake.rows if self._own_rows is None else self._own_rows
        return rows.take(positions)


class _Pass:
    """One reading of the matches of a feed, from the first on."""

    def __init__(self, fed: Fed) -> None:
        self._fed = fed
        self.kept = 0
        """How many batches it has of those that were kept when the next feed came."""

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        batch = self._fed.next_of(self)
        if batch is None:
            raise StopIteration
        return batch


def _after(skip: int, work: Work) -> Work:
    """The matches that `work` finds, without the first ones."""
    for batch in work:
        if skip < batch.num_rows:
            yield batch.slice(skip)
        skip = max(0, skip - batch.num_rows)


def open_fed(events: Any, options: Options, known: pa.Schema | None, nested: Sequence[str]) -> Source:
    """What is fed to a stream as a source; `known` are the columns that the stream has shown before."""
    source = open_source(events)
    source.time = options.time
    if known is not None and source.time in known.names:
        source.time_type = known.field(source.time).type
    return with_columns(source, nested)


def check_waiting(rows: int, schemas: Mapping[int, pa.Schema], streams: Sequence[str | None], options: Options) -> None:
    """Refuse to let more rows wait, for streams that have not shown their columns, than the options say."""
    most = options.max_buffered_rows
    if rows > most:
        silent = next(name for k, name in enumerate(streams) if k not in schemas)
        raise ResourceError(
            f"{rows} rows would wait for stream '{silent}', which has not shown its columns yet, "
            f"and max_buffered_rows is {most}: feed that stream (an empty table will do), or raise the limit",
            limit="max_buffered_rows",
        )


def refuse_nested(turn: threading.RLock) -> None:
    """A signal handler or finaliser that feeds in the middle of a feed would find a state that is not whole."""
    if turn._is_owned():  # type: ignore[attr-defined]
        raise CeqlError("this recogniser is in the middle of a feed of the same thread, and cannot be used in it")


def stream_number(stream: str | None, streams: Sequence[str | None]) -> int:
    """The number of the stream that events are fed to; `streams` are those of FROM."""
    if stream is None:
        if len(streams) > 1:
            raise DataError(f"say which stream these events are of: stream= one of {', '.join(map(str, streams))}")
        return 0
    if stream not in streams:
        hint = did_you_mean(stream, [name for name in streams if name is not None]) or ""
        raise DataError(f"the query's FROM lists no stream '{stream}'. {hint}".strip())
    return streams.index(stream)


def options_to_json(options: Options) -> dict[str, Any]:
    """The options as a snapshot has them."""
    fields = asdict(options)
    del fields["threads"]  # it says something of the machine, not of the stream
    if isinstance(options.lateness, timedelta):
        fields["lateness"] = f"{options.lateness // timedelta(microseconds=1) / 1_000_000:.6f} seconds"
    return fields


def options_from_json(fields: dict[str, Any], threads: int | Literal["all"]) -> Options:
    """The options that a snapshot has."""
    return Options(**fields, threads=threads)
