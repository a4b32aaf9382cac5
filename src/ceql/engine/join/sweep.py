"""Giving memory back: a sliding collection of the graph and of the look-up table.

A node lives when an entry of the table reaches it by a path whose max-start is inside the window of the entry's
substream. Index order is kept, so that children stay below their parents.
"""

from __future__ import annotations

import numpy as np

from ceql.engine.jit import allocating
from ceql.engine.join.graph import FACTOR, KIND, MAX, UNION, A, B, C, rank
from ceql.engine.join.layout import (
    FORGOTTEN,
    HORIZON,
    INDEX,
    NODE,
    NODES,
    PARTITION,
    SINCE,
    STAMP,
    Array,
    Partitions,
)
from ceql.engine.layout import W_ENVELOPE, W_GIVEN

UNMARKED = np.iinfo(np.int64).max
DROPPED = -1  # as the index of an entry


@allocating
def sweep(
    nodes: Array, times: Array, slots: Array, regs: Array, parts: Partitions, tight: Array, window: int
) -> None:
    """Drop what is dead; entries of the table that are dead get the index DROPPED."""
    used = regs[NODES]
    horizon_of = np.full(used, UNMARKED, np.int64)
    lost = False
    for s in range(slots.shape[0]):
        if slots[s, INDEX] <= 0:
            continue
        p = slots[s, PARTITION]
        horizon = regs[HORIZON] if window == W_GIVEN else parts.bound[p]
        late = tight[slots[s, INDEX] - 1] and slots[s, STAMP] != parts.seen[p] - 1
        n = slots[s, NODE]
        if slots[s, SINCE] <= max(regs[FORGOTTEN], parts.forgotten[p]) or late:
            slots[s, INDEX] = DROPPED
        elif nodes[n, MAX] < horizon:
            slots[s, INDEX] = DROPPED
            lost = True
        else:
            horizon_of[n] = horizon
    for n in range(used - 1, -1, -1):
        horizon = horizon_of[n]
        if horizon == UNMARKED:
            continue
        kind = nodes[n, KIND]
        if kind >= 0:
            if nodes[n, B] >= 0:
                horizon_of[nodes[n, B]] = horizon
            continue
        horizon_of[nodes[n, A]] = horizon
        if kind == FACTOR:
            if nodes[n, B] >= 0:
                horizon_of[nodes[n, B]] = horizon
            continue
        for side in range(B, C + 1):
            child = nodes[n, side]
            if child >= 0:
                if nodes[child, MAX] >= horizon:
                    horizon_of[child] = horizon
                else:
                    nodes[n, side] = -1
                    lost = True
    if window == W_ENVELOPE and lost:
        for p in range(len(parts.floor)):
            parts.floor[p] = max(parts.floor[p], parts.bound[p])
    moved = horizon_of  # from here on: where a node went
    top = 0
    for n in range(used):
        if horizon_of[n] == UNMARKED:
            continue
        kind = nodes[n, KIND]
        a, b, c = nodes[n, A], nodes[n, B], nodes[n, C]
        if kind < 0:
            a = moved[a]
        if b >= 0:
            b = moved[b]
        if kind <= UNION:
            if c >= 0:
                c = moved[c]
            if b < 0 and c < 0:  # a union of one: the product itself
                moved[n] = a
                continue
            if rank(nodes, b) < rank(nodes, c):
                b, c = c, b
            kind = UNION - 1 - rank(nodes, c)
        nodes[top, MAX] = nodes[n, MAX]
        nodes[top, A], nodes[top, B], nodes[top, C] = a, b, c
        nodes[top, KIND] = kind
        if len(times) > 0:
            times[top] = times[n]
        moved[n] = top
        top += 1
    regs[NODES] = top
    for s in range(slots.shape[0]):
        if slots[s, INDEX] > 0:
            slots[s, NODE] = moved[slots[s, NODE]]
