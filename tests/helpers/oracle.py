"""docs/reference.md, section 3 as naive Python: what the engines are tested against.

A query's tree and a short list of events come in, all matches come out. Every formula becomes the set of its
valuations, by recursion over the tree; nothing is shared with the engine but `ceql.syntax.tree`, nothing is
fast, and everything is meant to be seen to be right. Positions inside `Evaluator` are indexes of the
substream, so that contiguity and `n EVENTS` need no special care; `candidates` turns them into positions of the stream.

A filter is a `Pending` constraint of the valuation it was put on. It is settled variable by variable: at once for
those that its own operand binds, at the nearest enclosing formula that binds them for the others, and at the top
for PREV, which looks at the whole match.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import timedelta
from fractions import Fraction
from itertools import groupby, pairwise, product
from typing import Any, NamedTuple, cast

from ceql.syntax import tree
from oracle_predicates import Moment, is_nan, is_number

PositionSet = frozenset[int]
Binding = frozenset[tuple[str, PositionSet]]
Events = Sequence[Mapping[str, Any]]

NANOSECONDS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}
PREV = "PREV."  # stands among a constraint's variables for the whole match; no variable has a dot in its name


class Match(NamedTuple):
    """One match; `bindings` has the selected variables, and is empty for DISTINCT and NONE."""

    start: int
    end: int
    events: tuple[int, ...]
    bindings: frozenset[tuple[str, tuple[int, ...]]]


@dataclass(frozen=True, eq=False)  # by identity: TRUE, 1 and 1.0 are equal in Python, the predicates over them are not
class Atom:
    """A filter without AND, OR, NOT between variables; bare attributes and PREV are those of `owner`."""

    predicate: tree.Predicate
    owner: str | None
    variables: frozenset[str]


@dataclass(frozen=True)
class Pending:
    """An atom on its way up: the variables still to be bound, those to bind at this very formula, those bound."""

    atom: Atom
    missing: frozenset[str]
    due: frozenset[str] = frozenset()
    known: Binding = frozenset()


@dataclass(frozen=True)
class Valuation:
    start: int
    end: int
    binding: Binding
    pending: frozenset[Pending] = frozenset()

    def positions(self, name: str) -> PositionSet:
        return dict(self.binding).get(name, frozenset())

    def every_position(self) -> PositionSet:
        return frozenset().union(*(positions for _, positions in self.binding))


# --- the tree ---


def walk(node: Any) -> Iterator[Any]:
    yield node
    if isinstance(node, tuple):
        for item in node:
            yield from walk(item)
    elif is_dataclass(node):
        for field in fields(node):
            if field.name != "span":
                yield from walk(getattr(node, field.name))


def event_types(formula: tree.Formula) -> frozenset[str]:
    return frozenset(node.type for node in walk(formula) if isinstance(node, tree.Event))


def variables(formula: tree.Formula) -> frozenset[str]:
    return event_types(formula) | {node.variable for node in walk(formula) if isinstance(node, tree.As)}


def unbound(formula: tree.Formula) -> frozenset[str]:
    """The variables of filters that neither their operand nor any formula up to this one binds."""
    match formula:
        case tree.Event():
            return frozenset()
        case tree.As():
            return unbound(formula.formula) - {formula.variable}
        case tree.Plus():
            return unbound(formula.formula) - variables(formula.formula)
        case tree.Then(items=items) | tree.All(items=items):
            return frozenset().union(*(unbound(item) - bound_beside(items, i) for i, item in enumerate(items)))
        case tree.Or():
            return frozenset().union(*map(unbound, formula.items))
        case tree.Filter():
            names = frozenset().union(*(atom.variables for atom in atoms(formula.condition))) - {PREV}
            return unbound(formula.formula) | (names - variables(formula.formula))
        case tree.PartitionBy():
            return unbound(formula.formula)


def bound_beside(items: Sequence[tree.Formula], index: int) -> frozenset[str]:
    return frozenset().union(*(variables(item) for i, item in enumerate(items) if i != index))


def as_atom(condition: tree.Condition) -> Atom:
    names = frozenset(node.variable for node in walk(condition) if isinstance(node, tree.Ref))
    prev = frozenset({PREV} if any(isinstance(node, tree.Prev) for node in walk(condition)) else ())
    if isinstance(condition, tree.Bracket):
        return Atom(condition.predicate, condition.name, names | prev | {condition.name})
    if any(isinstance(node, tree.Attribute) for node in walk(condition)):
        raise ValueError("a bare attribute outside x[...]")
    if prev and len(names) != 1:
        raise ValueError("PREV needs one variable to precede")
    return Atom(condition, next(iter(names)) if len(names) == 1 else None, names | prev)


def atoms(condition: tree.Condition) -> list[Atom]:
    match condition:
        case tree.Conj(items=items) | tree.Disj(items=items):
            return [atom for item in items for atom in atoms(item)]
        case tree.Neg():
            return atoms(condition.item)
    return [as_atom(condition)]


def check_covered(formula: tree.Formula, names: frozenset[str]) -> None:
    """Every atom stands under a variable of `names`, or is of a type that does."""
    match formula:
        case tree.Event():
            if formula.type not in names:
                raise ValueError(f"PARTITION BY does not cover {formula.type!r}")
        case tree.As():
            if formula.variable not in names:
                check_covered(formula.formula, names)
        case tree.Then(items=items) | tree.All(items=items) | tree.Or(items=items):
            for item in items:
                check_covered(item, names)
        case _:
            check_covered(formula.formula, names)


def check_valid(formula: tree.Formula, items: tuple[tree.SelectItem, ...] | None) -> None:
    known = variables(formula)
    for node in walk(formula):
        if isinstance(node, tree.PartitionBy):
            for part in node.parts:
                names = frozenset(ref.name for ref in part.refs if ref.name is not None)
                if not names <= variables(node.formula):
                    raise ValueError(f"nothing binds {sorted(names - variables(node.formula))}")
                if all(ref.name is not None for ref in part.refs):
                    check_covered(node.formula, names)
    wrong = unbound(formula) | {item.name for item in items or () if item.name not in known}
    if wrong:
        raise ValueError(f"nothing binds {sorted(wrong)}")


# --- formulas ---


def united(v: Valuation, w: Valuation) -> Valuation:
    binding = dict(v.binding)
    for name, positions in w.binding:
        binding[name] = binding.get(name, frozenset()) | positions
    return Valuation(min(v.start, w.start), max(v.end, w.end), frozenset(binding.items()), v.pending | w.pending)


def joined(left: set[Valuation], right: set[Valuation], contiguous: bool) -> set[Valuation]:
    by_start: dict[int, list[Valuation]] = defaultdict(list)
    for w in right:
        by_start[w.start].append(w)
    return {
        united(v, w)
        for v in left
        for start in (by_start if not contiguous else [v.end + 1])
        if start > v.end
        for w in by_start.get(start, ())
    }


def marked_due(vs: set[Valuation], names: frozenset[str]) -> set[Valuation]:
    """The same, with what the formula at hand binds (`names`) marked as to be settled there."""

    def mark(p: Pending) -> Pending:
        return replace(p, missing=p.missing - names, due=p.missing & names)

    return {replace(v, pending=frozenset(map(mark, v.pending))) if v.pending else v for v in vs}


@dataclass(frozen=True)
class Evaluator:
    """The valuations of formulas over one (sub)stream."""

    events: Events
    types: Sequence[str | None]
    streams: Sequence[str]

    def valuations(self, formula: tree.Formula) -> set[Valuation]:
        match formula:
            case tree.Event(type=name, stream=stream):
                return {
                    Valuation(i, i, frozenset({(name, frozenset({i}))}))
                    for i, kind in enumerate(self.types)
                    if kind == name and stream in (None, self.streams[i])
                }
            case tree.As(formula=inner, variable=x):
                vs = marked_due(self.valuations(inner), frozenset({x}))
                return self.settled(
                    replace(v, binding=frozenset((dict(v.binding) | {x: v.every_position()}).items())) for v in vs
                )
            case tree.Or(items=items):
                return set().union(*map(self.valuations, items))
            case tree.Then(items=items, contiguous=contiguous):
                parts = [marked_due(self.valuations(f), bound_beside(items, i)) for i, f in enumerate(items)]
                vs = parts[0]
                for part, touching in zip(parts[1:], contiguous, strict=True):
                    vs = joined(vs, part, touching)
                return self.settled(vs)
            case tree.All(items=items):
                parts = [marked_due(self.valuations(f), bound_beside(items, i)) for i, f in enumerate(items)]
                vs = parts[0]
                for part in parts[1:]:
                    vs = {united(v, w) for v in vs for w in part}
                return self.settled(vs)
            case tree.Plus(formula=inner, contiguous=touching):
                once = marked_due(self.valuations(inner), variables(inner))
                vs = new = once
                while new:
                    new = joined(new, once, touching) - vs
                    vs = vs | new
                return self.settled(vs)
            case tree.Filter(formula=inner, condition=condition):
                return self.filtered(self.valuations(inner), condition, variables(inner))
            case tree.PartitionBy(formula=inner, parts=keys):
                return {v for v in self.valuations(inner) if all(self.agrees(v, key) for key in keys)}

    def filtered(self, vs: set[Valuation], condition: tree.Condition, bound: frozenset[str]) -> set[Valuation]:
        match condition:
            case tree.Conj(items=items):
                for item in items:
                    vs = self.filtered(vs, item, bound)
                return vs
            case tree.Disj(items=items):
                return set().union(*(self.filtered(vs, item, bound) for item in items))
            case tree.Neg(item=tree.Neg(item=item)):
                return self.filtered(vs, item, bound)
            case tree.Neg(item=tree.Conj(items=items)):
                return self.filtered(vs, tree.Disj(tuple(map(tree.Neg, items))), bound)
            case tree.Neg(item=tree.Disj(items=items)):
                return self.filtered(vs, tree.Conj(tuple(map(tree.Neg, items))), bound)
            case tree.Neg(item=tree.Bracket(name=name, predicate=predicate)):
                condition = tree.Bracket(name, tree.Neg(predicate))
            case tree.Bracket(name=name, predicate=tree.Conj(items=items)):  # x[P AND Q] is x[P] AND x[Q]
                return self.filtered(
                    vs, tree.Conj(tuple(tree.Bracket(name, cast(tree.Predicate, item)) for item in items)), bound
                )
        atom = as_atom(condition)
        pending = Pending(atom, atom.variables - bound, due=atom.variables & bound)
        return self.settled(replace(v, pending=v.pending | {pending}) for v in vs)

    def settled(self, vs: Iterable[Valuation]) -> set[Valuation]:
        """Those whose constraints that are fully bound here hold; these constraints are done with."""
        result = set()
        for v in vs:
            bound = [replace(p, due=frozenset(), known=p.known | self.bindings(v, p.due)) for p in v.pending]
            if all(self.holds(p) for p in bound if not p.missing):
                result.add(replace(v, pending=frozenset(p for p in bound if p.missing)))
        return result

    def bindings(self, v: Valuation, names: frozenset[str]) -> Binding:
        return frozenset((n, v.every_position() if n == PREV else v.positions(n)) for n in names)

    def holds(self, p: Pending) -> bool:
        known = dict(p.known)
        match_positions = known.pop(PREV, frozenset())
        for chosen in product(*known.values()):
            at = dict(zip(known, chosen, strict=True))
            owner = p.atom.owner
            before = [q for q in match_positions if owner is not None and q < at[owner]]
            previous = self.events[max(before)] if before else {}
            moment = Moment({name: self.events[i] for name, i in at.items()}, owner, previous)
            if moment.truth(p.atom.predicate) is not True:
                return False
        return True

    def agrees(self, v: Valuation, part: tree.Part) -> bool:
        values = [
            self.events[i].get(ref.attribute)
            for ref in part.refs
            for i in (v.every_position() if ref.name is None else v.positions(ref.name))
        ]
        return not values or common_key(values) is not None

    def matched(self, formula: tree.Formula) -> set[Valuation]:
        return self.settled(marked_due(self.valuations(formula), frozenset({PREV})))


# --- clauses ---


def common_key(values: Sequence[Any]) -> Hashable | None:
    """The one value that all of these are, or None where there is none: they differ, or one is NULL or NaN."""
    if not values or any(value is None or is_nan(value) for value in values):
        return None
    keys = {("number" if is_number(value) else type(value).__name__, value) for value in values}
    return next(iter(keys)) if len(keys) == 1 else None


def substream_key(parts: tuple[tree.Part, ...], event: Mapping[str, Any], kind: str | None) -> Hashable | None:
    keys = tuple(
        common_key([event.get(ref.attribute) for ref in part.refs if ref.name in (None, kind)]) for part in parts
    )
    return None if None in keys else keys


def in_window(window: tree.Window | None, view: Events, v: Valuation, time: str, time_unit: str) -> bool:
    first, last = view[v.start], view[v.end]
    match window:
        case None:
            return True
        case tree.EventsWindow():
            return v.end - v.start <= window.count
        case tree.TimeWindow():
            lapse = last[time] - first[time]
            if isinstance(lapse, timedelta):
                return lapse // timedelta(microseconds=1) * 1000 <= window.nanoseconds
            return Fraction(lapse) * NANOSECONDS[time_unit] <= window.nanoseconds
        case tree.AttributeWindow():
            a, b = first.get(window.attribute), last.get(window.attribute)
            if a is None or b is None or is_nan(a) or is_nan(b):
                return False
            if math.isinf(a) or math.isinf(b):
                return bool(b - a <= window.size)
            return Fraction(b) - Fraction(a) <= window.size


def chosen(strategy: tree.Strategy | None, matches: set[Match], index: Mapping[int, int]) -> set[Match]:
    """Step 5, but for ANY; `index` is a position's place in its substream."""

    def beaten(m: Match, by: Match) -> bool:
        c, d = set(m.events), set(by.events)
        match strategy:
            case tree.Strategy.MAX:
                return c < d
            case tree.Strategy.NEXT:
                return c != d and min(c ^ d) in d
            case tree.Strategy.LAST:
                return c != d and max(c ^ d) in d
        return False

    if strategy is tree.Strategy.STRICT:
        return {m for m in matches if all(index[b] - index[a] == 1 for a, b in pairwise(m.events))}
    return {m for m in matches if not any(beaten(m, other) for other in matches)}


