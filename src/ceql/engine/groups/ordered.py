"""Runs in order of the one value that they carry: those on one side of a bound are found without a scan.

The rows that pass a test are the first ones of each sorted block (`rings`), so all rows up to a number are a scan of a
few and O(log w) blocks. A step makes one node of all that it finds: the bucket, the number of rows that there were, and
the hardest value that passes. Who comes upon that node later finds the same rows again. In a block that is gone through
row by row, each knows the last one before it with a greater max-start than its own: whatever the window has left is
passed over in leaps.
"""

from __future__ import annotations

import numpy as np

from ceql.engine.common.graph import NO_START, A, B, C
from ceql.engine.common.layout import DONE
from ceql.engine.groups.carried import CANNOT_TELL, PASSES, compare, holds
from ceql.engine.groups.layout import (
    ALIVE_ROW,
    BASE,
    BUCKET_INDEX,
    BY_RANKS,
    EASIEST,
    EQUAL,
    FIRST_ROW,
    GREATER,
    GREATER_EQUAL,
    INEXACT,
    LEFT,
    LESS,
    LESS_EQUAL,
    MOST,
    NULL,
    OP,
    ORDER,
    OWN_MOST,
    PLACE,
    REACH,
    RIGHT,
    ROOM,
    SIMPLE,
    Carrier,
)
from ceql.engine.groups.rings import (
    GREATEST_WORD,
    LEAST_WORD,
    block_before,
    difficulty,
    end_of_blocks,
    harder,
    order_of_bucket,
)
from ceql.jit import LOWER, Array, called, inlined

_IN_BLOCK = 31  # bits of a cursor: how many rows of a block are left


@inlined
def none_passes(carrier: Carrier, bucket: int, test: int, values: Array, i: int) -> bool:
    """Whether a test (-1: there is none) is known to rule out all rows, without a look at them."""
    if test < 0 or carrier.indexes[carrier.buckets[bucket, BUCKET_INDEX], BY_RANKS] != 0:
        return False
    simple, op, other = _comparison(carrier, test, values, i)
    if not simple:
        return False
    least = carrier.buckets[bucket, EASIEST]
    most = difficulty(other, carrier.indexes[carrier.buckets[bucket, BUCKET_INDEX], ORDER])
    return least >= most if op in (LESS, GREATER) else least > most


@inlined
def _look_back(rows: Array, to: int, size: int) -> None:
    """Write of each row of a block the last one before it with a greater max-start, if that was not done. Few blocks
    are ever gone through row by row."""
    if rows[to + size - 1, PLACE] & LOWER != LOWER:
        return
    for k in range(size):
        own = rows[to + k, OWN_MOST]
        before = k  # rows up to and with the one before
        while before > 0 and rows[to + before - 1, OWN_MOST] <= own:
            before = rows[to + before - 1, PLACE] & LOWER
        rows[to + k, PLACE] = ((rows[to + k, PLACE] >> 32) << 32) | before


@inlined
def _comparison(carrier: Carrier, test: int, values: Array, i: int) -> tuple[bool, int, int]:
    """Whether a test is a comparison of a register with a value of the event; its operator, and that value."""
    op, left, right = carrier.tests[test, OP], carrier.tests[test, LEFT], carrier.tests[test, RIGHT]
    if right < 0:  # the register; an operator seen from the other side
        left, right = right, left
        op = LESS + GREATER - op if op in (LESS, GREATER) else LESS_EQUAL + GREATER_EQUAL - op
    if not carrier.tests[test, SIMPLE] or left >= 0 or right < 0:
        return False, op, np.int64(0)
    return True, op, np.int64(values[i, right])


@inlined
def no_harder(keys: Array, at: int, size: int, hardest: int, order: int, by_ranks: bool, rank: Array) -> int:
    """How many rows of a block, the first ones, are no harder to satisfy than a value."""
    low, high = np.int64(0), np.int64(size)
    while low < high:
        middle = (low + high) >> 1
        if harder(keys[at + middle, 0], hardest, order, by_ranks, rank):
            high = middle
        else:
            low = middle + 1
    return low


@inlined
def _find_plain(
    carrier: Carrier, bucket: int, end: int, op: int, other: int, least: int, block: int
) -> tuple[int, int]:
    """`find_in_order` where rows are compared by their values themselves. The hardest value is the last one that would
    pass, whether a row has it or not, so that blocks in which no start is later than those found are passed over."""
    rows, keys, buckets, rank = carrier.rows, carrier.keys, carrier.buckets, carrier.rank
    base, room, reach = buckets[bucket, BASE], buckets[bucket, ROOM], buckets[bucket, REACH]
    first = buckets[bucket, ALIVE_ROW]
    order, _ = order_of_bucket(carrier, bucket)
    most, hardest = np.int64(NO_START), other
    if op in (LESS, GREATER):
        if other == (LEAST_WORD if order > 0 else GREATEST_WORD):
            return most, hardest
        hardest -= order
    in_blocks = end_of_blocks(first, end, reach, block)
    while end > in_blocks:  # without branches, which none could foresee
        end -= 1
        at = base + (end & (room - 1))
        own = rows[at, OWN_MOST]
        passes = (own >= least) & (not harder(keys[at, 0], hardest, order, False, rank))
        most = max(most, own if passes else np.int64(NO_START))
    while end > first:
        level, size = block_before(end, reach, block)
        end -= size
        at = base + level * room + (end & (room - 1))
        if rows[at + size - 1, MOST] < max(least, most + 1) or harder(keys[at, 0], hardest, order, False, rank):
            continue
        found = rows[at + no_harder(keys, at, size, hardest, order, False, rank) - 1, MOST]
        if found >= least:
            most = max(most, found)
    return most, hardest


