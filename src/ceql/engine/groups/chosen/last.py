"""LAST on the graph: from the complete runs backwards, those go on that have the latest event next.

Of two sets of positions that agree from their ends on, the one with the later event before that is the greater. So
those products stay that have the latest shown event. Events that are not shown make no difference: runs go past them.
"""

from __future__ import annotations

import numpy as np

from ceql.engine.common.graph import KIND, A, B
from ceql.engine.groups.chosen.before import GIVEN_UP, Ways, add_steps, numbered
from ceql.engine.groups.layout import Carrier
from ceql.jit import Array, allocating


@allocating
def ways_of_last(
    carrier: Carrier, nodes: Array, used: int, roots: Array, shown: Array, marks: Array, bound: int, block: int
) -> Ways:
    """The ways of the matches that LAST keeps. Each live run must have a start inside the window."""
    # how many shown events come after a product, on the ways that reach it, and on those on which it had its turn
    reached, taken = np.empty(used, np.int64), np.empty(used, np.int64)
    before = np.empty(used, np.int64)  # the same for what is before it
    first, end = np.empty(used, np.int64), np.empty(used, np.int64)
    turns, waiting, seen = np.empty(used, np.int64), np.empty(used, np.int64), np.empty(used, np.int64)
    to, stack = np.empty(64, np.int64), np.empty(64, np.int64)
    count = steps = waits = events = since = (
        0  # the last two: shown events of the greatest sets so far, and turns before the last of these
    )
    for n in roots:
        marks[n] = 1
        reached[n], taken[n] = 0, -1
        waiting[waits] = seen[waits] = n
        waits += 1
    sights = waits
    while waits > 0:
        latest, any_shown = np.int64(-1), False
        for k in range(waits):
            n = waiting[k]
            if nodes[n, A] > latest:
                latest, any_shown = nodes[n, A], False
            if nodes[n, A] == latest:
                any_shown = any_shown or shown[nodes[n, KIND]] != 0
        begin = count
        left = 0
        for k in range(waits):
            n = waiting[k]
            if nodes[n, A] == latest and (not any_shown or shown[nodes[n, KIND]] != 0):
                taken[n] = events
                turns[count] = n
                count += 1
            elif not any_shown:
                waiting[left] = n
                left += 1
        waits = left
        if any_shown:
            steps = _only_taken(turns[since:begin], first, end, to, taken, events)
            since = begin
            events += 1
        for k in range(begin, count):
            n = turns[k]
            before[n] = events
            to, steps, stack = add_steps(carrier, nodes, n, bound, block, first, end, to, steps, stack)
            for s in range(first[n], steps):
                q = to[s]
                if marks[q] == 0:
                    marks[q] = 1
                    seen[sights] = q
                    sights += 1
                    reached[q], taken[q] = -1, -1
                if reached[q] != events and taken[q] < 0:  # in a snapshot that was made up, events may go back
                    reached[q] = events
                    waiting[waits] = q
                    waits += 1
    for k in range(sights):
        marks[seen[k]] = 0
        reached[seen[k]] = 0
    leads = reached  # from here on: whether a product leads to a start of the greatest sets
    top = count
    for k in range(count - 1, -1, -1):  # those that do so move to the end of `turns`
        n = turns[k]
        good = nodes[n, B] < 0 and before[n] == events
        for s in range(first[n], end[n]):
            if taken[to[s]] == before[n] and leads[to[s]] != 0:
                good = True
            else:
                to[s] = GIVEN_UP
        if good:
            leads[n] = 1
            top -= 1
            turns[top] = n
    complete = roots[(taken[roots] == 0) & (leads[roots] != 0)]
    return numbered(turns[top:count], first, end, to, complete, marks)


@allocating
def _only_taken(products: Array, first: Array, end: Array, to: Array, taken: Array, events: int) -> int:
    """Leave out the steps of the last products that lead to none of those that had their turn; how many steps are left,
    of all."""
    steps = first[products[0]] if len(products) else 0
    for n in products:
        low, first[n] = first[n], steps
        for s in range(low, end[n]):
            if taken[to[s]] == events:
                to[steps] = to[s]
                steps += 1
        end[n] = steps
    return steps
