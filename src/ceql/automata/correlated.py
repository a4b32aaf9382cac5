"""A correlated formula, compiled: what the engine looks up, and what is checked on finished matches.

Runs wait in indexes. An index is fed by the states it gathers, under a key of the last event's values; a step looks up
its own event's values there. `terms` are those values: expressions over one event, numbered. `checks` are
the claims that no index settles.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from ceql.analysis.equalities import Equality, equalities
from ceql.analysis.normal import Atom
from ceql.analysis.shape import Claim, Leaves, Shape, Test, prev_of
from ceql.automata.lookups import compared, is_settled
from ceql.automata.parallel import Parallel, Source, Step, build
from ceql.syntax import tree as t


class Mark(NamedTuple):
    """What is said of an event of a match: where in the formula it was read, and after going round which iterations,
    as far as checks ask for that."""

    leaves: Leaves
    loops: Leaves


class Link(NamedTuple):
    """Look up the event's terms `key` in an index; its terms `unlike` must differ from those of the runs found."""

    where: int
    key: tuple[int, ...]
    unlike: tuple[int, ...] = ()


class Transition(NamedTuple):
    guard: int  # bit mask over the guards; all must hold
    needs: tuple[int, ...]  # terms that must not be NULL
    links: tuple[Link, ...]
    mark: int
    target: int
    failing: tuple[int, ...] = ()  # bit masks, none of which may hold altogether

    def allows(self, bits: int) -> bool:
        """Whether an event that satisfies these guards may be read."""
        return self.guard & ~bits == 0 and all(guard & ~bits for guard in self.failing)


@dataclass(slots=True)
class Index:
    """Runs by the terms of their last event; `tight` keeps those alone that ended at the previous event."""

    feeders: dict[int, tuple[tuple[int, ...], tuple[int, ...]]]  # of each state: the terms of the key, and `unlike`
    tight: bool


@dataclass(slots=True)
class Correlated:
    """The automaton as the engine runs it."""

    shape: Shape
    auto: Parallel
    guards: tuple[Atom, ...] = ()
    terms: tuple[t.Expression, ...] = ()
    compares: list[tuple[int, int]] = field(default_factory=list)
    """Pairs of terms that are compared with each other."""
    marks: list[Mark] = field(default_factory=list)
    transitions: list[Transition] = field(default_factory=list)
    indexes: list[Index] = field(default_factory=list)
    checks: list[Claim] = field(default_factory=list)
    looked_up: list[Claim] = field(default_factory=list)
    """The claims that the indexes settle, or narrow down."""
    states: int = 0
    final: tuple[int, ...] = ()
    is_deterministic: bool = False
    """Whether every match has one run, by construction."""

    @property
    def is_chain(self) -> bool:
        return all(len(transition.links) <= 1 for transition in self.transitions)

    @property
    def is_tight(self) -> bool:
        """Whether events that no guard accepts matter, since something is contiguous."""
        return any(index.tight for index in self.indexes)

    @property
    def is_strict(self) -> bool:
        """Whether the events of every match follow one another."""
        return self.is_chain and all(index.tight for index in self.indexes)

    @property
    def shares_events(self) -> bool:
        """Whether an event may be read at two leaves by runs that go side by side."""
        kinds = [leaf.type for leaf in self.shape.leaf.values()]
        return not self.is_chain and len(set(kinds)) < len(kinds)

    @property
    def fingerprint(self) -> str:
        """Tells automata apart: what waits in the indexes of one means nothing to another."""
        marks = [(sorted(mark.leaves), sorted(mark.loops)) for mark in self.marks]
        indexes = [(sorted(index.feeders.items()), index.tight) for index in self.indexes]
        content = repr((self.terms, marks, self.transitions, indexes, self.final))
        return hashlib.sha256(content.encode()).hexdigest()

    def label(self, mark: Mark) -> frozenset[str]:
        """The variables that an event with this mark is bound to."""
        return frozenset().union(*(self.shape.leaf[leaf].variables for leaf in mark.leaves))

    def is_ambiguous(self, selected: frozenset[str], distinct: bool) -> bool:
        """Whether two runs may give the same match, so that matches must be compared."""
        return not self.is_deterministic and _ambiguous(self, selected, distinct)

    def with_steps(
        self,
        states: int,
        final: tuple[int, ...],
        transitions: list[Transition],
        indexes: list[Index],
        guards: tuple[Atom, ...],
    ) -> Correlated:
        """The same query on a deterministic automaton."""
        return replace(
            self,
            states=states,
            final=final,
            transitions=transitions,
            indexes=indexes,
            guards=guards,
            is_deterministic=True,
        )


