"""Finds the rows of the output that the matches of each start get, on the graph, before they are enumerated.

Bottom up (children before parents) the live nodes are listed. Top down, each node hands on to its children how many
matches pass through it and how many events they have bound so far; at a bottom, both are those of all matches of that
start. Starts in descending order then get consecutive rows.
"""

from __future__ import annotations

import numpy as np

from ceql.engine.common.graph import BOTTOM, KIND, MAX, A, B, C
from ceql.engine.common.layout import ROOTS, TOO_MANY, Settings
from ceql.engine.common.marks import clear_marks
from ceql.engine.states.live import list_live
from ceql.jit import Array, inlined


@inlined
def rows_by_start(
    nodes: Array, regs: Array, roots: Array, scratch: Array, settings: Settings, bound: int, first: int, base: int
) -> tuple[int, int]:
    """Set scratch[0, b] and scratch[3, b] of every live bottom b to the row and entry of its first match.

    Returns the numbers of matches and of events; (-1, 0) when there are too many to count, with the sums cleared.
    """
    seen = list_live(nodes, regs, roots, scratch, bound)
    for k in range(1, seen + 1):
        scratch[0, scratch[2, k]] = 0
        scratch[3, scratch[2, k]] = 0
    for k in range(regs[ROOTS]):
        if nodes[roots[k], MAX] >= bound:
            scratch[0, roots[k]] += 1
    starts = np.int64(0)
    matches = np.int64(0)
    entries = np.int64(0)
    for k in range(seen, 0, -1):
        n = scratch[2, k]
        passing, events = scratch[0, n], scratch[3, n]
        kind = nodes[n, KIND]
        if kind == BOTTOM:
            if not settings.exact or nodes[n, C] >= bound:
                matches += passing
                entries += events
                scratch[1, starts] = n
                starts += 1
        else:
            child = nodes[n, B]
            if kind >= 0:
                scratch[0, child] += passing
                scratch[3, child] += events + passing
            else:
                if nodes[child, MAX] >= bound:
                    scratch[0, child] += passing
                    scratch[3, child] += events
                scratch[0, nodes[n, A]] += passing
                scratch[3, nodes[n, A]] += events
        if matches > TOO_MANY or entries > TOO_MANY or passing > TOO_MANY:
            clear_marks(scratch)
            return np.int64(-1), np.int64(0)
    _sort_descending(scratch, starts)
    row, at = np.int64(first), np.int64(base)
    for k in range(starts):
        n = scratch[1, k]
        passing, events = scratch[0, n], scratch[3, n]
        scratch[0, n] = row
        scratch[3, n] = at
        row += passing
        at += events
    return matches, entries


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
