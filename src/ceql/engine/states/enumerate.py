"""The matches of one end position, from the graph into the output buffers (core-vldb2022, Theorem 2).

A depth-first search from the accepting nodes, left before right, that never enters what the window has left: the time
from one match to the next is linear in the match. The contract wants later starts first, which the search alone
does not give. A position with few matches is written as the search goes and sorted; for one with many, `start_rows.py`
first finds out on the graph where the matches of each start belong, and the search writes them there.
A position with more matches than the buffers hold is left to `blocks.py`.
"""

from __future__ import annotations

import numpy as np

from ceql.engine.common.graph import BOTTOM, KIND, MAX, A, B, C
from ceql.engine.common.layout import (
    BLOCKS,
    DONE,
    END,
    END_TIME,
    FULL,
    GROW_PATH,
    MATCHES,
    MORE,
    OFFSET,
    PARTITION,
    POSITIONS,
    ROOTS,
    SEEN,
    START,
    START_TIME,
    Output,
    Settings,
)
from ceql.engine.common.marks import clear_marks
from ceql.engine.common.order import sort_by_start
from ceql.engine.states.layout import DEPTH, LABEL, NODE, POSITION
from ceql.engine.states.start_rows import rows_by_start
from ceql.jit import Array, inlined

FEW = 64  # matches that are sorted after they were found


@inlined
def enumerate_position(
    nodes: Array,
    times: Array,
    regs: Array,
    roots: Array,
    out: Output,
    rows: Array | None,
    settings: Settings,
    bound: int,
    position: int,
    time: int,
    partition: int,
) -> int:
    """Write the matches that end at `position`; nothing is written unless all of them fit.

    `rows` is scratch to find the rows of many matches with. Without it, more matches than a few, or matches that are
    not found in order, are a reason to come back.
    """
    first = regs[MATCHES]
    base = regs[POSITIONS]
    if out.stack.shape[0] < regs[ROOTS] + 8:
        return GROW_PATH
    placed = False
    m, e = first, base
    one = np.uint64(1)  # unsigned indices spare Numba's test for negative ones
    deepest, highest = np.uint64(out.path.shape[0]), np.uint64(out.stack.shape[0])
    sorted_so_far = True
    while True:  # once, or twice when there turn out to be many
        height = np.uint64(0)
        for k in range(regs[ROOTS] - 1, -1, -1):
            if nodes[roots[k], MAX] >= bound:
                out.stack[height, NODE] = roots[k]
                out.stack[height, DEPTH] = 0
                height += one
        again = False
        while height > np.uint64(0):
            height -= one
            n = np.uint64(out.stack[height, NODE])
            depth = np.uint64(out.stack[height, DEPTH])
            kind = nodes[n, KIND]
            while kind != BOTTOM:
                if kind >= 0:
                    if depth == deepest:
                        if placed and rows is not None:
                            clear_marks(rows)
                        return GROW_PATH
                    out.path[depth, POSITION] = nodes[n, A]
                    if settings.labelled:
                        out.path[depth, LABEL] = kind
                    depth += one
                    n = np.uint64(nodes[n, B])
                else:
                    right = np.uint64(nodes[n, B])
                    if nodes[right, MAX] >= bound:
                        if height == highest:
                            if placed and rows is not None:
                                clear_marks(rows)
                            return GROW_PATH
                        out.stack[height, NODE] = right
                        out.stack[height, DEPTH] = depth
                        height += one
                    n = np.uint64(nodes[n, A])
                kind = nodes[n, KIND]
            if settings.exact and nodes[n, C] < bound:
                continue
            row, at = np.uint64(m), np.uint64(e)
            if placed and rows is not None:
                row, at = np.uint64(rows[0, n]), np.uint64(rows[3, n])
                rows[0, n] = row + one
                rows[3, n] = at + depth
            else:
                if m - first == FEW:
                    again = True
                    break
                if m == out.match.shape[1] - 1 or e + np.int64(depth) > len(out.position):
                    return FULL if first > 0 else BLOCKS
                if m > first and nodes[n, A] > out.match[START, m - 1]:
                    sorted_so_far = False
                m += 1
                e += np.int64(depth)
            out.match[START, row] = nodes[n, A]
            if len(times) > 0:
                out.match[START_TIME, row] = times[n]
            out.match[OFFSET, row] = at
            if settings.labelled:
                for k in range(depth):
                    out.label[at + k] = out.path[depth - one - k, LABEL]
            while depth > np.uint64(0):
                depth -= one
                out.position[at] = out.path[depth, POSITION]
                at += one
        if not again and sorted_so_far:
            break
        if rows is None:
            return MORE
        if not again:
            out.match[OFFSET, m] = e
            sort_by_start(out, first, m, len(times) > 0)
            break
        found, entries = rows_by_start(nodes, regs, roots, rows, settings, bound, first, base)
        if found < 0:
            return BLOCKS
        if found > settings.quota or first + found > out.match.shape[1] - 1 or base + entries > len(out.position):
            clear_marks(rows)
            return FULL if first > 0 and found <= settings.quota else BLOCKS
        m, e = first + found, base + entries
        placed = True
        sorted_so_far = True
    out.match[OFFSET, m] = e
    if placed and rows is not None:
        clear_marks(rows)
    if settings.limit > 0 and m - first > settings.limit:
        m = first + settings.limit
        e = out.match[OFFSET, m]
    for k in range(first, m):
        out.match[END, k] = position
        out.match[PARTITION, k] = partition
    if len(times) > 0:
        for k in range(first, m):
            out.match[END_TIME, k] = time
    regs[SEEN] = m - first
    regs[MATCHES] = m
    regs[POSITIONS] = e
    return DONE
