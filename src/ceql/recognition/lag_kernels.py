"""The loops that tell of each event which events were before it in its substream (`recognition.lags`)."""

from __future__ import annotations

from ceql.jit import Array, kernel


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
    rows: Array,
) -> int:
    """Write the rows of events that may change something; how many they are.

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
            alive[p] = begins[symbols[i]] > 0 or goes[symbols[i]]  # what it begins is there, even if it fails next
            rows[kept] = i
            kept += 1
    return kept
