"""A step of the loop where runs carry registers: groups found by hash, tested one by one, united or carried on.

The groups of an index under one key are a list. Its head is an entry of the look-up table too, under an index of its
own; a group is found by its key and all its registers. A group that the window has left is taken out of its list when a
step comes upon it.
"""

from __future__ import annotations

import numpy as np

from ceql.engine.common.layout import (
    BOUND,
    COLLECT,
    COUNTER,
    DONE,
    FOLLOW,
    LEAST,
    NO_KEY,
    NODES,
    ROOTS,
    WENT_BACK,
    Events,
)
from ceql.engine.common.reached import Reached, note
from ceql.engine.common.window import apply_window
from ceql.engine.groups.between import events_between, rows_before
from ceql.engine.groups.carried import CANNOT_TELL, PASSES, all_hold, carry_on, passes
from ceql.engine.groups.count import pending_from
from ceql.engine.groups.ending import end_groups, ended_up_to
from ceql.engine.groups.forbidden import UNION_NODES, room_to_tell, tell_groups
from ceql.engine.groups.graph import BETWEEN, FACTOR, KIND, MAX, NO_START, NONE, ORDERED, UNION, new_node, rank, union
from ceql.engine.groups.layout import (
    BETWEEN_AT,
    ENTRIES,
    FORGOTTEN,
    FORGOTTEN_HERE,
    GROW_CELLS,
    GROW_FRESH,
    GROW_ROWS,
    GROW_TABLE,
    HASHED,
    HEADS,
    INEXACT,
    KEY,
    NEED,
    NEXT_ROW,
    NODE,
    NULL,
    ORDER,
    SEEN_EVENTS,
    SINCE,
    STAMP,
    UNLINKED,
    Carrier,
    Counting,
    Fresh,
    Settings,
    Steps,
)
from ceql.engine.groups.ordered import append, find_in_order, forget, make_room, new_bucket, pass_dead
from ceql.engine.groups.table import are_there, locate, new_entry, take_key
from ceql.jit import Array, called, inlined


@inlined
def step_carried(
    steps: Steps,
    carrier: Carrier,
    ending: Array | None,
    nodes: Array,
    times: Array,
    slots: Array,
    entries: Array,
    regs: Array,
    parts: Array,
    fresh: Fresh,
    reached: Reached | None,
    events: Events,
    way: Array,
    settings: Settings,
    counting: Counting | None,
    room: int,
    i: int,
    partition: int,
) -> int:
    """Fire the transitions and update the indexes. Nothing is changed unless it can be done whole."""
    symbol = events.symbol[i]
    begin, end = steps.by_symbol[symbol], steps.by_symbol[symbol + 1]
    regs[ROOTS] = 0
    regs[NEED] = 0
    if regs[NODES] + room > nodes.shape[0]:
        return COLLECT
    if regs[ENTRIES] + room > entries.shape[0]:
        return GROW_TABLE
    counter, last_bound = parts[partition, COUNTER], parts[partition, BOUND]
    able, key, exact, bound, dead = apply_window(
        regs, parts, partition, settings.window, settings.width, events.key[i], events.bound[i]
    )
    if not able:
        return WENT_BACK
    regs[LEAST] = bound
    gone = pending_from(regs, counting, dead)  # of rows: what waits to be counted may need them
    reason = np.int64(DONE)
    made = np.int64(0)
    if begin < end:
        for o in range(begin, end):
            reason, made = _fire(
                steps, carrier, nodes, slots, entries, regs, parts, fresh, events, settings, i, partition,
                steps.order[o], key, exact, dead, gone, made,
            )  # fmt: skip
            if reason != DONE:
                break
        if reason == DONE and made > 0:
            reason, made = _sift(steps, carrier, nodes, times, regs, fresh, reached, events, i, key, exact, bound, made)
        if reason == DONE and made > 0:
            reason = _room_to_file(
                steps, carrier, nodes, slots, entries, regs, parts, fresh, events, i, partition, gone, made,
                settings.block,
            )  # fmt: skip
    if ending is not None and reason == DONE and ending[symbol] < ending[symbol + 1]:
        tells = carrier.moves_of[len(steps.target)] < carrier.moves_of[len(carrier.moves_of) - 1]
        if tells:
            reason = room_to_tell(
                steps, carrier, nodes, slots, entries, regs, parts, fresh, events, i, partition, dead, made
            )
        if reason == DONE:
            reason = end_groups(steps, carrier, slots, entries, parts, fresh, events, i, partition)
        if tells and reason == DONE:
            tell_groups(
                steps, carrier, nodes, slots, entries, regs, parts, fresh, events, way, i, partition, dead, made
            )
    if reason == DONE and made > 0:
        _file(
            steps, carrier, nodes, slots, entries, regs, parts, fresh, events, way, i, partition, dead, made,
            settings.block,
        )  # fmt: skip
    if len(carrier.died) > 0:
        for k in range(carrier.died.shape[1]):  # an event that is read again counts once
            if reason == DONE:
                carrier.died[1, k] = carrier.died[0, k]
            else:
                carrier.died[0, k] = carrier.died[1, k]
    if reason != DONE:  # the event is read again; the nodes that it has made are not reached
        parts[partition, COUNTER] = counter
        parts[partition, BOUND] = last_bound
        return reason
    parts[partition, SEEN_EVENTS] += 1
    return DONE


