"""Where the matches of each start belong, found on the graph before they are enumerated.

Bottom up (children before parents) the live nodes are listed and the matches counted. Top down, each node hands on
to its children how many matches pass through it and how many events they have bound so far; at a bottom, both are
those of all matches of that start. Starts in descending order then get consecutive places.
"""

from __future__ import annotations

import numpy as np

from ceql.engine.states.graph import BOTTOM, KIND, MAX, A, B
from ceql.engine.states.layout import ROOTS, TOO_MANY, Output, Settings
from ceql.jit import Array, inlined


@inlined
def list_live(nodes: Array, regs: Array, roots: Array, scratch: Array, bound: int) -> int:
    """List the live nodes in scratch[2, 1:], children first, and mark them in scratch[0]; how many there are."""
    seen = 0
    for k in range(regs[ROOTS]):
        if nodes[roots[k], MAX] < bound:
            continue
        height = 1
        scratch[1, 0] = roots[k]
        while height > 0:
            n = scratch[1, height - 1]
            if scratch[0, n] > 0:
                height -= 1
                continue
            if nodes[n, KIND] != BOTTOM:
                child = nodes[n, B]
                if scratch[0, child] == 0 and nodes[child, MAX] >= bound:
                    scratch[1, height] = child
                    height += 1
                    continue
                if nodes[n, KIND] < 0 and scratch[0, nodes[n, A]] == 0:
                    scratch[1, height] = nodes[n, A]
                    height += 1
                    continue
            scratch[0, n] = 1
            seen += 1
            scratch[2, seen] = n
            height -= 1
    scratch[2, 0] = seen
    return seen


@inlined
def place_starts(
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
    starts = 0
    matches = np.int64(0)
    entries = np.int64(0)
    for k in range(seen, 0, -1):
        n = scratch[2, k]
        passing, events = scratch[0, n], scratch[3, n]
        kind = nodes[n, KIND]
        if kind == BOTTOM:
            if not settings.exact or nodes[n, B] >= bound:
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
            for j in range(1, seen + 1):
                scratch[0, scratch[2, j]] = 0
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
def latest_path(nodes: Array, regs: Array, roots: Array, out: Output, scratch: Array, bound: int) -> int:
    """Put a match of latest start into the path of `out` and its bottom into scratch[1, 0]; its length.

    -1 when no match is inside the window, -2 when the path is too small. Following the left children leads to
    the greatest key; of several starts with that key (equal times), the latest is looked for by itself.
    """
    best = np.int64(bound)
    for k in range(regs[ROOTS]):
        best = max(best, nodes[roots[k], MAX])
    seen = list_live(nodes, regs, roots, scratch, best)
    latest = np.int64(-1)
    for k in range(1, seen + 1):
        if nodes[scratch[2, k], KIND] == BOTTOM:
            latest = max(latest, scratch[2, k])
    for k in range(1, seen + 1):  # mark with 2 what leads there
        n = scratch[2, k]
        kind = nodes[n, KIND]
        if kind == BOTTOM:
            leads = n == latest
        elif kind >= 0:
            leads = scratch[0, nodes[n, B]] == 2
        else:
            leads = scratch[0, nodes[n, A]] == 2 or scratch[0, nodes[n, B]] == 2
        if leads:
            scratch[0, n] = 2
    depth = np.int64(-1)
    for k in range(regs[ROOTS]):
        if scratch[0, roots[k]] == 2:
            depth = np.int64(0)
            n = roots[k]
            while nodes[n, KIND] != BOTTOM:
                if nodes[n, KIND] >= 0:
                    if depth == len(out.path_position):
                        depth = np.int64(-2)
                        break
                    out.path_position[depth] = nodes[n, A]
                    out.path_label[depth] = nodes[n, KIND]
                    depth += 1
                    n = nodes[n, B]
                else:
                    n = nodes[n, A] if scratch[0, nodes[n, A]] == 2 else nodes[n, B]
            break
    for k in range(1, seen + 1):
        scratch[0, scratch[2, k]] = 0
    scratch[1, 0] = latest
    return depth


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
