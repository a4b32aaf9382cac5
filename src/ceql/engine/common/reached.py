"""Notes how far runs get: for each state, how many events brought a run there, and which came first and last.

The loop over groups reports it in the mode FOLLOW; for queries on single events `states/follow.py` does.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ceql.jit import Array, inlined, record


@record
class Reached(NamedTuple):
    """What is known so far. Events are a position and a time (0 without time); -1 for none."""

    fired: Array  # int64, of each transition: how often it brought a run, inside the window, to its target
    entered: Array  # int64, of each state: the events that brought a run there
    first: Array  # int64[states, 2]
    last: Array  # int64[states, 2]


def nothing_reached(transitions: int, states: int) -> Reached:
    """What is known before the first event."""
    none = np.full((states, 2), -1, np.int64)
    return Reached(np.zeros(transitions, np.int64), np.zeros(states, np.int64), none, none.copy())


@inlined
def note(reached: Reached, transition: int, state: int, position: int, time: int) -> None:
    """Take down that a transition fired. An event counts once for each state."""
    reached.fired[transition] += 1
    if reached.last[state, 0] == position:
        return
    reached.last[state, 0] = position
    reached.last[state, 1] = time
    if reached.entered[state] == 0:
        reached.first[state, 0] = position
        reached.first[state, 1] = time
    reached.entered[state] += 1
