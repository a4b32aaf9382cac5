"""From the shape of a correlated query to its automaton (chain-cea-icdt2020, pcea-hcq-2024).

`parallel.py` makes states and steps. Here the steps become transitions: each looks up, in indexes, the equalities and
the comparisons with PREV that it can. The claims that this does not settle are left as checks.
"""

from __future__ import annotations

from dataclasses import replace

from ceql.analysis.equalities import Equality, equalities
from ceql.analysis.normal import Atom
from ceql.analysis.shape import Claim, Leaves, Shape, Test, prev_of
from ceql.automata.correlated import Correlated, Index, Link, Mark, Transition
from ceql.automata.lookups import compared, is_settled
from ceql.automata.parallel import Parallel, Source, Step, build
from ceql.syntax import tree as t


def compile_shape(shape: Shape, strict: frozenset[str] | None = None) -> Correlated:
    """Compile the shape of a correlated query.

    `strict` are the selected variables under STRICT: if they name every event of a chain, each must follow the other.
    """
    known = equalities(shape)
    prev = {claim.number: _prev_leaves(claim) for claim in shape.claims}
    parallel = build(shape, known, frozenset().union(*prev.values()))
    shown = strict is not None and all(leaf.variables & strict for leaf in shape.leaf.values())
    if shown and all(len(step.sources) <= 1 for step in parallel.steps):
        tight = [
            step._replace(sources=tuple(source._replace(tight=True) for source in step.sources))
            for step in parallel.steps
        ]
        parallel = replace(parallel, steps=tuple(tight))
    return _Compiler(shape, parallel, known, prev).compile()


def _prev_leaves(claim: Claim) -> Leaves:
    """The leaves at which a claim looks at PREV."""
    found: Leaves = frozenset()
    for test in claim.tests:
        if test.has_prev and test.owner is not None:
            found |= test.variables[test.owner].leaves
    return found


class _Compiler:
    def __init__(self, shape: Shape, parallel: Parallel, known: list[Equality], prev: dict[int, Leaves]) -> None:
        self.shape = shape
        self.parallel = parallel
        self.known = known
        self.prev = [
            (claim.number, prev[claim.number], claim.what)
            for claim in shape.claims
            if prev[claim.number] and isinstance(claim.what, Test) and self._always(claim, claim.what)
        ]
        self.compares: dict[tuple[int, int], None] = {}
        self.transitions: dict[Transition, None] = {}
        self.indexes: dict[object, int] = {}
        self.rows: list[Index] = []
        self.guards: dict[Atom, int] = {}
        self.terms: dict[t.Expression, int] = {}
        self.marks: dict[Mark, int] = {}
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

    def compile(self) -> Correlated:
        settled = {c for e in self.known if is_settled(self.shape, self.parallel, e) for c in e.claims}
        partly = {c for e in self.known for c in e.claims}
        unlike: list[Leaves] = []
        for number, leaves, test in self.prev:
            simple = prev_of(test)
            if simple is None:
                continue
            if simple[0] == "!=":
                if any(
                    step.leaves & leaves and step.leaves & other for step in self.parallel.steps for other in unlike
                ):
                    continue  # an index leaves out one value: further disequalities are checked
                unlike.append(leaves)
                self.unlike.add(number)
            settled.add(number)
            partly.add(number)
        checks = tuple(c for c in self.shape.claims if c.number not in settled)
        self.loops = frozenset(loop for claim in checks for loop in self.shape.above(claim.node)[1:])
        for step in self.parallel.steps:
            self._transition(step)
        return Correlated(
            shape=self.shape,
            parallel=self.parallel,
            guards=tuple(self.guards),
            terms=tuple(self.terms),
            compares=tuple(self.compares),
            marks=tuple(self.marks),
            transitions=tuple(self.transitions),
            indexes=tuple(self.rows),
            checks=checks,
            looked_up=tuple(c for c in self.shape.claims if c.number in partly),
            states=len(self.parallel.last),
            final=self.parallel.final,
        )

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
            values = list(dict.fromkeys(e for leaf in sorted(step.leaves) for e in equality.terms.get(leaf, ())))
            if len(values) > 1:
                here, span = self.shape.leaf[min(step.leaves)], self.shape.claim(equality.claims[0]).span
                same = tuple(t.Comparison("=", values[0], other, span=span) for other in values[1:])
                guard |= 1 << self._guard(Atom(here.type, here.stream, frozenset(), same))
            needs.update(dict.fromkeys(self._term(e) for e in values))
        for links in self._links(step, prev):
            mark = self.marks.setdefault(Mark(step.leaves, step.loops & self.loops), len(self.marks))
            self.transitions[Transition(guard, tuple(needs), links, mark, step.target)] = None

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
            pair = compared(self.shape, equality, self.parallel.last[state], step)
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
        self.compares.update({**same, **unlike})
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
            self.rows.append(Index(feeders, source.tight))
        return self.indexes[key]

    def _guard(self, atom: Atom) -> int:
        return self.guards.setdefault(atom, len(self.guards))

    def _term(self, expression: t.Expression) -> int:
        return self.terms.setdefault(expression, len(self.terms))
