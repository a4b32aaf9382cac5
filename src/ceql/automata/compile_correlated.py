"""From the shape of a correlated query to its automaton (chain-cea-icdt2020, pcea-hcq-2024).

`parallel.py` makes states and steps. Here the steps become transitions: each looks up, in indexes, the equalities and
the comparisons with PREV that it can. If that leaves claims, runs carry what these ask for (`carrying.py`), and steps
test it; ALL is then a product, unless nothing is carried through its joins.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from functools import cached_property

from ceql.analysis.between import conditions
from ceql.analysis.conditions import skips_null
from ceql.analysis.equalities import Equality, equalities
from ceql.analysis.normal import Atom, absent_atoms
from ceql.analysis.shape import Claim, Kind, Leaves, Shape, Test, prev_of
from ceql.automata.carrying import carry
from ceql.automata.correlated import Correlated, Index, Link, Mark, Transition, Watched
from ceql.automata.endings import Gaps, crossed, gaps_of
from ceql.automata.in_order import order_of
from ceql.automata.lookups import compared, is_settled
from ceql.automata.parallel import Parallel, Source, Step, build
from ceql.automata.registers import CARRIED, EVENT, Carrying, Ending, Evaluation, Move, Way
from ceql.automata.registers import Source as From
from ceql.automata.uses import Use
from ceql.errors import ResourceError
from ceql.syntax import tree as t

MOST_KNOWN = 1_000_000  # equalities times leaves: some seconds


def compile_shape(shape: Shape, strict: frozenset[str] | None = None) -> Correlated:
    """Compile the shape of a correlated query.

    `strict` are the selected variables under STRICT: if they name every event of a chain, each must follow the other.
    """
    known = equalities(shape)
    if len(known) * len(shape.leaf) > MOST_KNOWN:
        raise ResourceError(
            f"{len(known):,} equalities of different values between {len(shape.leaf):,} events are too many to "
            f"compile: {MOST_KNOWN:,} is the most of one times the other",
            limit="MOST_KNOWN",
        )
    prev = {claim.number: _prev_leaves(claim) for claim in shape.claims}
    shown = strict is not None and all(leaf.variables & strict for leaf in shape.leaf.values())
    looks_up = _Compiler(shape, _built(shape, known, prev, shown, False), known, prev)
    gaps = gaps_of(shape, frozenset().union(*prev.values()))
    if looks_up.settles_all and not gaps.compared:
        return looks_up.compile(gaps)
    by_key = looks_up.settled_by_key - _beside_endings(shape, gaps, prev)
    asked = conditions(shape, [c for c in shape.claims if c.number not in by_key])
    for chain in (False, True):
        compiler = _Compiler(shape, _built(shape, known, prev, shown, chain), known, prev)
        carrying, ended = carry(shape, compiler.parallel, asked, known, gaps)
        if carrying is not None:
            return compiler.compile(ended, carrying)
    raise AssertionError("a chain joins no runs")


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


def _beside_endings(shape: Shape, gaps: Gaps, prev: dict[int, Leaves]) -> set[int]:
    """The claims with PREV on what a `->` that compares waits for: it finds no runs by key, so they are tested."""
    waits: Leaves = frozenset().union(*(shape.sides(k)[1] for k in gaps.compared if shape.absences[k].is_next))
    return {number for number, leaves in prev.items() if leaves & waits}


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
        self.gaps = Gaps()
        self.endings: dict[Transition, None] = {}
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

    def compile(self, gaps: Gaps, carrying: Carrying | None = None) -> Correlated:
        """The automaton, with what runs carry."""
        self.gaps = gaps
        if carrying is None:
            self.unlike = self.different
        elif any(carrying.live) or any(way.every_test for way in carrying.ways.values()) or carrying.endings:
            self.carrying = carrying
            self.reads = sum(term.use is not Use.NUMBER for term in carrying.terms)
            for term in carrying.terms:
                if term.use is Use.NUMBER:
                    self._term(term.what)  # type: ignore[arg-type]
            for one, other in carrying.compares:
                self.compares[self._number(carrying, one), self._number(carrying, other)] = None
        watched = [self._watched(number) for number in range(len(self.shape.absences))]
        told = carrying.listed if carrying is not None else ()
        around = [claim.node for claim in (*told, *self.shape.denials)] + [gap.node for gap in self.shape.gaps]
        nodes = self.shape.nodes
        around += [nodes[gap.node].items[0] for gap in self.shape.gaps if nodes[gap.node].kind is Kind.REPEAT]
        self.loops = frozenset(loop for node in around for loop in self.shape.above(node)[1:])
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
            looked_up=tuple(c for c in self.shape.claims if c.number in self.partly),
            states=len(self.parallel.last),
            final=self.parallel.final,
            carrying=self.carrying,
            absences=tuple(w for w in watched if w.number not in gaps.numbers),
            denials=tuple(claim for claim in self.shape.denials if claim.absence not in gaps.numbers),
            ends=tuple(w for w in watched if w.number in gaps.plain),
            endings=tuple(self.endings),
        )

    @cached_property
    def _known_at(self) -> dict[int, list[int]]:
        """Of each leaf: the equalities that speak of it."""
        found: defaultdict[int, list[int]] = defaultdict(list)
        for number, equality in enumerate(self.known):
            for leaf in equality.terms:
                found[leaf].append(number)
        return found

    def _watched(self, number: int) -> Watched:
        mask = 0
        for atom in absent_atoms(self.shape.absences[number]):
            mask |= 1 << self._guard(atom)
        return Watched(number, mask)

    def _number(self, carrying: Carrying, term: int) -> int:
        return self._term(carrying.terms[term].what) - self.reads  # type: ignore[arg-type]

    def _transition(self, step: Step) -> None:
        prev = [(number, test) for number, leaves, test in self.prev if step.leaves & leaves]
        asked = [test.predicate for _, test in prev if isinstance(test.predicate, t.Comparison)]
        if not step.sources and any(not skips_null(predicate) for predicate in asked):
            return  # PREV is NULL at the first event
        guard = 0
        for leaf in sorted(step.leaves):
            here = self.shape.leaf[leaf]
            guard |= 1 << self._guard(Atom(here.type, here.stream, frozenset(), tuple(here.predicates)))
        needs: dict[int, None] = {}
        for number in sorted({k for leaf in step.leaves for k in self._known_at[leaf]}):
            equality = self.known[number]
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
                endings = self.carrying.endings.get((step, state), ())
                both = _hashed_by_all(way, endings)
                way = replace(way, hashed=both, tests=way.tests + _as_tests(way.hashed, both))
                carried = [self._carried(step, state, way, prev, endings)] if step.sources else []
                self.transitions[Transition(guard, tuple(needs), tuple(carried), mark, step.target, (), way)] = None
                for ending in endings:
                    self._ending(ending, way, carried[0])
            return
        way = self.carrying.ways[step, step.sources[0].states[0]] if self.carrying is not None else Way()
        for links in self._links(step, prev):
            self.transitions[Transition(guard, tuple(needs), links, mark, step.target, (), way)] = None

    def _ending(self, ending: Ending, way: Way, link: Link) -> None:
        """What the forbidden events of an absence find under the link of a step, and test."""
        assert self.carrying is not None
        terms = dict(ending.hashed)
        key = [self._term(self.carrying.terms[terms[register]].what) for register, _ in way.hashed]  # type: ignore[arg-type]
        tests = ending.tests + _as_tests(ending.hashed, way.hashed)
        moves: tuple[Move, ...] = ()
        if ending.move is not None:
            own = ending.move
            moves = tuple(own if r == own.register else Move(r, True) for r in self.rows[link.where].registers)
        found = Way(tuple((register, terms[register]) for register, _ in way.hashed), tests, moves)
        for atom in absent_atoms(self.shape.absences[ending.absence]):
            guard = 1 << self._guard(atom)
            self.endings[Transition(guard, (), (Link(link.where, tuple(key)),), 0, 0, (), found)] = None

    def _carried(
        self, step: Step, state: int, way: Way, prev: list[tuple[int, Test]], endings: tuple[Ending, ...]
    ) -> Link:
        """The link of a step to the runs of one state that carry something."""
        assert self.carrying is not None
        # what forbidden events are compared with must not stand in the key, which they need not have
        before, now = ((), ()) if endings else self._compared(step, state, prev)[:2]
        hashed = tuple(register for register, _ in way.hashed)
        asked = {s.number for test in way.tests for s in test.sources if s.kind == CARRIED}
        asked.update(way.cases)
        for move in way.moves:
            asked |= {move.register} if move.kept else set()
            asked |= {source.number for source in move.sources if source.kind == CARRIED}
        asked = asked.union(*(ending.asked for ending in endings))
        rest = tuple(sorted(asked - set(hashed)))
        sure = self.carrying.sure[state].issuperset(rest)
        ends = self._crossed(step, state)
        able = sure and not (asked.intersection(hashed) or step.sources[0].tight) and self.carrying.is_own(state, rest)
        # runs in order stay where they are, for those that have found them: they cannot end
        order = order_of(self.carrying, way, rest) if able and not (ends or endings) else 0
        key = ({state: (before, ())}, step.sources[0].tight, hashed + rest, len(hashed), order, ends)
        known = (state, before, *key[1:], frozenset(ending.absence for ending in endings))
        if known not in self.indexes:
            self.indexes[known] = len(self.rows)
            self.rows.append(Index(*key))
        own = tuple(self._term(self.carrying.terms[term].what) for _, term in way.hashed)  # type: ignore[arg-type]
        return Link(self.indexes[known], now + own)

    def _links(self, step: Step, prev: list[tuple[int, Test]]) -> list[tuple[Link, ...]]:
        """The sources of a step as links; several where the states of a source are looked up by different values."""
        ways: list[tuple[Link, ...]] = [()]
        for source in step.sources:
            by_key: dict[tuple[tuple[int, ...], ...], dict[int, tuple[tuple[int, ...], tuple[int, ...]]]] = {}
            for state in source.states:
                before, now, unlike_before, unlike_now = self._compared(
                    step, state, prev if len(step.sources) == 1 else []
                )
                ends = self._crossed(step, state)
                by_key.setdefault((now, unlike_now, ends), {})[state] = (before, unlike_before)
            found = [
                Link(self._index(feeders, source, ends), key, unlike) for (key, unlike, ends), feeders in by_key.items()
            ]
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

    def _crossed(self, step: Step, state: int) -> tuple[int, ...]:
        """The absences that end all runs in a state that wait for a step."""
        return crossed(self.shape, self.gaps.plain, self.parallel.last[state], step)

    def _index(
        self, feeders: dict[int, tuple[tuple[int, ...], tuple[int, ...]]], source: Source, ends: tuple[int, ...]
    ) -> int:
        key = (tuple(sorted(feeders.items())), source.tight, ends)
        if key not in self.indexes:
            self.indexes[key] = len(self.indexes)
            self.rows.append(Index(feeders, source.tight, ends=ends))
        return self.indexes[key]

    def _guard(self, atom: Atom) -> int:
        return self.guards.setdefault(atom, len(self.guards))

    def _term(self, expression: t.Expression) -> int:
        return self.reads + self.terms.setdefault(expression, len(self.terms))


def _hashed_by_all(way: Way, endings: tuple[Ending, ...]) -> tuple[tuple[int, int], ...]:
    """What a step finds by hash, as far as the forbidden events that end its runs can find it so, too."""
    return tuple(pair for pair in way.hashed if all(pair[0] in dict(ending.hashed) for ending in endings))


def _as_tests(pairs: tuple[tuple[int, int], ...], hashed: tuple[tuple[int, int], ...]) -> tuple[Evaluation, ...]:
    """Equalities of registers and terms that are not found by hash."""
    found = {register for register, _ in hashed}
    return tuple(
        Evaluation(-1, (From(CARRIED, register), From(EVENT, term)), ())
        for register, term in pairs
        if register not in found
    )
