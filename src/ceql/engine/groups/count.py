"""Counts the matches of positions without enumerating them: sums over unions, products over factors.

In a window, the sum of a node changes with the bound of the position that asks. So one pass over the live part of the
graph counts the matches of a few positions: each node has a lane for each.
"""

from __future__ import annotations

import numpy as np

from ceql.engine.common.graph import BETWEEN, FACTOR, KIND, MAX, NO_START, ORDERED, A, B, C
from ceql.engine.common.layout import (
    COUNTED,
    DONE,
    FULL,
    LIVE_COUNT,
    LIVE_FROM,
    NO_KEY,
    NOTED,
    OVERFLOW,
    READ,
    SUMMED,
    TOO_MANY,
    TOTAL,
    TOTALLED,
)
from ceql.engine.common.marks import clear_marks
from ceql.engine.common.roots import AT_BOUND, AT_END, AT_FIRST, AT_KEY, AT_NODES, AT_TOTAL, Roots
from ceql.engine.groups.between import pairs, pairs_in_lanes
from ceql.engine.groups.lanes import lanes_of, only_if, plus, put, same, times
from ceql.engine.groups.layout import (
    BASE,
    LANES,
    MOST,
    OWN_MOST,
    PLACE,
    REACH,
    READ_ROW,
    ROOM,
    Carrier,
    Counting,
)
from ceql.engine.groups.live import list_live
from ceql.engine.groups.ordered import next_in_order, no_harder
from ceql.engine.groups.rings import block_before, end_of_blocks, harder, order_of_bucket, pass_dead
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
def ways(carrier: Carrier, nodes: Array, sums: Array, n: int, bound: int, one: float, block: int) -> float:
    """The matches of a node whose children's are known; a float or a whole number, as `one` is."""
    kind = nodes[n, KIND]
    if kind >= 0:
        child = nodes[n, B]
        return one * np.int64(nodes[n, C] >= bound) if child < 0 else one * sums[child]
    if kind == ORDERED:
        return _rows(carrier, nodes, sums, n, bound, one, block)
    if kind == BETWEEN:
        return pairs(carrier, nodes, sums, n, bound, one, block)
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
def later_starts(carrier: Carrier, nodes: Array, live: Array, sums: Array, bound: int, least: int, block: int) -> None:
    """For the live nodes, children before parents: how many of their matches start at position `least` or later."""
    for k in range(len(live)):
        n = live[k]
        if nodes[n, KIND] >= 0 and nodes[n, A] < least:
            sums[n] = 0.0
        else:
            sums[n] = ways(carrier, nodes, sums, n, bound, 1.0, block)


@inlined
def _capped(carrier: Carrier, nodes: Array, sums: Array, n: int, bound: int, block: int) -> int:
    """The same in whole numbers; TOO_MANY + 1 where it is more than TOO_MANY."""
    multiplies = nodes[n, KIND] == FACTOR or nodes[n, KIND] == BETWEEN
    if multiplies and ways(carrier, nodes, sums, n, bound, 1.0, block) > TOO_MANY:
        return np.int64(TOO_MANY + 1)
    return min(ways(carrier, nodes, sums, n, bound, np.int64(1), block), np.int64(TOO_MANY + 1))


@called
def _walk(carrier: Carrier, nodes: Array, regs: Array, roots: Array, scratch: Array, bound: int, block: int) -> int:
    """The matches of one position, by way of the nodes that it reaches and no others."""
    seen = list_live(carrier, nodes, regs, roots, scratch, bound, block)
    for k in range(1, seen + 1):
        n = scratch[2, k]
        scratch[0, n] = _capped(carrier, nodes, scratch[0], n, bound, block)
    total = np.int64(0)
    for k in range(len(roots)):
        if nodes[roots[k], MAX] >= bound and total <= TOO_MANY:
            total += scratch[0, roots[k]]
    clear_marks(scratch)
    return total


@inlined
def _in_lanes(carrier: Carrier, nodes: Array, counting: Counting, n: int, stamp: int, block: int) -> None:
    """The matches of a node, in all lanes. All nodes before it that are live are counted."""
    lanes, bounds = counting.lanes, counting.bounds
    kind = nodes[n, KIND]
    if kind >= 0 and nodes[n, B] < 0:
        for lane in range(LANES):
            lanes[n, lane] = np.int64(nodes[n, C] >= bounds[lane])
        return
    if kind == ORDERED:
        sum_in_order(carrier, nodes, n, counting, stamp, block)
        return
    if kind == BETWEEN:
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
def _first_live(nodes: Array, regs: Array, used: int, bound: int) -> int:
    """No node before this one is live. Max-starts and bounds never decrease along a stream, so that what is live is
    at the end of the graph."""
    first = regs[LIVE_FROM]
    while first < used and nodes[first, MAX] < bound:
        first += 1
    regs[LIVE_FROM] = first
    return first


@inlined
def _group_end(regs: Array, at: Array, first: int, lanes: int, together: bool) -> int:
    """The end of the positions that are counted together with the first one: those with events in common."""
    end = first + 1
    while together and end < regs[NOTED] and end - first < lanes and at[end, AT_BOUND] <= at[first, AT_KEY]:
        end += 1
    return end if at[first, AT_BOUND] != NO_KEY else first + 1


