"""A statement with MATCH_RECOGNIZE, read and checked: its clauses as frozen dataclasses, and the SQL around them.

`clauses.read` makes these. Expressions are trees of sqlglot; their places in the text are those of the statement.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from sqlglot import exp

from ceql.errors import Span
from ceql.row_patterns.dialects import Dialect
from ceql.row_patterns.pattern import Node

CALLED, IN_DAYS = "called", "in_days"
"""Keys in nodes of expressions: the user's function that is called; whether numbers beside dates are days."""
PAST_LAST, TO_NEXT, TO_FIRST, TO_LAST = "PAST LAST ROW", "TO NEXT ROW", "TO FIRST", "TO LAST"


@dataclass(frozen=True)
class SortKey:
    """A column of ORDER BY."""

    expression: exp.Expr
    descending: bool
    nulls_first: bool


@dataclass(frozen=True)
class Measure:
    name: str
    expression: exp.Expr


@dataclass(frozen=True)
class Skip:
    """Where the search goes on after a match."""

    to: str
    variable: str | None = None


@dataclass(frozen=True)
class RowPattern:
    """One MATCH_RECOGNIZE clause."""

    partition: tuple[exp.Expr, ...]
    order: tuple[SortKey, ...]
    measures: tuple[Measure, ...]
    all_rows: bool
    empty: Literal["show", "omit", "unmatched"]
    skip: Skip
    pattern: Node
    variables: tuple[str, ...]
    """Of PATTERN, in the order in which they are written first."""
    subsets: dict[str, tuple[str, ...]]
    define: dict[str, exp.Expr]
    within: exp.Expr | None
    dialect: Dialect

    def rows_of(self, label: str) -> frozenset[str]:
        """The variables whose rows a variable or a subset has."""
        return frozenset(self.subsets.get(label, (label,)))


@dataclass(frozen=True)
class Source:
    """The rows that a clause reads: the text between FROM or JOIN and MATCH_RECOGNIZE."""

    text: str
    span: Span
    name: str | None
    """If it is a table or view by its name."""


@dataclass(frozen=True)
class Found:
    """A clause in its statement."""

    clause: RowPattern
    source: Source
    span: Span
    """Of source and clause together."""
    columns: tuple[str, ...] = ()
    """Names that `AS m (a, b)` gives to the result's columns; they stand in the text around."""


@dataclass(frozen=True)
class Statement:
    sql: str
    dialect: Dialect
    found: tuple[Found, ...]
    names: tuple[str, ...] = field(default=())
    """The names that stand for the clauses' results in `around`."""

    @property
    def around(self) -> str:
        """The statement with a name in place of each clause."""
        text = self.sql
        for found, name in reversed(list(zip(self.found, self.names, strict=True))):
            text = text[: found.span.start] + name + text[found.span.end :]
        return text
