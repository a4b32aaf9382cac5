"""Runs in order of the one value that they carry, so that those on one side of a bound are found without a scan.

The runs of an ordered index under one key are a *bucket*: a ring of rows, in order of arrival. Rows have numbers that
never change; row r stands at r modulo the ring's size. Beside the ring stand its *blocks*: of 32, 128, 512, ... rows
next to each other, the same rows sorted, those first that are easiest to satisfy. A block is written when its last row
comes, and never changed. So the rows that pass a test are the first ones of each block, and all rows up to a number are
a scan of a few and O(log w) blocks. A row is written once for each size of blocks.

A step makes one node of all that it finds: the bucket, the number of rows that there were, and the hardest value that
passes. Who comes upon that node later finds the same rows again. In a block each row also knows the greatest max-start
of those up to it, and the last one before it with a greater max-start than its own: whatever the window has left is
passed over in leaps.

Rows that the window has left at the beginning of the ring make room for new ones. A ring that is full becomes a larger
one, to which its blocks are copied.
"""

from __future__ import annotations

import numpy as np

from ceql.engine.common.layout import DONE
from ceql.engine.groups.carried import CANNOT_TELL, PASSES, compare, holds
from ceql.engine.groups.graph import KIND, MAX, NO_START, A, B, C
from ceql.engine.groups.lanes import lanes_of, only_if, plus, put, same
from ceql.engine.groups.layout import (
    BASE,
    BUCKET_INDEX,
    BUCKETS_USED,
    BY_RANKS,
    EASIEST,
    EQUAL,
    FIRST_ROW,
    GREATER,
    GREATER_EQUAL,
    GROW_ROWS,
    INEXACT,
    LEFT,
    LESS,
    LESS_EQUAL,
    MOST,
    NEXT_ROW,
    NULL,
    OP,
    ORDER,
    OWN_MOST,
    PLACE,
    POSITION,
    RIGHT,
    ROOM,
    ROWS,
    ROWS_NEEDED,
    ROWS_USED,
    SIMPLE,
    SORTED_AT,
    Carrier,
    Counting,
)
from ceql.engine.groups.programs import rank_of
from ceql.jit import LOWER, Array, called, inlined, kernel

WIDER = 4  # times a block is as long as the next smaller ones
LEAST_ROOM = 4
NO_VALUE = -1  # of a row that no window has: no number of a value, so that its rank never changes
_LEAST_WORD, _GREATEST_WORD = np.iinfo(np.int64).min, np.iinfo(np.int64).max
_IN_BLOCK = 31  # bits of a cursor: how many rows of a block are left


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
def size_of(room: int, block: int) -> int:
    """The rows that a ring of this size takes, with its blocks."""
    levels = 1
    while 2 * block <= room:
        levels += 1
        block *= WIDER
    return levels * room


@inlined
def _begin(first: int, room: int, block: int) -> int:
    """Where the longest block that has row `first` begins: no block that is looked at begins before."""
    longest = np.int64(1)
    while 2 * block <= room:
        longest = block
        block *= WIDER
    return first & ~(longest - 1)


@inlined
def _block_before(end: int, room: int, block: int) -> tuple[int, int]:
    """The longest block that ends before row `end`: its level and size; (0, 1) if it is the row alone."""
    level, size = 0, 1
    while 2 * block <= room and end & (block - 1) == 0:
        level += 1
        size = block
        block *= WIDER
    return level, size


@inlined
def _end_of_blocks(first: int, end: int, room: int, block: int) -> int:
    """Of the rows from `first` to `end`, where those begin that stand in no block yet."""
    return max(first, end & ~np.int64(block - 1)) if 2 * block <= room else first


@inlined
def new_bucket(carrier: Carrier, regs: Array, index: int, block: int) -> int:
    """An empty bucket, or -1 if there is no room for it."""
    bucket = regs[BUCKETS_USED]
    size = size_of(np.int64(LEAST_ROOM), block)
    if bucket == carrier.buckets.shape[0] or regs[ROWS_USED] + size > carrier.rows.shape[0]:
        regs[ROWS_NEEDED] = size
        return np.int64(-1)
    buckets = carrier.buckets
    buckets[bucket, BASE] = regs[ROWS_USED]
    buckets[bucket, ROOM] = LEAST_ROOM
    buckets[bucket, FIRST_ROW] = 0
    buckets[bucket, NEXT_ROW] = 0
    buckets[bucket, BUCKET_INDEX] = index
    buckets[bucket, EASIEST] = _GREATEST_WORD
    regs[ROWS_USED] += size
    regs[BUCKETS_USED] = bucket + 1
    return bucket