@inlined
def _make_totals(
    carrier: Carrier,
    nodes: Array,
    regs: Array,
    counting: Counting,
    roots: Roots,
    first: int,
    end: int,
    together: bool,
    block: int,
) -> None:
    """Count the matches of the positions from `first` to `end`."""
    at, bounds, lanes = roots.at, counting.bounds, counting.lanes
    bound, used = at[first, AT_BOUND], at[end - 1, AT_NODES]
    kept = bound == NO_KEY  # no window: a node's sum never changes, and those of earlier nodes are still there
    begin = regs[SUMMED] if kept else _first_live(nodes, regs, used, bound)
    regs[COUNTED] += 1
    # most of what is live is reached from a position with many matches; where it is not, walks are less work
    few = (end - first) * regs[LIVE_COUNT] * 4
    if not kept and (not together or used - begin > few or regs[COUNTED] % _LOOK_AGAIN == 0):
        for p in range(first, end):
            own = roots.node[at[p, AT_FIRST] : at[p, AT_END]]
            at[p, AT_TOTAL] = _walk(carrier, nodes, regs, own, counting.scratch, at[p, AT_BOUND], block)
        return
    if kept and len(carrier.rows) == 0:
        for n in range(begin, used):
            counting.kept[n] = _capped(carrier, nodes, counting.kept, n, bound, block)
        regs[SUMMED] = used
        at[first, AT_TOTAL] = 0
        for k in range(at[first, AT_FIRST], at[first, AT_END]):
            at[first, AT_TOTAL] = min(at[first, AT_TOTAL] + counting.kept[roots.node[k]], np.int64(TOO_MANY + 1))
        return
    for lane in range(LANES):
        bounds[lane] = at[first + lane, AT_BOUND] if first + lane < end else _NEVER
    stamp = np.int64(1) if kept else regs[COUNTED] + 1
    for n in range(begin, used):
        if nodes[n, MAX] >= bound:
            _in_lanes(carrier, nodes, counting, n, stamp, block)
    if kept:
        regs[SUMMED] = used
    for p in range(first, end):
        total = np.int64(0)
        for k in range(at[p, AT_FIRST], at[p, AT_END]):
            if total <= TOO_MANY:
                total += lanes[roots.node[k], p - first]
        at[p, AT_TOTAL] = total


@kernel
def count_matches(
    carrier: Carrier,
    nodes: Array,
    regs: Array,
    counting: Counting,
    roots: Roots,
    limit: int,
    lanes: int,
    together: bool,
    block: int,
) -> int:
    """Count the matches of the positions that are still to be read; DONE, or the reason to come back.

    `together` says that all substreams have one window; then up to `lanes` positions are counted together.
    """
    at = roots.at
    while regs[READ] < regs[NOTED]:
        p = regs[READ]
        if regs[TOTAL] >> 62:
            return np.int64(FULL)
        total = at[p, AT_END] - at[p, AT_FIRST]  # each has a match
        if limit == 0 or total < limit:
            if p >= regs[TOTALLED]:
                end = _group_end(regs, at, p, lanes, together)
                _make_totals(carrier, nodes, regs, counting, roots, p, end, together, block)
                regs[TOTALLED] = end
            total = at[p, AT_TOTAL]
        if limit > 0 and total > limit:
            total = np.int64(limit)
        if total > TOO_MANY:
            return np.int64(OVERFLOW)
        regs[TOTAL] += total
        regs[READ] = p + 1
    return np.int64(DONE)


@called
def sum_in_order(carrier: Carrier, nodes: Array, n: int, counting: Counting, stamp: int, block: int) -> None:
    """Count the matches of an `ordered` node, in all lanes; those of its runs are known.

    Sorted blocks keep the sums of their rows as long as `stamp` stays the same: whoever asks next takes little longer
    than it takes to find the rows.
    """
    rows, keys, buckets, lanes = carrier.rows, carrier.keys, carrier.buckets, counting.lanes
    total = same(np.int64(0))
    bucket, hardest = nodes[n, A], nodes[n, B]
    if bucket < 0:
        put(lanes, n, total)
        return
    order, by_ranks = order_of_bucket(carrier, bucket)
    base, room, reach = buckets[bucket, BASE], buckets[bucket, ROOM], buckets[bucket, REACH]
    least = max(counting.bounds[0], np.int64(NO_START + 1))
    pass_dead(carrier, bucket, READ_ROW, least)  # positions are counted in order of their bounds
    first = buckets[bucket, READ_ROW]
    end = nodes[n, C]
    in_blocks = end_of_blocks(first, end, reach, block)
    while end > in_blocks:
        end -= 1
        at = base + (end & (room - 1))
        passes = (rows[at, OWN_MOST] >= least) & (not harder(keys[at, 0], hardest, order, by_ranks, carrier.rank))
        total = plus(total, only_if(lanes_of(lanes, max(rows[at, PLACE], np.int64(0))), passes))
    while end > first:
        longest = min(reach, max(2 * block, 4 * (end - first)))  # no block of which the window has left the most
        level, size = block_before(end, longest, block)
        end -= size
        at = base + level * room + (end & (room - 1))
        last = at + size - 1
        if rows[last, MOST] < least:
            continue
        found = no_harder(keys, at, size, hardest, order, by_ranks, carrier.rank)
        if found > 0:
            if counting.summed[last] != stamp:
                counting.summed[last] = stamp
                _sum_block(rows, lanes, counting.row_sums, at, size, base, least)
            total = plus(total, lanes_of(counting.row_sums, at + found - 1))
    put(lanes, n, total)


@inlined
def _sum_block(rows: Array, lanes: Array, sums: Array, at: int, size: int, base: int, least: int) -> None:
    """The matches up to each row of a sorted block."""
    total = same(np.int64(0))
    for k in range(at, at + size):
        if rows[k, OWN_MOST] >= least:
            total = plus(total, lanes_of(lanes, rows[base + (rows[k, PLACE] >> 32), PLACE]))
        put(sums, k, total)
