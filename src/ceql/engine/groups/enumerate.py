"""The matches of one end position, from the graph into the output buffers (pcea-hcq-2024, Theorem 5.2).

A search over unions and products that never enters what the window has left: from one match to the next takes time
linear in the match. What a partial match still lacks is a list of unions; the search takes the first, chooses a
product of it, and puts that product's factors in its place.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ceql.engine.common.graph import (
    BETWEEN,
    BOTTOM,
    FACTOR,
    KIND,
    LISTED,
    MAX,
    NO_START,
    NONE,
    ORDERED,
    OTHERS,
    VALUE,
    A,
    B,
    C,
)
from ceql.engine.common.layout import (
    BLOCKS,
    DONE,
    END,
    END_TIME,
    FULL,
    GROW_PATH,
    HEIGHT,
    MATCHES,
    NEVER,
    NO_KEY,
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
from ceql.engine.common.order import is_sorted, sort_by_start
from ceql.engine.common.roots import AT_BOUND, AT_END, AT_FIRST, AT_PARTITION, AT_POSITION, AT_TIME, Roots
from ceql.engine.groups.between import event_after
from ceql.engine.groups.graph import most_unlike
from ceql.engine.groups.layout import AT, CELL_NEXT, CELL_NODE, CELLS, DEPTH, RUN, TODO, UNLIKE, Carrier
from ceql.engine.groups.ordered import next_with
from ceql.jit import Array, called, inlined, kernel

MOST_FACTORS = 64  # a product has fewer


class _Entry(NamedTuple):
    """An entry of the search's stack: a node, and how the way that leads to it goes on."""

    at: int
    depth: int
    todo: int
    cells: int
    unlike: int
    run: int


@inlined
def _top(out: Output, k: int) -> _Entry:
    """The entry in a place of the stack."""
    s = out.stack
    return _Entry(s[k, AT], s[k, DEPTH], s[k, TODO], s[k, CELLS], s[k, UNLIKE], s[k, RUN])


@inlined
def _push(out: Output, height: int, n: int, depth: int, todo: int, cells: int, unlike: int, run: int) -> int:
    """Put a node on the search's stack, which has room for it: how high it is then."""
    out.stack[height, AT] = n
    out.stack[height, DEPTH] = depth
    out.stack[height, TODO] = todo
    out.stack[height, CELLS] = cells
    out.stack[height, UNLIKE] = unlike
    out.stack[height, RUN] = run
    return height + 1


@inlined
def _push_roots(nodes: Array, regs: Array, roots: Array, out: Output, bound: int) -> None:
    """Begin a search from the live roots; there is room for them."""
    height = np.int64(0)
    for k in range(len(roots) - 1, -1, -1):
        if nodes[roots[k], MAX] >= bound:
            height = _push(out, height, roots[k], np.int64(0), NONE, np.int64(0), NONE, NONE)
    regs[HEIGHT] = height


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


@inlined
def _repeat(
    carrier: Carrier, nodes: Array, times: Array, out: Output, height: int, depth: int, paired: int, m: int, e: int
) -> tuple[int, int, int]:
    """Write the last match again, with each of the other events of its pair: as long as there is room, and with no way
    from the root to it. How high the stack is then, and the matches and positions."""
    top = height - 1
    n, run = out.stack[top, AT], out.stack[top, RUN]
    place = depth - 1 - paired
    while m < out.match.shape[1] - 1 and e + depth <= len(out.position):
        event = event_after(carrier, nodes, n, out.stack[top, UNLIKE], run)
        if event < 0:
            return top, m, e
        out.stack[top, UNLIKE] -= 1
        for column in range(START_TIME if len(times) == 0 else out.match.shape[0]):
            out.match[column, m] = out.match[column, m - 1]
        out.match[OFFSET, m] = e
        for k in range(e, e + depth):
            out.position[k] = out.position[k - depth]
            out.label[k] = out.label[k - depth]
        out.position[e + place] = nodes[event, A]
        out.label[e + place] = nodes[event, KIND]
        e += depth
        m += 1
    return height, m, e


