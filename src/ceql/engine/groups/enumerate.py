"""The matches of one end position, from the graph into the output buffers (pcea-hcq-2024, Theorem 5.2).

A search over unions and products that never enters what the window has left: from one match to the next takes time
linear in the match. What a partial match still lacks is a list of unions; the search takes the first, chooses a
product of it, and puts that product's factors in its place.
"""

from __future__ import annotations

import numpy as np

from ceql.engine.groups.graph import FACTOR, KIND, LISTED, MAX, NO_START, OTHERS, VALUE, A, B, C, most_unlike
from ceql.engine.groups.layout import DONE, FULL, GROW_STACK, HEIGHT, MATCHES, POSITIONS, ROOTS, Output, Settings
from ceql.engine.states.loop import NO_KEY
from ceql.jit import Array, inlined, kernel

MOST_FACTORS = 64  # a product has fewer


@inlined
def push_roots(nodes: Array, regs: Array, roots: Array, out: Output, bound: int) -> None:
    """Begin a search from the live roots; there is room for them."""
    height = 0
    for k in range(regs[ROOTS] - 1, -1, -1):
        if nodes[roots[k], MAX] >= bound:
            out.stack_node[height] = roots[k]
            out.stack_depth[height] = 0
            out.stack_todo[height] = -1
            out.stack_cells[height] = 0
            out.stack_unlike[height] = -1
            height += 1
    regs[HEIGHT] = height


@inlined
def sort_by_start(out: Output, first: int, last: int, timed: bool) -> None:
    """Order matches by descending start, stably: merges of ever longer runs, then one move of their events."""
    count = last - first
    in_order = True
    for k in range(first + 1, last):
        if out.start[k] > out.start[k - 1]:
            in_order = False
            break
    if in_order:
        return
    order, spare = out.order, out.spare_order
    for k in range(count):
        order[k] = first + k
    width = 1
    while width < count:
        for low in range(0, count, 2 * width):
            middle, high = min(low + width, count), min(low + 2 * width, count)
            a, b = low, middle
            for at in range(low, high):
                if a < middle and (b >= high or out.start[order[a]] >= out.start[order[b]]):
                    spare[at] = order[a]
                    a += 1
                else:
                    spare[at] = order[b]
                    b += 1
        for k in range(count):
            order[k] = spare[k]
        width *= 2
    base = out.offsets[first]
    e = 0
    for k in range(count):
        for j in range(out.offsets[order[k]], out.offsets[order[k] + 1]):
            out.spare_position[e] = out.position[j]
            out.spare_mark[e] = out.mark[j]
            e += 1
    for j in range(e):
        out.position[base + j] = out.spare_position[j]
        out.mark[base + j] = out.spare_mark[j]
    for k in range(count):
        spare[k] = out.offsets[order[k] + 1] - out.offsets[order[k]]
    for k in range(count):
        out.offsets[first + k + 1] = out.offsets[first + k] + spare[k]
    for k in range(count):
        spare[k] = out.start[order[k]]
    for k in range(count):
        out.start[first + k] = spare[k]
    if timed:
        for k in range(count):
            spare[k] = out.start_time[order[k]]
        for k in range(count):
            out.start_time[first + k] = spare[k]


@inlined
def _live_unlike(nodes: Array, extra: Array, n: int, value: int, bound: int) -> int:
    """The first of a list from n on that has another value and is inside the window, or -1."""
    while n >= 0:
        most = most_unlike(nodes, extra, n, value)
        if most < bound or most == NO_START:
            return np.int64(-1)
        if extra[n, VALUE] == value:
            n = nodes[n, C]
        elif nodes[nodes[n, A], MAX] < bound:
            n = nodes[n, B]
        else:
            return n
    return np.int64(-1)


