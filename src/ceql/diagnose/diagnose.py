"""`Query.diagnose(events)`: one pass over the events, and what it says about the query.

In: a plan and any input. Out: a `Diagnosis`. All is collected batch by batch: types and attributes by histogram,
conditions by symbols (`conditions.py`), the furthest step by the engine (`following.py`), the rest by versions of the
query that lack clauses (`clauses.py`) or conditions across events (`claims.py`). `timing.py` has when events came, and
how long the shortest match is. So an input that can be read only once is diagnosed as well as a table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ceql.analysis.scopes import there, types
from ceql.diagnose.claims import ClaimTrials
from ceql.diagnose.clauses import Version, clause_by_clause, without_absences
from ceql.diagnose.conditions import ConditionCounts
from ceql.diagnose.findings import AttributeFinding, Diagnosis, KeyFinding, MissingType, Place, SeenType
from ceql.diagnose.following import CorrelatedFollowing
from ceql.diagnose.reach import reach
from ceql.diagnose.timing import Timing, WatchedSequencer, time_of
from ceql.errors import nearest
from ceql.explain.claims import claims
from ceql.explain.names import listed
from ceql.explain.stages import columns_read
from ceql.io.ordering import caller_rows, put_in_order
from ceql.io.schemas import no_rows
from ceql.io.sequencer import merge_sources
from ceql.io.sorted_runs import ENDED, EventBatch
from ceql.io.soundness import require_utf8
from ceql.io.source import Source
from ceql.io.sources import open_streams
from ceql.jit import Array
from ceql.plans import Plan
from ceql.recognition.bound_plan import BoundPlan
from ceql.recognition.options import Options

SHOWN_TYPES = 20
_KNOWN_TYPES = 10_000


def diagnose(plan: Plan, events: Any, options: Options) -> Diagnosis:
    """Read `events` once and say why the query matched as it did."""
    sources = open_streams(events, plan.query.streams, time=options.time, nested=options.nested(plan.dotted))
    inquiry = Inquiry(plan, sources, options)
    for batch in inquiry.batches():
        inquiry.feed(batch)
    return inquiry.conclude()


class Inquiry:
    """Collects what is known of the events and the query, batch by batch."""

    def __init__(self, plan: Plan, sources: list[Source], options: Options) -> None:
        self.plan = plan
        self.bound = bound = BoundPlan.over(plan, sources, options)
        self.sources = put_in_order(sources, bound.time, options.max_buffered_rows)
        self.versions = clause_by_clause(bound)
        unchosen = [v for v in self.versions if v.is_unchosen]
        self.unwindowed = [v for v in unchosen if v.plan.query.window is None][-1].counter
        self.windowless = self.unwindowed.follow()
        self.windowed = next((v.counter.follow() for v in unchosen if v.plan.query.window is not None), None)
        unforbidden = without_absences(plan)
        self.unforbidden = None if unforbidden is None else Version("NOT", replace(bound, plan=unforbidden))
        self.trials = ClaimTrials(bound) if claims(plan) else None
        lateness = options.lateness_in(bound.time_type)
        self.timing = Timing(bound)
        self.sequencer = WatchedSequencer(list(bound.streams), bound.time, lateness, options.max_buffered_rows)
        self.conditions = ConditionCounts(bound, [guard for v in self.versions for guard in v.plan.guards])
        self.keys = bound.partition_keys()
        self.events = 0
        self.types: Counter[str] = Counter()
        self.untyped = 0
        self.dropped = self.dropped_relevant = 0
        self.names: dict[str, None] = dict.fromkeys(bound.schema.names)
        self.present: Counter[str] = Counter()

    def batches(self) -> Iterator[EventBatch]:
        """The events in order. Those of an open schema are read in full, to know which attributes do come."""
        read = {c for version in self.versions for c in version.bound.needed_columns()}
        return merge_sources(self.sources, self.sequencer, None if self.bound.open_schema else sorted(read))

    def feed(self, batch: EventBatch) -> None:
        """Take a batch into account."""
        data, streams = batch.data, batch.stream
        self._count_types(data, streams)
        self._count_values(data)
        relevant = self.conditions.feed(data, streams, self.events)
        if self.keys is not None:
            columns = data.select([c for c in self.keys.columns if c in data.schema.names])
            outside = self.keys.numbers(columns, streams, self.bound.streams) < 0
            self.dropped += int(outside.sum())
            self.dropped_relevant += int((outside & relevant).sum())
        for version in self._counted():
            version.counter.feed(batch)
        if self.trials is not None:
            self.trials.feed(batch)
        self.timing.feed(batch)
        self.events += data.num_rows

    def _counted(self) -> list[Version]:
        return self.versions if self.unforbidden is None else [*self.versions, self.unforbidden]

    def _count_types(self, data: pa.RecordBatch, streams: int | Array) -> None:
        own: Array = np.broadcast_to(streams, data.num_rows)
        named = np.ones(data.num_rows, np.bool_) if self.bound.type is None else np.isin(own, list(self.bound.untyped))
        for number, events in enumerate(np.bincount(own[named]).tolist()):
            if events:
                self.types[str(self.bound.streams[number])] += events
        if self.bound.type is None:
            return
        index = data.schema.get_field_index(self.bound.type)
        if index < 0:
            self.untyped += int((~named).sum())
            return
        types = require_utf8(data.column(index), f"column '{self.bound.type}' is the type of events and")
        for found in pc.value_counts(types.filter(pa.array(~named))).to_pylist():
            name, events = found["values"], found["counts"]
            if name is None:
                self.untyped += events
            elif name in self.types or len(self.types) < _KNOWN_TYPES:
                self.types[name] += events

    def _count_values(self, data: pa.RecordBatch) -> None:
        self.names.update(dict.fromkeys(data.schema.names))
        for name in columns_read(self.plan):
            index = data.schema.get_field_index(name)
            if index >= 0:
                column = data.column(index)
                self.present[name] += len(column) - column.null_count

    # --- conclusions ---

    def conclude(self) -> Diagnosis:
        last = EventBatch(no_rows(self.bound.schema), 0, ENDED)
        for version in self._counted():
            version.counter.feed(last)
        if self.trials is not None:
            self.trials.conclude(last)
        named = types(self.plan.query.formula)
        wanted = there(self.plan.query.formula)
        seen = [SeenType(name, events, name in named) for name, events in self.types.most_common()]
        shown = sorted(seen[:SHOWN_TYPES] + [s for s in seen[SHOWN_TYPES:] if s.named], key=lambda s: -s.events)
        streams = () if self.bound.type is None else self.bound.streams
        missing = [
            MissingType(name, nearest(name, list(self.types)), name in streams)
            for name in sorted(wanted - self.types.keys())
        ]
        return Diagnosis(
            events=self.events,
            late=self.sequencer.late_rows,
            types=tuple(shown),
            untyped=self.untyped,
            more_types=len(seen) - len(shown),
            missing_types=tuple(missing),
            guards=tuple(self.conditions.findings()),
            attributes=tuple(self._attribute(name) for name in columns_read(self.plan)),
            reach=reach(self.windowless, self.conditions, self._place),
            reach_in_window=reach(self.windowed, self.conditions, self._place) if self.windowed is not None else None,
            rungs=tuple(version.rung() for version in self.versions),
            unforbidden=None if self.unforbidden is None else self.unforbidden.rung(),
            keys=self._keys(),
            notes=tuple(self._notes()),
            claims=self.trials.findings(self.windowed or self.windowless) if self.trials is not None else None,
            times=self.timing.finding(self.events, self.sequencer.behind),
            length=self.timing.length(self.unwindowed),
            other_times=self._other_times(),
        )

    def _keys(self) -> KeyFinding | None:
        if self.keys is None:
            return None
        return KeyFinding(len(self.keys), self.dropped, self.dropped_relevant, bool(self.plan.split_by))

    def _other_times(self) -> tuple[str, ...]:
        """Columns of times, if none was named."""
        if self.bound.time is not None:
            return ()
        return tuple(f.name for f in self.bound.schema if pa.types.is_timestamp(f.type) or pa.types.is_date(f.type))

    def _notes(self) -> Iterator[str]:
        if caller_rows(self.sources) is not None:
            yield "the events were not in order of time, and were put in order first"
        for v in self.versions:
            if v.counter.failure:
                how = "could not be counted" if v.counter.total is None else "were not all counted"
                yield f"the matches of the query up to {v.clause} {how}: {v.counter.failure}"
        if isinstance(self.windowless, CorrelatedFollowing):
            if self.windowless.seen < self.events:
                yield f"how far it got was looked at in the first {self.windowless.seen:,} events only"
            if self.plan.automaton.absences:
                absent = listed(self.plan.shape.absences[w.number].text for w in self.plan.automaton.absences)
                yield f"how far it got takes no account of {absent}, looked up for complete candidates"

    def _attribute(self, name: str) -> AttributeFinding:
        present = name in self.names
        suggestion = None if present else nearest(name, list(self.names))
        return AttributeFinding(name, self.present[name], present, suggestion)

    def _place(self, event: Array) -> Place:
        kind, order = self.bound.time_type, caller_rows(self.sources)
        row = int(event[0]) if order is None else int(order[event[0]])
        if kind is None:
            return Place(row)
        return Place(row, time_of(np.array([event[1]], np.int64), kind))
