"""From a formula to its shape: conditions numbered, and whose events they speak of resolved, once for both loops.

AS and FILTER disappear. `φ AS x` adds x to every leaf of φ; a FILTER becomes claims on the node of its operand. A claim
on a variable that its operand does not bind waits until an enclosing formula binds it. A disjunction of conditions
becomes a choice between copies of its operand (docs/reference.md, section 3): always in a unary query, and in a
correlated one if each case has something to look up. Otherwise it stays one claim, `Either`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import product
from typing import cast

from ceql.analysis.conditions import simplify, spell_out, variables_of
from ceql.analysis.scopes import binds, bound_once, subformulas
from ceql.analysis.shape import Claim, Comparand, Either, Kind, Leaf, Leaves, Node, Same, Shape, Test, join_of
from ceql.errors import QueryError
from ceql.syntax import tree as t
from ceql.syntax.printer import print_condition

_MOST_LEAVES = 256  # copies of leaves that a disjunction in a correlated query may become


def resolve(formula: t.Formula, source: str, unary: bool) -> Shape:
    """The shape of a formula; `unary` says that none of its conditions compares events.

    >>> from ceql.syntax.parser import parse_formula
    >>> shape = resolve(parse_formula("A AS x ; (B FILTER x.v < B.v)"), "", unary=False)
    >>> shape.claims[0].node, shape.claims[0].what.variables
    (1, {'B': Comparand(scope=1, leaves=frozenset({1})), 'x': Comparand(scope=2, leaves=frozenset({0}))})
    """
    resolver = _Resolver(source, unary)
    root, waiting = resolver.build(formula)
    assert not waiting, "check() lets through no variable that nothing binds"
    parent = {item: number for number, node in enumerate(resolver.nodes) for item in node.items}
    nodes = tuple(replace(node, parent=parent.get(number, -1)) for number, node in enumerate(resolver.nodes))
    return Shape(nodes, resolver.leaf, tuple(resolver.claims), root)


class _Resolver:
    def __init__(self, source: str, unary: bool) -> None:
        self.source = source
        self.unary = unary
        self.nodes: list[Node] = []
        self.leaf: dict[int, Leaf] = {}
        self.claims: list[Claim] = []

    def build(self, formula: t.Formula) -> tuple[int, list[Claim]]:
        """The node of a formula, and the claims in it that wait for an enclosing formula to bind a variable."""
        match formula:
            case t.Event(type, stream):
                node = self._add(Kind.LEAF)
                self.leaf[node] = Leaf(type, stream, frozenset([type]))
                return node, []
            case t.As(inner, variable):
                node, waiting = self.build(inner)
                for number in self._below(node):
                    leaf = self.leaf[number]
                    self.leaf[number] = replace(leaf, variables=leaf.variables | {variable})
                return node, self._settle(waiting, node, [variable])
            case t.Plus(inner, contiguous):
                body, waiting = self.build(inner)
                node = self._add(Kind.REPEAT, [body], (contiguous,))
                return node, self._settle(waiting, node, binds(inner))
            case t.Then(items, contiguous):
                return self._build_items(Kind.SEQUENCE, items, contiguous)
            case t.All(items):
                return self._build_items(Kind.ALL, items)
            case t.Or(items):
                return self._choice([self.build(item) for item in items])
            case t.Filter(inner, condition):
                return self._filter(inner, simplify(condition, bound_once(inner), self.source))
            case t.PartitionBy(inner, parts):
                node, waiting = self.build(inner)
                for part in parts:
                    self._partition(node, part, formula)
                return node, waiting

    def _add(self, kind: Kind, items: Iterable[int] = (), contiguous: tuple[bool, ...] = ()) -> int:
        self.nodes.append(Node(kind, tuple(items), contiguous))
        return len(self.nodes) - 1

    def _below(self, node: int) -> Leaves:
        if self.nodes[node].kind is Kind.LEAF:
            return frozenset([node])
        return frozenset().union(*(self._below(item) for item in self.nodes[node].items))

    def _choice(self, built: list[tuple[int, list[Claim]]]) -> tuple[int, list[Claim]]:
        return self._add(Kind.CHOICE, [node for node, _ in built]), [c for _, claims in built for c in claims]

    def _build_items(
        self, kind: Kind, items: tuple[t.Formula, ...], contiguous: tuple[bool, ...] = ()
    ) -> tuple[int, list[Claim]]:
        built = [self.build(item) for item in items]
        node = self._add(kind, [item for item, _ in built], contiguous)
        waiting: list[Claim] = []
        for index, (_, claims) in enumerate(built):
            beside = frozenset().union(*(binds(item) for k, item in enumerate(items) if k != index))
            waiting += self._settle(claims, node, beside)
        return node, waiting

    # --- FILTER ---

    def _filter(self, inner: t.Formula, condition: t.FilterCondition) -> tuple[int, list[Claim]]:
        parts = _conjuncts(condition)
        either = [k for k, part in enumerate(parts) if isinstance(part, t.Disj)]
        if self.unary and either:  # each case is a copy with all conditions
            cases = cast(t.Disj, parts[either[-1]]).items
            before, after = parts[: either[-1]], parts[either[-1] + 1 :]
            return self._choice([self._filter(inner, t.Conj((*before, case, *after))) for case in cases])
        parts.sort(key=lambda part: not isinstance(part, t.Disj))
        if either and self._spreads(inner, cast(t.Disj, parts[0])):  # the other conditions are on all copies together
            cases = cast(t.Disj, parts.pop(0)).items
            node, waiting = self._choice([self._filter(inner, cast(t.FilterCondition, case)) for case in cases])
        else:
            node, waiting = self.build(inner)
        for part in parts:
            waiting += self._claim(node, part, binds(inner))
        return node, waiting

    def _spreads(self, inner: t.Formula, condition: t.Disj) -> bool:
        """Whether a disjunction becomes a choice of copies: every case has a part that the engine can look up."""
        cases = [cast(t.FilterCondition, item) for item in condition.items]
        copies = len(cases) * sum(1 for formula in subformulas(inner) if isinstance(formula, t.Event))
        return copies <= _MOST_LEAVES and all(any(map(_can_look_up, _conjuncts(case))) for case in cases)

    def _claim(self, node: int, condition: t.FilterCondition, own: frozenset[str]) -> list[Claim]:
        """Put a condition on a node; the result waits for variables of an enclosing formula."""
        text, span = print_condition(condition), condition.span
        if isinstance(condition, t.Disj):
            cases = tuple(tuple(test for part in case for test in _tests(part)) for case in _cases(condition))
            return self._settle([Claim(-1, node, Either(cases), text, span)], node, own)
        tests = [_test(cast(t.Bracket | t.Comparison, condition))] if self.unary else _tests(condition)
        return self._settle([Claim(-1, node, test, text, span) for test in tests], node, own)

    def _settle(self, claims: Iterable[Claim], scope: int, bound: Iterable[str]) -> list[Claim]:
        """Tell the claims whose events the variables `bound` are, in `scope`; the result still waits for others."""
        names, leaves, waiting = frozenset(bound), self._below(scope), []

        def told(test: Test) -> Test:
            here = {
                name: Comparand(scope, frozenset(leaf for leaf in leaves if name in self.leaf[leaf].variables))
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
            else:
                self.claims.append(replace(claim, number=len(self.claims)))
        return waiting

    # --- PARTITION BY ---

    def _partition(self, node: int, part: t.Part, formula: t.PartitionBy) -> None:
        terms: dict[int, tuple[t.Expression, ...]] = {}
        span = part.span or formula.span
        for number in sorted(self._below(node)):
            leaf = self.leaf[number]
            own = [ref for ref in part.refs if ref.name is None or ref.name in leaf.variables]
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
        self.claims.append(Claim(len(self.claims), node, Same(terms), f"PARTITION BY [{refs}]", span))


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
    return [_test(cast(t.Bracket | t.Comparison, condition))]


def _test(condition: t.Bracket | t.Comparison) -> Test:
    if isinstance(condition, t.Bracket):
        predicate = spell_out(condition.predicate, condition.name)
        names = {condition.name, *variables_of(predicate)}
        return Test(predicate, {name: Comparand() for name in sorted(names)}, condition.name)
    names = variables_of(condition)
    owner = next(iter(names)) if len(names) == 1 else None
    return Test(condition, {name: Comparand() for name in sorted(names)}, owner)
