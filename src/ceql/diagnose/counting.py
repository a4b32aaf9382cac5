"""The matches of a query, counted by the engine up to a limit.

Without its window a query may have so many matches that counting them would take longer than anyone waits. A match
costs at least one step of counting, so the limit bounds the work as well. The candidates of a correlated query are
limited like matches.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain

import numpy as np

from ceql.engine.groups import layout as j
from ceql.engine.states.graph import NODES
from ceql.errors import CeqlError
from ceql.io.sorted_runs import EventBatch
from ceql.plan import CorrelatedPlan, Plan
from ceql.recognition.bound_plan import BoundPlan
from ceql.recognition.correlated import CorrelatedRecognition
from ceql.recognition.unary import UnaryRecognition

MOST_MATCHES = 10_000_000
MOST_CANDIDATES = 1_000_000
_FIRST_SLICE, _MOST_SLICE = 64, 1 << 16
_WORK = 1 << 28  # nodes of the arena times events that may be counted before looking at the total again
_MEMORY = 1 << 29  # of a correlated version, which may need far more than the query


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

    @property
    def reader(self) -> UnaryRecognition | CorrelatedRecognition:
        """The recognition that reads every batch first."""
        return self.recognition

    def feed(self, batch: EventBatch) -> None:
        """Count on, or, where counting has stopped, let the events pass."""
        at = 0
        while self.whole and at < batch.data.num_rows:
            self.size = size = max(_FIRST_SLICE, min(2 * self.size, _MOST_SLICE, _WORK // (self._nodes() + 1)))
            try:
                counted = self._count(batch.slice(at, size))
                self.whole = counted <= MOST_MATCHES
                self.total = min(counted, MOST_MATCHES)
            except CeqlError as error:
                self.total, self.whole, self.failure = self._so_far(), False, str(error)
            at += size
        if self.reader.inspect is not None and at < batch.data.num_rows:
            self.reader.read(batch.slice(at))

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

    @property
    def reader(self) -> CorrelatedRecognition:
        return self._ends or self.recognition

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
