"""The replay log: the events of each partition, each entry linked to the one before."""

from __future__ import annotations

import numpy as np

from ceql.jit import Array, allocating


@allocating
def read_log(log: Array, last: int, bound: int) -> Array:
    """The entries of a partition's log from the window's start to `last`, in stream order."""
    count = 0
    entry = last
    while entry >= 0 and log[entry, 2] >= bound:
        count += 1
        entry = log[entry, 5]
    entries = np.empty(count, np.int64)
    entry = last
    for k in range(count - 1, -1, -1):
        entries[k] = entry
        entry = log[entry, 5]
    return entries
