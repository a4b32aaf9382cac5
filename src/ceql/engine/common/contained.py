"""Finds the sets of positions that no other set with the same end contains."""

from __future__ import annotations

import numpy as np

from ceql.jit import Array, allocating

WORD = 64  # bits


@allocating
def not_contained(ends: Array, offsets: Array, events: Array, different: int) -> Array:
    """Whether each set is no proper part of another with the same end. Those of one end stand next to each other.

    Set k has the events from `offsets[k]` to `offsets[k + 1]`, numbered from 0 to `different` - 1, each once. Of every
    event there is a list, in bits, of the sets that have it: what all lists of a set's events have in common are the
    sets that contain it.
    """
    kept = np.ones(len(ends), np.bool_)
    place = np.full(different, -1, np.int64)  # among the events of this end
    begin = 0
    while begin < len(ends):
        end = begin + 1
        while end < len(ends) and ends[end] == ends[begin]:
            end += 1
        low, high = offsets[begin], offsets[end]
        seen = 0
        for k in range(low, high):
            if place[events[k]] < 0:
                place[events[k]] = seen
                seen += 1
        words = (end - begin + WORD - 1) // WORD
        holders = np.zeros((seen, words), np.int64)
        for m in range(begin, end):
            for k in range(offsets[m], offsets[m + 1]):
                holders[place[events[k]], (m - begin) // WORD] |= np.int64(1) << ((m - begin) % WORD)
        for m in range(begin, end):
            size = offsets[m + 1] - offsets[m]
            for w in range(words):
                common = np.int64(-1)
                for k in range(offsets[m], offsets[m + 1]):
                    common &= holders[place[events[k]], w]
                    if common == 0:
                        break
                for bit in range(min(WORD, end - begin - w * WORD)):
                    other = begin + w * WORD + bit
                    if common >> bit & 1 and offsets[other + 1] - offsets[other] > size:
                        kept[m] = False
                        break
                if not kept[m]:
                    break
        for k in range(low, high):
            place[events[k]] = -1
        begin = end
    return kept
