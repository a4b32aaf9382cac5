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
    NOTED,
    OFFSET,
    PARTITION,
    POSITIONS,
    READ,
    SEEN,
    START,
    START_TIME,
    Output,
    Settings,
)
from ceql.engine.common.marks import clear_marks
from ceql.engine.common.order import sort_by_start
from ceql.engine.common.roots import AT_BOUND, AT_END, AT_FIRST, AT_PARTITION, AT_POSITION, AT_TIME, Roots
from ceql.engine.groups.layout import AT, DEPTH
from ceql.engine.states.layout import LABEL, MORE, POSITION
from ceql.engine.states.start_rows import rows_by_start
from ceql.jit import Array, inlined, kernel

FEW = 64  # matches that are sorted after they were found


@inlined
def _list(
    nodes: Array, times: Array, regs: Array, roots: Array, out: Output, rows: Array | None, settings: Settings,
    where: Array,
) -> int:  # fmt: skip
    """Write the matches that end at `position`; nothing is written unless all of them fit.

    `rows` is scratch to find the rows of many matches with. Without it, more matches than a few, or matches that are
    not found in order, are a reason to come back: most queries have none, and compile nothing for them.
    """
    bound = np.int64(where[AT_BOUND])
    first, base = regs[MATCHES], regs[POSITIONS]
    if out.stack.shape[0] < len(roots) + 8:
        return GROW_PATH
    m, e = first, base
    placed = False
    while True:  # once, or twice when there turn out to be many
        reason, in_order, found, entries = _search(nodes, times, roots, out, rows, settings, where, bound, placed, m, e)
        if reason != DONE and reason != MORE:
            if placed and rows is not None:
                clear_marks(rows)
            return BLOCKS if reason == FULL and first == 0 else reason
        if not placed:
            m, e = found, entries
        if placed or (reason == DONE and in_order):
            break
        if rows is None:
            return MORE
        if reason == DONE:
            out.match[OFFSET, m] = e
            sort_by_start(out, first, m, len(times) > 0)
            break
        found, entries, bound = rows_by_start(nodes, roots, rows, settings, bound, first, base)
        if found > settings.few or first + found > out.match.shape[1] - 1 or base + entries > len(out.position):
            clear_marks(rows)
            return FULL if first > 0 and found <= settings.few else BLOCKS
        m, e = first + found, base + entries
        placed = True
    out.match[OFFSET, m] = e
    if placed and rows is not None:
        clear_marks(rows)
    if settings.limit > 0 and m - first > settings.limit:
        m = first + settings.limit
        e = out.match[OFFSET, m]
    for k in range(first, m):
        out.match[END, k] = where[AT_POSITION]
        out.match[PARTITION, k] = where[AT_PARTITION]
    if len(times) > 0:
        for k in range(first, m):
            out.match[END_TIME, k] = where[AT_TIME]
    regs[SEEN] = m - first
    regs[MATCHES] = m
    regs[POSITIONS] = e
    return DONE


@inlined
def _search(
    nodes: Array, times: Array, roots: Array, out: Output, rows: Array | None, settings: Settings, where: Array,
    bound: int, placed: bool, m: int, e: int,
) -> tuple[int, bool, int, int]:  # fmt: skip
    """Write the matches of these roots from row `m` and entry `e` on, or where `rows` has `placed` them.

    Returns DONE, or MORE at the first match that is too many to be sorted, or why nothing can be written; whether
    later starts came first; and the row and the entry after the last match.
    """
    begun = m
    one = np.uint64(1)  # unsigned indices spare Numba's test for negative ones
    deepest, highest = np.uint64(out.path.shape[0]), np.uint64(out.stack.shape[0])
    in_order = True
    height = np.uint64(0)
    for k in range(len(roots) - 1, -1, -1):
        if nodes[roots[k], MAX] >= bound:
            out.stack[height, AT] = roots[k]
            out.stack[height, DEPTH] = 0
            height += one
    while height > np.uint64(0):
        height -= one
        n = np.uint64(out.stack[height, AT])
        depth = np.uint64(out.stack[height, DEPTH])
        kind = nodes[n, KIND]
        while kind != BOTTOM:
            if kind >= 0:
                if depth == deepest:
                    return GROW_PATH, in_order, m, e
                out.path[depth, POSITION] = nodes[n, A]
                if settings.labelled:
                    out.path[depth, LABEL] = kind
                depth += one
                n = np.uint64(nodes[n, B])
            else:
                right = np.uint64(nodes[n, B])
                if nodes[right, MAX] >= bound:
                    if height == highest:
                        return GROW_PATH, in_order, m, e
                    out.stack[height, AT] = right
                    out.stack[height, DEPTH] = depth
                    height += one
                n = np.uint64(nodes[n, A])
            kind = nodes[n, KIND]
        if settings.exact and nodes[n, C] < where[AT_BOUND]:
            continue
        row, at = np.uint64(m), np.uint64(e)
        if placed and rows is not None:
            row, at = np.uint64(rows[0, n]), np.uint64(rows[3, n])
            rows[0, n] = row + one
            rows[3, n] = at + depth
        else:
            if m - begun == FEW:
                return MORE, in_order, m, e
            if m == out.match.shape[1] - 1 or e + np.int64(depth) > len(out.position):
                return FULL, in_order, m, e
            if m > begun and nodes[n, A] > out.match[START, m - 1]:
                in_order = False
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
    return DONE, in_order, m, e


@kernel
def list_chains(
    nodes: Array, times: Array, regs: Array, out: Output, rows: Array | None, settings: Settings, roots: Roots
) -> int:
    """Write the matches of the positions that are still to be read; DONE, or the reason to come back."""
    while regs[READ] < regs[NOTED]:
        where = roots.at[regs[READ]]
        found = roots.node[where[AT_FIRST] : where[AT_END]]
        reason = _list(nodes, times, regs, found, out, rows, settings, where)
        if reason != DONE:
            return reason
        regs[READ] += 1
    return np.int64(DONE)
