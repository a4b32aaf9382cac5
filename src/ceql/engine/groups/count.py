"""Counts the matches that end at a position without enumerating them: sums over unions, products over factors.

In a window, the sum of a node changes with the bound of the position that asks. So positions wait until there are a few
of them, and one pass over the live part of the graph counts the matches of all: each node has a lane for each position.
Until then, the rows that the first of them needs are kept in their rings (`pending_from`).
"""

from __future__ import annotations

import numpy as np

from ceql.engine.common.layout import (
    AFTER,
    DONE,
    FULL,
    LEAST,
    NO_KEY,
    NODES,
    PHASE,
    ROOTS,
    SEEN,
    SUMMED,
    TOO_MANY,
    TOTAL,
)
from ceql.engine.common.marks import clear_marks
from ceql.engine.groups.between import pairs, pairs_in_lanes
from ceql.engine.groups.graph import BETWEEN, FACTOR, KIND, MAX, ORDERED, A, B, C
from ceql.engine.groups.lanes import lanes_of, plus, put, times
from ceql.engine.groups.layout import (
    COUNTED,
    LANES,
    LIVE_COUNT,
    LIVE_FROM,
    OVERFLOW_BEFORE,
    PENDING,
    PENDING_DONE,
    Carrier,
    Counting,
)
from ceql.engine.groups.live import list_live
from ceql.engine.groups.ordered import next_in_order
from ceql.engine.groups.ordered_sums import sum_in_order
from ceql.jit import Array, called, inlined, kernel

_NEVER = np.iinfo(np.int64).max  # as a bound: no start is inside the window
_LOOK_AGAIN = 64  # counts after which a walk tells again how many nodes are live


@called
def _rows(carrier: Carrier, nodes: Array, sums: Array, n: int, bound: int, one: float, block: int) -> float:
    """The matches of an `ordered` node; nothing is added to a sum that is too large already."""
    total = one * 0
    child, cursor = next_in_order(carrier, nodes, n, np.int64(0), bound, block)
    while child >= 0 and total <= TOO_MANY:
        total += one * sums[child]
        child, cursor = next_in_order(carrier, nodes, n, cursor, bound, block)
    return total


@inlined
def ways(carrier: Carrier | None, nodes: Array, sums: Array, n: int, bound: int, one: float, block: int) -> float:
    """The matches of a node whose children's are known; a float or a whole number, as `one` is."""
    kind = nodes[n, KIND]
    if kind >= 0:
        child = nodes[n, B]
        return one if child < 0 else one * sums[child]
    if kind == ORDERED:
        return one * 0 if carrier is None else _rows(carrier, nodes, sums, n, bound, one, block)
    if kind == BETWEEN:
        return one * 0 if carrier is None else pairs(carrier, nodes, sums, n, bound, one, block)
    if kind == FACTOR:
        after = nodes[n, B]
        return one * sums[nodes[n, A]] * (one if after < 0 else one * sums[after])
    total = one * sums[nodes[n, A]]
    for side in range(B, C + 1):
        child = nodes[n, side]
        if child >= 0 and nodes[child, MAX] >= bound:
            total += one * sums[child]
    return total


@kernel
def later_starts(
    carrier: Carrier | None, nodes: Array, live: Array, sums: Array, bound: int, least: int, block: int
) -> None:
    """For the live nodes, children before parents: how many of their matches start at position `least` or later."""
    for k in range(len(live)):
        n = live[k]
        if nodes[n, KIND] >= 0 and nodes[n, A] < least:
            sums[n] = 0.0
        else:
            sums[n] = ways(carrier, nodes, sums, n, bound, 1.0, block)


@inlined
def _capped(carrier: Carrier | None, nodes: Array, sums: Array, n: int, bound: int, block: int) -> int:
    """The same in whole numbers; TOO_MANY + 1 where it is more than TOO_MANY."""
    multiplies = nodes[n, KIND] == FACTOR or nodes[n, KIND] == BETWEEN
    if multiplies and ways(carrier, nodes, sums, n, bound, 1.0, block) > TOO_MANY:
        return np.int64(TOO_MANY + 1)
    return min(ways(carrier, nodes, sums, n, bound, np.int64(1), block), np.int64(TOO_MANY + 1))


@called
def _walk(
    carrier: Carrier | None, nodes: Array, regs: Array, roots: Array, count: int, scratch: Array, bound: int, block: int
) -> int:
    """The matches of one position, by way of the nodes that it reaches and no others."""
    own, regs[ROOTS] = regs[ROOTS], count
    seen = list_live(carrier, nodes, regs, roots, scratch, bound, block)
    regs[ROOTS] = own
    for k in range(1, seen + 1):
        n = scratch[2, k]
        scratch[0, n] = _capped(carrier, nodes, scratch[0], n, bound, block)
    total = np.int64(0)
    for k in range(count):
        if nodes[roots[k], MAX] >= bound and total <= TOO_MANY:
            total += scratch[0, roots[k]]
    clear_marks(scratch)
    return total


@inlined
def _in_lanes(carrier: Carrier | None, nodes: Array, counting: Counting, n: int, stamp: int, block: int) -> None:
    """The matches of a node, in all lanes. All nodes before it that are live are counted."""
    lanes, bounds = counting.lanes, counting.bounds
    kind = nodes[n, KIND]
    if kind >= 0 and nodes[n, B] < 0:
        for lane in range(LANES):
            lanes[n, lane] = np.int64(nodes[n, MAX] >= bounds[lane])
        return
    if kind == ORDERED:
        if carrier is not None:
            sum_in_order(carrier, nodes, n, counting, stamp, block)
        return
    if kind == BETWEEN:
        if carrier is not None:
            pairs_in_lanes(carrier, nodes, n, counting, block)
        return
    total = lanes_of(lanes, nodes[n, B] if kind >= 0 else nodes[n, A])
    if kind == FACTOR and nodes[n, B] >= 0:
        total = times(total, lanes_of(lanes, nodes[n, B]))
    if kind < FACTOR:
        for side in range(B, C + 1):
            child = nodes[n, side]
            if child >= 0 and nodes[child, MAX] >= bounds[0]:
                total = plus(total, lanes_of(lanes, child))
    put(lanes, n, total)


