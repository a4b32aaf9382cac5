"""The loop that finds events of the same time whose order could change the result."""

from __future__ import annotations

import numpy as np

from ceql.jit import Array, kernel


@kernel
def first_tie(
    time: Array, order: Array, partition: Array, symbol: Array, partners: Array, group: Array, seen: Array, last: Array
) -> int:
    """The first event that cannot be swapped with one of its partition at the same time; -1 when there is none.

    `partners` has, for each symbol, the symbols that it can be swapped with, as bits. `group` and `seen` have, for each
    partition, the group of equal times of its last event and the symbols it has had in that group. `last` is the time
    and the order of the last event, and its group.
    """
    for i in range(len(time)):
        if time[i] != last[0] or (len(order) > 0 and order[i] != last[1]) or last[2] == 0:
            last[0] = time[i]
            if len(order) > 0:
                last[1] = order[i]
            last[2] += 1
        p = partition[i]
        s = np.uint64(symbol[i])
        if group[p] == last[2]:
            if s >= np.uint64(64) or (seen[p] & ~partners[s]) != np.uint64(0):
                return i
            seen[p] |= np.uint64(1) << s
        else:
            group[p] = last[2]
            # a symbol beyond the first 64 can be swapped with nothing: all bits stand for it
            seen[p] = np.uint64(1) << s if s < np.uint64(64) else ~np.uint64(0)
    return -1
