"""The matches of one end position, from the graph into the output buffers (core-vldb2022, Theorem 2).

A depth-first search from the accepting nodes, left before right, that never enters what the window has left: the time
from one match to the next is linear in the match. The contract wants later starts first, which the search alone
does not give. A position with few matches is written as the search goes and sorted; for one with many, `placing.py`
first finds out on the graph where the matches of each start belong, and the search writes them there.
A position with more matches than the buffers hold is left to `blocks.py`.
"""

from __future__ import annotations

import numpy as np

from ceql.engine.states.graph import BOTTOM, KIND, MAX, A, B
from ceql.engine.states.layout import (
    BLOCKS,
    DONE,
    ENTRIES,
    FULL,
    GROW_PATH,
    MATCHES,
    ROOTS,
    SEEN,
    Output,
    Settings,
)
from ceql.engine.states.order import latest_path, place_starts
from ceql.jit import Array, inlined

FEW = 64


@inlined
def enumerate_position(
    nodes: Array,
    times: Array,
    regs: Array,
    roots: Array,
    out: Output,
    scratch: Array,
    settings: Settings,
    bound: int,
    position: int,
    time: int,
    partition: int,
) -> int:
    """Write the matches that end at `position`; nothing is written unless all of them fit."""
    first = regs[MATCHES]
    base = regs[ENTRIES]
    if len(out.stack_node) < regs[ROOTS] + 8:
        return GROW_PATH
    if settings.limit == 1 and not settings.exact:
        depth = latest_path(nodes, regs, roots, out, scratch, bound)
        if depth < -1:
            return GROW_PATH
        if depth >= 0 and (first == len(out.start) or base + depth > len(out.position)):
            return FULL if first > 0 else BLOCKS
        _write_one(nodes, times, regs, out, scratch, settings, depth, position, time, partition)
        return DONE
    placed = False
    m, e = first, base
    one = np.uint64(1)  # unsigned indices spare Numba's test for negative ones
    deepest, highest = np.uint64(len(out.path_position)), np.uint64(len(out.stack_node))
    sorted_so_far = True
    while True:  # once, or twice when there turn out to be many
        height = np.uint64(_push_roots(nodes, regs, roots, out, bound))
        again = False
        while height > np.uint64(0):
            height -= one
            n = np.uint64(out.stack_node[height])
            depth = np.uint64(out.stack_depth[height])
            kind = nodes[n, KIND]
            while kind != BOTTOM:
                if kind >= 0:
                    if depth == deepest:
                        return GROW_PATH
                    out.path_position[depth] = nodes[n, A]
                    if settings.labelled:
                        out.path_label[depth] = kind
                    depth += one
                    n = np.uint64(nodes[n, B])
                else:
                    right = np.uint64(nodes[n, B])
                    if nodes[right, MAX] >= bound:
                        if height == highest:
                            return GROW_PATH
                        out.stack_node[height] = right
                        out.stack_depth[height] = depth
                        height += one
                    n = np.uint64(nodes[n, A])
                kind = nodes[n, KIND]
            if settings.exact and nodes[n, B] < bound:
                continue
            if placed:
                row, at = np.uint64(scratch[0, n]), np.uint64(scratch[3, n])
                scratch[0, n] = row + one
                scratch[3, n] = at + depth
            else:
                if m - first == FEW:
                    again = True
                    break
                if m == len(out.start) or e + np.int64(depth) > len(out.position):
                    return FULL if first > 0 else BLOCKS
                row, at = np.uint64(m), np.uint64(e)
                if m > first and nodes[n, A] > out.start[m - 1]:
                    sorted_so_far = False
                m += 1
                e += np.int64(depth)
            out.start[row] = nodes[n, A]
            if len(times) > 0:
                out.start_time[row] = times[n]
            out.offsets[row] = at
            if settings.labelled:
                for k in range(depth):
                    out.label[at + k] = out.path_label[depth - one - k]
            while depth > np.uint64(0):
                depth -= one
                out.position[at] = out.path_position[depth]
                at += one
        if not again:
            break
        found, entries = place_starts(nodes, regs, roots, scratch, settings, bound, first, base)
        if found < 0:
            return BLOCKS
        if found > settings.quota or first + found > len(out.start) or base + entries > len(out.position):
            _clear(scratch)
            return FULL if first > 0 and found <= settings.quota else BLOCKS
        m, e = first + found, base + entries
        placed = True
    out.offsets[m] = e
    if placed:
        _clear(scratch)
    elif not sorted_so_far:
        _sort_few(out, first, m, len(times) > 0)
    if settings.limit > 0 and m - first > settings.limit:
        m = first + settings.limit
        e = out.offsets[m]
    for k in range(first, m):
        out.end[k] = position
        out.partition[k] = partition
    if len(times) > 0:
        for k in range(first, m):
            out.end_time[k] = time
    regs[SEEN] = m - first
    regs[MATCHES] = m
    regs[ENTRIES] = e
    return DONE


