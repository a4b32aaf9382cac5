"""The push API: events go in as they come, matches come out as they happen.

`feed` gives the matches that end in the events fed, lazily. If you feed again (or take a snapshot) before you have read
them all, the rest is found first and kept in memory, within the limit `memory`. A recogniser of several queries finds
the matches of a feed at once, so that all queries are always at the same place.

A feed is a transaction. Whatever exception comes, and wherever: either the recogniser has taken in all events of the
feed, or it is as it was before. What is taken in stands in one immutable `Intake`, which a feed replaces in the end.
What recognition does with it can be done again (`recognition.journal`).
"""

from __future__ import annotations

import logging
import threading
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any, Generic, Self, TypeVar

import pyarrow as pa

from ceql.errors import DataError, ResourceError, did_you_mean
from ceql.io.growing import Growing
from ceql.io.nested import with_columns
from ceql.io.schemas import conform, no_rows, unify_schemas
from ceql.io.sequencer import Sequencer
from ceql.io.sorted_runs import ENDED, EventBatch
from ceql.io.source import Source
from ceql.io.sources import open_source
from ceql.plans import Plan
from ceql.recognition.fed import Fed, refuse_nested
from ceql.recognition.frame import Recognition
from ceql.recognition.intake import Intake, bound_to, empty, restored, written
from ceql.recognition.journal import ALLOWANCE, MANY, Journal
from ceql.recognition.metrics import Metrics
from ceql.recognition.options import Options, Threads
from ceql.recognition.rejected import Rejected, sift
from ceql.recognition.rows import RowStore
from ceql.recognition.types_seen import TypesSeen
from ceql.results.match_set import MatchSet
from ceql.results.matches import Matches

_log = logging.getLogger(__name__)
_Result = TypeVar("_Result", bound=Matches | MatchSet)


