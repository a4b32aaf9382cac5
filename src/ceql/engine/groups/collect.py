"""Giving memory back: a sliding collection of the graph and of the look-up table.

A node lives when an entry of the table reaches it by a path whose max-start is inside the window of the entry's
substream. Index order is kept, so that children stay below their parents.
"""

from __future__ import annotations

import numpy as np

from ceql.engine.common.graph import BETWEEN, FACTOR, KIND, LISTED, MAX, ORDERED, OTHERS, UNION, VALUE, A, B, C
from ceql.engine.common.layout import NODES, W_ENVELOPE
from ceql.engine.common.window import horizon_of, raise_floors
from ceql.engine.groups.graph import listed, rank
from ceql.engine.groups.layout import (
    BASE,
    BUCKETS,
    BUCKETS_USED,
    COLUMNS,
    ENTRIES,
    FIRST_ROW,
    FORGOTTEN,
    FORGOTTEN_HERE,
    INDEX,
    NEXT_ROW,
    NODE,
    OWN_MOST,
    PLACE,
    REACH,
    ROOM,
    ROWS_USED,
    SEEN_EVENTS,
    SINCE,
    STAMP,
    SUBSTREAM,
    Carrier,
    Store,
)
from ceql.engine.groups.rings import size_of
from ceql.jit import Array, allocating, inlined, kernel

UNMARKED = np.iinfo(np.int64).max


@allocating
def collect(
    store: Store, tight: Array, index_ended: Array, heads: int, rows: Array, buckets: Array, window: int
) -> None:
    """Drop what is dead; the hash table of the entries must be made anew. From `heads` on, indexes are of lists."""
    entries, regs = store.entries, store.regs
    reached = np.full(regs[NODES], UNMARKED, np.int64)
    alive = np.zeros(regs[ENTRIES], np.bool_)
    lost = _reach(store, tight, index_ended, heads, window, reached, alive)
    for e in range(regs[ENTRIES]):
        if entries[e, INDEX] >= heads:
            p = entries[e, SUBSTREAM]
            horizon = horizon_of(regs, store.parts, p, window)
            forgotten = max(regs[FORGOTTEN], store.parts[p, FORGOTTEN_HERE])
            lost |= _mark_rows(entries, e, rows, buckets, reached, horizon, forgotten)
            alive[e] = entries[e, entries.shape[1] - 1] >= 0
    kept = _keep(entries, regs, alive, heads)
    renumbered = _keep_buckets(entries, regs, kept, heads, buckets)
    lost = reach_down(store.nodes, reached) or lost
    if window == W_ENVELOPE and lost:
        raise_floors(store.parts)
    moved = reached  # from here on: where a node went
    move(store.nodes, store.times, store.extra, regs, renumbered, moved)
    for e in range(kept):
        if entries[e, INDEX] < heads:
            entries[e, NODE] = moved[entries[e, NODE]]
    for bucket in range(regs[BUCKETS_USED]):
        base, mask = buckets[bucket, BASE], buckets[bucket, ROOM] - 1
        for r in range(buckets[bucket, FIRST_ROW], buckets[bucket, NEXT_ROW]):
            at = base + (r & mask)
            if rows[at, PLACE] >= 0:
                to = moved[rows[at, PLACE]]
                rows[at, PLACE] = to if to != UNMARKED else -1


@inlined
def _reach(
    store: Store, tight: Array, index_ended: Array, heads: int, window: int, reached: Array, alive: Array
) -> bool:
    """Say which entries of groups are alive, and what their nodes are reached with; whether the window has left any."""
    nodes, entries, regs, parts = store.nodes, store.entries, store.regs, store.parts
    lost = False
    for e in range(regs[ENTRIES]):
        if entries[e, INDEX] >= heads:
            continue
        p = entries[e, SUBSTREAM]
        horizon = horizon_of(regs, parts, p, window)
        n = entries[e, NODE]
        if entries[e, SINCE] <= max(regs[FORGOTTEN], parts[p, FORGOTTEN_HERE]):
            continue
        ended = index_ended[entries[e, INDEX]]
        if ended >= 0 and entries[e, SINCE] <= parts[p, COLUMNS + ended]:
            continue
        if tight[entries[e, INDEX]] and entries[e, STAMP] != parts[p, SEEN_EVENTS] - 1:
            continue
        if nodes[n, MAX] < horizon:
            lost = True
            continue
        reached[n] = horizon
        alive[e] = True
    return lost


