"""Complex event automata (core-vldb2022, section 3), with sets of variables in place of the mark.

A transition fires on an event that satisfies all guards of its mask (mask 0: any event) and none of those that NOT
forbids. It binds the event to the variables of its label (empty: the event is read and not part of the match). Runs
start at any event with an `initial` transition and end in a `final` state, at the event that enters it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

from ceql.analysis.normal import Atom

Label = frozenset[str]
NO_LABEL: Label = frozenset()


class Transition(NamedTuple):
    guard: int  # bit mask over the automaton's guards; all must hold
    label: Label
    target: int
    unless: int = 0  # none of these may hold
    after: int = 0  # of an initial transition: none of these may have held at an event before, in the substream

    def fires(self, bits: int) -> bool:
        """Whether an event that satisfies these guards is read."""
        return bits & self.guard == self.guard and not bits & self.unless


@dataclass(frozen=True, slots=True)
class CEA:
    """`guards` are atoms: the event's type and predicates; their variables play no part here."""

    guards: tuple[Atom, ...]
    initial: tuple[Transition, ...]
    states: tuple[tuple[Transition, ...], ...]
    final: frozenset[int]

    def labels(self) -> list[Label]:
        """Every label but the empty one, in a fixed order."""
        found = {t.label for row in (self.initial, *self.states) for t in row} - {NO_LABEL}
        return sorted(found, key=sorted)

    def pattern(self) -> tuple[Label, ...] | None:
        """The labels of every match in order, where all matches have the same, as those of a sequence do."""
        read: dict[int, tuple[Label, ...]] = {}
        queue: list[tuple[Transition, tuple[Label, ...]]] = [(t, ()) for t in self.initial]
        while queue:
            transition, before = queue.pop()
            labels = (*before, transition.label) if transition.label else before
            if transition.target not in read:
                read[transition.target] = labels
                queue.extend((t, labels) for t in self.states[transition.target])
            elif read[transition.target] != labels:
                return None
        patterns = {read[s] for s in self.final if s in read}
        return patterns.pop() if len(patterns) == 1 else None

    def starts_inside(self) -> bool:
        """Whether an event at which a match starts may be bound by another match that started before."""
        later = [t for row in self.states for t in row if t.label]
        return any(self._may_both_fire(first, t) for first in self.initial for t in later)

    def _may_both_fire(self, one: Transition, two: Transition) -> bool:
        """Whether one event may fire both: unless they ask for different types or streams, or exclude each other."""
        if one.guard & two.unless or two.guard & one.unless:
            return False
        kinds = [self.guards[k] for k in range(len(self.guards)) if (one.guard | two.guard) >> k & 1]
        return len({guard.type for guard in kinds}) < 2 and len({g.stream for g in kinds if g.stream is not None}) < 2

    def resting(self) -> tuple[frozenset[int], ...]:
        """For each state, states that together do from now on what it does, after any number of unguarded events.

        A state *rests* when its unguarded, unbound transitions lead to states with the same ways out between
        them. One that does not rest (contiguity), or that is final (it is so at its own event only), stands for itself.
        """
        return tuple(frozenset([s]) if s in self.final else states for s, states in enumerate(self.resting_after()))

    def resting_after(self) -> tuple[frozenset[int], ...]:
        """The same, of states whose own event has been dealt with: that a state is final plays no part."""
        waits, moves = self._waits_and_moves()
        return tuple(
            frozenset(t.target for t in waits[s]) if self._rests(s, waits, moves) else frozenset([s])
            for s in range(len(self.states))
        )

    def _waits_and_moves(self) -> tuple[list[frozenset[Transition]], list[frozenset[Transition]]]:
        waits = [frozenset(t for t in row if t.guard == 0 and not t.label) for row in self.states]
        moves = [frozenset(t for t in row if t.guard != 0 or t.label) for row in self.states]
        return waits, moves

    @staticmethod
    def _rests(state: int, waits: list[frozenset[Transition]], moves: list[frozenset[Transition]]) -> bool:
        after = {t.target for t in waits[state]}
        return (
            bool(after)
            and frozenset().union(*(moves[w] for w in after)) == moves[state]
            and frozenset().union(*(waits[w] for w in after)) == waits[state]
        )

    def skips_safely(self) -> bool:
        """Whether an event that satisfies no guard changes nothing that can be seen: every state rests, or is left
        by nothing."""
        waits, moves = self._waits_and_moves()
        return all(t.guard != 0 for row in moves for t in row) and all(
            not row or self._rests(s, waits, moves) for s, row in enumerate(self.states)
        )

    def only_goes_on(self) -> bool:
        """Whether runs begin at any event, and go on from one event to the next: none waits, none is kept away."""
        waits = any(transition.guard == 0 for row in (self.initial, *self.states) for transition in row)
        return not waits and not any(transition.after for transition in self.initial)


