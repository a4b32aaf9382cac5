"""The one place that picks the loop for a query."""

from __future__ import annotations

from collections.abc import Callable

from ceql.plans import Loop
from ceql.recognition.bound_plan import BoundPlan
from ceql.recognition.correlated import CorrelatedRecognition
from ceql.recognition.frame import Recognition
from ceql.recognition.preferred import ComparingPreferred, PreferredRecognition
from ceql.recognition.straight import StraightRecognition
from ceql.recognition.trailing import TrailingRecognition
from ceql.recognition.unary import UnaryRecognition

_BY_LOOP: dict[Loop, Callable[[BoundPlan, bool], Recognition]] = {
    Loop.STATES: UnaryRecognition,
    Loop.GROUPS: CorrelatedRecognition,
    Loop.PREFERRED: PreferredRecognition,
}


def recognise(bound: BoundPlan, counting: bool = False) -> Recognition:
    """A recognition of this query, to be fed with events: it finds the matches, or only counts them."""
    plan = bound.plan
    if plan.straight is not None:
        return StraightRecognition(bound, counting)
    if any(plan.shape.trails(watched.number) for watched in plan.automaton.absences):
        return TrailingRecognition(bound, counting)
    if plan.loop is Loop.PREFERRED and plan.compares:
        return ComparingPreferred(bound, counting)
    return _BY_LOOP[plan.loop](bound, counting)
