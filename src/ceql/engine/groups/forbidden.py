"""What runs get to know of forbidden events: NOT that is compared with events after it.

A forbidden event is told to the groups that it finds under its values and that pass its tests. Each gets a register
anew (the greatest or least value so far, or the set of all), so that it becomes another group, or part of one. What is
told twice changes nothing. Groups that agree on all else become one as soon as they know the same, so that few of them
are met by the next forbidden event.
"""

from __future__ import annotations

import numpy as np

from ceql.engine.common.layout import COLLECT, DONE, NODES, Events
from ceql.engine.groups.carried import CANNOT_TELL, PASSES, carry_on
from ceql.engine.groups.ending import ENDED, all_pass, ended_up_to
from ceql.engine.groups.graph import MAX, union
from ceql.engine.groups.layout import (
    ENTRIES,
    FORGOTTEN,
    FORGOTTEN_HERE,
    GROW_CELLS,
    GROW_FRESH,
    GROW_TABLE,
    HEADS,
    INEXACT,
    KEY,
    NEED,
    NODE,
    SINCE,
    STAMP,
    UNLINKED,
    WIDTH,
    Carrier,
    Fresh,
    Steps,
)
from ceql.engine.groups.table import are_there, locate, new_entry, take_key
from ceql.jit import Array, called, inlined

UNION_NODES = 24  # that a union makes: the length of a way to the right, which is a logarithm
_SAME, _CHANGED, _INEXACT, _NO_CELLS = 0, 1, -1, -2


@called
def room_to_tell(
    steps: Steps,
    carrier: Carrier,
    nodes: Array,
    slots: Array,
    entries: Array,
    regs: Array,
    parts: Array,
    fresh: Fresh,
    events: Events,
    i: int,
    partition: int,
    dead: int,
    made: int,
) -> int:
    """Make sure that there is room for the groups that event i changes. `made` runs are to be filed, too."""
    if made == len(fresh.state):
        return GROW_FRESH
    symbol = events.symbol[i]
    changed = np.int64(0)
    for k in range(steps.ends[symbol], steps.ends[symbol + 1]):
        e = steps.end[k]
        if e < 0 or carrier.moves_of[e] == carrier.moves_of[e + 1]:
            continue
        index = steps.link_index[steps.links[e]]
        ended = _ended(steps, regs, parts, partition, index)
        head = _head(steps, carrier, slots, entries, fresh, events.values, i, partition, e)
        g = entries[head, NODE] if head >= 0 else np.int64(-1)
        while g >= 0:
            if entries[g, SINCE] > ended and nodes[entries[g, NODE], MAX] >= dead:
                found = _told(carrier, entries, regs, fresh, events.values, i, e, g, made)
                if found == _INEXACT:
                    return INEXACT
                if found == _NO_CELLS:
                    return GROW_CELLS
                changed += found
            g = entries[g, entries.shape[1] - 2]
    if changed > 0:
        if regs[NODES] + UNION_NODES * (changed + regs[NEED]) > nodes.shape[0]:
            return COLLECT
        regs[NEED] += changed
        if regs[ENTRIES] + regs[NEED] > entries.shape[0]:
            return GROW_TABLE
    return DONE


@called
def tell_groups(
    steps: Steps,
    carrier: Carrier,
    nodes: Array,
    slots: Array,
    entries: Array,
    regs: Array,
    parts: Array,
    fresh: Fresh,
    events: Events,
    way: Array,
    i: int,
    partition: int,
    dead: int,
    made: int,
) -> None:
    """Tell groups what event i is like; there is room for it."""
    symbol = events.symbol[i]
    for k in range(steps.ends[symbol], steps.ends[symbol + 1]):
        e = steps.end[k]
        if e >= 0 and carrier.moves_of[e] < carrier.moves_of[e + 1]:
            head = _head(steps, carrier, slots, entries, fresh, events.values, i, partition, e)
            if head >= 0:
                _tell(
                    steps, carrier, nodes, slots, entries, regs, parts, fresh, events.values, way, i, partition, dead,
                    made, e, head,
                )  # fmt: skip


