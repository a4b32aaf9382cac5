"""The loops that turn the labels of matches into lists of positions, one for each variable, and that fold lists."""

from __future__ import annotations

import numpy as np

from ceql.jit import Array, allocating, kernel


@kernel
def take_places(positions: Array, length: int, places: Array, values: Array) -> None:
    """The positions at `places` of every match."""
    top = 0
    if len(places) == 1:
        for at in range(places[0], len(positions), length):
            values[top] = positions[at]
            top += 1
        return
    for begin in range(0, len(positions), length):
        for k in range(len(places)):
            values[top] = positions[begin + places[k]]
            top += 1


@allocating
def count_labels(labels: Array, n_labels: int) -> Array:
    """How often each label occurs."""
    counts = np.zeros(n_labels, np.int64)
    for label in labels:
        counts[label] += 1
    return counts


@kernel
def fill_lists(
    offsets: Array,
    positions: Array,
    labels: Array,
    binds: Array,
    bases: Array,
    values: Array,
    out: Array,
) -> None:
    """For each variable v, its positions from `values[bases[v]]` on and its offsets in `out[v]`.

    A walk over all matched events per variable, without a branch: every position is written, and the cursor moves
    on only past those that are bound. That is 0.7 ns a step; following each label's list of variables takes
    twice as long for five variables, since then cursors live in memory. Unsigned indices spare Numba's
    test for negative ones.
    """
    one = np.uint64(1)
    for v in range(len(binds)):
        mine, row = binds[v], out[v]
        base = np.uint64(bases[v])
        cursor = base
        row[0] = 0
        k = np.uint64(offsets[0])
        for match in range(np.uint64(1), np.uint64(len(offsets))):
            stop = np.uint64(offsets[match])
            while k < stop:
                values[cursor] = positions[k]
                cursor += np.uint64(mine[np.uint32(labels[k])])
                k += one
            row[match] = cursor - base


@kernel
def fold_sums(values: Array, row: Array, offsets: Array, sums: Array) -> None:
    """Of each list, the sum of the values at its rows; `sums` begin at zero."""
    for k in range(len(sums)):
        total = sums[k]
        for at in range(np.uint64(offsets[k]), np.uint64(offsets[k + 1])):
            total += values[row[at]]
        sums[k] = total


@kernel
def fold_best(ranks: Array, row: Array, offsets: Array, sign: int, best: Array) -> None:
    """Of each list that is not empty, the row of least rank, or of greatest where the sign is -1."""
    for k in range(len(best)):
        if offsets[k] == offsets[k + 1]:
            continue
        found = row[offsets[k]]
        least = sign * ranks[found]
        for at in range(np.uint64(offsets[k] + 1), np.uint64(offsets[k + 1])):
            rank = sign * ranks[row[at]]
            if rank < least:
                found, least = row[at], rank
        best[k] = found


@kernel
def mark_positions(positions: Array, low: int, marked: Array) -> None:
    """Mark the positions, of which `low` is the least."""
    for k in range(len(positions)):
        marked[np.uint64(positions[k] - low)] = True


@kernel
def look_up_positions(positions: Array, low: int, numbers: Array, row: Array) -> None:
    """The number of each position."""
    for k in range(len(positions)):
        row[k] = numbers[np.uint64(positions[k] - low)]
