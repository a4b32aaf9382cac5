"""Totals over the matches below each node of the graph of groups; `common.sums` has the arithmetic."""

from __future__ import annotations

import numpy as np

from ceql.engine.common.sums import Floats, Weights, Wholes, begin, multiply, read, unite
from ceql.engine.groups.graph import FACTOR, KIND, MAX, ORDERED, A, B, C
from ceql.engine.groups.layout import Carrier
from ceql.engine.groups.ordered import next_in_order
from ceql.jit import Array, Word, kernel


@kernel
def sum_nodes(
    carrier: Carrier | None,
    nodes: Array,
    live: Array,
    weights: Weights,
    floats: Floats | None,
    wholes: Wholes | None,
    bound: int,
    block: int,
    logs: bool,
) -> None:
    """The totals of these nodes, children before parents: floats, whole numbers, or both."""
    for i in range(len(live)):
        n = live[i]
        kind = nodes[n, KIND]
        if kind >= 0:
            child = nodes[n, B]
            begin(floats, wholes, n, 1 if child < 0 else 0, logs)
            if child >= 0:
                unite(floats, wholes, n, child, logs)
            read(weights, floats, wholes, n, logs)
            continue
        begin(floats, wholes, n, 0, logs)
        if kind == ORDERED:
            if carrier is not None:
                cursor: Word = np.int64(0)
                child, cursor = next_in_order(carrier, nodes, n, cursor, bound, block)
                while child >= 0:
                    unite(floats, wholes, n, child, logs)
                    child, cursor = next_in_order(carrier, nodes, n, cursor, bound, block)
            continue
        unite(floats, wholes, n, nodes[n, A], logs)
        if kind == FACTOR:
            if nodes[n, B] >= 0:
                multiply(floats, wholes, n, nodes[n, B], logs)
            continue
        for side in range(B, C + 1):
            child = nodes[n, side]
            if child >= 0 and nodes[child, MAX] >= bound:
                unite(floats, wholes, n, child, logs)
