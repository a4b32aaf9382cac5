"""The tree of a query, as parsed: frozen dataclasses that compare by meaning, never by place.

Chains are flat (`A ; B : C` is one `Then` of three items), so that a sequence of a thousand events is
as shallow as one of two. Every node has a `span` into the text for error messages; it takes no part
in equality.
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
    """A bare attribute inside `x[...]`: that of the event bound to x."""

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
    """`PREV.attribute`: of the event that precedes this one in the match."""

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
    """Unary minus on something that is not a number literal (those are folded into the literal)."""

    operand: Expression
    span: Span | None = _span()


Expression = Literal | Attribute | Ref | Prev | Arithmetic | Minus


# --- predicates and filters ---


@dataclass(frozen=True, slots=True)
class Comparison:
    """`left op right`; op is one of = != < <= > >= (== and <> are read as = and !=)."""

    op: str
    left: Expression
    right: Expression
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Like:
    """LIKE, or RLIKE when `regex`."""

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
    """`operand IN {items}`: literals and intervals."""

    operand: Expression
    items: tuple[Literal | Interval, ...]
    negated: bool = False
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Between:
    """BETWEEN low AND high, or IN RANGE (low, high) when `range_form`: the same meaning."""

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
FilterCondition = Bracket | Comparison | Conj | Disj | Neg
Condition = Predicate | Bracket


# --- formulas ---


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
    """`formula+`, or `formula:+` when contiguous."""

    formula: Formula
    contiguous: bool = False
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Then:
    """A chain of `;` and `:`; `contiguous[i]` tells of the join between items i and i+1.

    Both operators look only at the end of what stands left and the start of what stands right, so
    grouping makes no difference and a parenthesised chain inside a chain is spliced in.
    """

    items: tuple[Formula, ...]
    contiguous: tuple[bool, ...]
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class All:
    """Both, in any order; flat."""

    items: tuple[Formula, ...]
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Or:
    """Either; flat."""

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
    """One key of a PARTITION BY: references whose values must all be equal. `a` and `[a]` are the same."""

    refs: tuple[PartRef, ...]
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class PartitionBy:
    """The operator, inside parentheses."""

    formula: Formula
    parts: tuple[Part, ...]
    span: Span | None = _span()


Formula = Event | As | Plus | Then | All | Or | Filter | PartitionBy


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
    """A selected variable, with the attributes to show of its events (none named: all of them)."""

    name: str
    attributes: tuple[str, ...] = ()
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


@dataclass(frozen=True, slots=True)
class Query:
    """`items` is None for `*` and empty for NONE."""

    formula: Formula
    items: tuple[SelectItem, ...] | None = None
    strategy: Strategy | None = None
    distinct: bool = False
    streams: tuple[str, ...] = ()
    partition: tuple[Part, ...] = ()
    window: Window | None = None
    consume: Consume = Consume.NONE
    limit: int | None = None
    span: Span | None = _span()
