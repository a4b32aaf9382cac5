"""Complex event automata (core-vldb2022, section 3), with sets of variables in place of the mark.

A transition fires on an event that satisfies all guards of its mask (mask 0: any event), and binds the event to
the variables of its label (empty: the event is read and not part of the match). Runs start at any
event with an `initial` transition and end in a `final` state, at the event that enters it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ceql.analysis.normal import Atom

Label = frozenset[str]
NO_LABEL: Label = frozenset()


class Transition(NamedTuple):
    guard: int  # bit mask over the automaton's guards; all must hold
    label: Label
    target: int


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

    def resting(self) -> tuple[frozenset[int], ...]:
        """For each state, states that together do from now on what it does, after any number of unguarded events.

        A state *rests* when its unguarded, unbound transitions lead to states with the same ways out between
        them. One that does not rest (contiguity), or that is final (it is so at its own event only), stands for itself.
        """
        return tuple(frozenset([s]) if s in self.final else states for s, states in enumerate(self.resting_after()))

    def resting_after(self) -> tuple[frozenset[int], ...]:
        """The same, of states whose own event has been dealt with: that a state is final plays no part."""
        waits = [frozenset(t.target for t in row if t.guard == 0 and not t.label) for row in self.states]
        moves = [frozenset(t for t in row if t.guard != 0 or t.label) for row in self.states]
        return tuple(waits[s] if self._rests(s, waits, moves) else frozenset([s]) for s in range(len(self.states)))

    @staticmethod
    def _rests(state: int, waits: list[frozenset[int]], moves: list[frozenset[Transition]]) -> bool:
        after = waits[state]
        return (
            bool(after)
            and frozenset().union(*(moves[w] for w in after)) == moves[state]
            and frozenset().union(*(waits[w] for w in after)) == after
        )

    def skips_safely(self) -> bool:
        """Whether an event that satisfies no guard changes nothing that can be seen: every state rests, or is left
        by nothing."""
        waits = [frozenset(t.target for t in row if t.guard == 0 and not t.label) for row in self.states]
        moves = [frozenset(t for t in row if t.guard != 0 or t.label) for row in self.states]
        return all(t.guard != 0 for row in moves for t in row) and all(
            not row or self._rests(s, waits, moves) for s, row in enumerate(self.states)
        )


def tidy(cea: CEA) -> CEA:
    """`cea` without useless states, and with states of equal future made one."""
    return _merge_equal(_trim(cea))


def _trim(cea: CEA) -> CEA:
    useful = set(cea.final)
    grows = True
    while grows:
        grows = False
        for state, row in enumerate(cea.states):
            if state not in useful and any(t.target in useful for t in row):
                useful.add(state)
                grows = True
    reached: set[int] = set()
    queue = [t.target for t in cea.initial if t.target in useful]
    while queue:
        state = queue.pop()
        if state not in reached:
            reached.add(state)
            queue.extend(t.target for t in cea.states[state] if t.target in useful)
    return _renumber(cea, {old: new for new, old in enumerate(sorted(reached))})


def _merge_equal(cea: CEA) -> CEA:
    """Partition refinement: two states are one when they are final alike and move alike."""
    block = [int(s in cea.final) for s in range(len(cea.states))]
    count = len(set(block))
    while True:
        signature = {
            s: (block[s], frozenset((t.guard, t.label, block[t.target]) for t in cea.states[s]))
            for s in range(len(cea.states))
        }
        numbers: dict[object, int] = {}
        block = [numbers.setdefault(signature[s], len(numbers)) for s in range(len(cea.states))]
        if len(numbers) == count:
            return _renumber(cea, dict(enumerate(block)))
        count = len(numbers)


def _renumber(cea: CEA, number: dict[int, int]) -> CEA:
    """`cea` with its states renamed; those without a new name are dropped, those with the same name are one."""

    def row(transitions: tuple[Transition, ...]) -> tuple[Transition, ...]:
        kept = {Transition(t.guard, t.label, number[t.target]) for t in transitions if t.target in number}
        return tuple(sorted(kept, key=lambda t: (t.guard, sorted(t.label), t.target)))

    states: dict[int, tuple[Transition, ...]] = {}
    for old, new in number.items():
        states.setdefault(new, row(cea.states[old]))
    return CEA(
        cea.guards,
        row(cea.initial),
        tuple(states[s] for s in range(len(states))),
        frozenset(number[s] for s in cea.final if s in number),
    )
