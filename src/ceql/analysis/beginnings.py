"""The events that `->` keeps away: those at which what follows it could begin instead (docs/reference.md, section 6).

In: a shape, and the FILTERs and PARTITION BY operators of its formula, each with what it stands around. Out: the shape
with an `Absence` for each leaf at which the right side of a `->` can begin. It has the leaf's type, and of the
conditions around the leaf those that name its variable and otherwise only variables with events to the left of the
`->`, or PREV. An aggregate of the variable itself, and a time of the match, are not known when the event comes, so
conditions on them are not asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple, cast

from ceql.analysis.conditions import aggregates, named, of_one_event, replaced, spell_out
from ceql.analysis.cutting import most
from ceql.analysis.shape import Absence, Claim, Comparand, Either, Kind, Leaf, Leaves, Node, Same, Shape, Test
from ceql.syntax import tree as t
from ceql.syntax.printer import print_condition
from ceql.syntax.walking import mapped
from ceql.syntax.walking import nodes as parts_of


@dataclass(frozen=True)
class Around:
    """A FILTER or PARTITION BY around a node: what it asks, and the variables of each leaf that it sees."""

    node: int
    asked: tuple[t.FilterCondition, ...] | t.Part
    seen: Mapping[int, frozenset[str]]

    @cached_property
    def bound(self) -> frozenset[str]:
        """The variables that what it stands around binds."""
        return frozenset[str]().union(*self.seen.values())

    @cached_property
    def by_name(self) -> dict[str, list[int]]:
        """The numbers of the conditions that speak of each variable."""
        found: dict[str, list[int]] = {}
        for k, part in enumerate(self.asked if isinstance(self.asked, tuple) else ()):
            for name in named(part):
                found.setdefault(name, []).append(k)
        return found


class _Joint(NamedTuple):
    """A `->`: before an item of a sequence, or (item 0) before a further round of a repetition."""

    node: int
    item: int


def with_beginnings(shape: Shape, around: Sequence[Around]) -> Shape:
    """The shape, with what each `->` keeps away."""
    work = _Beginnings(shape, around)
    for number, node in enumerate(shape.nodes):
        if t.Joint.NEXT in node.joints:
            work.add(number, node)
    return replace(shape, nodes=tuple(work.nodes), absences=tuple(work.absences), denials=tuple(work.denials))


class _Beginnings:
    def __init__(self, shape: Shape, around: Sequence[Around]) -> None:
        self.shape = shape
        self.nodes = list(shape.nodes)
        self.absences = list(shape.absences)
        self.denials = list(shape.denials)
        self.around: dict[int, list[Around]] = {}
        for one in around:
            self.around.setdefault(one.node, []).append(one)

    def add(self, number: int, node: Node) -> None:
        """Say what each `->` of a node keeps away."""
        instead: list[tuple[int, ...]] = [() for _ in node.items]
        for item in range(len(node.items)):
            joint = node.joints[item - 1] if node.kind is Kind.SEQUENCE and item else None
            if node.kind is Kind.REPEAT:
                joint = node.joints[0]
            if joint is t.Joint.NEXT:
                begins = self._first(node.items[item])
                instead[item] = tuple(self._absence(_Joint(number, item), leaf) for leaf in begins)
        self.nodes[number] = replace(node, instead=tuple(instead))

    def _first(self, node: int) -> Iterator[int]:
        """The leaves at which a node can begin."""
        here = self.shape.nodes[node]
        if here.kind is Kind.LEAF:
            yield node
        for item in here.items if here.most != 0 else ():
            yield from self._first(item)
            if here.kind is Kind.SEQUENCE and not self.shape.nullable(item):
                return

    def _absence(self, joint: _Joint, number: int) -> int:
        leaf, absence = self.shape.leaf[number], len(self.absences)
        name = min(leaf.variables - {leaf.type}, default=leaf.type)
        told = _Told(self.shape, joint, leaf, name)
        predicates: list[t.Predicate] = []
        for node in self.shape.above(number):
            for around in self.around.get(node, ()):
                if isinstance(around.asked, t.Part):
                    predicates += self._keyed(told, around, around.asked, number, absence)
                    continue
                for k in sorted({k for name in leaf.variables for k in around.by_name.get(name, ())}):
                    part = around.asked[k]
                    test = told.test(around, part, number)
                    if test is None:
                        continue
                    if isinstance(test, Test) and not test.variables and not test.has_prev:
                        predicates.append(of_one_event(test.predicate))
                        continue
                    text = print_condition(part)
                    self.denials.append(Claim(len(self.denials), node, test, text, part.span, absence))
        kind = leaf.type if leaf.stream is None else f"{leaf.stream}>{leaf.type}"
        text = f"-> {kind}" + (f" AS {name}" if name != leaf.type else "")
        self.absences.append(
            Absence(((leaf.type, leaf.stream),), frozenset([name]), tuple(predicates), text, None, is_next=True)
        )
        return absence

    def _keyed(self, told: _Told, around: Around, part: t.Part, leaf: int, absence: int) -> list[t.Predicate]:
        """An event of another key could not have begun what follows."""
        own = [ref for ref in part.refs if ref.name is None or ref.name in around.seen[leaf]]
        mine = tuple(dict.fromkeys(t.Attribute(ref.attribute, span=ref.span) for ref in own))
        before = told.to_the_left(around.node) & self.shape.below(around.node)
        same: list[t.Predicate] = [t.Comparison("=", mine[0], other, span=part.span) for other in mine[1:]]
        if around.node not in self.shape.above(told.joint.node) or not before:
            return [t.Comparison("=", mine[0], mine[0], span=part.span), *same]  # neither NULL nor NaN
        terms: dict[int, tuple[t.Expression, ...]] = {}
        for number in before:
            refs_of = [ref for ref in part.refs if ref.name is None or ref.name in around.seen[number]]
            terms[number] = tuple(dict.fromkeys(t.Attribute(ref.attribute, span=ref.span) for ref in refs_of))
        text = f"PARTITION BY [{', '.join(f'{r.name}.{r.attribute}' if r.name else r.attribute for r in part.refs)}]"
        what = Same({**terms, -1: mine[:1]})
        self.denials.append(Claim(len(self.denials), around.node, what, text, part.span, absence))
        return same


class _Told:
    """What is known of an event that could begin what follows a `->`."""

    def __init__(self, shape: Shape, joint: _Joint, leaf: Leaf, name: str) -> None:
        self.shape = shape
        self.joint = joint
        self.leaf = leaf
        self.name = name

    def to_the_left(self, scope: int) -> Leaves:
        """The leaves of a node around the joint whose events may come before it."""
        above = self.shape.above(self.joint.node)
        if scope not in above:
            return frozenset()
        here = self.shape.nodes[self.joint.node]
        items = here.items if here.kind is Kind.REPEAT else here.items[: self.joint.item]
        found = frozenset[int]().union(*map(self.shape.below, items))
        for child, node in pairwise(above[: above.index(scope) + 1]):
            if self.shape.nodes[node].kind is Kind.SEQUENCE:
                siblings = self.shape.nodes[node].items
                found |= frozenset[int]().union(*map(self.shape.below, siblings[: siblings.index(child)]))
            elif self.shape.goes_round(node):
                found |= self.shape.below(node)
        return found

    def test(self, around: Around, part: t.FilterCondition, leaf: int) -> Test | Either | None:
        """A condition, read for the event in place of the leaf's variable; None if it is not asked."""
        names = named(part)
        # a variable that the filtered formula does not bind may be that of an AS around the filter
        own = names & (around.seen[leaf] | (self.leaf.variables - around.bound))
        if not own or any(isinstance(node, t.Lapse) for node in parts_of(part)):
            return None
        if any(total.variable in own for total in aggregates(part)):
            return None
        comparands: dict[str, Comparand] = {}
        for name in sorted(names - own):
            scope = around.node if name in around.bound else self._scope(around.node, name)
            before = self.to_the_left(scope)
            leaves = frozenset(number for number in before if name in self.shape.leaf[number].variables)
            if not leaves:
                return None
            comparands[name] = Comparand(scope, leaves)
        several = any(most(self.shape, c.scope, c.leaves) > 1 for c in comparands.values())
        apart = isinstance(part, t.Disj) and (several or _has_prev(part))
        tests = [
            tuple(self._test(one, own, comparands) for one in _conjuncts(case))
            for case in (part.items if isinstance(part, t.Disj) and apart else (part,))
        ]
        return tests[0][0] if len(tests) == 1 and len(tests[0]) == 1 else Either(tuple(tests))

    def _test(self, part: t.FilterCondition, own: frozenset[str], comparands: dict[str, Comparand]) -> Test:
        owner = part.name if isinstance(part, t.Bracket) else self.name

        def here(leaf: t.Ref | t.Prev | t.Attribute) -> t.Expression:
            return replace(leaf, variable=self.name) if isinstance(leaf, t.Ref) and leaf.variable in own else leaf

        predicate = replaced(_as_predicate(part), here)
        asked = named(predicate) - {self.name}
        return Test(predicate, {name: comparands[name] for name in sorted(asked)}, self.name if owner in own else owner)

    def _scope(self, node: int, name: str) -> int:
        """The nearest node around `node` that binds a variable besides it."""
        above = self.shape.above(node)
        for child, around in pairwise(above):
            others = self.shape.below(around) - self.shape.below(child)
            binder = self.shape.nodes[around].kind in (Kind.SEQUENCE, Kind.ALL)
            if binder and any(name in self.shape.leaf[leaf].variables for leaf in others):
                return around
        return self.shape.root


def asked_parts(condition: t.FilterCondition) -> tuple[t.FilterCondition, ...]:
    """The conditions that must all hold; `x[P AND Q]` is two."""
    return tuple(_conjuncts(condition))


def _conjuncts(condition: t.FilterCondition) -> list[t.FilterCondition]:
    match condition:
        case t.Conj(items):
            return [part for item in items for part in _conjuncts(item)]
        case t.Bracket(name, t.Conj(items)):
            inner = cast(tuple[t.Predicate, ...], items)
            return [part for item in inner for part in _conjuncts(t.Bracket(name, item, span=item.span))]
    return [condition]


def _as_predicate(condition: t.Condition) -> t.Predicate:
    """A condition outside brackets as one inside them, whose attributes name their variables."""
    if isinstance(condition, t.Bracket):
        return spell_out(condition.predicate, condition.name)
    return mapped(condition, _as_predicate)


def _has_prev(condition: object) -> bool:
    return any(isinstance(node, t.Prev) for node in parts_of(condition))