@called
def _search(
    carrier: Carrier,
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
    where: Array,
) -> int:
    """Go on with the search on the stack, at the position in `where` (a row of `Roots.at`), and write matches that
    start at `least` to `most`.

    `counts` has, for each node, whether it has a match that starts at `least` or later; or nothing, where the
    max-starts tell all there is to know.
    """
    height = regs[HEIGHT]
    m, e = regs[MATCHES], regs[POSITIONS]
    begun = m
    while height > 0:
        base = height - 1
        way = _top(out, base)  # to come back to without room
        reason, n, depth, height, paired = _descend(
            carrier, nodes, extra, out, counts, bound, settings.block, base, way
        )
        if reason == DONE and n >= 0:
            continue  # a union whose own product is out of reach
        first = depth - 1
        if reason == DONE:
            if not settings.chain:
                for k in range(depth):
                    if nodes[out.path[k, 0], A] < nodes[out.path[first, 0], A]:
                        first = k
            bottom = out.path[first, 0]
            if nodes[bottom, A] < least or nodes[bottom, A] > most:
                continue
            if settings.exact and (nodes[bottom, C] == NO_KEY or nodes[bottom, C] < bound):
                continue
            if m == out.match.shape[1] - 1 or e + depth > len(out.position) or m - begun >= settings.few:
                reason = FULL
        if reason != DONE:
            _push(out, base, way.at, way.depth, way.todo, way.cells, way.unlike, way.run)
            out.match[OFFSET, m] = e
            regs[HEIGHT] = base + 1
            regs[MATCHES], regs[POSITIONS] = m, e
            return reason
        depth = _write(nodes, times, out, settings.chain, where, m, e, depth, first)
        e += depth
        m += 1
        if settings.latest == 2:  # no other start has this key, so any match will do
            height = 0
        elif paired >= 0 and settings.chain:
            height, m, e = _repeat(carrier, nodes, times, out, height, depth, paired, m, e)
    out.match[OFFSET, m] = e
    regs[HEIGHT] = 0
    regs[MATCHES], regs[POSITIONS] = m, e
    return DONE


@inlined
def _take_up(nodes: Array, out: Output, n: int, todo: int, cells: int) -> tuple[int, int]:
    """Put the factors from `n` on before what is still to do: where that begins, and the cells in use."""
    while n >= 0:
        out.stack[cells, CELL_NODE] = nodes[n, A]
        out.stack[cells, CELL_NEXT] = todo
        todo = cells
        cells += 1
        n = nodes[n, B]
    return todo, cells


@inlined
def _descend(
    carrier: Carrier, nodes: Array, extra: Array, out: Output, counts: Array, bound: int, block: int, height: int,
    way: _Entry,
) -> tuple[int, int, int, int, int]:  # fmt: skip
    """Take a way to its end, and put the others that it passes on the stack.

    Returns GROW_PATH where there is no room; a node, if a match does not end there; how long the way is and how high
    the stack; and where the way has the event of a pair whose run is one event, if the match ends there.
    """
    n, depth, todo, cells, unlike, run = way
    counted = len(counts) > 0
    highest = out.stack.shape[0] - 4
    paired = NONE
    while True:
        if height > highest or depth == out.path.shape[0] or cells + MOST_FACTORS > out.stack.shape[0]:
            return GROW_PATH, n, depth, height, paired
        product = n
        if nodes[n, KIND] == ORDERED:
            cursor = max(unlike, np.int64(0))
            product, cursor = next_with(carrier, nodes, counts, n, cursor, bound, block)
            if product < 0:
                break
            height = _push(out, height, n, depth, todo, cells, cursor, NONE)
            if nodes[product, KIND] < 0:  # several runs that ended with one event
                n, unlike = product, NONE
                continue
        elif nodes[n, KIND] == BETWEEN:
            if run < 0:
                cursor = max(unlike, np.int64(0))
                run, cursor = next_with(carrier, nodes, counts, nodes[n, A], cursor, bound, block)
                if run < 0:
                    break
                height = _push(out, height, n, depth, todo, cells, cursor, NONE)
                unlike = nodes[n, C] - 1
            event = event_after(carrier, nodes, n, unlike, run)
            if event < 0:
                break
            height = _push(out, height, n, depth, todo, cells, unlike - 1, run)
            if todo < 0 and nodes[run, KIND] >= 0 and nodes[run, B] < 0:
                paired = depth
            out.path[depth, 0] = event
            depth += 1
            n, unlike, run = run, NONE, NONE
            continue
        elif nodes[n, KIND] == OTHERS:
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
                height = _push(out, height, other, depth, todo, cells, unlike, NONE)
        elif nodes[n, KIND] < 0 and nodes[n, KIND] != ORDERED:
            product = nodes[n, A]
            for side in range(B, C + 1):
                other = nodes[n, side]
                if other >= 0 and nodes[other, MAX] >= bound and (not counted or counts[other] > 0):
                    height = _push(out, height, other, depth, todo, cells, NONE, NONE)
            if nodes[product, MAX] < bound or (counted and counts[product] == 0):
                break
            if nodes[product, KIND] < 0:  # a group
                n = product
                continue
        out.path[depth, 0] = product
        depth += 1
        unlike = np.int64(-1)
        n = nodes[product, B]
        if n >= 0 and nodes[n, KIND] == FACTOR:
            todo, cells = _take_up(nodes, out, n, todo, cells)
            n = np.int64(-1)
        if n < 0:
            if todo < 0:
                break
            n = out.stack[todo, CELL_NODE]
            todo = out.stack[todo, CELL_NEXT]
    return DONE, n, depth, height, paired


