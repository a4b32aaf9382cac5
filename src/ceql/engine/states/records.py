"""The active states of a partition, between its record in the pool and the arrays that the loop works on.

A record is: number of states, then for each state its id, the length of its union-list and the list's nodes. A
partition that is idle costs its record and nothing else.
"""

from __future__ import annotations

import numpy as np

from ceql.engine.states.layout import ACTIVE, EPOCH, LOADED, POOL, Active, Partitions
from ceql.jit import Array, inlined, kernel


@inlined
def load(regs: Array, parts: Partitions, active: Active, partition: int) -> bool:
    """Load a partition's record; False when the active arrays are too small for it."""
    regs[LOADED] = partition
    regs[ACTIVE] = 0
    slots = active.lists.shape[0]
    free = active.free
    for k in range(slots):
        free[k] = slots - 1 - k
    free[slots] = slots  # height of the stack of free slots
    if parts.epoch[partition] != regs[EPOCH]:
        parts.epoch[partition] = regs[EPOCH]
        parts.offset[partition] = -1
        parts.initial[partition] = 0
        parts.log[partition] = -1
    at = parts.offset[partition]
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
        slot = free[slots] - 1
        free[slots] = slot
        slot = free[slot]
        active.state[k] = pool[at]
        active.place[pool[at]] = k
        active.slot[k] = slot
        active.lengths[slot] = length
        for i in range(length):
            active.lists[slot, i] = pool[at + 2 + i]
        at += 2 + length
    regs[ACTIVE] = count
    return True


@kernel
def store(regs: Array, parts: Partitions, active: Active) -> bool:
    """Write the loaded partition back; False when the pool is full (nothing is lost, the caller makes room)."""
    partition = regs[LOADED]
    if partition < 0:
        return True
    count = regs[ACTIVE]
    if count == 0:
        parts.offset[partition] = -1
        parts.room[partition] = 0
        regs[LOADED] = -1
        return True
    words = np.int64(1)
    for k in range(count):
        words += 2 + active.lengths[active.slot[k]]
    pool = parts.pool
    at = parts.offset[partition]
    if at < 0 or words > parts.room[partition]:
        room = (words + 4) // 4 * 4
        if regs[POOL] + room > len(pool):
            return False
        at = regs[POOL]
        regs[POOL] = at + room
        parts.offset[partition] = at
        parts.room[partition] = room
    pool[at] = count
    at += 1
    for k in range(count):
        slot = active.slot[k]
        length = active.lengths[slot]
        pool[at] = active.state[k]
        pool[at + 1] = length
        for i in range(length):
            pool[at + 2 + i] = active.lists[slot, i]
        at += 2 + length
    regs[LOADED] = -1
    return True
