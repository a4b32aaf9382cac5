"""Lets runs carry what forbidden events were like: NOT that is compared with events after it.

A forbidden event is told to the groups that it finds under its values and that pass its tests. Each gets a register
anew (the greatest or least value so far, or the set of all), so that it becomes another group, or part of one. What is
told twice changes nothing. Groups that agree on all else become one as soon as they know the same, so that few of them
are met by the next forbidden event.
"""

from __future__ import annotations

import numpy as np

from ceql.engine.common.graph import MAX
from ceql.engine.common.layout import COLLECT, DONE, NODES, Events
from ceql.engine.groups.carried import CANNOT_TELL, PASSES, carry_on
from ceql.engine.groups.ending import ENDED, all_pass, ended_up_to
from ceql.engine.groups.graph import union
from ceql.engine.groups.layout import (
    ENTRIES,
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
    Steps,
    Store,
    Turn,
)
from ceql.engine.groups.table import are_there, locate, new_entry, take_key
from ceql.jit import Array, called, inlined

UNION_NODES = 24  # that a union makes: the length of a way to the right, which is a logarithm
_SAME, _CHANGED, _INEXACT, _NO_CELLS = 0, 1, -1, -2


@called
def room_to_tell(steps: Steps, carrier: Carrier, store: Store, events: Events, turn: Turn, made: int) -> int:
    """Make sure that there is room for the groups that the event changes. `made` runs are to be filed, too."""
    nodes, entries, regs, fresh = store.nodes, store.entries, store.regs, store.fresh
    if made == len(fresh.state):
        return GROW_FRESH
    symbol = events.symbol[turn.i]
    changed = np.int64(0)
    for k in range(steps.ends[symbol], steps.ends[symbol + 1]):
        e = steps.end[k]
        if e < 0 or carrier.moves_of[e] == carrier.moves_of[e + 1]:
            continue
        ended = ended_up_to(steps, store.parts, turn.partition, steps.link_index[steps.links[e]], turn.forgotten)
        head = _head(steps, carrier, store, events.values, turn, e)
        g = entries[head, NODE] if head >= 0 else np.int64(-1)
        while g >= 0:
            if entries[g, SINCE] > ended and nodes[entries[g, NODE], MAX] >= turn.dead:
                found = _told(carrier, store, events.values, turn.i, e, g, made)
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
def tell_groups(steps: Steps, carrier: Carrier, store: Store, events: Events, turn: Turn, made: int) -> None:
    """Tell groups what the event is like; there is room for it."""
    symbol = events.symbol[turn.i]
    for k in range(steps.ends[symbol], steps.ends[symbol + 1]):
        e = steps.end[k]
        if e >= 0 and carrier.moves_of[e] < carrier.moves_of[e + 1]:
            head = _head(steps, carrier, store, events.values, turn, e)
            if head >= 0:
                _tell(steps, carrier, store, events.values, turn, made, e, head)


@inlined
def _head(steps: Steps, carrier: Carrier, store: Store, values: Array, turn: Turn, e: int) -> int:
    """The head of the groups that ending e finds, or -1."""
    link, key = steps.links[e], store.fresh.key
    low, high = steps.link_keys[link], steps.link_keys[link + 1]
    if not are_there(values, turn.i, steps.link_terms, low, high):
        return np.int64(-1)
    width = take_key(key, values, turn.i, steps.link_terms, low, high)
    heads = carrier.indexes[steps.link_index[link], HEADS]
    return locate(store.slots, store.entries, heads, turn.partition, key, width)


@called
def _told(carrier: Carrier, store: Store, values: Array, i: int, e: int, g: int, row: int) -> int:
    """Whether group g changes when it is told of event i. Its registers are then in a row of `fresh.vector`."""
    entries, fresh = store.entries, store.fresh
    found = all_pass(carrier, e, values, i, entries, g, np.int64(KEY))
    if found != PASSES:
        return _INEXACT if found == CANNOT_TELL else _SAME
    if not carry_on(carrier, e, values, i, entries, g, np.int64(KEY), store.regs, fresh.vector, row):
        return _NO_CELLS
    for k in range(carrier.moves_of[e + 1] - carrier.moves_of[e]):
        if fresh.vector[row, k] != entries[g, KEY + k]:
            return _CHANGED
    return _SAME


@inlined
def _tell(steps: Steps, carrier: Carrier, store: Store, values: Array, turn: Turn, row: int, e: int, head: int) -> None:
    nodes, slots, entries, fresh = store.nodes, store.slots, store.entries, store.fresh
    index = steps.link_index[steps.links[e]]
    width = carrier.indexes[index, WIDTH]
    ended = ended_up_to(steps, store.parts, turn.partition, index, turn.forgotten)
    next_at, head_at = entries.shape[1] - 2, entries.shape[1] - 1
    added = np.int64(-1)  # groups that are in no list yet, each linked to the next
    last = np.int64(-1)
    previous = np.int64(-1)
    g = entries[head, NODE]
    while g >= 0:
        following = entries[g, next_at]
        alive = entries[g, SINCE] > ended and nodes[entries[g, NODE], MAX] >= turn.dead
        if not alive or _told(carrier, store, values, turn.i, e, g, row) != _CHANGED:
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
        at = locate(slots, entries, index, turn.partition, fresh.key, width)
        heap = np.int64(-1)
        if at < 0:
            at = new_entry(slots, entries, store.regs, index, turn.partition, fresh.key, width)
            entries[at, head_at] = head
            entries[at, next_at] = UNLINKED
        elif entries[at, next_at] != UNLINKED and entries[at, SINCE] > ended:
            heap = entries[at, NODE]
            since, stamp = max(since, entries[at, SINCE]), max(stamp, entries[at, STAMP])
        entries[at, NODE] = union(nodes, store.regs, heap, node, turn.dead, store.way)
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
