"""The live part of the graph: the nodes that a position reaches inside the window, children before parents."""

from __future__ import annotations

import numpy as np

from ceql.engine.common.graph import BETWEEN, FACTOR, KIND, MAX, ORDERED, A, B, C
from ceql.engine.common.layout import LIVE_COUNT
from ceql.engine.common.marks import clear_marks
from ceql.engine.groups.layout import Carrier
from ceql.engine.groups.ordered import next_in_order
from ceql.jit import Array, inlined, kernel


@inlined
def list_live(carrier: Carrier, nodes: Array, regs: Array, roots: Array, scratch: Array, bound: int, block: int) -> int:
    """List the live nodes in scratch[2, 1:], children first, and mark them in scratch[0]; how many there are.

    The way to a node is in scratch[1], and in scratch[3] how far each node on it is searched in order. LIVE_COUNT gets
    the steps that it took.
    """
    seen = 0
    regs[LIVE_COUNT] = 0
    for k in range(len(roots)):
        if nodes[roots[k], MAX] < bound:
            continue
        height = 1
        scratch[1, 0] = roots[k]
        scratch[3, 0] = 0
        while height > 0:
            n = scratch[1, height - 1]
            if scratch[0, n] != 0:
                height -= 1
                continue
            waits = False
            if nodes[n, KIND] == ORDERED:
                while not waits:
                    child, cursor = next_in_order(carrier, nodes, n, np.int64(scratch[3, height - 1]), bound, block)
                    regs[LIVE_COUNT] += 1
                    if child < 0:
                        break
                    scratch[3, height - 1] = cursor
                    if scratch[0, child] == 0:
                        scratch[1, height] = child
                        scratch[3, height] = 0
                        height += 1
                        waits = True
            elif nodes[n, KIND] >= 0:
                child = nodes[n, B]
                if child >= 0 and scratch[0, child] == 0:
                    scratch[1, height] = child
                    scratch[3, height] = 0
                    height += 1
                    waits = True
            else:
                for side in range(A, C + 1):
                    child = nodes[n, side]
                    if (nodes[n, KIND] == FACTOR and side == C) or (nodes[n, KIND] == BETWEEN and side != A):
                        continue
                    if (
                        child >= 0
                        and scratch[0, child] == 0
                        and (side == A or nodes[n, KIND] == FACTOR or nodes[child, MAX] >= bound)
                    ):
                        scratch[1, height] = child
                        scratch[3, height] = 0
                        height += 1
                        waits = True
                        break
            if waits:
                continue
            scratch[0, n] = 1
            seen += 1
            regs[LIVE_COUNT] += 1
            scratch[2, seen] = n
            height -= 1
    scratch[2, 0] = seen
    return seen


@kernel
def gather_live(
    carrier: Carrier, nodes: Array, regs: Array, roots: Array, scratch: Array, bound: int, block: int
) -> int:
    """List the live nodes in scratch[2, 1:], children before parents; how many there are. The marks are cleared."""
    seen = list_live(carrier, nodes, regs, roots, scratch, bound, block)
    clear_marks(scratch)
    return seen
