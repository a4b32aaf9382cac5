"""What each clause takes away: the query built up clause by clause, all versions fed with the same events.

In: a plan. Out: rungs, from the bare formula to the query itself, in the order in which the clauses apply
(docs/reference.md, section 3). Each counts the positions at which its matches end by simulation (`furthest.py`),
exactly and cheaply, and its matches by the engine, up to a limit: without its window a query may have so many that
counting them would take longer than anyone waits. A match costs at least one step of counting, so the limit bounds the
work as well. A correlated version has its positions counted by the engine, too, and its candidates are limited like
matches.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain

import numpy as np

from ceql.diagnose.findings import Rung
from ceql.diagnose.furthest import EVERY, NONE, OWN, Simulation
from ceql.diagnose.runs import RunSimulation
from ceql.engine.groups import layout as j
from ceql.engine.states import layout as x
from ceql.engine.states.graph import NODES
from ceql.errors import CeqlError
from ceql.io.sorted_runs import EventBatch
from ceql.plan import CorrelatedPlan, Plan, UnaryPlan, plan_query
from ceql.recognition.bound_plan import BoundPlan
from ceql.recognition.correlated import CorrelatedRecognition
from ceql.recognition.unary import UnaryRecognition
from ceql.syntax import tree as t
from ceql.syntax.printer import print_query

MOST_MATCHES = 10_000_000
MOST_CANDIDATES = 1_000_000
ALONE = "WHERE, each event by itself"
_FIRST_SLICE, _MOST_SLICE = 64, 1 << 16
_WORK = 1 << 28  # nodes of the arena times events that may be counted before looking at the total again
_MEMORY = 1 << 29  # of a correlated version, which may need far more than the query
_CONSUME = {t.Consume.NONE: NONE, t.Consume.PARTITION: OWN, t.Consume.ANY: EVERY}


def versions(plan: Plan) -> list[tuple[str, Plan]]:
    """The query with its first clause, its first two, and so on; the last is the query.

    >>> from ceql.plan import make_plan
    >>> [name for name, _ in versions(make_plan("SELECT NEXT * WHERE A ; B WITHIN 3 EVENTS LIMIT 1"))]
    ['WHERE', 'WITHIN 3 EVENTS', 'NEXT', 'LIMIT 1']
    >>> [name for name, _ in versions(make_plan("SELECT * WHERE A AS x ; B AS y FILTER x.k = y.k"))]
    ['WHERE, each event by itself', 'WHERE']
    """
    query = plan.query
    written = {line.split(" ", 1)[0]: line for line in print_query(query).split("\n")}
    partial = replace(query, partition=(), window=None, strategy=None, limit=None, consume=t.Consume.NONE)
    found = [("WHERE", partial)]
    if query.partition:
        found.append((written["PARTITION"], partial := replace(partial, partition=query.partition)))
    if query.window is not None:
        found.append((written["WITHIN"], partial := replace(partial, window=query.window)))
    if query.strategy not in (None, t.Strategy.ALL):
        assert query.strategy is not None
        found.append((query.strategy.value, partial := replace(partial, strategy=query.strategy)))
    if query.limit is not None:
        found.append((f"LIMIT {query.limit}", partial := replace(partial, limit=query.limit)))
    if query.consume is not t.Consume.NONE:
        found.append((f"CONSUME BY {query.consume.value}", replace(partial, consume=query.consume)))
    plans = [(name, plan_query(version, plan.source, prefers_unary=True)) for name, version in found]
    bare = plans[0][1]
    if bare.whole is not None:
        every = frozenset(range(len(bare.whole.claims)))
        plans.insert(0, (ALONE, plan_query(bare.query, plan.source, every, prefers_unary=True)))
    return plans


class Version:
    """One rung at work.

    `decides` is what can take the last match of a position away; where it is equal, so are the positions.
    """

    def __init__(self, clause: str, bound: BoundPlan, below: Version | None) -> None:
        plan = bound.plan
        self.clause = clause
        self.plan = plan
        self.query = plan.query
        self.window = bound.window
        strict = plan.query.strategy is t.Strategy.STRICT
        claims = [(claim.node, claim.text) for claim in plan.shape.claims] if isinstance(plan, CorrelatedPlan) else None
        self.decides = (plan.partition, claims, plan.query.window, strict, plan.query.consume)
        self.own = below is None or below.decides != self.decides
        self.runs: RunSimulation | None = None
        self.simulation: Simulation | None = None
        width = self.window.width if self.window.kind == x.W_COUNTED else -1
        if below is not None and not self.own:
            self.simulation, self.runs = below.simulation, below.runs
        elif isinstance(plan, UnaryPlan):
            self.simulation = Simulation(plan.cea, width, _CONSUME[plan.query.consume])
        elif self.is_unchosen:
            self.runs = RunSimulation(plan.automaton, width)
        self.counter = counter(bound)

    @property
    def is_unchosen(self) -> bool:
        """Whether all runs count: no strategy, and nothing is forgotten."""
        return self.query.strategy is None and self.query.consume is t.Consume.NONE

    def rung(self) -> Rung:
        positions = self.simulation.positions if self.simulation is not None else self.counter.positions
        exact = self.simulation is not None or self.counter.failure is None
        return Rung(self.clause, positions, self.counter.total, self.counter.whole, exact)


def counter(bound: BoundPlan) -> Counter:
    """What counts the matches of a plan."""
    return CorrelatedCounter(bound) if isinstance(bound.plan, CorrelatedPlan) else Counter(bound)


class Counter:
    """The number of matches, up to a limit."""

    positions = 0

    def __init__(self, bound: BoundPlan) -> None:
        self.recognition: UnaryRecognition | CorrelatedRecognition = UnaryRecognition(bound, counting=True)
        self.total: int | None = 0
        self.size = _FIRST_SLICE  # grows as long as there is little to count
        self.whole = True
        self.failure: str | None = None

    def feed(self, batch: EventBatch) -> None:
        at = 0
        while self.whole and at < batch.data.num_rows:
            self.size = size = max(_FIRST_SLICE, min(2 * self.size, _MOST_SLICE, _WORK // (self._nodes() + 1)))
            streams = batch.stream if isinstance(batch.stream, int) else batch.stream[at : at + size]
            try:
                counted = self._count(EventBatch(batch.data.slice(at, size), streams))
            except CeqlError as error:
                self.total, self.whole, self.failure = self._so_far(), False, str(error)
                return
            self.whole = counted <= MOST_MATCHES
            self.total = min(counted, MOST_MATCHES)
            at += size

    def _so_far(self) -> int | None:
        """The matches, where counting fails."""
        return None

    def _nodes(self) -> int:
        return int(self.recognition.machine.regs[NODES])

    def _count(self, batch: EventBatch) -> int:
        """The matches so far, with those of this batch."""
        for _ in self.recognition.feed(batch):
            pass
        return self.recognition.counted


class CorrelatedCounter(Counter):
    """The same for a correlated query, with the positions at which matches end.

    Where matches come straight from the automaton, they are counted as such, and the positions are the matches of the
    query with LIMIT 1. Where they are chosen among candidates, one pass gives both.
    """

    recognition: CorrelatedRecognition

    def __init__(self, bound: BoundPlan) -> None:
        options = replace(bound.options, memory=min(bound.options.memory, _MEMORY))

        def bounded(plan: Plan, counting: bool = False) -> CorrelatedRecognition:
            made = CorrelatedRecognition(replace(bound, plan=plan, options=options), counting)
            made.machine.on_candidates = CandidateBudget()
            return made

        plan = bound.plan
        self.recognition = bounded(plan, counting=True)
        self._ends: CorrelatedRecognition | None = None
        if self.recognition.enumerates:
            self.recognition = bounded(plan)
        else:
            self._ends = bounded(replace(plan, query=replace(plan.query, limit=1)))
        self.total = 0
        self.size = _FIRST_SLICE
        self.whole = True
        self.failure = None
        self.positions = 0
        self._enumerated = 0
        self._last = -1

    def _nodes(self) -> int:
        return int(self.recognition.machine.regs[j.NODES])

    def _count(self, batch: EventBatch) -> int:
        if self._ends is not None:
            self._enumerate(self._ends, batch)
            return super()._count(batch)
        self._enumerate(self.recognition, batch)
        return self._enumerated

    def _so_far(self) -> int | None:
        return self._enumerated if self._ends is None else None

    def _enumerate(self, recognition: CorrelatedRecognition, batch: EventBatch) -> None:
        for found in chain(recognition.feed(batch), recognition.flush()):
            ends = found.column(found.schema.get_field_index("end")).to_numpy(zero_copy_only=False)
            self._enumerated += len(ends)
            self.positions += int(np.count_nonzero(np.diff(ends, prepend=self._last)))
            self._last = int(ends[-1]) if len(ends) else self._last


class CandidateBudget:
    """Adds up candidates, and gives up by a `CeqlError` when there are too many."""

    def __init__(self) -> None:
        self.candidates = 0

    def __call__(self, candidates: int) -> None:
        self.candidates += candidates
        if self.candidates > MOST_CANDIDATES:
            raise CeqlError(f"there are more than {MOST_CANDIDATES:,} candidates")


def ladder(bound: BoundPlan) -> list[Version]:
    """All versions of the query, ready to be fed."""
    found: list[Version] = []
    for clause, version in versions(bound.plan):
        found.append(Version(clause, replace(bound, plan=version), found[-1] if found else None))
    return found
