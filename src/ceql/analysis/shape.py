"""The one form of a formula that both loops start from: operators over leaves, and numbered claims on their events.

A `Leaf` is a place in the formula that reads an event. A `Claim` is a condition of a FILTER or a PARTITION BY operator;
it belongs to the node that it filters. Each variable of a claim has a *scope*, the node that binds it: the
filtered node itself, or the nearest enclosing one that binds it (docs/reference.md, section 3). All scopes lie on the
way from the node to the root. A node inside an iteration has an *instance* for each time round.

`resolve.py` makes shapes. Unary queries go on to LP-normal form (`normal.py`), correlated ones to automata that
compare events.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property

from ceql.analysis.conditions import leaves as attributes_of
from ceql.analysis.conditions import of_one_event, variables_of
from ceql.errors import Span
from ceql.syntax import tree as t

Leaves = frozenset[int]


class Kind(Enum):
    LEAF = "leaf"
    SEQUENCE = "sequence"
    REPEAT = "repeat"
    CHOICE = "choice"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class Node:
    """An operator or a leaf. `contiguous` is as in `tree.Then`, or one flag of a repetition."""

    kind: Kind
    items: tuple[int, ...] = ()
    contiguous: tuple[bool, ...] = ()
    parent: int = -1


@dataclass(frozen=True, slots=True)
class Leaf:
    """A place in the formula that reads one event, which must satisfy the predicates."""

    type: str
    stream: str | None
    variables: frozenset[str]
    predicates: tuple[t.Predicate, ...] = ()


@dataclass(frozen=True, slots=True)
class Comparand:
    """A variable of a claim: the node that binds it (-1: not known yet), and the leaves whose events it names there."""

    scope: int = -1
    leaves: Leaves = frozenset()


@dataclass(frozen=True, slots=True)
class Test:
    """A predicate that all combinations of its variables' events must satisfy. Attributes are `Ref`s, or `Prev`.

    It holds where a variable is bound to nothing: there is no combination then.
    """

    predicate: t.Predicate
    variables: Mapping[str, Comparand]
    owner: str | None = None  # the variable whose events PREV precedes

    @property
    def has_prev(self) -> bool:
        return any(isinstance(leaf, t.Prev) for leaf in attributes_of(self.predicate))

    @property
    def is_unary(self) -> bool:
        """Whether the test looks at one event at a time."""
        return len(self.variables) <= 1 and not self.has_prev


@dataclass(frozen=True, slots=True)
class Same:
    """One part of the PARTITION BY operator: these values are all the same, and none is NULL."""

    terms: Mapping[int, tuple[t.Expression, ...]]  # of each leaf


@dataclass(frozen=True, slots=True)
class Either:
    """Any of the cases; each is tests that hold together."""

    cases: tuple[tuple[Test, ...], ...]


@dataclass(frozen=True, slots=True)
class Claim:
    """What is asked of the events of each instance of `node`."""

    number: int
    node: int
    what: Test | Same | Either
    text: str
    span: Span | None

    @property
    def tests(self) -> list[Test]:
        match self.what:
            case Test():
                return [self.what]
            case Either(cases):
                return [test for case in cases for test in case]
            case Same():
                return []


@dataclass(frozen=True, eq=False)
class Shape:
    """Nodes by number, children before parents; `root` is the whole formula."""

    nodes: tuple[Node, ...]
    leaf: Mapping[int, Leaf]
    claims: tuple[Claim, ...]
    root: int

    @cached_property
    def _below(self) -> tuple[Leaves, ...]:
        found: list[Leaves] = []
        for number, node in enumerate(self.nodes):
            own = frozenset([number]) if node.kind is Kind.LEAF else frozenset[int]()
            found.append(own.union(*(found[item] for item in node.items)))
        return tuple(found)

    def below(self, node: int) -> Leaves:
        """The leaves of a node."""
        return self._below[node]

    def above(self, node: int) -> list[int]:
        """The nodes that a node is part of, itself included, inside first."""
        found = [node]
        while (node := self.nodes[node].parent) >= 0:
            found.append(node)
        return found

    def surely(self, node: int, leaves: Leaves) -> bool:
        """Whether every match of the node reads an event at one of the leaves."""
        here = self.nodes[node]
        match here.kind:
            case Kind.LEAF:
                return node in leaves
            case Kind.CHOICE:
                return all(self.surely(item, leaves) for item in here.items)
            case _:
                return any(self.surely(item, leaves) for item in here.items)

    def claim(self, number: int) -> Claim:
        """The claim of a number."""
        return next(claim for claim in self.claims if claim.number == number)

    def without(self, dropped: Collection[int]) -> Shape:
        """The shape without the claims of these numbers."""
        return replace(self, claims=tuple(claim for claim in self.claims if claim.number not in dropped))

    def at_leaves(self) -> Shape:
        """The shape with each claim on single events at the leaves, if every match uses the claim."""
        predicates = {number: list(leaf.predicates) for number, leaf in self.leaf.items()}
        left: list[Claim] = []
        for claim in self.claims:
            leaves = self._sure_leaves(claim)
            if leaves is None:
                left.append(claim)
                continue
            assert isinstance(claim.what, Test)
            for leaf in leaves:
                predicates[leaf].append(of_one_event(claim.what.predicate))
        placed = {k: replace(leaf, predicates=tuple(predicates[k])) for k, leaf in self.leaf.items()}
        return replace(self, leaf=placed, claims=tuple(left))

    def _sure_leaves(self, claim: Claim) -> Leaves | None:
        """The leaves that a claim can stand at."""
        if not isinstance(claim.what, Test) or not claim.what.is_unary:
            return None
        for comparand in claim.what.variables.values():
            return comparand.leaves if self.surely(comparand.scope, self.below(claim.node)) else None
        return self.below(claim.node)  # a constant: the same for every event


def join_of(test: Test) -> tuple[str, t.Expression, str, t.Expression] | None:
    """`x`, its side, `y`, its side, of a test that is an equality between two variables."""
    p = test.predicate
    if not isinstance(p, t.Comparison) or p.op != "=" or test.has_prev:
        return None
    left, right = variables_of(p.left), variables_of(p.right)
    if len(left) != 1 or len(right) != 1 or left == right:
        return None
    return left.pop(), of_one_event(p.left), right.pop(), of_one_event(p.right)


def prev_of(test: Test) -> tuple[str, t.Expression, t.Expression] | None:
    """The operator (= or !=), PREV's side and the event's own side, of a test that compares the two."""
    p = test.predicate
    if not isinstance(p, t.Comparison) or p.op not in ("=", "!=") or len(test.variables) != 1:
        return None
    for before, own in ((p.left, p.right), (p.right, p.left)):
        kinds = {type(leaf) for leaf in attributes_of(before)}, {type(leaf) for leaf in attributes_of(own)}
        if kinds == ({t.Prev}, {t.Ref}):
            return p.op, of_one_event(before), of_one_event(own)
    return None
