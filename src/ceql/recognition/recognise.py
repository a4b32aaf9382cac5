"""The one place that picks the loop for a query."""

from __future__ import annotations

from ceql.plans import CorrelatedPlan, PreferredPlan
from ceql.recognition.bound_plan import BoundPlan
from ceql.recognition.correlated import CorrelatedRecognition
from ceql.recognition.frame import Recognition
from ceql.recognition.preferred import PreferredRecognition
from ceql.recognition.straight import StraightRecognition, goes_straight
from ceql.recognition.trailing import TrailingRecognition
from ceql.recognition.unary import UnaryRecognition


def recognise(bound: BoundPlan, counting: bool = False) -> Recognition:
    """A recognition of this query, to be fed with events: it finds the matches, or only counts them."""
    plan = bound.plan
    if isinstance(plan, PreferredPlan):
        return PreferredRecognition(bound, counting)
    steps = goes_straight(bound)
    if steps is not None:
        return StraightRecognition(bound, steps, counting)
    if not isinstance(plan, CorrelatedPlan):
        return UnaryRecognition(bound, counting)
    if any(plan.shape.trails(watched.number) for watched in plan.automaton.absences):
        return TrailingRecognition(bound, counting)
    return CorrelatedRecognition(bound, counting)