@inlined
def pass_dead(carrier: Carrier, bucket: int, dead: int) -> None:
    """Give up the rows at the beginning that the window has left."""
    rows, buckets = carrier.rows, carrier.buckets
    base, mask = buckets[bucket, BASE], buckets[bucket, ROOM] - 1
    first, end = buckets[bucket, FIRST_ROW], buckets[bucket, NEXT_ROW]
    while first < end and rows[base + (first & mask), OWN_MOST] < dead:
        first += 1
    buckets[bucket, FIRST_ROW] = first


@inlined
def forget(carrier: Carrier, bucket: int) -> None:
    """Give up all rows; no block will have both these and later ones."""
    room = carrier.buckets[bucket, ROOM]
    end = (carrier.buckets[bucket, NEXT_ROW] + room - 1) & ~(room - 1)
    carrier.buckets[bucket, FIRST_ROW] = end
    carrier.buckets[bucket, NEXT_ROW] = end
    carrier.buckets[bucket, EASIEST] = _GREATEST_WORD


@inlined
def make_room(carrier: Carrier, regs: Array, bucket: int, more: int, dead: int, block: int) -> int:
    """Make sure that a bucket has room for so many rows more; what it has stays what it is."""
    rows, buckets = carrier.rows, carrier.buckets
    first, end = buckets[bucket, FIRST_ROW], buckets[bucket, NEXT_ROW]
    base, room = buckets[bucket, BASE], buckets[bucket, ROOM]
    if end + more - first <= room:
        return DONE
    pass_dead(carrier, bucket, dead)
    first = buckets[bucket, FIRST_ROW]
    if end + more - first <= room:
        return DONE
    larger = room
    while end + more - first > larger:
        larger *= 2
    size = size_of(larger, block)
    to = regs[ROWS_USED]
    if to + size > rows.shape[0]:
        regs[ROWS_NEEDED] = size
        return GROW_ROWS
    regs[ROWS_USED] = to + size
    buckets[bucket, BASE] = to
    buckets[bucket, ROOM] = larger
    _move(carrier, bucket, base, room, block)
    return DONE


