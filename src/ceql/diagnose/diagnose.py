"""`Query.diagnose(events)`: one pass over the events, and what it says about the query.

In: a plan and any input. Out: a `Diagnosis`. All is collected batch by batch: types and attributes by histogram,
conditions by probes on the symbols, the furthest step by simulation, the clauses by the ladder. So an input that
can be read only once is diagnosed as well as a table, and memory does not grow with the stream (only with the
number of substreams).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ceql.analysis.scopes import types
from ceql.diagnose.findings import (
    AttributeFinding,
    Diagnosis,
    KeyFinding,
    MissingType,
    Place,
    Reach,
    SeenType,
    Wait,
)
from ceql.diagnose.furthest import Rows
from ceql.diagnose.ladder import Version, ladder
from ceql.diagnose.probes import Probes
from ceql.diagnose.progress import START, path, steps, waits
from ceql.diagnose.runs import RunSimulation, furthest, print_compared
from ceql.diagnose.trials import Trials
from ceql.engine.states import layout as x
from ceql.engine.states.loop import NO_KEY
from ceql.explain.claims import claim_text, claims, listed, print_part
from ceql.explain.formula import print_asked, print_mask
from ceql.explain.stages import columns_read
from ceql.io.partition_keys import PartitionKeys
from ceql.io.schemas import unify_schemas
from ceql.io.sequencer import Sequencer, merge_sources
from ceql.io.sort_keys import decode, encode
from ceql.io.sorted_runs import EventBatch
from ceql.io.sources import Source, open_streams
from ceql.jit import Array
from ceql.plan import CorrelatedPlan, Plan
from ceql.predicates.bind import Events
from ceql.predicates.values import ValueNumbers
from ceql.recognition.bound_plan import BoundPlan
from ceql.recognition.options import Options
from ceql.syntax import tree as t

SHOWN_TYPES = 20
_KNOWN_TYPES = 10_000


def diagnose(plan: Plan, events: Any, options: Options) -> Diagnosis:
    """Read `events` once and say why the query matched as it did."""
    sources = open_streams(events, plan.query.streams)
    inquiry = Inquiry(plan, sources, options)
    for batch in inquiry.batches(sources):
        inquiry.feed(batch)
    return inquiry.conclude()


class Inquiry:
    """What is known so far."""

    def __init__(self, plan: Plan, sources: list[Source], options: Options) -> None:
        self.plan = plan
        self.schema = unify_schemas(s.schema for s in sources)
        self.open_schema = any(s.open_schema for s in sources)
        self.streams = [s.name for s in sources]
        self.nameless = options.untyped([s.schema for s in sources])
        bound = BoundPlan(plan, self.schema, tuple(self.streams), options, self.open_schema, self.nameless)
        self.versions = ladder(bound)
        self.trials = None
        if plan.whole is not None:
            self.trials = Trials(bound) if claims(plan) else None
        recognitions = [version.counter.recognition for version in self.versions]
        self.type, self.time = bound.type, bound.time
        lateness = options.lateness_in(bound.time_type)
        self.sequencer = Sequencer(self.streams, self.time, lateness, options.max_buffered_rows)
        # an open schema is read in full, to know which names do come
        self.columns = None if self.open_schema else sorted({c for r in recognitions for c in r.bound.needed_columns()})
        others = [guard for version in self.versions for guard in version.plan.guards]
        self.probes = Probes(plan.guards, plan.source, others)
        self.bound: pa.Schema | None = None
        # substreams, by what makes them: the versions have more of it than the clause says
        self.splits = {
            parts: PartitionKeys(parts, self.schema, self.type, self.open_schema, plan.source, self.nameless)
            for parts in dict.fromkeys([plan.partition, *(version.plan.partition for version in self.versions)])
            if parts
        }
        self.keys = self.splits.get(plan.partition)
        self.values = {
            number: ValueNumbers(v.runs.auto.terms, v.runs.auto.compares, self.schema, self.open_schema, plan.source)
            for number, v in enumerate(self.versions)
            if v.runs is not None and v.own
        }
        self.events = 0
        self.types: Counter[str] = Counter()
        self.untyped = 0
        self.dropped = self.dropped_relevant = 0
        self.names: dict[str, None] = dict.fromkeys(self.schema.names)
        self.present: Counter[str] = Counter()

    def batches(self, sources: list[Source]) -> Iterator[EventBatch]:
        return merge_sources(sources, self.sequencer, self.columns)

    def feed(self, batch: EventBatch) -> None:
        """Take a batch into account."""
        data, streams = batch
        if self.bound is None or not data.schema.equals(self.bound):
            self.bound = data.schema
            self.probes.bind(Events(data.schema, self.open_schema, self.type, tuple(self.streams), self.nameless))
            for values in self.values.values():
                values.bind(data.schema)
        self._count_types(data, streams)
        self._count_values(data)
        symbols = self.probes.symbols(data, streams, self.events)
        rows = data.num_rows
        times: Array = np.zeros(rows, np.int64)
        if self.time is not None:
            times = encode(data.column(data.schema.get_field_index(self.time)), self.time)
        partitions: dict[tuple[t.Part, ...], tuple[Array, int]] = {(): (np.zeros(rows, np.int32), 1)}
        for parts, keys in self.splits.items():
            wanted = [c for c in keys.columns if c in data.schema.names]
            partitions[parts] = keys.numbers(data.select(wanted), streams, self.streams), len(keys)
        if self.keys is not None:
            outside = partitions[self.plan.partition][0] < 0
            self.dropped += int(outside.sum())
            self.dropped_relevant += int((outside & self.probes.relevant[symbols]).sum())
        for number, version in enumerate(self.versions):
            if version.own:
                self._simulate(number, version, data, symbols, *partitions[version.plan.partition], times)
            version.counter.feed(batch)
        if self.trials is not None:
            self.trials.feed(batch)
        self.events += rows

    def _simulate(
        self,
        number: int,
        version: Version,
        data: pa.RecordBatch,
        symbols: Array,
        partitions: Array,
        count: int,
        times: Array,
    ) -> None:
        positions: Array = np.arange(self.events, self.events + len(symbols), dtype=np.int64)
        keys, bounds = positions, np.full(len(positions), NO_KEY, np.int64)
        if version.query.window is not None and version.window.kind != x.W_COUNTED:
            keys, bounds = version.window.keys(data, None, positions, times)
        rows = Rows(symbols, partitions, keys, bounds, times)
        bits = self.probes.bits_of(version.plan.guards)
        if version.simulation is not None:
            version.simulation.feed(bits, rows, count, self.events)
        if version.runs is not None and not version.runs.full:
            values = self.values[number].numbers(data, None)
            version.runs.feed(bits, rows, values, self.events)

    def _count_types(self, data: pa.RecordBatch, streams: int | Array) -> None:
        own: Array = np.broadcast_to(streams, data.num_rows)
        named = np.ones(data.num_rows, np.bool_) if self.type is None else np.isin(own, list(self.nameless))
        for number, events in enumerate(np.bincount(own[named]).tolist()):
            if events:
                self.types[str(self.streams[number])] += events
        if self.type is None:
            return
        index = data.schema.get_field_index(self.type)
        if index < 0:
            self.untyped += int((~named).sum())
            return
        for found in pc.value_counts(data.column(index).filter(pa.array(~named))).to_pylist():
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
        named = types(self.plan.query.formula)
        seen = [SeenType(name, events, name in named) for name, events in self.types.most_common()]
        shown = sorted(seen[:SHOWN_TYPES] + [s for s in seen[SHOWN_TYPES:] if s.named], key=lambda s: -s.events)
        missing = [MissingType(name, _nearest(name, list(self.types))) for name in sorted(named - self.types.keys())]
        unchosen = [v for v in self.versions if v.is_unchosen]
        windowless = [v for v in unchosen if v.query.window is None]
        windowed = [v for v in unchosen if v.query.window is not None]
        return Diagnosis(
            events=self.events,
            late=self.sequencer.late_rows,
            types=tuple(shown),
            untyped=self.untyped,
            more_types=len(seen) - len(shown),
            missing_types=tuple(missing),
            guards=tuple(self.probes.findings()),
            attributes=tuple(self._attribute(name) for name in columns_read(self.plan)),
            reach=self._reach(windowless[-1]),
            reach_in_window=self._reach(windowed[0]) if windowed else None,
            rungs=tuple(version.rung() for version in self.versions),
            keys=self._keys(),
            notes=tuple(self._notes(windowless[-1])),
            claims=self.trials.findings() if self.trials is not None else None,
        )

    def _keys(self) -> KeyFinding | None:
        if self.keys is None:
            return None
        return KeyFinding(len(self.keys), self.dropped, self.dropped_relevant, bool(self.plan.split_by))

    def _notes(self, windowless: Version) -> Iterator[str]:
        for v in self.versions:
            if v.counter.failure:
                how = "could not be counted" if v.counter.total is None else "were not all counted"
                yield f"the matches of the query up to {v.clause} {how}: {v.counter.failure}"
        if windowless.runs is not None:
            if windowless.runs.seen < self.events:
                yield f"how far it got was looked at in the first {windowless.runs.seen:,} events only"
            if isinstance(self.plan, CorrelatedPlan) and self.plan.automaton.checks:
                late = listed(f"'{claim_text(claim)}'" for claim in self.plan.automaton.checks)
                yield f"how far it got takes no account of {late}, checked on complete candidates"

    def _attribute(self, name: str) -> AttributeFinding:
        present = name in self.names
        suggestion = None if present else _nearest(name, list(self.names))
        return AttributeFinding(name, self.present[name], present, suggestion)

    def _reach(self, version: Version) -> Reach:
        if version.runs is not None:
            return self._reach_of_runs(version.runs, version.plan.split_by)
        assert version.simulation is not None
        simulation = version.simulation
        common = _common(version.plan.split_by)
        cea = simulation.cea
        known = steps(cea)
        reached = [s for s in np.flatnonzero(simulation.entered).tolist() if s in known.done]
        state = max(reached, key=known.share, default=START)
        first = last = None
        if state != START:
            first, last = self._place(simulation.first[state]), self._place(simulation.last[state])
        waiting = []
        for mask, immediately in waits(cea, known, state):
            hits, latest = self.probes.count(self.probes.mask_of(cea.guards, mask))
            after = latest > (first.position if first else -1)
            waiting.append(Wait(print_mask(cea.guards, mask), hits, after, immediately, common if first else ""))
        done = known.done[state]
        return Reach(
            done=done,
            total=done + known.left[state] if state in known.left else 0,
            path=path(cea, known, state),
            times=int(simulation.entered[state]) if state != START else 0,
            first=first,
            last=last,
            waits=tuple(waiting),
        )

    def _reach_of_runs(self, runs: RunSimulation, split_by: tuple[t.Part, ...]) -> Reach:
        auto, far = runs.auto, furthest(runs)
        first = last = None
        times = 0
        if far.states:  # of several runs to be joined, the one that came last
            state = max(far.states, key=lambda s: int(runs.first[s, 0]))
            first, last, times = self._place(runs.first[state]), self._place(runs.last[state]), int(runs.entered[state])
        waiting: dict[tuple[str, str], Wait] = {}
        for k in far.waits:
            transition = auto.transitions[k]
            hits, latest = self.probes.count(self.probes.mask_of(auto.guards, transition.guard))
            text = print_asked(auto.guards, transition.guard)
            compared = print_compared(auto, transition, far.states)
            if split_by and first is not None:
                compared = " & ".join(filter(None, [_common(split_by), compared]))
            tight = any(auto.indexes[link.where].tight for link in transition.links)
            after = latest > (first.position if first else -1)
            waiting[text, compared] = Wait(text, hits, after, tight, compared, runs.nulls[k])
        return Reach(far.done, far.total, far.path, times, first, last, tuple(waiting.values()))

    def _place(self, event: Array) -> Place:
        if self.time is None:
            return Place(int(event[0]))
        kind = self.schema.field(self.time).type
        value = decode(np.array([event[1]], np.int64), kind)[0]
        return Place(int(event[0]), value.as_py() if not pa.types.is_timestamp(kind) else str(value))


def _common(parts: tuple[t.Part, ...]) -> str:
    return " & ".join(f"the same {print_part(part)}" for part in parts)


def _nearest(name: str, known: list[str]) -> str | None:
    """The known name that was probably meant, whatever its case.

    >>> _nearest("Sel", ["BUY", "SELL"]), _nearest("A", ["B"])
    ('SELL', None)
    """
    folded = {k.strip().casefold(): k for k in reversed(known)}
    near = get_close_matches(name.strip().casefold(), list(folded), n=1)
    return folded[near[0]] if near else None
