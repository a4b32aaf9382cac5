"""Giving memory back: a sliding collection of the nodes that lists reach, and of the pool.

A run whose window has passed is dropped here too, unless its list has a mark: then it must say when it decides it.
"""

from __future__ import annotations

import numpy as np

from ceql.engine.common.layout import NODES
from ceql.engine.common.window import horizon_of
from ceql.engine.preferred.layout import (
    COUNT,
    JOINED,
    KEY,
    LABEL,
    LINK,
    LIST,
    MARKED,
    NO_NODE,
    NODE,
    PARENT,
    POOL,
    POSITION,
    ROOM,
)
from ceql.jit import Array, allocating


@allocating
def collect(nodes: Array, times: Array, regs: Array, table: Array, pool: Array, target: Array, window: int) -> None:
    """Drop what is dead, and move the lists to the pool `target`."""
    used = regs[NODES]
    moved = np.zeros(used, np.int64)
    end = np.int64(0)
    for p in range(table.shape[0]):
        horizon = horizon_of(regs, table, p, window)
        source = table[p, LIST]
        begin = end
        kept = 0
        for _ in range(table[p, COUNT]):
            if table[p, MARKED] > 0 or pool[source, KEY] >= horizon:
                moved[pool[source, NODE]] = 1
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
            if nodes[n, LABEL] == LINK or nodes[n, LABEL] == JOINED:
                moved[nodes[n, POSITION]] = 1
            if nodes[n, PARENT] != NO_NODE:
                moved[nodes[n, PARENT]] = 1
    count = np.int64(0)
    for n in range(used):
        if moved[n] == 0:
            continue
        label, parent, position = nodes[n, LABEL], nodes[n, PARENT], nodes[n, POSITION]
        nodes[count, LABEL] = label
        nodes[count, PARENT] = moved[parent] if parent != NO_NODE else np.int64(NO_NODE)
        nodes[count, POSITION] = moved[position] if label < 0 else position
        if len(times) > 0:
            times[count] = times[n]
        moved[n] = count
        count += 1
    for at in range(end):
        target[at, NODE] = moved[target[at, NODE]]
    regs[NODES] = count
