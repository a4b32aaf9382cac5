"""A query, compiled as far as it can be before any event is seen."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

from ceql.analysis.classify import Correlation, correlations
from ceql.analysis.normal import Atom, Normal, normalize
from ceql.analysis.scopes import check, types, variables
from ceql.analysis.shape import Shape
from ceql.analysis.substreams import is_simple, split_off, to_normal
from ceql.automata.cea import CEA
from ceql.automata.compile import compile_formula
from ceql.automata.correlated import Correlated, correlate
from ceql.automata.strategies import last, max, next
from ceql.automata.strategies.rivals import Compare
from ceql.automata.strategies.strict import strict
from ceql.automata.unambiguous import determinise
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
        if self.shape is not None:
            return to_normal(self.shape)
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

    @cached_property
    def whole_shape(self) -> Shape | None:
        """The formula of a query that compares events with each other, and all that it asks of several events."""
        return Shape(self.formula, self.source) if self.correlations else None

    @cached_property
    def _split(self) -> tuple[tuple[t.Part, ...], Shape | None]:
        return split_off(self.whole_shape, self.query) if self.whole_shape is not None else ((), None)

    @property
    def shape(self) -> Shape | None:
        """The same, with what substreams leave to ask."""
        return self._split[1]

    @cached_property
    def split_by(self) -> tuple[t.Part, ...]:
        """What the stream is split by though no clause says so: every match has it in common."""
        return self._split[0]

    @cached_property
    def is_correlated(self) -> bool:
        """Whether the second loop runs the query, which looks up runs by what events have in common.

        Where substreams settle all claims either loop could. The second is faster on many substreams, the first can
        tell equal matches apart and follows rivals as they come.
        """
        if self.shape is None:
            return False
        if self.split_by == () or not is_simple(self.shape):
            return True
        auto = self._correlated
        unsure = auto.is_ambiguous(frozenset(self.selected), self.query.distinct)
        return auto.is_chain and not unsure and self.rivalry is None

    @property
    def correlated(self) -> Correlated:
        """The automaton of a correlated query."""
        assert self.is_correlated
        return self._correlated

    @cached_property
    def _correlated(self) -> Correlated:
        assert self.shape is not None
        strict = self.query.strategy is t.Strategy.STRICT
        selected, distinct = frozenset(self.selected), self.query.distinct
        auto = correlate(self.shape, selected if strict else None)
        if auto.is_ambiguous(selected, distinct):
            return determinise(auto, selected, distinct) or auto
        return auto

    @cached_property
    def formula(self) -> t.Formula:
        """The formula, with a PARTITION BY clause that names variables as the operator that it stands for."""
        query = self.query
        by_variable = query.partition and not self.shown_keys
        return query.formula if not by_variable else t.PartitionBy(query.formula, query.partition, span=query.span)

    @property
    def shown_keys(self) -> tuple[t.Part, ...]:
        """The PARTITION BY clause, unless it names variables."""
        kinds = types(self.query.formula)
        named = any(
            ref.name is not None and ref.name not in kinds for part in self.query.partition for ref in part.refs
        )
        return () if named else self.query.partition

    @property
    def partition(self) -> tuple[t.Part, ...]:
        """What substreams are made by; the keys of the clause come first."""
        return self.shown_keys + self.split_by

    @property
    def guards(self) -> tuple[Atom, ...]:
        """What is asked of single events."""
        return self.correlated.guards if self.is_correlated else self.cea.guards

    @property
    def skips_safely(self) -> bool:
        """Whether an event that satisfies no guard changes nothing."""
        if not self.is_correlated:
            return self.cea.skips_safely()
        strict = self.query.strategy is t.Strategy.STRICT and bool(self.partition)
        return not self.correlated.is_tight and not strict


def make_plan(text: str) -> Plan:
    """Parse, check names and classify; `QueryError` says what is wrong and where."""
    query = parse(text)
    check(query, text)
    plan = Plan(query, text, tuple(correlations(query, text)))
    _ = plan.whole_shape  # says where a PARTITION BY does not cover its formula
    return plan
