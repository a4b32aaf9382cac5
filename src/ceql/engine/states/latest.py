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
    OFFSET,
    PARTITION,
    POSITIONS,
    ROOTS,
    SEEN,
    START,
    START_TIME,
    Output,
)
from ceql.engine.common.marks import clear_marks
from ceql.engine.states.layout import LABEL, POSITION
from ceql.engine.states.live import list_live
from ceql.jit import Array, inlined


@inlined
def enumerate_latest(
    nodes: Array,
    times: Array,
    regs: Array,
    roots: Array,
    out: Output,
    scratch: Array,
    bound: int,
    position: int,
    time: int,
    partition: int,
) -> int:
    """Write a match of latest start among those that end at `position`, if there is room."""
    m, e = regs[MATCHES], regs[POSITIONS]
    depth = _latest_path(nodes, regs, roots, out, scratch, bound)
    if depth < -1:
        return GROW_PATH
    if depth < 0:
        regs[SEEN] = 0
        return DONE
    if m == out.match.shape[1] - 1 or e + depth > len(out.position):
        return FULL if m > 0 else BLOCKS
    bottom = scratch[1, 0]
    out.match[START, m] = nodes[bottom, A]
    out.match[END, m] = position
    out.match[PARTITION, m] = partition
    if len(times) > 0:
        out.match[START_TIME, m] = times[bottom]
        out.match[END_TIME, m] = time
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
def _latest_path(nodes: Array, regs: Array, roots: Array, out: Output, scratch: Array, bound: int) -> int:
    """Puts a match of latest start into the path of `out` and its bottom into scratch[1, 0]; its length.

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
                    if depth == out.path.shape[0]:
                        depth = np.int64(-2)
                        break
                    out.path[depth, POSITION] = nodes[n, A]
                    out.path[depth, LABEL] = nodes[n, KIND]
                    depth += 1
                    n = nodes[n, B]
                else:
                    n = nodes[n, A] if scratch[0, nodes[n, A]] == 2 else nodes[n, B]
            break
    clear_marks(scratch)
    scratch[1, 0] = latest
    return depth
