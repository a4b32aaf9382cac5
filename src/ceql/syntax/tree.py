"""The tree of a query, as parsed: frozen dataclasses.

Chains are flat (`A ; B : C` is one `Then` of three items), so a sequence of a thousand events is as shallow as one of
two. Every node has a `span`, its place in the text, for error messages. Equality ignores spans.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum

from ceql.errors import Span


def _span() -> Span | None:
    return field(default=None, compare=False, repr=False, kw_only=True)


# --- expressions ---


@dataclass(frozen=True, slots=True)
class Literal:
    """A number (int, or Decimal where it has a point or exponent), text, TRUE, FALSE or NULL."""

    value: int | Decimal | str | bool | None
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Attribute:
    """A bare attribute inside `x[...]`: an attribute of the event bound to x."""

    name: str
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Ref:
    """`variable.attribute`."""

    variable: str
    attribute: str
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Prev:
    """`PREV.attribute`: an attribute of the event before this one in the match."""

    attribute: str
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`left op right` with op one of + - * / %."""

    op: str
    left: Expression
    right: Expression
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Minus:
    """Unary minus. On a number it is part of the literal instead."""

    operand: Expression
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Duration:
    """A length of time: `5 MINUTES`."""

    nanoseconds: int
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Call:
    """A function of values, its name in upper case: `ROUND(price, 2)`."""

    function: str
    arguments: tuple[Expression, ...]
    span: Span | None = _span()


EVERY_MATCH = "*"
"""Stands for the variable in COUNT(*)."""


@dataclass(frozen=True, slots=True)
class Aggregate:
    """COUNT, SUM, AVG, MIN, MAX, FIRST, LAST, STDDEV, VARIANCE, MEDIAN or PERCENTILE over the events of a variable.

    COUNT(x) has no operand. `distinct` is of COUNT alone. `number` is the p of PERCENTILE(e, p), and of FIRST(e, n) and
    LAST(e, n) the n, unless it is 0.
    """

    function: str
    variable: str
    operand: Expression | None = None
    distinct: bool = False
    number: int | Decimal | None = None
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Lapse:
    """START_TIME, END_TIME or DURATION of a match."""

    name: str
    span: Span | None = _span()


Expression = Literal | Attribute | Ref | Prev | Arithmetic | Minus | Duration | Call | Aggregate | Lapse


# --- predicates and filters ---