@kernel
def unfold(
    nodes: Array,
    times: Array,
    extra: Array,
    regs: Array,
    out: Output,
    counts: Array,
    settings: Settings,
    bound: int,
    least: int,
    most: int,
    position: int,
    time: int,
    partition: int,
) -> int:
    """Go on with the search on the stack, and write matches that start at `least` to `most`.

    `counts` has, for each node, whether it has a match that starts at `least` or later; or nothing, where the
    max-starts tell all there is to know.
    """
    height = regs[HEIGHT]
    counted = len(counts) > 0
    m, e = regs[MATCHES], regs[POSITIONS]
    highest = len(out.stack_node) - 4
    while height > 0:
        height -= 1
        n = out.stack_node[height]
        depth = out.stack_depth[height]
        todo = out.stack_todo[height]
        cells = out.stack_cells[height]
        unlike = out.stack_unlike[height]
        base, n0, depth0, todo0, cells0, unlike0 = height, n, depth, todo, cells, unlike  # to come back to without room
        reason = DONE
        while True:
            if height > highest or depth == len(out.path) or cells + MOST_FACTORS > len(out.cell_node):
                reason = GROW_STACK
                break
            product = n
            if nodes[n, KIND] == OTHERS:
                unlike = nodes[n, B]
                n = nodes[n, A]
            if nodes[n, KIND] == LISTED:
                n = _live_unlike(nodes, extra, n, unlike, bound)
                if n < 0:
                    n = product  # not the end of a match, but of this way
                    break
                product = nodes[n, A]
                other = nodes[n, B]
                if other >= 0 and most_unlike(nodes, extra, other, unlike) >= bound:
                    out.stack_node[height] = other
                    out.stack_depth[height] = depth
                    out.stack_todo[height] = todo
                    out.stack_cells[height] = cells
                    out.stack_unlike[height] = unlike
                    height += 1
            elif nodes[n, KIND] < 0:
                product = nodes[n, A]
                for side in range(B, C + 1):
                    other = nodes[n, side]
                    if other >= 0 and nodes[other, MAX] >= bound and (not counted or counts[other] > 0):
                        out.stack_node[height] = other
                        out.stack_depth[height] = depth
                        out.stack_todo[height] = todo
                        out.stack_cells[height] = cells
                        out.stack_unlike[height] = -1
                        height += 1
                if nodes[product, MAX] < bound or (counted and counts[product] == 0):
                    break
            out.path[depth] = product
            depth += 1
            n = nodes[product, B]
            if n >= 0 and nodes[n, KIND] == FACTOR:
                while n >= 0:
                    out.cell_node[cells] = nodes[n, A]
                    out.cell_next[cells] = todo
                    todo = cells
                    cells += 1
                    n = nodes[n, B]
            if n < 0:
                if todo < 0:
                    break
                n = out.cell_node[todo]
                todo = out.cell_next[todo]
        if reason == DONE and n >= 0:
            continue  # a union whose own product is out of reach
        start = np.int64(0)
        first = 0
        for k in range(depth):
            if k == 0 or nodes[out.path[k], A] < start:
                start = nodes[out.path[k], A]
                first = k
        if reason == DONE:
            if start < least or start > most:
                continue
            if settings.exact and (nodes[out.path[first], C] == NO_KEY or nodes[out.path[first], C] < bound):
                continue
            if m == len(out.start) or e + depth > len(out.position):
                reason = FULL
        if reason != DONE:
            out.stack_node[base] = n0
            out.stack_depth[base] = depth0
            out.stack_todo[base] = todo0
            out.stack_cells[base] = cells0
            out.stack_unlike[base] = unlike0
            out.offsets[m] = e
            regs[HEIGHT] = base + 1
            regs[MATCHES], regs[POSITIONS] = m, e
            return reason
        out.start[m] = start
        out.end[m] = position
        out.partition[m] = partition
        if len(times) > 0:
            out.start_time[m] = times[out.path[first]]
            out.end_time[m] = time
        out.offsets[m] = e
        if settings.chain:
            for k in range(depth):
                out.position[e + k] = nodes[out.path[depth - 1 - k], A]
                out.mark[e + k] = nodes[out.path[depth - 1 - k], KIND]
        else:
            for k in range(depth):
                at = e + k
                where = nodes[out.path[k], A]
                while at > e and out.position[at - 1] > where:
                    out.position[at] = out.position[at - 1]
                    out.mark[at] = out.mark[at - 1]
                    at -= 1
                out.position[at] = where
                out.mark[at] = nodes[out.path[k], KIND]
        e += depth
        m += 1
        if settings.latest == 2:  # no other start has this key, so any match will do
            height = 0
    out.offsets[m] = e
    regs[HEIGHT] = 0
    regs[MATCHES], regs[POSITIONS] = m, e
    return DONE
