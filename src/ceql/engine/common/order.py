"""Later starts first: the order of the matches of one position."""

from __future__ import annotations

from ceql.engine.common.layout import OFFSET, START, START_TIME, Output
from ceql.jit import Array, inlined, kernel


@inlined
def is_sorted(match: Array, first: int, last: int) -> bool:
    """Whether the matches from `first` to `last` are in order."""
    k = first + 1
    while k < last and match[START, k] <= match[START, k - 1]:
        k += 1
    return k >= last


@inlined
def sort_by_start(out: Output, first: int, last: int, timed: bool) -> None:
    """Order the matches from `first` to `last` by descending start, stably: merges of longer and longer runs."""
    if is_sorted(out.match, first, last):
        return
    count = last - first
    match, spare = out.match, out.spare
    for k in range(count):
        spare[0, k] = first + k
    width = 1
    while width < count:
        for low in range(0, count, 2 * width):
            middle, high = min(low + width, count), min(low + 2 * width, count)
            a, b = low, middle
            for at in range(low, high):
                if a < middle and (b >= high or match[START, spare[0, a]] >= match[START, spare[0, b]]):
                    spare[1, at] = spare[0, a]
                    a += 1
                else:
                    spare[1, at] = spare[0, b]
                    b += 1
        for k in range(count):
            spare[0, k] = spare[1, k]
        width *= 2
    base = match[OFFSET, first]
    e = 0
    for k in range(count):
        for at in range(match[OFFSET, spare[0, k]], match[OFFSET, spare[0, k] + 1]):
            spare[2, e] = out.position[at]
            spare[3, e] = out.label[at]
            e += 1
    for at in range(e):
        out.position[base + at] = spare[2, at]
        out.label[base + at] = spare[3, at]
    for k in range(count):
        spare[1, k] = match[OFFSET, spare[0, k] + 1] - match[OFFSET, spare[0, k]]
    for k in range(count):
        match[OFFSET, first + k + 1] = match[OFFSET, first + k] + spare[1, k]
    for row in range(START, START_TIME + 1 if timed else START + 1, START_TIME - START):
        for k in range(count):
            spare[1, k] = match[row, spare[0, k]]
        for k in range(count):
            match[row, first + k] = spare[1, k]


@kernel
def sort_matches(out: Output, first: int, last: int, timed: bool) -> None:
    """`sort_by_start`, to be called from Python."""
    sort_by_start(out, first, last, timed)
