"""From a formula under AFTER MATCH to its automata: the ordered one, and what its runs carry.

`ordered.py` says what a run may read next. If conditions compare events, `carrying.py` works out registers for it as
for the loop over groups: a wait is a state and an index, and there is a transition for each way to read an event at a
leaf and be in a wait after it. So an event is tested, and the registers of a run are filled, as in that loop. Only
looking up by key is left out: the runs of a substream are a list, which is gone through in order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from ceql.analysis.between import conditions
from ceql.analysis.equalities import Equality, equalities
from ceql.analysis.normal import Atom, Compared, absent_atoms, to_normal
from ceql.analysis.shape import Claim, Leaves, Same, Shape
from ceql.automata.carrying import carry
from ceql.automata.correlated import NOTHING_COMPARED, Correlated, Index, Link, Mark, Transition
from ceql.automata.endings import gaps_of
from ceql.automata.ordered import ACCEPT, Ordered, compile_ordered
from ceql.automata.parallel import Parallel, Source, Step
from ceql.automata.registers import CARRIED, EVENT, Carrying, Evaluation, Move, Way
from ceql.automata.registers import Source as From
from ceql.automata.uses import Use
from ceql.syntax import tree as t


class Preferring(NamedTuple):
    """The automata of a formula, and the claims that runs cannot decide."""

    ordered: Ordered
    comparing: Correlated
    """What runs carry and what is asked of them. Its indexes are the waits, and its transitions those of `ways`, in
    this order."""
    left: tuple[Claim, ...]


def ways(ordered: Ordered) -> Iterator[tuple[int, int, int]]:
    """Each wait (-1: a run begins) with a leaf that it may read at and what follows (a wait, or ACCEPT), in order."""
    for wait, own in enumerate(ordered.waits):
        for leaf in own.leaves:
            yield from ((wait, leaf, target) for target in ordered.leaves[leaf].after)
    for leaf in ordered.initial:
        yield from ((-1, leaf, target) for target in ordered.leaves[leaf].after)


def prefer(shape: Shape, guards: Sequence[Atom]) -> Preferring:
    """The automata of a shape whose claims on single events stand at its leaves; these guards come first."""
    known = equalities(replace(shape, claims=tuple(c for c in shape.claims if isinstance(c.what, Same))))
    shape = _with_values(shape, known)
    ordered = compile_ordered(to_normal(shape, compared=Compared.TOLD_APART), guards)
    steps, parallel = _parallel(ordered)
    same = {number for equality in known for number in equality.claims}
    asked = conditions(shape, [claim for claim in shape.claims if claim.number not in same])
    gaps = gaps_of(shape, _after_prev(shape))
    carrying, ended = carry(shape, parallel, asked, known, gaps, keyed=False)
    assert carrying is not None, "an ordered automaton joins no runs"
    left = [claim for claim in shape.denials if claim.absence not in ended.numbers]
    if left:
        return Preferring(ordered, NOTHING_COMPARED, tuple(left))
    return Preferring(ordered, _comparing(shape, ordered, steps, parallel, carrying), ())


def _with_values(shape: Shape, known: Iterable[Equality]) -> Shape:
    """The shape with guards for what each event of an equality must have by itself: one value, which is neither NULL
    nor NaN."""
    leaf = dict(shape.leaf)
    for equality in known:
        for place, values in equality.terms.items():
            if place < 0:
                continue
            asked: list[t.Predicate] = [t.Comparison("=", values[0], other) for other in (*values[1:], values[0])]
            leaf[place] = replace(leaf[place], predicates=(*leaf[place].predicates, *asked))
    return replace(shape, leaf=leaf)


def _after_prev(shape: Shape) -> Leaves:
    """The leaves at which a claim looks at PREV."""
    tests = [test for claim in shape.claims for test in claim.tests if test.has_prev and test.owner is not None]
    return frozenset[int]().union(*(test.variables[test.owner].leaves for test in tests))  # type: ignore[index]


def _parallel(ordered: Ordered) -> tuple[list[tuple[Step, int]], Parallel]:
    """The ordered automaton as states and steps: each wait is a state, and each leaf has one more for a match that ends
    there. Of each of the `ways` the step and its source."""
    last = [frozenset([wait.last]) for wait in ordered.waits]
    ends: dict[int, int] = {}
    found: list[tuple[Step, int]] = []
    for wait, leaf, target in ways(ordered):
        place = ordered.leaves[leaf].place
        if target == ACCEPT:
            target = ends.setdefault(place, len(last))
            last += [frozenset([place])] if target == len(last) else []
        sources = (Source((wait,), ordered.waits[wait].tight),) if wait >= 0 else ()
        loops = ordered.waits[wait].loops if wait >= 0 else frozenset()
        found.append((Step(sources, frozenset([place]), loops, target), wait))
    steps = tuple(dict.fromkeys(step for step, _ in found))
    return found, Parallel(tuple(last), steps, tuple(ends.values()), (), ())


def _comparing(
    shape: Shape, ordered: Ordered, steps: list[tuple[Step, int]], parallel: Parallel, carrying: Carrying
) -> Correlated:
    """The same with what is tested and carried, as the loop over groups has it."""
    terms: dict[t.Expression, int] = {}
    for term in carrying.terms:
        if term.use is Use.NUMBER:
            terms.setdefault(term.what, len(terms))  # type: ignore[arg-type]
    compared = {
        tuple(terms[carrying.terms[k].what] for k in pair): None  # type: ignore[index]
        for pair in carrying.compares
    }
    rounds = frozenset(node for claim in carrying.listed for node in shape.above(claim.node)[1:])
    marks = {step: Mark(step.leaves, step.loops & rounds) for step, _ in steps}
    numbers = {mark: k for k, mark in enumerate(dict.fromkeys(marks.values()))}
    transitions = [
        Transition(0, (), (Link(wait, ()),) if wait >= 0 else (), numbers[marks[step]], step.target, (), _tested(way))
        for step, wait, way in ((step, wait, carrying.ways[step, wait]) for step, wait in steps)
    ]
    indexes = tuple(Index({wait: ((), ())}, own.tight, carrying.live[wait]) for wait, own in enumerate(ordered.waits))
    endings: dict[Transition, None] = {}
    for step, wait in steps:
        for ending in carrying.endings.get((step, wait), ()):
            tests = ending.tests + _as_tests(ending.hashed)
            moves: tuple[Move, ...] = ()
            if ending.move is not None:
                own = ending.move
                moves = tuple(own if r == own.register else Move(r, True) for r in carrying.live[wait])
            for atom in absent_atoms(shape.absences[ending.absence]):
                guard = 1 << ordered.guards.index(atom)
                endings[Transition(guard, (), (Link(wait, ()),), 0, wait, (), Way((), tests, moves))] = None
    return Correlated(
        shape=shape,
        parallel=parallel,
        guards=ordered.guards,
        terms=tuple(terms),
        compares=tuple(compared),  # type: ignore[arg-type]
        marks=tuple(numbers),
        transitions=tuple(transitions),
        indexes=indexes,
        looked_up=(),
        states=len(parallel.last),
        final=parallel.final,
        carrying=carrying,
        endings=tuple(sorted(endings, key=lambda ending: ending.links[0].where)),
    )


def _tested(way: Way) -> Way:
    """A way that tests the equalities that it would look up."""
    return replace(way, hashed=(), tests=_as_tests(way.hashed) + way.tests)


def _as_tests(hashed: Iterable[tuple[int, int]]) -> tuple[Evaluation, ...]:
    return tuple(Evaluation(-1, (From(CARRIED, register), From(EVENT, term)), ()) for register, term in hashed)
