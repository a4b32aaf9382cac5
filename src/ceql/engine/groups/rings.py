"""Runs in order of the one value that they carry: how they are kept.

The runs of an ordered index under one key are a *bucket*: a ring of rows, in order of arrival. Rows have numbers that
never change; row r stands at r modulo the ring's size. Beside the ring stand its *blocks*: of 32, 128, 512, ... rows
next to each other, the same rows sorted, those first that are easiest to satisfy. A block is written when its last row
comes, and never changed. A row is written once for each size of blocks. In a block each row also knows the greatest
max-start of those up to it.

Rows that the window has left at the beginning of the ring make room for new ones. A ring that is full becomes a larger
one, to which its blocks are copied.
"""

from __future__ import annotations

import numpy as np

from ceql.engine.common.graph import KIND, MAX, NO_START, A
from ceql.engine.common.layout import DONE, EVENT, NOTED, READ_FIRST
from ceql.engine.groups.layout import (
    ALIVE_ROW,
    BASE,
    BUCKET_INDEX,
    BUCKETS_USED,
    BY_RANKS,
    EASIEST,
    FIRST_ROW,
    FREE_BUCKET,
    GROW_ROWS,
    LEFT_BUCKET,
    LOOK_AT,
    MOST,
    NEXT_BUCKET,
    NEXT_ROW,
    ORDER,
    OWN_MOST,
    PLACE,
    POSITION,
    REACH,
    READ_ROW,
    ROOM,
    ROWS,
    ROWS_NEEDED,
    ROWS_USED,
    SORTED_AT,
    Carrier,
    Turn,
)
from ceql.engine.groups.programs import rank_of
from ceql.jit import LOWER, Array, Word, called, inlined, kernel

WIDER = 4  # times a block is as long as the next smaller ones
LEAST_ROOM = 4
LEAST_LOOK = 8  # rows after which the easiest one is looked for again, at the least
LEAST_STRETCH = 4096  # events that are worth a call
NO_VALUE = -1  # of a row that no window has: no number of a value, so that its rank never changes
LEAST_WORD, GREATEST_WORD = np.iinfo(np.int64).min, np.iinfo(np.int64).max


@inlined
def order_of_bucket(carrier: Carrier, bucket: int) -> tuple[int, bool]:
    """Whether small (1) or great values (-1) are easy to satisfy, and whether they are compared by rank."""
    index = carrier.buckets[bucket, BUCKET_INDEX]
    return carrier.indexes[index, ORDER], carrier.indexes[index, BY_RANKS] != 0


@inlined
def harder(a: int, b: int, order: int, by_ranks: bool, rank: Array) -> bool:
    """Whether value a is harder to satisfy than value b."""
    if by_ranks:
        a, b = rank_of(a, rank), rank_of(b, rank)
    return a > b if order > 0 else a < b


@kernel
def size_of(room: int, reach: int, block: int) -> int:
    """The rows that a ring of this size takes, with its blocks."""
    levels = 1
    while 2 * block <= reach:
        levels += 1
        block *= WIDER
    return levels * room


@inlined
def _begin(first: int, reach: int, block: int) -> int:
    """Where the longest block that has row `first` begins: no block that is looked at begins before."""
    longest = np.int64(1)
    while 2 * block <= reach:
        longest = block
        block *= WIDER
    return first & ~(longest - 1)


@inlined
def block_before(end: int, reach: int, block: int) -> tuple[int, int]:
    """The longest block that ends before row `end`: its level and size; (0, 1) if it is the row alone."""
    level, size = 0, 1
    while 2 * block <= reach and end & (block - 1) == 0:
        level += 1
        size = block
        block *= WIDER
    return level, size


@inlined
def end_of_blocks(first: int, end: int, reach: int, block: int) -> int:
    """Of the rows from `first` to `end`, where those begin that stand in no block yet; all, if hardly any others do."""
    begin: Word = max(first, end & ~np.int64(block - 1)) if 2 * block <= reach else first
    return begin if begin - first > block // 2 else first


