"""Claims as equalities between events, which is what an index can look up.

A PARTITION BY operator, or `FILTER x.a = y.b` where both variables are surely bound, says that a value is the same
for all its events in an instance of its scope. Equality is transitive, so claims of one scope that share a
value are one equality. Which of them an automaton's steps settle is up to `automata.lookups`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ceql.analysis.shape import Claim, Same, Shape, Test, join_of
from ceql.syntax import tree as t


@dataclass(frozen=True, eq=False)
class Equality:
    """One value, which is not NULL, at all leaves of `terms`, in each instance of `scope`."""

    scope: int
    terms: Mapping[int, tuple[t.Expression, ...]]
    claims: tuple[int, ...]
    """The numbers of the claims that say so."""


def equalities(shape: Shape) -> list[Equality]:
    """What the claims of a shape say to be equal."""
    found: list[Equality] = []
    for claim in shape.claims:
        match claim.what:
            case Same(terms):
                found.append(Equality(claim.node, terms, (claim.number,)))
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
    return Equality(scope, terms, (claim.number,))


def _merged(shape: Shape, found: list[Equality]) -> list[Equality]:
    """Those of one scope that share a value in every match are one: x.a = y.a and y.a = z.a."""
    merged: list[Equality] = []
    for equality in found:
        while True:
            here = equality.terms
            near = (e for e in merged if e.scope == equality.scope and not e.terms.keys().isdisjoint(here))
            other = next((e for e in near if _share(shape, e, equality)), None)
            if other is None:
                break
            merged.remove(other)
            terms = dict(other.terms)
            for leaf, own in equality.terms.items():
                terms[leaf] = tuple(dict.fromkeys((*terms.get(leaf, ()), *own)))
            equality = Equality(equality.scope, terms, other.claims + equality.claims)
        merged.append(equality)
    return [Equality(e.scope, dict(sorted(e.terms.items())), e.claims) for e in merged]


def _share(shape: Shape, a: Equality, b: Equality) -> bool:
    both = a.terms.keys() & b.terms.keys()
    return shape.surely(a.scope, frozenset(leaf for leaf in both if set(a.terms[leaf]) & set(b.terms[leaf])))
