"""The live part of the graph: the nodes that a position reaches inside the window, children before parents."""

from __future__ import annotations

from ceql.engine.common.graph import BOTTOM, KIND, MAX, A, B
from ceql.jit import Array, inlined


@inlined
def list_live(nodes: Array, roots: Array, scratch: Array, bound: int) -> int:
    """List the live nodes in scratch[2, 1:], children first, and mark them in scratch[0]; how many there are."""
    seen = 0
    for k in range(len(roots)):
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
