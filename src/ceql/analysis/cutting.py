"""Conditions between events cut into operands: what is read of each event, and of all events of a variable together.

In: a predicate over variables. Out: a `Condition` has the predicate over `Read`s in place of operands. An operand is an
expression over one event, or over the one before it (PREV), as large as it can be, so that a condition on two variables
mostly compares two operands; or an aggregate of such an expression. AVG is a sum and a count.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, NamedTuple

from ceql.analysis.conditions import is_measured, of_one_event, read_singly, skips_null
from ceql.analysis.lengths import TIME
from ceql.analysis.shape import Claim, Kind, Leaves, Shape
from ceql.syntax import tree as t
from ceql.syntax.walking import mapped, nodes

WHOLE = ""  # in place of a variable: all events of the filtered part
LISTED = "LIST"  # the fold of an operand that is the list of all events
FIRST_LAST = ("FIRST", "LAST")
_CARRIED = ("COUNT", "SUM", "AVG", "MIN", "MAX", "FIRST", "LAST")  # aggregates of which a value so far is enough
_MOST_CASES = 4  # of COALESCE in a comparison, each of which doubles it
_OF_TRUTHS = {("MAX", "<"): "MIN", ("MAX", ">"): "MAX", ("MIN", "<"): "MAX", ("MIN", ">"): "MIN"}
"""The aggregate of truth values: MIN if all must satisfy the comparison, MAX if one must."""


class Role(NamedTuple):
    """A variable of a condition: the leaves of its events, and the node in whose instance they count."""

    name: str
    leaves: Leaves
    scope: int
    single: bool  # whether there is one event at most


class Operand(NamedTuple):
    """What is read of an event of a role, or of the event before it; with `fold`, of all events of the role together.

    `fold` is SUM, MIN, MAX, FIRST or LAST: what they skip is NULL, and of no event they are NULL. It is COUNT if `what`
    tells of each event whether it counts. The others may be over truth values, too. It is DISTINCT if the different
    values are counted.
    """

    role: int
    previous: bool
    what: t.Expression | t.Predicate
    fold: str = ""


@dataclass(frozen=True, slots=True)
class Read:
    """Stands for an operand in a condition's predicate: a value, or (`truth`) whether a predicate holds."""

    operand: int
    truth: bool = False


@dataclass(frozen=True)
class Condition:
    """`predicate` is over `Read`s. `case` is its number among the cases of an OR, or -1: it must hold by itself."""

    claim: Claim
    case: int
    asked: t.Predicate
    predicate: Any
    operands: tuple[Operand, ...]
    roles: tuple[Role, ...]
    forward: bool = False
    """Whether it is about pairs alone in which the second role's event comes after that of the first."""
    ends: int = -1
    """The node whose instance it speaks of as a whole: it is decided when no more of its events can come. -1: it is
    decided for each combination of events when the last of them comes."""
    early: bool = False
    """Whether it is asked before that: whether it can still hold. It gets no easier as more events come."""
    denies: int = -1
    """The absence whose forbidden events play its first role: it must be true of none of them."""
    listed: tuple[t.Attribute, ...] | None = None
    """Of a condition that all of its events decide together: what is listed of each of those of the second role. The
    first role has these, and the events that tell rounds apart."""

    @property
    def is_measured(self) -> bool:
        """Whether it speaks of aggregates."""
        return any(operand.fold for operand in self.operands)

    @property
    def pair(self) -> tuple[str, int, int] | None:
        """The operator and two operands, where the condition is just their comparison."""
        p = self.predicate
        if isinstance(p, t.Comparison) and isinstance(p.left, Read) and isinstance(p.right, Read):
            return p.op, p.left.operand, p.right.operand
        return None


def there(role: int) -> Operand:
    """What is true of any event of a role."""
    return Operand(role, False, t.Comparison("=", t.Literal(1), t.Literal(1)))


def most(shape: Shape, node: int, leaves: Leaves) -> int:
    """The most events that an instance of a node reads at these leaves; 2 stands for any more."""
    here = shape.nodes[node]
    if here.kind is Kind.LEAF:
        return int(node in leaves)
    inside = [most(shape, item, leaves) for item in here.items if not leaves.isdisjoint(shape.below(item))]
    if here.kind is Kind.CHOICE:
        return max(inside, default=0)
    rounds = here.most if here.kind is Kind.REPEAT and here.most is not None else 2 if here.kind is Kind.REPEAT else 1
    return min(2, rounds * sum(inside))


