"""A correlated formula as operators over leaves, and what it asks of several events at a time.

In: the formula of a query. Out: a `Shape`: leaves (one for each place in the formula that reads an event, with its
type, variables and the predicates on that event alone), the operators above them, and `Claim`s, which compare events.
AS and FILTER are gone, as in LP-normal form; a claim remembers whose events it compares.

A claim belongs to the operand of its FILTER. Each of its variables has a *scope*, the node that binds it: the operand
itself, or the nearest enclosing formula that binds it (docs/reference.md, section 3). All scopes lie on the
way from the operand to the root. A node inside an iteration has an *instance* for each time round.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from copy import copy
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import product
from typing import TypeVar, cast

from ceql.analysis.conditions import leaves as attributes_of
from ceql.analysis.conditions import simplify
from ceql.analysis.scopes import binds, bound_once
from ceql.errors import QueryError, Span
from ceql.syntax import tree as t
from ceql.syntax.printer import print_condition

Leaves = frozenset[int]
N = TypeVar("N", t.Predicate, t.Expression)
Change = Callable[[t.Ref | t.Prev | t.Attribute], t.Expression]
_MOST_LEAVES = 256  # a disjunction of filters is spread out into copies of its formula up to this size


class Kind(Enum):
    LEAF = "leaf"
    SEQUENCE = "sequence"
    REPEAT = "repeat"
    CHOICE = "choice"
    ALL = "all"


@dataclass(slots=True)
class Node:
    """An operator or a leaf. `contiguous` is as in `tree.Then`, or one flag of a repetition."""

    kind: Kind
    items: tuple[int, ...] = ()
    contiguous: tuple[bool, ...] = ()
    parent: int = -1


@dataclass(slots=True)
class Leaf:
    """A place in the formula that reads one event."""

    type: str
    stream: str | None
    variables: set[str]
    predicates: list[t.Predicate] = field(default_factory=list)


@dataclass(slots=True)
class Comparand:
    """A variable of a claim: the node that binds it (-1: not known yet), and the leaves whose events it names there."""

    scope: int = -1
    leaves: Leaves = frozenset()


@dataclass(slots=True)
class Test:
    """A predicate that all combinations of its variables' events must satisfy. Attributes are `Ref`s, or `Prev`."""

    predicate: t.Predicate
    variables: dict[str, Comparand]
    owner: str | None = None  # the variable whose events PREV precedes

    @property
    def has_prev(self) -> bool:
        return any(isinstance(leaf, t.Prev) for leaf in attributes_of(self.predicate))


@dataclass(slots=True)
class Same:
    """One part of the PARTITION BY operator: these values are all the same, and none is NULL."""

    terms: dict[int, tuple[t.Expression, ...]]  # of each leaf


@dataclass(slots=True)
class Either:
    """Any of the cases; each is tests that hold together."""

    cases: tuple[tuple[Test, ...], ...]


@dataclass(slots=True)
class Claim:
    """What is asked of the events of each instance of `node`."""

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


