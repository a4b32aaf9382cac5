"""Steps through an automaton: how far a state is from the start, how far from a match, and the way between.

A step is an event that has to satisfy something; waiting for it costs nothing. A state's progress is the least number
of steps from the start to it, what remains is the least number from it to a final state.
"""

from __future__ import annotations

from collections import deque
from itertools import pairwise
from typing import NamedTuple

from ceql.automata.cea import CEA, Transition
from ceql.explain.formula import print_mask

START = -1
NEVER = 1 << 30


class Steps(NamedTuple):
    """Steps done and remaining, for each state; `START` is at 0 and may stand for an automaton without a match."""

    done: dict[int, int]
    left: dict[int, int]
    before: dict[int, int]  # the state before, on a shortest way from the start

    def share(self, state: int) -> tuple[float, int]:
        """What part of the way to a match is done in `state`; of equal parts, the longer way is further."""
        done, left = self.done[state], self.left.get(state, NEVER)
        return done / max(1, done + left), done


def row(cea: CEA, state: int) -> tuple[Transition, ...]:
    return cea.initial if state == START else cea.states[state]


def steps(cea: CEA) -> Steps:
    """Breadth-first search both ways, in which waiting is free."""
    edges = [(s, t.target, int(t.guard != 0)) for s in range(START, len(cea.states)) for t in row(cea, s)]
    done, before = _shortest(edges, [START])
    left, _ = _shortest([(target, s, cost) for s, target, cost in edges], sorted(cea.final))
    return Steps(done, left, before)


def _shortest(edges: list[tuple[int, int, int]], sources: list[int]) -> tuple[dict[int, int], dict[int, int]]:
    out: dict[int, list[tuple[int, int]]] = {}
    for source, target, cost in edges:
        out.setdefault(source, []).append((target, cost))
    distance = dict.fromkeys(sources, 0)
    before: dict[int, int] = {}
    queue = deque(sources)
    while queue:
        state = queue.popleft()
        for target, cost in out.get(state, ()):
            if distance[state] + cost < distance.get(target, NEVER):
                distance[target] = distance[state] + cost
                before[target] = state
                (queue.append if cost else queue.appendleft)(target)
    return distance, before


def path(cea: CEA, known: Steps, state: int) -> str:
    """The way to `state` as text: what each step asks for, joined by `;` where other events may come between."""
    states = [state]
    while states[-1] != START:
        states.append(known.before[states[-1]])
    states.reverse()
    text, waited = "", False
    for one, two in pairwise(states):
        if known.done[one] == known.done[two]:
            waited = True
            continue
        asked = " or ".join(
            dict.fromkeys(print_mask(cea.guards, t.guard) for t in row(cea, one) if t.target == two and t.guard)
        )
        waited = waited or _may_wait(cea, one, two)
        text += (" ; " if waited else " : ") * bool(text) + asked
        waited = False
    return text


def _may_wait(cea: CEA, state: int, target: int) -> bool:
    """Whether a run in `state` can let events pass and still take the step to `target`."""
    return any(u.target == target and u.guard for t in row(cea, state) if t.guard == 0 for u in row(cea, t.target))


def waits(cea: CEA, known: Steps, state: int) -> list[tuple[int, bool]]:
    """The events that would bring a run in `state` closer to a match: their guards, and whether they must be next."""
    found: dict[int, bool] = {}
    seen, queue = {state}, [state]
    while queue:
        at = queue.pop(0)
        for t in row(cea, at):
            if t.guard == 0 and t.target not in seen:
                seen.add(t.target)
                queue.append(t.target)
            elif t.guard and known.left.get(t.target, NEVER) < known.left.get(state, NEVER):
                may_wait = at != state or state == START or t.target == at or _may_wait(cea, at, t.target)
                found[t.guard] = found.get(t.guard, True) and not may_wait
    return list(found.items())
