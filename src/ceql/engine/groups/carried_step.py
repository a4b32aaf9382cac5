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
    LEAST,
    NO_KEY,
    NODES,
    ROOTS,
    WENT_BACK,
    Events,
)
from ceql.engine.common.reached import Reached, note
from ceql.engine.common.window import apply_window
from ceql.engine.groups.carried import CANNOT_TELL, KEY_AT, PASSES, carry_on, passes
from ceql.engine.groups.graph import FACTOR, MAX, NONE, UNION, new_node, rank, union
from ceql.engine.groups.layout import (
    ENTRIES,
    FORGOTTEN,
    FORGOTTEN_HERE,
    GROW_CELLS,
    GROW_FRESH,
    GROW_TABLE,
    HASHED,
    HEADS,
    INDEX,
    INEXACT,
    KEY,
    NEED,
    NODE,
    NULL,
    ORDER,
    RANKED,
    SEEN_EVENTS,
    SINCE,
    STAMP,
    SUBSTREAM,
    UNLINKED,
    Carrier,
    Fresh,
    Settings,
    Steps,
)
from ceql.engine.groups.ordered import make_run, search_runs
from ceql.engine.groups.table import are_there, locate_key, occupy
from ceql.jit import Array, called, inlined

UNION_NODES = 24  # that a union makes: the length of a way to the right, which is a logarithm


