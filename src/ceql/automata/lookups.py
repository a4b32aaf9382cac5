"""Which equalities the steps of an automaton look up, and which of them that settles.

Where two events of an equality follow each other in a run, the step between them compares them. Equality is
transitive, so that is enough if no other event can stand between.
"""

from __future__ import annotations

from ceql.analysis.equalities import Equality
from ceql.analysis.shape import Leaves, Shape
from ceql.automata.parallel import Parallel, Source, Step
from ceql.syntax import tree as t


def same_instance(shape: Shape, scope: int, step: Step) -> bool:
    """Whether a step stays in the instance of `scope` that its sources were in."""
    return not step.loops.intersection(shape.above(scope)[1:])


def compared(shape: Shape, equality: Equality, last: Leaves, step: Step) -> tuple[t.Expression, t.Expression] | None:
    """The values of the event before and of this one that a step compares for an equality."""
    before = sorted(last & equality.terms.keys())
    now = sorted(step.leaves & equality.terms.keys())
    if not before or not now or not same_instance(shape, equality.scope, step):
        return None
    return equality.terms[before[0]][0], equality.terms[now[0]][0]


def is_settled(shape: Shape, auto: Parallel, equality: Equality) -> bool:
    """Whether the steps' comparisons alone make sure of an equality.

    A run is followed by what is known of its events that the equality speaks of: there are none; all have the value of
    the last event; or the last event is another, so that their value is out of reach.
    """
    none, at_hand, lost = 0, 1, 2
    known: list[set[int]] = [set() for _ in auto.last]
    grows = True

    def of(source: Source, step: Step) -> set[int]:
        if not same_instance(shape, equality.scope, step):
            return {none}
        return set().union(*(known[state] for state in source.states))

    while grows:
        grows = False
        for step in auto.steps:
            values = [of(source, step) for source in step.sources]
            if not all(values):
                continue  # not reached yet
            if step.leaves & equality.terms.keys():
                if any(lost in value for value in values):
                    return False
                result = {at_hand}
            else:
                if sum(1 for value in values if value != {none}) > 1:
                    return False
                result = {none} if all(none in value for value in values) else set()
                if any(value & {at_hand, lost} for value in values):
                    result.add(lost)
            if not result <= known[step.target]:
                known[step.target] |= result
                grows = True
    return True
