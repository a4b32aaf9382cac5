"""STRICT: the match's positions are an interval of the (sub)stream (formal-framework-icdt2019, section 4).

Every run goes through three phases: nothing bound yet, binding, nothing bound any more. An unbound event ends the
binding phase for good. With `SELECT *` only the middle phase is left, since the first and last events are bound.
"""

from __future__ import annotations

from ceql.automata.cea import CEA, Transition, tidy

BEFORE, DURING, AFTER = range(3)


def strict(cea: CEA) -> CEA:
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