@inlined
def step_carried(
    steps: Steps,
    carrier: Carrier,
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
    reason = np.int64(DONE)
    if begin < end:
        made = np.int64(0)
        roots = np.int64(0)
        for o in range(begin, end):
            reason, made, roots = _fire(
                steps, carrier, nodes, times, slots, entries, regs, parts, fresh, reached, events, way, settings,
                i, partition, steps.order[o], key, exact, bound, dead, made, roots,
            )  # fmt: skip
            if reason != DONE:
                break
        regs[ROOTS] = roots
        if reason == DONE and made > 0:
            reason = _file(
                steps, carrier, nodes, slots, entries, regs, parts, fresh, events, way, i, partition, dead, made
            )
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
    i: int,
    partition: int,
    e: int,
    key: int,
    exact: int,
    bound: int,
    dead: int,
    made: int,
    roots: int,
) -> tuple[int, int, int]:
    """Fire one transition: why that is not possible now, the runs made so far, and those of them that are complete."""
    values = events.values
    if not are_there(values, i, steps.need_terms, steps.needs[e], steps.needs[e + 1]):
        return DONE, made, roots
    one, two = steps.links[e], steps.links[e + 1]
    if one == two and settings.chain and exact == NO_KEY:
        return DONE, made, roots  # cannot start a match
    stamp = parts[partition, SEEN_EVENTS]
    forgotten = max(regs[FORGOTTEN], parts[partition, FORGOTTEN_HERE])
    next_at = entries.shape[1] - 2
    scratch = carrier.scratch
    child = np.int64(-1)
    most = key
    base = np.int64(KEY)
    head = np.int64(-1)  # of a list of groups
    for link in range(one, two):
        low, high = steps.link_keys[link], steps.link_keys[link + 1]
        if not are_there(values, i, steps.link_terms, low, high):
            return DONE, made, roots
        for k in range(low, high):
            scratch[KEY_AT + k - low] = values[i, steps.link_terms[k]]
        index = steps.link_index[link]
        heads = carrier.indexes[index, HEADS]
        base = np.int64(KEY + steps.index_terms[index])
        at = locate_key(slots, entries, index if heads < 0 else heads, partition, scratch, KEY_AT, high - low)
        if at < 0:
            return DONE, made, roots
        if heads >= 0:
            head = at
            continue
        if entries[at, SINCE] <= forgotten or (steps.tight[index] and entries[at, STAMP] != stamp - 1):
            return DONE, made, roots
        found = entries[at, NODE]
        start = nodes[found, MAX]
        if start < dead:
            return DONE, made, roots
        most = min(most, start)
        child = new_node(nodes, regs, most, found, child, NONE, np.int64(FACTOR)) if two - one > 1 else found
    if head < 0:  # nothing is carried to here
        tested = passes(carrier, e, values, i, entries, np.int64(0), base)
        if tested == CANNOT_TELL:
            return INEXACT, made, roots
        if tested != PASSES:
            return DONE, made, roots
        return _make(
            steps, carrier, nodes, times, entries, regs, fresh, reached, events, i, e, np.int64(0), base, child, most,
            exact, bound, made, roots,
        )  # fmt: skip
    index = steps.link_index[one]
    tight = steps.tight[index] != 0
    order = carrier.indexes[index, ORDER]
    each = carrier.each[e] != 0
    count = np.int64(0)
    if order != 0:
        hashed = carrier.indexes[index, HASHED] - steps.index_terms[index]  # registers before the one in order
        if entries[head, STAMP] >= settings.longest:
            ranked = carrier.tests[carrier.tests_of[e], RANKED] != 0
            reason = make_run(
                carrier, nodes, entries, regs, head, base + hashed, order, ranked, dead, forgotten,
                events.position[i], way,
            )  # fmt: skip
            if reason != DONE:
                return reason, made, roots
        if len(fresh.found) < 64:
            return GROW_FRESH, made, roots
        reason, count = search_runs(
            carrier, nodes, entries, head, carrier.tests_of[e], hashed, values, i, dead, forgotten, fresh.found, count
        )
        if reason != DONE:
            return reason, made, roots
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
            return INEXACT, made, roots
        if tested == PASSES:
            if regs[NODES] + 8 > nodes.shape[0]:
                return COLLECT, made, roots
            if each:
                reason, made, roots = _make(
                    steps, carrier, nodes, times, entries, regs, fresh, reached, events, i, e, g, base, found,
                    min(key, start), exact, bound, made, roots,
                )  # fmt: skip
                if reason != DONE:
                    return reason, made, roots
            else:
                if count == len(fresh.found):
                    return GROW_FRESH, made, roots
                fresh.found[count] = found
                count += 1
        g = following
    if count == 0:
        return DONE, made, roots
    if regs[NODES] + count + 8 > nodes.shape[0]:  # of the node that unites them
        return COLLECT, made, roots
    child = either(nodes, regs, fresh.found, count)
    return _make(
        steps, carrier, nodes, times, entries, regs, fresh, reached, events, i, e, previous, base, child,
        min(key, nodes[child, MAX]), exact, bound, made, roots,
    )  # fmt: skip


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
    times: Array,
    entries: Array,
    regs: Array,
    fresh: Fresh,
    reached: Reached | None,
    events: Events,
    i: int,
    e: int,
    g: int,
    base: int,
    child: int,
    most: int,
    exact: int,
    bound: int,
    made: int,
    roots: int,
) -> tuple[int, int, int]:
    """A new run: the event after those of `child`, with what it carries on from group g."""
    if made == len(fresh.state):
        return GROW_FRESH, made, roots
    n = new_node(nodes, regs, most, events.position[i], child, exact, np.int64(steps.mark[e]))
    time = np.int64(0)
    if len(times) > 0:
        time = events.time[i]
        times[n] = time
    target = steps.target[e]
    fresh.state[made] = target
    fresh.node[made] = n
    if not carry_on(carrier, e, events.values, i, entries, g, base, regs, fresh.vector, made):
        return GROW_CELLS, made, roots
    made += 1
    if reached is not None:
        if most >= bound:
            note(reached, e, target, events.position[i], time)
    elif steps.final[target]:
        fresh.roots[roots] = n
        roots += 1
    return DONE, made, roots


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
) -> int:
    """File the new runs under their values."""
    feeds = np.int64(0)
    for m in range(made):
        feeds += steps.feeds[fresh.state[m] + 1] - steps.feeds[fresh.state[m]]
    if regs[NODES] + UNION_NODES * feeds > nodes.shape[0]:
        return COLLECT
    regs[NEED] = 2 * feeds
    if regs[ENTRIES] + 2 * feeds > entries.shape[0]:
        return GROW_TABLE
    values = events.values
    position = events.position[i]
    stamp = parts[partition, SEEN_EVENTS]
    forgotten = max(regs[FORGOTTEN], parts[partition, FORGOTTEN_HERE])
    next_at, head_at = entries.shape[1] - 2, entries.shape[1] - 1
    scratch = carrier.scratch
    for m in range(made):
        state = fresh.state[m]
        for feed in range(steps.feeds[state], steps.feeds[state + 1]):
            low, high = steps.feed_keys[feed], steps.feed_keys[feed + 1]
            if not are_there(values, i, steps.feed_terms, low, high):
                continue
            index = steps.feed_index[feed]
            width = high - low
            for k in range(low, high):
                scratch[KEY_AT + k - low] = values[i, steps.feed_terms[k]]
            able = True
            first = carrier.feed_of[feed]
            for k in range(first, carrier.feed_of[feed + 1]):
                value = fresh.vector[m, carrier.feed[k]]
                if width < carrier.indexes[index, HASHED] and value < 0:
                    able = False  # nothing is equal to NULL
                if carrier.indexes[index, ORDER] != 0 and value == NULL:
                    able = False  # nor greater or less
                scratch[KEY_AT + width] = value
                width += 1
            if not able:
                continue
            at = locate_key(slots, entries, index, partition, scratch, KEY_AT, width)
            heap = np.int64(-1)
            fresh_group = at < 0
            if fresh_group:
                at = _new_entry(slots, entries, regs, index, partition, scratch, width)
            elif entries[at, SINCE] > forgotten and (not steps.tight[index] or entries[at, STAMP] == stamp):
                heap = entries[at, NODE]
            entries[at, NODE] = union(nodes, regs, heap, fresh.node[m], dead, way)
            entries[at, STAMP] = stamp
            entries[at, SINCE] = position
            heads = carrier.indexes[index, HEADS]
            if heads >= 0:
                if fresh_group:
                    hashed = carrier.indexes[index, HASHED]
                    head = locate_key(slots, entries, heads, partition, scratch, KEY_AT, hashed)
                    if head < 0:
                        head = _new_entry(slots, entries, regs, heads, partition, scratch, hashed)
                        entries[head, NODE] = -1
                        entries[head, STAMP] = 0
                        entries[head, SINCE] = 0
                        entries[head, next_at] = -1
                        entries[head, head_at] = -1
                    entries[at, head_at] = head
                    entries[at, next_at] = UNLINKED
                if entries[at, next_at] == UNLINKED:
                    head = entries[at, head_at]
                    entries[at, next_at] = entries[head, NODE]
                    entries[head, NODE] = at
                    entries[head, STAMP] += 1
    return DONE


@inlined
def _new_entry(slots: Array, entries: Array, regs: Array, index: int, partition: int, key: Array, width: int) -> int:
    at = regs[ENTRIES]
    regs[ENTRIES] = at + 1
    entries[at, INDEX] = index
    entries[at, SUBSTREAM] = partition
    for k in range(width):
        entries[at, KEY + k] = key[KEY_AT + k]
    occupy(slots, entries, at, width)
    return at