@inlined
def reach_down(nodes: Array, reached: Array) -> bool:
    """Reach all that is below what is reached, and inside the window; whether anything is not."""
    lost = False
    for n in range(len(reached) - 1, -1, -1):
        if reached[n] != UNMARKED:
            lost = _reach_children(nodes, n, reached) or lost
    return lost


@inlined
def _reach_children(nodes: Array, n: int, reached: Array) -> bool:
    """Reach the children of a node, unless the window has left them; whether it has left any."""
    kind, horizon = nodes[n, KIND], reached[n]
    lost = False
    if kind >= 0 or kind == FACTOR:
        if nodes[n, B] >= 0:
            reached[nodes[n, B]] = horizon
        if kind == FACTOR:
            reached[nodes[n, A]] = horizon
    elif kind == LISTED:
        if nodes[nodes[n, A], MAX] >= horizon:
            reached[nodes[n, A]] = horizon
        else:
            lost = True
        before = nodes[n, B]
        if before >= 0 and nodes[before, MAX] >= horizon:
            reached[before] = horizon
        else:
            nodes[n, B] = -1
    elif kind != ORDERED:  # the rows of buckets are reached already
        reached[nodes[n, A]] = horizon
        if kind != OTHERS and kind != BETWEEN:
            for side in range(B, C + 1):
                child = nodes[n, side]
                if child >= 0:
                    if nodes[child, MAX] >= horizon:
                        reached[child] = horizon
                    else:
                        nodes[n, side] = -1
                        lost = True
    return lost


@inlined
def move(nodes: Array, times: Array, extra: Array, regs: Array, renumbered: Array, moved: Array) -> None:
    """Move the nodes that are reached to the front; `moved` says first whether a node is, and then where it went.
    `renumbered` are the new numbers of buckets."""
    top = 0
    for n in range(len(moved)):
        if moved[n] == UNMARKED:
            continue
        kind = nodes[n, KIND]
        most = nodes[n, MAX]
        a, b, c = nodes[n, A], nodes[n, B], nodes[n, C]
        if kind == LISTED:  # the list without those that the window has left
            if moved[a] == UNMARKED:
                moved[n] = moved[b] if b >= 0 else -1
                continue
            value = extra[n, VALUE]
            regs[NODES] = top
            moved[n] = listed(nodes, extra, regs, moved[b] if b >= 0 else -1, moved[a], value)
            top += 1
            continue
        if kind == ORDERED:
            a = renumbered[a]
        elif kind < 0:
            a = moved[a]
        if kind == BETWEEN:
            b = renumbered[b] if b >= 0 else b
        elif b >= 0 and kind != OTHERS and kind != ORDERED:
            b = moved[b]
        if UNION >= kind > ORDERED:
            if c >= 0:
                c = moved[c]
            if b < 0 and c < 0:  # a union of one: the product itself
                moved[n] = a
                continue
            if rank(nodes, b) < rank(nodes, c):
                b, c = c, b
            kind = UNION - 1 - rank(nodes, c)
        nodes[top, MAX] = most
        nodes[top, A], nodes[top, B], nodes[top, C] = a, b, c
        nodes[top, KIND] = kind
        if len(times) > 0:
            times[top] = times[n]
        moved[n] = top
        top += 1
    regs[NODES] = top


