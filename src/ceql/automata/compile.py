"""LP-normal form to CEA (core-vldb2022, Theorem 1), of linear size but for ALL, which is a product.

Each construct is a fragment: the transitions that may read its first event, and the states entered at its last.
`;` inserts a state that waits over any events, but for those that NOT forbids there; `:` does not. `->` waits as `;`
does, but not over events that could begin what follows.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import NamedTuple

from ceql.analysis.normal import Atom, Both, Choice, Normal, Repeat, Sequence
from ceql.automata.cea import CEA, NO_LABEL, Label, Transition, tidy
from ceql.errors import ResourceError
from ceql.syntax.tree import Joint


class Fragment(NamedTuple):
    initial: list[Transition]
    final: set[int]
    nullable: bool = False  # whether it may be left out


NOT_STARTED, FINISHED = -1, -2
MAX_MOVES = 1_000_000
"""The most transitions that the products of ALL may have: some seconds, and a few hundred megabytes."""
MAX_JOINED = 100_000
"""The most transitions from one part of a sequence to the next: some seconds."""


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
        self.joined = 0  # moves from one part to the next

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
            case Sequence(items, joints, absent, instead):
                unless = [self._mask(atoms) for atoms in absent] or [0] * (len(items) + 1)
                others = [self._mask(atoms) for atoms in instead] or [0] * len(items)
                return self._sequence([self.build(item) for item in items], joints, unless, others)
            case Repeat():
                return self._repeat(formula)
            case Choice(items):
                parts = [self.build(item) for item in items]
                initial = [t for p in parts for t in p.initial]
                return Fragment(initial, set().union(*(p.final for p in parts)), any(p.nullable for p in parts))
            case Both(items):
                result = self.build(items[0])
                for item in items[1:]:
                    result = self._both(result, self.build(item))
                return result
            case _:
                raise AssertionError(f"not in LP-normal form: {formula}")

    def _mask(self, atoms: Iterable[Atom]) -> int:
        """The guards that these events satisfy."""
        mask = 0
        for atom in atoms:
            mask |= 1 << self.guards.setdefault(atom, len(self.guards))
        return mask

    def _sequence(
        self, parts: list[Fragment], joints: tuple[Joint, ...], unless: list[int], instead: list[int]
    ) -> Fragment:
        """One part after the other, without the events `unless` before, between and after them.

        The neighbours of a part that is left out are joined directly, by `:` or `->` if both operators around it are.
        What is absent on either side of it is then absent between them, and by `->` the events `instead`.
        """
        initial: list[Transition] = []
        begins = True
        open_ends: list[tuple[set[int], Joint | None, int]] = []
        """The ends that the next part may follow, how it is joined to them, and what may not come between."""
        for k, part in enumerate(parts):
            sign = joints[k - 1] if k else Joint.THEN
            open_ends = [
                (ends, sign if joint is None else joint.beside(sign), forbidden | unless[k])
                for ends, joint, forbidden in open_ends
            ]
            for ends, joint, forbidden in open_ends:
                others = instead[k] if joint is Joint.NEXT else 0
                self._join(ends, part.initial, joint is Joint.TOUCH, forbidden | others)
            if begins:
                initial += [t._replace(after=t.after | unless[0]) for t in part.initial]
            begins = begins and part.nullable
            open_ends = [*(open_ends if part.nullable else []), (part.final, None, 0)]
        return Fragment(initial, set().union(*(ends for ends, _, _ in open_ends)), begins)

    def _repeat(self, formula: Repeat) -> Fragment:
        """A copy of the body for each round that is counted; the last one of no upper end goes round."""
        first = self.build(formula.body)
        nullable = formula.least == 0 or first.nullable
        least = 1 if nullable else formula.least
        rounds, close, unless = [first], formula.joint is Joint.TOUCH, self._mask(formula.instead)
        for _ in range(1, least if formula.most is None else formula.most):
            rounds.append(self.build(formula.body))
            self._join(rounds[-2].final, rounds[-1].initial, close, unless)
        if formula.most is None:
            self._join(rounds[-1].final, list(rounds[-1].initial), close, unless)
        return Fragment(first.initial, set().union(*(part.final for part in rounds[least - 1 :])), nullable)

    def _join(self, final: set[int], initial: list[Transition], contiguous: bool, unless: int = 0) -> None:
        """Let `initial` follow; where any events may come between, none that satisfies one of `unless`."""
        if not initial:
            return
        self.joined += len(initial) * len(final)
        if self.joined > MAX_JOINED:
            raise ResourceError(
                f"the automaton has more than {MAX_JOINED:,} transitions: where many parts stand side by side that may "
                "be missing, or that are alternatives, each can be followed by all; write fewer of them in a row",
                limit="MAX_JOINED",
            )
        for state in final:
            self.states[state].extend(initial)
        if not contiguous:
            wait = self.new_state(initial)
            self.states[wait].append(Transition(0, NO_LABEL, wait, unless))
            for state in final:
                self.states[state].append(Transition(0, NO_LABEL, wait, unless))

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

        done = (FINISHED, FINISHED)

        def combine(pair: tuple[int, int]) -> list[Transition]:
            row = []
            for one, two in product(moves(first, pair[0]), moves(second, pair[1])):
                target = (one.target, two.target)
                if target == (NOT_STARTED, NOT_STARTED):
                    continue
                guard, label, unless = one.guard | two.guard, one.label | two.label, one.unless | two.unless
                row.append(Transition(guard, label, number(target), unless))
                if target != pair and all(  # a side that may be left out is
                    at == FINISHED or (at == NOT_STARTED and side.nullable)
                    for side, at in zip((first, second), target, strict=True)
                ):
                    row.append(row[-1]._replace(target=number(done)))
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
            if pair != done:
                self.states[numbers[pair]] = combine(pair)
        nullable = first.nullable and second.nullable
        return Fragment(initial, {numbers[done]} if done in numbers else set(), nullable)