@called
def _fire(
    steps: Steps,
    carrier: Carrier,
    nodes: Array,
    slots: Array,
    entries: Array,
    regs: Array,
    parts: Array,
    fresh: Fresh,
    events: Events,
    settings: Settings,
    i: int,
    partition: int,
    e: int,
    key: int,
    exact: int,
    dead: int,
    gone: int,
    made: int,
) -> tuple[int, int]:
    """Fire one transition: why that is not possible now, and the runs made so far."""
    values = events.values
    if not are_there(values, i, steps.need_terms, steps.needs[e], steps.needs[e + 1]):
        return DONE, made
    one, two = steps.links[e], steps.links[e + 1]
    if one == two and settings.chain and exact == NO_KEY:
        return DONE, made  # cannot start a match
    stamp = parts[partition, SEEN_EVENTS]
    forgotten = max(regs[FORGOTTEN], parts[partition, FORGOTTEN_HERE])
    next_at = entries.shape[1] - 2
    child = np.int64(-1)
    most = key
    base = np.int64(KEY)
    head = np.int64(-1)  # of a list of groups
    only = np.int64(0)  # the group that is found by its key alone
    for link in range(one, two):
        low, high = steps.link_keys[link], steps.link_keys[link + 1]
        if not are_there(values, i, steps.link_terms, low, high):
            return DONE, made
        width = take_key(fresh.key, values, i, steps.link_terms, low, high)
        index = steps.link_index[link]
        heads = carrier.indexes[index, HEADS]
        base = np.int64(KEY + steps.index_terms[index])
        at = locate(slots, entries, index if heads < 0 else heads, partition, fresh.key, width)
        if at < 0:
            return DONE, made
        if heads >= 0:
            head = at
            continue
        only = at
        ended = ended_up_to(steps, parts, partition, index, forgotten)
        if entries[at, SINCE] <= ended or (steps.tight[index] and entries[at, STAMP] != stamp - 1):
            return DONE, made
        found = entries[at, NODE]
        start = nodes[found, MAX]
        if start < dead:
            return DONE, made
        most = min(most, start)
        child = new_node(nodes, regs, most, found, child, NONE, np.int64(FACTOR)) if two - one > 1 else found
    if head < 0:  # nothing is carried to here, but for what is in the key
        tested = passes(carrier, e, values, i, entries, only, base)
        if tested == CANNOT_TELL:
            return INEXACT, made
        if tested != PASSES:
            return DONE, made
        return _make(steps, carrier, nodes, entries, regs, fresh, events, settings, i, e, only, base, child, made)
    index = steps.link_index[one]
    tight = steps.tight[index] != 0
    order = carrier.indexes[index, ORDER]
    each = carrier.each[e] != 0
    count = np.int64(0)
    if order != 0:
        bucket = entries[head, entries.shape[1] - 1]
        if bucket < 0 or entries[head, SINCE] <= forgotten:
            return DONE, made
        pass_dead(carrier, bucket, gone)
        rows = carrier.buckets[bucket, NEXT_ROW]
        ring, between = np.int64(-1), np.int64(0)
        if carrier.indexes[index, BETWEEN_AT] >= 0:  # the runs before the last event that comes between
            ring, between, last = events_between(carrier, slots, entries, fresh.key, index, partition, forgotten)
            if ring < 0:
                return DONE, made
            rows = rows_before(carrier, bucket, last)
        hashed = carrier.indexes[index, HASHED] - steps.index_terms[index]  # registers before the one in order
        test = np.int64(carrier.tests_of[e]) if carrier.tests_of[e] < carrier.tests_of[e + 1] else np.int64(-1)
        reason, start, hardest = find_in_order(carrier, bucket, rows, test, hashed, values, i, dead, settings.block)
        if reason != DONE or start == NO_START:
            return reason, made
        child = new_node(nodes, regs, start, bucket, hardest, rows, np.int64(ORDERED))
        if ring >= 0:
            child = new_node(nodes, regs, start, child, ring, between, np.int64(BETWEEN))
        return _make(steps, carrier, nodes, entries, regs, fresh, events, settings, i, e, head, base, child, made)
    forgotten = ended_up_to(steps, parts, partition, index, forgotten)
    previous = head
    g = entries[head, NODE]
    while g >= 0:
        following = entries[g, next_at]
        found = entries[g, NODE]
        start = nodes[found, MAX]
        if start < dead or entries[g, SINCE] <= forgotten or (tight and entries[g, STAMP] != stamp - 1):
            if previous == head:
                entries[previous, NODE] = following
            else:
                entries[previous, next_at] = following
            entries[g, next_at] = UNLINKED
            entries[head, STAMP] -= 1
            g = following
            continue
        previous = g
        if len(carrier.died) > 0:
            carrier.died[0, len(carrier.tests)] += 1
        tested = passes(carrier, e, values, i, entries, g, base)
        if tested == CANNOT_TELL:
            return INEXACT, made
        if tested == PASSES:
            if regs[NODES] + 8 > nodes.shape[0]:
                return COLLECT, made
            if each:
                reason, made = _make(
                    steps, carrier, nodes, entries, regs, fresh, events, settings, i, e, g, base, found, made
                )
                if reason != DONE:
                    return reason, made
            else:
                if count == len(fresh.found):
                    return GROW_FRESH, made
                fresh.found[count] = found
                count += 1
        g = following
    if count == 0:
        return DONE, made
    if regs[NODES] + count + 8 > nodes.shape[0]:  # of the node that unites them
        return COLLECT, made
    child = either(nodes, regs, fresh.found, count)
    return _make(steps, carrier, nodes, entries, regs, fresh, events, settings, i, e, previous, base, child, made)


