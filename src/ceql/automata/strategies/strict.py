"""STRICT keeps the matches whose positions are an interval of the (sub)stream (formal-framework-icdt2019, section 4).

Every run goes through three phases: nothing bound yet, binding, nothing bound any more. An unbound event ends the
binding phase for good. With `SELECT *` only the middle phase is left, since the first and last events are bound.
"""

from __future__ import annotations

import numpy as np

from ceql.automata.cea import CEA, Transition, tidy
from ceql.automata.strategies.candidates import Places, sums
from ceql.engine.common.chunk import Chunk
from ceql.jit import Array

BEFORE, DURING, AFTER = range(3)


def restrict(cea: CEA) -> CEA:
    """The automaton of those matches of `cea` whose positions are an interval."""
    count = len(cea.states)

    def row(transitions: tuple[Transition, ...], phase: int) -> tuple[Transition, ...]:
        moved = []
        for t in transitions:
            following = _next_phase(phase, bool(t.label))
            if following is not None:
                moved.append(t._replace(target=following * count + t.target))
        return tuple(moved)

    states = tuple(row(cea.states[s], phase) for phase in (BEFORE, DURING, AFTER) for s in range(count))
    final = frozenset(phase * count + s for phase in (BEFORE, DURING, AFTER) for s in cea.final)
    return tidy(CEA(cea.guards, row(cea.initial, BEFORE), states, final))


def _next_phase(phase: int, bound: bool) -> int | None:
    if phase == BEFORE:
        return DURING if bound else BEFORE
    if phase == DURING:
        return DURING if bound else AFTER
    return None if bound else AFTER


def choose(found: Chunk, places: Places) -> Array:
    """The candidates whose events follow one another in the substream."""
    place = places(found.positions)
    jumps = np.zeros(len(place), np.int64)
    jumps[1:] = place[1:] - place[:-1] != 1
    jumps[found.offsets[:-1][np.diff(found.offsets) > 0]] = 0
    return np.flatnonzero(sums(jumps, found.offsets) == 0)
