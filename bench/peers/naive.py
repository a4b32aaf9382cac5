"""What engines of the OpenCEP and SASE kind do, in plain Python: every partial match is an object of its own.

A partial match is a tuple, the time of its first event and the positions of its events, and waits in the queue of its
last step. An event that may be step s extends, by copying, each partial match in the queues of the steps before s; the
ones it extends stay, since later events may extend them as well. So there are as many objects as partial matches, which
is why such engines slow down where windows and patterns grow. Where steps are compared with each other, only the
partial matches that satisfy the comparisons are extended: so those that can never match are given up early.

Partial matches leave their queue when those before them have left and their window has passed: so nothing is held for
longer than a window after it was made, where its partition still has events. Beyond 4 GB the run is given up.

`python -m bench.peers.naive JOB` runs a job.
"""

from __future__ import annotations

import gc
import math
import operator
import platform
import sys
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench.pattern import Group, Pattern, Step
from bench.peers.peer import Peer, Run
from bench.peers.worker import Asked, Clock, answer, asked, at_most, resident, settled

GIGABYTES = 4.0
OFTEN = 16  # events between two looks at the clock

Positions = tuple[int, ...]
Partial = tuple[int, Positions]  # time of the first event, positions of all
Event = tuple[str, int, Hashable, tuple[Any, ...]]  # type, time, key, the attributes that conditions name
Test = tuple[Callable[[Any, Any], bool], int, Any]  # operator, place of the attribute, constant
Against = tuple[Callable[[Any, Any], bool], int, int, int, Any]  # operator, place, other step, its place, what is added

OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
}


class Naive(Peer):
    """The baseline of this repository."""

    name = "partial matches"

    def prepare(self) -> str:
        return f"Python {platform.python_version()}"

    def refuses(self, pattern: Pattern) -> str:
        return "" if pattern.strategy == "ALL" else "it finds all matches, and cannot choose among them"

    def command(self, job: Path) -> list[str]:
        return [sys.executable, "-m", "bench.peers.naive", str(job)]


class Automaton:
    """The position automaton: a state for each step; which steps begin a match, come before a step, end a match."""

    def __init__(self, pattern: Pattern) -> None:
        self.steps = pattern.steps
        self.before: list[list[int]] = [[] for _ in self.steps]
        self._count = 0
        first, last = self._sequence(pattern.parts)
        self.begins = [k in first for k in range(len(self.steps))]
        self.ends = [k in last for k in range(len(self.steps))]
        self.goes_on = [any(k in before for before in self.before) for k in range(len(self.steps))]

    def _sequence(self, parts: tuple[Step | Group, ...]) -> tuple[list[int], list[int]]:
        """First and last steps of parts one after another."""
        first, last = self._part(parts[0])
        for part in parts[1:]:
            next_first, next_last = self._part(part)
            self._connect(last, next_first)
            last = next_last
        return first, last

    def _part(self, part: Step | Group) -> tuple[list[int], list[int]]:
        if isinstance(part, Group):
            first, last = self._sequence(part.parts)
            self._connect(last, first)
            return first, last
        k = self._count
        self._count += 1
        if part.plus:
            self._connect([k], [k])
        return [k], [k]

    def _connect(self, sources: list[int], targets: list[int]) -> None:
        for target in targets:
            self.before[target] += [source for source in sources if source not in self.before[target]]


