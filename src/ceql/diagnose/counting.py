"""The matches of a query, counted by the engine up to a limit, and the positions at which they end.

Without its window a query may have so many matches that counting them would take longer than anyone waits. A match
costs at least one step of counting, so the limit bounds the work as well. A correlated query may look at many groups of
partial matches, or at many candidates, and find no match: both are limited like matches. The positions of a query on
single events come from following its runs, which needs no limit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from itertools import chain

import numpy as np
import pyarrow as pa

from ceql.diagnose.findings import Tally
from ceql.diagnose.following import MOST_GROUPS, CorrelatedFollowing, UnaryFollowing, counted, groups_met
from ceql.engine.common.layout import NODES
from ceql.errors import CeqlError
from ceql.io.sort_keys import encode
from ceql.io.sorted_runs import EventBatch
from ceql.plans import Loop, Plan
from ceql.recognition.bound_plan import BoundPlan
from ceql.recognition.correlated import CorrelatedRecognition
from ceql.recognition.frame import Recognition
from ceql.recognition.recognise import recognise
from ceql.recognition.trailing import TrailingRecognition
from ceql.recognition.unary import UnaryRecognition

MOST_MATCHES = 10_000_000
MOST_ENUMERATED = 1_000_000
_FIRST_SLICE, _MOST_SLICE = 64, 1 << 16
_WORK = 1 << 28  # nodes of the graph times events that may be counted before looking at the total again
_MEMORY = 1 << 29  # of a correlated version, which may need far more than the query


def counter(bound: BoundPlan) -> UnaryCounter | CorrelatedCounter | PreferredCounter:
    """A counter of the matches of a plan."""
    match bound.plan.loop:
        case Loop.GROUPS:
            return CorrelatedCounter(bound)
        case Loop.PREFERRED:
            return PreferredCounter(bound)
    return UnaryCounter(bound)


class Counter(ABC):
    """Counts matches, up to a limit.

    `total` is None where counting failed, and `failure` says why. `whole` is False as soon as there are more matches.
    """

    def __init__(self) -> None:
        self.total: int | None = 0
        self.whole = True
        self.failure: str | None = None
        self.least_time: int | None = None
        """The shortest match in units of time, where matches are enumerated; `least_events` is the same in events."""
        self.least_events: int | None = None
        self._size = _FIRST_SLICE  # grows as long as there is little to count

    @property
    @abstractmethod
    def reader(self) -> Recognition:
        """The recognition that reads every batch first."""

    @abstractmethod
    def _count(self, batch: EventBatch) -> int:
        """The matches so far, with those of this batch."""

    @abstractmethod
    def tally(self) -> Tally:
        """What was counted so far."""

    @abstractmethod
    def _so_far(self) -> int | None:
        """The matches that are known when counting fails."""

    @abstractmethod
    def _nodes(self) -> int:
        """The size of the graph, which counting may have to walk at each event."""

    def feed(self, batch: EventBatch) -> None:
        """Count on. Where counting has stopped, the events pass, for those who inspect them."""
        at = 0
        if batch.until is not None and self.whole:
            self._try(batch)
        while self.whole and at < batch.data.num_rows:
            size = max(_FIRST_SLICE, min(2 * self._size, _MOST_SLICE, _WORK // (self._nodes() + 1)))
            self._try(batch.slice(at, size))
            self._size = size
            at += size
        if self.reader.inspect is not None and at < batch.data.num_rows:
            self.reader.read(batch.slice(at))

    def _try(self, batch: EventBatch) -> None:
        try:
            counted = self._count(batch)
            self.whole = counted <= MOST_MATCHES
            self.total = min(counted, MOST_MATCHES)
        except CeqlError as error:
            self.total, self.whole, self.failure = self._so_far(), False, str(error)


class UnaryCounter(Counter):
    """Counts the matches of a query on single events, without enumerating them."""

    def __init__(self, bound: BoundPlan) -> None:
        super().__init__()
        self._recognition = UnaryRecognition(bound, counting=True)
        self._following = UnaryFollowing(self._recognition)

    @property
    def reader(self) -> UnaryRecognition:
        """The recognition that reads every batch."""
        return self._recognition

    def follow(self) -> UnaryFollowing:
        """Follow the runs too."""
        return self._following

    def tally(self) -> Tally:
        """What was counted so far."""
        return Tally(self._following.positions, self.total, self.whole)

    def _nodes(self) -> int:
        return int(self._recognition.whole.regs[NODES])

    def _so_far(self) -> int | None:
        return None

    def _count(self, batch: EventBatch) -> int:
        for _ in self._recognition.feed(batch):
            pass
        return self._recognition.counted


class CorrelatedCounter(Counter):
    """Counts the matches of a correlated query, and the positions at which they end.

    If matches come straight from the automaton, they are counted without enumerating them, and the positions are the
    matches of the query with LIMIT 1. If they are chosen among candidates, one pass gives both.
    """

    def __init__(self, bound: BoundPlan) -> None:
        super().__init__()
        options = replace(bound.options, memory=min(bound.options.memory, _MEMORY))

        def bounded(plan: Plan, counting: bool = False) -> CorrelatedRecognition:
            made = recognise(replace(bound, plan=plan, options=options), counting)
            assert isinstance(made, CorrelatedRecognition)
            if made.enumerates:
                made.whole.on_candidates = Budget("candidates" if made.chooses else "matches")
            if made.whole.carrier is not None:
                made.whole.carrier = counted(made.whole.carrier)
            return made

        plan = replace(bound.plan, running=bound.plan.automaton)  # every group is met, and counted
        self._counting: CorrelatedRecognition | None = bounded(plan, counting=True)
        if self._counting.enumerates:
            self._counting = None
            self._enumerating = bounded(plan)
        else:
            self._enumerating = bounded(replace(plan, query=replace(plan.query, limit=1)))
        self._positions = 0
        self._enumerated = 0
        self._last = -1
        self._ends: set[int] = set()

    @property
    def reader(self) -> CorrelatedRecognition:
        """The recognition that reads every batch first."""
        return self._enumerating

    def follow(self) -> CorrelatedFollowing:
        """Follow the runs too."""
        return CorrelatedFollowing(self._enumerating)

    def tally(self) -> Tally:
        """What was counted so far."""
        return Tally(self._positions, self.total, self.whole, self.failure is None)

    def _nodes(self) -> int:
        return int((self._counting or self._enumerating).whole.regs[NODES])

    def _so_far(self) -> int | None:
        return self._enumerated if self._counting is None else None

    def _count(self, batch: EventBatch) -> int:
        for found in chain(self._enumerating.feed(batch), self._enumerating.flush()):
            ends = found.column(found.schema.get_field_index("end")).to_numpy(zero_copy_only=False)
            self._enumerated += len(ends)
            if isinstance(self._enumerating, TrailingRecognition):  # ends come in order of what decides them
                self._ends.update(ends.tolist())
                self._positions = len(self._ends)
            else:
                self._positions += int(np.count_nonzero(np.diff(ends, prepend=self._last)))
            self._last = int(ends[-1]) if len(ends) else self._last
            self.least_events = _least(self.least_events, found, "start", "end")
            self.least_time = _least(self.least_time, found, "start_time", "end_time")
        _stop_at_many_groups(self._enumerating)
        if self._counting is None:
            return self._enumerated
        for _ in self._counting.feed(batch):
            pass
        _stop_at_many_groups(self._counting)
        return self._counting.counted


class PreferredCounter(Counter):
    """Counts the matches of a query with AFTER MATCH, one for each start at most."""

    def __init__(self, bound: BoundPlan) -> None:
        super().__init__()
        self._recognition = recognise(bound)
        self._found = 0
        self._ends: set[int] = set()

    @property
    def reader(self) -> Recognition:
        """The recognition that reads every batch."""
        return self._recognition

    def follow(self) -> UnaryFollowing:
        """Runs that give way to others tell nothing of how far the formula got."""
        raise AssertionError("the runs of all matches are followed, not those of the preferred ones")

    def tally(self) -> Tally:
        """What was counted so far."""
        return Tally(len(self._ends), self.total, self.whole, self.failure is None)

    def _nodes(self) -> int:
        return 0  # no match is counted twice

    def _so_far(self) -> int | None:
        return self._found

    def _count(self, batch: EventBatch) -> int:
        for found in chain(self._recognition.feed(batch), self._recognition.flush()):
            ends = found.column(found.schema.get_field_index("end")).to_pylist()
            self._found += len(ends)
            self._ends.update(ends)
        return self._found


def _stop_at_many_groups(recognition: CorrelatedRecognition) -> None:
    if groups_met(recognition.whole) > MOST_GROUPS:
        raise CeqlError(f"events met more than {MOST_GROUPS:,} groups of partial matches")


def _least(known: int | None, found: pa.RecordBatch, start: str, end: str) -> int | None:
    """The least difference of two columns, with the least that was known."""
    if start not in found.schema.names or not found.num_rows:
        return known
    one, two = (encode(found.column(found.schema.get_field_index(name)), name) for name in (start, end))
    least = int((two - one).min())
    return least if known is None else min(known, least)


class Budget:
    """Adds up what is enumerated, and gives up by a `CeqlError` when it is too much."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.enumerated = 0

    def __call__(self, more: int) -> None:
        self.enumerated += more
        if self.enumerated > MOST_ENUMERATED:
            raise CeqlError(f"there are more than {MOST_ENUMERATED:,} {self.what}")