class NotCut(Exception):
    """Only all events together can be tested: a function that the engine does not calculate takes values of several
    events."""


class Cut:
    """Cuts a predicate into operands, as large as they can be."""

    def __init__(self, roles: dict[str, int], owner: str | None, folded: dict[str, int] | None = None) -> None:
        self.roles = roles
        self.owner = owner
        self.folded = folded or {}
        """The roles of variables in aggregates."""
        self.operands: list[Operand] = []

    def _events(self, node: Any) -> set[tuple[int, bool]]:
        """The events that a node reads outside of aggregates: of a role, or before one."""
        found = set()
        for leaf in read_singly(node):
            if isinstance(leaf, t.Prev):
                assert self.owner is not None
                found.add((self.roles[self.owner], True))
            else:
                assert isinstance(leaf, t.Ref)
                found.add((self.roles[leaf.variable], False))
        return found

    def _operand(self, node: Any, event: tuple[int, bool], truth: bool) -> Read:
        if event[1] and not truth and skips_null(node):
            raise NotCut  # what it is of no event, before the first one, is not NULL
        self.operands.append(Operand(*event, of_one_event(node)))
        return Read(len(self.operands) - 1, truth)

    def _mixed(self, node: Any) -> bool:
        """Whether a node reads more than one event."""
        return len(self._events(node)) > 1 or is_measured(node)

    def _fold(self, function: str, node: t.Aggregate, what: t.Expression | t.Predicate, truth: bool = False) -> Read:
        if node.number is not None or node.function not in _CARRIED:
            raise NotCut
        self.operands.append(Operand(self.folded[node.variable], False, what, function))
        return Read(len(self.operands) - 1, truth)

    def _lapse(self, node: t.Lapse) -> Any:
        """A time of the filtered part: that of its first event, of its last, or the difference of the two."""
        first, last = (t.Aggregate(function, WHOLE, t.Ref(WHOLE, TIME), span=node.span) for function in FIRST_LAST)
        if node.name != "DURATION":
            return self._aggregate(first if node.name == "START_TIME" else last)
        one, two = self._aggregate(last), self._aggregate(first)
        return t.Arithmetic("-", one, two, span=node.span)

    def _aggregate(self, node: t.Aggregate) -> Any:
        if node.operand is None:
            return self._fold("COUNT", node, t.Literal(1))
        what = of_one_event(node.operand)
        if node.distinct:
            return self._fold("DISTINCT", node, what)
        if node.function == "COUNT":
            return self._fold("COUNT", node, t.IsNull(what, negated=True))
        if node.function != "AVG":
            return self._fold(node.function, node, what)
        # as on whole matches, floats are added up, also of whole numbers
        total = self._fold("SUM", node, t.Arithmetic("/", what, t.Literal(1), span=what.span))
        count = self._fold("COUNT", node, t.IsNull(what, negated=True))
        return t.Arithmetic("/", total, count, span=node.span)  # type: ignore[arg-type]

    def every(self, name: str, predicate: t.Predicate) -> t.Comparison:
        """Whether every event of a variable satisfies a predicate: as many do as there are, which may be none."""
        role = self.roles[name]
        asked = (t.Literal(1), of_one_event(predicate))
        self.operands += [Operand(role, False, what, "COUNT") for what in asked]
        last = len(self.operands) - 1
        return t.Comparison("=", Read(last - 1), Read(last), span=predicate.span)  # type: ignore[arg-type]

    def _of_truths(self, node: Any) -> Read | None:
        """An aggregate of whether events satisfy a predicate, where that tells whether their values' aggregate does.

        FIRST(x.s) satisfies what the first event does that has an s; MAX(x.s) is below a text if all are. Numbers are
        not compared so: NaN satisfies nothing, and is no NULL.
        """
        match node:
            case t.Like(t.Aggregate("FIRST" | "LAST" as function, operand=operand) as whole) if operand is not None:
                return self._fold(function, whole, of_one_event(replace(node, operand=operand)), truth=True)
            case t.Comparison(op, t.Aggregate(function, operand=operand) as whole, t.Literal(str() | bool())):
                turned: Any = replace(node, left=operand or whole)
            case t.Comparison(op, t.Literal(str() | bool()), t.Aggregate(function, operand=operand) as whole):
                op, turned = t.FLIPPED[op], replace(node, right=operand or whole)
            case _:
                return None
        fold = function if function in ("FIRST", "LAST") else _OF_TRUTHS.get((function, op[0]))
        if fold is None or operand is None:
            return None
        return self._fold(fold, whole, of_one_event(turned), truth=True)

    def _by_cases(self, node: Any) -> t.Predicate | None:
        """A predicate without the first COALESCE that more than one event decides: with its first value where it has
        one, else with the others."""
        if isinstance(node, t.Conj | t.Disj | t.Neg):
            return None
        found = [
            part
            for part in nodes(node)
            if isinstance(part, t.Call) and part.function == "COALESCE" and (self._mixed(part) or self._before(part))
        ]
        if not found:
            return None
        if len(found) > _MOST_CASES:
            raise NotCut
        first, *others = found[0].arguments
        if not others:
            return t.Conj((_with(node, found[0], first),))
        rest = replace(found[0], arguments=tuple(others)) if len(others) > 1 else others[0]
        known, unknown = (t.IsNull(first, negated=negated, span=node.span) for negated in (True, False))
        one, other = (_with(node, found[0], value) for value in (first, rest))
        return t.Disj((t.Conj((known, one)), t.Conj((unknown, other))))

    def _before(self, node: Any) -> bool:
        """Whether a node reads the event before another."""
        return any(before for _, before in self._events(node))

    def predicate(self, node: Any) -> Any:
        of_truths = self._of_truths(node)
        if of_truths is not None:
            return of_truths
        if (cases := self._by_cases(node)) is not None:
            return self.predicate(cases)
        if not self._mixed(node):
            if self.folded and not self._events(node):  # a constant, which is of no event
                if not isinstance(node, t.Comparison):
                    raise NotCut
                return replace(node, left=self.expression(node.left), right=self.expression(node.right))
            return self._operand(node, next(iter(self._events(node)), (0, False)), truth=True)
        match node:
            case t.Conj(items) | t.Disj(items):
                return replace(node, items=tuple(map(self.predicate, items)))
            case t.Neg(item):
                return replace(node, item=self.predicate(item))
            case t.Comparison(_, left, right):
                other = separated(node, self._mixed)
                if other is not node:
                    return self.predicate(other)
                return replace(node, left=self.expression(left), right=self.expression(right))
            case t.Between(operand, low, high, negated):
                ends = ((">=", low), ("<=", high))
                both = t.Conj(tuple(t.Comparison(op, operand, end, span=node.span) for op, end in ends))
                return self.predicate(t.Neg(both) if negated else both)
            case t.In(operand, items, negated):
                either = t.Disj(tuple(_member(operand, item) for item in items))
                return self.predicate(t.Neg(either) if negated else either)
            case t.IsNull(t.Aggregate(function, name, what) as whole, negated) if (
                what is not None and function != "COUNT"
            ):
                count = self.expression(t.Aggregate("COUNT", name, what, span=node.span))
                return t.Comparison(">" if negated else "<=", count, t.Literal(_too_few(whole)), span=node.span)
            case t.IsNull(operand):
                return replace(node, operand=self.expression(operand))
            case _:  # LIKE of a text that a function makes of several events
                raise NotCut

    def expression(self, node: Any) -> Any:
        events = self._events(node)
        if len(events) == 1 and not self._mixed(node):
            return self._operand(node, events.pop(), truth=False)
        match node:
            case t.Aggregate():
                return self._aggregate(node)
            case t.Lapse():
                return self._lapse(node)
            case t.Arithmetic(_, left, right):
                return replace(node, left=self.expression(left), right=self.expression(right))
            case t.Minus(operand):
                return replace(node, operand=self.expression(operand))
            case t.Call(_, arguments) if self._mixed(node) and _is_calculated(node):
                return replace(node, arguments=(self.expression(arguments[0]),))
            case t.Call():
                if events or self.folded:
                    raise NotCut
                return self._operand(node, (0, False), truth=False)
            case t.Literal(str() | bool()) if self.folded:
                raise NotCut  # only numbers are constants of programs
            case _:
                return node


