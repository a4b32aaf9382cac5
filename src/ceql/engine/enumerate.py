"""The matches of one end position, from the graph into the output buffers (core-vldb2022, Theorem 2).

A depth-first search from the accepting states' nodes, left before right, that never enters what the window
has left: the time from one match to the next is linear in the match. The contract wants later starts
first; the search gives them nearly so, and a counting sort of the position's matches does the rest.
A position with more matches than the buffers hold is left to `blocks.py`.
"""

from __future__ import annotations

from ceql.engine.arena import BOTTOM, KIND, MAX, A, Array, B
from ceql.engine.jit import inlined, kernel
from ceql.engine.layout import BLOCKS, DONE, ENTRIES, FULL, GROW_PATH, MATCHES, ROOTS, SEEN, Output, Settings


@inlined
def enumerate_position(
    nodes: Array,
    times: Array,
    regs: Array,
    roots: Array,
    out: Output,
    settings: Settings,
    bound: int,
    position: int,
    time: int,
    partition: int,
) -> int:
    """Write the matches that end at `position`; nothing is written unless all of them fit."""
    first = regs[MATCHES]
    m = first
    e = regs[ENTRIES]
    limit_one = settings.limit == 1 and not settings.exact
    height = 0
    if len(out.stack_node) < regs[ROOTS] + 8:
        return GROW_PATH
    if limit_one:
        best = -1
        for k in range(regs[ROOTS]):
            if best < 0 or nodes[roots[k], MAX] > nodes[best, MAX]:
                best = roots[k]
        if nodes[best, MAX] >= bound:
            out.stack_node[0] = best
            out.stack_depth[0] = 0
            height = 1
    else:
        for k in range(regs[ROOTS] - 1, -1, -1):
            if nodes[roots[k], MAX] >= bound:
                out.stack_node[height] = roots[k]
                out.stack_depth[height] = 0
                height += 1
    most = min(len(out.start), first + settings.quota)
    sorted_so_far = True
    path_position, path_label = out.path_position, out.path_label
    while height > 0:
        height -= 1
        n = out.stack_node[height]
        depth = out.stack_depth[height]
        kind = nodes[n, KIND]
        while kind != BOTTOM:
            if kind >= 0:
                if depth == len(path_position):
                    return GROW_PATH
                path_position[depth] = nodes[n, A]
                path_label[depth] = kind
                depth += 1
                n = nodes[n, B]
            else:
                right = nodes[n, B]
                if nodes[right, MAX] >= bound:
                    if height == len(out.stack_node):
                        return GROW_PATH
                    out.stack_node[height] = right
                    out.stack_depth[height] = depth
                    height += 1
                n = nodes[n, A]
            kind = nodes[n, KIND]
        if settings.exact and nodes[n, B] < bound:
            continue
        if m == most or e + depth > len(out.position):
            return FULL if first > 0 and m < first + settings.quota else BLOCKS
        start = nodes[n, A]
        if m > first and start > out.start[m - 1]:
            sorted_so_far = False
        out.start[m] = start
        if len(times) > 0:
            out.start_time[m] = times[n]
        out.offsets[m] = e
        for k in range(depth):
            out.position[e + k] = path_position[depth - 1 - k]
            out.label[e + k] = path_label[depth - 1 - k]
        e += depth
        m += 1
        if limit_one:
            break
    out.offsets[m] = e
    if not sorted_so_far:
        sort_by_start(out, first, m, len(times) > 0)
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


@kernel
def sort_by_start(out: Output, first: int, last: int, timed: bool) -> None:
    """Order the matches first..last of the buffers by descending start, stably."""
    count = last - first
    low = out.start[first]
    high = low
    for k in range(first, last):
        low = min(low, out.start[k])
        high = max(high, out.start[k])
    order = out.order
    if high - low + 2 <= min(len(order) - count, 8 * count + 64):
        _counting_order(out, first, count, low, high)
    else:
        _merge_order(out, first, count)
    base = out.offsets[first]
    e = base
    for k in range(count):
        source = order[k]
        for j in range(out.offsets[source], out.offsets[source + 1]):
            out.spare_position[e] = out.position[j]
            out.spare_label[e] = out.label[j]
            e += 1
    for j in range(base, e):
        out.position[j] = out.spare_position[j]
        out.label[j] = out.spare_label[j]
    # lengths, starts and times in the new order, by way of the spare positions
    for k in range(count):
        out.spare_position[k] = out.offsets[order[k] + 1] - out.offsets[order[k]]
    for k in range(count):
        out.offsets[first + k + 1] = out.offsets[first + k] + out.spare_position[k]
    for k in range(count):
        out.spare_position[k] = out.start[order[k]]
    for k in range(count):
        out.start[first + k] = out.spare_position[k]
    if timed:
        for k in range(count):
            out.spare_position[k] = out.start_time[order[k]]
        for k in range(count):
            out.start_time[first + k] = out.spare_position[k]


@inlined
def _counting_order(out: Output, first: int, count: int, low: int, high: int) -> None:
    """Put the matches in order of their start into `order`, by counting how many there are of each start."""
    order = out.order
    span = high - low + 1
    for k in range(count, count + span + 1):
        order[k] = 0
    for k in range(first, first + count):
        order[count + high - out.start[k] + 1] += 1
    for k in range(count, count + span):
        order[k + 1] += order[k]
    for k in range(first, first + count):
        rank = count + high - out.start[k]
        order[order[rank]] = k
        order[rank] += 1


@inlined
def _merge_order(out: Output, first: int, count: int) -> None:
    """The same by merging runs, where starts lie too far apart to count."""
    order, start = out.order, out.start
    for k in range(count):
        order[k] = first + k
    width = 1
    source, target = 0, count
    while width < count:
        for begin in range(0, count, 2 * width):
            i, middle = begin, min(begin + width, count)
            j, end = middle, min(begin + 2 * width, count)
            for k in range(begin, end):
                if i < middle and (j == end or start[order[source + i]] >= start[order[source + j]]):
                    order[target + k] = order[source + i]
                    i += 1
                else:
                    order[target + k] = order[source + j]
                    j += 1
        source, target = target, source
        width *= 2
    if source > 0:
        for k in range(count):
            order[k] = order[source + k]


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