def correlate(shape: Shape, strict: frozenset[str] | None = None) -> Correlated:
    """Compile the shape of a correlated query.

    `strict` are the selected variables under STRICT: if they name every event of a chain, each must follow the other.
    """
    known = equalities(shape)
    prev = {claim.number: _prev_leaves(claim) for claim in shape.claims}
    auto = build(shape, known, frozenset().union(*prev.values()))
    shown = strict is not None and all(leaf.variables & strict for leaf in shape.leaf.values())
    if shown and all(len(step.sources) <= 1 for step in auto.steps):
        auto.steps = [
            step._replace(sources=tuple(source._replace(tight=True) for source in step.sources)) for step in auto.steps
        ]
    return _Sealer(shape, auto, known, prev).seal()


def _prev_leaves(claim: Claim) -> Leaves:
    """The leaves at which a claim looks at PREV."""
    found: Leaves = frozenset()
    for test in claim.tests:
        if test.has_prev and test.owner is not None:
            found |= test.variables[test.owner].leaves
    return found


class _Sealer:
    def __init__(self, shape: Shape, auto: Parallel, known: list[Equality], prev: dict[int, Leaves]) -> None:
        self.shape = shape
        self.auto = auto
        self.known = known
        self.prev = [
            (claim.number, prev[claim.number], claim.what)
            for claim in shape.claims
            if prev[claim.number] and isinstance(claim.what, Test) and self._always(claim, claim.what)
        ]
        self.out = Correlated(shape, auto)
        self.guards: dict[Atom, int] = {}
        self.terms: dict[t.Expression, int] = {}
        self.marks: dict[Mark, int] = {}
        self.indexes: dict[object, int] = {}
        self.loops: Leaves = frozenset()
        self.unlike: set[int] = set()  # the claims with != that indexes settle

    def _always(self, claim: Claim, test: Test) -> bool:
        """Whether the test is asked of every event of its owner.

        It is not where a match may do without the filtered node, or leave another variable unbound.
        """
        assert test.owner is not None
        scope = test.variables[test.owner].scope
        others = [comparand for name, comparand in test.variables.items() if name != test.owner]
        return (scope == claim.node or self.shape.surely(scope, self.shape.below(claim.node))) and all(
            self.shape.surely(comparand.scope, comparand.leaves) for comparand in others
        )

    def seal(self) -> Correlated:
        out = self.out
        settled = {c for e in self.known if is_settled(self.shape, self.auto, e) for c in e.claims}
        partly = {c for e in self.known for c in e.claims}
        unlike: list[Leaves] = []
        for number, leaves, test in self.prev:
            simple = prev_of(test)
            if simple is None:
                continue
            if simple[0] == "!=":
                if any(step.leaves & leaves and step.leaves & other for step in self.auto.steps for other in unlike):
                    continue  # an index leaves out one value: further disequalities are checked
                unlike.append(leaves)
                self.unlike.add(number)
            settled.add(number)
            partly.add(number)
        out.checks = [c for c in self.shape.claims if c.number not in settled]
        out.looked_up = [c for c in self.shape.claims if c.number in partly]
        self.loops = frozenset(loop for claim in out.checks for loop in self.shape.above(claim.node)[1:])
        for step in self.auto.steps:
            self._transition(step)
        out.transitions = list(dict.fromkeys(out.transitions))
        out.guards, out.terms, out.marks = tuple(self.guards), tuple(self.terms), list(self.marks)
        out.compares = list(dict.fromkeys(out.compares))
        out.states, out.final = len(self.auto.last), self.auto.final
        return out

    def _transition(self, step: Step) -> None:
        prev = [(number, test) for number, leaves, test in self.prev if step.leaves & leaves]
        if not step.sources and any(isinstance(test.predicate, t.Comparison) for _, test in prev):
            return  # PREV is NULL at the first event
        guard = 0
        for leaf in sorted(step.leaves):
            here = self.shape.leaf[leaf]
            guard |= 1 << self._guard(Atom(here.type, here.stream, frozenset(), tuple(here.predicates)))
        needs: dict[int, None] = {}
        for equality in self.known:
            values = dict.fromkeys(e for leaf in sorted(step.leaves) for e in equality.terms.get(leaf, ()))
            first, *others = values or [None]
            if others:
                here = self.shape.leaf[min(step.leaves)]
                span = self.shape.claim(equality.claims[0]).span
                same = tuple(t.Comparison("=", first, other, span=span) for other in others)  # type: ignore[arg-type]
                guard |= 1 << self._guard(Atom(here.type, here.stream, frozenset(), same))
            needs.update(dict.fromkeys(self._term(e) for e in values))
        for links in self._links(step, prev):
            mark = self.marks.setdefault(Mark(step.leaves, step.loops & self.loops), len(self.marks))
            self.out.transitions.append(Transition(guard, tuple(needs), links, mark, step.target))

    def _links(self, step: Step, prev: list[tuple[int, Test]]) -> list[tuple[Link, ...]]:
        """The sources of a step as links; several where the states of a source are looked up by different values."""
        ways: list[tuple[Link, ...]] = [()]
        for source in step.sources:
            by_key: dict[
                tuple[tuple[int, ...], tuple[int, ...]], dict[int, tuple[tuple[int, ...], tuple[int, ...]]]
            ] = {}
            for state in source.states:
                before, now, unlike_before, unlike_now = self._compared(
                    step, state, prev if len(step.sources) == 1 else []
                )
                by_key.setdefault((now, unlike_now), {})[state] = (before, unlike_before)
            found = [Link(self._index(feeders, source), key, unlike) for (key, unlike), feeders in by_key.items()]
            ways = [(*way, link) for way in ways for link in found]
        return ways

    def _compared(
        self, step: Step, state: int, prev: list[tuple[int, Test]]
    ) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        same: dict[tuple[int, int], None] = {}
        unlike: dict[tuple[int, int], None] = {}
        for equality in self.known:
            pair = compared(self.shape, equality, self.auto.last[state], step)
            if pair is not None:
                same[self._term(pair[0]), self._term(pair[1])] = None
        for number, test in prev:
            simple = prev_of(test)
            if simple is not None:
                op, before, own = simple
                if op == "=":
                    same[self._term(before), self._term(own)] = None
                elif number in self.unlike:
                    unlike[self._term(before), self._term(own)] = None
        self.out.compares += [*same, *unlike]
        return (
            tuple(a for a, _ in same),
            tuple(b for _, b in same),
            tuple(a for a, _ in unlike),
            tuple(b for _, b in unlike),
        )

    def _index(self, feeders: dict[int, tuple[tuple[int, ...], tuple[int, ...]]], source: Source) -> int:
        key = (tuple(sorted(feeders.items())), source.tight)
        if key not in self.indexes:
            self.indexes[key] = len(self.indexes)
            self.out.indexes.append(Index(feeders, source.tight))
        return self.indexes[key]

    def _guard(self, atom: Atom) -> int:
        return self.guards.setdefault(atom, len(self.guards))

    def _term(self, expression: t.Expression) -> int:
        return self.terms.setdefault(expression, len(self.terms))


