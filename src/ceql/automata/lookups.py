"""Chooses the equalities that the steps of an automaton look up, and the claims that this settles.

Where two events of an equality follow each other in a run, the step between them compares them. Equality is
transitive, so that is enough if no other event can stand between.
"""

from __future__ import annotations

from ceql.analysis.equalities import Equality
from ceql.analysis.shape import Leaves, Shape
from ceql.automata.parallel import Parallel, Step
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
    """Whether the steps' comparisons alone make sure of an equality."""
    return not out_of_reach(shape, auto, equality)


def out_of_reach(shape: Shape, auto: Parallel, equality: Equality) -> Leaves:
    """The leaves whose events put an equality's value out of reach before it is needed.

    The equality speaks of some events of a run. Their value is at hand if the last event is one of them, and lost if
    the last event is another. A later event of the equality needs what is lost, and so does a step that joins two runs
    that have a value each.
    """
    at_hand = [False] * len(auto.last)
    lost: list[set[int]] = [set() for _ in auto.last]
    """Of each state, the leaves whose events came after a value."""
    found: set[int] = set()
    grows = True
    while grows:
        grows = False
        for step in auto.steps:
            stays = same_instance(shape, equality.scope, step)
            before = [source.states if stays else () for source in step.sources]
            gone = set().union(*(lost[state] for states in before for state in states))
            if step.leaves & equality.terms.keys():
                found |= gone
                grows |= not at_hand[step.target]
                at_hand[step.target] = True
                continue
            if sum(1 for states in before if any(at_hand[state] or lost[state] for state in states)) > 1:
                found |= step.leaves
            if any(at_hand[state] for states in before for state in states):
                gone |= step.leaves
            grows |= not gone <= lost[step.target]
            lost[step.target] |= gone
    return frozenset(found)
