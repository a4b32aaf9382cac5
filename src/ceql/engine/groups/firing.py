"""Firing a transition: an event finds groups by hash, tests them one by one or finds them in order, and unites them.

The groups of an index under one key are a list. Its head is an entry of the look-up table too, under an index of its
own; a group is found by its key and all its registers. A group that the window has left is taken out of its list when a
step comes upon it.
"""

from __future__ import annotations

import numpy as np

from ceql.engine.common.graph import BETWEEN, FACTOR, KIND, MAX, NO_START, NONE, ORDERED, UNION
from ceql.engine.common.layout import COLLECT, DONE, FOLLOW, NO_KEY, NODES, Events, Settings
from ceql.engine.groups.between import events_between, rows_before
from ceql.engine.groups.carried import CANNOT_TELL, PASSES, carry_on, passes
from ceql.engine.groups.ending import ended_up_to
from ceql.engine.groups.graph import new_node, rank
from ceql.engine.groups.layout import (
    ALIVE_ROW,
    BETWEEN_AT,
    GROW_CELLS,
    GROW_FRESH,
    HASHED,
    HEADS,
    INEXACT,
    KEY,
    NEXT_ROW,
    NODE,
    ORDER,
    SINCE,
    STAMP,
    UNLINKED,
    Carrier,
    Steps,
    Store,
    Turn,
)
from ceql.engine.groups.ordered import find_in_order, none_passes
from ceql.engine.groups.rings import pass_dead
from ceql.engine.groups.table import are_there, head_of, locate, take_key
from ceql.jit import Array, called, inlined


@called
def fire(
    steps: Steps, carrier: Carrier, store: Store, events: Events, settings: Settings, turn: Turn, e: int, made: int
) -> tuple[int, int]:
    """Fire one transition: why that is not possible now, and the runs made so far."""
    values, nodes, entries, regs, fresh = events.values, store.nodes, store.entries, store.regs, store.fresh
    i, partition = turn.i, turn.partition
    if not are_there(values, i, steps.need_terms, steps.needs[e], steps.needs[e + 1]):
        return DONE, made
    one, two = steps.links[e], steps.links[e + 1]
    if one == two and settings.chain and turn.exact == NO_KEY:
        return DONE, made  # cannot start a match
    child = np.int64(-1)
    most = turn.key
    base = np.int64(KEY)
    head = np.int64(-1)  # of a list of groups
    only = np.int64(0)  # the group that is found by its key alone
    for link in range(one, two):
        low, high = steps.link_keys[link], steps.link_keys[link + 1]
        if not are_there(values, i, steps.link_terms, low, high):
            return DONE, made
        width = take_key(fresh.key, values, i, steps.link_terms, low, high)
        index = steps.link_index[link]
        base = np.int64(KEY + steps.index_terms[index])
        if carrier.indexes[index, HEADS] >= 0:
            head = head_of(carrier, store, index, partition, width)
            if head < 0:
                return DONE, made
            continue
        at = locate(store.slots, entries, index, partition, fresh.key, width)
        if at < 0:
            return DONE, made
        only = at
        ended = ended_up_to(steps, store.parts, partition, index, turn.forgotten)
        if entries[at, SINCE] <= ended or (steps.tight[index] and entries[at, STAMP] != turn.stamp - 1):
            return DONE, made
        found = entries[at, NODE]
        start = nodes[found, MAX]
        if start < turn.dead:
            return DONE, made
        most = min(most, start)
        child = new_node(nodes, regs, most, found, child, NONE, np.int64(FACTOR)) if two - one > 1 else found
    if head < 0:  # nothing is carried to here, but for what is in the key
        tested = passes(carrier, e, values, i, entries, only, base)
        if tested == CANNOT_TELL:
            return INEXACT, made
        if tested != PASSES:
            return DONE, made
        return _make(steps, carrier, store, events, settings, i, e, only, base, child, made)
    if carrier.indexes[steps.link_index[one], ORDER] != 0:
        reason, child = _find(steps, carrier, store, events, settings, turn, e, head)
        if child < 0:
            return reason, made
        return _make(steps, carrier, store, events, settings, i, e, head, base, child, made)
    return _look_through(steps, carrier, store, events, settings, turn, e, head, base, made)


