"""Runs with any one of the events that came after each: what a `between` node has (see `automata.free_events`).

The runs are those of an `ordered` node; the events are rows of a bucket of their own, in order of arrival. Both know
their positions. So the events after a run are the last ones, and the runs before an event are the first ones.
"""

from __future__ import annotations

import numpy as np

from ceql.engine.common.graph import A, B, C
from ceql.engine.common.layout import TOO_MANY
from ceql.engine.groups.lanes import lanes_of, plus, put, same, times
from ceql.engine.groups.layout import (
    BASE,
    BETWEEN_AT,
    FIRST_ROW,
    NEXT_ROW,
    PLACE,
    POSITION,
    ROOM,
    SINCE,
    Carrier,
    Counting,
    Store,
    Turn,
)
from ceql.engine.groups.ordered import begin_at, next_in_order, next_with
from ceql.engine.groups.table import head_of
from ceql.jit import Array, called, inlined


@inlined
def rows_before(carrier: Carrier, bucket: int, position: int) -> int:
    """How many rows there were before an event at this position came."""
    buckets = carrier.buckets
    base, mask = buckets[bucket, BASE], buckets[bucket, ROOM] - 1
    low, high = buckets[bucket, FIRST_ROW], buckets[bucket, NEXT_ROW]
    while low < high:
        middle = (low + high) >> 1
        if carrier.rows[base + (middle & mask), POSITION] < position:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def events_between(carrier: Carrier, store: Store, index: int, turn: Turn) -> tuple[int, int, int]:
    """The bucket of the events that come between the runs of an index and what finds them, how many rows it has had,
    and the position of the last one. The bucket is -1 if there are none."""
    entries = store.entries
    head = head_of(carrier, store, carrier.indexes[index, BETWEEN_AT], turn.partition, np.int64(0))
    if head < 0 or entries[head, SINCE] <= turn.forgotten:
        return np.int64(-1), np.int64(0), np.int64(0)
    buckets, ring = carrier.buckets, entries[head, entries.shape[1] - 1]
    if ring < 0 or buckets[ring, NEXT_ROW] == buckets[ring, FIRST_ROW]:
        return np.int64(-1), np.int64(0), np.int64(0)
    rows = buckets[ring, NEXT_ROW]
    last = buckets[ring, BASE] + ((rows - 1) & (buckets[ring, ROOM] - 1))
    return ring, rows, carrier.rows[last, POSITION]


@inlined
def events_after(carrier: Carrier, nodes: Array, n: int, run: int) -> int:
    """How many events come after a run of a `between` node."""
    return max(nodes[n, C] - rows_before(carrier, nodes[n, B], nodes[run, A] + 1), np.int64(0))


@inlined
def event_after(carrier: Carrier, nodes: Array, n: int, row: int, run: int) -> int:
    """The event of a `between` node that has a row of its bucket, or -1 if it does not come after the run."""
    ring, buckets = nodes[n, B], carrier.buckets
    if ring < 0 or row < buckets[ring, FIRST_ROW]:  # given up; only a snapshot that was made up reaches such a node
        return np.int64(-1)
    at = buckets[ring, BASE] + (row & (buckets[ring, ROOM] - 1))
    return carrier.rows[at, PLACE] if carrier.rows[at, POSITION] > nodes[run, A] else np.int64(-1)


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
    first = begin_at(nodes, ordered, rows_before(carrier, nodes[ordered, A], nodes[event, A]))
    run, _ = next_with(carrier, nodes, counts, ordered, first, bound, block)
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
    total = same(np.int64(0))
    ordered, bound = nodes[n, A], counting.bounds[0]
    run, cursor = next_in_order(carrier, nodes, ordered, np.int64(0), bound, block)
    while run >= 0 and total[0] <= TOO_MANY:
        total = plus(total, times(lanes_of(lanes, run), same(np.int64(events_after(carrier, nodes, n, run)))))
        run, cursor = next_in_order(carrier, nodes, ordered, cursor, bound, block)
    if total[0] > TOO_MANY:
        total = same(np.int64(TOO_MANY + 1))
    put(lanes, n, total)
