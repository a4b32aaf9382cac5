"""One match of latest start: what ANY and LIMIT 1 want."""

from __future__ import annotations

import numpy as np

from ceql.engine.common.graph import BOTTOM, KIND, MAX, A, B
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
from ceql.engine.common.roots import AT_BOUND, AT_END, AT_FIRST, AT_PARTITION, AT_POSITION, AT_TIME, Roots
from ceql.engine.states.layout import LABEL, POSITION
from ceql.engine.states.live import list_live
from ceql.jit import Array, inlined, kernel


@inlined
def _list(
    nodes: Array, times: Array, regs: Array, roots: Array, out: Output, scratch: Array, settings: Settings, where: Array
) -> int:
    """Write a match of latest start among those that end at `position`, if there is room."""
    m, e = regs[MATCHES], regs[POSITIONS]
    depth = _latest_path(nodes, roots, out, scratch, settings.latest == 2, where[AT_BOUND])
    if depth < -1:
        return GROW_PATH
    if depth < 0:
        regs[SEEN] = 0
        return DONE
    if m == out.match.shape[1] - 1 or e + depth > len(out.position):
        return FULL if m > 0 else BLOCKS
    bottom = scratch[1, 0]
    out.match[START, m] = nodes[bottom, A]
    out.match[END, m] = where[AT_POSITION]
    out.match[PARTITION, m] = where[AT_PARTITION]
    if len(times) > 0:
        out.match[START_TIME, m] = times[bottom]
        out.match[END_TIME, m] = where[AT_TIME]
    out.match[OFFSET, m] = e
    for k in range(depth):
        out.position[e + k] = out.path[depth - 1 - k, POSITION]
        out.label[e + k] = out.path[depth - 1 - k, LABEL]
    out.match[OFFSET, m + 1] = e + depth
    regs[MATCHES] = m + 1
    regs[POSITIONS] = e + depth
    regs[SEEN] = 1
    return DONE


@inlined
def _latest_path(nodes: Array, roots: Array, out: Output, scratch: Array, only: bool, bound: int) -> int:
    """Puts a match of latest start into the path of `out` and its bottom into scratch[1, 0]; its length.

    -1 when no match is inside the window, -2 when the path is too small. Following the left children leads to
    the greatest key; of several starts with that key (equal times), the latest is looked for by itself, unless each is
    the `only` one with its key.
    """
    best = np.int64(bound)
    for k in range(len(roots)):
        best = max(best, nodes[roots[k], MAX])
    if only:
        for k in range(len(roots)):
            if nodes[roots[k], MAX] == best:
                return _walk(nodes, np.int64(roots[k]), out, scratch, False)
        return np.int64(-1)
    seen = list_live(nodes, roots, scratch, best)
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
    for k in range(len(roots)):
        if scratch[0, roots[k]] == 2:
            depth = _walk(nodes, np.int64(roots[k]), out, scratch, True)
            break
    clear_marks(scratch)
    return depth


@inlined
def _walk(nodes: Array, n: int, out: Output, scratch: Array, marked: bool) -> int:
    """Take the way of the left children, or that which is marked with 2."""
    depth = np.int64(0)
    kind = nodes[n, KIND]
    while kind != BOTTOM:
        if kind >= 0:
            if depth == out.path.shape[0]:
                return np.int64(-2)
            out.path[depth, POSITION] = nodes[n, A]
            out.path[depth, LABEL] = kind
            depth += 1
            n = nodes[n, B]
        else:
            n = nodes[n, B] if marked and scratch[0, nodes[n, A]] != 2 else nodes[n, A]
        kind = nodes[n, KIND]
    scratch[1, 0] = n
    return depth


@kernel
def list_latest(
    nodes: Array, times: Array, regs: Array, out: Output, scratch: Array, settings: Settings, roots: Roots
) -> int:
    """Write a match of each of the positions that are still to be read; DONE, or the reason to come back."""
    while regs[READ] < regs[NOTED]:
        where = roots.at[regs[READ]]
        found = roots.node[where[AT_FIRST] : where[AT_END]]
        reason = _list(nodes, times, regs, found, out, scratch, settings, where)
        if reason != DONE:
            return reason
        regs[READ] += 1
    return np.int64(DONE)
