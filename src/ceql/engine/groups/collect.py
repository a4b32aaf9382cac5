"""Giving memory back: a sliding collection of the graph and of the look-up table.

A node lives when an entry of the table reaches it by a path whose max-start is inside the window of the entry's
substream. Index order is kept, so that children stay below their parents.
"""

from __future__ import annotations

import numpy as np

from ceql.engine.common.layout import NODES, W_ENVELOPE
from ceql.engine.common.window import horizon_of, raise_floors
from ceql.engine.groups.graph import FACTOR, KIND, LISTED, MAX, OTHERS, UNION, VALUE, A, B, C, listed, rank
from ceql.engine.groups.layout import (
    ENTRIES,
    FORGOTTEN,
    FORGOTTEN_HERE,
    INDEX,
    LINKED,
    LINKS,
    MADE,
    NEXT_LINK,
    NODE,
    OWN_NODE,
    RUN_BEGIN,
    RUN_END,
    RUN_MAX,
    RUN_ROWS,
    RUNS,
    SEEN_EVENTS,
    SINCE,
    STAMP,
    SUBSTREAM,
    UPTO,
    VALUE_AT,
)
from ceql.jit import Array, allocating, inlined

UNMARKED = np.iinfo(np.int64).max


@allocating
def collect(
    nodes: Array,
    times: Array,
    extra: Array,
    entries: Array,
    regs: Array,
    parts: Array,
    tight: Array,
    heads: int,
    runs: Array,
    links: Array,
    window: int,
) -> None:
    """Drop what is dead; the hash table of the entries must be made anew. From `heads` on, indexes are of lists."""
    used = regs[NODES]
    reached = np.full(used, UNMARKED, np.int64)
    lost = False
    alive = np.zeros(regs[ENTRIES], np.bool_)
    for e in range(regs[ENTRIES]):
        if entries[e, INDEX] >= heads:
            continue
        p = entries[e, SUBSTREAM]
        horizon = horizon_of(regs, parts, p, window)
        n = entries[e, NODE]
        if entries[e, SINCE] <= max(regs[FORGOTTEN], parts[p, FORGOTTEN_HERE]):
            continue
        if tight[entries[e, INDEX]] and entries[e, STAMP] != parts[p, SEEN_EVENTS] - 1:
            continue
        if nodes[n, MAX] < horizon:
            lost = True
            continue
        reached[n] = horizon
        alive[e] = True
    for e in range(regs[ENTRIES]):
        if entries[e, INDEX] >= heads:
            p = entries[e, SUBSTREAM]
            horizon = horizon_of(regs, parts, p, window)
            forgotten = max(regs[FORGOTTEN], parts[p, FORGOTTEN_HERE])
            lost |= _mark_runs(nodes, entries, e, runs, links, reached, horizon, forgotten)
            alive[e] = entries[e, entries.shape[1] - 1] >= 0
    kept = _keep(entries, regs, alive, heads)
    for n in range(used - 1, -1, -1):
        horizon = reached[n]
        if horizon == UNMARKED:
            continue
        kind = nodes[n, KIND]
        if kind >= 0:
            if nodes[n, B] >= 0:
                reached[nodes[n, B]] = horizon
            continue
        if kind == LISTED:
            if nodes[nodes[n, A], MAX] >= horizon:
                reached[nodes[n, A]] = horizon
            else:
                lost = True
            before = nodes[n, B]
            if before >= 0 and nodes[before, MAX] >= horizon:
                reached[before] = horizon
            else:
                nodes[n, B] = -1
            continue
        reached[nodes[n, A]] = horizon
        if kind == OTHERS:
            continue
        if kind == FACTOR:
            if nodes[n, B] >= 0:
                reached[nodes[n, B]] = horizon
            continue
        for side in range(B, C + 1):
            child = nodes[n, side]
            if child >= 0:
                if nodes[child, MAX] >= horizon:
                    reached[child] = horizon
                else:
                    nodes[n, side] = -1
                    lost = True
    if window == W_ENVELOPE and lost:
        raise_floors(parts)
    moved = reached  # from here on: where a node went
    top = 0
    for n in range(used):
        if reached[n] == UNMARKED:
            continue
        kind = nodes[n, KIND]
        most = nodes[n, MAX]
        a, b, c = nodes[n, A], nodes[n, B], nodes[n, C]
        if kind == LISTED:  # the list without those that the window has left
            if reached[a] == UNMARKED:
                moved[n] = moved[b] if b >= 0 else -1
                continue
            value = extra[n, VALUE]
            regs[NODES] = top
            moved[n] = listed(nodes, extra, regs, moved[b] if b >= 0 else -1, moved[a], value)
            top += 1
            continue
        if kind < 0:
            a = moved[a]
        if b >= 0 and kind != OTHERS:
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
        nodes[top, MAX] = most
        nodes[top, A], nodes[top, B], nodes[top, C] = a, b, c
        nodes[top, KIND] = kind
        if len(times) > 0:
            times[top] = times[n]
        moved[n] = top
        top += 1
    regs[NODES] = top
    for e in range(kept):
        if entries[e, INDEX] < heads:
            entries[e, NODE] = moved[entries[e, NODE]]
    if regs[LINKED] > 0:
        for e in range(kept):
            if entries[e, INDEX] >= heads:
                run = entries[e, entries.shape[1] - 1]
                while run >= 0:
                    for k in range(links[run, RUN_BEGIN], links[run, RUN_END]):
                        runs[k, OWN_NODE] = moved[runs[k, OWN_NODE]]
                        runs[k, UPTO] = moved[runs[k, UPTO]]
                    run = links[run, NEXT_LINK]
        pack_runs(entries, regs, heads, runs, links)


