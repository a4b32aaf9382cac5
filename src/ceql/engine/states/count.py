"""Counts matches without enumerating them: sums over the graph.

`count_live` adds up the paths of the live part of the graph, children before parents, in int64, and gives up (-1)
near overflow. Then `live.gather_live` lists the live nodes, `count_log2` tells the size of the number, and
`count_modulo` counts modulo a prime, as often as that takes.
"""

from __future__ import annotations

import numpy as np

from ceql.engine.common.graph import BOTTOM, KIND, MAX, A, B, C
from ceql.engine.common.layout import NODES, ROOTS, SUMMED, TOO_MANY
from ceql.engine.common.marks import clear_marks
from ceql.engine.states.live import list_live
from ceql.jit import Array, inlined, kernel


@inlined
def count_live(nodes: Array, regs: Array, roots: Array, scratch: Array, exact: bool, bound: int) -> int:
    """Matches of the current position inside the window; -1 when they may not fit an int64."""
    seen = list_live(nodes, regs, roots, scratch, bound)
    total = np.int64(0)
    for k in range(1, seen + 1):
        n = scratch[2, k]
        kind = nodes[n, KIND]
        paths = np.int64(1)
        if kind == BOTTOM:
            if exact and nodes[n, C] < bound:
                paths = np.int64(0)
        else:
            child = nodes[n, B]
            paths = scratch[0, child] if nodes[child, MAX] >= bound else np.int64(0)
            if kind < 0:
                paths += scratch[0, nodes[n, A]]
        if paths > TOO_MANY:
            total = np.int64(-1)
            break
        scratch[0, n] = paths
    for k in range(regs[ROOTS]):
        if total >= 0 and nodes[roots[k], MAX] >= bound:
            total += scratch[0, roots[k]]
            if total > TOO_MANY:
                total = np.int64(-1)
    clear_marks(scratch)
    return total


@inlined
def count_kept(nodes: Array, regs: Array, roots: Array, scratch: Array) -> int:
    """The same without a window: a node's sum never changes, so those of earlier positions are still there.

    `regs[SUMMED]` nodes have theirs in scratch[0]; -1 stands for what does not fit.
    """
    for n in range(regs[SUMMED], regs[NODES]):
        kind = nodes[n, KIND]
        paths = np.int64(1)
        if kind != BOTTOM:
            paths = scratch[0, nodes[n, B]]
            if kind < 0:
                left = scratch[0, nodes[n, A]]
                paths = paths + left if paths >= 0 and left >= 0 else np.int64(-1)
        scratch[0, n] = paths if paths <= TOO_MANY else -1
    regs[SUMMED] = regs[NODES]
    total = np.int64(0)
    for k in range(regs[ROOTS]):
        paths = scratch[0, roots[k]]
        if paths < 0 or total + paths > TOO_MANY:
            return np.int64(-1)
        total += paths
    return total


@kernel
def count_modulo(
    nodes: Array, live: Array, roots: Array, count: int, sums: Array, exact: bool, bound: int, prime: int
) -> int:
    """`count_live` modulo `prime`, for nodes gathered by `gather_live`."""
    for k in range(len(live)):
        n = live[k]
        kind = nodes[n, KIND]
        if kind == BOTTOM:
            paths = np.int64(1) if not exact or nodes[n, C] >= bound else np.int64(0)
        elif kind >= 0:
            paths = sums[nodes[n, B]]
        else:
            paths = sums[nodes[n, A]] + (sums[nodes[n, B]] if nodes[nodes[n, B], MAX] >= bound else 0)
            if paths >= prime:
                paths -= prime
        sums[n] = paths
    total = np.int64(0)
    for k in range(count):
        if nodes[roots[k], MAX] >= bound:
            total += sums[roots[k]]
            if total >= prime:
                total -= prime
    for k in range(len(live)):
        sums[live[k]] = 0
    return total


@kernel
def count_log2(nodes: Array, live: Array, roots: Array, count: int, logs: Array, exact: bool, bound: int) -> float:
    """The binary logarithm of `count_live`, as a float; 0 for no match."""
    for k in range(len(live)):
        n = live[k]
        kind = nodes[n, KIND]
        if kind == BOTTOM:
            logs[n] = 0.0 if not exact or nodes[n, C] >= bound else -np.inf
        elif kind >= 0:
            logs[n] = logs[nodes[n, B]]
        elif nodes[nodes[n, B], MAX] >= bound:
            logs[n] = _log2_sum(logs[nodes[n, A]], logs[nodes[n, B]])
        else:
            logs[n] = logs[nodes[n, A]]
    total = -np.inf
    for k in range(count):
        if nodes[roots[k], MAX] >= bound:
            total = _log2_sum(total, logs[roots[k]])
    return max(total, 0.0)


@inlined
def _log2_sum(a: float, b: float) -> float:
    high, low = max(a, b), min(a, b)
    return high if low == -np.inf else high + np.log2(1.0 + 2.0 ** (low - high))
