"""WITHIN, as both loops apply it to an event.

A start has a key, an end a bound, and a match is inside the window if the key of its start is not below the bound of
its end. Keys never decrease along a substream, which is all that the graphs' invariants need (core-vldb2022, 4.1).
"""

from __future__ import annotations

import numpy as np

from ceql.engine.common.layout import BOUND, COUNTER, FLOOR, HORIZON, NO_KEY, W_COUNTED, W_ENVELOPE, W_GIVEN
from ceql.jit import Array, inlined


@inlined
def apply_window(
    regs: Array, table: Array, partition: int, window: int, width: int, key: int, bound: int
) -> tuple[bool, int, int, int, int]:
    """What the window says of an event with these key and bound, which its partition remembers.

    Returns whether it can be applied (an attribute may have fallen too far back), the key that orders starts, the exact
    key of a start at this event (NO_KEY: none), the bound of an end, and the key below which starts are dead for good.
    """
    exact = key
    dead = bound
    if window == W_COUNTED:
        key = table[partition, COUNTER]
        table[partition, COUNTER] = key + 1
        exact = key
        bound = key - width
        dead = bound
        table[partition, BOUND] = bound
    elif window == W_ENVELOPE:
        dead = np.int64(NO_KEY)
        if bound < table[partition, FLOOR]:
            return False, key, exact, bound, dead
        if key != NO_KEY and key > table[partition, COUNTER]:
            table[partition, COUNTER] = key
            table[partition, BOUND] = bound
        key = table[partition, COUNTER]
    elif bound > regs[HORIZON]:
        regs[HORIZON] = bound
    return True, key, exact, bound, dead


@inlined
def horizon_of(regs: Array, table: Array, partition: int, window: int) -> int:
    """The key below which a partition's starts are dead, now."""
    return regs[HORIZON] if window == W_GIVEN else table[partition, BOUND]


@inlined
def raise_floors(table: Array) -> None:
    """Remember that starts below the bounds were given up: an attribute that falls below cannot find them any more."""
    for p in range(table.shape[0]):
        table[p, FLOOR] = max(table[p, FLOOR], table[p, BOUND])