def tidy(cea: CEA) -> CEA:
    """`cea` without useless states, and with states of equal future made one."""
    return _merge_equal(_trim(cea))


def _trim(cea: CEA) -> CEA:
    useful = _reached(cea.final, _predecessors(cea))
    after = [[t.target for t in row if t.target in useful] for row in cea.states]
    reached = _reached((t.target for t in cea.initial if t.target in useful), after)
    return _renumber(cea, {old: new for new, old in enumerate(sorted(reached))})


def _reached(begin: Iterable[int], after: Sequence[Iterable[int]]) -> set[int]:
    """The states to which a way leads from those at the beginning."""
    reached = set(begin)
    queue = list(reached)
    while queue:
        for state in after[queue.pop()]:
            if state not in reached:
                reached.add(state)
                queue.append(state)
    return reached


def _predecessors(cea: CEA) -> list[list[int]]:
    before: list[list[int]] = [[] for _ in cea.states]
    for state, row in enumerate(cea.states):
        for target in {t.target for t in row}:
            before[target].append(state)
    return before


def _merge_equal(cea: CEA) -> CEA:
    """Partition refinement: two states are one when they are final alike and move alike.

    Only states that move to a state of a new block are looked at again. When a block falls apart, its largest part
    keeps the number, so that a state is looked at a logarithmic number of times for each of its moves (Hopcroft).
    """
    before = _predecessors(cea)
    block = [int(s in cea.final) for s in range(len(cea.states))]
    members: dict[int, set[int]] = {}
    for state, number in enumerate(block):
        members.setdefault(number, set()).add(state)
    fresh = count(2)

    def moves(state: int) -> frozenset[Transition]:
        return frozenset(t._replace(target=block[t.target]) for t in cea.states[state])

    todo = set(range(len(cea.states)))
    while todo:
        looked_at: dict[int, list[int]] = {}
        for state in todo:
            looked_at.setdefault(block[state], []).append(state)
        parts: list[set[int]] = []
        for number, states in looked_at.items():
            alike: dict[frozenset[Transition], set[int]] = {}
            for state in states:
                alike.setdefault(moves(state), set()).add(state)
            whole = members[number]
            other = next((state for state in whole if state not in todo), None)
            if other is not None:  # the targets of all others have kept their blocks, so one speaks for all
                alike.pop(moves(other), None)
            largest = max(alike.values(), key=len, default=set())
            rest = len(whole) - sum(map(len, alike.values()))
            if rest >= len(largest):
                whole.difference_update(*alike.values())
                parts += alike.values()
            else:
                members[number] = largest
                parts += [part for part in alike.values() if part is not largest]
                if rest:
                    parts.append(whole.difference(*alike.values()))
        todo = set()
        for part in parts:  # all signatures above are of the blocks before
            number = next(fresh)
            members[number] = part
            for state in part:
                block[state] = number
                todo.update(before[state])
    order: dict[int, int] = {}
    return _renumber(cea, {s: order.setdefault(number, len(order)) for s, number in enumerate(block)})


def _renumber(cea: CEA, number: dict[int, int]) -> CEA:
    """`cea` with its states renamed; those without a new name are dropped, those with the same name are one."""

    def row(transitions: tuple[Transition, ...]) -> tuple[Transition, ...]:
        kept = {t._replace(target=number[t.target]) for t in transitions if t.target in number}
        return tuple(sorted(kept, key=lambda t: (t.guard, sorted(t.label), *t[2:])))

    states: dict[int, tuple[Transition, ...]] = {}
    for old, new in number.items():
        states.setdefault(new, row(cea.states[old]))
    return CEA(
        cea.guards,
        row(cea.initial),
        tuple(states[s] for s in range(len(states))),
        frozenset(number[s] for s in cea.final if s in number),
    )


NOTHING_READ = CEA((), (), (), frozenset())
"""The automaton of no match."""
