"""The loop that finds the events of a match that a variable is bound to."""

from __future__ import annotations

from ceql.jit import Array, allocating


@allocating
def find_bound(offsets: Array, events: Array, var_offsets: Array, bound: Array, out: Array) -> None:
    """Marks the events that are bound; a variable's list has its events in the order of the match."""
    for match in range(len(offsets) - 1):
        j = var_offsets[match]
        stop = var_offsets[match + 1]
        for k in range(offsets[match], offsets[match + 1]):
            if j < stop and bound[j] == events[k]:
                out[k] = True
                j += 1