def candidates(
    query: tree.Query,
    events: Events,
    *,
    type: str = "type",
    time: str = "time",
    time_unit: str = "ms",
    stream: str = "stream",
) -> list[Match]:
    """All matches, in output order, of which ANY and LIMIT may choose."""
    formula, parts = query.formula, query.partition
    types = event_types(formula)
    if any(ref.name in variables(formula) - types for part in parts for ref in part.refs):
        formula, parts = tree.PartitionBy(formula, parts), ()
    check_valid(formula, query.items)
    names = variables(formula) if query.items is None else {item.name for item in query.items}

    # an event that names no stream is of the only one there is
    stream = query.streams[0] if len(query.streams) == 1 else stream
    streams = [event.get("__stream__", stream) for event in events]
    kinds = [event.get(type, streams[i]) for i, event in enumerate(events)]

    substreams: dict[Hashable, list[int]] = defaultdict(list)
    for i, event in enumerate(events):
        key = substream_key(parts, event, kinds[i])
        if key is not None:
            substreams[key].append(i)

    ends: dict[int, set[Match]] = defaultdict(set)
    place = {position: (key, i) for key, members in substreams.items() for i, position in enumerate(members)}
    for members in substreams.values():
        view = [events[i] for i in members]
        for v in Evaluator(view, [kinds[i] for i in members], [streams[i] for i in members]).matched(formula):
            if in_window(query.window, view, v, time, time_unit):
                bound = {name: tuple(members[i] for i in sorted(v.positions(name))) for name in names}
                m = Match(
                    members[v.start],
                    members[v.end],
                    tuple(sorted({i for positions in bound.values() for i in positions})),
                    frozenset() if query.distinct else frozenset(bound.items()),
                )
                ends[m.end].add(m)

    result: list[Match] = []
    forgotten: dict[Hashable, int] = defaultdict(lambda: -1)  # up to which position, by substream
    for end in sorted(ends):
        scope = None if query.consume is tree.Consume.ANY else place[end][0]
        live = {m for m in ends[end] if m.start > forgotten[scope]}
        kept = chosen(query.strategy, live, {position: i for position, (_, i) in place.items()})
        result += sorted(kept, key=lambda m: (-m.start, m.events, sorted(m.bindings)))
        if kept and query.limit != 0 and query.consume is not tree.Consume.NONE:
            forgotten[scope] = end
    return result