@inlined
def new_bucket(carrier: Carrier, regs: Array, index: int, block: int) -> int:
    """An empty bucket, or -1 if there is no room for it."""
    bucket = regs[FREE_BUCKET]
    if bucket >= 0:
        regs[FREE_BUCKET] = carrier.buckets[bucket, NEXT_BUCKET]
        carrier.buckets[bucket, BUCKET_INDEX] = index
        return bucket
    bucket = regs[BUCKETS_USED]
    size = size_of(np.int64(LEAST_ROOM), np.int64(LEAST_ROOM), block)
    if bucket == carrier.buckets.shape[0] or regs[ROWS_USED] + size > carrier.rows.shape[0]:
        regs[ROWS_NEEDED] = size
        return np.int64(-1)
    buckets = carrier.buckets
    buckets[bucket, BASE] = regs[ROWS_USED]
    buckets[bucket, ROOM] = LEAST_ROOM
    buckets[bucket, REACH] = LEAST_ROOM
    buckets[bucket, FIRST_ROW] = 0
    buckets[bucket, NEXT_ROW] = 0
    buckets[bucket, BUCKET_INDEX] = index
    buckets[bucket, ALIVE_ROW] = 0
    buckets[bucket, READ_ROW] = 0
    buckets[bucket, EASIEST] = GREATEST_WORD
    buckets[bucket, LOOK_AT] = LEAST_LOOK
    regs[ROWS_USED] += size
    regs[BUCKETS_USED] = bucket + 1
    return bucket


@inlined
def pass_dead(carrier: Carrier, bucket: int, column: int, dead: int) -> None:
    """Pass over the rows at the beginning that a window has left: ALIVE_ROW for events to come, READ_ROW for positions
    that are counted, FIRST_ROW for all."""
    rows, buckets = carrier.rows, carrier.buckets
    base, mask = buckets[bucket, BASE], buckets[bucket, ROOM] - 1
    first, end = max(buckets[bucket, column], buckets[bucket, FIRST_ROW]), buckets[bucket, NEXT_ROW]
    while first < end and rows[base + (first & mask), OWN_MOST] < dead:
        first += 1
    buckets[bucket, column] = first


@inlined
def forget(carrier: Carrier, bucket: int) -> None:
    """Give up all rows. The next row begins a new block, so that no block mixes old and new ones."""
    room = carrier.buckets[bucket, ROOM]
    end = (carrier.buckets[bucket, NEXT_ROW] + room - 1) & ~(room - 1)
    carrier.buckets[bucket, FIRST_ROW] = end
    carrier.buckets[bucket, NEXT_ROW] = end
    carrier.buckets[bucket, ALIVE_ROW] = end
    carrier.buckets[bucket, READ_ROW] = end
    carrier.buckets[bucket, EASIEST] = GREATEST_WORD
    carrier.buckets[bucket, LOOK_AT] = end + LEAST_LOOK


@inlined
def leave(carrier: Carrier, regs: Array, bucket: int) -> None:
    """Leave a bucket to the positions that are still to be read."""
    carrier.buckets[bucket, NEXT_BUCKET] = regs[LEFT_BUCKET]
    regs[LEFT_BUCKET] = bucket


@inlined
def free_left(carrier: Carrier, regs: Array) -> None:
    """Empty the buckets that were left; all positions have been read."""
    while regs[LEFT_BUCKET] >= 0:
        bucket = regs[LEFT_BUCKET]
        forget(carrier, bucket)
        regs[LEFT_BUCKET] = carrier.buckets[bucket, NEXT_BUCKET]
        carrier.buckets[bucket, NEXT_BUCKET] = regs[FREE_BUCKET]
        regs[FREE_BUCKET] = bucket


@kernel
def free_buckets(carrier: Carrier, regs: Array) -> None:
    """`free_left`, to be called from Python."""
    free_left(carrier, regs)


@inlined
def make_room(carrier: Carrier, regs: Array, bucket: int, more: int, turn: Turn, block: int) -> int:
    """Make sure that a bucket has room for so many rows more; what it has stays what it is.

    A ring that would grow for what is still to be read is a reason to read that first, unless this is hardly more than
    was there at the last time: rings stay as small as the window, and near.
    """
    buckets = carrier.buckets
    base, room, reach = buckets[bucket, BASE], buckets[bucket, ROOM], buckets[bucket, REACH]
    end = buckets[bucket, NEXT_ROW] + more
    first = buckets[bucket, FIRST_ROW]
    if end - first <= room and end - max(first, buckets[bucket, ALIVE_ROW]) <= reach:
        return DONE
    pass_dead(carrier, bucket, FIRST_ROW, turn.gone)
    pass_dead(carrier, bucket, ALIVE_ROW, turn.dead)
    first, alive = buckets[bucket, FIRST_ROW], buckets[bucket, ALIVE_ROW]
    if end - first <= room and end - alive <= reach:
        return DONE
    if end - first > room and regs[NOTED] > 0 and turn.i - regs[EVENT] >= LEAST_STRETCH:
        return READ_FIRST
    wider = reach
    while end - alive > wider:
        wider *= 2
    larger = room
    while end - _begin(first, wider, block) > larger:
        larger *= 2
    size = size_of(larger, wider, block)
    to = regs[ROWS_USED]
    if to + size > carrier.rows.shape[0]:
        regs[ROWS_NEEDED] = size
        return GROW_ROWS
    regs[ROWS_USED] = to + size
    buckets[bucket, BASE] = to
    buckets[bucket, ROOM] = larger
    buckets[bucket, REACH] = wider
    _move(carrier, bucket, base, room, reach, block)
    return DONE