def _is_calculated(node: t.Call) -> bool:
    """Whether the engine knows a function, which is of a number and gives one."""
    digits = node.arguments[1] if len(node.arguments) > 1 else None
    whole = digits is None or (isinstance(digits, t.Literal) and digits.value == 0)
    return node.function in ("ABS", "FLOOR", "CEIL") or (node.function == "ROUND" and whole)


def _with(node: Any, part: Any, other: Any) -> Any:
    """A node with another part in place of one."""
    return other if node == part else mapped(node, lambda inner: _with(inner, part, other))


def _too_few(node: t.Aggregate) -> int:
    """The most values of which an aggregate is NULL."""
    if node.function in ("VARIANCE", "STDDEV"):
        return 1
    return int(node.number or 0) if node.function in FIRST_LAST else 0


def _member(operand: t.Expression, item: t.Literal | t.Interval) -> t.Predicate:
    if isinstance(item, t.Literal):
        return t.Comparison("=", operand, item, span=item.span)
    ends = ((">=", item.low), ("<=", item.high))
    return t.Conj(tuple(t.Comparison(op, operand, end, span=item.span) for op, end in ends if end is not None))


def separated(node: t.Comparison, mixed: Callable[[t.Expression], bool]) -> t.Predicate:
    """The same comparison, a step nearer to sides of one event each; `node` itself if it cannot be nearer.

    `mixed` tells which expressions read several events. A difference that is compared with a duration is one of times,
    where this changes nothing. `ABS(x) < y` is `x < y AND x > -y`, whatever x and y are.

    >>> from ceql.syntax.parser import parse_formula
    >>> from ceql.syntax.printer import print_condition
    >>> for text in ("c.t - a.t <= 5 MINUTES", "ABS(c.t - a.t) < 1 HOUR"):
    ...     print(print_condition(separated(parse_formula(f"A FILTER {text}").condition, lambda part: True)))
    c.t <= a.t + 5 MINUTES
    c.t - a.t < 1 HOUR AND c.t - a.t > -1 HOUR
    """
    left, right, op = node.left, node.right, node.op
    match left, right:
        case (t.Duration(), _) if not isinstance(right, t.Duration):
            return separated(t.Comparison(t.FLIPPED[op], right, left, span=node.span), mixed)
        case (_, t.Call("ABS")) if mixed(right) and not (isinstance(left, t.Call) and left.function == "ABS"):
            return separated(t.Comparison(t.FLIPPED[op], right, left, span=node.span), mixed)
        case t.Call("ABS", (inner,)), _ if mixed(inner):
            return _without_abs(node, inner, right)
        case t.Arithmetic("-", a, b), t.Duration() if mixed(left):
            return t.Comparison(op, a, t.Arithmetic("+", b, right, span=b.span), span=node.span)
        case t.Arithmetic("+", a, b), t.Duration() if mixed(left):
            return t.Comparison(op, a, t.Arithmetic("-", right, b, span=b.span), span=node.span)
    return node


def _without_abs(node: t.Comparison, inner: t.Expression, other: t.Expression) -> t.Predicate:
    def compare(op: str, right: t.Expression) -> t.Comparison:
        return t.Comparison(op, inner, right, span=node.span)

    below = _negative(other)
    match node.op:
        case "<" | "<=":
            return t.Conj((compare(node.op, other), compare(t.FLIPPED[node.op], below)), span=node.span)
        case ">" | ">=":
            return t.Disj((compare(node.op, other), compare(t.FLIPPED[node.op], below)), span=node.span)
    zero = t.Duration(0) if isinstance(other, t.Duration) else t.Literal(0)
    positive = t.Comparison(">=", other, zero, span=node.span)
    equal = t.Conj((t.Disj((compare("=", other), compare("=", below))), positive), span=node.span)
    return equal if node.op == "=" else t.Neg(equal, span=node.span)


def _negative(node: t.Expression) -> t.Expression:
    match node:
        case t.Literal(int() | Decimal() as value) if not isinstance(value, bool):
            return t.Literal(-value if isinstance(value, int) else value.copy_negate(), span=node.span)
        case t.Duration(length):
            return t.Duration(-length, span=node.span)
    return t.Minus(node, span=node.span)
