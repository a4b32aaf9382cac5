"""Counting the matches of runs that are found in order."""

from __future__ import annotations

import numpy as np

from ceql.engine.common.graph import NO_START, A, B, C
from ceql.engine.groups.lanes import lanes_of, only_if, plus, put, same
from ceql.engine.groups.layout import BASE, MOST, OWN_MOST, PLACE, REACH, READ_ROW, ROOM, Carrier, Counting
from ceql.engine.groups.ordered import no_harder
from ceql.engine.groups.rings import block_before, end_of_blocks, harder, order_of_bucket, pass_dead
from ceql.jit import Array, called, inlined


@called
def sum_in_order(carrier: Carrier, nodes: Array, n: int, counting: Counting, stamp: int, block: int) -> None:
    """Count the matches of an `ordered` node, in all lanes; those of its runs are known.

    Sorted blocks keep the sums of their rows as long as `stamp` stays the same: whoever asks next takes little longer
    than it takes to find the rows.
    """
    rows, keys, buckets, lanes = carrier.rows, carrier.keys, carrier.buckets, counting.lanes
    total = same(np.int64(0))
    bucket, hardest = nodes[n, A], nodes[n, B]
    if bucket < 0:
        put(lanes, n, total)
        return
    order, by_ranks = order_of_bucket(carrier, bucket)
    base, room, reach = buckets[bucket, BASE], buckets[bucket, ROOM], buckets[bucket, REACH]
    least = max(counting.bounds[0], np.int64(NO_START + 1))
    pass_dead(carrier, bucket, READ_ROW, least)  # positions are counted in order of their bounds
    first = buckets[bucket, READ_ROW]
    end = nodes[n, C]
    in_blocks = end_of_blocks(first, end, reach, block)
    while end > in_blocks:
        end -= 1
        at = base + (end & (room - 1))
        passes = (rows[at, OWN_MOST] >= least) & (not harder(keys[at, 0], hardest, order, by_ranks, carrier.rank))
        total = plus(total, only_if(lanes_of(lanes, max(rows[at, PLACE], np.int64(0))), passes))
    while end > first:
        longest = min(reach, max(2 * block, 4 * (end - first)))  # no block of which the window has left the most
        level, size = block_before(end, longest, block)
        end -= size
        at = base + level * room + (end & (room - 1))
        last = at + size - 1
        if rows[last, MOST] < least:
            continue
        found = no_harder(keys, at, size, hardest, order, by_ranks, carrier.rank)
        if found > 0:
            if counting.summed[last] != stamp:
                counting.summed[last] = stamp
                _sum_block(rows, lanes, counting.row_sums, at, size, base, least)
            total = plus(total, lanes_of(counting.row_sums, at + found - 1))
    put(lanes, n, total)


@inlined
def _sum_block(rows: Array, lanes: Array, sums: Array, at: int, size: int, base: int, least: int) -> None:
    """The matches up to each row of a sorted block."""
    total = same(np.int64(0))
    for k in range(at, at + size):
        if rows[k, OWN_MOST] >= least:
            total = plus(total, lanes_of(lanes, rows[base + (rows[k, PLACE] >> 32), PLACE]))
        put(sums, k, total)
