"""How far the runs of a correlated query get: its automaton simulated, with the latest start of the runs in each index.

In: events with the numbers of the values that are compared, batch by batch. Out: for each state how often a run entered
it, first and last where, and which transitions never fired. As in `furthest.py` the latest start is all that a
window asks for; a run that joins others starts where the first of them does. Claims that are checked on
candidates play no part here. This is plain Python, so it looks at no more than the first events of a stream.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from ceql.automata.correlated import Correlated, Link, Transition
from ceql.diagnose.furthest import Rows
from ceql.engine.groups.layout import NULLS_DIFFER
from ceql.engine.states.loop import NO_KEY
from ceql.explain.automaton import NEXT_EVENT, print_link
from ceql.explain.formula import print_asked
from ceql.jit import Array

MOST_EVENTS = 50_000
NEVER = 1 << 30
_Key = tuple[int, ...]


class Found(NamedTuple):
    """The latest start of some runs, and the number, in the substream, of their last event."""

    start: int
    stamp: int


class RunSimulation:
    """The runs of one correlated automaton. `width` >= 0 is that of a window over a substream's events."""

    def __init__(self, auto: Correlated, width: int = -1) -> None:
        self.auto = auto
        self.width = width
        self.seen = 0
        states = auto.states
        self.entered: Array = np.zeros(states, np.int64)
        self.first: Array = np.full((states, 2), -1, np.int64)
        self.last: Array = np.full((states, 2), -1, np.int64)
        self.fired = [0] * len(auto.transitions)
        self.nulls = [0] * len(auto.transitions)
        """How often a transition's event lacked a value (NULL) that it needs."""
        self._counter: dict[int, int] = {}
        self._waiting: list[dict[tuple[int, _Key], dict[_Key, Found]]] = [{} for _ in auto.indexes]
        self._allowed: dict[int, list[int]] = {}

    @property
    def full(self) -> bool:
        return self.seen >= MOST_EVENTS

    def feed(self, bits: list[int], rows: Rows, values: Array, position: int) -> None:
        """Go on over a batch that begins at `position`; `bits[symbol]` are the guards of a symbol."""
        for i in range(min(len(rows.symbols), MOST_EVENTS - self.seen)):
            self.seen += 1
            p = int(rows.partitions[i])
            if p < 0:
                continue
            stamp = self._counter[p] = self._counter.get(p, 0) + 1
            guards = bits[int(rows.symbols[i])]
            if not guards:
                continue
            key, bound = int(rows.keys[i]), int(rows.bounds[i])
            if self.width >= 0:
                key, bound = stamp, stamp - self.width
            self._event(guards, p, stamp, key, bound, values[i].tolist(), (position + i, int(rows.times[i])))

    def _event(
        self, guards: int, p: int, stamp: int, key: int, bound: int, values: list[int], place: tuple[int, int]
    ) -> None:
        if guards not in self._allowed:
            self._allowed[guards] = [k for k, e in enumerate(self.auto.transitions) if e.allows(guards)]
        fresh: dict[int, int] = {}
        for k in self._allowed[guards]:
            transition = self.auto.transitions[k]
            asked = (*transition.needs, *(t for link in transition.links for t in (*link.key, *link.unlike)))
            if any(term < NULLS_DIFFER and values[term] < 0 for term in asked):
                self.nulls[k] += 1
                continue
            start: int | None = key
            for link in transition.links:
                found = self._look_up(link, p, stamp, values)
                start = None if found is None or start is None else min(start, found)
            if start is None or start == NO_KEY:
                continue
            state = transition.target
            fresh[state] = max(start, fresh.get(state, start))
            if start >= bound:
                self.fired[k] += 1
                if self.last[state, 0] != place[0]:
                    self.entered[state] += 1
                    self.last[state] = place
                    if self.entered[state] == 1:
                        self.first[state] = place
        for state, start in fresh.items():
            self._wait(state, start, p, stamp, values)

    def _look_up(self, link: Link, p: int, stamp: int, values: list[int]) -> int | None:
        runs = self._waiting[link.where].get((p, tuple(values[term] for term in link.key)), {})
        own = [values[term & ~NULLS_DIFFER] for term in link.unlike]
        tight = self.auto.indexes[link.where].tight
        starts = [
            found.start
            for unlike, found in runs.items()
            if all(a != b or a < 0 for a, b in zip(own, unlike, strict=True))
            and (not tight or found.stamp == stamp - 1)
        ]
        return max(starts, default=None)

    def _wait(self, state: int, start: int, p: int, stamp: int, values: list[int]) -> None:
        for waiting, index in zip(self._waiting, self.auto.indexes, strict=True):
            if state not in index.feeders:
                continue
            terms, others = index.feeders[state]
            if any(term < NULLS_DIFFER and values[term] < 0 for term in (*terms, *others)):
                continue  # NULL is like nothing, and unlike nothing
            key, unlike = (tuple(values[term & ~NULLS_DIFFER] for term in row) for row in (terms, others))
            runs = waiting.setdefault((p, key), {})
            known = runs.get(unlike)
            if known is None or start > known.start or (index.tight and known.stamp != stamp):
                runs[unlike] = Found(start, stamp)


