"""A query, compiled as far as it can be before any event is seen."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

from ceql.analysis.classify import Correlation, correlations
from ceql.analysis.normal import Normal, normalize
from ceql.analysis.scopes import check, variables
from ceql.automata import last, max, next
from ceql.automata.cea import CEA
from ceql.automata.compile import compile_formula
from ceql.automata.rivals import Compare
from ceql.automata.strict import strict
from ceql.errors import QueryError
from ceql.syntax import tree as t
from ceql.syntax.parser import parse
from ceql.syntax.printer import print_query

RIVALRY: dict[t.Strategy, Compare] = {
    t.Strategy.NEXT: next.compare,
    t.Strategy.LAST: last.compare,
    t.Strategy.MAX: max.compare,
}


@dataclass(frozen=True)
class Plan:
    """What compiling a query's text gives. The automaton is built when it is first needed."""

    query: t.Query
    source: str
    correlations: tuple[Correlation, ...]

    @property
    def selected(self) -> tuple[str, ...]:
        """The selected variables."""
        return variables(self.query)

    @property
    def columns(self) -> tuple[str, ...]:
        """The variables that the result has columns for."""
        return () if self.query.distinct else self.selected

    @property
    def projections(self) -> dict[str, tuple[str, ...]]:
        """The attributes to show of a variable's events, for the variables that name some (`SELECT x[a, b]`).

        Under DISTINCT there are no variables, and events are shown whole.
        """
        items = () if self.query.distinct else self.query.items or ()
        return {i.name: i.attributes for i in items if i.attributes}

    @cached_property
    def normal(self) -> Normal:
        """The formula in LP-normal form."""
        self.require_uncorrelated()
        return normalize(self.query.formula, self.source)

    @cached_property
    def cea(self) -> CEA:
        """The automaton, after projection and STRICT."""
        cea = compile_formula(self.normal, self.selected)
        return strict(cea) if self.query.strategy is t.Strategy.STRICT else cea

    @property
    def rivalry(self) -> Compare | None:
        """How runs compare under NEXT, LAST and MAX."""
        return RIVALRY.get(self.query.strategy) if self.query.strategy is not None else None

    @property
    def limit(self) -> int:
        """Matches per position, 0 for all. ANY keeps the first, which is one of latest start."""
        return 1 if self.query.strategy is t.Strategy.ANY else self.query.limit or 0

    @cached_property
    def fingerprint(self) -> str:
        """Tells queries of different meaning apart, whatever their spelling."""
        return hashlib.sha256(print_query(self.query).encode()).hexdigest()

    def require_uncorrelated(self) -> None:
        """Raise `QueryError` for a construct that compares events with each other."""
        if self.correlations:
            first = self.correlations[0]
            raise QueryError(
                f"{first.construct} compares events with each other, which this version cannot evaluate yet",
                self.source,
                first.span,
                "Conditions on one event at a time and the PARTITION BY clause on attributes can be evaluated.",
            )


def make_plan(text: str) -> Plan:
    """Parse, check names and classify; `QueryError` says what is wrong and where."""
    query = parse(text)
    check(query, text)
    return Plan(query, text, tuple(correlations(query, text)))