@inlined
def _write(
    nodes: Array, times: Array, out: Output, chain: bool, where: Array, m: int, e: int, depth: int, first: int
) -> int:
    """Write the match of the path, whose first event is the one of `first`: how many events it has."""
    bottom = out.path[first, 0]
    out.match[START, m] = nodes[bottom, A]
    out.match[END, m] = where[AT_POSITION]
    out.match[PARTITION, m] = where[AT_PARTITION]
    if len(times) > 0:
        out.match[START_TIME, m] = times[bottom]
        out.match[END_TIME, m] = where[AT_TIME]
    out.match[OFFSET, m] = e
    if chain:
        if nodes[bottom, KIND] == BOTTOM:
            depth -= 1
        for k in range(depth):
            out.position[e + k] = nodes[out.path[depth - 1 - k, 0], A]
            out.label[e + k] = nodes[out.path[depth - 1 - k, 0], KIND]
        return depth
    for k in range(depth):
        at = e + k
        own = nodes[out.path[k, 0], A]
        while at > e and out.position[at - 1] > own:
            out.position[at] = out.position[at - 1]
            out.label[at] = out.label[at - 1]
            at -= 1
        out.position[at] = own
        out.label[at] = nodes[out.path[k, 0], KIND]
    return depth


@inlined
def _list(
    carrier: Carrier,
    nodes: Array,
    times: Array,
    extra: Array,
    regs: Array,
    roots: Array,
    out: Output,
    nothing: Array,
    settings: Settings,
    where: Array,
) -> int:
    """Write the matches of a position; nothing is written unless all of them fit."""
    if out.stack.shape[0] < len(roots) + 8:
        return GROW_PATH
    bound, first = where[AT_BOUND], regs[MATCHES]
    if settings.latest > 0:
        for k in range(len(roots)):
            bound = max(bound, nodes[roots[k], MAX])
    _push_roots(nodes, regs, roots, out, bound)
    least = np.int64(-1)
    reason = _search(carrier, nodes, times, extra, regs, out, nothing, settings, bound, least, np.int64(NEVER), where)
    if reason != DONE:
        many = first == 0 or regs[MATCHES] - first >= settings.few
        regs[MATCHES] = first
        regs[POSITIONS] = out.match[OFFSET, first] if first > 0 else 0
        return BLOCKS if reason == FULL and many else reason
    last = regs[MATCHES]
    if settings.ordered and not is_sorted(out.match, first, last):
        sort_by_start(out, first, last, len(times) > 0)
    if settings.limit > 0 and last - first > settings.limit:
        last = first + settings.limit
        regs[MATCHES] = last
        regs[POSITIONS] = out.match[OFFSET, last]
    regs[SEEN] = last - first
    return DONE


@kernel
def list_matches(
    carrier: Carrier,
    nodes: Array,
    times: Array,
    extra: Array,
    regs: Array,
    out: Output,
    counts: Array,
    settings: Settings,
    roots: Roots,
    least: int,
    most: int,
) -> int:
    """Write the matches of the positions that are still to be read; DONE, or the reason to come back.

    If a search stands on the stack, it goes on instead, at the next of these positions: see `_search`.
    """
    if regs[HEIGHT] > 0:
        at = regs[READ]
        where = roots.at[at]
        return _search(carrier, nodes, times, extra, regs, out, counts, settings, where[AT_BOUND], least, most, where)
    while regs[READ] < regs[NOTED]:
        where = roots.at[regs[READ]]
        found = roots.node[where[AT_FIRST] : where[AT_END]]
        reason = _list(carrier, nodes, times, extra, regs, found, out, counts, settings, where)
        regs[HEIGHT] = 0
        if reason != DONE:
            return reason
        regs[READ] += 1
    return np.int64(DONE)
