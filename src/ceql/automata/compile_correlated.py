"""From the shape of a correlated query to its automaton (chain-cea-icdt2020, pcea-hcq-2024).

`parallel.py` makes states and steps. Here the steps become transitions: each looks up, in indexes, the equalities and
the comparisons with PREV that it can. If that leaves claims, runs carry what these ask for (`carrying.py`), and steps
test it; ALL is then a product, unless nothing is carried through its joins. The claims that even this does not settle
are left as checks.
"""

from __future__ import annotations

from dataclasses import replace

from ceql.analysis.between import Condition, Worst, conditions, hardest
from ceql.analysis.equalities import Equality, equalities
from ceql.analysis.normal import Atom
from ceql.analysis.shape import Claim, Kind, Leaves, Shape, Test, prev_of
from ceql.automata.carrying import CARRIED, Carrying, Use, Way, carry
from ceql.automata.correlated import Correlated, Index, Link, Mark, Transition
from ceql.automata.lookups import compared, is_settled
from ceql.automata.parallel import Parallel, Source, Step, build
from ceql.syntax import tree as t

MOST_SIDES = 5  # of an ALL that is a product: each multiplies the states by four


def compile_shape(shape: Shape, strict: frozenset[str] | None = None) -> Correlated:
    """Compile the shape of a correlated query.

    `strict` are the selected variables under STRICT: if they name every event of a chain, each must follow the other.
    """
    known = equalities(shape)
    prev = {claim.number: _prev_leaves(claim) for claim in shape.claims}
    shown = strict is not None and all(leaf.variables & strict for leaf in shape.leaf.values())
    looks_up = _Compiler(shape, _built(shape, known, prev, shown, False), known, prev)
    if looks_up.settles_all:
        return looks_up.compile()
    asked, left = conditions(shape, [c for c in shape.claims if c.number not in looks_up.settled_by_key])
    for chain in (False, True):
        if chain and any(n.kind is Kind.ALL and len(n.items) > MOST_SIDES for n in shape.nodes):
            break  # the product would have too many states
        compiler = _Compiler(shape, _built(shape, known, prev, shown, chain), known, prev)
        carrying, more = carry(shape, compiler.parallel, asked, known)
        if carrying is not None:
            return compiler.compile(carrying, {claim.number for claim in left} | set(more))
    return looks_up.compile()


def _built(shape: Shape, known: list[Equality], prev: dict[int, Leaves], strict: bool, chain: bool) -> Parallel:
    parallel = build(shape, known, frozenset().union(*prev.values()), chain)
    if not strict or any(len(step.sources) > 1 for step in parallel.steps):
        return parallel
    tight = [
        step._replace(sources=tuple(source._replace(tight=True) for source in step.sources)) for step in parallel.steps
    ]
    return replace(parallel, steps=tuple(tight))


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
        self.carrying: Carrying | None = None
        self.reads = 0
        partly = {c for e in self.known for c in e.claims}
        settled = {c for e in self.known if is_settled(self.shape, self.parallel, e) for c in e.claims}
        unlike: list[Leaves] = []
        different: set[int] = set()
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
                different.add(number)
            settled.add(number)
            partly.add(number)
        self.settled = settled
        self.partly = partly
        self.different = different

    @property
    def settles_all(self) -> bool:
        """Whether looking up by key settles every claim."""
        return all(claim.number in self.settled for claim in self.shape.claims)

    @property
    def settled_by_key(self) -> set[int]:
        """The claims that are equalities, between the events of a class or with PREV."""
        return {number for number in self.partly if number not in self.different}

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

    def compile(self, carrying: Carrying | None = None, left: set[int] = frozenset()) -> Correlated:  # type: ignore[assignment]
        """The automaton, with what runs carry; `left` are the claims that are checked all the same."""
        if carrying is None:
            self.unlike = self.different
            left = {c.number for c in self.shape.claims if c.number not in self.settled}
        elif any(carrying.live) or any(way.tests for way in carrying.ways.values()):
            self.carrying = carrying
            self.reads = sum(term.use is not Use.NUMBER for term in carrying.terms)
            for term in carrying.terms:
                if term.use is Use.NUMBER:
                    self._term(term.what)  # type: ignore[arg-type]
            for one, other in carrying.compares:
                self.compares[self._number(carrying, one), self._number(carrying, other)] = None
        checks = tuple(c for c in self.shape.claims if c.number in left)
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
            looked_up=tuple(c for c in self.shape.claims if c.number in self.partly),
            states=len(self.parallel.last),
            final=self.parallel.final,
            carrying=self.carrying,
        )

    def _number(self, carrying: Carrying, term: int) -> int:
        return self._term(carrying.terms[term].what) - self.reads  # type: ignore[arg-type]

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
        mark = self.marks.setdefault(Mark(step.leaves, step.loops & self.loops), len(self.marks))
        if self.carrying is not None and len(step.sources) <= 1:
            for state in step.sources[0].states if step.sources else (-1,):
                way = self.carrying.ways[step, state]
                carried = (self._carried(step, state, way, prev),) if step.sources else ()
                self.transitions[Transition(guard, tuple(needs), carried, mark, step.target, (), way)] = None
            return
        way = self.carrying.ways[step, step.sources[0].states[0]] if self.carrying is not None else Way()
        for links in self._links(step, prev):
            self.transitions[Transition(guard, tuple(needs), links, mark, step.target, (), way)] = None

    def _carried(self, step: Step, state: int, way: Way, prev: list[tuple[int, Test]]) -> Link:
        """The link of a step to the runs of one state that carry something."""
        assert self.carrying is not None
        before, now, _, _ = self._compared(step, state, prev)
        hashed = tuple(register for register, _ in way.hashed)
        asked = {s.number for test in way.tests for s in test.sources if s.kind == CARRIED}
        asked.update(way.cases)
        for move in way.moves:
            asked |= {move.register} if move.kept else set()
            asked |= {source.number for source in move.sources if source.kind == CARRIED}
        rest = tuple(sorted(asked - set(hashed)))
        sure = self.carrying.sure[state].issuperset(rest)
        order = self._order(way, rest) if sure and not (asked.intersection(hashed) or step.sources[0].tight) else 0
        key = ({state: (before, ())}, step.sources[0].tight, hashed + rest, len(hashed), order)
        known = (state, before, *key[1:])
        if known not in self.indexes:
            self.indexes[known] = len(self.rows)
            self.rows.append(Index(*key))
        own = tuple(self._term(self.carrying.terms[term].what) for _, term in way.hashed)  # type: ignore[arg-type]
        return Link(self.indexes[known], now + own)

    def _order(self, way: Way, rest: tuple[int, ...]) -> int:
        """How the groups that pass the only test are found in order of the only register; 0 if they are not."""
        assert self.carrying is not None
        if len(rest) != 1 or len(way.tests) != 1 or any(map(self.carrying.carries_on, way.moves)):
            return 0
        (test,) = way.tests
        if test.condition < 0 or self.carrying.conditions[test.condition].case >= 0:
            return 0
        condition: Condition = self.carrying.conditions[test.condition]
        mine = [n for n, source in enumerate(test.sources) if source.kind == CARRIED]
        if len(mine) != 1:
            return 0
        end = hardest(condition, mine[0])
        return 0 if end is None else 1 if end is Worst.GREATEST else -1

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
        self.compares.update({(a - self.reads, b - self.reads): None for a, b in {**same, **unlike}})
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
        return self.reads + self.terms.setdefault(expression, len(self.terms))
