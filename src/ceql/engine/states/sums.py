"""Totals over the matches below each node of the graph of states; `common.sums` has the arithmetic."""

from __future__ import annotations

from ceql.engine.common.graph import BOTTOM, KIND, MAX, A, B, C
from ceql.engine.common.sums import Floats, Weights, Wholes, begin, read, unite
from ceql.jit import Array, kernel


@kernel
def sum_nodes(
    nodes: Array,
    live: Array,
    weights: Weights,
    floats: Floats | None,
    wholes: Wholes | None,
    exact: bool,
    bound: int,
    logs: bool,
) -> None:
    """The totals of these nodes, children before parents: floats, whole numbers, or both."""
    for i in range(len(live)):
        n = live[i]
        kind = nodes[n, KIND]
        if kind == BOTTOM:
            begin(floats, wholes, n, 0 if exact and nodes[n, C] < bound else 1, logs)
            continue
        begin(floats, wholes, n, 0, logs)
        if kind >= 0:
            unite(floats, wholes, n, nodes[n, B], logs)
            read(weights, floats, wholes, n, logs)
            continue
        unite(floats, wholes, n, nodes[n, A], logs)
        if nodes[nodes[n, B], MAX] >= bound:
            unite(floats, wholes, n, nodes[n, B], logs)