@inlined
def _first_live(nodes: Array, regs: Array, bound: int) -> int:
    """No node before this one is live. Max-starts and bounds never decrease along a stream, so that what is live is
    at the end of the graph."""
    first = regs[LIVE_FROM]
    while first < regs[NODES] and nodes[first, MAX] < bound:
        first += 1
    regs[LIVE_FROM] = first
    return first


@called
def _make_totals(
    carrier: Carrier | None, nodes: Array, regs: Array, counting: Counting, together: bool, block: int
) -> None:
    """Count the matches of each position that waits."""
    waiting, bounds, lanes = regs[PENDING], counting.bounds, counting.lanes
    kept = bounds[0] == NO_KEY  # no window: a node's sum never changes, and those of earlier nodes are still there
    first = regs[SUMMED] if kept else _first_live(nodes, regs, bounds[0])
    regs[COUNTED] += 1
    # most of what is live is reached from a position with many matches; where it is not, walks are less work
    few = waiting * regs[LIVE_COUNT] * 4
    if not kept and (not together or regs[NODES] - first > few or regs[COUNTED] % _LOOK_AGAIN == 0):
        for p in range(waiting):
            counting.totals[p] = _walk(
                carrier, nodes, regs, counting.roots[p], counting.root_counts[p], counting.scratch, bounds[p], block
            )
        return
    for p in range(waiting, LANES):
        bounds[p] = _NEVER
    stamp = np.int64(1) if kept else regs[COUNTED] + 1
    for n in range(first, regs[NODES]):
        if nodes[n, MAX] >= bounds[0]:
            _in_lanes(carrier, nodes, counting, n, stamp, block)
    if kept:
        regs[SUMMED] = regs[NODES]
    for p in range(waiting):
        total = np.int64(0)
        for k in range(counting.root_counts[p]):
            root = counting.roots[p, k]
            if nodes[root, MAX] >= bounds[p] and total <= TOO_MANY:
                total += lanes[root, p]
        counting.totals[p] = total


@called
def count_pending(
    carrier: Carrier | None,
    nodes: Array,
    regs: Array,
    counting: Counting,
    limit: int,
    together: bool,
    block: int,
) -> int:
    """Count the matches of the positions that wait; DONE, or the reason to come back, to be called again then.

    `together` says that all substreams have one window.
    """
    if regs[PENDING] > 0 and regs[PENDING_DONE] == 0:
        _make_totals(carrier, nodes, regs, counting, together, block)
        regs[PENDING_DONE] = 1
    while regs[PENDING_DONE] <= regs[PENDING] and regs[PENDING] > 0:
        if regs[TOTAL] >> 62:
            return np.int64(FULL)
        total = counting.totals[regs[PENDING_DONE] - 1]
        if limit > 0 and total > limit:
            total = np.int64(limit)
        if total > TOO_MANY:
            return np.int64(OVERFLOW_BEFORE)
        regs[TOTAL] += total
        regs[PENDING_DONE] += 1
    regs[PENDING] = 0
    regs[PENDING_DONE] = 0
    return np.int64(DONE)


@inlined
def pending_from(regs: Array, counting: Counting | None, dead: int) -> int:
    """The key below which starts are dead, also for the positions that are still to be counted."""
    if counting is None:
        return dead
    return dead if regs[PENDING] == 0 else min(dead, counting.bounds[0])


@inlined
def wait_to_be_counted(
    carrier: Carrier | None,
    nodes: Array,
    regs: Array,
    roots: Array,
    counting: Counting,
    limit: int,
    lanes: int,
    together: bool,
    block: int,
) -> int:
    """Count the current position with those that wait, or let it wait: as many as `lanes` may.

    The phase is AFTER as soon as the position has been taken up.
    """
    bound, p = regs[LEAST], regs[PENDING]
    live = 0
    for k in range(regs[ROOTS]):
        if nodes[roots[k], MAX] >= bound:
            live += 1
    regs[SEEN] = live  # each has a match
    if live == 0 or 0 < limit <= live:
        regs[TOTAL] += live if live < limit or limit == 0 else limit
        regs[PHASE] = AFTER
        return np.int64(DONE)
    if regs[ROOTS] > counting.roots.shape[1]:
        if p > 0:
            reason = count_pending(carrier, nodes, regs, counting, limit, together, block)
            if reason != DONE:
                return reason
        counting.totals[0] = _walk(carrier, nodes, regs, roots, regs[ROOTS], counting.scratch, bound, block)
        counting.root_counts[0] = regs[ROOTS]
        counting.bounds[0] = bound
        regs[PENDING] = 1
        regs[PENDING_DONE] = 1
    else:
        for k in range(regs[ROOTS]):
            counting.roots[p, k] = roots[k]
        counting.root_counts[p] = regs[ROOTS]
        counting.bounds[p] = bound
        regs[PENDING] = p + 1
    regs[PHASE] = AFTER
    if regs[PENDING_DONE] == 0 and p + 1 < lanes and together and bound != NO_KEY:
        return np.int64(DONE)
    return count_pending(carrier, nodes, regs, counting, limit, together, block)
