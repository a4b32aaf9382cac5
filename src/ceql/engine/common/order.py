"""Later starts first: the order of the matches of one position."""

from __future__ import annotations

from ceql.engine.common.layout import OFFSET, START, START_TIME, Output
from ceql.jit import Array, inlined

FEW = 16  # matches that are sorted by insertion
ORDER, OTHER, TIMES, LENGTHS, POSITIONS_OF, LABELS = range(6)  # the spare rows


@inlined
def is_sorted(match: Array, first: int, last: int) -> bool:
    """Whether the matches from `first` to `last` are in order."""
    k = first + 1
    while k < last and match[START, k] <= match[START, k - 1]:
        k += 1
    return k >= last


@inlined
def sort_by_start(out: Output, first: int, last: int, timed: bool) -> None:
    """Order the matches from `first` to `last` by descending start, stably."""
    count = last - first
    match, spare = out.match, out.spare
    if count <= FEW:
        for k in range(count):
            at = k
            while at > 0 and match[START, spare[ORDER, at - 1]] < match[START, first + k]:
                spare[ORDER, at] = spare[ORDER, at - 1]
                at -= 1
            spare[ORDER, at] = first + k
    else:
        _merge_runs(match, spare, first, count)
    e = 0
    for k in range(count):
        source = spare[ORDER, k]
        spare[OTHER, k] = match[START, source]
        if timed:
            spare[TIMES, k] = match[START_TIME, source]
        spare[LENGTHS, k] = match[OFFSET, source + 1] - match[OFFSET, source]
        for at in range(match[OFFSET, source], match[OFFSET, source + 1]):
            spare[POSITIONS_OF, e] = out.position[at]
            spare[LABELS, e] = out.label[at]
            e += 1
    base = match[OFFSET, first]
    for at in range(e):
        out.position[base + at] = spare[POSITIONS_OF, at]
        out.label[base + at] = spare[LABELS, at]
    for k in range(count):
        match[START, first + k] = spare[OTHER, k]
        if timed:
            match[START_TIME, first + k] = spare[TIMES, k]
        match[OFFSET, first + k + 1] = match[OFFSET, first + k] + spare[LENGTHS, k]


@inlined
def _merge_runs(match: Array, spare: Array, first: int, count: int) -> None:
    """Write the order to the spare rows: merges of longer and longer runs."""
    for k in range(count):
        spare[ORDER, k] = first + k
    width = 1
    while width < count:
        for low in range(0, count, 2 * width):
            middle, high = min(low + width, count), min(low + 2 * width, count)
            a, b = low, middle
            for at in range(low, high):
                if a < middle and (b >= high or match[START, spare[ORDER, a]] >= match[START, spare[ORDER, b]]):
                    spare[OTHER, at] = spare[ORDER, a]
                    a += 1
                else:
                    spare[OTHER, at] = spare[ORDER, b]
                    b += 1
        for k in range(count):
            spare[ORDER, k] = spare[OTHER, k]
        width *= 2