@inlined
def _ended(steps: Steps, regs: Array, parts: Array, partition: int, index: int) -> int:
    forgotten = max(regs[FORGOTTEN], parts[partition, FORGOTTEN_HERE])
    return ended_up_to(steps, parts, partition, index, forgotten)


@inlined
def _head(
    steps: Steps,
    carrier: Carrier,
    slots: Array,
    entries: Array,
    fresh: Fresh,
    values: Array,
    i: int,
    partition: int,
    e: int,
) -> int:
    """The head of the groups that ending e finds, or -1."""
    link = steps.links[e]
    low, high = steps.link_keys[link], steps.link_keys[link + 1]
    if not are_there(values, i, steps.link_terms, low, high):
        return np.int64(-1)
    width = take_key(fresh.key, values, i, steps.link_terms, low, high)
    return locate(slots, entries, carrier.indexes[steps.link_index[link], HEADS], partition, fresh.key, width)


@called
def _told(
    carrier: Carrier, entries: Array, regs: Array, fresh: Fresh, values: Array, i: int, e: int, g: int, row: int
) -> int:
    """Whether group g changes when it is told of event i. Its registers are then in a row of `fresh.vector`."""
    found = all_pass(carrier, e, values, i, entries, g, np.int64(KEY))
    if found != PASSES:
        return _INEXACT if found == CANNOT_TELL else _SAME
    if not carry_on(carrier, e, values, i, entries, g, np.int64(KEY), regs, fresh.vector, row):
        return _NO_CELLS
    for k in range(carrier.moves_of[e + 1] - carrier.moves_of[e]):
        if fresh.vector[row, k] != entries[g, KEY + k]:
            return _CHANGED
    return _SAME


@inlined
def _tell(
    steps: Steps,
    carrier: Carrier,
    nodes: Array,
    slots: Array,
    entries: Array,
    regs: Array,
    parts: Array,
    fresh: Fresh,
    values: Array,
    way: Array,
    i: int,
    partition: int,
    dead: int,
    row: int,
    e: int,
    head: int,
) -> None:
    index = steps.link_index[steps.links[e]]
    width = carrier.indexes[index, WIDTH]
    ended = _ended(steps, regs, parts, partition, index)
    next_at, head_at = entries.shape[1] - 2, entries.shape[1] - 1
    added = np.int64(-1)  # groups that are in no list yet, each linked to the next
    last = np.int64(-1)
    previous = np.int64(-1)
    g = entries[head, NODE]
    while g >= 0:
        following = entries[g, next_at]
        alive = entries[g, SINCE] > ended and nodes[entries[g, NODE], MAX] >= dead
        if not alive or _told(carrier, entries, regs, fresh, values, i, e, g, row) != _CHANGED:
            previous = g
            g = following
            continue
        if previous < 0:
            entries[head, NODE] = following
        else:
            entries[previous, next_at] = following
        entries[head, STAMP] -= 1
        node, since, stamp = entries[g, NODE], entries[g, SINCE], entries[g, STAMP]
        entries[g, next_at] = UNLINKED
        entries[g, SINCE] = ENDED
        for k in range(width):
            fresh.key[k] = fresh.vector[row, k]
        at = locate(slots, entries, index, partition, fresh.key, width)
        heap = np.int64(-1)
        if at < 0:
            at = new_entry(slots, entries, regs, index, partition, fresh.key, width)
            entries[at, head_at] = head
            entries[at, next_at] = UNLINKED
        elif entries[at, next_at] != UNLINKED and entries[at, SINCE] > ended:
            heap = entries[at, NODE]
            since, stamp = max(since, entries[at, SINCE]), max(stamp, entries[at, STAMP])
        entries[at, NODE] = union(nodes, regs, heap, node, dead, way)
        entries[at, SINCE] = since
        entries[at, STAMP] = stamp
        if entries[at, next_at] == UNLINKED:
            entries[at, next_at] = added
            if added < 0:
                last = at
            added = at
            entries[head, STAMP] += 1
        g = following
    if added >= 0:
        entries[last, next_at] = entries[head, NODE]
        entries[head, NODE] = added