# --- ambiguity ---


def _ambiguous(auto: Correlated, selected: frozenset[str], distinct: bool) -> bool:
    labels = [auto.label(mark) & selected for mark in auto.marks]
    if auto.is_chain:
        return _two_paths(auto, labels, distinct)
    return not _private(auto, selected, distinct)


def _private(auto: Correlated, selected: frozenset[str], distinct: bool) -> bool:
    """Whether the match tells at which leaf each of its events was read."""
    leaves = auto.shape.leaf
    for number, leaf in leaves.items():
        mine = leaf.variables & selected
        alike = [other for k, other in leaves.items() if k != number and other.type == leaf.type]
        if not mine or (alike and (distinct or not mine.difference(*(other.variables for other in alike)))):
            return False
    ways = [(t.links, auto.marks[t.mark].leaves, t.target) for t in auto.transitions]
    return len(set(ways)) == len(ways)


def _two_paths(auto: Correlated, labels: list[frozenset[str]], distinct: bool) -> bool:
    """Whether two different runs of a chain may read the same events with the same labels.

    Pairs of runs are followed side by side. What steps compare is left out of account: where that would keep the runs
    apart, matches are compared for nothing.
    """
    leaves = auto.shape.leaf
    final = set(auto.final)
    moves: dict[int, list[tuple[int, Transition]]] = {}
    starts: list[tuple[int, Transition]] = []
    for number, transition in enumerate(auto.transitions):
        if not transition.links:
            starts.append((number, transition))
        else:
            for state in auto.indexes[transition.links[0].where].feeders:
                moves.setdefault(state, []).append((number, transition))

    def letter(transition: Transition) -> object:
        label = labels[transition.mark]
        kind = leaves[min(auto.marks[transition.mark].leaves)].type
        return kind, bool(label) if distinct else label

    for transition in auto.transitions:  # an event in the middle that is not shown may be any
        if (
            transition.links
            and not labels[transition.mark]
            and (transition.target not in final or moves.get(transition.target))
        ):
            return True
    seen: set[tuple[int, int, bool]] = set()
    queue: list[tuple[int, int, bool]] = []

    def follow(one: Iterable[tuple[int, Transition]], two: Iterable[tuple[int, Transition]], differ: bool) -> None:
        two = list(two)
        for a, first in one:
            for b, second in two:
                if letter(first) == letter(second):
                    pair = (first.target, second.target, differ or a != b)
                    if pair not in seen:
                        seen.add(pair)
                        queue.append(pair)

    follow(starts, starts, False)
    while queue:
        p, q, differ = queue.pop()
        if differ and p in final and q in final:
            return True
        follow(moves.get(p, ()), moves.get(q, ()), differ)
    return False