def matches(query: tree.Query, events: Events, **options: Any) -> list[Match]:
    """One admissible output: ANY and LIMIT take the first of `candidates`."""
    found = candidates(query, events, **options)
    return [m for _, group in groupby(found, key=lambda m: m.end) for m in list(group)[: at_most(query)]]


def at_most(query: tree.Query) -> int | None:
    """How many matches one end position may have; None for all of them."""
    if query.strategy is not tree.Strategy.ANY:
        return query.limit
    return 1 if query.limit is None else min(1, query.limit)


def check(query: tree.Query, events: Events, got: Sequence[Match], **options: Any) -> None:
    """Assert that `got`, in output order, is an answer that the contract admits."""
    expected = candidates(query, events, **options)
    order = [(m.end, -m.start) for m in got]
    assert order == sorted(order), f"not by end, then later starts first: {[(m.start, m.end) for m in got]}"
    repeated = [m for m, n in Counter(got).items() if n > 1]
    assert not repeated, f"given more than once: {repeated}"
    surplus = [m for m in got if m not in set(expected)]
    assert not surplus, f"no matches: {surplus}\nthe matches are {expected}"
    limit = at_most(query)
    for end, group in groupby(expected, key=lambda m: m.end):
        all_here, here = list(group), [m for m in got if m.end == end]
        if limit is None:
            missing = [m for m in all_here if m not in here]
            assert not missing, f"missing at {end}: {missing}"
        else:
            starts, wanted = [m.start for m in here], [m.start for m in all_here][:limit]
            assert starts == wanted, f"at {end} with LIMIT {limit} the starts are {starts}, should be {wanted}"