@called
def find_in_order(
    carrier: Carrier, bucket: int, end: int, test: int, hashed: int, values: Array, i: int, dead: int, block: int
) -> tuple[int, int, int]:
    """Of the rows before `end` that pass a test (-1: all do), the greatest max-start (NO_START: there are none), and a
    value than which none of them is harder to satisfy, and all others are.

    A row stands for a run's registers, of which the first `hashed` are the same for all.
    """
    rows, keys, buckets = carrier.rows, carrier.keys, carrier.buckets
    order, by_ranks = order_of_bucket(carrier, bucket)
    base, room, reach = buckets[bucket, BASE], buckets[bucket, ROOM], buckets[bucket, REACH]
    first = buckets[bucket, ALIVE_ROW]
    least = max(dead, np.int64(NO_START + 1))
    most, hardest = np.int64(NO_START), np.int64(0)
    simple, op, other = True, np.int64(EQUAL), np.int64(0)  # the value of rows that have none
    if test >= 0:
        simple, op, other = _comparison(carrier, test, values, i)
    if simple and other == NULL:
        return DONE, most, hardest
    if simple and not by_ranks:
        most, hardest = _find_plain(carrier, bucket, end, op, other, least, block)
        return DONE, most, hardest
    while end > first:
        level, size = block_before(end, reach, block)
        end -= size
        at = base + level * room + (end & (room - 1))
        if level > 0 and rows[at + size - 1, MOST] < least:
            continue
        low, high = np.int64(0), np.int64(size)  # rows before `low` pass
        while low < high:
            middle = (low + high) >> 1
            if simple:
                passes = compare(op, keys[at + middle, 0], other, by_ranks, carrier.rank)
            else:
                tested = holds(carrier, test, values, i, keys, at + middle, np.int64(-hashed))
                if tested == CANNOT_TELL:
                    return INEXACT, most, hardest
                passes = tested == PASSES
            if passes:
                low = middle + 1
            else:
                high = middle
        if low == 0:
            continue
        found = rows[at + low - 1, MOST if level > 0 else OWN_MOST]
        if found >= least:
            value = keys[at + low - 1, 0]
            if most == NO_START or harder(value, hardest, order, by_ranks, carrier.rank):
                hardest = value
            most = max(most, found)
    return DONE, most, hardest


@called
def next_in_order(carrier: Carrier, nodes: Array, n: int, cursor: int, bound: int, block: int) -> tuple[int, int]:
    """The next run of an `ordered` node that is inside the window (-1: there is none), and where to go on; 0 begins."""
    rows, keys, buckets = carrier.rows, carrier.keys, carrier.buckets
    bucket, hardest = nodes[n, A], nodes[n, B]
    if bucket < 0:  # given up; only a snapshot that was made up reaches such a node
        return np.int64(-1), np.int64(0)
    order, by_ranks = order_of_bucket(carrier, bucket)
    base, room, reach = buckets[bucket, BASE], buckets[bucket, ROOM], buckets[bucket, REACH]
    first = buckets[bucket, FIRST_ROW]
    least = max(bound, np.int64(NO_START + 1))
    end = nodes[n, C] - (cursor >> _IN_BLOCK)
    left = cursor & ((1 << _IN_BLOCK) - 1)  # rows of the block before `end`; 0: it has not been looked at
    while end > first:
        level, size = block_before(end, reach, block)
        at = base + level * room + ((end - size) & (room - 1))
        if level == 0:
            end -= 1
            if rows[at, OWN_MOST] >= least and not harder(keys[at, 0], hardest, order, by_ranks, carrier.rank):
                return rows[at, PLACE], (nodes[n, C] - end) << _IN_BLOCK
            continue
        if left == 0 and rows[at + size - 1, MOST] >= least:
            left = no_harder(keys, at, size, hardest, order, by_ranks, carrier.rank)
            _look_back(rows, at, size)
        while left > 0 and rows[at + left - 1, MOST] >= least:
            own, place = rows[at + left - 1, OWN_MOST], rows[at + left - 1, PLACE]
            if own < least:
                left = place & LOWER
                continue
            left -= 1
            if left == 0:
                end -= size
            return rows[base + (place >> 32), PLACE], ((nodes[n, C] - end) << _IN_BLOCK) | left
        end -= size
        left = np.int64(0)
    return np.int64(-1), np.int64(0)


@inlined
def begin_at(nodes: Array, n: int, rows: int) -> int:
    """Where `next_in_order` begins with the first `rows` rows alone."""
    return max(nodes[n, C] - rows, np.int64(0)) << _IN_BLOCK


@inlined
def next_with(
    carrier: Carrier, nodes: Array, counts: Array, n: int, cursor: int, bound: int, block: int
) -> tuple[int, int]:
    """`next_in_order`, but for the runs that have nothing in `counts`, if it is not empty."""
    run, cursor = next_in_order(carrier, nodes, n, cursor, bound, block)
    while len(counts) > 0 and run >= 0 and counts[run] == 0:
        run, cursor = next_in_order(carrier, nodes, n, cursor, bound, block)
    return run, cursor
