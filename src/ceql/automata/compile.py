"""LP-normal form to CEA (core-vldb2022, Theorem 1), of linear size but for ALL, which is a product.

Each construct is a fragment: the transitions that may read its first event, and the states entered at its last.
`;` inserts a state that waits over any events; `:` does not.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import NamedTuple

from ceql.analysis.normal import Atom, Both, Choice, Normal, Repeat, Sequence
from ceql.automata.cea import CEA, NO_LABEL, Label, Transition, tidy
from ceql.errors import ResourceError


class Fragment(NamedTuple):
    initial: list[Transition]
    final: set[int]


NOT_STARTED, FINISHED = -1, -2
MAX_MOVES = 1_000_000
"""The most transitions that the products of ALL may have: some seconds, and a few hundred megabytes."""


def compile_formula(formula: Normal, selected: Iterable[str]) -> CEA:
    """The automaton of `formula`, whose labels keep only the `selected` variables."""
    builder = _Builder()
    fragment = builder.build(formula)
    cea = CEA(
        tuple(builder.guards),
        tuple(fragment.initial),
        tuple(tuple(row) for row in builder.states),
        frozenset(fragment.final),
    )
    return tidy(project(cea, frozenset(selected)))


def project(cea: CEA, selected: Label) -> CEA:
    """`cea` with every label cut down to the selected variables."""

    def cut(row: tuple[Transition, ...]) -> tuple[Transition, ...]:
        return tuple(t._replace(label=t.label & selected) for t in row)

    return CEA(cea.guards, cut(cea.initial), tuple(cut(row) for row in cea.states), cea.final)


class _Builder:
    def __init__(self) -> None:
        self.states: list[list[Transition]] = []
        self.guards: dict[Atom, int] = {}
        self.moves = 0  # of products, those of smaller ones included

    def new_state(self, row: Iterable[Transition] = ()) -> int:
        self.states.append(list(row))
        return len(self.states) - 1

    def build(self, formula: Normal) -> Fragment:
        match formula:
            case Atom(type, stream, variables, predicates):
                guard = Atom(type, stream, frozenset(), predicates)
                bit = self.guards.setdefault(guard, len(self.guards))
                state = self.new_state()
                return Fragment([Transition(1 << bit, variables, state)], {state})
            case Sequence(items, contiguous):
                result = self.build(items[0])
                for item, tight in zip(items[1:], contiguous, strict=True):
                    following = self.build(item)
                    self._join(result.final, following.initial, tight)
                    result = Fragment(result.initial, following.final)
                return result
            case Repeat(body, contiguous):
                result = self.build(body)
                self._join(result.final, list(result.initial), contiguous)
                return result
            case Choice(items):
                parts = [self.build(item) for item in items]
                return Fragment([t for p in parts for t in p.initial], set().union(*(p.final for p in parts)))
            case Both(items):
                result = self.build(items[0])
                for item in items[1:]:
                    result = self._both(result, self.build(item))
                return result
            case _:
                raise AssertionError(f"not in LP-normal form: {formula}")

    def _join(self, final: set[int], initial: list[Transition], contiguous: bool) -> None:
        for state in final:
            self.states[state].extend(initial)
        if not contiguous:
            wait = self.new_state(initial)
            self.states[wait].append(Transition(0, NO_LABEL, wait))
            for state in final:
                self.states[state].append(Transition(0, NO_LABEL, wait))

    def _both(self, first: Fragment, second: Fragment) -> Fragment:
        """The product: each side not started, under way or finished; an event may serve both."""
        numbers: dict[tuple[int, int], int] = {}
        queue: list[tuple[int, int]] = []

        def number(pair: tuple[int, int]) -> int:
            if pair not in numbers:
                numbers[pair] = self.new_state()
                queue.append(pair)
            return numbers[pair]

        def moves(side: Fragment, state: int) -> list[Transition]:
            if state == FINISHED:
                return [Transition(0, NO_LABEL, FINISHED)]
            rows = side.initial if state == NOT_STARTED else self.states[state]
            found = [Transition(0, NO_LABEL, NOT_STARTED)] if state == NOT_STARTED else []
            for t in rows:
                found.append(t)
                if t.target in side.final:
                    found.append(t._replace(target=FINISHED))
            return found

        def combine(pair: tuple[int, int]) -> list[Transition]:
            row = []
            for one, two in product(moves(first, pair[0]), moves(second, pair[1])):
                target = (one.target, two.target)
                if target != (NOT_STARTED, NOT_STARTED):
                    row.append(Transition(one.guard | two.guard, one.label | two.label, number(target)))
            self.moves += len(row)
            if self.moves > MAX_MOVES:
                raise ResourceError(
                    f"ALL joins so many sides that its automaton has more than {MAX_MOVES:,} transitions: each side "
                    "makes it four times as large; join fewer, or say with FILTER what they have in common",
                    limit="MAX_MOVES",
                )
            return row

        initial = combine((NOT_STARTED, NOT_STARTED))
        while queue:
            pair = queue.pop()
            if pair != (FINISHED, FINISHED):
                self.states[numbers[pair]] = combine(pair)
        done = numbers.get((FINISHED, FINISHED))
        return Fragment(initial, set() if done is None else {done})
