"""Ways through an automaton: how far each state is from the start and from a match, and the events between, as text.

A step is an event that has to satisfy something; waiting for it costs nothing. A state's progress is the least number
of steps from the start to it, what remains is the least number from it to a match, with all the runs to be joined.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from ceql.automata.cea import CEA, Transition
from ceql.automata.correlated import Correlated
from ceql.automata.correlated import Transition as CorrelatedTransition
from ceql.explain.automaton import NEXT_EVENT, print_links
from ceql.explain.formula import print_asked, print_mask

START = -1
NEVER = 1 << 30


class Step(NamedTuple):
    """A transition: it goes on with one run for each of `sources`, which is in any of the states given there."""

    sources: tuple[Collection[int], ...]
    target: int
    cost: int = 1


class Ways:
    """The least number of steps to each state, and from it to a match. A state that is missing has no such way."""

    def __init__(self, steps: Sequence[Step], starts: Iterable[int], final: Iterable[int]) -> None:
        self.done = dict.fromkeys(starts, 0)
        self.left = dict.fromkeys(final, 0)
        self.by: dict[int, int] = {}
        """The number of the last step on a shortest way to a state."""
        grows = True
        while grows:
            grows = False
            for k, step in enumerate(steps):
                cost = step.cost + sum(map(self.least, step.sources))
                if cost < self.done.get(step.target, NEVER):
                    self.done[step.target], self.by[step.target], grows = cost, k, True
        grows = True
        while grows:
            grows = False
            for step in reversed(steps):
                costs = [self.least(states) for states in step.sources]
                every = step.cost + sum(costs) + self.left.get(step.target, NEVER)
                for states, own in zip(step.sources, costs, strict=True):
                    for state in states:
                        if every - own < self.left.get(state, NEVER):
                            self.left[state], grows = every - own, True

    def least(self, states: Collection[int]) -> int:
        """The least number of steps to any of the states."""
        return min((self.done.get(state, NEVER) for state in states), default=NEVER)

    def nearest(self, states: Iterable[int]) -> int:
        """The first of the states with the least number of steps to it."""
        return min(states, key=lambda state: self.done.get(state, NEVER))


class UnaryWays(Ways):
    """The ways through the automaton of a query on single events. `START` stands for a run that has not begun."""

    def __init__(self, cea: CEA) -> None:
        self.cea = cea
        self._steps = [
            Step(((s,),), t.target, int(t.guard != 0)) for s in range(START, len(cea.states)) for t in self._row(s)
        ]
        super().__init__(self._steps, [START], sorted(cea.final))

    def _row(self, state: int) -> tuple[Transition, ...]:
        return self.cea.initial if state == START else self.cea.states[state]

    def share(self, state: int) -> tuple[float, int]:
        """What part of the way to a match is done in `state`; of equal parts, the longer way is further."""
        done = self.done[state]
        return done / max(1, done + self.left.get(state, NEVER)), done

    def path(self, state: int) -> str:
        """The way to `state`: what each step asks for, joined by `;` where other events may come between."""
        states = [state]
        while states[-1] != START:
            states += self._steps[self.by[states[-1]]].sources[0]
        states.reverse()
        text, waited = "", False
        for one, two in pairwise(states):
            if self.done[one] == self.done[two]:
                waited = True
                continue
            asked = " or ".join(
                dict.fromkeys(
                    print_mask(self.cea.guards, t.guard) for t in self._row(one) if t.target == two and t.guard
                )
            )
            waited = waited or self._may_wait(one, two)
            text += (" ; " if waited else " : ") * bool(text) + asked
            waited = False
        return text

    def _may_wait(self, state: int, target: int) -> bool:
        """Whether a run in `state` can let events pass and still take the step to `target`."""
        after = [u for t in self._row(state) if t.guard == 0 for u in self._row(t.target)]
        return any(u.target == target and u.guard for u in after)

    def waits(self, state: int) -> list[tuple[int, bool]]:
        """The guards of events that would bring a run in `state` closer to a match, and whether they must be next."""
        found: dict[int, bool] = {}
        seen, queue = {state}, [state]
        while queue:
            at = queue.pop(0)
            for t in self._row(at):
                if t.guard == 0 and t.target not in seen:
                    seen.add(t.target)
                    queue.append(t.target)
                elif t.guard and self.left.get(t.target, NEVER) < self.left.get(state, NEVER):
                    may_wait = at != state or state == START or t.target == at or self._may_wait(at, t.target)
                    found[t.guard] = found.get(t.guard, True) and not may_wait
        return list(found.items())


class CorrelatedWays(Ways):
    """The ways through the automaton of a correlated query, whose steps may join runs."""

    def __init__(self, auto: Correlated) -> None:
        self.auto = auto
        self.steps = [
            Step(tuple(list(auto.indexes[link.where].feeders) for link in e.links), e.target) for e in auto.transitions
        ]
        super().__init__(self.steps, [], auto.final)

    def path(self, state: int) -> str:
        """The events to `state`; what is joined stands in parentheses."""
        if state not in self.by:
            return "?"
        transition = self.auto.transitions[self.by[state]]
        before = [self.nearest(states) for states in self.steps[self.by[state]].sources]
        event = print_asked(self.auto.guards, transition.guard, transition.failing)
        if not before:
            return event
        compared = self.compared(transition, before)
        text = " and ".join(map(self.path, before))
        joined = f"({text})" if len(before) > 1 else text
        return f"{joined} {':' if self.is_tight(transition) else ';'} {event}{' & ' * bool(compared)}{compared}"

    def is_tight(self, transition: CorrelatedTransition) -> bool:
        """Whether the event must be the very next one."""
        return any(self.auto.indexes[link.where].tight for link in transition.links)

    def compared(self, transition: CorrelatedTransition, states: Collection[int]) -> str:
        """What a transition compares the event with, of runs in these states."""
        parts = [
            part
            for found in print_links(self.auto, transition)
            for state, texts in found.items()
            if state in states
            for part in texts
            if part != NEXT_EVENT
        ]
        return " & ".join(dict.fromkeys(parts))
