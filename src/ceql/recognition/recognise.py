"""The one place that picks the loop for a query."""

from __future__ import annotations

from ceql.plan import CorrelatedPlan
from ceql.recognition.bound_plan import BoundPlan
from ceql.recognition.correlated import CorrelatedRecognition
from ceql.recognition.frame import Recognition, SymbolsOver
from ceql.recognition.unary import UnaryRecognition


def recognise(bound: BoundPlan, counting: bool = False, symbols: SymbolsOver | None = None) -> Recognition:
    """A recognition of this query, to be fed with events: it finds the matches, or only counts them.

    `symbols` reads the symbols of guards that were decided elsewhere.
    """
    kind = CorrelatedRecognition if isinstance(bound.plan, CorrelatedPlan) else UnaryRecognition
    return kind(bound, counting, symbols)