class Engine:
    """Fed with events one by one, it gives the matches that each completes."""

    def __init__(self, pattern: Pattern, attributes: list[str]) -> None:
        self.pattern = pattern
        self.automaton = Automaton(pattern)
        self.parts: dict[Hashable, list[deque[Partial]]] = {}
        """For each partition and each step, the partial matches whose last event that is."""
        self.by_type: dict[str, list[tuple[int, list[Test]]]] = {}
        for k, step in enumerate(self.automaton.steps):
            tests = [(OPERATORS[symbol], attributes.index(name), value) for name, symbol, value in step.conditions]
            for kind in set(step.types):
                self.by_type.setdefault(kind, []).append((k, tests))
        self.against: list[list[Against]] = [
            [
                (OPERATORS[symbol], attributes.index(name), other, attributes.index(its), added)
                for name, symbol, other, its, added in step.against
            ]
            for step in self.automaton.steps
        ]
        self.compares = pattern.compares
        self.seen: list[tuple[Any, ...]] = []
        """The attributes of all events so far, if some are to be compared."""

    def feed(self, position: int, event: Event) -> list[Positions]:
        """The matches that end with this event, `limit` of them."""
        kind, now, key, values = event
        if self.compares:
            self.seen.append(values)
        steps = []
        for step, tests in self.by_type.get(kind, ()):
            for test, place, constant in tests:
                if not test(values[place], constant):
                    break
            else:
                steps.append(step)
        if not steps or (key is None and self.pattern.key is not None):
            return []
        waiting = self.parts.get(key)
        if waiting is None:
            waiting = self.parts[key] = [deque() for _ in self.automaton.steps]
        oldest = -math.inf if self.pattern.window is None else now - self.pattern.window

        matches: list[Positions] = []
        for step in steps:
            if self.automaton.ends[step]:
                left = None if self.pattern.limit is None else self.pattern.limit - len(matches)
                matches += islice(self._completed(waiting, step, position, oldest), left)
        if matches and self.pattern.consume:
            self.parts.clear()  # all events so far are forgotten
            return matches

        made = [(step, self._extended(waiting, step, position, now, oldest)) for step in steps]
        for step, partials in made:  # only now, so that no event is twice in a match
            kept = waiting[step]
            kept += partials
            while kept and kept[0][0] < oldest:
                kept.popleft()
        return matches

    def _completed(self, waiting: list[deque[Partial]], step: int, position: int, oldest: float) -> Iterator[Positions]:
        """All matches that end at the step with this event."""
        last = (position,)
        for source in self.automaton.before[step]:
            partials = self._fitting(waiting[source], step, position)
            yield from (positions + last for first, positions in partials if first >= oldest)
        if self.automaton.begins[step]:
            yield last

    def _extended(
        self, waiting: list[deque[Partial]], step: int, position: int, now: int, oldest: float
    ) -> list[Partial]:
        """All partial matches that get to the step with this event and can go on from there."""
        made: list[Partial] = []
        if self.automaton.goes_on[step]:
            last = (position,)
            for source in self.automaton.before[step]:
                partials = self._fitting(waiting[source], step, position)
                made += [(first, positions + last) for first, positions in partials if first >= oldest]
            if self.automaton.begins[step]:
                made.append((now, last))
        return made

    def _fitting(self, partials: Iterable[Partial], step: int, position: int) -> Iterable[Partial]:
        """The partial matches whose events compare with this one as the step wants. Step k has the event number k."""
        tests = self.against[step]
        if not tests:
            return partials
        seen, values = self.seen, self.seen[position]
        fitting = []
        for partial in partials:
            for test, place, other, its, added in tests:
                if not test(values[place], seen[partial[1][other]][its] + added):
                    break
            else:
                fitting.append(partial)
        return fitting


def events_of(table: pa.Table, pattern: Pattern) -> tuple[list[Event], list[str]]:
    """The events, with the attributes that conditions name; the names of those."""
    named = {attribute for step in pattern.steps for attribute, _, _ in step.conditions}
    named |= {name for step in pattern.steps for own, _, _, its, _ in step.against for name in (own, its)}
    attributes = sorted(named)
    values = [table[name].to_pylist() for name in attributes]
    rows = list(zip(*values, strict=True)) if values else [()] * table.num_rows
    keys = table[pattern.key].to_pylist() if pattern.key is not None else [None] * table.num_rows
    times = table["time"].cast(pa.int64()).to_pylist()
    return list(zip(table["type"].to_pylist(), times, keys, rows, strict=True)), attributes


def run(events: list[Event], attributes: list[str], job: Asked) -> Run:
    """Feed the events until time is up. For memory, matches are counted and dropped, otherwise they are kept."""
    engine = Engine(job.pattern, attributes)
    found: list[Positions] = []
    read = matches = triggers = 0
    before = most = settled() if job.memory else 0.0
    clock = Clock()
    until = time.perf_counter() + job.seconds
    try:
        for read, event in enumerate(events, 1):
            made = engine.feed(read - 1, event)
            if made:
                matches += len(made)
                triggers += 1
                if not job.memory:
                    found += made
            if read % OFTEN == 0:
                if job.memory:
                    most = max(most, resident())
                if time.perf_counter() > until:
                    break
    except MemoryError:
        engine.parts.clear()
        return Run(events=read, error=f"aborted: more than {GIGABYTES:g} GB of partial matches after {read:,} events")
    return Run(read, *clock(), matches, triggers, most - before)


def main() -> None:
    job = asked(sys.argv[1])
    events, attributes = events_of(job.table, job.pattern)
    gc.collect()
    gc.disable()  # nothing here has cycles
    at_most(GIGABYTES)
    run(events[:1000], attributes, job)
    for _ in range(job.runs):
        made = run(events, attributes, job)
        answer(made)
        if made.error:
            break


if __name__ == "__main__":
    main()
