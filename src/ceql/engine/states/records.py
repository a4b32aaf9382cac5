"""The active states of a partition, between its record in the pool and the arrays that the loop works on.

A record is: number of states, then for each state its id, the length of its union-list and the list's nodes. A
partition that is idle costs its record and nothing else.
"""

from __future__ import annotations

import numpy as np

from ceql.engine.states.layout import (
    ACTIVE,
    EPOCH,
    FREE,
    INITIAL,
    LENGTH,
    LOADED,
    LOGGED,
    POOL,
    RECORD,
    ROOM,
    SINCE,
    SLOT,
    STATE,
    Active,
    Partitions,
)
from ceql.jit import Array, inlined, kernel


@inlined
def free_all(active: Active) -> None:
    """Put every slot on the stack of free ones."""
    slots = active.lists.shape[0]
    for k in range(slots):
        active.table[FREE, k] = slots - 1 - k
    active.table[FREE, slots] = slots  # the height of the stack


@inlined
def empty(table: Array, partition: int, epoch: int) -> None:
    """Let a partition begin anew."""
    table[partition, SINCE] = epoch
    table[partition, RECORD] = -1
    table[partition, INITIAL] = 0
    table[partition, LOGGED] = -1


@inlined
def load(regs: Array, parts: Partitions, active: Active, partition: int) -> bool:
    """Load a partition's record; False when the active arrays are too small for it."""
    regs[LOADED] = partition
    regs[ACTIVE] = 0
    slots = active.lists.shape[0]
    free_all(active)
    if parts.table[partition, SINCE] != regs[EPOCH]:
        empty(parts.table, partition, regs[EPOCH])
    at = parts.table[partition, RECORD]
    if at < 0:
        return True
    pool = parts.pool
    count = pool[at]
    if count > slots:
        return False
    at += 1
    for k in range(count):
        length = pool[at + 1]
        if length > active.lists.shape[1]:
            return False
        slot = active.table[FREE, slots] - 1
        active.table[FREE, slots] = slot
        slot = active.table[FREE, slot]
        active.table[STATE, k] = pool[at]
        active.place[pool[at]] = k
        active.table[SLOT, k] = slot
        active.table[LENGTH, slot] = length
        for i in range(length):
            active.lists[slot, i] = pool[at + 2 + i]
        at += 2 + length
    regs[ACTIVE] = count
    return True


@kernel
def put_back(regs: Array, parts: Partitions, active: Active) -> bool:
    """Write the loaded partition back; False when the pool is full (nothing is lost, the caller makes room)."""
    partition = regs[LOADED]
    if partition < 0:
        return True
    count = regs[ACTIVE]
    if count == 0:
        parts.table[partition, RECORD] = -1
        parts.table[partition, ROOM] = 0
        regs[LOADED] = -1
        return True
    words = np.int64(1)
    for k in range(count):
        words += 2 + active.table[LENGTH, active.table[SLOT, k]]
    pool = parts.pool
    at = parts.table[partition, RECORD]
    if at < 0 or words > parts.table[partition, ROOM]:
        room = (words + 4) // 4 * 4
        if regs[POOL] + room > len(pool):
            return False
        at = regs[POOL]
        regs[POOL] = at + room
        parts.table[partition, RECORD] = at
        parts.table[partition, ROOM] = room
    pool[at] = count
    at += 1
    for k in range(count):
        slot = active.table[SLOT, k]
        length = active.table[LENGTH, slot]
        pool[at] = active.table[STATE, k]
        pool[at + 1] = length
        for i in range(length):
            pool[at + 2 + i] = active.lists[slot, i]
        at += 2 + length
    regs[LOADED] = -1
    return True
