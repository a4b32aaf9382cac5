"""Claims as equalities between events: what an index can look up, and whether that settles the claim.

A PARTITION BY operator, or `FILTER x.a = y.b` where both variables are surely bound, says that a value is the same
for all its events in an instance of its scope. Where two such events follow each other in a run, the step between
them compares them; equality being transitive, that is all there is to do if no other event can stand between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ceql.analysis.shape import Claim, Leaves, Same, Shape, Test, join_of
from ceql.syntax import tree as t

if TYPE_CHECKING:
    from ceql.automata.parallel import Parallel, Source, Step

Terms = dict[int, tuple[t.Expression, ...]]


@dataclass(frozen=True, eq=False)
class Equality:
    """One value, which is not NULL, at all leaves of `terms`, in each instance of `scope`."""

    scope: int
    terms: Terms
    claims: tuple[Claim, ...]


def equalities(shape: Shape) -> list[Equality]:
    """What the claims of a shape say to be equal."""
    found: list[Equality] = []
    for claim in shape.claims:
        match claim.what:
            case Same(terms):
                found.append(Equality(claim.node, terms, (claim,)))
            case Test() as test:
                equality = _join(shape, claim, test)
                if equality is not None:
                    found.append(equality)
    return _merged(shape, found)


def _join(shape: Shape, claim: Claim, test: Test) -> Equality | None:
    join = join_of(test)
    if join is None:
        return None
    x, left, y, right = join
    one, two = test.variables[x], test.variables[y]
    ways = shape.above(claim.node)
    inner, scope = sorted((one.scope, two.scope), key=ways.index)
    if inner != claim.node and not shape.surely(inner, shape.below(claim.node)):
        return None  # the filter may not be used at all
    if not (shape.surely(scope, one.leaves) and shape.surely(scope, two.leaves)):
        return None  # were one of them empty, nothing would be said of the other
    terms: dict[int, tuple[t.Expression, ...]] = {}
    for leaves, side in ((one.leaves, left), (two.leaves, right)):
        for leaf in sorted(leaves):
            terms[leaf] = tuple(dict.fromkeys((*terms.get(leaf, ()), side)))
    return Equality(scope, terms, (claim,))


def _merged(shape: Shape, found: list[Equality]) -> list[Equality]:
    """Those of one scope that share a value in every match are one: x.a = y.a and y.a = z.a."""
    merged: list[Equality] = []
    for equality in found:
        while True:
            other = next((e for e in merged if e.scope == equality.scope and _share(shape, e, equality)), None)
            if other is None:
                break
            merged.remove(other)
            terms = {
                leaf: tuple(dict.fromkeys((*other.terms.get(leaf, ()), *equality.terms.get(leaf, ()))))
                for leaf in sorted(other.terms.keys() | equality.terms.keys())
            }
            equality = Equality(equality.scope, terms, other.claims + equality.claims)
        merged.append(equality)
    return merged


def _share(shape: Shape, a: Equality, b: Equality) -> bool:
    both = a.terms.keys() & b.terms.keys()
    return shape.surely(a.scope, frozenset(leaf for leaf in both if set(a.terms[leaf]) & set(b.terms[leaf])))


def same_instance(shape: Shape, scope: int, step: Step) -> bool:
    """Whether a step stays in the instance of `scope` that its sources were in."""
    return not step.loops.intersection(shape.above(scope)[1:])


def compared(shape: Shape, equality: Equality, last: Leaves, step: Step) -> tuple[t.Expression, t.Expression] | None:
    """The values of the event before and of this one that a step compares for an equality."""
    before = sorted(last & equality.terms.keys())
    now = sorted(step.leaves & equality.terms.keys())
    if not before or not now or not same_instance(shape, equality.scope, step):
        return None
    return equality.terms[before[0]][0], equality.terms[now[0]][0]


def is_settled(shape: Shape, auto: Parallel, equality: Equality) -> bool:
    """Whether the steps' comparisons alone make sure of an equality.

    A run is followed by what is known of its events that the equality speaks of: there are none; all have the value of
    the last event; or the last event is another, so that their value is out of reach.
    """
    none, at_hand, lost = 0, 1, 2
    known: list[set[int]] = [set() for _ in auto.last]
    grows = True

    def of(source: Source, step: Step) -> set[int]:
        if not same_instance(shape, equality.scope, step):
            return {none}
        return set().union(*(known[state] for state in source.states))

    while grows:
        grows = False
        for step in auto.steps:
            values = [of(source, step) for source in step.sources]
            if not all(values):
                continue  # not reached yet
            if step.leaves & equality.terms.keys():
                if any(lost in value for value in values):
                    return False
                result = {at_hand}
            else:
                if sum(1 for value in values if value != {none}) > 1:
                    return False
                result = {none} if all(none in value for value in values) else set()
                if any(value & {at_hand, lost} for value in values):
                    result.add(lost)
            if not result <= known[step.target]:
                known[step.target] |= result
                grows = True
    return True


def settled(shape: Shape, auto: Parallel, found: Sequence[Equality]) -> list[Equality]:
    """Those that need no check of the finished matches."""
    return [equality for equality in found if is_settled(shape, auto, equality)]