@inlined
def _push_roots(nodes: Array, regs: Array, roots: Array, out: Output, bound: int) -> int:
    """Put the live roots on the stack; its height."""
    height = 0
    for k in range(regs[ROOTS] - 1, -1, -1):
        if nodes[roots[k], MAX] >= bound:
            out.stack_node[height] = roots[k]
            out.stack_depth[height] = 0
            height += 1
    return height


@inlined
def _write_one(
    nodes: Array,
    times: Array,
    regs: Array,
    out: Output,
    scratch: Array,
    settings: Settings,
    depth: int,
    position: int,
    time: int,
    partition: int,
) -> None:
    """Write the path that `latest_path` found, where it found one (`depth` is not -1)."""
    regs[SEEN] = 0
    if depth < 0:
        return
    m, e = regs[MATCHES], regs[ENTRIES]
    bottom = scratch[1, 0]
    out.start[m] = nodes[bottom, A]
    out.end[m] = position
    out.partition[m] = partition
    if len(times) > 0:
        out.start_time[m] = times[bottom]
        out.end_time[m] = time
    out.offsets[m] = e
    for k in range(depth):
        out.position[e + k] = out.path_position[depth - 1 - k]
        out.label[e + k] = out.path_label[depth - 1 - k]
    out.offsets[m + 1] = e + depth
    regs[MATCHES] = m + 1
    regs[ENTRIES] = e + depth
    regs[SEEN] = 1


@inlined
def _clear(scratch: Array) -> None:
    """Undo `place_starts`: the sums are zero between positions."""
    for k in range(scratch[2, 0]):
        scratch[0, scratch[2, 1 + k]] = 0


@inlined
def _sort_few(out: Output, first: int, last: int, timed: bool) -> None:
    """Order a few matches by descending start, stably, by insertion; then move their events."""
    count = last - first
    order = out.order
    for k in range(count):
        at = k
        while at > 0 and out.start[first + order[at - 1]] < out.start[first + k]:
            order[at] = order[at - 1]
            at -= 1
        order[at] = k
    base = out.offsets[first]
    e = base
    for k in range(count):
        source = first + order[k]
        for j in range(out.offsets[source], out.offsets[source + 1]):
            out.spare_position[e - base] = out.position[j]
            out.spare_label[e - base] = out.label[j]
            e += 1
    for j in range(e - base):
        out.position[base + j] = out.spare_position[j]
        out.label[base + j] = out.spare_label[j]
    # lengths, starts and times in the new order, by way of the spare positions
    for k in range(count):
        source = first + order[k]
        out.spare_position[k] = out.offsets[source + 1] - out.offsets[source]
    for k in range(count):
        out.offsets[first + k + 1] = out.offsets[first + k] + out.spare_position[k]
    for k in range(count):
        out.spare_position[k] = out.start[first + order[k]]
    for k in range(count):
        out.start[first + k] = out.spare_position[k]
    if timed:
        for k in range(count):
            out.spare_position[k] = out.start_time[first + order[k]]
        for k in range(count):
            out.start_time[first + k] = out.spare_position[k]


@inlined
def any_live(nodes: Array, regs: Array, roots: Array, out: Output, exact: bool, bound: int) -> int:
    """1 when some match of the current position is inside the window, 0 when none, -1 when the stack is too small."""
    if not exact:
        for k in range(regs[ROOTS]):
            if nodes[roots[k], MAX] >= bound:
                return 1
        return 0
    if len(out.stack_node) < regs[ROOTS] + 8:
        return -1
    height = 0
    for k in range(regs[ROOTS]):
        out.stack_node[height] = roots[k]
        height += 1
    while height > 0:
        height -= 1
        n = out.stack_node[height]
        if nodes[n, MAX] < bound:
            continue
        kind = nodes[n, KIND]
        if kind == BOTTOM:
            if nodes[n, B] >= bound:
                return 1
            continue
        if height + 2 > len(out.stack_node):
            return -1
        out.stack_node[height] = nodes[n, B]
        height += 1
        if kind < 0:
            out.stack_node[height] = nodes[n, A]
            height += 1
    return 0
