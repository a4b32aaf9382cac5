"""How many matches end at a position, without enumerating them: sums over unions, products over factors."""

from __future__ import annotations

import numpy as np

from ceql.engine.common.layout import NODES, ROOTS, SUMMED, TOO_MANY
from ceql.engine.common.marks import clear_marks
from ceql.engine.groups.graph import FACTOR, KIND, MAX, ORDERED, A, B, C
from ceql.engine.groups.layout import COUNTED, LIVE_COUNT, LIVE_FROM, Carrier
from ceql.engine.groups.live import list_live
from ceql.engine.groups.ordered import next_in_order, sum_in_order
from ceql.jit import Array, called, inlined, kernel


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
def _capped(carrier: Carrier | None, nodes: Array, sums: Array, n: int, bound: int, stamp: int, block: int) -> int:
    """The same in whole numbers; TOO_MANY + 1 where it is more than TOO_MANY.

    With a stamp, the sums of all nodes before this one are known, not of its children alone.
    """
    kind = nodes[n, KIND]
    if kind == ORDERED and carrier is not None and stamp > 0:
        return sum_in_order(carrier, nodes, n, sums, bound, stamp, block)
    if kind == FACTOR and ways(carrier, nodes, sums, n, bound, 1.0, block) > TOO_MANY:
        return np.int64(TOO_MANY + 1)
    return min(ways(carrier, nodes, sums, n, bound, np.int64(1), block), np.int64(TOO_MANY + 1))


@inlined
def _sum_all(carrier: Carrier | None, nodes: Array, regs: Array, scratch: Array, bound: int, block: int) -> bool:
    """Count the matches of all nodes that may be live, one after the other, where that is less work than a walk.

    Max-starts and bounds never decrease along a stream, so what is live is at the end of the graph. Most of it is
    reached from a position with many matches, and children come before their parents.
    """
    first = regs[LIVE_FROM]
    while first < regs[NODES] and nodes[first, MAX] < bound:
        first += 1
    regs[LIVE_FROM] = first
    if regs[NODES] - first > 4 * regs[LIVE_COUNT]:
        return False
    for n in range(first, regs[NODES]):
        if nodes[n, MAX] < bound:
            scratch[0, n] = 0
        else:
            scratch[0, n] = _capped(carrier, nodes, scratch[0], n, bound, regs[COUNTED], block)
    return True


@kernel
def count_matches(
    carrier: Carrier | None,
    nodes: Array,
    regs: Array,
    roots: Array,
    scratch: Array,
    bound: int,
    limit: int,
    kept: bool,
    together: bool,
    block: int,
) -> int:
    """Matches of the current position inside the window, `limit` at most if there is one; -1: too many for an int64.

    With `kept` (no window) a node's sum never changes, so that those of earlier positions are still there. `together`
    says that all substreams have one window.
    """
    live = 0
    for k in range(regs[ROOTS]):
        if nodes[roots[k], MAX] >= bound:
            live += 1
    if live == 0 or 0 < limit <= live:  # each has a match
        return np.int64(live if live < limit or limit == 0 else limit)
    seen = 0
    regs[COUNTED] += 1
    if kept:
        for n in range(regs[SUMMED], regs[NODES]):
            scratch[0, n] = _capped(carrier, nodes, scratch[0], n, bound, np.int64(1), block)
        regs[SUMMED] = regs[NODES]
    elif not (together and _sum_all(carrier, nodes, regs, scratch, bound, block)):
        seen = list_live(carrier, nodes, regs, roots, scratch, bound, block)
        for k in range(1, seen + 1):
            n = scratch[2, k]
            scratch[0, n] = _capped(carrier, nodes, scratch[0], n, bound, np.int64(0), block)
    total = np.int64(0)
    for k in range(regs[ROOTS]):
        if nodes[roots[k], MAX] >= bound and total <= TOO_MANY:
            total += scratch[0, roots[k]]
    if seen > 0:
        clear_marks(scratch)
    elif not kept:
        for n in range(regs[LIVE_FROM], regs[NODES]):
            scratch[0, n] = 0
    if limit > 0 and total > limit:
        return np.int64(limit)
    return total if total <= TOO_MANY else np.int64(-1)
