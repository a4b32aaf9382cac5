"""Giving memory back: a sliding collection of the graph, the pool of records and the replay log.

What a window has left can take part in no match: a node lives when a partition's list reaches it by a path whose
max-start is inside the window of that partition. The collection keeps index order, so children stay
below their parents, and is amortised constant: it runs when the graph is full, and the graph is
doubled when more than half of it survives.
"""

from __future__ import annotations

import numpy as np

from ceql.engine.common.graph import BOTTOM, KIND, MAX, A, B, C
from ceql.engine.common.layout import NODES, W_ENVELOPE
from ceql.engine.common.window import horizon_of, raise_floors
from ceql.engine.states.layout import EPOCH, INITIAL, LOG, LOGGED, POOL, RECORD, ROOM, SINCE, Partitions
from ceql.jit import Array, allocating, kernel

UNMARKED = np.iinfo(np.int64).max


@allocating
def collect(nodes: Array, times: Array, regs: Array, table: Array, pool: Array, window: int, log: Array) -> None:
    """Drop what is dead. Every record must be in the pool (no partition loaded)."""
    used = regs[NODES]
    reached = np.full(used, UNMARKED, np.int64)  # the horizon of whoever reaches a node
    lost = False
    for p in range(table.shape[0]):
        at = table[p, RECORD]
        horizon = horizon_of(regs, table, p, window)
        if table[p, SINCE] != regs[EPOCH]:
            table[p, SINCE] = regs[EPOCH]
            table[p, RECORD] = -1
            table[p, INITIAL] = 0
            table[p, LOGGED] = -1
            continue
        if at < 0:
            continue
        source = at + 1
        target = at + 1
        alive = 0
        for _ in range(pool[at]):
            state = pool[source]
            length = pool[source + 1]
            keep = length
            while keep > 0 and nodes[pool[source + 1 + keep], MAX] < horizon:
                keep -= 1
            lost = lost or keep < length
            if keep > 0:
                pool[target] = state
                pool[target + 1] = keep
                for k in range(keep):
                    node = pool[source + 2 + k]
                    pool[target + 2 + k] = node
                    reached[node] = horizon
                target += 2 + keep
                alive += 1
            source += 2 + length
        pool[at] = alive
        if alive == 0:
            table[p, RECORD] = -1
            table[p, ROOM] = 0

    for n in range(used - 1, -1, -1):
        horizon = reached[n]
        if horizon == UNMARKED or nodes[n, KIND] == BOTTOM:
            continue
        if nodes[n, KIND] >= 0:
            reached[nodes[n, B]] = horizon
        else:
            reached[nodes[n, A]] = horizon
            if nodes[nodes[n, B], MAX] >= horizon:
                reached[nodes[n, B]] = horizon
            else:
                lost = True

    if window == W_ENVELOPE and lost:
        raise_floors(table)

    moved = np.empty(used, np.int64)
    top = 0
    for n in range(used):
        horizon = reached[n]
        if horizon == UNMARKED:
            continue
        kind = nodes[n, KIND]
        a, b = nodes[n, A], nodes[n, B]
        if kind >= 0:
            if b >= 0:
                b = moved[b]
        else:
            if nodes[n, MAX] >= horizon and reached[b] == UNMARKED:
                moved[n] = moved[a]  # a union whose right side is dead is its left side
                continue
            a, b = moved[a], moved[b]
        nodes[top, MAX] = nodes[n, MAX]
        nodes[top, A] = a
        nodes[top, B] = b
        nodes[top, C] = nodes[n, C]
        nodes[top, KIND] = kind
        if len(times) > 0:
            times[top] = times[n]
        moved[n] = top
        top += 1
    regs[NODES] = top

    for p in range(table.shape[0]):
        at = table[p, RECORD]
        if at < 0:
            table[p, LOGGED] = -1  # no run is under way: no later match can use what came before
            continue
        source = at + 1
        for _ in range(pool[at]):
            for k in range(pool[source + 1]):
                pool[source + 2 + k] = moved[pool[source + 2 + k]]
            source += 2 + pool[source + 1]
    _collect_log(regs, table, window, log)


@allocating
def _collect_log(regs: Array, table: Array, window: int, log: Array) -> None:
    used = regs[LOG]
    if used == 0:
        return
    moved = np.full(used, -1, np.int64)
    for p in range(table.shape[0]):
        horizon = horizon_of(regs, table, p, window)
        entry = table[p, LOGGED]
        while entry >= 0 and log[entry, 2] >= horizon:
            moved[entry] = 0
            entry = log[entry, 5]
    top = 0
    for entry in range(used):
        if moved[entry] < 0:
            continue
        for k in range(5):
            log[top, k] = log[entry, k]
        before = log[entry, 5]
        log[top, 5] = moved[before] if before >= 0 else -1
        moved[entry] = top
        top += 1
    for p in range(table.shape[0]):
        if table[p, LOGGED] >= 0:
            table[p, LOGGED] = moved[table[p, LOGGED]]
    regs[LOG] = top


@kernel
def compact_pool(regs: Array, parts: Partitions, target: Array) -> None:
    """Copy every record into `target`, without the gaps that moved records left."""
    top = 0
    pool = parts.pool
    for p in range(parts.table.shape[0]):
        at = parts.table[p, RECORD]
        if at < 0:
            continue
        words = np.int64(1)
        source = at + 1
        for _ in range(pool[at]):
            words += 2 + pool[source + 1]
            source += 2 + pool[source + 1]
        room = (words + 4) // 4 * 4
        for k in range(words):
            target[top + k] = pool[at + k]
        parts.table[p, RECORD] = top
        parts.table[p, ROOM] = room
        top += room
    regs[POOL] = top