FLIPPED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""The operator of a comparison that says the same with its sides exchanged."""
NEGATED = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
"""The operator of a comparison that says the opposite."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """`left op right`; op is one of = != < <= > >= (== and <> are read as = and !=)."""

    op: str
    left: Expression
    right: Expression
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Like:
    """LIKE, or RLIKE if `regex`."""

    operand: Expression
    pattern: str
    regex: bool = False
    negated: bool = False
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Interval:
    """`low .. high` inside an IN set, both ends included; an absent end is None."""

    low: Literal | None
    high: Literal | None
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class In:
    """`operand IN {items}`: literals and intervals. `IN (…)` means the same and takes literals only."""

    operand: Expression
    items: tuple[Literal | Interval, ...]
    negated: bool = False
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Between:
    """BETWEEN low AND high; written IN RANGE (low, high), which means the same, if `range_form`."""

    operand: Expression
    low: Expression
    high: Expression
    negated: bool = False
    range_form: bool = False
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class IsNull:
    operand: Expression
    negated: bool = False
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Bracket:
    """The filter `name[predicate]`."""

    name: str
    predicate: Predicate
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Conj:
    """AND, flat; of predicates or of filters."""

    items: tuple[Condition, ...]
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Disj:
    """OR, flat; of predicates or of filters."""

    items: tuple[Condition, ...]
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Neg:
    item: Condition
    span: Span | None = _span()


Predicate = Comparison | Like | In | Between | IsNull | Conj | Disj | Neg
Condition = Predicate | Bracket
FilterCondition = Condition  # outside of brackets, what is no comparison has an aggregate or a time of the match


# --- formulas ---


class Joint(Enum):
    """How a part of a sequence, or a round of a count, follows the one before it."""

    THEN = ";"
    """Any number of other events may come between."""
    TOUCH = ":"
    """It is contiguous: nothing comes between."""
    NEXT = "->"
    """Nothing comes between that could have begun it instead."""

    def beside(self, other: Joint) -> Joint:
        """How the neighbours of a part are joined that is missing, or NOT, between this operator and the other."""
        return self if self is other else Joint.THEN


@dataclass(frozen=True, slots=True)
class Event:
    """`type` or `stream>type`."""

    type: str
    stream: str | None = None
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class As:
    formula: Formula
    variable: str
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Plus:
    """`formula+`, `formula:+` or `formula->+`; reluctant if `?` stands after it."""

    formula: Formula
    joint: Joint = Joint.THEN
    reluctant: bool = False
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Count:
    """`formula{least,most}`, with `:` or `->` before it if rounds are joined so; `most` is None for no upper end.

    `formula*` has 0 and None, `formula?` 0 and 1. `formula{1,}` is a `Plus`. Reluctant if `?` stands after it.
    """

    formula: Formula
    least: int
    most: int | None
    joint: Joint = Joint.THEN
    reluctant: bool = False
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Then:
    """A chain of `;`, `:` and `->`. `joints[i]` joins items i and i+1.

    The operators look only at the end of the left side and the start of the right side, so parentheses make no
    difference and a chain in parentheses becomes part of the chain around it. The exception is a chain after `->` that
    begins with a part that may be missing, since any of its first events could begin it.
    """

    items: tuple[Formula, ...]
    joints: tuple[Joint, ...]
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Not:
    """`NOT formula AS variable`, an item of a `Then`: no such event. The formula is an event, or an `Or` of events."""

    formula: Event | Or
    variable: str | None = None
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class All:
    """ALL, flat: all items, in any order."""

    items: tuple[Formula, ...]
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Or:
    """OR, flat: one of the items."""

    items: tuple[Formula, ...]
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Filter:
    formula: Formula
    condition: FilterCondition
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class PartRef:
    """`attribute` or `name.attribute`."""

    attribute: str
    name: str | None = None
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a PARTITION BY: attributes whose values must all be equal. `a` and `[a]` are the same."""

    refs: tuple[PartRef, ...]
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class PartitionBy:
    """The operator PARTITION BY, which stands in parentheses."""

    formula: Formula
    parts: tuple[Part, ...]
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Within:
    """The operator WITHIN, which stands in parentheses: the matches of `formula` that are no longer than `window`."""

    formula: Formula
    window: Window
    span: Span | None = _span()


Formula = Event | As | Plus | Count | Then | Not | All | Or | Filter | PartitionBy | Within


# --- query ---


class Strategy(Enum):
    ALL = "ALL"
    ANY = "ANY"
    NEXT = "NEXT"
    LAST = "LAST"
    MAX = "MAX"
    STRICT = "STRICT"


class Consume(Enum):
    NONE = "NONE"
    PARTITION = "PARTITION"
    ANY = "ANY"


@dataclass(frozen=True, slots=True)
class SelectItem:
    """A selected variable, and which attributes of its events to show (none: all)."""

    name: str
    attributes: tuple[str, ...] = ()
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Measure:
    """A column that SELECT computes of each match; without a name it is called as it is written."""

    expression: Expression
    name: str | None = None
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class EventsWindow:
    count: int
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class TimeWindow:
    nanoseconds: int
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class AttributeWindow:
    size: int
    attribute: str
    span: Span | None = _span()


Window = EventsWindow | TimeWindow | AttributeWindow


class Skip(Enum):
    """Where the next start is tried after a match."""

    PAST_LAST = "PAST LAST EVENT"
    TO_NEXT = "TO NEXT EVENT"
    TO_FIRST = "TO FIRST"
    TO_LAST = "TO LAST"


@dataclass(frozen=True, slots=True)
class AfterMatch:
    """AFTER MATCH SKIP: one match for each start, the preferred one; `variable` is that of TO FIRST and TO LAST."""

    skip: Skip
    variable: str | None = None
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Query:
    """`items` is None for `*` and empty for NONE, or where there are only measures."""

    formula: Formula
    items: tuple[SelectItem, ...] | None = None
    strategy: Strategy | None = None
    distinct: bool = False
    streams: tuple[str, ...] = ()
    partition: tuple[Part, ...] = ()
    window: Window | None = None
    consume: Consume = Consume.NONE
    limit: int | None = None
    measures: tuple[Measure, ...] = ()
    after_match: AfterMatch | None = None
    span: Span | None = _span()
