"""Totals over the matches below each node of the graph of groups; `common.sums` has the arithmetic."""

from __future__ import annotations

import numpy as np

from ceql.engine.common.graph import BETWEEN, BOTTOM, FACTOR, KIND, MAX, ORDERED, A, B, C
from ceql.engine.common.sums import Floats, Weights, Wholes, begin, multiply, read, unite
from ceql.engine.groups.between import next_between
from ceql.engine.groups.layout import Carrier
from ceql.engine.groups.ordered import next_in_order
from ceql.jit import Array, Word, inlined, kernel


@inlined
def _sum_pairs(
    carrier: Carrier,
    nodes: Array,
    weights: Weights,
    floats: Floats | None,
    wholes: Wholes | None,
    n: int,
    bound: int,
    block: int,
    logs: bool,
) -> None:
    """The totals of a `between` node: of each event with all runs before it, whose sums the event's own node takes."""
    had: Word = np.int64(0)
    event, first = next_between(carrier, nodes, nodes[0, :0], n, had, bound, block)
    while event >= 0:
        begin(floats, wholes, event, 0, logs)
        run, cursor = next_in_order(carrier, nodes, nodes[n, A], first, bound, block)
        while run >= 0:
            unite(floats, wholes, event, run, logs)
            run, cursor = next_in_order(carrier, nodes, nodes[n, A], cursor, bound, block)
        read(weights, floats, wholes, event, logs)
        unite(floats, wholes, n, event, logs)
        had += 1
        event, first = next_between(carrier, nodes, nodes[0, :0], n, had, bound, block)


@kernel
def sum_nodes(
    carrier: Carrier,
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
            begin(floats, wholes, n, 1 if child < 0 and nodes[n, C] >= bound else 0, logs)
            if child >= 0:
                unite(floats, wholes, n, child, logs)
            if kind != BOTTOM:
                read(weights, floats, wholes, n, logs)
            continue
        begin(floats, wholes, n, 0, logs)
        if kind == ORDERED:
            cursor: Word = np.int64(0)
            child, cursor = next_in_order(carrier, nodes, n, cursor, bound, block)
            while child >= 0:
                unite(floats, wholes, n, child, logs)
                child, cursor = next_in_order(carrier, nodes, n, cursor, bound, block)
            continue
        if kind == BETWEEN:
            _sum_pairs(carrier, nodes, weights, floats, wholes, n, bound, block, logs)
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
