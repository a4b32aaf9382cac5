"""The live part of the graph: the nodes that a position reaches inside the window, children before parents."""

from __future__ import annotations

from ceql.engine.common.layout import ROOTS
from ceql.engine.common.marks import clear_marks
from ceql.engine.groups.graph import FACTOR, KIND, MAX, A, B, C
from ceql.jit import Array, inlined, kernel


@inlined
def list_live(nodes: Array, regs: Array, roots: Array, scratch: Array, bound: int) -> int:
    """List the live nodes in scratch[2, 1:], children first, and mark them in scratch[0]; how many there are."""
    seen = 0
    for k in range(regs[ROOTS]):
        if nodes[roots[k], MAX] < bound:
            continue
        height = 1
        scratch[1, 0] = roots[k]
        while height > 0:
            n = scratch[1, height - 1]
            if scratch[0, n] != 0:
                height -= 1
                continue
            waits = False
            if nodes[n, KIND] >= 0:
                child = nodes[n, B]
                if child >= 0 and scratch[0, child] == 0:
                    scratch[1, height] = child
                    height += 1
                    waits = True
            else:
                for side in range(A, C + 1):
                    child = nodes[n, side]
                    if nodes[n, KIND] == FACTOR and side == C:
                        continue
                    if (
                        child >= 0
                        and scratch[0, child] == 0
                        and (side == A or nodes[n, KIND] == FACTOR or nodes[child, MAX] >= bound)
                    ):
                        scratch[1, height] = child
                        height += 1
                        waits = True
                        break
            if waits:
                continue
            scratch[0, n] = 1
            seen += 1
            scratch[2, seen] = n
            height -= 1
    scratch[2, 0] = seen
    return seen


@kernel
def gather_live(nodes: Array, regs: Array, roots: Array, scratch: Array, bound: int) -> int:
    """List the live nodes in scratch[2, 1:], children before parents; how many there are. The marks are cleared."""
    seen = list_live(nodes, regs, roots, scratch, bound)
    clear_marks(scratch)
    return seen