class Feeding(Generic[_Result]):
    """Queries that are fed piece by piece. Several threads may use one recogniser; they take turns."""

    def __init__(self, plans: Mapping[str, Plan], options: Options) -> None:
        self._plans = dict(plans)
        self._options = options
        self._nested = options.nested(tuple(dict.fromkeys(name for plan in plans.values() for name in plan.dotted)))
        self._streams: tuple[str | None, ...] = next(iter(plans.values())).query.streams or (None,)
        self._intake = empty()
        self._turn = threading.RLock()
        self._row_bytes = 0.0  # of an event, as it was last measured
        self._unmeasured = 0  # batches until it is measured again
        self._check_at = 0  # when so many events are taken in, the memory they take is looked at
        self._matches_found = 0  # in feeds before the last one
        self._feed_seconds = self._recognise_seconds = self._snapshot_seconds = 0.0
        self._snapshots = self._snapshot_bytes = self._rejected = 0

    @classmethod
    def restored(cls, plans: Mapping[str, Plan], snapshot: bytes, threads: Threads, strict: bool = True) -> Self:
        """The recogniser that a snapshot was taken of; unless `strict`, by a set of other queries."""
        streams = next(iter(plans.values())).query.streams or (None,)
        options, intake = restored(snapshot, plans, streams, threads, strict)
        recognizer = cls(plans, options)
        recognizer._intake = intake
        return recognizer

    @abstractmethod
    def _result(self, fed: Fed) -> _Result:
        """The columns by which users read the matches of a feed."""

    def _settled(self, fed: Fed) -> None:
        """Find the matches of a new feed now, if nobody may wait for them."""

    def feed(self, events: Any, stream: str | None = None) -> _Result:
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
                        intake, ready = self._sifted(intake, events[name], stream_number(name, self._streams))
                        ordered += ready
            else:
                if isinstance(events, Mapping):
                    events = [events]  # one event
                intake, ordered = self._sifted(intake, events, stream_number(stream, self._streams))
            matches = self._take_in(before, intake, ordered)
            self._feed_seconds += perf_counter() - begun
            return matches

    def advance(self, time: Any) -> _Result:
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
    def _mark(intake: Intake, until: int) -> EventBatch:
        """No events, and the word that none before a time will come."""
        assert intake.journal is not None
        return EventBatch(no_rows(intake.journal.recognitions[0].schema), 0, until)

    def finish(self) -> _Result:
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
                    waits = any(plan.waits for plan in self._plans.values())
                    ordered += [self._mark(intake, ENDED)] if waits else []
                self._take_in(before, intake._replace(finished=True), ordered)
            matches = self._matches()
            types, sequencer = self._intake.types, self._intake.sequencer
            if types is not None and not (sequencer is not None and sequencer.late_rows):
                types.conclude()
            return matches

    @property
    def fed(self) -> int:
        """The number of events that were taken in: recognised, still waiting for their turn, or late."""
        return self._intake.fed

    def late(self) -> pa.Table:
        """The events that came later than the lateness allows, and took no part."""
        sequencer = self._intake.sequencer
        return sequencer.late() if sequencer is not None else pa.table({})

    @property
    def position(self) -> int:
        """The number of events recognised so far, which is the position of the next one."""
        journal = self._intake.journal
        return journal.position if journal is not None else 0

    @property
    def memory(self) -> int:
        """The budget of partial matches in bytes (of each query, if there are several). After a `ResourceError` it can
        be raised, to go on from there."""
        return self._options.memory

    @memory.setter
    def memory(self, memory: int) -> None:
        self._refuse_nested()
        with self._turn:
            self._options = replace(self._options, memory=memory)
            self._check_at = 0
            if self._intake.journal is not None:
                self._intake.journal.set_memory(memory)

    @property
    def partitions(self) -> int:
        """The number of substreams that hold partial matches, or did when memory was last looked through."""
        return max((one.keys.known for one in self._recognitions if one.keys is not None), default=1)

    @property
    def _recognitions(self) -> list[Recognition]:
        return self._intake.journal.recognitions if self._intake.journal is not None else []

    def metrics(self) -> Metrics:
        """Return counters of what the recogniser has done and holds. Other threads may ask in the middle of a feed."""
        intake = self._intake
        sequencer, journal, last = intake.sequencer, intake.journal, intake.last
        measures = journal.measures() if journal is not None else {}
        rows, waiting, held = self._held(intake)
        return Metrics(
            **measures,
            events=intake.fed,
            recognised=self.position,
            late=sequencer.late_rows if sequencer is not None else 0,
            rejected=self._rejected,
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

    def _held(self, intake: Intake) -> tuple[int, int, int]:
        """The bytes of rows that are kept, of rows that wait, and of all that is held besides the graph's own."""
        sequencer, journal = intake.sequencer, intake.journal
        if sequencer is None or journal is None:
            waiting = sum(batch.nbytes for batch, _ in intake.waiting)
            return 0, waiting, waiting
        rows = int(intake.rows.count * self._row_bytes)
        waiting = int((sequencer.buffered_rows + sequencer.late_kept) * (self._row_bytes + 8))
        # the journal's feeds are among the rows that are kept, where these are kept
        asked = sum(one.keys_bytes + one.rows_bytes for one in journal.recognitions)
        return rows, waiting, waiting + max(rows, journal.feeds_bytes) + asked

    def __repr__(self) -> str:
        intake, recognitions = self._intake, self._recognitions
        waiting = intake.waiting_rows + (intake.last.waiting if intake.last is not None else 0)
        waiting += intake.sequencer.buffered_rows if intake.sequencer is not None else 0
        used = sum(one.used for one in recognitions)
        parts = [f"position {self.position:,}", f"{waiting:,} row{'s' * (waiting != 1)} waiting"]
        if any(one.keys is not None for one in recognitions):
            parts.append(f"{self.partitions:,} partition{'s' * (self.partitions != 1)}")
        parts.append(f"{used / 1e6:,.1f} of {self.memory / 1e6:,.0f} MB of memory")
        of = "" if "" in self._plans else f" of {len(self._plans)} quer{'y' if len(self._plans) == 1 else 'ies'}"
        return f"<{type(self).__name__}{of}: {', '.join(parts)}{', finished' * intake.finished}>"

    # --- feeding ---

    def _refuse_nested(self) -> None:
        refuse_nested(self._turn)

    def _sifted(self, intake: Intake, events: Any, stream: int) -> tuple[Intake, list[EventBatch]]:
        """Push events; set those aside that make no sense, if that is wanted."""
        if self._options.on_bad == "fail":
            return self._push(intake, events, stream)

        def push(own: Intake, part: Any) -> tuple[Intake, list[EventBatch]]:
            return self._push(self._copied(own), part, stream)

        intake, ready, bad = sift(intake, events, push, lambda own: own.sequencer is not None)
        for one in bad:
            intake = intake._replace(rejected=intake.rejected.plus(one))
        self._rejected += len(bad)
        return intake, ready

    def take_rejected(self) -> list[Rejected]:
        """The events that made no sense since this was last asked, each with the reason; with `on_bad="reject"`."""
        self._refuse_nested()
        with self._turn:
            found = list(self._intake.rejected)
            self._intake = self._intake._replace(rejected=Growing())
            return found

    def _draft(self) -> Intake:
        """The intake, to be changed: what changes in place is copied."""
        return self._copied(self._intake)

    @staticmethod
    def _copied(intake: Intake) -> Intake:
        sequencer = intake.sequencer.copy() if intake.sequencer is not None else None
        return intake._replace(schemas=intake.schemas.copy(), sequencer=sequencer, last=None)

    def _push(self, intake: Intake, events: Any, stream: int) -> tuple[Intake, list[EventBatch]]:
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

    def _start(self, intake: Intake) -> tuple[Intake, list[EventBatch]]:
        """Bind the query to the columns, now that every stream has shown its own."""
        waiting = intake.waiting
        intake = self._begin(intake, unify_schemas(intake.schemas[k] for k in sorted(intake.schemas)))
        sequencer = intake.sequencer
        assert sequencer is not None
        return intake, [ready for batch, stream in waiting for ready in sequencer.push(batch, stream)]

    def _begin(self, intake: Intake, schema: pa.Schema) -> Intake:
        options = self._options
        bounds = bound_to(intake, schema, self._plans, self._streams, options)
        lateness = options.lateness_in(bounds[0].time_type)
        return intake._replace(
            journal=Journal(bounds),
            types=TypesSeen(bounds[0], self._plans),
            sequencer=Sequencer(self._streams, bounds[0].time, lateness, options.max_buffered_rows),
            rows=RowStore(schema),
            waiting=Growing(),
            waiting_rows=0,
        )

    def _take_in(self, before: Intake, intake: Intake, ordered: list[EventBatch]) -> _Result:
        """Make the events part of the recogniser, by one assignment."""
        types = intake.types
        if types is not None and not types.settled:
            types = types.copy()
            for batch in ordered:
                types.look(batch)
        if intake.journal is not None and intake.fed >= self._check_at:
            self._check_budget(intake, intake.journal)
        fed = self._fed(before, intake, ordered)
        result = self._result(fed)
        self._settled(fed)
        self._intake = intake._replace(types=types, feeds=intake.feeds + bool(ordered), last=fed)
        return result

    def _fed(self, before: Intake, intake: Intake, ordered: list[EventBatch]) -> Fed:
        return Fed(self, self._turn, self._plans, (before, intake), ordered, self._options.keep_rows)

    def _check_budget(self, intake: Intake, journal: Journal) -> None:
        """Leave partial matches what the budget has left beside all else; an error if that is less than they have."""
        rows, waiting, held = self._held(intake)
        if len(journal.recognitions) > 1:  # each has a budget of its own
            self._check_at = 1 << 62
            return
        held, used = max(0, held - ALLOWANCE), journal.recognitions[0].used + journal.state_bytes
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

    def take_back(self, fed: Fed) -> None:
        """Be as before this feed, whose events cannot be recognised."""
        if self._intake.last is fed:
            self._intake = fed.before._replace(last=None)

    def _matches(self) -> _Result:
        """The matches of the last feed."""
        last = self._intake.last
        return self._result(last if last is not None else self._fed(self._intake, self._intake, []))

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
        """The state as bytes, from which `Query.restore` or `QuerySet.restore` goes on, in this process or another."""
        self._refuse_nested()
        begun = perf_counter()
        with self._turn:
            self._settle()
            blob = written(self._intake, self._plans, self._options)
            self._snapshots, self._snapshot_bytes = self._snapshots + 1, len(blob)
            self._snapshot_seconds += perf_counter() - begun
            _log.debug("a snapshot of %d bytes, after %d events", len(blob), self._intake.fed)
            return blob


class Recognizer(Feeding[Matches]):
    """A query that is fed piece by piece. Made by `Query.recognizer` and `Query.restore`.

    Several threads may use one recogniser; they take turns.
    """

    def _result(self, fed: Fed) -> Matches:
        return fed.shown_by(Matches(fed, self.memory))

    @property
    def last(self) -> Matches:
        """The matches of the last feed once more, for those whom an exception kept from getting them.

        The next feed gives up those that were not read by then, unless somebody holds the result.
        """
        return self._matches()


class SetRecognizer(Feeding[MatchSet]):
    """Several queries that are fed piece by piece. Made by `QuerySet.recognizer` and `QuerySet.restore`.

    Several threads may use one recogniser; they take turns.
    """

    def _result(self, fed: Fed) -> MatchSet:
        return fed.shown_by(MatchSet(self._plans, fed, self.memory))

    def _settled(self, fed: Fed) -> None:
        fed.find(self.memory)


def open_fed(events: Any, options: Options, known: pa.Schema | None, nested: Sequence[str]) -> Source:
    """Return what is fed to a stream as a source; `known` are the columns that the stream has shown before."""
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