@called
def _move(carrier: Carrier, bucket: int, source: int, before: int, reached: int, block: int) -> None:
    """Write a ring that has got a larger place, and its blocks, from those at `source`, where it had room for `before`
    rows and blocks for `reached`. Blocks that were there stay sorted."""
    rows, buckets = carrier.rows, carrier.buckets
    order, by_ranks = order_of_bucket(carrier, bucket)
    base, room, reach = buckets[bucket, BASE], buckets[bucket, ROOM], buckets[bucket, REACH]
    first, end = buckets[bucket, FIRST_ROW], buckets[bucket, NEXT_ROW]
    begin = _begin(first, reach, block)
    for r in range(begin, end):
        at = base + (r & (room - 1))
        if r < first:
            _no_row(carrier, at, np.int64(-1))
        else:
            _copy_row(carrier, source + (r & (before - 1)), at)
    level, size = 1, block
    while 2 * size <= reach:
        for b in range(begin, end - size + 1, size):
            place = b & (room - 1)
            to = base + level * room + place
            if b + size <= first:
                for k in range(size):
                    _no_row(carrier, to + k, np.int64(place + k) << 32)
            elif 2 * size <= reached:
                old = source + level * before + (b & (before - 1))
                for k in range(size):
                    _copy_row(carrier, old + k, to + k)
                    of = rows[to + k, PLACE]
                    rows[to + k, PLACE] = ((place + ((of >> 32) & (size - 1))) << 32) | (of & LOWER)
            else:
                _write_block(carrier, order, by_ranks, base, room, level, b, size)
        level += 1
        size *= WIDER


@inlined
def _no_row(carrier: Carrier, at: int, place: int) -> None:
    """A row that no window has."""
    carrier.keys[at, 0] = NO_VALUE
    carrier.rows[at, PLACE] = place
    carrier.rows[at, OWN_MOST] = NO_START
    carrier.rows[at, MOST] = NO_START


@inlined
def _copy_row(carrier: Carrier, source: int, to: int) -> None:
    rows = carrier.rows
    carrier.keys[to, 0] = carrier.keys[source, 0]
    for k in range(ROWS):
        rows[to, k] = rows[source, k]


@inlined
def append(carrier: Carrier, bucket: int, value: int, node: int, most: int, position: int, block: int) -> None:
    """One row more; there is room for it. Blocks that are whole now are written."""
    rows, keys, buckets = carrier.rows, carrier.keys, carrier.buckets
    base, room, reach = buckets[bucket, BASE], buckets[bucket, ROOM], buckets[bucket, REACH]
    number = buckets[bucket, NEXT_ROW]
    at = base + (number & (room - 1))
    keys[at, 0] = value
    rows[at, PLACE] = node
    rows[at, OWN_MOST] = most
    rows[at, POSITION] = position
    end = number + 1
    buckets[bucket, NEXT_ROW] = end
    order, by_ranks = order_of_bucket(carrier, bucket)
    level, size = 1, block
    while 2 * size <= reach and end & (size - 1) == 0:
        _write_block(carrier, order, by_ranks, base, room, level, end - size, size)
        level += 1
        size *= WIDER
    buckets[bucket, EASIEST] = min(buckets[bucket, EASIEST], difficulty(value, order))
    if end >= buckets[bucket, LOOK_AT]:
        _look_for_easiest(carrier, bucket, order, block)


@inlined
def difficulty(value: int, order: int) -> int:
    """A number that is the greater the harder a value is to satisfy."""
    return value if order > 0 else ~value


@inlined
def _look_for_easiest(carrier: Carrier, bucket: int, order: int, block: int) -> None:
    """Forget the easiest values of rows that the window has left."""
    keys, buckets = carrier.keys, carrier.buckets
    base, room, reach = buckets[bucket, BASE], buckets[bucket, ROOM], buckets[bucket, REACH]
    end = buckets[bucket, NEXT_ROW]
    first = max(buckets[bucket, ALIVE_ROW], buckets[bucket, FIRST_ROW])
    buckets[bucket, LOOK_AT] = end + max(end - first, LEAST_LOOK)
    easiest = np.int64(GREATEST_WORD)
    while end > first:
        level, size = block_before(end, reach, block)
        end -= size
        easiest = min(easiest, difficulty(keys[base + level * room + (end & (room - 1)), 0], order))
    buckets[bucket, EASIEST] = easiest


