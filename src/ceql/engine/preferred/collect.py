"""Giving memory back: a sliding collection of the nodes that lists reach, and of the pool.

A run whose window has passed is dropped here too, unless its list has a mark: then it must say when it decides it. Of a
union one of whose sides has starts out of the window alone, the other side is left.
"""

from __future__ import annotations

import numpy as np

from ceql.engine.common.layout import NODES
from ceql.engine.common.window import horizon_of
from ceql.engine.preferred.layout import (
    COUNT,
    KEY,
    LABEL,
    LATEST,
    LIST,
    MARKED,
    NO_NODE,
    NODE,
    PARENT,
    POOL,
    POSITION,
    ROOM,
    STARTS,
    UNION,
)
from ceql.jit import Array, Word, allocating


@allocating
def collect(nodes: Array, times: Array, regs: Array, table: Array, pool: Array, target: Array, window: int) -> None:
    """Drop what is dead, and move the lists to the pool `target`."""
    used = regs[NODES]
    moved = np.zeros(used, np.int64)  # first, of those that are reached, the partition and 1
    oldest = np.zeros(table.shape[0], np.int64)  # the key of the oldest start that a node may be read for
    end = np.int64(0)
    for p in range(table.shape[0]):
        horizon = horizon_of(regs, table, p, window)
        source = table[p, LIST]
        begin = end
        kept = 0
        oldest[p] = horizon
        for _ in range(table[p, COUNT]):
            if table[p, MARKED] > 0 or _latest(nodes, pool, source) >= horizon:
                moved[pool[source, NODE]] = p + 1
                if pool[source, STARTS] != NO_NODE:
                    moved[pool[source, STARTS]] = p + 1
                if table[p, MARKED] > 0:
                    oldest[p] = min(oldest[p], pool[source, KEY])
                for word in range(pool.shape[1]):
                    target[end, word] = pool[source, word]
                end += 1
                kept += 1
            source += 1
        table[p, LIST] = begin
        table[p, COUNT] = kept
        table[p, ROOM] = kept
    regs[POOL] = end
    for n in range(used - 1, -1, -1):
        if moved[n] != 0:
            if nodes[n, LABEL] <= UNION:
                for side in (POSITION, PARENT):
                    if nodes[nodes[n, side], LATEST] < oldest[moved[n] - 1]:
                        nodes[n, side] = NO_NODE
            if nodes[n, LABEL] < 0 and nodes[n, POSITION] != NO_NODE:
                moved[nodes[n, POSITION]] = moved[n]
            if nodes[n, PARENT] != NO_NODE:
                moved[nodes[n, PARENT]] = moved[n]
    count = np.int64(0)
    for n in range(used):
        if moved[n] == 0:
            continue
        label, parent, position = nodes[n, LABEL], nodes[n, PARENT], nodes[n, POSITION]
        if label <= UNION and (position == NO_NODE or parent == NO_NODE):
            moved[n] = moved[max(position, parent)]
            continue
        for word in range(LATEST, nodes.shape[1]):
            nodes[count, word] = nodes[n, word]
        nodes[count, LABEL] = label
        nodes[count, PARENT] = moved[parent] if parent != NO_NODE else np.int64(NO_NODE)
        nodes[count, POSITION] = moved[position] if label < 0 else position
        if len(times) > 0:
            times[count] = times[n]
        moved[n] = count
        count += 1
    for at in range(end):
        target[at, NODE] = moved[target[at, NODE]]
        if target[at, STARTS] != NO_NODE:
            target[at, STARTS] = moved[target[at, STARTS]]
    regs[NODES] = count


@allocating
def _latest(nodes: Array, pool: Array, entry: Word) -> Word:
    """The key of the latest start of a run."""
    starts = pool[entry, STARTS]
    return pool[entry, KEY] if starts == NO_NODE else nodes[starts, LATEST]
