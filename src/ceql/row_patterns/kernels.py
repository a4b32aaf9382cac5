"""The loops of row patterns: which places can complete a match, the preferred match of each start, and running totals.

Where conditions look at rows and their neighbours alone, two passes find the matches. Backwards, each row gets the set
of places that can read it and go on to the end of a match; sets are numbered as they turn up, so a row is one look-up.
Forwards, a match takes at each row the first place of its list that is in the row's set: the preferred match, without
going back. Runs in an ordered list (`engine.preferred`) would find the same while rows still come, at the price of a
list per row; here the rows are there, and the two passes take 10 ns a row.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ceql.jit import Array, Word, inlined, kernel, record

LOWEST, HIGHEST = range(2)
NOTHING, AT_END = 0, 1  # the sets after the last row of a partition: that of no places is never one of these
FULL, NEW_SET, DONE, UNBOUND, STANDS = range(5)
PAST, NEXT, FIRST, LAST = range(4)
NO_SET = -1
BEGUN, AT, MADE, WRITTEN = range(4)


@record
class Places(NamedTuple):
    """An `automaton.OrderedPattern`, in arrays."""

    guard: Array  # of each place
    begin: Array  # of the list of each place in `after`; one more at the end
    after: Array
    accepts: Array
    target: Array  # whether AFTER MATCH skips to rows of the place
    first: Array  # places that begin a match at the first row of a partition, in order
    other: Array
    empty: Array  # whether a match may be empty, at the first row and elsewhere


@inlined
def _has(bits: Array, number: int, place: int) -> bool:
    return bool((bits[number, place >> 6] >> np.uint64(place & 63)) & np.uint64(1))


@kernel
def make_set(places: Places, holds: Array, bits: Array, after: int, found: Array) -> None:
    """The places that can read a row for which guards hold, if the next row has the set `after`."""
    found[:] = np.uint64(0)
    for place in range(len(places.guard)):
        if not holds[places.guard[place]]:
            continue
        accepts = places.accepts[place]
        goes = accepts == 1 or (accepts == 2 and after == AT_END)
        if not goes and after != AT_END:
            for k in range(places.begin[place], places.begin[place + 1]):
                if _has(bits, after, places.after[k]):
                    goes = True
                    break
        if goes:
            found[place >> 6] |= np.uint64(1) << np.uint64(place & 63)


@kernel
def look_back(symbols: Array, bounds: Array, before: Array, state: Array, sets: Array) -> int:
    """Give each row its set, from the last row to the first. `state` is the partition, and the row to go on with.

    Returns DONE, or NEW_SET where the set before the one at hand is not known: that of the next row is state[2].
    """
    partition = state[0]
    row = state[1]
    while partition >= 0:
        begin, end = bounds[partition], bounds[partition + 1]
        current = AT_END if row == end - 1 else sets[row + 1]
        while row >= begin:
            following = before[current, symbols[row]]
            if following == NO_SET:
                state[0], state[1], state[2] = partition, row, current
                return NEW_SET
            sets[row] = following
            current = following
            row -= 1
        partition -= 1
    return DONE


@inlined
def _chosen(list: Array, begin: Word, end: Word, bits: Array, number: Word) -> Word:
    """The first place of a list that is in a set."""
    for k in range(begin, end):
        if _has(bits, number, list[k]):
            return np.int64(list[k])
    return np.int64(-1)


@kernel
def find(
    places: Places,
    bits: Array,
    sets: Array,
    bounds: Array,
    skip: int,
    state: Array,
    starts: Array,
    lengths: Array,
    read: Array,
) -> int:
    """The preferred match of each start that is tried: its start, its length, and the place that reads each row.

    `state` is the partition, the row, and how much of `starts` and of `read` is written. Returns DONE, FULL if there
    is no room, or UNBOUND or STANDS if AFTER MATCH skips to a row that is not there, or to the match's first.
    """
    while state[BEGUN] < len(bounds) - 1:
        begin, end = bounds[state[BEGUN]], bounds[state[BEGUN] + 1]
        start = max(state[AT], begin)
        while start < end:
            state[AT] = start
            if state[MADE] == len(starts):
                return FULL
            is_first = start == begin
            if is_first:
                place: Word = _chosen(places.first, 0, len(places.first), bits, sets[start])
            else:
                place = _chosen(places.other, 0, len(places.other), bits, sets[start])
            if place < 0:
                if places.empty[0 if is_first else 1]:
                    starts[state[MADE]], lengths[state[MADE]] = start, 0
                    state[MADE] += 1
                start += 1
                continue
            row: Word = start
            to: Word = state[WRITTEN]
            target: Word = np.int64(-1)
            while place >= 0:
                if to == len(read):
                    return FULL
                read[to] = place
                to += 1
                if places.target[place] and (skip == LAST or target < 0):
                    target = row
                row += 1
                if row == end:
                    break
                place = _chosen(places.after, places.begin[place], places.begin[place + 1], bits, sets[row])
            if skip in (FIRST, LAST):
                if target < 0:
                    return UNBOUND
                if target == start:
                    return STANDS
            starts[state[MADE]], lengths[state[MADE]] = start, row - start
            state[MADE] += 1
            state[WRITTEN] = to
            start = row if skip == PAST else start + 1 if skip == NEXT else target
        state[BEGUN] += 1
        state[AT] = end
    return DONE


@kernel
def sums_along(values: Array, known: Array, first: Array, sums: Array, counts: Array) -> None:
    """The sum and the number of known values from the first member of each member's match on."""
    for k in range(len(values)):
        sums[k] = 0
        counts[k] = 0
        if first[k] < k:
            sums[k] = sums[k - 1]
            counts[k] = counts[k - 1]
        if known[k]:
            sums[k] += values[k]
            counts[k] += 1


@kernel
def along(which: int, keys: Array, known: Array, first: Array, at: Array) -> None:
    """Where the least or the greatest key is, from the first member of each member's match on; -1: none is known."""
    for k in range(len(keys)):
        best = at[k - 1] if first[k] < k else -1
        if known[k] and (best < 0 or (keys[k] < keys[best] if which == LOWEST else keys[k] > keys[best])):
            best = k
        at[k] = best
