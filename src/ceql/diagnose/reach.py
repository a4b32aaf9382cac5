"""Finds how far the runs of a query got, and what they waited for there.

In: what the engine reached (`following.py`), and how often each condition held. Out: a `Reach`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ceql.diagnose.conditions import ConditionCounts
from ceql.diagnose.findings import Place, Reach, Wait
from ceql.diagnose.following import CorrelatedFollowing, UnaryFollowing
from ceql.diagnose.ways import NEVER, START, CorrelatedWays, UnaryWays
from ceql.explain.claims import print_part
from ceql.explain.formula import print_asked, print_mask
from ceql.jit import Array

PlaceOf = Callable[[Array], Place]
"""The place of an event, given by position and time."""


def reach(following: UnaryFollowing | CorrelatedFollowing, counts: ConditionCounts, place_of: PlaceOf) -> Reach:
    """How far the followed runs got."""
    common = " & ".join(f"the same {print_part(part)}" for part in following.split_by)
    if isinstance(following, UnaryFollowing):
        return _unary_reach(following, common, counts, place_of)
    return _correlated_reach(following, common, counts, place_of)


def _unary_reach(following: UnaryFollowing, common: str, counts: ConditionCounts, place_of: PlaceOf) -> Reach:
    reached, cea = following.reached, following.cea
    ways = UnaryWays(cea)
    state = _furthest_state(following, ways)
    first = last = None
    if state != START:
        first, last = place_of(reached.first[state]), place_of(reached.last[state])
    waits = []
    for guards, immediately in ways.waits(state):
        hits, latest = counts.count(counts.mask_of(cea.guards, guards))
        after = latest > (first.position if first else -1)
        waits.append(Wait(print_mask(cea.guards, guards), hits, after, immediately, common if first else ""))
    done = ways.done[state]
    return Reach(
        done=done,
        total=done + ways.left[state] if state in ways.left else 0,
        path=ways.path(state),
        times=int(reached.entered[state]) if state != START else 0,
        first=first,
        last=last,
        waits=tuple(waits),
    )


def _furthest_state(following: UnaryFollowing, ways: UnaryWays) -> int:
    states = [s for s in np.flatnonzero(following.reached.entered).tolist() if s in ways.done]
    return max(states, key=ways.share, default=START)


def shortest(following: UnaryFollowing) -> tuple[bool, int | None]:
    """Whether a run is complete, and the length of the shortest that got furthest, in the measure of the window."""
    ways = UnaryWays(following.cea)
    found = [int(following.least[s]) for s in following.cea.final if following.least[s] >= 0]
    if found:
        return True, min(found)
    state = _furthest_state(following, ways)
    return False, int(following.least[state]) if ways.done[state] > 1 and following.least[state] >= 0 else None


def _correlated_reach(following: CorrelatedFollowing, common: str, counts: ConditionCounts, place_of: PlaceOf) -> Reach:
    reached, auto = following.reached, following.auto
    ways = CorrelatedWays(auto)
    far = _furthest(following, ways)
    first = last = None
    times = 0
    if far.states:  # of several runs to be joined, the one that came last
        state = max(far.states, key=lambda s: int(reached.first[s, 0]))
        first, last, times = place_of(reached.first[state]), place_of(reached.last[state]), int(reached.entered[state])
    waits: dict[tuple[str, str], Wait] = {}
    for k in far.waits:
        transition = auto.transitions[k]
        hits, latest = counts.count(counts.mask_of(auto.guards, transition.guard))
        text = print_asked(auto.guards, transition.guard)
        compared = ways.compared(transition, far.states)
        if common and first is not None:
            compared = " & ".join(filter(None, [common, compared]))
        after = latest > (first.position if first else -1)
        waits[text, compared] = Wait(text, hits, after, ways.is_tight(transition), compared, following.nulls[k])
    path = " and ".join(map(ways.path, far.states))
    return Reach(far.done, far.total, path, times, first, last, tuple(waits.values()))


class _Furthest(NamedTuple):
    """The states of the runs that are closest to a match, `done` of `total` steps, and what never fired from there."""

    done: int
    total: int
    states: tuple[int, ...]
    waits: tuple[int, ...]


def _furthest(following: CorrelatedFollowing, ways: CorrelatedWays) -> _Furthest:
    """The runs, or the runs to be joined, that are closest to a match."""
    entered = {int(state) for state in np.flatnonzero(following.reached.entered)}
    complete = [state for state in following.auto.final if state in entered]
    if complete:
        state = ways.nearest(complete)
        return _Furthest(ways.done[state], ways.done[state], (state,), ())
    best: _Furthest | None = None
    for k, step in enumerate(ways.steps):
        if following.reached.fired[k]:
            continue
        reached: list[int] = []
        ahead = step.cost + ways.left.get(step.target, NEVER)
        for states in step.sources:
            here = [state for state in states if state in entered]
            if here:
                reached.append(ways.nearest(here))
            else:
                ahead += ways.least(states)
        done = sum(ways.done[state] for state in reached)
        if ahead >= NEVER:
            continue
        one = _Furthest(done, done + ahead, tuple(dict.fromkeys(reached)), (k,))
        if best is None or (one.done / one.total, one.done) > (best.done / best.total, best.done):
            best = one
        elif one[:3] == best[:3]:
            best = best._replace(waits=(*best.waits, k))
    return best or _Furthest(0, 0, (), ())
