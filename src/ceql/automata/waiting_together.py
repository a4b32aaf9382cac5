"""Runs of different states that wait for the same events, in one index.

In `A ; B+ AS b FILTER b[price > PREV.price]`, runs that end with an A and runs that end with a B wait for the same: a B
that costs more than the last event. The compiler gives each state an index; here both share one, and a B looks once.

This is how the loop runs an automaton. Indexes keep their numbers: those that nobody looks at any more are not fed.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from ceql.automata.correlated import Correlated, Transition


def with_shared_indexes(auto: Correlated) -> Correlated:
    """The same automaton, with one index for all states whose runs are found by the same transitions."""
    if auto.carrying is None or auto.ends_runs:
        return auto
    alike: defaultdict[object, list[int]] = defaultdict(list)
    between = {index.between for index in auto.indexes}
    finding: defaultdict[int, dict[Transition, None]] = defaultdict(dict)
    for transition in auto.transitions:
        for link in transition.links:
            finding[link.where][transition] = None
    for k, index in enumerate(auto.indexes):
        found = list(finding[k])
        if found and index.between < 0 and k not in between and all(len(e.links) == 1 for e in found):
            alike[index[1:], frozenset(map(_anywhere, found))].append(k)
    shared = {k: same[0] for same in alike.values() for k in same[1:]}
    if not shared:
        return auto
    indexes = list(auto.indexes)
    for k, first in shared.items():
        indexes[first] = indexes[first]._replace(feeders={**indexes[first].feeders, **indexes[k].feeders})
    transitions = tuple(e for e in auto.transitions if not any(link.where in shared for link in e.links))
    return replace(auto, transitions=transitions, indexes=tuple(indexes))


def _anywhere(transition: Transition) -> Transition:
    """The transition, wherever it looks."""
    return transition._replace(links=tuple(link._replace(where=-1) for link in transition.links))
