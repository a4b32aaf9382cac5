"""The loops that tell of each event which events were before it in its substream (`recognition.lags`)."""

from __future__ import annotations

import numpy as np

from ceql.jit import Array, kernel, prefetch

_AHEAD = 8  # events whose rows are asked for before their turn


@kernel
def look_back(partitions: Array, last: Array, kept: int, places: Array, wanted: Array, counts: Array) -> None:
    """Write where the events before each event of a batch are.

    Row p of `last` has the latest events of substream p, the last one first: below `kept` the row of one that is kept,
    from there on a row of the batch, -1 for none. `places[k]` are the rows of the events k + 1 before: rows of the
    batch; then one row that stands for no event; then the kept rows `wanted[k]`, of which there are `counts[k]`.
    """
    rows, depth = len(partitions), len(places)
    for i in range(rows):
        p = partitions[i]
        if p < 0:
            for k in range(depth):
                places[k, i] = rows
            continue
        for k in range(depth):
            row = last[p, k]
            if row >= kept:
                places[k, i] = row - kept
            elif row < 0:
                places[k, i] = rows
            else:
                wanted[k, counts[k]] = row
                counts[k] += 1
                places[k, i] = rows + counts[k]
        for k in range(depth - 1, 0, -1):
            last[p, k] = last[p, k - 1]
        last[p, 0] = kept + i


@kernel
def shift_words(
    partitions: Array,
    values: Array,
    valid: Array,
    table: Array,
    steps: Array,
    taken: Array,
    bits: Array,
    lacking: Array,
) -> None:
    """Write the values so many `steps` before each event, a bit for each that there is, and how many are `lacking`.

    Row p of the table has bits that say which of the latest values of substream p there are, and the values, the last
    one first. `valid` is empty where all values are there.
    """
    depth = table.shape[1] - 1
    mask = (1 << depth) - 1
    for i in range(len(partitions)):
        if i + _AHEAD < len(partitions):
            prefetch(table, partitions[i + _AHEAD])
        p = partitions[i]
        if p < 0:
            for k in range(len(steps)):
                taken[k, i] = 0
                lacking[k] += 1
            continue
        row = table[p]
        known = row[0]
        for k in range(len(steps)):
            taken[k, i] = row[steps[k]]
            bit = (known >> (steps[k] - 1)) & 1
            bits[k, i >> 3] |= bit << (i & 7)
            lacking[k] += 1 - bit
        for k in range(depth, 1, -1):
            row[k] = row[k - 1]
        row[1] = values[i]
        now = not len(valid) or valid[i]
        row[0] = (known << 1 | np.int64(now)) & mask


@kernel
def keep_last(partitions: Array, last: Array, kept: int, rows: Array) -> int:
    """Find the rows of a batch that `last` has, which are to be kept from now on, and let it have their new places."""
    count = 0
    for i in range(len(partitions)):
        p = partitions[i]
        if p < 0:
            continue
        for k in range(last.shape[1]):
            if last[p, k] == kept + i:
                rows[count] = i
                last[p, k] = kept + count
                count += 1
                break
    return count


@kernel
def mark_futile(
    symbols: Array,
    partitions: Array,
    alive: Array,
    following: Array,
    begins: Array,
    goes: Array,
    follows: Array,
    beginning_nothing: Array,
    rows: Array,
) -> int:
    """Write the rows of events that may change something; how many they are. Those at which all that would begin fails
    get the symbol that begins nothing.

    `alive` says which substreams may have partial matches, and is told; `following` is scratch, -1 throughout.
    """
    count = len(symbols)
    for i in range(count - 1, -1, -1):
        p = partitions[i]
        if p < 0:
            continue
        one, two = symbols[i], following[p]
        following[p] = one
        starts = begins[one] == 2 or (begins[one] == 1 and (two < 0 or follows[one, two]))
        rows[i] = 1 if starts else 0
    kept = 0
    for i in range(count):
        p = partitions[i]
        if p < 0:
            continue
        following[p] = -1
        starts = rows[i] == 1
        if starts or alive[p]:
            alive[p] = starts or goes[symbols[i]]
            if not starts:
                symbols[i] = beginning_nothing[symbols[i]]
            rows[kept] = i
            kept += 1
    return kept