@inlined
def either(nodes: Array, regs: Array, found: Array, count: int) -> int:
    """One node for all that any of these nodes has: a heap by max-start, so that what is dead is never entered."""
    if count == 1:
        return found[0]
    for parent in range(count // 2 - 1, -1, -1):  # heapify
        n = parent
        while True:
            child = 2 * n + 1
            if child >= count:
                break
            if child + 1 < count and nodes[found[child + 1], MAX] > nodes[found[child], MAX]:
                child += 1
            if nodes[found[child], MAX] <= nodes[found[n], MAX]:
                break
            found[n], found[child] = found[child], found[n]
            n = child
    for n in range(count - 1, -1, -1):
        own = found[n]
        left = found[2 * n + 1] if 2 * n + 1 < count else np.int64(-1)
        right = found[2 * n + 2] if 2 * n + 2 < count else np.int64(-1)
        if left >= 0:
            if rank(nodes, left) < rank(nodes, right):
                left, right = right, left
            found[n] = new_node(nodes, regs, nodes[own, MAX], own, left, right, UNION - 1 - rank(nodes, right))
    return found[0]


@inlined
def _make(
    steps: Steps,
    carrier: Carrier,
    nodes: Array,
    entries: Array,
    regs: Array,
    fresh: Fresh,
    events: Events,
    settings: Settings,
    i: int,
    e: int,
    g: int,
    base: int,
    child: int,
    made: int,
) -> tuple[int, int]:
    """A new run: the event after those of `child`, with what it carries on from group g. It gets its node later.

    If the transition before has made a run in the same state with the same registers, they are one.
    """
    if made == len(fresh.state):
        return GROW_FRESH, made
    fresh.state[made] = steps.target[e]
    fresh.node[made] = child
    fresh.via[made] = e
    if not carry_on(carrier, e, events.values, i, entries, g, base, regs, fresh.vector, made):
        return GROW_CELLS, made
    if made == 0 or len(carrier.after) > 0 or settings.mode == FOLLOW:
        return DONE, made + 1
    other, before = fresh.via[made - 1], fresh.node[made - 1]
    if other == e or steps.target[other] != steps.target[e] or steps.mark[other] != steps.mark[e]:
        return DONE, made + 1
    if child < 0 or before < 0 or nodes[child, KIND] == FACTOR or nodes[before, KIND] == FACTOR:
        return DONE, made + 1
    for k in range(carrier.moves_of[e + 1] - carrier.moves_of[e]):
        if fresh.vector[made, k] != fresh.vector[made - 1, k]:
            return DONE, made + 1
    if nodes[before, MAX] < nodes[child, MAX]:
        child, before = before, child
    fresh.node[made - 1] = new_node(nodes, regs, nodes[before, MAX], before, child, NONE, np.int64(UNION - 1))
    return DONE, made


@called
def _sift(
    steps: Steps,
    carrier: Carrier,
    nodes: Array,
    times: Array,
    regs: Array,
    fresh: Fresh,
    reached: Reached | None,
    events: Events,
    i: int,
    key: int,
    exact: int,
    bound: int,
    made: int,
) -> tuple[int, int]:
    """Make nodes of the new runs that pass their tests, and note those that are complete: the reason to come back, and
    how many runs are left."""
    if regs[NODES] + made > nodes.shape[0]:
        return COLLECT, made
    kept = np.int64(0)
    roots = np.int64(0)
    for m in range(made):
        e = fresh.via[m]
        complete = np.int64(PASSES)
        if len(carrier.after) > 0:
            found = all_hold(carrier, carrier.after[e, 0], carrier.after[e, 1], events.values, i, fresh.vector, m)
            if found == PASSES:
                complete = all_hold(
                    carrier, carrier.after[e, 2], carrier.after[e, 3], events.values, i, fresh.vector, m
                )
            if found == CANNOT_TELL or complete == CANNOT_TELL:
                return INEXACT, made
            if found != PASSES:
                continue
            if kept < m:
                fresh.state[kept] = fresh.state[m]
                for k in range(fresh.vector.shape[1]):
                    fresh.vector[kept, k] = fresh.vector[m, k]
        child = fresh.node[m]
        most = key if child < 0 else min(key, nodes[child, MAX])
        n = new_node(nodes, regs, most, events.position[i], child, exact, np.int64(steps.mark[e]))
        if len(times) > 0:
            times[n] = events.time[i]
        fresh.node[kept] = n
        kept += 1
        if reached is not None:
            if nodes[n, MAX] >= bound:
                note(
                    reached,
                    e,
                    steps.target[e],
                    events.position[i],
                    events.time[i] if len(events.time) > 0 else np.int64(0),
                )
        elif steps.final[steps.target[e]] and complete == PASSES:
            fresh.roots[roots] = n
            roots += 1
    regs[ROOTS] = roots
    return DONE, kept


@called
def _room_to_file(
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
    gone: int,
    made: int,
    block: int,
) -> int:
    """Make sure that there is room for filing the new runs."""
    feeds = np.int64(0)
    for m in range(made):
        feeds += steps.feeds[fresh.state[m] + 1] - steps.feeds[fresh.state[m]]
    if regs[NODES] + UNION_NODES * feeds > nodes.shape[0]:
        return COLLECT
    regs[NEED] = 2 * feeds
    if regs[ENTRIES] + 2 * feeds > entries.shape[0]:
        return GROW_TABLE
    forgotten = max(regs[FORGOTTEN], parts[partition, FORGOTTEN_HERE])
    for m in range(made):
        for feed in range(steps.feeds[fresh.state[m]], steps.feeds[fresh.state[m] + 1]):
            if carrier.indexes[steps.feed_index[feed], ORDER] != 0:
                width = _key(steps, carrier, fresh, events.values, i, m, feed)
                if width >= 0:
                    reason = _prepare(
                        carrier, slots, entries, regs, fresh.key, steps.feed_index[feed], partition, width, feeds,
                        forgotten, gone, block,
                    )  # fmt: skip
                    if reason != DONE:
                        return reason
    return DONE


@called
def _file(
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
    block: int,
) -> None:
    """File the new runs under their values; there is room for them."""
    forgotten = max(regs[FORGOTTEN], parts[partition, FORGOTTEN_HERE])
    position = events.position[i]
    stamp = parts[partition, SEEN_EVENTS]
    next_at, head_at = entries.shape[1] - 2, entries.shape[1] - 1
    for m in range(made):
        for feed in range(steps.feeds[fresh.state[m]], steps.feeds[fresh.state[m] + 1]):
            index = steps.feed_index[feed]
            width = _key(steps, carrier, fresh, events.values, i, m, feed)
            if width < 0:
                continue
            heads, hashed = carrier.indexes[index, HEADS], carrier.indexes[index, HASHED]
            if carrier.indexes[index, ORDER] != 0:
                head = locate(slots, entries, heads, partition, fresh.key, hashed)
                n = fresh.node[m]
                append(carrier, entries[head, head_at], fresh.key[width - 1], n, nodes[n, MAX], position, block)
                entries[head, SINCE] = position
                continue
            at = locate(slots, entries, index, partition, fresh.key, width)
            heap = np.int64(-1)
            fresh_group = at < 0
            if fresh_group:
                at = new_entry(slots, entries, regs, index, partition, fresh.key, width)
            elif entries[at, SINCE] > ended_up_to(steps, parts, partition, index, forgotten) and (
                not steps.tight[index] or entries[at, STAMP] == stamp
            ):
                heap = entries[at, NODE]
            entries[at, NODE] = union(nodes, regs, heap, fresh.node[m], dead, way)
            entries[at, STAMP] = stamp
            entries[at, SINCE] = position
            if heads >= 0:
                if fresh_group:
                    entries[at, head_at] = _head(slots, entries, regs, heads, partition, fresh.key, hashed)
                    entries[at, next_at] = UNLINKED
                if entries[at, next_at] == UNLINKED:
                    head = entries[at, head_at]
                    entries[at, next_at] = entries[head, NODE]
                    entries[head, NODE] = at
                    entries[head, STAMP] += 1


@inlined
def _key(steps: Steps, carrier: Carrier, fresh: Fresh, values: Array, i: int, m: int, feed: int) -> int:
    """Put the key and the registers of run m for an index into `fresh.key`: how many words, -1 if it finds nothing."""
    low, high = steps.feed_keys[feed], steps.feed_keys[feed + 1]
    if not are_there(values, i, steps.feed_terms, low, high):
        return np.int64(-1)
    index = steps.feed_index[feed]
    width = take_key(fresh.key, values, i, steps.feed_terms, low, high)
    for k in range(carrier.feed_of[feed], carrier.feed_of[feed + 1]):
        value = fresh.vector[m, carrier.feed[k]]
        if width < carrier.indexes[index, HASHED] and value < 0:
            return np.int64(-1)  # nothing is equal to NULL
        if carrier.indexes[index, ORDER] != 0 and value == NULL:
            return np.int64(-1)  # nor greater or less
        fresh.key[width] = value
        width += 1
    if carrier.indexes[index, ORDER] != 0 and width == carrier.indexes[index, HASHED]:  # all have the same value
        fresh.key[width] = 0
        width += 1
    return width


@inlined
def _head(slots: Array, entries: Array, regs: Array, heads: int, partition: int, key: Array, hashed: int) -> int:
    """The head of the groups under a key."""
    head = locate(slots, entries, heads, partition, key, hashed)
    if head < 0:
        head = new_entry(slots, entries, regs, heads, partition, key, hashed)
        entries[head, NODE] = -1
        entries[head, STAMP] = 0
        entries[head, SINCE] = 0
        entries[head, entries.shape[1] - 2] = -1
        entries[head, entries.shape[1] - 1] = -1
    return head


@inlined
def _prepare(
    carrier: Carrier,
    slots: Array,
    entries: Array,
    regs: Array,
    key: Array,
    index: int,
    partition: int,
    width: int,
    more: int,
    forgotten: int,
    gone: int,
    block: int,
) -> int:
    """Make sure that the bucket of a key is there and has room for so many runs more."""
    head = _head(slots, entries, regs, carrier.indexes[index, HEADS], partition, key, width - 1)
    bucket = entries[head, entries.shape[1] - 1]
    if bucket < 0:
        bucket = new_bucket(carrier, regs, index, block)
        if bucket < 0:
            return GROW_ROWS
        entries[head, entries.shape[1] - 1] = bucket
    elif entries[head, SINCE] <= forgotten:
        forget(carrier, bucket)
    return make_room(carrier, regs, bucket, more, gone, block)