@called
def _write_block(
    carrier: Carrier, order: int, by_ranks: bool, base: int, room: int, level: int, begin: int, size: int
) -> None:
    """Write the block that begins with row `begin`; the smaller ones are there."""
    rows = carrier.rows
    place = begin & (room - 1)
    to = base + level * room + place
    if level == 1:
        _sort(carrier, order, by_ranks, base + place, to, size, base)
    else:
        _merge(carrier, order, by_ranks, to - room, to, size)
    most = np.int64(NO_START)
    for at in range(to, to + size):
        most = max(most, rows[at, OWN_MOST])
        rows[at, MOST] = most
    rows[to + size - 1, PLACE] |= LOWER


@inlined
def _sort(carrier: Carrier, order: int, by_ranks: bool, source: int, to: int, size: int, base: int) -> None:
    """Write a block of rows next to each other: each goes to where as many are easier as before it. Counting them
    takes no branch; those that are as easy go to the places after it."""
    rows, keys, scratch = carrier.rows, carrier.keys, carrier.scratch
    for k in range(size):
        value = keys[source + k, 0]
        hard = rank_of(value, carrier.rank) if by_ranks else value
        scratch[SORTED_AT + k] = hard if order > 0 else ~hard
    taken = np.int64(0)
    for k in range(size):
        hard = scratch[SORTED_AT + k]
        easier = np.int64(0)
        for other in range(size):
            easier += np.int64(scratch[SORTED_AT + other] < hard)
        while taken >> easier & 1:
            easier += 1
        taken |= np.int64(1) << easier
        keys[to + easier, 0] = keys[source + k, 0]
        rows[to + easier, PLACE] = np.int64(source + k - base) << 32
        rows[to + easier, OWN_MOST] = rows[source + k, OWN_MOST]


@inlined
def _merge(carrier: Carrier, order: int, by_ranks: bool, source: int, to: int, size: int) -> None:
    """Write a block from the four smaller ones that it has, which stand next to each other."""
    rows, keys, rank = carrier.rows, carrier.keys, carrier.rank
    part = size // WIDER
    a, b, c, d = source, source + part, source + 2 * part, source + 3 * part
    a_end, b_end, c_end, d_end = b, c, d, source + size
    for at in range(to, to + size):
        left = a
        if a == a_end or (b < b_end and harder(keys[a, 0], keys[b, 0], order, by_ranks, rank)):
            left = b
        right = c
        if c == c_end or (d < d_end and harder(keys[c, 0], keys[d, 0], order, by_ranks, rank)):
            right = d
        found = left
        if left == b_end or (right < d_end and harder(keys[left, 0], keys[right, 0], order, by_ranks, rank)):
            found = right
        if found < a_end:
            a += 1
        elif found < b_end:
            b += 1
        elif found < c_end:
            c += 1
        else:
            d += 1
        keys[at, 0] = keys[found, 0]
        rows[at, PLACE] = rows[found, PLACE] & ~LOWER
        rows[at, OWN_MOST] = rows[found, OWN_MOST]


@inlined
def _event_of(nodes: Array, run: int) -> int:
    """A product of the event that a run, or several that are one row, ends with."""
    while nodes[run, KIND] < 0:
        run = nodes[run, A]
    return run


@kernel
def restore_rows(carrier: Carrier, nodes: Array, kept: Array, block: int) -> None:
    """Write rings and blocks of buckets whose rows, one bucket after the other, are `kept`: values and nodes."""
    buckets = carrier.buckets
    at = 0
    for bucket in range(len(buckets)):
        first, end = buckets[bucket, FIRST_ROW], buckets[bucket, NEXT_ROW]
        if buckets[bucket, ROOM] == 0:
            continue
        begin = _begin(first, buckets[bucket, REACH], block)
        buckets[bucket, NEXT_ROW] = begin
        buckets[bucket, ALIVE_ROW] = first
        buckets[bucket, READ_ROW] = first
        buckets[bucket, EASIEST] = GREATEST_WORD
        buckets[bucket, LOOK_AT] = end
        position = np.int64(0)
        for r in range(begin, end):
            value, node, most = np.int64(NO_VALUE), np.int64(-1), np.int64(NO_START)
            if r >= first:
                value, node = kept[at, 0], kept[at, 1]
                at += 1
                if node >= 0:
                    most = nodes[node, MAX]
                    position = nodes[_event_of(nodes, node), A]
            append(carrier, np.int64(bucket), value, node, most, position, block)
