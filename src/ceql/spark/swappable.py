"""Finds the events of one substream and one time that can be swapped without changing the result.

Spark orders rows by columns alone. Where two rows of a substream agree in all of these, the result could depend on
which row comes first. Often it does not: `A ; B` finds the same pairs whichever of two A's of the same time is read
first. Two symbols *can be swapped* if, from every state, reading both in either order can do the same to both events,
completes the same matches, and reaches the same states. That is enough for every query that keeps all matches of a
formula (no strategy, LIMIT or CONSUME) in a window of time. Where a query compares events with each other, other than
by their substreams, symbols do not say everything about an event, and no two can be swapped.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from ceql.analysis.normal import Atom, to_normal
from ceql.analysis.substreams import is_simple
from ceql.automata.cea import CEA, NO_LABEL, Label, Transition
from ceql.automata.compile import compile_formula
from ceql.plans import Loop, Plan
from ceql.syntax import tree as t

# what reading two events can do: to the first, to the second, and where it ends (a state, or at which event it matched)
_Effect = tuple[Label, Label, tuple[str, int]]


class SwappableSymbols:
    """Which symbols of an automaton can be swapped; each pair is worked out when it is first asked for.

    `guards` are what the bits of a symbol stand for, those of the automaton among them.
    """

    def __init__(self, cea: CEA, guards: Sequence[Atom]) -> None:
        self._cea = cea
        self._places = [guards.index(guard) for guard in cea.guards]
        self._resting = cea.resting_after()
        # where every event of a match is bound, a match is known by its events, wherever it ended
        hidden = any(t.guard != 0 and not t.label for row in (cea.initial, *cea.states) for t in row)
        self._ends = (0, 1) if hidden else (0, 0)
        self._known: dict[tuple[int, int], bool] = {}

    def holds(self, a: int, b: int) -> bool:
        """Whether events with these sets of guards (bit masks) can be swapped."""
        a, b = self._own(a), self._own(b)
        if (a, b) not in self._known:
            self._known[a, b] = self._effects(a, b, swapped=False) == self._effects(b, a, swapped=True)
        return self._known[a, b]

    def _own(self, bits: int) -> int:
        return sum((bits >> place & 1) << k for k, place in enumerate(self._places))

    def _effects(self, first: int, second: int, swapped: bool) -> set[tuple[int, _Effect]]:
        found: set[tuple[int, _Effect]] = set()
        ends = self._ends[::-1] if swapped else self._ends

        def add(origin: int, one: Label, two: Label, end: tuple[str, int]) -> None:
            found.add((origin, (two, one, end) if swapped else (one, two, end)))

        def arrive(origin: int, one: Label, step: Transition) -> None:
            for state in self._resting[step.target]:
                if self._cea.states[state]:  # else nothing follows
                    add(origin, one, step.label, ("state", state))
            if step.target in self._cea.final:
                add(origin, one, step.label, ("matched at", ends[1]))

        for origin in range(-1, len(self._cea.states)):  # -1: no event of a match read yet
            for step in self._steps(origin, first):
                if step.target in self._cea.final:
                    add(origin, step.label, NO_LABEL, ("matched at", ends[0]))
                for further in self._steps(step.target, second):
                    arrive(origin, step.label, further)
        for step in self._steps(-1, second):  # a match may begin at the second event
            arrive(-1, NO_LABEL, step)
        return found

    def _steps(self, state: int, bits: int) -> list[Transition]:
        row = self._cea.initial if state < 0 else self._cea.states[state]
        return [step for step in row if step.fires(bits)]


@lru_cache(maxsize=256)  # those of a set of queries as well
def swappable_symbols(plan: Plan) -> SwappableSymbols | None:
    """The symbols that can be swapped under a query; None where no two can."""
    cea = _automaton(plan)
    return SwappableSymbols(cea, plan.guards) if cea is not None and some_can_swap(plan) else None


def some_can_swap(plan: Plan) -> bool:
    """Whether ties can be harmless at all under this query."""
    query = plan.query
    return (
        query.strategy in (None, t.Strategy.ALL)
        and query.limit is None
        and query.after_match is None
        and query.consume is t.Consume.NONE
        and (query.window is None or isinstance(query.window, t.TimeWindow))
        and plan.skips_safely
        and _automaton(plan) is not None
    )


def _automaton(plan: Plan) -> CEA | None:
    """The automaton over single events that says all about a query, if there is one."""
    if plan.loop is not Loop.GROUPS:
        return None if any(step.after for step in plan.cea.initial) else plan.cea
    if not is_simple(plan.shape) or plan.shape.absences:
        return None
    cea = compile_formula(to_normal(plan.shape), plan.selected)
    return cea if set(cea.guards) <= set(plan.guards) else None
