"""Selection strategies that compare matches: runs that know their rivals (foundations-cep-2018, Theorem 4).

NEXT, LAST and MAX keep a match when no other match of the same end beats it. A run therefore carries, besides its own
states, where its rivals stand: the automaton's states that other runs have reached, sorted by how the
positions they have bound compare so far. What "compare" means is the strategy's own file; here is what
the three share. A state that a better rival has reached as well is given up: whatever follows, the
rival can follow too. A run is accepted when no better rival is.

Runs that have not started count as rivals that bound nothing: state `NOT_STARTED`, which waits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

States = frozenset[int]
NOT_STARTED = -1
NONE: States = frozenset()


class Rivals(NamedTuple):
    """States reached by runs that bound better, equal and worse sets of positions."""

    better: States
    equal: States
    worse: States


class Moves(NamedTuple):
    """Where a set of states goes on one event, by reading it bound or unbound."""

    bound: Callable[[States], States]
    unbound: Callable[[States], States]

    def either(self, states: States) -> States:
        return self.bound(states) | self.unbound(states)


Compare = Callable[[Rivals, Moves, bool], Rivals]
"""Returns how the rivals stand after an event that the run itself read bound (True) or unbound."""

NO_RIVALS = Rivals(NONE, frozenset([NOT_STARTED]), NONE)


def ranked(better: States, equal: States, worse: States) -> Rivals:
    """Each state at its best rank only: from the same state on, the better rival does at least as well."""
    return Rivals(better, equal - better, worse - equal - better)
