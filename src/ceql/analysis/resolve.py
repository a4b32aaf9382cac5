"""From a formula to its shape: conditions numbered, and whose events they speak of resolved, once for both loops.

AS and FILTER disappear. `φ AS x` adds x to every leaf of φ; a FILTER becomes claims on the node of its operand. A claim
on a variable that its operand does not bind waits until an enclosing formula binds it. A disjunction of conditions
becomes a choice between copies of its operand (docs/reference.md, section 3): always in a unary query, and in a
correlated one if each case has something to look up. Otherwise it stays one claim, `Either`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import replace
from itertools import product
from typing import cast

from ceql.analysis.beginnings import Around, asked_parts, with_beginnings
from ceql.analysis.conditions import is_correlated, named, read_singly, simplify, spell_out, variables_of
from ceql.analysis.missing import without_empty
from ceql.analysis.scopes import binds, bound_once, forbids, joined_by_next, name_of, subformulas
from ceql.analysis.shape import (
    Absence,
    Claim,
    Comparand,
    Either,
    Kind,
    Leaf,
    Leaves,
    Length,
    Node,
    Same,
    Shape,
    Test,
    join_of,
)
from ceql.errors import QueryError, ResourceError, Span
from ceql.syntax import tree as t
from ceql.syntax.absence import events_of
from ceql.syntax.printer import print_condition, print_formula, print_window
from ceql.syntax.walking import leaves as leaves_of

MOST_NODES = 100_000
"""Nodes of a shape and claims on them: to compile them takes seconds. Only copies make more; a query has fewer."""
_MOST_LEAVES = 256  # copies of leaves that a disjunction in a correlated query may become


def resolve(formula: t.Formula, source: str, unary: bool, prefers: bool = False) -> Shape:
    """The shape of a formula; `unary` says that none of its conditions compares events.

    With `prefers`, one match is preferred to another. An OR of formulas then prefers its left side, which an OR of
    conditions does not: so that stays one claim.

    >>> from ceql.syntax.parser import parse_formula
    >>> shape = resolve(parse_formula("A AS x ; (B FILTER x.v < B.v)"), "", unary=False)
    >>> shape.claims[0].node, shape.claims[0].what.variables
    (1, {'B': Comparand(scope=1, leaves=frozenset({1})), 'x': Comparand(scope=2, leaves=frozenset({0}))})
    """
    resolver = _Resolver(source, unary, any(map(joined_by_next, subformulas(formula))), prefers)
    root, waiting = resolver.build(formula)
    assert not waiting, "check() lets through no variable that nothing binds"
    parent = {item: number for number, node in enumerate(resolver.nodes) for item in node.items}
    nodes = tuple(replace(node, parent=parent.get(number, -1)) for number, node in enumerate(resolver.nodes))
    absences, denials = tuple(resolver.absences), tuple(resolver.denials)
    shape = Shape(nodes, resolver.leaf, tuple(resolver.claims), root, absences, denials)
    return with_beginnings(shape, resolver.around) if resolver.has_next else shape


def has_cases(formula: t.Formula, source: str) -> bool:
    """Whether a FILTER asks for one of several conditions, and no single event says which of them holds."""
    return any(
        isinstance(part, t.Disj)
        for node in subformulas(formula)
        if isinstance(node, t.Filter)
        for part in _conjuncts(simplify(node.condition, bound_once(node.formula) | forbids(node.formula), source))
    )


class _Resolver:
    def __init__(self, source: str, unary: bool, has_next: bool, prefers: bool) -> None:
        self.source = source
        self.unary = unary
        self.prefers = prefers
        self.nodes: list[Node] = []
        self.leaf: dict[int, Leaf] = {}
        self.claims: list[Claim] = []
        self._named: dict[int, dict[str, set[int]]] = {}  # the leaves below a node by variable, until an AS adds one
        self.absences: list[Absence] = []
        self.denials: list[Claim] = []
        self.has_next = has_next
        self.around: list[Around] = []
        """What stands around which nodes, if `->` asks for it."""

    def build(self, formula: t.Formula) -> tuple[int, list[Claim]]:
        """The node of a formula, and the claims in it that wait for an enclosing formula to bind a variable."""
        match formula:
            case t.Event(type, stream):
                node = self._add(Kind.LEAF)
                self.leaf[node] = Leaf(type, stream, frozenset([type]))
                return node, []
            case t.As(inner, variable):
                node, waiting = self.build(inner)
                self._named.clear()
                for number in self._below(node):
                    leaf = self.leaf[number]
                    self.leaf[number] = replace(leaf, variables=leaf.variables | {variable})
                return node, self._settle(waiting, node, [variable])
            case t.Plus(inner, joint, reluctant):
                return self._repeat(inner, joint, 1, None, reluctant)
            case t.Count(inner, least, most, joint, reluctant):
                return self._repeat(inner, joint, least, most, reluctant)
            case t.Then(items) if any(isinstance(item, t.Not) for item in items):
                return self._build_gaps(formula)
            case t.Then(items, joints):
                return self._build_items(Kind.SEQUENCE, items, joints)
            case t.Not():
                raise AssertionError("check_absence() lets NOT through in sequences alone")
            case t.All(items):
                return self._build_items(Kind.ALL, items)
            case t.Or(items):
                return self._choice([self.build(item) for item in items])
            case t.Filter(inner, condition):
                once = bound_once(inner)
                simple = simplify(condition, once | forbids(inner), self.source)
                node, waiting = self._filter(without_empty(inner, simple, self.source), simple)
                if self.has_next:
                    asked = tuple(part for part in asked_parts(simple) if not forbids(inner) & named(part))
                    self.around.append(Around(node, asked, self._seen(node)))
                return node, waiting
            case t.PartitionBy(inner, parts):
                first = len(self.absences)
                node, waiting = self.build(inner)
                for part in parts:
                    self._partition(node, part, formula, range(first, len(self.absences)))
                    if self.has_next:
                        self.around.append(Around(node, part, self._seen(node)))
                return node, waiting
            case t.Within(inner, window):
                node, waiting = self.build(inner)
                self._within(node, window, window.span or formula.span)
                return node, waiting

    def _within(self, node: int, window: t.Window, span: Span | None) -> None:
        if self.nodes[node].kind is not Kind.LEAF or isinstance(window, t.AttributeWindow):
            text = f"WITHIN {print_window(window)}"
            self.claims.append(Claim(len(self.claims), node, Length(window), text, span))

    def _seen(self, node: int) -> dict[int, frozenset[str]]:
        """The variables of each leaf below a node, as far as they are bound there."""
        return {number: self.leaf[number].variables for number in self._below(node)}

    def _repeat(
        self, inner: t.Formula, joint: t.Joint, least: int, most: int | None, reluctant: bool
    ) -> tuple[int, list[Claim]]:
        body, waiting = self.build(inner)
        node = self._add(Kind.REPEAT, [body], (joint,))
        self.nodes[node] = replace(self.nodes[node], least=least, most=most, reluctant=reluctant)
        return node, self._settle(waiting, node, binds(inner))

    def _add(self, kind: Kind, items: Iterable[int] = (), joints: tuple[t.Joint, ...] = ()) -> int:
        self.nodes.append(Node(kind, tuple(items), joints))
        return len(self.nodes) - 1

    def _below(self, node: int) -> Leaves:
        if self.nodes[node].kind is Kind.LEAF:
            return frozenset([node])
        return frozenset().union(*(self._below(item) for item in self.nodes[node].items))

    def _leaves_of(self, node: int, name: str) -> Leaves:
        """The leaves below a node that are bound to a variable."""
        if node not in self._named:
            named = self._named[node] = defaultdict(set)
            for number in self._below(node):
                for variable in self.leaf[number].variables:
                    named[variable].add(number)
        return frozenset(self._named[node].get(name, ()))

    def _choice(self, built: list[tuple[int, list[Claim]]]) -> tuple[int, list[Claim]]:
        return self._add(Kind.CHOICE, [node for node, _ in built]), [c for _, claims in built for c in claims]

    def _build_items(
        self, kind: Kind, items: tuple[t.Formula, ...], joints: tuple[t.Joint, ...] = ()
    ) -> tuple[int, list[Claim]]:
        built = [self.build(item) for item in items]
        node = self._add(kind, [item for item, _ in built], joints)
        waiting: list[Claim] = []
        count: Counter[str] = Counter()
        if any(claims for _, claims in built):
            count.update(name for item in items for name in binds(item))
        for item, (_, claims) in zip(items, built, strict=True):
            if claims:
                asked = {name for claim in claims for test in claim.tests for name in test.variables}
                waiting += self._settle(claims, node, (n for n in asked if count[n] > (n in binds(item))))
        return node, waiting

    # --- NOT ---

    def _build_gaps(self, formula: t.Then) -> tuple[int, list[Claim]]:
        """A sequence with NOT: the items that are there, and what is absent before, between and after them."""
        there: list[t.Formula] = []
        joints: list[t.Joint] = []
        absent: list[list[t.Not]] = [[]]
        for item, joint in zip(formula.items, (t.Joint.THEN, *formula.joints), strict=True):
            if isinstance(item, t.Not):
                absent[-1].append(item)
                continue
            if there:
                joints.append(joint)
            there.append(item)
            absent.append([])
        node, waiting = self._build_items(Kind.SEQUENCE, tuple(there), tuple(joints))
        gaps = tuple(tuple(self._absence(one) for one in gap) for gap in absent)
        self.nodes[node] = replace(self.nodes[node], absent=gaps)
        return node, waiting

    def _absence(self, absent: t.Not) -> int:
        kinds = tuple((event.type, event.stream) for event in events_of(absent))
        name = name_of(absent)
        names = frozenset[str]() if name is None else frozenset([name])
        self.absences.append(Absence(kinds, names, (), print_formula(absent), absent.span))
        return len(self.absences) - 1

    def _forbid(
        self, node: int, condition: t.FilterCondition, names: frozenset[str], absences: range, own: frozenset[str]
    ) -> list[Claim]:
        """Put a condition on the absent events that it names; the result waits as that of `_claim` does."""
        if any(isinstance(leaf, t.Prev) for leaf in leaves_of(condition)):
            raise QueryError(
                "PREV has no meaning for an event that is absent",
                self.source,
                condition.span,
                "Compare it with a variable of the match.",
            )
        waiting: list[Claim] = []
        for number in absences:
            mine = self.absences[number].names & names
            if not mine:
                continue
            (name,) = mine
            if isinstance(condition, t.Bracket) and condition.name == name and not is_correlated(condition):
                old = self.absences[number]
                self.absences[number] = replace(old, predicates=(*old.predicates, condition.predicate))
                continue
            for claim in self._claims(node, condition):
                what = claim.what
                assert isinstance(what, Test | Either)
                told = _without(what, name) if isinstance(what, Test) else _cases_without(what, name)
                waiting += self._settle([replace(claim, what=told, absence=number)], node, own)
        return waiting

    # --- FILTER ---

    def _filter(self, inner: t.Formula, condition: t.FilterCondition) -> tuple[int, list[Claim]]:
        absent = forbids(inner)
        mine = [part for part in _conjuncts(condition) if absent & named(part)] if absent else []
        if not mine:
            return self._filter_there(inner, condition)
        first = len(self.absences)
        others = tuple(part for part in _conjuncts(condition) if not absent & named(part))
        node, waiting = self._filter_there(inner, t.Conj(others)) if others else self.build(inner)
        for part in mine:
            waiting += self._forbid(node, part, absent & named(part), range(first, len(self.absences)), binds(inner))
        return node, waiting

    def _filter_there(self, inner: t.Formula, condition: t.FilterCondition) -> tuple[int, list[Claim]]:
        parts = _conjuncts(condition)
        either = [k for k, part in enumerate(parts) if isinstance(part, t.Disj)]
        if self.unary and either:  # each case is a copy with all conditions
            if len(self.nodes) + len(self.claims) > MOST_NODES:
                raise ResourceError(
                    "the ORs of a FILTER multiply: the formula is copied for each way to choose one case of each, and "
                    f"{MOST_NODES:,} nodes are the most; write fewer ORs between different variables, or put those on "
                    "one variable into one bracket, x[... OR ...]",
                    limit="MOST_NODES",
                )
            cases = cast(t.Disj, parts[either[-1]]).items
            before, after = parts[: either[-1]], parts[either[-1] + 1 :]
            return self._choice([self._filter_there(inner, t.Conj((*before, case, *after))) for case in cases])
        parts.sort(key=lambda part: not isinstance(part, t.Disj))
        if either and self._spreads(inner, cast(t.Disj, parts[0])):  # the other conditions are on all copies together
            cases = cast(t.Disj, parts.pop(0)).items
            node, waiting = self._choice([self._filter_there(inner, case) for case in cases])
        else:
            node, waiting = self.build(inner)
        own = binds(inner)  # looked up by the hash of the whole tree, which takes a walk over it
        for part in parts:
            waiting += self._claim(node, part, own)
        return node, waiting

    def _spreads(self, inner: t.Formula, condition: t.Disj) -> bool:
        """Whether a disjunction becomes a choice of copies: every case has a part that the engine can look up."""
        if self.prefers:
            return False
        cases = condition.items
        copies = len(cases) * sum(1 for formula in subformulas(inner) if isinstance(formula, t.Event))
        return copies <= _MOST_LEAVES and all(any(map(_can_look_up, _conjuncts(case))) for case in cases)

    def _claim(self, node: int, condition: t.FilterCondition, own: frozenset[str]) -> list[Claim]:
        """Put a condition on a node; the result waits for variables of an enclosing formula."""
        return self._settle(self._claims(node, condition), node, own)

    def _claims(self, node: int, condition: t.FilterCondition) -> list[Claim]:
        text, span = print_condition(condition), condition.span
        if isinstance(condition, t.Disj):
            cases = tuple(tuple(test for part in case for test in _tests(part)) for case in _cases(condition))
            return [Claim(-1, node, Either(cases), text, span)]
        tests = [_test(condition)] if self.unary else _tests(condition)
        return [Claim(-1, node, test, text, span) for test in tests]

    def _settle(self, claims: Iterable[Claim], scope: int, bound: Iterable[str]) -> list[Claim]:
        """Tell the claims whose events the variables `bound` are, in `scope`; the result still waits for others."""
        claims = list(claims)
        names, waiting = frozenset(bound) if claims else frozenset(), []

        def told(test: Test) -> Test:
            here = {
                name: Comparand(scope, self._leaves_of(scope, name))
                for name, comparand in test.variables.items()
                if comparand.scope < 0 and name in names
            }
            return replace(test, variables={**test.variables, **here})

        for claim in claims:
            what = claim.what
            if isinstance(what, Test):
                claim = replace(claim, what=told(what))
            elif isinstance(what, Either):
                claim = replace(claim, what=Either(tuple(tuple(map(told, case)) for case in what.cases)))
            if any(c.scope < 0 for test in claim.tests for c in test.variables.values()):
                waiting.append(claim)
            elif claim.absence >= 0:
                self.denials.append(replace(claim, number=len(self.denials)))
            else:
                self.claims.append(replace(claim, number=len(self.claims)))
        return waiting

    # --- PARTITION BY ---

    def _partition(self, node: int, part: t.Part, formula: t.PartitionBy, absences: range) -> None:
        terms: dict[int, tuple[t.Expression, ...]] = {}
        span = part.span or formula.span
        by_name: dict[str | None, list[int]] = {}
        for k, ref in enumerate(part.refs):
            by_name.setdefault(ref.name, []).append(k)
        for number in sorted(self._below(node)):
            leaf = self.leaf[number]
            own = [part.refs[k] for k in sorted(k for name in {None, *leaf.variables} for k in by_name.get(name, ()))]
            terms[number] = tuple(dict.fromkeys(t.Attribute(ref.attribute, span=ref.span) for ref in own))
            if not own:
                names = ", ".join(sorted({r.name for r in part.refs if r.name is not None}))
                raise QueryError(
                    f"PARTITION BY must say by what '{leaf.type}' is partitioned: its events are none of {names}",
                    self.source,
                    span,
                    f"Add {leaf.type}.attribute to the list, or a bare attribute for every event.",
                )
        refs = ", ".join(f"{r.name}.{r.attribute}" if r.name else r.attribute for r in part.refs)
        text = f"PARTITION BY [{refs}]"
        self.claims.append(Claim(len(self.claims), node, Same(terms), text, span))
        for number in absences:
            called = self.absences[number].names
            own = [ref for ref in part.refs if ref.name is None or ref.name in called]
            if own:
                absent = tuple(dict.fromkeys(t.Attribute(ref.attribute, span=ref.span) for ref in own))
                same = Same({**terms, -1: absent})
                self.denials.append(Claim(len(self.denials), node, same, text, span, number))


def _without(test: Test, name: str) -> Test:
    """The test, with an absent event that is not among its variables."""
    return replace(test, variables={k: v for k, v in test.variables.items() if k != name}, owner=None)


def _cases_without(either: Either, name: str) -> Either:
    return Either(tuple(tuple(_without(test, name) for test in case) for case in either.cases))


def _conjuncts(condition: t.FilterCondition) -> list[t.FilterCondition]:
    if isinstance(condition, t.Conj):
        return [part for item in condition.items for part in _conjuncts(item)]
    return [condition]


def _cases(condition: t.FilterCondition) -> list[list[t.FilterCondition]]:
    """Disjunctive normal form."""
    match condition:
        case t.Disj(items):
            return [case for item in items for case in _cases(item)]
        case t.Conj(items):
            parts = [_cases(item) for item in items]
            return [[atom for part in chosen for atom in part] for chosen in product(*parts)]
        case _:
            return [[condition]]


def _can_look_up(condition: t.FilterCondition) -> bool:
    """Whether a condition is about one event, or an equality of two."""
    if isinstance(condition, t.Disj):
        return False
    tests = _tests(condition)
    return all((test.is_unary and test.variables) or join_of(test) is not None for test in tests)


def _tests(condition: t.FilterCondition) -> list[Test]:
    """A condition without AND and OR outside brackets as tests; a conjunction in brackets is several."""
    if isinstance(condition, t.Bracket) and isinstance(condition.predicate, t.Conj):
        inner = cast(tuple[t.Predicate, ...], condition.predicate.items)
        return [test for item in inner for test in _tests(t.Bracket(condition.name, item))]
    return [_test(condition)]


def _test(condition: t.FilterCondition) -> Test:
    if isinstance(condition, t.Bracket):
        predicate = spell_out(condition.predicate, condition.name)
        names = {condition.name, *variables_of(predicate)}
        return Test(predicate, {name: Comparand() for name in sorted(names)}, condition.name)
    names = variables_of(condition)
    singly = {leaf.variable for leaf in read_singly(condition) if isinstance(leaf, t.Ref)}
    owner = next(iter(singly)) if len(singly) == 1 else None
    return Test(condition, {name: Comparand() for name in sorted(names)}, owner)