class Shape:
    """Nodes by number, children before parents; `root` is the whole formula."""

    def __init__(self, formula: t.Formula, source: str) -> None:
        self.nodes: list[Node] = []
        self.leaf: dict[int, Leaf] = {}
        self.claims: list[Claim] = []
        self._source = source
        self.root, waiting = self._build(formula)
        assert not waiting, "check() lets through no variable that nothing binds"
        for number, node in enumerate(self.nodes):
            for item in node.items:
                self.nodes[item].parent = number

    def without(self, dropped: Collection[int]) -> Shape:
        """The shape without the claims of these numbers."""
        rest = copy(self)
        rest.claims = [claim for number, claim in enumerate(self.claims) if number not in dropped]
        return rest

    # --- looking at it ---

    def below(self, node: int) -> Leaves:
        """The leaves of a node."""
        if self.nodes[node].kind is Kind.LEAF:
            return frozenset([node])
        return frozenset().union(*(self.below(item) for item in self.nodes[node].items))

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

    # --- building it ---

    def _add(self, kind: Kind, items: Iterable[int] = (), contiguous: tuple[bool, ...] = ()) -> int:
        self.nodes.append(Node(kind, tuple(items), contiguous))
        return len(self.nodes) - 1

    def _build(self, formula: t.Formula) -> tuple[int, list[Claim]]:
        """The node of a formula, and the claims in it that wait for an enclosing formula to bind a variable."""
        match formula:
            case t.Event(type, stream):
                node = self._add(Kind.LEAF)
                self.leaf[node] = Leaf(type, stream, {type})
                return node, []
            case t.As(inner, variable):
                node, waiting = self._build(inner)
                for leaf in self.below(node):
                    self.leaf[leaf].variables.add(variable)
                return node, self._settle(waiting, node, {variable})
            case t.Plus(inner, contiguous):
                body, waiting = self._build(inner)
                node = self._add(Kind.REPEAT, [body], (contiguous,))
                return node, self._settle(waiting, node, binds(inner))
            case t.Then(items, contiguous):
                return self._build_items(Kind.SEQUENCE, items, contiguous)
            case t.All(items):
                return self._build_items(Kind.ALL, items)
            case t.Or(items):
                built = [self._build(item) for item in items]
                return self._add(Kind.CHOICE, [node for node, _ in built]), [c for _, cs in built for c in cs]
            case t.Filter(inner, condition):
                return self._build_filter(inner, simplify(condition, bound_once(inner), self._source))
            case t.PartitionBy(inner, parts):
                node, waiting = self._build(inner)
                for part in parts:
                    self._partition(node, part, formula)
                return node, waiting

    def _build_items(
        self, kind: Kind, items: tuple[t.Formula, ...], contiguous: tuple[bool, ...] = ()
    ) -> tuple[int, list[Claim]]:
        built = [self._build(item) for item in items]
        node = self._add(kind, [item for item, _ in built], contiguous)
        waiting: list[Claim] = []
        for index, (_, claims) in enumerate(built):
            beside = frozenset().union(*(binds(item) for k, item in enumerate(items) if k != index))
            waiting += self._settle(claims, node, beside)
        return node, waiting

    def _build_filter(self, inner: t.Formula, condition: t.FilterCondition) -> tuple[int, list[Claim]]:
        if isinstance(condition, t.Disj) and self._spreads(inner, condition):
            built = [self._build_filter(inner, cast(t.FilterCondition, item)) for item in condition.items]
            return self._add(Kind.CHOICE, [node for node, _ in built]), [c for _, cs in built for c in cs]
        if isinstance(condition, t.Conj):  # a disjunction inside may make copies, so it goes first
            items = sorted(condition.items, key=lambda item: not isinstance(item, t.Disj))
            first, *rest = cast(list[t.FilterCondition], items)
            node, waiting = self._build_filter(inner, first)
            for item in rest:
                waiting += self._claim(node, item, binds(inner))
            return node, waiting
        node, waiting = self._build(inner)
        return node, waiting + self._claim(node, condition, binds(inner))

    def _spreads(self, inner: t.Formula, condition: t.Disj) -> bool:
        """Whether a disjunction becomes a choice of copies: every case has a part that the engine can look up."""
        cases = [cast(t.FilterCondition, item) for item in condition.items]
        copies = len(cases) * sum(1 for _ in _events(inner))
        return copies <= _MOST_LEAVES and all(any(_is_simple(part) for part in _conjuncts(case)) for case in cases)

    def _claim(self, node: int, condition: t.FilterCondition, own: frozenset[str]) -> list[Claim]:
        """Put a condition on a node; what comes back waits for variables of an enclosing formula."""
        if isinstance(condition, t.Conj):
            return [c for item in condition.items for c in self._claim(node, cast(t.FilterCondition, item), own)]
        claim: Claim
        if isinstance(condition, t.Disj):
            cases = tuple(tuple(test for part in case for test in _tests(part)) for case in _cases(condition))
            claim = Claim(node, Either(cases), print_condition(condition), condition.span)
            return self._settle([claim], node, own)
        waiting: list[Claim] = []
        for test in _tests(condition):
            if not test.variables:
                for leaf in self.below(node):
                    self.leaf[leaf].predicates.append(test.predicate)
                continue
            claim = Claim(node, test, print_condition(condition), condition.span)
            waiting += self._settle([claim], node, own)
        return waiting

    def _settle(self, claims: list[Claim], scope: int, bound: Iterable[str]) -> list[Claim]:
        """Tell the claims whose events the variables `bound` are, in `scope`; those that still wait for others."""
        names, leaves, waiting = set(bound), self.below(scope), []
        for claim in claims:
            for test in claim.tests:
                for name in names & test.variables.keys():
                    if test.variables[name].scope < 0:
                        named = frozenset(leaf for leaf in leaves if name in self.leaf[leaf].variables)
                        test.variables[name] = Comparand(scope, named)
            if any(c.scope < 0 for test in claim.tests for c in test.variables.values()):
                waiting.append(claim)
            else:
                self._keep(claim)
        return waiting

    def _keep(self, claim: Claim) -> None:
        """Keep a claim, unless it is about one event at a time and can stand at the leaves."""
        test = claim.what
        if isinstance(test, Test) and len(test.variables) == 1 and not test.has_prev:
            ((_, comparand),) = test.variables.items()
            if self.surely(comparand.scope, self.below(claim.node)):
                for leaf in comparand.leaves:
                    self.leaf[leaf].predicates.append(of_one_event(test.predicate))
                return
        self.claims.append(claim)

    def _partition(self, node: int, part: t.Part, formula: t.PartitionBy) -> None:
        terms: dict[int, dict[t.Expression, None]] = {leaf: {} for leaf in sorted(self.below(node))}
        for ref in part.refs:
            for leaf in terms:
                if ref.name is None or ref.name in self.leaf[leaf].variables:
                    terms[leaf][t.Attribute(ref.attribute, span=ref.span)] = None
        for leaf, values in terms.items():
            if not values:
                names = ", ".join(sorted({r.name for r in part.refs if r.name is not None}))
                raise QueryError(
                    f"PARTITION BY must say by what '{self.leaf[leaf].type}' is partitioned: "
                    f"its events are none of {names}",
                    self._source,
                    part.span or formula.span,
                    f"Add {self.leaf[leaf].type}.attribute to the list, or a bare attribute for every event.",
                )
        text = (
            "PARTITION BY [" + ", ".join(f"{r.name}.{r.attribute}" if r.name else r.attribute for r in part.refs) + "]"
        )
        self.claims.append(Claim(node, Same({k: tuple(v) for k, v in terms.items()}), text, part.span or formula.span))


