"""How many matches end at a position, without enumerating them: sums over unions, products over factors."""

from __future__ import annotations

import numpy as np

from ceql.engine.common.layout import NODES, ROOTS, SUMMED, TOO_MANY
from ceql.engine.common.marks import clear_marks
from ceql.engine.groups.graph import FACTOR, KIND, MAX, A, B, C
from ceql.engine.groups.layout import LIVE_COUNT, LIVE_FROM
from ceql.engine.groups.live import list_live
from ceql.jit import Array, inlined, kernel


@inlined
def ways(nodes: Array, sums: Array, n: int, bound: int, one: float) -> float:
    """The matches of a node whose children's are known; a float or a whole number, as `one` is."""
    kind = nodes[n, KIND]
    if kind >= 0:
        child = nodes[n, B]
        return one if child < 0 else one * sums[child]
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
def later_starts(nodes: Array, live: Array, sums: Array, bound: int, least: int) -> None:
    """For the live nodes, children before parents: how many of their matches start at position `least` or later."""
    for k in range(len(live)):
        n = live[k]
        if nodes[n, KIND] >= 0 and nodes[n, A] < least:
            sums[n] = 0.0
        else:
            sums[n] = ways(nodes, sums, n, bound, 1.0)


@inlined
def _sum_in_order(nodes: Array, regs: Array, scratch: Array, bound: int) -> bool:
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
            continue
        kind = nodes[n, KIND]
        if kind >= 0:
            scratch[0, n] = scratch[0, nodes[n, B]] if nodes[n, B] >= 0 else 1
        else:
            fits = kind != FACTOR or ways(nodes, scratch[0], n, bound, 1.0) <= TOO_MANY
            found = ways(nodes, scratch[0], n, bound, np.int64(1)) if fits else np.int64(TOO_MANY + 1)
            scratch[0, n] = min(found, np.int64(TOO_MANY + 1))
    return True


@kernel
def count_matches(
    nodes: Array, regs: Array, roots: Array, scratch: Array, bound: int, kept: bool, together: bool
) -> int:
    """Matches of the current position inside the window; -1 when they may not fit an int64.

    With `kept` (no window) a node's sum never changes, so that those of earlier positions are still there. `together`
    says that all substreams have one window.
    """
    total = np.int64(0)
    if kept:
        for n in range(regs[SUMMED], regs[NODES]):
            fits = True
            for side in range(A if nodes[n, KIND] < 0 else B, B + 1 if nodes[n, KIND] >= FACTOR else C + 1):
                child = nodes[n, side]
                if child >= 0 and scratch[0, child] < 0:
                    fits = False
            if fits:
                fits = ways(nodes, scratch[0], n, bound, 1.0) <= TOO_MANY
            scratch[0, n] = ways(nodes, scratch[0], n, bound, np.int64(1)) if fits else np.int64(-1)
        regs[SUMMED] = regs[NODES]
        for k in range(regs[ROOTS]):
            found = scratch[0, roots[k]]
            if found < 0 or total + found > TOO_MANY:
                return np.int64(-1)
            total += found
        return total
    if together and _sum_in_order(nodes, regs, scratch, bound):
        for k in range(regs[ROOTS]):
            if nodes[roots[k], MAX] >= bound:
                total += scratch[0, roots[k]]
                if total > TOO_MANY:
                    total = np.int64(-1)
                    break
        for n in range(regs[LIVE_FROM], regs[NODES]):
            scratch[0, n] = 0
        return total
    seen = list_live(nodes, regs, roots, scratch, bound)
    regs[LIVE_COUNT] = seen
    for k in range(1, seen + 1):
        n = scratch[2, k]
        if ways(nodes, scratch[0], n, bound, 1.0) > TOO_MANY:
            total = np.int64(-1)
            break
        scratch[0, n] = ways(nodes, scratch[0], n, bound, np.int64(1))
    for k in range(regs[ROOTS]):
        if total >= 0 and nodes[roots[k], MAX] >= bound:
            total += scratch[0, roots[k]]
            if total > TOO_MANY:
                total = np.int64(-1)
    clear_marks(scratch)
    return total
