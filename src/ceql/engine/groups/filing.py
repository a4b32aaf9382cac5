"""Filing the runs that an event has made: under their values, where later events find them."""

from __future__ import annotations

import numpy as np

from ceql.engine.common.graph import MAX
from ceql.engine.common.layout import COLLECT, DONE, NODES, NOTED, Events
from ceql.engine.groups.ending import ended_up_to
from ceql.engine.groups.forbidden import UNION_NODES
from ceql.engine.groups.graph import union
from ceql.engine.groups.layout import (
    ENTRIES,
    FIRST_ROW,
    GROW_FRESH,
    GROW_ROWS,
    GROW_TABLE,
    HASHED,
    HEADS,
    NEED,
    NEXT_ROW,
    NODE,
    NULL,
    ORDER,
    SINCE,
    STAMP,
    UNLINKED,
    Carrier,
    Steps,
    Store,
    Turn,
)
from ceql.engine.groups.rings import append, forget, leave, make_room, new_bucket
from ceql.engine.groups.table import are_there, head_of, locate, new_entry, take_key
from ceql.jit import called, inlined


@called
def room_to_file(
    steps: Steps, carrier: Carrier, store: Store, events: Events, turn: Turn, made: int, block: int
) -> int:
    """Make sure that there is room for filing the new runs, and note the heads under which those go that are found in
    order."""
    entries, regs, fresh = store.entries, store.regs, store.fresh
    feeds = np.int64(0)
    for m in range(made):
        feeds += steps.feeds[fresh.state[m] + 1] - steps.feeds[fresh.state[m]]
    if regs[NODES] + UNION_NODES * feeds > store.nodes.shape[0]:
        return COLLECT
    regs[NEED] = 2 * feeds
    if regs[ENTRIES] + 2 * feeds > entries.shape[0]:
        return GROW_TABLE
    if feeds > len(fresh.heads):
        return GROW_FRESH
    place = np.int64(0)
    for m in range(made):
        for feed in range(steps.feeds[fresh.state[m]], steps.feeds[fresh.state[m] + 1]):
            index = steps.feed_index[feed]
            if carrier.indexes[index, ORDER] != 0:
                width = key_of(steps, carrier, store, events, turn.i, m, feed)
                fresh.heads[place, 0] = -1
                if width >= 0:
                    head = head_for(carrier, store, index, turn.partition, width - 1)
                    fresh.heads[place, 0], fresh.heads[place, 1] = head, fresh.key[width - 1]
                    reason = room_under(carrier, store, turn, index, head, feeds, block)
                    if reason != DONE:
                        return reason
            place += 1
    return DONE


@called
def file_runs(steps: Steps, carrier: Carrier, store: Store, events: Events, turn: Turn, made: int, block: int) -> None:
    """File the new runs under their values; there is room for them."""
    slots, entries, regs, fresh = store.slots, store.entries, store.regs, store.fresh
    next_at, head_at = entries.shape[1] - 2, entries.shape[1] - 1
    place = np.int64(-1)
    for m in range(made):
        n = fresh.node[m]
        for feed in range(steps.feeds[fresh.state[m]], steps.feeds[fresh.state[m] + 1]):
            place += 1
            index = steps.feed_index[feed]
            if carrier.indexes[index, ORDER] != 0:
                head, value = fresh.heads[place, 0], fresh.heads[place, 1]
                if head >= 0:
                    append(carrier, entries[head, head_at], value, n, store.nodes[n, MAX], turn.position, block)
                    entries[head, SINCE] = turn.position
                continue
            width = key_of(steps, carrier, store, events, turn.i, m, feed)
            if width < 0:
                continue
            at = locate(slots, entries, index, turn.partition, fresh.key, width)
            heap = np.int64(-1)
            fresh_group = at < 0
            if fresh_group:
                at = new_entry(slots, entries, regs, index, turn.partition, fresh.key, width)
            elif entries[at, SINCE] > ended_up_to(steps, store.parts, turn.partition, index, turn.forgotten) and (
                not steps.tight[index] or entries[at, STAMP] == turn.stamp
            ):
                heap = entries[at, NODE]
            entries[at, NODE] = union(store.nodes, regs, heap, n, turn.dead, store.way)
            entries[at, STAMP] = turn.stamp
            entries[at, SINCE] = turn.position
            if carrier.indexes[index, HEADS] >= 0:
                if fresh_group:
                    entries[at, head_at] = head_for(
                        carrier, store, index, turn.partition, carrier.indexes[index, HASHED]
                    )
                    entries[at, next_at] = UNLINKED
                if entries[at, next_at] == UNLINKED:
                    head = entries[at, head_at]
                    entries[at, next_at] = entries[head, NODE]
                    entries[head, NODE] = at
                    entries[head, STAMP] += 1


@inlined
def key_of(steps: Steps, carrier: Carrier, store: Store, events: Events, i: int, m: int, feed: int) -> int:
    """Put the key and the registers of run m for an index into `fresh.key`: how many words, -1 if it finds nothing."""
    fresh = store.fresh
    low, high = steps.feed_keys[feed], steps.feed_keys[feed + 1]
    if not are_there(events.values, i, steps.feed_terms, low, high):
        return np.int64(-1)
    index = steps.feed_index[feed]
    hashed, in_order = carrier.indexes[index, HASHED], carrier.indexes[index, ORDER] != 0
    width = take_key(fresh.key, events.values, i, steps.feed_terms, low, high)
    for k in range(carrier.feed_of[feed], carrier.feed_of[feed + 1]):
        value = fresh.vector[m, carrier.feed[k]]
        if width < hashed and value < 0:
            return np.int64(-1)  # nothing is equal to NULL
        if in_order and value == NULL:
            return np.int64(-1)  # nor greater or less
        fresh.key[width] = value
        width += 1
    if in_order and width == hashed:  # all have the same value
        fresh.key[width] = 0
        width += 1
    return width


@inlined
def head_for(carrier: Carrier, store: Store, index: int, partition: int, hashed: int) -> int:
    """The head of the groups under the key in `fresh`, which is made if it is not there."""
    entries = store.entries
    head = head_of(carrier, store, index, partition, hashed)
    if head < 0:
        heads = carrier.indexes[index, HEADS]
        head = new_entry(store.slots, entries, store.regs, heads, partition, store.fresh.key, hashed)
        entries[head, NODE] = -1
        entries[head, STAMP] = 0
        entries[head, SINCE] = 0
        entries[head, entries.shape[1] - 2] = -1
        entries[head, entries.shape[1] - 1] = -1
    return head


@inlined
def room_under(carrier: Carrier, store: Store, turn: Turn, index: int, head: int, more: int, block: int) -> int:
    """Make sure that the bucket of a head is there and has room for so many runs more."""
    entries = store.entries
    bucket = entries[head, entries.shape[1] - 1]
    forgotten = bucket >= 0 and entries[head, SINCE] <= turn.forgotten
    needed = forgotten and store.regs[NOTED] > 0  # by positions that are still to be read, if there is anything in it
    if bucket < 0 or (needed and carrier.buckets[bucket, FIRST_ROW] < carrier.buckets[bucket, NEXT_ROW]):
        own = new_bucket(carrier, store.regs, index, block)
        if own < 0:
            return GROW_ROWS
        if bucket >= 0:
            leave(carrier, store.regs, bucket)
        bucket = own
        entries[head, entries.shape[1] - 1] = bucket
    elif forgotten:
        forget(carrier, bucket)
    return make_room(carrier, store.regs, bucket, more, turn, block)
