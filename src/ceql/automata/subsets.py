"""Lazy determinisation: states of the tables are made when the loop meets them (core-vldb2022, 4.4).

`Plain` is the subset construction by label: runs that bound the same events to the same variables are one state.
`Rivalled` adds to each run where its rivals stand (`rivals.py`). Both are immutable descriptions;
`cache.py` numbers their states and fills the tables.

Guards are bits of the event's symbol. Bit `START` is set on events at which a match may start.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, NamedTuple, Protocol

from ceql.automata.cea import CEA, Label, Transition
from ceql.automata.strategies.rivals import NO_RIVALS, NOT_STARTED, Compare, Moves, Rivals, States

State = Hashable


class Edge(NamedTuple):
    """A determinised transition; label -1 reads the event unbound."""

    label: int
    target: State


class Determinised(Protocol):
    """What the cache needs to know of a determinised automaton."""

    cea: CEA

    def initial(self) -> State:
        """The state of a run that has not started, at the start of the stream."""

    def start(self, state: State, bits: int) -> tuple[State, list[Edge]]:
        """The initial state after the event, and the runs that start at it."""

    def step(self, state: State, bits: int) -> list[Edge]: ...

    def accepts(self, state: State) -> bool: ...

    def is_terminal(self, state: State) -> bool:
        """Whether nothing leaves the state."""

    def is_active(self, state: State) -> bool | None:
        """Whether a run that has started can be in the state; None if the automaton has no such state."""


class _Labels:
    """Label numbers. DISTINCT knows one label only: bound."""

    def __init__(self, cea: CEA, distinct: bool) -> None:
        self.labels: list[Label] = [frozenset(["*"])] if distinct else cea.labels()
        self._number = {label: 0 if distinct else k for k, label in enumerate(cea.labels())}

    def number(self, label: Label) -> int:
        return self._number[label] if label else -1

    def numbers(self, labels: Iterable[Label]) -> list[int]:
        return [self.number(label) for label in labels]

    def group(self, transitions: Iterable[Transition], bits: int) -> dict[int, set[int]]:
        """Targets of the transitions that fire, by label number."""
        targets: dict[int, set[int]] = {}
        for t in transitions:
            if t.fires(bits):
                targets.setdefault(self.number(t.label), set()).add(t.target)
        return targets


class Plain:
    """The subset construction; a state is the set of automaton states that one labelled run may be in.

    If NOT stands before a match, the state of a run that has not started is None and the set of guards that some event
    has satisfied and that keep matches from starting.
    """

    def __init__(self, cea: CEA, distinct: bool) -> None:
        self.cea = cea
        self.numbering = _Labels(cea, distinct)
        self.rest = cea.resting()
        self.barred = frozenset(k for k in range(len(cea.guards)) if any(t.after >> k & 1 for t in cea.initial))

    def initial(self) -> State:
        return (None, frozenset[int]()) if self.barred else NOT_STARTED

    def start(self, state: State, bits: int) -> tuple[State, list[Edge]]:
        if not isinstance(state, tuple):
            return state, self._edges(self.numbering.group(self.cea.initial, bits))
        seen: frozenset[int] = state[1]
        able = [t for t in self.cea.initial if not any(t.after >> k & 1 for k in seen)]
        after = (None, seen | {k for k in self.barred if bits >> k & 1})
        return after, self._edges(self.numbering.group(able, bits))

    def step(self, state: State, bits: int) -> list[Edge]:
        assert isinstance(state, frozenset)
        rows = (t for s in sorted(state) for t in self.cea.states[s])
        return self._edges(self.numbering.group(rows, bits))

    def accepts(self, state: State) -> bool:
        return isinstance(state, frozenset) and not state.isdisjoint(self.cea.final)

    def is_terminal(self, state: State) -> bool:
        return isinstance(state, frozenset) and not any(self.cea.states[s] for s in state)

    def is_active(self, state: State) -> bool | None:
        if state == NOT_STARTED:
            return False
        if isinstance(state, tuple) and len(state) == 2:
            return False if state[0] is None and _are_states(state[1], range(len(self.cea.guards))) else None
        return True if _are_states(state, range(len(self.cea.states))) and state else None

    def _edges(self, targets: dict[int, set[int]]) -> list[Edge]:
        # bound before unbound: Algorithm 1 runs marking transitions first
        return [Edge(label, rested(self.rest, targets[label])) for label in sorted(targets, reverse=True)]


def _are_states(value: object, known: range) -> bool:
    return isinstance(value, frozenset) and all(type(state) is int and state in known for state in value)


def rested(rest: tuple[States, ...], states: Iterable[int]) -> States:
    """The same states at rest, so that states which differ in nothing are one."""
    return frozenset().union(*(rest[s] for s in states))


class Rivalled:
    """Runs with rivals; a state is (own states, better, equal, worse), None for the own states of an unstarted run.

    With `later`, the rivals of a run are those that start where it does or later, and no others. A window never leaves
    these before it leaves the run, so that what is given up for them is given up for good.
    """

    def __init__(self, cea: CEA, distinct: bool, compare: Compare, start_bit: int, later: bool = False) -> None:
        self.later = later
        self.cea = cea
        self.numbering = _Labels(cea, distinct)
        self.compare = compare
        self.start_bit = start_bit
        self.rest = cea.resting()

    def initial(self) -> State:
        return (None, *NO_RIVALS)

    def start(self, state: State, bits: int) -> tuple[State, list[Edge]]:
        _, rivals = self._parts(state)
        moves = self._moves(bits)
        after = self.compare(rivals, moves, False)
        own = self.numbering.group(self.cea.initial, bits) if bits & self.start_bit else {}
        return state if self.later else (None, *after), self._edges(own, rivals, moves)

    def step(self, state: State, bits: int) -> list[Edge]:
        own, rivals = self._parts(state)
        rows = (t for s in sorted(own) for t in self.cea.states[s])
        return self._edges(self.numbering.group(rows, bits), rivals, self._moves(bits))

    def accepts(self, state: State) -> bool:
        own, rivals = self._parts(state)
        return not own.isdisjoint(self.cea.final) and rivals.better.isdisjoint(self.cea.final)

    def is_terminal(self, state: State) -> bool:
        own, _ = self._parts(state)
        return bool(own) and not any(self.cea.states[s] for s in own)

    def is_active(self, state: State) -> bool | None:
        if not isinstance(state, tuple) or len(state) != 4:
            return None
        own, *rivals = state
        known = range(NOT_STARTED, len(self.cea.states))
        if not all(_are_states(part, known) for part in rivals):
            return None
        return False if own is None else True if _are_states(own, known[1:]) and own else None

    def _edges(self, targets: dict[int, set[int]], rivals: Rivals, moves: Moves) -> list[Edge]:
        edges = []
        for label in sorted(targets, reverse=True):
            after = self.compare(rivals, moves, label >= 0)
            own = rested(self.rest, targets[label]) - after.better
            if own:
                edges.append(Edge(label, (own, *after)))
        return edges

    def _moves(self, bits: int) -> Moves:
        def fire(states: States, bound: bool) -> States:
            found: set[int] = set()
            for s in states:
                row = self.cea.initial if s == NOT_STARTED else self.cea.states[s]
                if s == NOT_STARTED and not bound:
                    found.add(NOT_STARTED)
                if s != NOT_STARTED or bits & self.start_bit:
                    found.update(t.target for t in row if bool(t.label) == bound and t.fires(bits))
            started = rested(self.rest, found - {NOT_STARTED})
            return started | {NOT_STARTED} if NOT_STARTED in found else started

        return Moves(lambda states: fire(states, True), lambda states: fire(states, False))

    @staticmethod
    def _parts(state: State) -> tuple[States, Rivals]:
        assert isinstance(state, tuple)
        own, better, equal, worse = state
        return own or frozenset(), Rivals(better, equal, worse)


def state_to_json(state: State) -> Any:
    """A determinised state as JSON: a number, a list of numbers, or four such lists."""
    if isinstance(state, frozenset):
        return sorted(state)
    if isinstance(state, tuple):
        return {"rivals": [None if part is None else sorted(part) for part in state]}
    return state


def state_from_json(value: Any) -> State:
    """The state that `state_to_json` wrote."""
    if isinstance(value, dict):
        return tuple(None if part is None else frozenset(part) for part in value["rivals"])
    return frozenset(value) if isinstance(value, list) else value