@inlined
def _mark_rows(
    entries: Array, head: int, rows: Array, buckets: Array, reached: Array, horizon: int, forgotten: int
) -> bool:
    """Mark what is alive in the bucket of a head, which loses it if nothing is; whether any row is dead."""
    bucket = entries[head, entries.shape[1] - 1]
    if bucket < 0:
        return False
    if entries[head, SINCE] <= forgotten:
        entries[head, entries.shape[1] - 1] = -1
        return False
    base, mask = buckets[bucket, BASE], buckets[bucket, ROOM] - 1
    first, end = buckets[bucket, FIRST_ROW], buckets[bucket, NEXT_ROW]
    lost = False
    any_alive = False
    for r in range(first, end):
        at = base + (r & mask)
        if rows[at, PLACE] >= 0 and rows[at, OWN_MOST] >= horizon:
            reached[rows[at, PLACE]] = horizon
            any_alive = True
        else:
            lost |= rows[at, PLACE] >= 0
            if not any_alive:
                first = r + 1
    buckets[bucket, FIRST_ROW] = first
    if not any_alive:
        entries[head, entries.shape[1] - 1] = -1
    return lost


@allocating
def _keep_buckets(entries: Array, regs: Array, kept: int, heads: int, buckets: Array) -> Array:
    """Keep the buckets that heads still have; the new number of each."""
    number = np.full(regs[BUCKETS_USED], -1, np.int64)
    for e in range(kept):
        if entries[e, INDEX] >= heads and entries[e, entries.shape[1] - 1] >= 0:
            number[entries[e, entries.shape[1] - 1]] = 0
    top = 0
    for bucket in range(len(number)):
        if number[bucket] == 0:
            number[bucket] = top
            for k in range(BUCKETS):
                buckets[top, k] = buckets[bucket, k]
            top += 1
    for e in range(kept):
        if entries[e, INDEX] >= heads and entries[e, entries.shape[1] - 1] >= 0:
            entries[e, entries.shape[1] - 1] = number[entries[e, entries.shape[1] - 1]]
    regs[BUCKETS_USED] = top
    return number


@kernel
def pack_rows(regs: Array, carrier: Carrier, rows: Array, keys: Array, block: int) -> None:
    """Put the rows of the buckets one after the other into new arrays, without those that larger rings replaced, and
    without what no row has been written to."""
    top = 0
    for bucket in range(regs[BUCKETS_USED]):
        room, end = carrier.buckets[bucket, ROOM], carrier.buckets[bucket, NEXT_ROW]
        base = carrier.buckets[bucket, BASE]
        size = size_of(room, carrier.buckets[bucket, REACH], block)
        written = room if end > room else end
        for level in range(0, size, room):
            for k in range(level, level + written):
                keys[top + k, 0] = carrier.keys[base + k, 0]
                for column in range(rows.shape[1]):
                    rows[top + k, column] = carrier.rows[base + k, column]
        carrier.buckets[bucket, BASE] = top
        top += size
    regs[ROWS_USED] = top


@allocating
def _keep(entries: Array, regs: Array, alive: Array, heads: int) -> int:
    """Keep the entries that are alive, and the lists of those of them that are groups, in their order."""
    count = regs[ENTRIES]
    next_at, head_at = entries.shape[1] - 2, entries.shape[1] - 1
    listed_in = np.zeros(count, np.bool_)
    for e in range(count):
        if entries[e, INDEX] < heads:
            continue
        last = np.int64(-1)
        g = entries[e, NODE]
        entries[e, NODE] = -1
        entries[e, STAMP] = 0
        while g >= 0:
            following = entries[g, next_at]
            if alive[g]:
                listed_in[g] = True
                entries[e, STAMP] += 1
                if last < 0:
                    entries[e, NODE] = g
                else:
                    entries[last, next_at] = g
                last = g
            g = following
        if last >= 0:
            entries[last, next_at] = -1
            alive[e] = True
    number = np.zeros(count + 1, np.int64)
    for e in range(count):
        number[e + 1] = number[e] + np.int64(alive[e])
    for e in range(count):
        if not alive[e]:
            continue
        if entries[e, INDEX] >= heads:
            if entries[e, NODE] >= 0:
                entries[e, NODE] = number[entries[e, NODE]]
        elif listed_in[e]:
            entries[e, head_at] = number[entries[e, head_at]]
            if entries[e, next_at] >= 0:
                entries[e, next_at] = number[entries[e, next_at]]
        to = number[e]
        for k in range(entries.shape[1]):
            entries[to, k] = entries[e, k]
    regs[ENTRIES] = number[count]
    return number[count]
