"""The push API of several queries: events go in as they come, the matches of all queries come out.

Other than with one query, `feed` finds the matches at once, so that all queries are always at the same place. It is a
transaction all the same: whatever exception comes, either all events of the feed are taken in, or none. What is taken
in stands in one immutable `_Intake`. Each query has a journal (`recognition.journal`), which brings its recognition
back to where the intake is.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import pyarrow as pa

from ceql.engine.common.check import require
from ceql.errors import DataError, ResourceError
from ceql.io.growing import Growing
from ceql.io.schemas import conform, no_rows, unify_schemas
from ceql.io.sequencer import Sequencer
from ceql.io.sorted_runs import ENDED, EventBatch
from ceql.jit import Array
from ceql.plan import Plan
from ceql.recognition import snapshot, taken_in
from ceql.recognition.bound_plan import BoundPlan, Sharing
from ceql.recognition.journal import Journal
from ceql.recognition.options import Options
from ceql.recognition.result_columns import ResultColumns
from ceql.recognition.rows import RowStore
from ceql.recognition.together import BoundTogether, in_order, in_rounds
from ceql.recognition.types_seen import TypesSeen
from ceql.recognizer import (
    check_waiting,
    open_fed,
    options_from_json,
    options_to_json,
    refuse_nested,
    stream_number,
)
from ceql.results.fed_set import FedSet
from ceql.results.match_set import MatchSet, Shown

KIND = "query set"


class _Intake(NamedTuple):
    """What a recogniser has taken in. A feed makes a new one; nothing that the old one needs is changed."""

    rows: RowStore
    schemas: dict[int, pa.Schema]
    waiting: Growing[tuple[pa.RecordBatch, int]]
    """Fed before every stream's columns were known."""
    open: bool = False
    sequencer: Sequencer | None = None
    journals: tuple[Journal, ...] = ()
    feeds: int = 0
    """How many feeds brought events in order; the journals' number of the next one."""
    finished: bool = False
    types: TypesSeen | None = None

    @property
    def waiting_rows(self) -> int:
        """How many events wait for the columns of other streams."""
        return sum(batch.num_rows for batch, _ in self.waiting)