@inlined
def _find(
    steps: Steps, carrier: Carrier, store: Store, events: Events, settings: Settings, turn: Turn, e: int, head: int
) -> tuple[int, int]:
    """A node for all runs under a head that transition e finds in order, or -1 with the reason."""
    index, entries = steps.link_index[steps.links[e]], store.entries
    bucket = entries[head, entries.shape[1] - 1]
    if bucket < 0 or entries[head, SINCE] <= turn.forgotten:
        return DONE, NONE
    test = np.int64(carrier.tests_of[e]) if carrier.tests_of[e] < carrier.tests_of[e + 1] else np.int64(-1)
    if none_passes(carrier, bucket, test, events.values, turn.i):
        return DONE, NONE
    pass_dead(carrier, bucket, ALIVE_ROW, turn.dead)
    rows = carrier.buckets[bucket, NEXT_ROW]
    ring, between = np.int64(-1), np.int64(0)
    if carrier.indexes[index, BETWEEN_AT] >= 0:  # the runs before the last event that comes between
        ring, between, last = events_between(carrier, store, index, turn)
        if ring < 0:
            return DONE, NONE
        rows = rows_before(carrier, bucket, last)
    hashed = carrier.indexes[index, HASHED] - steps.index_terms[index]  # registers before the one in order
    reason, start, hardest = find_in_order(
        carrier, bucket, rows, test, hashed, events.values, turn.i, turn.dead, settings.block
    )
    if reason != DONE or start == NO_START:
        return reason, NONE
    child = new_node(store.nodes, store.regs, start, bucket, hardest, rows, np.int64(ORDERED))
    if ring >= 0:
        child = new_node(store.nodes, store.regs, start, child, ring, between, np.int64(BETWEEN))
    return DONE, child


@inlined
def _look_through(
    steps: Steps,
    carrier: Carrier,
    store: Store,
    events: Events,
    settings: Settings,
    turn: Turn,
    e: int,
    head: int,
    base: int,
    made: int,
) -> tuple[int, int]:
    """Test the groups under a head one by one; those that pass are united, or each makes a run of its own."""
    nodes, entries, regs, fresh = store.nodes, store.entries, store.regs, store.fresh
    index = steps.link_index[steps.links[e]]
    tight = steps.tight[index] != 0
    each = carrier.each[e] != 0
    count = np.int64(0)
    next_at = entries.shape[1] - 2
    ended = ended_up_to(steps, store.parts, turn.partition, index, turn.forgotten)
    previous = head
    g = entries[head, NODE]
    while g >= 0:
        following = entries[g, next_at]
        found = entries[g, NODE]
        start = nodes[found, MAX]
        if start < turn.dead or entries[g, SINCE] <= ended or (tight and entries[g, STAMP] != turn.stamp - 1):
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
        tested = passes(carrier, e, events.values, turn.i, entries, g, base)
        if tested == CANNOT_TELL:
            return INEXACT, made
        if tested == PASSES:
            if regs[NODES] + 8 > nodes.shape[0]:
                return COLLECT, made
            if each:
                reason, made = _make(steps, carrier, store, events, settings, turn.i, e, g, base, found, made)
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
    return _make(steps, carrier, store, events, settings, turn.i, e, previous, base, child, made)


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


@called
def _make(
    steps: Steps,
    carrier: Carrier,
    store: Store,
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
    nodes, regs, fresh = store.nodes, store.regs, store.fresh
    if made == len(fresh.state):
        return GROW_FRESH, made
    fresh.state[made] = steps.target[e]
    fresh.node[made] = child
    fresh.via[made] = e
    if not carry_on(carrier, e, events.values, i, store.entries, g, base, regs, fresh.vector, made):
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
    fresh.node[made - 1] = both(nodes, regs, before, child)
    return DONE, made


@inlined
def both(nodes: Array, regs: Array, one: int, two: int) -> int:
    """A union of two nodes that are no factors."""
    if nodes[one, MAX] < nodes[two, MAX]:
        one, two = two, one
    return new_node(nodes, regs, nodes[one, MAX], one, two, NONE, np.int64(UNION - 1))