class Furthest(NamedTuple):
    """Where a simulation stands: `done` of `total` events along `path`, and the transitions that never fired there."""

    done: int
    total: int
    path: str
    states: tuple[int, ...]
    waits: tuple[int, ...]


def furthest(simulation: RunSimulation) -> Furthest:
    """The runs, or the runs to be joined, that are closest to a match."""
    auto = simulation.auto
    known = _Ways(auto)
    entered = {int(state) for state in np.flatnonzero(simulation.entered)}
    complete = [state for state in auto.final if state in entered]
    if complete:
        state = min(complete, key=lambda s: known.done[s])
        return Furthest(known.done[state], known.done[state], known.path(state), (state,), ())
    best: Furthest | None = None
    for k, transition in enumerate(auto.transitions):
        if simulation.fired[k]:
            continue
        reached: list[int] = []
        ahead = 1 + known.left[transition.target]
        for link in transition.links:
            here = [state for state in auto.indexes[link.where].feeders if state in entered]
            if here:
                reached.append(min(here, key=lambda s: known.done[s]))
            else:
                ahead += known.cheapest(link)
        done = sum(known.done[state] for state in reached)
        if ahead >= NEVER:
            continue
        one = Furthest(done, done + ahead, "", tuple(dict.fromkeys(reached)), (k,))
        if best is None or (one.done / one.total, one.done) > (best.done / best.total, best.done):
            best = one
        elif (one.done, one.total, one.states) == (best.done, best.total, best.states):
            best = best._replace(waits=(*best.waits, k))
    if best is None:
        return Furthest(0, 0, "", (), ())
    return best._replace(path=" and ".join(known.path(state) for state in best.states))


class _Ways:
    """The least number of events to each state, and from it to a match, with all that has to be joined."""

    def __init__(self, auto: Correlated) -> None:
        self.auto = auto
        states = auto.states
        self.done, self.left = [NEVER] * states, [NEVER] * states
        self._by: dict[int, Transition] = {}
        for state in auto.final:
            self.left[state] = 0
        grows = True
        while grows:
            grows = False
            for transition in auto.transitions:
                cost = min(NEVER, 1 + sum(self.cheapest(link) for link in transition.links))
                if cost < self.done[transition.target]:
                    self.done[transition.target] = cost
                    self._by[transition.target] = transition
                    grows = True
        grows = True
        while grows:
            grows = False
            for transition in auto.transitions:
                costs = [self.cheapest(link) for link in transition.links]
                for link, own in zip(transition.links, costs, strict=True):
                    cost = min(NEVER, 1 + sum(costs) - own + self.left[transition.target])
                    for state in auto.indexes[link.where].feeders:
                        if cost < self.left[state]:
                            self.left[state] = cost
                            grows = True

    def cheapest(self, link: Link) -> int:
        return min((self.done[state] for state in self.auto.indexes[link.where].feeders), default=NEVER)

    def path(self, state: int) -> str:
        """The events to `state`; what is joined stands in parentheses."""
        if state not in self._by:
            return "?"
        transition = self._by[state]
        before = []
        for link in transition.links:
            index = self.auto.indexes[link.where]
            nearest = min(index.feeders, key=lambda s: self.done[s])
            before.append((self.path(nearest), nearest, link))
        event = print_asked(self.auto.guards, transition.guard, transition.failing)
        if not before:
            return event
        tight = any(self.auto.indexes[link.where].tight for _, _, link in before)
        compared = print_compared(self.auto, transition, [nearest for _, nearest, _ in before])
        text = " and ".join(p for p, _, _ in before)
        joined = f"({text})" if len(before) > 1 else text
        return f"{joined} {':' if tight else ';'} {event}{' & ' * bool(compared)}{compared}"


def print_compared(auto: Correlated, transition: Transition, states: Collection[int]) -> str:
    """What a transition compares the event with, of runs in these states."""
    parts = [
        part
        for link in transition.links
        for state, text in print_link(auto, link).items()
        if state in states
        for part in text.split(" & ")
        if part not in ("", NEXT_EVENT)
    ]
    return " & ".join(dict.fromkeys(parts))