class SetRecognizer:
    """Several queries that are fed piece by piece. Made by `QuerySet.recognizer` and `QuerySet.restore`.

    Several threads may use one recogniser; they take turns.
    """

    def __init__(self, plans: Mapping[str, Plan], options: Options, keep_rows: bool = True) -> None:
        self._plans = dict(plans)
        self._names = tuple(plans)
        self._options = options
        self._keep_rows = keep_rows
        self._nested = options.nested(tuple(dict.fromkeys(name for plan in plans.values() for name in plan.dotted)))
        first = next(iter(plans.values()))
        self._streams: tuple[str | None, ...] = first.query.streams or (None,)
        self._intake = _Intake(RowStore(pa.schema([])), {}, Growing())
        self._turn = threading.RLock()

    def feed(self, events: Any, stream: str | None = None) -> MatchSet:
        """Push events (a batch, table, frame, dicts, ...), of `stream` where FROM lists several.

        A dict of streams by name feeds several at once. After an exception, `fed` tells whether the events were taken
        in: all of them, or none.
        """
        with self._alone():
            intake, ordered = self._draft(), list[EventBatch]()
            if isinstance(events, Mapping) and len(self._streams) > 1 and set(events) <= set(self._streams):
                for number, name in enumerate(self._streams):
                    if name in events:
                        intake, ready = self._push(intake, events[name], number)
                        ordered += ready
            else:
                events = [events] if isinstance(events, Mapping) else events  # one event
                intake, ordered = self._push(intake, events, stream_number(stream, self._streams))
            return self._take_in(intake, ordered)

    def advance(self, time: Any) -> MatchSet:
        """Say that time has come to `time`: no event before it will be fed any more, and one that is comes late."""
        with self._alone():
            intake = self._draft()
            if intake.sequencer is None:
                raise DataError("there is no time to move on: no event with a time has come")
            key = intake.sequencer.key(time)
            return self._take_in(intake, [*intake.sequencer.advance(key), self._mark(intake, key)])

    def finish(self) -> MatchSet:
        """Say that no more events come; the events that lateness held back are recognised now."""
        with self._alone(finished=True):
            if self._intake.finished:
                return self._matches([], None)
            intake, ordered = self._draft(), list[EventBatch]()
            if intake.sequencer is None and intake.waiting:
                intake, ordered = self._start(intake)
            if intake.sequencer is not None:
                ordered += intake.sequencer.finish()
                ends = any(plan.waits for plan in self._plans.values())
                ordered += [self._mark(intake, ENDED)] if ends else []
            matches = self._take_in(intake._replace(finished=True), ordered)
            types, sequencer = self._intake.types, self._intake.sequencer
            if types is not None and not (sequencer is not None and sequencer.late_rows):
                types.conclude()
            return matches

    @property
    def fed(self) -> int:
        """How many events were taken in: recognised, still waiting for their turn, or late."""
        intake = self._intake
        return intake.waiting_rows + (intake.sequencer.seen_rows if intake.sequencer is not None else 0)

    @property
    def position(self) -> int:
        """How many events have been recognised so far; the position of the next one."""
        return self._intake.journals[0].position if self._intake.journals else 0

    def late(self) -> pa.Table:
        """The events that came later than the lateness allows, and took no part."""
        sequencer = self._intake.sequencer
        return sequencer.late() if sequencer is not None else pa.table({})

    @property
    def memory(self) -> int:
        """The budget of each query's partial matches in bytes. After a `ResourceError` it can be raised."""
        return self._options.memory

    @memory.setter
    def memory(self, memory: int) -> None:
        with self._alone(finished=True):
            self._options = replace(self._options, memory=memory)
            for journal in self._intake.journals:
                journal.set_memory(memory)

    def __repr__(self) -> str:
        finished = ", finished" * self._intake.finished
        return f"<SetRecognizer of {len(self._names)} queries: position {self.position:,}{finished}>"

    # --- feeding ---

    @contextmanager
    def _alone(self, finished: bool = False) -> Iterator[None]:
        """A turn of this thread. Unless `finished` is fine, the recogniser must take events."""
        refuse_nested(self._turn)
        with self._turn:
            if self._intake.finished and not finished:
                raise DataError("this recogniser is finished and takes no more events")
            yield

    def _draft(self) -> _Intake:
        """The intake, to be changed: what changes in place is copied."""
        intake = self._intake
        sequencer = intake.sequencer.copy() if intake.sequencer is not None else None
        return intake._replace(schemas=intake.schemas.copy(), sequencer=sequencer, rows=intake.rows.copy())

    def _push(self, intake: _Intake, events: Any, stream: int) -> tuple[_Intake, list[EventBatch]]:
        source = open_fed(events, self._options, intake.schemas.get(stream), self._nested)
        if source.open_schema:
            intake = intake._replace(open=True)
        batches = list(source.batches())
        if stream not in intake.schemas:
            if source.open_schema and not batches:
                return intake, []  # without a dict, the columns are not known yet
            intake.schemas[stream] = source.schema
        if intake.sequencer is None:
            for batch in batches:
                intake = intake._replace(waiting=intake.waiting.plus((batch, stream)))
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

    def _start(self, intake: _Intake) -> tuple[_Intake, list[EventBatch]]:
        """Bind the queries to the columns, now that every stream has shown its own."""
        schema = unify_schemas(intake.schemas[k] for k in sorted(intake.schemas))
        bounds = self._bind(intake, schema)
        lateness = self._options.lateness_in(bounds[0].time_type)
        sequencer = Sequencer(self._streams, bounds[0].time, lateness, self._options.max_buffered_rows)
        waiting = intake.waiting
        intake = intake._replace(
            journals=tuple(Journal(bound, True) for bound in bounds),
            types=TypesSeen(bounds[0], {name: plan.query.formula for name, plan in self._plans.items()}),
            sequencer=sequencer,
            rows=RowStore(schema),
            waiting=Growing(),
        )
        return intake, [ready for batch, stream in waiting for ready in sequencer.push(batch, stream)]

    def _bind(self, intake: _Intake, schema: pa.Schema) -> list[BoundPlan]:
        untyped = self._options.untyped([intake.schemas.get(k, pa.schema([])) for k in range(len(self._streams))])

        def bind(plan: Plan, sharing: Sharing) -> BoundPlan:
            return BoundPlan(plan, schema, self._streams, self._options, intake.open, untyped=untyped, sharing=sharing)

        return BoundTogether(self._plans, bind).bounds

    @staticmethod
    def _mark(intake: _Intake, until: int) -> EventBatch:
        """No events, and the word that none before a time will come."""
        return EventBatch(no_rows(intake.journals[0].recognition.schema), 0, until)

    def _take_in(self, intake: _Intake, ordered: Sequence[EventBatch]) -> MatchSet:
        """Recognise the events, and make them part of the recogniser by one assignment."""
        journals, number, found = intake.journals, intake.feeds, list[Shown]()
        held = 0
        if ordered:
            batches = list(ordered) if self._keep_rows else self._shortened(journals, ordered)
            works = [journal.begin(number, batches) for journal in journals]
            for batch in batches:
                if self._keep_rows:
                    intake.rows.add(batch.data)
                for one in in_rounds([work(batch) for work in works]):
                    found.append(Shown(one, in_order(one)))
                    held += sum(matches.nbytes for _, matches in one)
                    if held > self.memory:
                        raise ResourceError(
                            f"the matches of this feed take more than {self.memory:,} bytes: feed fewer events at "
                            "once, or raise memory=",
                            limit="memory",
                        )
            for journal in journals:
                journal.end(number)
        types = intake.types
        if types is not None and not types.settled:
            types = types.copy()
            for batch in ordered:
                types.look(batch)
        rows = intake.rows.copy() if self._keep_rows else None
        if journals and self._keep_rows and ordered:
            intake.rows.forget_before(min(journal.oldest_position(number + 1) for journal in journals))
        self._intake = intake._replace(feeds=number + bool(ordered), types=types)
        return self._matches(found, rows)

    def _shortened(self, journals: Sequence[Journal], ordered: Sequence[EventBatch]) -> list[EventBatch]:
        """The columns that recognition needs."""
        needed = {name for journal in journals for name in journal.recognition.bound.needed_columns()}
        names = [[name for name in batch.data.schema.names if name in needed] for batch in ordered]
        return [batch._replace(data=batch.data.select(own)) for batch, own in zip(ordered, names, strict=True)]

    def _matches(self, found: list[Shown], rows: RowStore | None) -> MatchSet:
        bounds = [journal.recognition.bound for journal in self._intake.journals] or None
        plans = list(self._plans.values())
        if bounds is None:
            results = [ResultColumns(plan.columns, singles=plan.selection.singles) for plan in plans]
        else:
            results = [bound.result for bound in bounds]
        schemas = [result.schema for result in results]
        return MatchSet(FedSet(self._names, plans, bounds, schemas, found, rows, self.memory, self.late))

    # --- snapshots ---

    def snapshot(self) -> bytes:
        """The state as bytes, from which `QuerySet.restore` goes on, in this process or another."""
        with self._alone(finished=True):
            intake = self._intake
            bound = intake.journals[0].recognition.bound if intake.journals else None
            header, tables = taken_in.written(intake, self._keep_rows, bound)
            header |= {
                "kind": KIND,
                "queries": [[name, plan.fingerprint] for name, plan in self._plans.items()],
                "options": options_to_json(self._options),
            }
            arrays: dict[str, Array] = {}
            if intake.journals:
                states = [journal.state(intake.feeds) for journal in intake.journals]
                header["recognitions"], arrays, own = snapshot.joined(states)
                tables |= own
            return snapshot.write(header, arrays, tables)