@inlined
def _move(carrier: Carrier, bucket: int, source: int, before: int, block: int) -> None:
    """Write a ring that has got a larger place, and its blocks, from those at `source`, where it had room for `before`
    rows. Blocks that were there stay sorted."""
    rows, buckets = carrier.rows, carrier.buckets
    order, by_ranks = order_of_bucket(carrier, bucket)
    base, room = buckets[bucket, BASE], buckets[bucket, ROOM]
    first, end = buckets[bucket, FIRST_ROW], buckets[bucket, NEXT_ROW]
    begin = _begin(first, room, block)
    for r in range(begin, end):
        at = base + (r & (room - 1))
        if r < first:
            _no_row(carrier, at, np.int64(-1))
        else:
            _copy_row(carrier, source + (r & (before - 1)), at)
    level, size = 1, block
    while 2 * size <= room:
        for b in range(begin, end - size + 1, size):
            place = b & (room - 1)
            to = base + level * room + place
            if b + size <= first:
                for k in range(size):
                    _no_row(carrier, to + k, np.int64(place + k) << 32)
            elif 2 * size <= before:
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
    base, room, number = buckets[bucket, BASE], buckets[bucket, ROOM], buckets[bucket, NEXT_ROW]
    at = base + (number & (room - 1))
    keys[at, 0] = value
    rows[at, PLACE] = node
    rows[at, OWN_MOST] = most
    rows[at, POSITION] = position
    end = number + 1
    buckets[bucket, NEXT_ROW] = end
    order, by_ranks = order_of_bucket(carrier, bucket)
    level, size = 1, block
    while 2 * size <= room and end & (size - 1) == 0:
        _write_block(carrier, order, by_ranks, base, room, level, end - size, size)
        level += 1
        size *= WIDER
    buckets[bucket, EASIEST] = min(buckets[bucket, EASIEST], _difficulty(value, order))
    if end & (room // 2 - 1) == 0:
        _look_for_easiest(carrier, bucket, order, block)


@inlined
def _difficulty(value: int, order: int) -> int:
    """A number that is the greater the harder a value is to satisfy."""
    return value if order > 0 else ~value


@inlined
def _look_for_easiest(carrier: Carrier, bucket: int, order: int, block: int) -> None:
    """Forget the easiest values of rows that the window has left."""
    keys, buckets = carrier.keys, carrier.buckets
    base, room, first = buckets[bucket, BASE], buckets[bucket, ROOM], buckets[bucket, FIRST_ROW]
    end = buckets[bucket, NEXT_ROW]
    easiest = np.int64(_GREATEST_WORD)
    while end > first:
        level, size = _block_before(end, room, block)
        end -= size
        easiest = min(easiest, _difficulty(keys[base + level * room + (end & (room - 1)), 0], order))
    buckets[bucket, EASIEST] = easiest


@inlined
def none_passes(carrier: Carrier, bucket: int, test: int, values: Array, i: int) -> bool:
    """Whether a test (-1: there is none) is known to rule out all rows, without a look at them."""
    if test < 0 or carrier.indexes[carrier.buckets[bucket, BUCKET_INDEX], BY_RANKS] != 0:
        return False
    simple, op, other = _comparison(carrier, test, values, i)
    if not simple:
        return False
    least = carrier.buckets[bucket, EASIEST]
    most = _difficulty(other, carrier.indexes[carrier.buckets[bucket, BUCKET_INDEX], ORDER])
    return least >= most if op in (LESS, GREATER) else least > most


@inlined
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
def _no_harder(keys: Array, at: int, size: int, hardest: int, order: int, by_ranks: bool, rank: Array) -> int:
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
    base, room, first = buckets[bucket, BASE], buckets[bucket, ROOM], buckets[bucket, FIRST_ROW]
    order, _ = order_of_bucket(carrier, bucket)
    most, hardest = np.int64(NO_START), other
    if op in (LESS, GREATER):
        if other == (_LEAST_WORD if order > 0 else _GREATEST_WORD):
            return most, hardest
        hardest -= order
    in_blocks = _end_of_blocks(first, end, room, block)
    while end > in_blocks:  # without branches, which none could foresee
        end -= 1
        at = base + (end & (room - 1))
        own = rows[at, OWN_MOST]
        passes = (own >= least) & (not harder(keys[at, 0], hardest, order, False, rank))
        most = max(most, own if passes else np.int64(NO_START))
    while end > first:
        level, size = _block_before(end, room, block)
        end -= size
        at = base + level * room + (end & (room - 1))
        if rows[at + size - 1, MOST] < max(least, most + 1) or harder(keys[at, 0], hardest, order, False, rank):
            continue
        found = rows[at + _no_harder(keys, at, size, hardest, order, False, rank) - 1, MOST]
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
    base, room = buckets[bucket, BASE], buckets[bucket, ROOM]
    first = buckets[bucket, FIRST_ROW]
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
        level, size = _block_before(end, room, block)
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
    base, room, first = buckets[bucket, BASE], buckets[bucket, ROOM], buckets[bucket, FIRST_ROW]
    least = max(bound, np.int64(NO_START + 1))
    end = nodes[n, C] - (cursor >> _IN_BLOCK)
    left = cursor & ((1 << _IN_BLOCK) - 1)  # rows of the block before `end`; 0: it has not been looked at
    while end > first:
        level, size = _block_before(end, room, block)
        at = base + level * room + ((end - size) & (room - 1))
        if level == 0:
            end -= 1
            if rows[at, OWN_MOST] >= least and not harder(keys[at, 0], hardest, order, by_ranks, carrier.rank):
                return rows[at, PLACE], (nodes[n, C] - end) << _IN_BLOCK
            continue
        if left == 0 and rows[at + size - 1, MOST] >= least:
            left = _no_harder(keys, at, size, hardest, order, by_ranks, carrier.rank)
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


@kernel
def following_in_order(carrier: Carrier, nodes: Array, n: int, cursor: int, bound: int, block: int) -> tuple[int, int]:
    """`next_in_order`, to be called from Python."""
    return next_in_order(carrier, nodes, n, cursor, bound, block)


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
    base, room, first = buckets[bucket, BASE], buckets[bucket, ROOM], buckets[bucket, FIRST_ROW]
    least = max(counting.bounds[0], np.int64(NO_START + 1))
    end = nodes[n, C]
    in_blocks = _end_of_blocks(first, end, room, block)
    while end > in_blocks:
        end -= 1
        at = base + (end & (room - 1))
        passes = (rows[at, OWN_MOST] >= least) & (not harder(keys[at, 0], hardest, order, by_ranks, carrier.rank))
        total = plus(total, only_if(lanes_of(lanes, max(rows[at, PLACE], np.int64(0))), passes))
    while end > first:
        level, size = _block_before(end, room, block)
        end -= size
        at = base + level * room + (end & (room - 1))
        last = at + size - 1
        if rows[last, MOST] < least:
            continue
        found = _no_harder(keys, at, size, hardest, order, by_ranks, carrier.rank)
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
        room, first, end = buckets[bucket, ROOM], buckets[bucket, FIRST_ROW], buckets[bucket, NEXT_ROW]
        if room == 0:
            continue
        begin = _begin(first, room, block)
        buckets[bucket, NEXT_ROW] = begin
        buckets[bucket, EASIEST] = _GREATEST_WORD
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