@inlined
def _mark_runs(
    nodes: Array, entries: Array, head: int, runs: Array, links: Array, reached: Array, horizon: int, forgotten: int
) -> bool:
    """Mark what is alive in the runs of a head, and leave out the runs that are dead; whether any row is dead."""
    run_at = entries.shape[1] - 1
    lost = False
    run = entries[head, run_at]
    last = np.int64(-1)
    entries[head, run_at] = -1
    while run >= 0:
        following = links[run, NEXT_LINK]
        if links[run, RUN_MAX] >= horizon and links[run, MADE] > forgotten:
            if last < 0:
                entries[head, run_at] = run
            else:
                links[last, NEXT_LINK] = run
            last = run
            to = links[run, RUN_BEGIN]
            for k in range(links[run, RUN_BEGIN], links[run, RUN_END]):
                if nodes[runs[k, OWN_NODE], MAX] < horizon:
                    lost = True
                    continue
                runs[to, VALUE_AT], runs[to, OWN_NODE], runs[to, UPTO] = (
                    runs[k, VALUE_AT],
                    runs[k, OWN_NODE],
                    runs[k, UPTO],
                )
                reached[runs[to, OWN_NODE]] = horizon
                reached[runs[to, UPTO]] = horizon
                to += 1
            links[run, RUN_END] = to
        else:
            lost |= links[run, RUN_MAX] < horizon
        run = following
    if last >= 0:
        links[last, NEXT_LINK] = -1
    return lost


@allocating
def pack_runs(entries: Array, regs: Array, heads: int, runs: Array, links: Array) -> None:
    """Put the runs that heads still have one after the other."""
    old_runs, old_links = runs[: regs[RUN_ROWS]].copy(), links[: regs[LINKED]].copy()
    run_at = entries.shape[1] - 1
    rows = 0
    count = 0
    for e in range(regs[ENTRIES]):
        if entries[e, INDEX] < heads:
            continue
        run = entries[e, run_at]
        if run >= 0:
            entries[e, run_at] = count
        while run >= 0:
            for k in range(LINKS):
                links[count, k] = old_links[run, k]
            links[count, RUN_BEGIN] = rows
            for k in range(old_links[run, RUN_BEGIN], old_links[run, RUN_END]):
                for word in range(RUNS):
                    runs[rows, word] = old_runs[k, word]
                rows += 1
            links[count, RUN_END] = rows
            run = old_links[run, NEXT_LINK]
            links[count, NEXT_LINK] = count + 1 if run >= 0 else -1
            count += 1
    regs[RUN_ROWS] = rows
    regs[LINKED] = count


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
