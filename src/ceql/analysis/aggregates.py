"""Reads the columns that `aggregate` is asked for, such as `SUM(b.amount)`, and checks them against the query.

An aggregate is over all events of all matches that have the variable. COUNT(*) is over the matches themselves. So a
variable must be one by which matches are told apart: one that SELECT names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ceql.analysis.scopes import binds, variables
from ceql.errors import ArgumentError, QueryError, did_you_mean
from ceql.syntax import tree as t
from ceql.syntax.parser import parse_aggregate
from ceql.syntax.walking import nodes

_OF_ONE_MATCH = ("FIRST", "LAST")
_EXAMPLES = "COUNT(*), COUNT(x), COUNT(DISTINCT x.a), SUM(x.a), AVG(x.a), MIN(x.a), MAX(x.a) or MEDIAN(x.a)"


@dataclass(frozen=True)
class Summary:
    """A column of the table: its name, its text, and what it says."""

    name: str
    text: str
    aggregate: t.Aggregate

    @property
    def attributes(self) -> frozenset[str]:
        """The attributes that it reads."""
        return frozenset(node.attribute for node in nodes(self.aggregate.operand) if isinstance(node, t.Ref))


def read_summaries(query: t.Query, wanted: Mapping[str, str]) -> tuple[Summary, ...]:
    """The columns that are wanted of the matches of a query; `QueryError` says what is wrong with one, and where."""
    if not wanted:
        raise ArgumentError("aggregate needs columns: n='COUNT(*)', total='SUM(x.amount)'")
    return tuple(Summary(name, text, _read(query, name, text)) for name, text in wanted.items())


def _read(query: t.Query, name: str, text: str) -> t.Aggregate:
    if not isinstance(text, str) or not text.strip():
        raise ArgumentError(f"{name}= is an aggregate, one of {_EXAMPLES}, not {text!r}")
    found = parse_aggregate(text)
    if not isinstance(found, t.Aggregate):
        raise QueryError(
            "this is no aggregate over all matches",
            text,
            found.span,
            f"Write one of {_EXAMPLES}; calculate afterwards.",
        )
    if found.function in _OF_ONE_MATCH:
        raise QueryError(
            f"{found.function} is of one match, and matches have no order by which one is the {found.function.lower()}",
            text,
            found.span,
            f"Write one of {_EXAMPLES}.",
        )
    if found.variable != t.EVERY_MATCH:
        _check_variable(query, found, text)
    return found


def _check_variable(query: t.Query, found: t.Aggregate, text: str) -> None:
    known, selected, variable = binds(query.formula), variables(query), found.variable
    if variable not in known:
        hint = did_you_mean(variable, sorted(known)) or f"Bound are: {', '.join(sorted(known))}."
        raise QueryError(f"nothing in WHERE binds '{variable}'", text, found.span, hint)
    if query.distinct:
        hint = "Leave DISTINCT out, or ask for COUNT(*) alone."
        raise QueryError("DISTINCT leaves no variables, and this aggregate is about one", text, found.span, hint)
    if variable not in selected:
        raise QueryError(
            f"SELECT does not name '{variable}', so matches do not tell its events",
            text,
            found.span,
            f"Select '{variable}' as well, or *.",
        )
