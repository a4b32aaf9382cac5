"""Runs with any one of the events that came after each: what a `between` node has (see `automata.free_events`).

The runs are those of an `ordered` node; the events are rows of a bucket of their own, in order of arrival. Both know
their positions. So the events after a run are the last ones, and the runs before an event are the first ones.
"""

from __future__ import annotations

import numpy as np

from ceql.engine.common.layout import TOO_MANY
from ceql.engine.groups.graph import A, B, C
from ceql.engine.groups.layout import BASE, FIRST_ROW, LANES, PLACE, ROOM, Carrier, Counting
from ceql.engine.groups.ordered import begin_before, give_up, next_in_order, rows_before
from ceql.jit import Array, called, inlined, kernel


@inlined
def events_after(carrier: Carrier, nodes: Array, n: int, run: int) -> int:
    """How many events come after a run of a `between` node."""
    return max(nodes[n, C] - rows_before(carrier, nodes[n, B], nodes[run, A] + 1), np.int64(0))


@called
def next_between(
    carrier: Carrier, nodes: Array, counts: Array, n: int, cursor: int, bound: int, block: int
) -> tuple[int, int]:
    """The next event of a `between` node, the latest first, and where the runs before it begin in its `ordered` node.

    It is -1 where no such run is inside the window; `cursor` events have been had. `counts` is as in `search`.
    """
    ring, ordered = nodes[n, B], nodes[n, A]
    if ring < 0 or nodes[ordered, A] < 0:  # given up; only a snapshot that was made up reaches such a node
        return np.int64(-1), np.int64(0)
    row = nodes[n, C] - 1 - cursor
    if row < carrier.buckets[ring, FIRST_ROW]:
        return np.int64(-1), np.int64(0)
    event = carrier.rows[carrier.buckets[ring, BASE] + (row & (carrier.buckets[ring, ROOM] - 1)), PLACE]
    if event < 0:
        return np.int64(-1), np.int64(0)
    first = begin_before(carrier, nodes, ordered, nodes[event, A])
    run, following = next_in_order(carrier, nodes, ordered, first, bound, block)
    while len(counts) > 0 and run >= 0 and counts[run] == 0:
        run, following = next_in_order(carrier, nodes, ordered, following, bound, block)
    return (event, first) if run >= 0 else (np.int64(-1), np.int64(0))


@called
def pairs(carrier: Carrier, nodes: Array, sums: Array, n: int, bound: int, one: float, block: int) -> float:
    """The matches of a `between` node; nothing is added to a sum that is too large already."""
    total = one * 0
    ordered = nodes[n, A]
    run, cursor = next_in_order(carrier, nodes, ordered, np.int64(0), bound, block)
    while run >= 0 and total <= TOO_MANY:
        total += one * sums[run] * events_after(carrier, nodes, n, run)
        run, cursor = next_in_order(carrier, nodes, ordered, cursor, bound, block)
    return total


@called
def pairs_in_lanes(carrier: Carrier, nodes: Array, n: int, counting: Counting, block: int) -> None:
    """The same in all lanes, in each of which a start may be inside the window or not."""
    lanes = counting.lanes
    for lane in range(LANES):
        lanes[n, lane] = 0
    ordered, bound = nodes[n, A], counting.bounds[0]
    run, cursor = next_in_order(carrier, nodes, ordered, np.int64(0), bound, block)
    while run >= 0:
        times = events_after(carrier, nodes, n, run)
        if np.float64(lanes[run, 0]) * np.float64(times) + np.float64(lanes[n, 0]) > TOO_MANY:
            give_up(lanes, n)
            return
        for lane in range(LANES):
            lanes[n, lane] += lanes[run, lane] * times
        run, cursor = next_in_order(carrier, nodes, ordered, cursor, bound, block)


@kernel
def events_after_run(carrier: Carrier, nodes: Array, n: int, run: int) -> int:
    """`events_after`, to be called from Python."""
    return events_after(carrier, nodes, n, run)
