"""Chain automata made deterministic (chain-cea-icdt2020, Theorem 8), where two runs could be the same match.

A state of the result is the set of states that runs with the same events and labels may be in: one run stands for all
of them. Which of a set's steps an event allows depends on the guards that hold, so each combination of guards is a
transition of its own; and on what the event has in common with the one before. The theorem splits by every
combination of equalities and disequalities. Here steps may differ in one equality: where it holds all go on, and where
it does not (the values differ, or one is NULL) those go on that do not ask for it. Steps that differ in more are left
as they are, and their matches are compared.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import chain, combinations
from typing import NamedTuple

from ceql.analysis.normal import Atom
from ceql.automata.correlated import Correlated, Index, Link, Transition
from ceql.engine.groups.layout import NULLS_DIFFER
from ceql.syntax import tree

States = frozenset[int]
Label = frozenset[str]
_MOST_STATES = 256
_MOST_GUARDS = 6  # distinct ones among the steps of a set with one label


class _Edge(NamedTuple):
    """A step from one state, or the first of a run (-1)."""

    guard: int
    same: tuple[tuple[int, int], ...]  # terms of the event before and of this one
    unlike: tuple[tuple[int, int], ...]
    tight: bool
    mark: int
    target: int


class _Way(NamedTuple):
    """What the edges of a set do together, under a condition on the event before."""

    same: tuple[tuple[int, int], ...]
    unlike: tuple[tuple[int, int], ...]
    edges: tuple[_Edge, ...]


def make_unambiguous(auto: Correlated, selected: Label, distinct: bool) -> Correlated | None:
    """An automaton whose runs are the matches of a chain, one for each; None where that is not possible here."""
    if not auto.is_chain or auto.absences or auto.ends_runs or auto.carrying is not None:
        return None
    labels = [auto.label(mark) & selected for mark in auto.marks]
    return _Expansion(auto, labels, distinct).build()


class _Expansion:
    def __init__(self, auto: Correlated, labels: list[Label], distinct: bool) -> None:
        self.auto = auto
        self.hidden = [k for k, label in enumerate(labels) if not label]
        kinds = [auto.shape.leaf[min(mark.leaves)] for mark in auto.marks]
        # what tells events apart: the label; and the type, so that steps that exclude each other are not combined
        self.letters = [(k.type, bool(label) if distinct else label) for k, label in zip(kinds, labels, strict=True)]
        self.guards = {guard: k for k, guard in enumerate(auto.guards)}
        self.edges: dict[int, list[_Edge]] = {}
        for transition in auto.transitions:
            for state, edge in self._edges(transition):
                self.edges.setdefault(state, []).append(edge)
        self.numbers: dict[States, int] = {}
        self.queue: list[States] = []
        self.transitions: list[Transition] = []
        self.indexes: dict[object, int] = {}
        self.rows: list[Index] = []

    def _edges(self, t: Transition) -> Iterable[tuple[int, _Edge]]:
        guard = t.guard
        for term in t.needs:  # that a value is there is one more guard
            here, value = self.auto.shape.leaf[min(self.auto.marks[t.mark].leaves)], self.auto.terms[term]
            there = Atom(here.type, here.stream, frozenset(), (tree.Comparison("=", value, value),))
            guard |= 1 << self.guards.setdefault(there, len(self.guards))
        if not t.links:
            yield -1, _Edge(guard, (), (), False, t.mark, t.target)
        for link in t.links:
            index = self.auto.indexes[link.where]
            for state, (key, unlike) in index.feeders.items():
                same = tuple(sorted(zip(key, link.key, strict=True)))
                other = tuple(sorted(zip(unlike, link.unlike, strict=True)))
                yield state, _Edge(guard, same, other, index.tight, t.mark, t.target)

    def build(self) -> Correlated | None:
        final = set(self.auto.final)
        for edge in chain.from_iterable(edges for state, edges in self.edges.items() if state >= 0):
            if edge.mark in self.hidden and (edge.target not in final or self.edges.get(edge.target)):
                return None  # an event in the middle that is not shown may be any
        if not self._expand(None):
            return None
        while self.queue:
            states = self.queue.pop()
            if not self._expand(states) or len(self.numbers) > _MOST_STATES:
                return None
        return replace(
            self.auto,
            states=len(self.numbers),
            final=tuple(number for states, number in self.numbers.items() if states & final),
            transitions=tuple(self.transitions),
            indexes=tuple(self.rows),
            guards=tuple(self.guards),
            is_deterministic=True,
        )

    def _number(self, states: States) -> int:
        if states not in self.numbers:
            self.numbers[states] = len(self.numbers)
            self.queue.append(states)
        return self.numbers[states]

    def _expand(self, states: States | None) -> bool:
        """Add the transitions of a set of states (None: those that begin a run); whether that was possible."""
        by_letter: dict[object, list[_Edge]] = {}
        for state in sorted(states) if states is not None else [-1]:
            for edge in self.edges.get(state, []):
                by_letter.setdefault(self.letters[edge.mark], []).append(edge)
        for edges in by_letter.values():
            if len({(edge.unlike, edge.tight) for edge in edges}) > 1:
                return False
            guards = list(dict.fromkeys(edge.guard for edge in edges))
            if len(guards) > _MOST_GUARDS:
                return False
            for holding in _subsets(guards):
                held = 0
                for guard in holding:
                    held |= guard
                failing = tuple(guard for guard in guards if guard & ~held)
                if any(guard & ~held == 0 and guard not in holding for guard in guards):
                    continue  # it would hold as well
                ways = _ways([edge for edge in edges if edge.guard in holding])
                if ways is None:
                    return False
                for way in ways:
                    self._add(states, held, failing, way)
        return True

    def _add(self, states: States | None, held: int, failing: tuple[int, ...], way: _Way) -> None:
        first = way.edges[0]
        target = self._number(frozenset(edge.target for edge in way.edges))
        links: tuple[Link, ...] = ()
        if states is not None:
            before = tuple(a for a, _ in way.same), tuple(a for a, _ in way.unlike)
            feeders = {self.numbers[states]: before}
            key = (self.numbers[states], before, first.tight)
            if key not in self.indexes:
                self.indexes[key] = len(self.rows)
                self.rows.append(Index(feeders, first.tight))
            links = (Link(self.indexes[key], tuple(b for _, b in way.same), tuple(b for _, b in way.unlike)),)
        self.transitions.append(Transition(held, (), links, first.mark, target, failing))


def _subsets(guards: list[int]) -> Iterable[tuple[int, ...]]:
    return chain.from_iterable(combinations(guards, size) for size in range(1, len(guards) + 1))


def _ways(edges: list[_Edge]) -> list[_Way] | None:
    """The edges by what must be equal: together, or with one more equality for some; None for anything else."""
    asked = sorted({edge.same for edge in edges}, key=len)
    if len(asked) == 1:
        return [_Way(asked[0], edges[0].unlike, tuple(edges))]
    if len(asked) > 2 or edges[0].unlike:
        return None
    fewer, more = asked
    extra = set(more) - set(fewer)
    if not set(fewer) < set(more) or len(extra) != 1:
        return None
    ((before, now),) = extra
    rest = tuple(edge for edge in edges if edge.same == fewer)
    return [
        _Way(more, (), tuple(edges)),
        _Way(fewer, ((before | NULLS_DIFFER, now | NULLS_DIFFER),), rest),
    ]
