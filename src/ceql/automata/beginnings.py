"""The first event of a match is asked no lag: PREV is NULL there, whatever is before it in the substream.

In: an automaton whose guards read lags (`analysis.neighbours`). Out: one whose initial transitions ask for the same of
an event before which there is none.
"""

from __future__ import annotations

from dataclasses import replace

from ceql.analysis.neighbours import before_any, lags_in
from ceql.automata.cea import CEA


def without_lags_at_first(cea: CEA) -> CEA:
    """The automaton, of which no initial transition reads a lag."""
    guards = {guard: k for k, guard in enumerate(cea.guards)}
    place = {}
    for k, guard in enumerate(cea.guards):
        if any(steps for _, steps in lags_in(guard.predicates)):
            first = replace(guard, predicates=tuple(map(before_any, guard.predicates)))
            place[k] = guards.setdefault(first, len(guards))
    if not place:
        return cea
    initial = []
    for transition in cea.initial:
        mask = transition.guard
        for k, first_k in place.items():
            if mask >> k & 1:
                mask = mask & ~(1 << k) | 1 << first_k
        initial.append(transition._replace(guard=mask))
    return _with_guards_used(replace(cea, guards=tuple(guards), initial=tuple(initial)))


def _with_guards_used(cea: CEA) -> CEA:
    """The automaton without guards that no transition asks."""
    rows = (cea.initial, *cea.states)
    used = [
        k for k in range(len(cea.guards)) if any((t.guard | t.unless | t.after) >> k & 1 for row in rows for t in row)
    ]

    def moved(mask: int) -> int:
        return sum(1 << new for new, k in enumerate(used) if mask >> k & 1)

    told = [
        tuple(t._replace(guard=moved(t.guard), unless=moved(t.unless), after=moved(t.after)) for t in row)
        for row in rows
    ]
    return replace(cea, guards=tuple(cea.guards[k] for k in used), initial=told[0], states=tuple(told[1:]))
