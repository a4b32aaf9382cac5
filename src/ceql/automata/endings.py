"""Finds the steps at which NOT ends partial matches: a forbidden event rules out the runs that wait to go over its gap.

A step goes over a gap if the event before it was read on the one side, and its own on the other. The runs that wait for
such a step end when a forbidden event comes, all of them, or those that its conditions speak of. If some of these ask
for events after the gap, runs carry what the forbidden events were like until then. That needs a chain: other absences
are looked up for each finished match.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ceql.analysis.cutting import Condition
from ceql.analysis.denials import denial
from ceql.analysis.later import later
from ceql.analysis.shape import Kind, Leaves, Shape
from ceql.automata.parallel import Step


class Gaps(NamedTuple):
    """The absences that end runs: those that end all of them, and those that compare, with their conditions.

    `later` has the conditions that speak of events after the gap: what they forbid rules out runs when these come.
    """

    plain: frozenset[int] = frozenset()
    compared: Mapping[int, tuple[Condition, ...]] = {}
    later: Mapping[int, Condition] = {}

    def without(self, absences: set[int]) -> Gaps:
        """These are not compared in the loop."""
        compared = {number: own for number, own in self.compared.items() if number not in absences}
        return Gaps(self.plain, compared, {number: own for number, own in self.later.items() if number in compared})

    def put_off(self, shape: Shape, not_known: Mapping[int, Sequence[Condition]]) -> Gaps:
        """Decide these conditions of absences later; without the absences for which that is not possible."""
        gaps = self
        for number, conditions in not_known.items():
            found = later(shape, number, conditions) if number not in self.later else None
            if found is None:
                gaps = gaps.without({number})
            else:
                rest = tuple(own for own in gaps.compared[number] if own not in conditions)
                gaps = Gaps(gaps.plain, {**gaps.compared, number: rest}, {**gaps.later, number: found})
        return gaps

    @property
    def numbers(self) -> frozenset[int]:
        return self.plain | self.compared.keys()


def gaps_of(shape: Shape, prev: Leaves) -> Gaps:
    """The absences that end runs; `prev` are the leaves whose events are compared with the one before."""
    if any(node.kind is Kind.ALL for node in shape.nodes):
        return Gaps()  # the last event of a run may be of another side
    plain: set[int] = set()
    compared: dict[int, tuple[Condition, ...]] = {}
    for number, gap in enumerate(shape.gaps):
        left, right = shape.sides(number)
        is_next = shape.absences[number].is_next
        if not is_next and not (left and right and shape.surely(gap.node, left) and shape.surely(gap.node, right)):
            continue  # before or after the match, or as far as there is anything on both sides
        asked = [claim for claim in shape.denials if claim.absence == number]
        if not asked:
            plain.add(number)
            continue
        found = [denial(shape, claim) for claim in asked]
        if (is_next or not prev & right) and all(condition is not None for condition in found):
            compared[number] = tuple(condition for condition in found if condition is not None)
    return Gaps(frozenset(plain), compared)


def crossed(shape: Shape, absences: frozenset[int], last: Leaves, step: Step) -> tuple[int, ...]:
    """Those of these absences whose gap a step goes over, from runs whose last event was read at `last`.

    They stand in the sequence that has both events, between the two items that have one of them each, or between the
    rounds of a repetition that the step goes round.
    """
    if not absences:
        return ()
    if step.loops:
        found = tuple(number for loop in step.loops for gap in shape.nodes[loop].instead for number in gap)
        return tuple(sorted(absences.intersection(found)))
    before, here = shape.above(min(last)), shape.above(min(step.leaves))
    meet = next(node for node in before if node in here)
    node = shape.nodes[meet]
    if not (node.absent or node.instead):
        return ()
    first, second = (node.items.index(way[way.index(meet) - 1]) for way in (before, here))
    return tuple(sorted(absences.intersection(node.kept_away(first, second))))
