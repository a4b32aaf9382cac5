"""Positions with more matches than the buffers hold, in blocks of starts.

`paths_per_start` counts, top down, how many matches each start has; the caller cuts the starts, latest first, into
blocks that fit the buffers. `mark_block` finds, bottom up, which nodes lead to a start of the block and
short-cuts unions with one such side, so that `enumerate_block` meets no dead end. A block of one start may be
larger than any buffer: it is written buffer by buffer, the search staying on its stack.
"""

from __future__ import annotations

from ceql.engine.common.graph import BOTTOM, KIND, MAX, A, B, C
from ceql.engine.common.layout import (
    DONE,
    END,
    END_TIME,
    FULL,
    GROW_PATH,
    MATCHES,
    OFFSET,
    PARTITION,
    POSITIONS,
    START,
    START_TIME,
    Output,
)
from ceql.engine.states.layout import DEPTH, LABEL, NODE, POSITION
from ceql.jit import Array, kernel


@kernel
def paths_per_start(
    nodes: Array,
    live: Array,
    roots: Array,
    exact: bool,
    bound: int,
    ways: Array,
    starts: Array,
    paths: Array,
) -> int:
    """Write the starts of the live matches and the number of matches of each (a float); how many starts there are.

    `live` has children before parents, and `ways` is zero for every node.
    """
    for k in range(len(roots)):
        if nodes[roots[k], MAX] >= bound:
            ways[roots[k]] += 1.0
    top = 0
    for k in range(len(live) - 1, -1, -1):
        n = live[k]
        kind = nodes[n, KIND]
        if kind == BOTTOM:
            if not exact or nodes[n, C] >= bound:
                starts[top] = nodes[n, A]
                paths[top] = ways[n]
                top += 1
            continue
        if nodes[nodes[n, B], MAX] >= bound:
            ways[nodes[n, B]] += ways[n]
        if kind < 0:
            ways[nodes[n, A]] += ways[n]
    return top


@kernel
def mark_block(nodes: Array, live: Array, through: Array, exact: bool, bound: int, low: int, high: int) -> None:
    """Set `through[n]` for the live nodes: where to go on from n for starts in low..high, or -1."""
    for k in range(len(live)):
        n = live[k]
        kind = nodes[n, KIND]
        if kind == BOTTOM:
            inside = low <= nodes[n, A] <= high and (not exact or nodes[n, C] >= bound)
            through[n] = n if inside else -1
        elif kind >= 0:
            through[n] = n if through[nodes[n, B]] >= 0 else -1
        else:
            left = through[nodes[n, A]]
            right = through[nodes[n, B]] if nodes[nodes[n, B], MAX] >= bound else -1
            if left >= 0 and right >= 0:
                through[n] = n
            else:
                through[n] = left if left >= 0 else right


@kernel
def enumerate_block(
    nodes: Array,
    times: Array,
    regs: Array,
    out: Output,
    through: Array,
    height: int,
    most: int,
    position: int,
    time: int,
    partition: int,
) -> tuple[int, int]:
    """Go on with the search that stands on the stack; the reason it ended and the height of the stack then.

    The buffers are full with `most` matches.
    """
    m = regs[MATCHES]
    e = regs[POSITIONS]
    reason = DONE
    while height > 0:
        height -= 1
        n = out.stack[height, NODE]
        depth = out.stack[height, DEPTH]
        kind = nodes[n, KIND]
        grow = False
        while kind != BOTTOM:
            if depth == out.path.shape[0] or height + 2 > out.stack.shape[0]:
                grow = True
                break
            if kind >= 0:
                out.path[depth, POSITION] = nodes[n, A]
                out.path[depth, LABEL] = kind
                depth += 1
                n = through[nodes[n, B]]
            else:
                out.stack[height, NODE] = through[nodes[n, B]]
                out.stack[height, DEPTH] = depth
                height += 1
                n = through[nodes[n, A]]
            kind = nodes[n, KIND]
        if grow or m == most or e + depth > len(out.position):
            out.stack[height, NODE] = n
            out.stack[height, DEPTH] = depth
            height += 1
            reason = GROW_PATH if grow else FULL
            break
        out.match[START, m] = nodes[n, A]
        if len(times) > 0:
            out.match[START_TIME, m] = times[n]
            out.match[END_TIME, m] = time
        out.match[OFFSET, m] = e
        for k in range(depth):
            out.position[e + k] = out.path[depth - 1 - k, POSITION]
            out.label[e + k] = out.path[depth - 1 - k, LABEL]
        out.match[END, m] = position
        out.match[PARTITION, m] = partition
        e += depth
        m += 1
    out.match[OFFSET, m] = e
    regs[MATCHES] = m
    regs[POSITIONS] = e
    return reason, height