def _events(formula: t.Formula) -> Iterable[t.Event]:
    match formula:
        case t.Event():
            yield formula
        case t.As(inner) | t.Plus(inner) | t.Filter(inner) | t.PartitionBy(inner):
            yield from _events(inner)
        case t.Then(items) | t.All(items) | t.Or(items):
            for item in items:
                yield from _events(item)


def _conjuncts(condition: t.FilterCondition) -> list[t.FilterCondition]:
    if isinstance(condition, t.Conj):
        return [part for item in condition.items for part in _conjuncts(cast(t.FilterCondition, item))]
    return [condition]


def _cases(condition: t.FilterCondition) -> list[list[t.FilterCondition]]:
    """Disjunctive normal form."""
    match condition:
        case t.Disj(items):
            return [case for item in items for case in _cases(cast(t.FilterCondition, item))]
        case t.Conj(items):
            parts = [_cases(cast(t.FilterCondition, item)) for item in items]
            return [[atom for part in chosen for atom in part] for chosen in product(*parts)]
        case _:
            return [[condition]]


def _is_simple(condition: t.FilterCondition) -> bool:
    """About one event, or an equality of two."""
    if isinstance(condition, t.Disj):
        return False
    return all(
        (len(test.variables) == 1 and not test.has_prev) or join_of(test) is not None for test in _tests(condition)
    )


def _tests(condition: t.FilterCondition) -> list[Test]:
    """A condition without AND and OR outside brackets as tests; a conjunction in brackets is several."""
    match condition:
        case t.Bracket(name, t.Conj(items)):
            return [test for item in items for test in _tests(t.Bracket(name, cast(t.Predicate, item)))]
        case t.Bracket(name, predicate):
            spelt = cast(t.Predicate, spell_out(predicate, name))
            names = {name, *_variables(spelt)}
            return [Test(spelt, {n: Comparand() for n in sorted(names)}, name)]
        case _:
            names = _variables(cast(t.Comparison, condition))
            owner = next(iter(names)) if len(names) == 1 else None
            return [Test(cast(t.Comparison, condition), {n: Comparand() for n in sorted(names)}, owner)]


def _variables(predicate: t.Condition) -> set[str]:
    return {leaf.variable for leaf in attributes_of(predicate) if isinstance(leaf, t.Ref)}


def join_of(test: Test) -> tuple[str, t.Expression, str, t.Expression] | None:
    """`x`, its side, `y`, its side, of a test that is an equality between two variables."""
    p = test.predicate
    if not isinstance(p, t.Comparison) or p.op != "=" or test.has_prev:
        return None
    left, right = _variables(t.IsNull(p.left)), _variables(t.IsNull(p.right))
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


def spell_out(node: t.Condition | t.Expression, name: str) -> t.Condition | t.Expression:
    """`node` with bare attributes turned into those of the variable `name`."""
    return replaced(
        node, lambda leaf: t.Ref(name, leaf.name, span=leaf.span) if isinstance(leaf, t.Attribute) else leaf
    )


def of_one_event(node: N) -> N:
    """`node`, which reads one event, with bare attributes."""

    def bare(leaf: t.Ref | t.Prev | t.Attribute) -> t.Expression:
        return leaf if isinstance(leaf, t.Attribute) else t.Attribute(leaf.attribute, span=leaf.span)

    return cast(N, replaced(node, bare))


def replaced(node: t.Condition | t.Expression, change: Change) -> t.Condition | t.Expression:
    """`node` with every attribute that it reads changed."""
    match node:
        case t.Ref() | t.Prev() | t.Attribute():
            return change(node)
        case t.Arithmetic(_, left, right) | t.Comparison(_, left, right):
            return replace(
                node, left=cast(t.Expression, replaced(left, change)), right=cast(t.Expression, replaced(right, change))
            )
        case t.Minus(inner) | t.Like(inner) | t.In(inner) | t.IsNull(inner):
            return replace(node, operand=cast(t.Expression, replaced(inner, change)))
        case t.Between(inner, low, high):
            operand, low, high = (cast(t.Expression, replaced(e, change)) for e in (inner, low, high))
            return replace(node, operand=operand, low=low, high=high)
        case t.Neg(item):
            return replace(node, item=replaced(item, change))  # type: ignore[arg-type]
        case t.Conj(items) | t.Disj(items):
            return replace(node, items=tuple(replaced(i, change) for i in items))  # type: ignore[misc]
        case _:
            return node
