"""docs/reference.md, section 3 as naive Python: what the engines are tested against.

A query's tree and a short list of events come in, all matches come out. Every formula becomes the set of its
valuations, by recursion over the tree; nothing is shared with the engine but `ceql.syntax.tree`, nothing is
fast, and everything is meant to be seen to be right. Positions inside `Evaluator` are indexes of the
substream, so that contiguity and `n EVENTS` need no special care; `candidates` turns them into positions of the stream.

NOT becomes a `Gap` of the valuation: where it looks, and the conditions of enclosing filters that name it. The gaps are
looked at when the whole match is there, since conditions may compare the absent event with any of its events. `->`
becomes a gap for each event that could begin what follows. Its conditions are those of enclosing filters; they are
asked if, besides that event, they name only what stands to the left of the `->`, and see what of it is bound there.

A filter is a `Pending` constraint of the valuation it was put on. It is settled variable by variable: at once for
those that its own operand binds, at the nearest enclosing formula that binds them for the others, and at the top
for PREV, which looks at the whole match.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import timedelta
from fractions import Fraction
from functools import partial
from importlib import import_module
from itertools import groupby, pairwise, product
from typing import Any, NamedTuple, TypeVar, cast

from ceql.syntax import tree
from ceql.syntax.absence import trailing
from oracle_measures import aggregate, lapse
from oracle_predicates import Moment, is_nan, is_number

PositionSet = frozenset[int]
Binding = frozenset[tuple[str, PositionSet]]
Events = Sequence[Mapping[str, Any]]

NANOSECONDS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}
Found = TypeVar("Found")
Measure = Callable[[tree.Aggregate | tree.Lapse], Any]
PREV = "PREV."  # stands among a constraint's variables for the whole match; no variable has a dot in its name


class Match(NamedTuple):
    """One match; `bindings` has the selected variables, and is empty for DISTINCT and NONE."""

    start: int
    end: int
    events: tuple[int, ...]
    bindings: frozenset[tuple[str, tuple[int, ...]]]


@dataclass(frozen=True, eq=False)  # by identity: TRUE, 1 and 1.0 are equal in Python, the predicates over them are not
class Atom:
    """A filter without AND, OR, NOT between variables; bare attributes and PREV are those of `owner`.

    Of the variables, those in `folded` stand in aggregates alone: their events are not combined with others.
    """

    predicate: tree.Predicate
    owner: str | None
    variables: frozenset[str]
    folded: frozenset[str] = frozenset()
    measured: bool = False


@dataclass(frozen=True)
class Pending:
    """An atom on its way up: the variables still to be bound, those to bind at this very formula, those bound."""

    atom: Atom
    missing: frozenset[str]
    due: frozenset[str] = frozenset()
    known: Binding = frozenset()
    interval: tuple[int, int] = (0, -1)  # of the valuation that is filtered


@dataclass(frozen=True)
class Demand:
    """A condition on an absent event on its way up, as `Pending`; or a part of a PARTITION BY around it.

    `own` are the names by which it speaks of the absent event.
    """

    condition: tree.Condition | tree.Part
    own: frozenset[str]
    missing: frozenset[str]
    due: frozenset[str] = frozenset()
    known: Binding = frozenset()
    interval: tuple[int, int] = (0, -1)


@dataclass(frozen=True)
class Gap:
    """Between `low` and `high` there is no event of the kinds that meets all demands; None: beyond the match.

    `names` are those of the absent event. A gap of `->` has besides in `left` the variables of what stands to its left,
    and in `seen` what they are bound to.
    """

    absent: tree.Not | tree.Event
    low: int | None
    high: int | None
    names: frozenset[str]
    demands: frozenset[Demand] = frozenset()
    left: frozenset[str] = frozenset()
    seen: Binding = frozenset()

    @property
    def is_next(self) -> bool:
        return isinstance(self.absent, tree.Event)

    def after(self, v: Valuation, names: frozenset[str]) -> Gap:
        """The gap, with `v` to its left, of a formula that binds these names."""
        return replace(self, left=self.left | names, seen=both(self.seen, v.binding)) if self.is_next else self


@dataclass(frozen=True)
class Valuation:
    start: int
    end: int
    binding: Binding
    pending: frozenset[Pending] = frozenset()
    gaps: frozenset[Gap] = frozenset()
    waits: bool = False  # for events to come, see preferred_oracle

    def positions(self, name: str) -> PositionSet:
        return dict(self.binding).get(name, frozenset())

    def every_position(self) -> PositionSet:
        return frozenset().union(*(positions for _, positions in self.binding))


# --- the tree ---


def of_each_node(function: Callable[[Any], Found]) -> Callable[[Any], Found]:
    """The function, which works once on each part of a tree: the same few parts are asked about all the time."""
    known: dict[int, tuple[Any, Found]] = {}

    def remembered(node: Any) -> Found:
        found = known.get(id(node))
        if found is None or found[0] is not node:
            if len(known) > 1 << 14:
                known.clear()
            found = known[id(node)] = node, function(node)
        return found[1]

    return remembered


@of_each_node
def walk(node: Any) -> tuple[Any, ...]:
    inner: tuple[Any, ...] = ()
    if isinstance(node, tuple):
        inner = node
    elif is_dataclass(node):
        inner = tuple(getattr(node, field.name) for field in fields(node) if field.name != "span")
    return (node, *(part for item in inner for part in walk(item)))


def event_types(formula: tree.Formula) -> frozenset[str]:
    """Of all events, the absent ones included."""
    return frozenset(node.type for node in walk(formula) if isinstance(node, tree.Event))


@of_each_node
def variables(formula: tree.Formula) -> frozenset[str]:
    absent = {id(event) for node in walk(formula) if isinstance(node, tree.Not) for event in walk(node)}
    there = [node for node in walk(formula) if id(node) not in absent]
    return frozenset(node.type for node in there if isinstance(node, tree.Event)) | {
        node.variable for node in there if isinstance(node, tree.As)
    }


def name_of(absent: tree.Not) -> str | None:
    if absent.variable is not None:
        return absent.variable
    return absent.formula.type if isinstance(absent.formula, tree.Event) else None


def gap_of(absent: tree.Not) -> Gap:
    """The gap of a NOT, without a place."""
    name = name_of(absent)
    return Gap(absent, None, None, frozenset() if name is None else frozenset({name}))


def is_asked(demand: Demand) -> bool:
    """Whether a condition is asked of an event that could begin what follows a `->`.

    It must name that event, and otherwise only what stands to the left. A total of what that event is one of is not
    known yet, nor are the times of the match.
    """
    if isinstance(demand.condition, tree.Part):
        return True
    parts = list(walk(demand.condition))
    totals = {part.variable for part in parts if isinstance(part, tree.Aggregate)}
    timeless = not any(isinstance(part, tree.Lapse) for part in parts)
    return bool(demand.own) and not demand.missing and not totals & demand.own and timeless


def absent_names(formula: tree.Formula) -> frozenset[str]:
    """The names of absent events; a type that is bound as well names the events that are there."""
    names = {name_of(node) for node in walk(formula) if isinstance(node, tree.Not)}
    return frozenset(name for name in names if name is not None) - variables(formula)


def unbound(formula: tree.Formula) -> frozenset[str]:
    """The variables of filters that neither their operand nor any formula up to this one binds."""
    match formula:
        case tree.Event() | tree.Not():
            return frozenset()
        case tree.As():
            return unbound(formula.formula) - {formula.variable}
        case tree.Plus() | tree.Count():
            return unbound(formula.formula) - variables(formula.formula)
        case tree.Then(items=items) | tree.All(items=items):
            return frozenset().union(*(unbound(item) - bound_beside(items, i) for i, item in enumerate(items)))
        case tree.Or():
            return frozenset().union(*map(unbound, formula.items))
        case tree.Filter():
            names = frozenset().union(*(atom.variables for atom in atoms(formula.condition))) - {PREV}
            return unbound(formula.formula) | (names - variables(formula.formula) - absent_names(formula.formula))
        case tree.PartitionBy() | tree.Within():
            return unbound(formula.formula)


def bound_beside(items: Sequence[tree.Formula], index: int) -> frozenset[str]:
    return frozenset().union(*(variables(item) for i, item in enumerate(items) if i != index))


def named(condition: tree.Condition) -> frozenset[str]:
    """The variables that a condition speaks of."""
    brackets = [node.name for node in walk(condition) if isinstance(node, tree.Bracket)]
    others = [node.variable for node in walk(condition) if isinstance(node, tree.Ref | tree.Aggregate)]
    return frozenset([*brackets, *others])


def conjuncts(condition: tree.Condition) -> list[tree.Condition]:
    """The conditions that must all hold, with NOT pushed that far."""
    match condition:
        case tree.Conj(items=items):
            return [part for item in items for part in conjuncts(item)]
        case tree.Neg(item=tree.Neg(item=item)):
            return conjuncts(item)
        case tree.Neg(item=tree.Disj(items=items)):
            return [part for item in items for part in conjuncts(tree.Neg(item))]
    return [condition]


def as_atom(condition: tree.Condition) -> Atom:
    names = frozenset(node.variable for node in walk(condition) if isinstance(node, tree.Ref))
    prev = frozenset({PREV} if any(isinstance(node, tree.Prev) for node in walk(condition)) else ())
    if isinstance(condition, tree.Bracket):
        return Atom(condition.predicate, condition.name, names | prev | {condition.name})
    if any(isinstance(node, tree.Attribute) for node in walk(condition)):
        raise ValueError("a bare attribute outside x[...]")
    totals = [node for node in walk(condition) if isinstance(node, tree.Aggregate)]
    inside = {id(part) for total in totals for part in walk(total)}
    names = frozenset(
        node.variable for node in walk(condition) if isinstance(node, tree.Ref) and id(node) not in inside
    )
    if prev and len(names) != 1:
        raise ValueError("PREV needs one variable to precede")
    folded = frozenset(total.variable for total in totals)
    measured = any(isinstance(node, tree.Aggregate | tree.Lapse) for node in walk(condition))
    owner = next(iter(names)) if len(names) == 1 else None
    return Atom(condition, owner, names | folded | prev, folded - names, measured)


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
        case tree.Not():
            pass
        case tree.Then(items=items) | tree.All(items=items) | tree.Or(items=items):
            for item in items:
                check_covered(item, names)
        case _:
            check_covered(formula.formula, names)


def only_empty(formula: tree.Formula) -> bool:
    match formula:
        case tree.Event():
            return False
        case tree.Then(items=items) | tree.All(items=items) | tree.Or(items=items):
            return all(map(only_empty, items))
        case tree.Count(most=0):
            return True
    return only_empty(formula.formula)


def check_valid(formula: tree.Formula, items: tuple[tree.SelectItem, ...] | None) -> None:
    if only_empty(formula):
        raise ValueError("this formula matches no events")
    known = variables(formula)
    for node in walk(formula):
        if isinstance(node, tree.PartitionBy):
            for part in node.parts:
                names = frozenset(ref.name for ref in part.refs if ref.name is not None)
                known_here = variables(node.formula) | absent_names(node.formula)
                if not names <= known_here:
                    raise ValueError(f"nothing binds {sorted(names - known_here)}")
                if all(ref.name is not None for ref in part.refs):
                    check_covered(node.formula, names)
    totals = {node.variable for node in walk(formula) if isinstance(node, tree.Aggregate)}
    for name in sorted(totals & absent_names(formula)):
        raise ValueError(f"'{name}' is absent")
    wrong = unbound(formula) | {item.name for item in items or () if item.name not in known}
    if wrong:
        raise ValueError(f"nothing binds {sorted(wrong)}")


def both(one: Binding, two: Binding) -> Binding:
    binding = dict(one)
    for name, positions in two:
        binding[name] = binding.get(name, frozenset()) | positions
    return frozenset(binding.items())


# --- formulas ---

EMPTY = Valuation(0, -1, frozenset())
"""What a part that may be missing has besides its valuations. Filters ask nothing of it."""


def united(v: Valuation, w: Valuation) -> Valuation:
    start, end = min(v.start, w.start), max(v.end, w.end)
    return Valuation(start, end, both(v.binding, w.binding), v.pending | w.pending, v.gaps | w.gaps)


Instead = Sequence[Gap]
"""The events that could begin the right side of a joint, as gaps without a place."""


def follows(
    v: Valuation, w: Valuation, joint: tree.Joint, names: frozenset[str], absent: Instead, instead: Instead
) -> Valuation:
    """w after v, with gaps between them; `names` are those of the formula to the left of w."""
    kept = [*absent, *(instead if joint is tree.Joint.NEXT else ())]
    between = frozenset(replace(gap, low=v.end, high=w.start).after(v, names) for gap in kept)
    w = replace(w, gaps=frozenset(gap.after(v, names) for gap in w.gaps))
    pair = united(v, w)
    return replace(pair, gaps=pair.gaps | between) if between else pair


def joined(
    left: set[Valuation],
    right: set[Valuation],
    joint: tree.Joint,
    names: frozenset[str],
    absent: Instead = (),
    instead: Instead = (),
) -> set[Valuation]:
    by_start: dict[int, list[Valuation]] = defaultdict(list)
    for w in right:
        by_start[w.start].append(w)
    return {
        follows(v, w, joint, names, absent, instead)
        for v in left
        for start in (by_start if joint is not tree.Joint.TOUCH else [v.end + 1])
        if start > v.end
        for w in by_start.get(start, ())
    }


def asked_parts(condition: tree.Condition) -> list[tree.Condition]:
    """The conditions that must all hold; `x[P AND Q]` is two."""
    found: list[tree.Condition] = []
    for part in conjuncts(condition):
        if isinstance(part, tree.Neg) and isinstance(part.item, tree.Bracket):
            part = tree.Bracket(part.item.name, tree.Neg(part.item.predicate))
        if isinstance(part, tree.Bracket):
            found += [tree.Bracket(part.name, cast(tree.Predicate, item)) for item in conjuncts(part.predicate)]
        else:
            found.append(part)
    return found


def marked_due(vs: set[Valuation], names: frozenset[str]) -> set[Valuation]:
    """The same, with what the formula at hand binds (`names`) marked as to be settled there."""

    def mark(p: Any) -> Any:
        return replace(p, missing=p.missing - names, due=p.missing & names)

    return {
        replace(
            v,
            pending=frozenset(map(mark, v.pending)),
            gaps=frozenset(map(partial(marked_gap, names=names), v.gaps)),
        )
        if v.pending or v.gaps
        else v
        for v in vs
    }


def marked_gap(gap: Gap, names: frozenset[str]) -> Gap:
    marked = (replace(d, missing=d.missing - names, due=d.missing & names) for d in gap.demands)
    return replace(gap, demands=frozenset(marked))


@dataclass(frozen=True)
class Evaluator:
    """The valuations of formulas over one (sub)stream."""

    events: Events
    types: Sequence[str | None]
    streams: Sequence[str]
    time: str = "time"
    time_unit: str = "ms"

    def valuations(self, formula: tree.Formula) -> set[Valuation]:
        match formula:
            case tree.Event(type=name, stream=stream):
                return {
                    Valuation(i, i, frozenset({(name, frozenset({i}))}))
                    for i, kind in enumerate(self.types)
                    if kind == name and stream in (None, self.streams[i])
                }
            case tree.Or(items=items):
                return set().union(*map(self.valuations, items))
            case tree.Then():
                return self.settled(self.in_sequence(formula))
            case tree.All(items=items):
                parts = [marked_due(self.valuations(f), bound_beside(items, i)) for i, f in enumerate(items)]
                vs = parts[0]
                for part in parts[1:]:
                    vs = {w if v == EMPTY else v if w == EMPTY else united(v, w) for v in vs for w in part}
                return self.settled(vs)
            case tree.Plus(formula=inner, joint=joint):
                return self.repeated(inner, 1, None, joint)
            case tree.Count(formula=inner, least=least, most=most, joint=joint):
                return self.repeated(inner, least, most, joint)
            case tree.As() | tree.Within() | tree.Filter() | tree.PartitionBy():
                return self.around(formula, self.valuations(formula.formula))
            case tree.Not():
                raise ValueError("NOT by itself")

    def around(
        self, formula: tree.As | tree.Within | tree.Filter | tree.PartitionBy, vs: set[Valuation]
    ) -> set[Valuation]:
        """What is left of valuations of a formula by what stands around it."""
        match formula:
            case tree.As(variable=x):
                vs = marked_due({self.begun_as(v, x) for v in vs}, frozenset({x}))
                return self.settled(
                    replace(v, binding=frozenset((dict(v.binding) | {x: v.every_position()}).items()))
                    if v != EMPTY
                    else v
                    for v in vs
                )
            case tree.Within(window=window):
                return {v for v in vs if v == EMPTY or self.in_window(window, v)}
            case tree.Filter(formula=inner, condition=condition):
                for conjunct in conjuncts(condition):
                    if named(conjunct) & absent_names(inner):
                        if any(isinstance(node, tree.Prev) for node in walk(conjunct)):
                            raise ValueError("PREV has no meaning for an event that is absent")
                        vs = self.settled(self.demanding(v, conjunct, variables(inner)) for v in vs)
                    else:
                        for part in asked_parts(conjunct):
                            vs = {self.asking(v, part, variables(inner)) for v in vs}
                        vs = self.filtered(vs, conjunct, variables(inner))
                return vs
            case tree.PartitionBy(parts=keys):
                return {self.keyed(v, keys) for v in vs if all(self.agrees(v, key) for key in keys)}

    def in_sequence(self, formula: tree.Then) -> set[Valuation]:
        """One part after the other. Where a part is missing, or NOT stands, the neighbours are joined directly."""
        there = [item for item in formula.items if not isinstance(item, tree.Not)]
        found: dict[tuple[tree.Joint | None, Instead], set[Valuation]] = {(None, ()): {EMPTY}}
        """What is there so far, by how the next is joined to it, and what is absent until then."""
        names, place, has_next = frozenset[str](), 0, tree.Joint.NEXT in formula.joints
        for k, item in enumerate(formula.items):
            further: dict[tuple[tree.Joint | None, Instead], set[Valuation]] = defaultdict(set)
            sign = formula.joints[k - 1] if k else tree.Joint.THEN
            part: set[Valuation] = set()
            instead: Instead = ()
            if not isinstance(item, tree.Not):
                beside = bound_beside(there, place)
                part = marked_due(self.valuations(item), beside)
                instead = [marked_gap(gap, beside) for gap in self.begins(item)] if has_next else []
                place += 1
            for (joint, absent), vs in found.items():
                joint = sign if joint is None else joint.beside(sign)
                if isinstance(item, tree.Not):
                    further[joint, (*absent, gap_of(item))] |= vs
                    continue
                if EMPTY in part:
                    further[joint, absent] |= vs
                if EMPTY in vs:
                    leading = frozenset(absent)
                    further[None, ()] |= {
                        replace(w, gaps=w.gaps | {replace(gap, high=w.start) for gap in leading})
                        for w in part - {EMPTY}
                    }
                further[None, ()] |= joined(vs - {EMPTY}, part - {EMPTY}, joint, names, absent, instead)
            names |= variables(item)
            found = further
        return {
            v if v == EMPTY else replace(v, gaps=v.gaps | {replace(gap, low=v.end) for gap in absent})
            for (_, absent), vs in found.items()
            for v in vs
        }

    def begins(self, formula: tree.Formula) -> list[Gap]:
        """The events at which a formula can begin, as gaps that know the conditions inside the formula."""
        match formula:
            case tree.Event(type=name):
                return [Gap(formula, None, None, frozenset({name}))]
            case tree.As(formula=inner, variable=x):
                return [self.named_also(gap, x) for gap in self.begins(inner)]
            case tree.Or(items=items):
                return [gap for item in items for gap in self.begins(item)]
            case tree.All(items=items):
                return [self.inside(g, bound_beside(items, k)) for k, f in enumerate(items) for g in self.begins(f)]
            case tree.Then(items=items):
                found: list[Gap] = []
                for k, item in enumerate(items):
                    if isinstance(item, tree.Not):
                        continue
                    found += [self.inside(gap, bound_beside(items, k)) for gap in self.begins(item)]
                    if EMPTY not in self.valuations(item):
                        break
                return found
            case tree.Plus(formula=inner) | tree.Count(formula=inner):
                if only_empty(formula):
                    return []
                return [self.inside(gap, variables(inner)) for gap in self.begins(inner)]
            case tree.Within(formula=inner):
                return self.begins(inner)
            case tree.Filter(formula=inner, condition=condition):
                parts = [p for c in conjuncts(condition) if not named(c) & absent_names(inner) for p in asked_parts(c)]
                found = self.begins(inner)
                for part in parts:
                    found = [self.asked(gap, part, frozenset()) for gap in found]
                bound = variables(inner)
                return [self.inside(gap, bound) for gap in found]
            case tree.PartitionBy(formula=inner, parts=keys):
                found = self.begins(inner)
                for key in keys:
                    found = [replace(g, demands=g.demands | {Demand(key, g.names, frozenset())}) for g in found]
                return found
        raise ValueError("NOT by itself")

    def inside(self, gap: Gap, bound: frozenset[str]) -> Gap:
        """The gap without the conditions that speak of what the formula that begins here binds besides."""
        return replace(gap, demands=frozenset(d for d in gap.demands if not d.missing & bound))

    def named_also(self, gap: Gap, x: str) -> Gap:
        """The gap of an event that is called x too."""
        demands = (replace(d, own=d.own | {x}, missing=d.missing - {x}) if x in d.missing else d for d in gap.demands)
        return replace(gap, names=gap.names | {x}, demands=frozenset(demands))

    def begun_as(self, v: Valuation, x: str) -> Valuation:
        """The valuation of a formula that is called x."""
        if not any(gap.is_next for gap in v.gaps):
            return v
        return replace(v, gaps=frozenset(self.named_also(gap, x) if gap.is_next else gap for gap in v.gaps))

    def asked(self, gap: Gap, condition: tree.Condition, bound: frozenset[str]) -> Gap:
        names = named(condition)
        others = names - gap.names
        demand = Demand(condition, names & gap.names, others - bound, others & bound)
        return replace(gap, demands=gap.demands | {demand})

    def asking(self, v: Valuation, condition: tree.Condition, bound: frozenset[str]) -> Valuation:
        """The valuation, with a condition on the events of its gaps of `->`."""
        if not any(gap.is_next for gap in v.gaps):
            return v
        gaps = (self.told(v, self.asked(gap, condition, bound)) if gap.is_next else gap for gap in v.gaps)
        return replace(v, gaps=frozenset(gaps))

    def keyed(self, v: Valuation, parts: Sequence[tree.Part]) -> Valuation:
        """The valuation, whose absent events have its keys."""
        gaps = set()
        for gap in v.gaps:
            known = gap.seen if gap.is_next else v.binding
            every = frozenset().union(*(positions for _, positions in known))
            whole: Binding = frozenset({("", every), *known})
            demands = frozenset(Demand(part, gap.names, frozenset(), known=whole) for part in parts)
            gaps.add(replace(gap, demands=gap.demands | demands))
        return replace(v, gaps=frozenset(gaps))

    def demanding(self, v: Valuation, condition: tree.Condition, bound: frozenset[str]) -> Valuation:
        """The valuation, with a condition on those of its absent events that it names."""
        names = named(condition)
        gaps = set()
        for gap in v.gaps:
            if gap.names & names and not gap.is_next:
                others = names - gap.names
                interval = (v.start, v.end)
                demand = Demand(condition, gap.names, others - bound, others & bound, interval=interval)
                gap = replace(gap, demands=gap.demands | {demand})
            gaps.add(gap)
        return replace(v, gaps=frozenset(gaps))

    def is_free(
        self, v: Valuation, reaches: Callable[[int, int], bool], members: Sequence[int], forgotten: int
    ) -> bool:
        """Whether no event in a gap is one that it keeps away; `reaches` tells what the window holds together."""
        return all(self.is_open(v, gap, reaches, members, forgotten) for gap in v.gaps)

    def is_open(
        self, v: Valuation, gap: Gap, reaches: Callable[[int, int], bool], members: Sequence[int], forgotten: int
    ) -> bool:
        for i in range(len(self.events)):
            if gap.low is None:
                inside = i < v.start and members[i] > forgotten and reaches(i, v.end)
            elif gap.high is None:
                inside = i > v.end and reaches(v.start, i)
            else:
                inside = gap.low < i < gap.high
            kinds = [node for node in walk(gap.absent) if isinstance(node, tree.Event)]
            is_one = any(self.types[i] == k.type and k.stream in (None, self.streams[i]) for k in kinds)
            asked = [demand for demand in gap.demands if not gap.is_next or is_asked(demand)]
            if inside and is_one and all(self.meets(v, i, demand) for demand in asked):
                return False
        return True

    def meets(self, v: Valuation, i: int, demand: Demand) -> bool:
        known, event = dict(demand.known), self.events[i]
        if isinstance(demand.condition, tree.Part):
            mine = [ref for ref in demand.condition.refs if ref.name is None or ref.name in demand.own]
            values = [
                self.events[i].get(ref.attribute)
                for ref in demand.condition.refs
                for i in known.get("" if ref.name is None else ref.name, ())
            ]
            return not mine or common_key([*values, *(event.get(ref.attribute) for ref in mine)]) is not None
        known = {**known, **dict.fromkeys(demand.own, frozenset({i}))}
        measure = self.measure(known, demand.interval)
        return self.satisfies(demand.condition, known, measure, v.every_position())

    def satisfies(
        self, condition: tree.Condition, known: Mapping[str, PositionSet], measure: Measure, match: PositionSet
    ) -> bool:
        """Whether a condition holds of all events that its variables are bound to; `match` is where PREV looks."""
        satisfies = partial(self.satisfies, known=known, measure=measure, match=match)
        match condition:
            case tree.Conj(items=items):
                return all(map(satisfies, items))
            case tree.Disj(items=items):
                return any(map(satisfies, items))
            case tree.Neg(item=tree.Neg(item=item)):
                return satisfies(item)
            case tree.Neg(item=tree.Conj(items=items)):
                return satisfies(tree.Disj(tuple(map(tree.Neg, items))))
            case tree.Neg(item=tree.Disj(items=items)):
                return satisfies(tree.Conj(tuple(map(tree.Neg, items))))
            case tree.Neg(item=tree.Bracket(name=owner, predicate=predicate)):
                condition = tree.Bracket(owner, tree.Neg(predicate))
        atom = as_atom(condition)
        choices = {n: known.get(n, frozenset()) for n in atom.variables - atom.folded - {PREV}}
        return all(
            self.true_of(atom, dict(zip(choices, chosen, strict=True)), measure, match)
            for chosen in product(*choices.values())
        )

    def true_of(self, atom: Atom, at: Mapping[str, int], measure: Measure, match: PositionSet) -> bool:
        """Whether an atom is true of one event for each variable."""
        before = [q for q in match if atom.owner is not None and q < at[atom.owner]]
        previous = self.events[max(before)] if before else {}
        events = {name: self.events[i] for name, i in at.items()}
        return Moment(events, atom.owner, previous, self.time_unit, measure).truth(atom.predicate) is True

    def measure(self, known: Mapping[str, PositionSet], interval: tuple[int, int]) -> Measure:
        """What aggregates and times are of a valuation."""

        def value(e: tree.Aggregate | tree.Lapse) -> Any:
            if isinstance(e, tree.Aggregate):
                return aggregate(e, [self.events[i] for i in sorted(known.get(e.variable, ()))], self.time_unit)
            first, last = interval
            return None if last < first else lapse(e, self.events[first][self.time], self.events[last][self.time])

        return value

    def repeated(self, inner: tree.Formula, least: int, most: int | None, joint: tree.Joint) -> set[Valuation]:
        names = variables(inner)
        once = marked_due(self.valuations(inner), names)
        instead = [marked_gap(gap, names) for gap in self.begins(inner)] if joint is tree.Joint.NEXT else []
        if EMPTY in once:  # a round that is missing takes no place
            once, least = once - {EMPTY}, 0
        found: set[Valuation] = {EMPTY} if least == 0 else set()
        rounds, vs = 0, {EMPTY}
        while vs and rounds != most:
            rounds, vs = rounds + 1, once if rounds == 0 else joined(vs, once, joint, names, (), instead)
            if rounds >= least:
                found |= vs
        return self.settled(found)

    def in_window(self, window: tree.Window, v: Valuation) -> bool:
        return in_window(window, self.events, v.start, v.end, self.time, self.time_unit)

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
        if EMPTY in vs and not self.allows_nothing(atom, bound):
            vs = vs - {EMPTY}
        return self.settled(
            v if v == EMPTY else replace(v, pending=v.pending | {replace(pending, interval=(v.start, v.end))})
            for v in vs
        )

    def allows_nothing(self, atom: Atom, bound: frozenset[str]) -> bool:
        """Whether the empty valuation satisfies a filter: it asks nothing of it, but for aggregates."""
        if not atom.measured or (atom.variables - atom.folded) & bound:
            return True
        if atom.variables - bound:
            raise ValueError("this asks for an aggregate of a part that may be missing, and compares it with another")
        nothing = Moment({}, None, {}, self.time_unit, self.measure({}, (0, -1)))
        return nothing.truth(atom.predicate) is True

    def settled(self, vs: Iterable[Valuation]) -> set[Valuation]:
        """Those whose constraints that are fully bound here hold; these constraints are done with."""
        result = set()
        for v in vs:
            bound = [replace(p, due=frozenset(), known=p.known | self.bindings(v, p.due)) for p in v.pending]
            if all(self.holds(p) for p in bound if not p.missing):
                gaps = frozenset(self.told(v, gap) for gap in v.gaps)
                result.add(replace(v, pending=frozenset(p for p in bound if p.missing), gaps=gaps))
        return result

    def told(self, v: Valuation, gap: Gap) -> Gap:
        """The gap, whose conditions know what is bound here; `->` drops those that speak of what comes later."""
        if not gap.is_next:
            known = [replace(d, due=frozenset(), known=d.known | self.bindings(v, d.due)) for d in gap.demands]
            return replace(gap, demands=frozenset(known))
        seen = dict(gap.seen)
        demands = [
            replace(d, due=frozenset(), known=d.known | {(name, seen.get(name, frozenset())) for name in d.due})
            for d in gap.demands
            if d.due <= gap.left
        ]
        return replace(gap, demands=frozenset(demands))

    def bindings(self, v: Valuation, names: frozenset[str]) -> Binding:
        return frozenset((n, v.every_position() if n == PREV else v.positions(n)) for n in names)

    def holds(self, p: Pending) -> bool:
        known = dict(p.known)
        match_positions = known.pop(PREV, frozenset())
        measure = self.measure(dict(known), p.interval)
        for name in p.atom.folded:
            known.pop(name, None)
        return all(
            self.true_of(p.atom, dict(zip(known, chosen, strict=True)), measure, match_positions)
            for chosen in product(*known.values())
        )

    def agrees(self, v: Valuation, part: tree.Part) -> bool:
        values = [
            self.events[i].get(ref.attribute)
            for ref in part.refs
            for i in (v.every_position() if ref.name is None else v.positions(ref.name))
        ]
        return not values or common_key(values) is not None

    def matched(self, formula: tree.Formula) -> set[Valuation]:
        return self.settled(marked_due(self.valuations(formula), frozenset({PREV}))) - {EMPTY}


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


def in_window(window: tree.Window | None, view: Events, start: int, end: int, time: str, time_unit: str) -> bool:
    first, last = view[start], view[end]
    match window:
        case None:
            return True
        case tree.EventsWindow():
            return end - start <= window.count
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


def divided(
    query: tree.Query, events: Events, type: str, stream: str
) -> tuple[tree.Formula, frozenset[str], list[str | None], list[str], dict[Hashable, list[int]]]:
    """The formula, what it selects, the type and stream of each event, and the positions of each substream."""
    formula, parts = query.formula, query.partition
    types = event_types(formula)
    if any(ref.name in variables(formula) - types for part in parts for ref in part.refs):
        formula, parts = tree.PartitionBy(formula, parts), ()
    check_valid(formula, query.items)
    names = variables(formula) if query.items is None else frozenset(item.name for item in query.items)
    names |= {node.variable for node in walk(query.measures) if isinstance(node, tree.Ref | tree.Aggregate)}

    # an event that names no stream is of the only one there is
    stream = query.streams[0] if len(query.streams) == 1 else stream
    streams = [event.get("__stream__", stream) for event in events]
    kinds = [event.get(type, streams[i]) for i, event in enumerate(events)]

    substreams: dict[Hashable, list[int]] = defaultdict(list)
    for i, event in enumerate(events):
        key = substream_key(parts, event, kinds[i])
        if key is not None:
            substreams[key].append(i)
    return formula, names, kinds, streams, substreams


def shown(query: tree.Query, v: Valuation, names: frozenset[str], members: Sequence[int]) -> Match:
    """The match that a valuation of a substream makes; `members` are the positions of its events."""
    bound = {name: tuple(members[i] for i in sorted(v.positions(name))) for name in names}
    every = tuple(sorted({i for positions in bound.values() for i in positions}))
    return Match(members[v.start], members[v.end], every, frozenset() if query.distinct else frozenset(bound.items()))


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
    formula, names, kinds, streams, substreams = divided(query, events, type, stream)
    ends: dict[int, list[tuple[Match, Callable[[int], bool]]]] = defaultdict(list)
    place = {position: (key, i) for key, members in substreams.items() for i, position in enumerate(members)}
    for members in substreams.values():
        view = [events[i] for i in members]
        evaluator = Evaluator(view, [kinds[i] for i in members], [streams[i] for i in members], time, time_unit)
        reaches = partial(in_window, query.window, view, time=time, time_unit=time_unit)
        for v in evaluator.matched(formula):
            if reaches(v.start, v.end):
                m = shown(query, v, names, members)
                ends[m.end].append((m, partial(evaluator.is_free, v, reaches, members)))

    result: list[tuple[int, Match]] = []
    forgotten: dict[Hashable, int] = defaultdict(lambda: -1)  # up to which position, by substream
    for end in sorted(ends):
        scope = None if query.consume is tree.Consume.ANY else place[end][0]
        started = [(m, is_free) for m, is_free in ends[end] if m.start > forgotten[scope]]
        live = {m for m, is_free in started if is_free(forgotten[scope])}
        kept = chosen(query.strategy, live, {position: i for position, (_, i) in place.items()})
        decided = {m: decision(query, events, place, m.start, time, time_unit) for m, _ in started}
        together = query.limit is not None or query.strategy not in (None, tree.Strategy.ALL, tree.Strategy.STRICT)
        ordered = sorted(kept, key=lambda m: (-m.start, m.events, sorted(m.bindings)))
        result += [(max(decided.values()) if together else decided[m], m) for m in ordered]
        if kept and query.limit != 0 and query.consume is not tree.Consume.NONE:
            forgotten[scope] = end
    return [m for _, m in sorted(result, key=lambda pair: pair[0])]  # all at 0, unless NOT stands at the end


def decision(
    query: tree.Query,
    events: Events,
    place: Mapping[int, tuple[Hashable, int]],
    start: int,
    time: str,
    time_unit: str,
) -> int:
    """The position at which NOT at the end is decided, for a match of this start: the first out of the window."""
    if not trailing(query.formula):
        return 0
    for i in range(start, len(events)):
        if isinstance(query.window, tree.EventsWindow):
            here, there = place.get(i), place[start]
            past = here is not None and here[0] == there[0] and here[1] - there[1] > query.window.count
        else:
            past = not in_window(query.window, events, start, i, time, time_unit)
        if past:
            return i
    return len(events)


def matches(query: tree.Query, events: Events, **options: Any) -> list[Match]:
    """One admissible output: ANY and LIMIT take the first of `candidates`; `preferred_oracle` knows AFTER MATCH."""
    if query.after_match is not None:
        found: list[Match] = import_module("preferred_oracle").matches(query, events, **options)
        return found
    found = candidates(query, events, **options)
    return [m for i, m in enumerate(found) if len([n for n in found[:i] if n.end == m.end]) < at_most(query)]


def at_most(query: tree.Query) -> float:
    """How many matches one end position may have; infinity for all of them."""
    limit = math.inf if query.limit is None else query.limit
    return min(1, limit) if query.strategy is tree.Strategy.ANY else limit


def check(query: tree.Query, events: Events, got: Sequence[Match], **options: Any) -> None:
    """Assert that `got`, in output order, is an answer that the contract admits."""
    if query.after_match is not None:
        import_module("preferred_oracle").check(query, events, got, **options)
        return
    expected = candidates(query, events, **options)
    if trailing(query.formula):
        # in order of decisions; those of one start and end may come in any order
        runs = [len(list(run)) for _, run in groupby(expected, key=lambda m: (m.end, m.start))]
        place = dict(zip(expected, (k for k, length in enumerate(runs) for _ in range(length)), strict=True))
        order = [(place[m], 0) for m in got if m in place]
    else:
        order = [(m.end, -m.start) for m in got]
    assert order == sorted(order), f"not by end, then later starts first: {[(m.start, m.end) for m in got]}"
    repeated = [m for m, n in Counter(got).items() if n > 1]
    assert not repeated, f"given more than once: {repeated}"
    surplus = [m for m in got if m not in set(expected)]
    assert not surplus, f"no matches: {surplus}\nthe matches are {expected}"
    limit = at_most(query)
    for end in sorted({m.end for m in expected}):
        all_here, here = [m for m in expected if m.end == end], [m for m in got if m.end == end]
        if limit == math.inf:
            missing = [m for m in all_here if m not in here]
            assert not missing, f"missing at {end}: {missing}"
        else:
            starts, wanted = [m.start for m in here], [m.start for m in all_here][: int(limit)]
            assert starts == wanted, f"at {end} with LIMIT {limit} the starts are {starts}, should be {wanted}"
