"""The live part of the graph: the nodes that a position reaches inside the window, children before parents."""

from __future__ import annotations

from ceql.engine.common.graph import BOTTOM, KIND, MAX, A, B, C
from ceql.engine.common.layout import ROOTS
from ceql.engine.common.marks import clear_marks
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
            if scratch[0, n] > 0:
                height -= 1
                continue
            if nodes[n, KIND] != BOTTOM:
                child = nodes[n, B]
                if scratch[0, child] == 0 and nodes[child, MAX] >= bound:
                    scratch[1, height] = child
                    height += 1
                    continue
                if nodes[n, KIND] < 0 and scratch[0, nodes[n, A]] == 0:
                    scratch[1, height] = nodes[n, A]
                    height += 1
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


@inlined
def any_live(nodes: Array, regs: Array, roots: Array, scratch: Array, exact: bool, bound: int) -> bool:
    """Whether some match of the current position is inside the window."""
    found = False
    if not exact:
        for k in range(regs[ROOTS]):
            found = found or nodes[roots[k], MAX] >= bound
        return found
    seen = list_live(nodes, regs, roots, scratch, bound)
    for k in range(1, seen + 1):
        n = scratch[2, k]
        if nodes[n, KIND] == BOTTOM and nodes[n, C] >= bound:
            found = True
    clear_marks(scratch)
    return found
