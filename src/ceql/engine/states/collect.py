"""Giving memory back: a sliding collection of the graph, the pool of records and the replay log.

What a window has left can take part in no match: a node lives when a partition's list reaches it by a path whose
max-start is inside the window of that partition. The collection keeps index order, so children stay
below their parents, and is amortised constant: it runs when the graph is full, and the graph is
doubled when more than half of it survives.
"""

from __future__ import annotations

import numpy as np

from ceql.engine.common.graph import KIND, MAX, NODE_WORDS, PAIR, A, B
from ceql.engine.common.layout import BASE, BOUND, EVENT, FROM, NEVER, NODES, UNTIL, W_COUNTED, W_ENVELOPE, Events
from ceql.engine.common.window import horizon_of, raise_floors
from ceql.engine.groups.collect import UNMARKED, move, reach_down
from ceql.engine.states.layout import EPOCH, LOG, LOGGED, POOL, RECORD, ROOM, SINCE, Partitions, Store
from ceql.engine.states.records import empty
from ceql.jit import Array, allocating, inlined, kernel


@allocating
def collect(store: Store, window: int) -> None:
    """Drop what is dead. Every record must be in the pool (no partition loaded)."""
    regs, table, pool = store.regs, store.parts.table, store.parts.pool
    reached = np.full(regs[NODES], UNMARKED, np.int64)  # the horizon of whoever reaches a node
    lost = _thin_out(store, window, reached)
    lost = reach_down(store.nodes, reached) or lost
    if window == W_ENVELOPE and lost:
        raise_floors(table)
    nothing = np.zeros(0, np.int64)
    move(store.nodes, store.times, nothing.reshape(0, 3), regs, nothing, reached)
    moved = reached  # from here on: where a node went
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
    _collect_log(regs, table, window, store.log)


@allocating
def sweep(store: Store, events: Events, window: int) -> None:
    """Where events come by key: drop the young nodes that no substream holds, and move the others to their beginning.
    Every record is in the pool, and all roots are read."""
    nodes, times, regs, table, pool = store.nodes, store.times, store.regs, store.parts.table, store.parts.pool
    base = regs[BASE] - 1
    young = regs[NODES] - base
    reached = np.full(young, UNMARKED, np.int64)
    for renumber in range(2):  # first the nodes that records hold are entered, and then where they went
        before = np.int32(-1)
        for i in range(regs[FROM], regs[EVENT]):
            p = events.partition[i]
            if p == before or table[p, RECORD] < 0:
                continue
            before = p
            until = table[p, BOUND] if window == W_COUNTED and regs[UNTIL] != NEVER else regs[UNTIL]
            source = table[p, RECORD] + 1
            for _ in range(pool[source - 1]):
                for k in range(source + 2, source + 2 + pool[source + 1]):
                    n = pool[k] - base
                    if n >= 0 and renumber:
                        pool[k] = reached[n]
                    elif n >= 0:
                        reached[n] = until
                source += 2 + pool[source + 1]
        if not renumber:
            _slide(nodes, times, regs, base, reached)


@inlined
def _slide(nodes: Array, times: Array, regs: Array, base: int, reached: Array) -> None:
    """Move the young nodes that are below those reached to their beginning; `reached` then says where they went."""
    for n in range(len(reached) - 1, -1, -1):
        until = reached[n]
        if until == UNMARKED:
            continue
        at = base + n
        right = nodes[at, B]
        if right >= base and nodes[right, MAX] >= until:
            reached[right - base] = until
        if nodes[at, KIND] == PAIR:
            if nodes[right, MAX] < until:
                nodes[at, B] = -1
            if nodes[at, A] >= base:
                reached[nodes[at, A] - base] = until
    top = base
    for n in range(len(reached)):
        if reached[n] == UNMARKED:
            continue
        at = base + n
        pair = nodes[at, KIND] == PAIR
        if pair and nodes[at, A] >= base:
            nodes[at, A] = reached[nodes[at, A] - base]
        if nodes[at, B] >= base:
            nodes[at, B] = reached[nodes[at, B] - base]
        if pair and nodes[at, B] < 0:  # a union of one: the one itself
            reached[n] = nodes[at, A]
            continue
        for k in range(NODE_WORDS):
            nodes[top, k] = nodes[at, k]
        if len(times) > 0:
            times[top] = times[at]
        reached[n] = top
        top += 1
    regs[NODES] = top


@inlined
def _thin_out(store: Store, window: int, reached: Array) -> bool:
    """Leave out of the records what the window has left, and enter what their nodes are reached with; whether anything
    was left out."""
    nodes, regs, table, pool = store.nodes, store.regs, store.parts.table, store.parts.pool
    lost = False
    for p in range(table.shape[0]):
        at = table[p, RECORD]
        horizon = horizon_of(regs, table, p, window)
        if table[p, SINCE] != regs[EPOCH]:
            empty(table, p, regs[EPOCH])
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
    return lost


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
