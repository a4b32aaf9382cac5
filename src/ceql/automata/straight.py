"""Tells automata with one way through: so many events in a row, each of which satisfies something of its own.

`A : B : C`, counts of one number and comparisons of neighbours (which are guards over lagged columns) make such
automata. A partial match is no more than how many events of it have been. So a word of bits has all that are under way
in a substream, and an event moves them by a shift and a mask (Baeza-Yates and Gonnet, Commun. ACM 35(10), 1992).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ceql.automata.cea import CEA, Label, Transition

MOST = 62  # steps: as many bits of a word


@dataclass(frozen=True, slots=True)
class Straight:
    """What each event of a match fires, and the variables that it is bound to."""

    steps: tuple[tuple[Transition, ...], ...]

    @property
    def labels(self) -> tuple[Label, ...]:
        """Those of each event; empty for one that is not selected."""
        return tuple(step[0].label for step in self.steps)

    def accepts(self, bits: int) -> int:
        """The steps that an event makes which satisfies these guards, as bits."""
        return sum(any(t.fires(bits) for t in step) << k for k, step in enumerate(self.steps))


def straight(cea: CEA) -> Straight | None:
    """The steps of an automaton, if each match goes through all of them, one event after the other, and through no
    others."""
    if not cea.only_goes_on() or len(cea.final) != 1 or not 2 <= len(cea.states) <= MOST:
        return None
    steps: list[tuple[Transition, ...]] = []
    row = cea.initial
    while row:
        target = _alike(row)
        if target is None or len(steps) == len(cea.states):
            return None
        steps.append(row)
        if target in cea.final:
            return Straight(tuple(steps)) if not cea.states[target] and len(steps) == len(cea.states) else None
        row = cea.states[target]
    return None


def _alike(row: Iterable[Transition]) -> int | None:
    """The target of transitions which all have the same target and label."""
    found = {(transition.target, transition.label) for transition in row}
    return found.pop()[0] if len(found) == 1 else None
