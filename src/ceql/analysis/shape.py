"""The one form of a formula that both loops start from: operators over leaves, and numbered claims on their events.

A `Leaf` is a place in the formula that reads an event. A `Claim` is a condition of a FILTER or a PARTITION BY operator;
it belongs to the node that it filters. Each variable of a claim has a *scope*, the node that binds it: the
filtered node itself, or the nearest enclosing one that binds it (docs/reference.md, section 3). All scopes lie on the
way from the node to the root. A node inside an iteration has an *instance* for each time round.

`resolve.py` makes shapes. Unary queries go on to LP-normal form (`normal.py`), correlated ones to automata that
compare events.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from typing import NamedTuple

from ceql.analysis.conditions import is_measured, of_one_event, read_singly, skips_null, variables_of
from ceql.errors import Span
from ceql.syntax import tree as t
from ceql.syntax.walking import leaves as attributes_of

Leaves = frozenset[int]


class Kind(Enum):
    LEAF = "leaf"
    SEQUENCE = "sequence"
    REPEAT = "repeat"
    CHOICE = "choice"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class Node:
    """An operator or a leaf. `joints` are those of `tree.Then`, or the one of a repetition.

    A repetition has from `least` to `most` rounds (None: any number of them).
    A sequence with NOT has in `absent` the numbers of the absences before its first item, after it, and so on.
    With `->`, `instead` has for each item those of what could have begun it, if all joints before it are `->`.
    """

    kind: Kind
    items: tuple[int, ...] = ()
    joints: tuple[t.Joint, ...] = ()
    parent: int = -1
    least: int = 1
    most: int | None = None
    absent: tuple[tuple[int, ...], ...] = ()
    instead: tuple[tuple[int, ...], ...] = ()
    reluctant: bool = False

    @property
    def contiguous(self) -> tuple[bool, ...]:
        """Which joints are `:`."""
        return tuple(joint is t.Joint.TOUCH for joint in self.joints)

    def kept_away(self, before: int, item: int) -> tuple[int, ...]:
        """The absences between two items of a sequence, when those between them are missing."""
        found = [number for gap in self.absent[before + 1 : item + 1] for number in gap]
        if self.instead and all(joint is t.Joint.NEXT for joint in self.joints[before:item]):
            found += self.instead[item]
        return tuple(found)


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

    It holds where a variable is bound to nothing: there is no combination then. Variables that are in aggregates alone
    take no part in combinations; an aggregate is over all events of its variable.
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
        return len(self.variables) <= 1 and not self.has_prev and not self.is_measured

    @property
    def is_measured(self) -> bool:
        """Whether the test asks for an aggregate, or for a time of the match."""
        return is_measured(self.predicate)

    @property
    def combined(self) -> dict[str, Comparand]:
        """The variables whose events are combined."""
        if not self.is_measured:
            return dict(self.variables)
        singly = {leaf.variable for leaf in read_singly(self.predicate) if isinstance(leaf, t.Ref)}
        return {name: comparand for name, comparand in self.variables.items() if name in singly}


@dataclass(frozen=True, slots=True)
class Same:
    """One part of the PARTITION BY operator: these values are all the same, and none is NULL."""

    terms: Mapping[int, tuple[t.Expression, ...]]  # of each leaf


@dataclass(frozen=True, slots=True)
class Either:
    """Any of the cases; each is tests that hold together."""

    cases: tuple[tuple[Test, ...], ...]


@dataclass(frozen=True, slots=True)
class Length:
    """The first and the last event are no further apart than the window says."""

    window: t.Window


@dataclass(frozen=True, slots=True)
class Claim:
    """What is asked of the events of each instance of `node`."""

    number: int
    node: int
    what: Test | Same | Either | Length
    text: str
    span: Span | None
    absence: int = -1  # of a denial

    @property
    def tests(self) -> list[Test]:
        match self.what:
            case Test():
                return [self.what]
            case Either(cases):
                return [test for case in cases for test in case]
            case Same() | Length():
                return []


@dataclass(frozen=True, slots=True)
class Absence:
    """A NOT: no event of one of these types (each with its stream, or None) that satisfies the predicates.

    Further conditions on the event, which compare it with others, are the shape's `denials`. With `is_next` it is what
    a `->` keeps away; then its conditions speak only of what stands to the left.
    """

    kinds: tuple[tuple[str, str | None], ...]
    names: frozenset[str]
    """What conditions call the event."""
    predicates: tuple[t.Predicate, ...] = ()
    text: str = ""
    span: Span | None = None
    is_next: bool = False


class Gap(NamedTuple):
    """Where an absence is asked for: before item `item` of a sequence (after the last one, if it is their number), or
    before a further round of a repetition."""

    node: int
    item: int


@dataclass(frozen=True, eq=False)
class Shape:
    """Nodes by number, children before parents; `root` is the whole formula."""

    nodes: tuple[Node, ...]
    leaf: Mapping[int, Leaf]
    claims: tuple[Claim, ...]
    root: int
    absences: tuple[Absence, ...] = ()
    denials: tuple[Claim, ...] = ()
    """The conditions that compare an absent event with events of the match. In a `Test`, the absent event is not among
    the variables; in a `Same`, its terms are those of leaf -1."""

    @cached_property
    def gaps(self) -> tuple[Gap, ...]:
        """The place of each absence."""
        found: dict[int, Gap] = {}
        for number, node in enumerate(self.nodes):
            for gaps in (node.absent, node.instead):
                for item, absent in enumerate(gaps):
                    found.update(dict.fromkeys(absent, Gap(number, item)))
        return tuple(found[k] for k in range(len(self.absences)))

    def leads(self, absence: int) -> bool:
        """Whether the absence is asked for before the match."""
        return self.gaps[absence].item == 0 and not self.absences[absence].is_next

    def trails(self, absence: int) -> bool:
        """Whether the absence is asked for after the match."""
        gap = self.gaps[absence]
        return not self.absences[absence].is_next and gap.item == len(self.nodes[gap.node].items)

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

    @cached_property
    def _nullable(self) -> tuple[bool, ...]:
        found: list[bool] = []
        for node in self.nodes:
            items = [found[item] for item in node.items]
            match node.kind:
                case Kind.LEAF:
                    found.append(False)
                case Kind.REPEAT:
                    found.append(node.least == 0 or items[0])
                case Kind.CHOICE:
                    found.append(any(items))
                case _:
                    found.append(all(items))
        return tuple(found)

    def nullable(self, node: int) -> bool:
        """Whether a node may be left out: it has an empty match."""
        return self._nullable[node]

    def may_be_one(self, leaves: Leaves) -> bool:
        """Whether one event can be read at all of these leaves."""
        kinds = {self.leaf[leaf].type for leaf in leaves}
        streams = {self.leaf[leaf].stream for leaf in leaves} - {None}
        return len(kinds) <= 1 and len(streams) <= 1

    def goes_round(self, node: int) -> bool:
        """Whether a node may have several rounds."""
        return self.nodes[node].kind is Kind.REPEAT and self.nodes[node].most != 1

    def above(self, node: int) -> list[int]:
        """The nodes that a node is part of, itself included, inside first."""
        found = [node]
        while (node := self.nodes[node].parent) >= 0:
            found.append(node)
        return found

    def surely(self, node: int, leaves: Leaves) -> bool:
        """Whether every match of the node that has events reads one at one of the leaves.

        Goes up from the leaves, since a formula may have very many items and claims.
        """
        if self.below(node) <= leaves:
            return True
        todo = list(leaves & self.below(node))  # nodes that surely do
        seen = set(todo)
        count: Counter[int] = Counter()  # of the items of a node that surely do
        while todo:
            item = todo.pop()
            parent = self.nodes[item].parent
            count[parent] += 1
            here = self.nodes[parent]
            if here.kind in (Kind.CHOICE, Kind.REPEAT):
                surely = count[parent] == len(here.items)
            else:
                surely = not self.nullable(item) or self.below(parent) <= leaves
            if surely and parent == node:
                return True
            if surely and parent not in seen:
                seen.add(parent)
                todo.append(parent)
        return False

    def sides(self, absence: int) -> tuple[Leaves, Leaves]:
        """The leaves before an absence and after it, in the sequence that it stands in."""
        node, item = self.gaps[absence]
        items = self.nodes[node].items
        none: Leaves = frozenset()
        return none.union(*map(self.below, items[:item])), none.union(*map(self.below, items[item:]))

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
            leaves = self.sure_leaves(claim)
            if leaves is None:
                left.append(claim)
                continue
            assert isinstance(claim.what, Test)
            for leaf in leaves:
                predicates[leaf].append(of_one_event(claim.what.predicate))
        placed = {k: replace(leaf, predicates=tuple(predicates[k])) for k, leaf in self.leaf.items()}
        return replace(self, leaf=placed, claims=tuple(left))

    def sure_leaves(self, claim: Claim) -> Leaves | None:
        """The leaves that a claim can stand at."""
        if not isinstance(claim.what, Test) or not claim.what.is_unary:
            return None
        for comparand in claim.what.variables.values():
            own = comparand.scope == claim.node
            return comparand.leaves if own or self.surely(comparand.scope, self.below(claim.node)) else None
        return self.below(claim.node)  # a constant: the same for every event


def join_of(test: Test) -> tuple[str, t.Expression, str, t.Expression] | None:
    """`x`, its side, `y`, its side, of a test that is an equality between two variables."""
    p = test.predicate
    if not isinstance(p, t.Comparison) or p.op != "=" or test.has_prev or test.is_measured:
        return None
    left, right = variables_of(p.left), variables_of(p.right)
    if len(left) != 1 or len(right) != 1 or left == right:
        return None
    return left.pop(), of_one_event(p.left), right.pop(), of_one_event(p.right)


def prev_of(test: Test) -> tuple[str, t.Expression, t.Expression] | None:
    """The operator (= or !=), PREV's side and the event's own side, of a test that compares the two."""
    p = test.predicate
    if not isinstance(p, t.Comparison) or p.op not in ("=", "!=") or len(test.variables) != 1 or skips_null(p):
        return None
    if test.is_measured:
        return None
    for before, own in ((p.left, p.right), (p.right, p.left)):
        kinds = {type(leaf) for leaf in attributes_of(before)}, {type(leaf) for leaf in attributes_of(own)}
        if kinds == ({t.Prev}, {t.Ref}):
            return p.op, of_one_event(before), of_one_event(own)
    return None
