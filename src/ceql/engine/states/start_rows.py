"""Finds the rows of the output that the matches of each start get, on the graph, before they are enumerated.

Bottom up (children before parents) the live nodes are listed. Top down, each node hands on to its children how many
matches pass through it and how many events they have bound so far; at a bottom, both are those of all matches of that
start. Starts in descending order then get consecutive rows.
"""

from __future__ import annotations

import numpy as np

from ceql.engine.common.graph import BOTTOM, KIND, MAX, A, B, C
from ceql.engine.common.layout import TOO_MANY, Settings
from ceql.engine.states.live import list_live
from ceql.jit import Array, inlined


@inlined
def rows_by_start(
    nodes: Array, roots: Array, scratch: Array, settings: Settings, bound: int, first: int, base: int
) -> tuple[int, int, int]:
    """Set scratch[0, b] and scratch[3, b] of live bottoms b to the row and entry of its first match.

    Returns the numbers of matches and of events, TOO_MANY or more where they cannot be counted; and the least key of a
    start that has rows: LIMIT leaves out the earlier ones.
    """
    seen = list_live(nodes, roots, scratch, bound)
    for k in range(1, seen + 1):
        scratch[0, scratch[2, k]] = 0
        scratch[3, scratch[2, k]] = 0
    for k in range(len(roots)):
        if nodes[roots[k], MAX] >= bound:
            scratch[0, roots[k]] += 1
    starts = np.int64(0)
    for k in range(seen, 0, -1):
        n = scratch[2, k]
        passing, events = scratch[0, n], scratch[3, n]
        kind = nodes[n, KIND]
        if kind == BOTTOM:
            if not settings.exact or nodes[n, C] >= bound:
                scratch[1, starts] = n
                starts += 1
            continue
        child = nodes[n, B]
        if kind >= 0:
            _hand_on(scratch, child, passing, events + passing)
            continue
        if nodes[child, MAX] >= bound:
            _hand_on(scratch, child, passing, events)
        _hand_on(scratch, np.int64(nodes[n, A]), passing, events)
    _sort_descending(scratch, starts)
    row, at, least = np.int64(first), np.int64(base), np.int64(bound)
    enough = np.int64(settings.limit if settings.limit > 0 else TOO_MANY)
    for k in range(starts):
        n = scratch[1, k]
        if row - first >= TOO_MANY or at - base >= TOO_MANY or (row - first >= enough and nodes[n, MAX] < least):
            break
        least = nodes[n, MAX]
        passing, events = scratch[0, n], scratch[3, n]
        scratch[0, n] = row
        scratch[3, n] = at
        row += passing
        at += events
    return row - first, at - base, least


@inlined
def _hand_on(scratch: Array, n: int, passing: int, events: int) -> None:
    scratch[0, n] = min(scratch[0, n] + passing, np.int64(TOO_MANY))
    scratch[3, n] = min(scratch[3, n] + events, np.int64(TOO_MANY))


@inlined
def _sort_descending(scratch: Array, count: int) -> None:
    """Sort the first entries of scratch[1]. Bottoms are made in stream order: later starts have greater indices."""
    # shell sort: in place, and nearly linear on what the search gives, which is nearly in order
    gap = 1
    while gap < count // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for k in range(gap, count):
            value = scratch[1, k]
            at = k
            while at >= gap and scratch[1, at - gap] < value:
                scratch[1, at] = scratch[1, at - gap]
                at -= gap
            scratch[1, at] = value
        gap //= 3