def restore(plans: Mapping[str, Plan], blob: bytes, threads: int | Literal["all"] = 1) -> SetRecognizer:
    """The recogniser that `blob` was taken of. `DataError` if there can be no such recogniser."""
    header, arrays, tables = snapshot.read(blob)
    with snapshot.guarded():
        if header.get("kind") != KIND:
            raise DataError("the snapshot is not that of a set of queries; restore it with the query it was taken of")
        if header["queries"] != [[name, plan.fingerprint] for name, plan in plans.items()]:
            raise DataError("the snapshot is of other queries; restore it with the set it was taken of")
        taken_in.check_flags(header)
        recognizer = SetRecognizer(plans, options_from_json(header["options"], threads), header["keep_rows"])
        schemas, waiting = taken_in.waiting_in(header, tables, recognizer._streams)
        intake = _Intake(RowStore(pa.schema([])), schemas, waiting, open=header["open"], finished=header["finished"])
        if "recognitions" in header:
            bounds = recognizer._bind(intake, snapshot.schema_from_text(header["schema"]))
            require(len(header["recognitions"]) == len(bounds), "a query has no state")
            states = snapshot.parted(header["recognitions"], arrays, tables)
            journals = tuple(Journal(bound, True, state) for bound, state in zip(bounds, states, strict=True))
            require(len({journal.position for journal in journals}) == 1, "its queries are not at the same place")
            position = journals[0].position
            sequencer, rows = taken_in.ordered_in(header, tables, recognizer._streams, bounds[0], position)
            intake = intake._replace(journals=journals, sequencer=sequencer, rows=rows)
        recognizer._intake = intake
        return recognizer
