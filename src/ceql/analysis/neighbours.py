"""Conditions between neighbours as conditions on one event: where `:` joins events, "the event before" is known.

In: a shape whose claims are about several events. Out: the same shape, in which claims on events that are always as
many steps apart are about the last of them and *lags*: what attributes were so many events before in the substream.
`A AS a : B AS b FILTER b.v > a.v` asks of b that its v is greater than the v of the event before; no partial match
need carry a value for that. Likewise PREV, where `:` stands before every event that asks for it.

`:` makes an event follow another directly in the substream, whatever the match. So a lag is a column of the events, and
a claim over lags is a guard like any other. A lag means something only at an event that `:` joins to those before it:
at the first event of a match PREV is NULL, though the substream has an event before it (`automata.beginnings`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from typing import cast

from ceql.analysis.conditions import replaced
from ceql.analysis.cutting import most
from ceql.analysis.lengths import HIDDEN
from ceql.analysis.shape import Claim, Comparand, Either, Kind, Leaves, Shape, Test
from ceql.syntax import tree as t
from ceql.syntax.walking import leaves

Lag = tuple[str, int]
"""An attribute, and how many events before this one it is read. Of no event, for 0: it is NULL."""
MOST_STEPS = 16
"""A lag of more is none: each key has its last events kept."""
_MOST_JOINED = 100_000  # pairs of leaves that may follow each other
_LAG = f"{HIDDEN}lag{HIDDEN}"


def lag_name(lag: Lag) -> str:
    """The column of a lag; no user can name it."""
    attribute, steps = lag
    return f"{_LAG}{steps}{HIDDEN}{attribute}"


def lag_of(name: str) -> Lag | None:
    """The lag of a column; None if it is none.

    >>> lag_of(lag_name(("price", 2))), lag_of("price")
    (('price', 2), None)
    """
    if not name.startswith(_LAG):
        return None
    steps, _, attribute = name.removeprefix(_LAG).partition(HIDDEN)
    return attribute, int(steps)


def lags_in(predicates: Iterable[t.Predicate]) -> tuple[Lag, ...]:
    """The lags that predicates on single events read, in order of appearance."""
    names = (leaf.name for predicate in predicates for leaf in leaves(predicate) if isinstance(leaf, t.Attribute))
    return tuple(dict.fromkeys(lag for name in names if (lag := lag_of(name)) is not None))


def before_any(predicate: t.Predicate) -> t.Predicate:
    """A predicate as the first event of a match is asked it: no event is before that one."""

    def none(leaf: t.Ref | t.Prev | t.Attribute) -> t.Expression:
        lag = lag_of(leaf.name) if isinstance(leaf, t.Attribute) else None
        return leaf if lag is None else t.Attribute(lag_name((lag[0], 0)), span=leaf.span)

    return replaced(predicate, none)


def shown(predicate: t.Condition) -> t.Predicate:
    """A predicate as it is shown to authors.

    >>> from ceql.syntax.printer import print_condition
    >>> print_condition(shown(t.Comparison(">", t.Attribute("v"), t.Attribute(lag_name(("v", 1))))))
    'v > PREV.v'
    """

    def named(leaf: t.Ref | t.Prev | t.Attribute) -> t.Expression:
        lag = lag_of(leaf.name) if isinstance(leaf, t.Attribute) else None
        if lag is None:
            return leaf
        attribute, steps = lag
        if steps < 2:
            return t.Prev(attribute, span=leaf.span) if steps else t.Literal(None, span=leaf.span)
        return t.Ref(f"{steps} before", attribute, span=leaf.span)

    return replaced(cast(t.Predicate, predicate), named)


def attribute_in(name: str) -> str:
    """The attribute that a column has, or of which it is a lag."""
    lag = lag_of(name)
    return name if lag is None else lag[0]


def over_lags(shape: Shape, claim: Claim) -> list[Claim]:
    """A claim as claims on single events and lags; none if it cannot be written so."""
    return _Steps(shape).over_lags(claim)


def with_lags(shape: Shape, alone: bool = True) -> tuple[Shape, bool]:
    """The shape with claims over lags where it can be, and whether each of its claims is about one event then.

    Unless it would be run `alone`, claims are left that only an automaton on single events could follow by cases.

    >>> from ceql.analysis.resolve import resolve
    >>> from ceql.syntax.parser import parse_formula
    >>> shape, single = with_lags(resolve(parse_formula("A AS a : B AS b FILTER b.v > a.v"), "", unary=False))
    >>> single, lags_in(shape.at_leaves().leaf[1].predicates)
    (True, (('v', 1),))
    """
    if not any(any(node.contiguous) for node in shape.nodes):
        return shape, False
    steps = _Steps(shape)
    made = {claim.number: steps.over_lags(claim) for claim in shape.claims}
    if all(found == [claim] for claim, found in zip(shape.claims, made.values(), strict=True)):
        return shape, False
    if alone and all(made.values()):
        return replace(shape, claims=tuple(c for claims in made.values() for c in claims)), True
    # runs of the loop over groups test the others: what is a guard on all ways through the formula is one for them, too
    claims: list[Claim] = []
    for claim in shape.claims:
        found = made[claim.number]
        placed = (
            found != [claim]
            and bool(found)
            and all(shape.sure_leaves(c) is not None for c in found)
            and not steps.begins(found)
        )
        claims += found if placed else [claim]
    return replace(shape, claims=tuple(claims)).at_leaves(), False


class _Steps:
    """Which leaves may read the event before that of a leaf, and whether `:` joins the two."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.before: dict[int, dict[int, bool]] = {leaf: {} for leaf in shape.leaf}
        self.joined = 0
        sides = [number for number, node in enumerate(shape.nodes) if node.kind is Kind.ALL]
        self.in_all = frozenset[int]().union(*(shape.below(number) for number in sides))
        ends: list[tuple[dict[int, bool], dict[int, bool]]] = []
        for number in range(len(shape.nodes)):
            ends.append(self._ends(number, ends))
        self.first = frozenset(ends[shape.root][0])

    def _ends(
        self, number: int, ends: list[tuple[dict[int, bool], dict[int, bool]]]
    ) -> tuple[dict[int, bool], dict[int, bool]]:
        """The leaves of a node's first and last events, and whether these surely are next to what comes before, or
        after, the node: another side of ALL may begin earlier or end later."""
        node, nullable = self.shape.nodes[number], self.shape.nullable
        match node.kind:
            case Kind.LEAF:
                return {number: True}, {number: True}
            case Kind.REPEAT:
                inner = ends[node.items[0]]
                if self.shape.goes_round(number):
                    self._join(inner[1], inner[0], node.contiguous[0])
                return inner
            case Kind.CHOICE | Kind.ALL:
                sure = node.kind is Kind.CHOICE
                firsts, lasts = ({k: v and sure for i in node.items for k, v in ends[i][at].items()} for at in (0, 1))
                return firsts, lasts
        first: dict[int, bool] = {}
        open_ends: list[tuple[dict[int, bool], bool]] = []
        begins = True
        for k, item in enumerate(node.items):
            tight = k > 0 and node.contiguous[k - 1]
            open_ends = [(last, close and tight) for last, close in open_ends]
            for last, close in open_ends:
                self._join(last, ends[item][0], close)
            if begins:
                first = first | ends[item][0]
            begins = begins and nullable(item)
            open_ends = [*(open_ends if nullable(item) else []), (ends[item][1], True)]
        return first, {leaf: sure for last, _ in open_ends for leaf, sure in last.items()}

    def _join(self, last: dict[int, bool], first: dict[int, bool], tight: bool) -> None:
        self.joined += len(last) * len(first)
        if self.joined > _MOST_JOINED:
            return
        for later, sure in first.items():
            before = self.before[later]
            for earlier, alone in last.items():
                before[earlier] = before.get(earlier, True) and tight and sure and alone

    def begins(self, claims: Collection[Claim]) -> bool:
        """Whether one of the events that claims are about may be the first of a match."""
        return any(c.leaves & self.first for claim in claims for test in claim.tests for c in test.variables.values())

    # --- claims ---

    def over_lags(self, claim: Claim) -> list[Claim]:
        """A claim as claims on single events and lags; none if it cannot be written so."""
        if self.joined > _MOST_JOINED:
            return []
        test = self._one_test(claim)
        if test is None or test.is_measured:
            return []
        if test.is_unary:
            return [replace(claim, what=test)]
        outer = max((c.scope for c in test.variables.values()), key=self.shape.above(claim.node).index)
        if len(test.variables) > 1:
            if any(most(self.shape, outer, c.leaves) > 1 for c in test.variables.values()):
                return []
            inside = self.shape.below(outer)
        else:
            inside = self.shape.below(self.shape.root)
        for base in test.variables:
            found = self._over_lags_of(test, base, inside)
            if found:
                return [replace(claim, what=one) for one in found]
        return []

    def _one_test(self, claim: Claim) -> Test | None:
        """What a claim asks as one test; an OR is one if there is one combination of its events."""
        if isinstance(claim.what, Test):
            return claim.what
        if not isinstance(claim.what, Either):
            return None
        tests = claim.tests
        comparands = [c for test in tests for c in test.variables.values()]
        single = all(
            most(self.shape, c.scope, c.leaves) <= 1 and self.shape.surely(c.scope, c.leaves) for c in comparands
        )
        owners = {test.owner for test in tests if test.has_prev}
        if not single or not comparands or len(owners) > 1 or any(test.is_measured for test in tests):
            return None
        cases = tuple(t.Conj(tuple(test.predicate for test in case)) for case in claim.what.cases)
        variables = {name: c for test in tests for name, c in test.variables.items()}
        return Test(t.Disj(cases), variables, next(iter(owners), None))

    def _over_lags_of(self, test: Test, base: str, inside: Leaves) -> list[Test]:
        """A test as tests of one variable's events, those apart that have other lags; none if its other events are
        not always as many steps before."""
        comparand = test.variables[base]
        alike: dict[tuple[tuple[str, int], ...], set[int]] = {}
        for leaf in comparand.leaves:
            found: dict[str, int] = {}
            for name, other in test.variables.items():
                steps = 0 if name == base else self._steps_to(leaf, other.leaves, inside)
                if steps is None:
                    return []
                found[name] = steps
            if test.has_prev:
                assert test.owner is not None
                if not self._has_one_before(leaf, found[test.owner]):
                    return []
            alike.setdefault(tuple(found.items()), set()).add(leaf)
        made = []
        for lags, group in alike.items():
            steps_of = dict(lags)

            def lagged(leaf: t.Ref | t.Prev | t.Attribute, steps_of: dict[str, int] = steps_of) -> t.Expression:
                if isinstance(leaf, t.Attribute):
                    return leaf
                name = leaf.variable if isinstance(leaf, t.Ref) else str(test.owner)
                steps = steps_of[name] + isinstance(leaf, t.Prev)
                attribute = lag_name((leaf.attribute, steps)) if steps else leaf.attribute
                return t.Ref(base, attribute, span=leaf.span)

            predicate = replaced(test.predicate, lagged)
            made.append(Test(predicate, {base: Comparand(comparand.scope, frozenset(group))}))
        return made

    def _steps_to(self, leaf: int, others: Leaves, inside: Leaves) -> int | None:
        """How many events before that of a leaf an event of other leaves is read, always; None if that differs."""
        for steps, at in enumerate(self._back(leaf, inside), 1):
            if at <= others:
                return steps
            if not at.isdisjoint(others):
                return None
        return None

    def _has_one_before(self, leaf: int, steps: int) -> bool:
        """Whether the event before the one that is `steps` before that of a leaf is always the next one back.

        The event itself may also be the first of the match.
        """
        if leaf in self.in_all:
            return False
        if not steps:
            return all(self.before[leaf].values())
        return (
            sum(1 for _ in zip(range(steps + 1), self._back(leaf, self.shape.below(self.shape.root)), strict=False))
            > steps
        )

    def _back(self, leaf: int, inside: Leaves) -> Iterator[Leaves]:
        """The leaves that may read the event before, the one before that and so on, as long as `:` joins them."""
        at: Leaves = frozenset([leaf])
        for _ in range(MOST_STEPS):
            if not at.isdisjoint(self.first):
                return
            joined = [pair for one in at for pair in self.before[one].items()]
            if not all(tight and one in inside for one, tight in joined):
                return
            at = frozenset(one for one, _ in joined)
            yield at
