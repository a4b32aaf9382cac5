"""Algorithm 1 of pcea-hcq-2024 over symbols and numbered values.

`advance` takes the events of a batch one after the other: it fires the transitions that the event's guards allow and
for which runs wait under its values, files the new runs under theirs, and hands on to the enumeration at a position
with complete runs. When it needs the caller (full buffers, a full graph) it returns why, with everything stored,
and is called again to go on at the very same event.
"""

from __future__ import annotations

import numpy as np

from ceql.engine.common.reached import note
from ceql.engine.groups.count import tally
from ceql.engine.groups.enumerate import push_roots, sort_by_start, unfold
from ceql.engine.groups.graph import FACTOR, MAX, NO_START, OTHERS, WAY, listed, most_unlike, new_node, union
from ceql.engine.groups.layout import (
    AFTER,
    BOUND,
    DONE,
    ENTRIES,
    EVENT,
    FORGOTTEN,
    FRESH,
    FULL,
    GROW_STACK,
    GROW_TABLE,
    HAND_OVER,
    HORIZON,
    INDEX,
    KEY,
    MANY,
    MATCHES,
    NODE,
    NODES,
    NULL_BEFORE,
    NULL_NOW,
    NULLS_DIFFER,
    OUTPUT,
    OVERFLOW,
    PARTITION,
    PHASE,
    POSITIONS,
    ROOTS,
    SEEN,
    SINCE,
    STAMP,
    SWEEP,
    TOTAL,
    WENT_BACK,
    Events,
    Fresh,
    Output,
    Partitions,
    Settings,
    Steps,
)
from ceql.engine.groups.table import locate, occupy
from ceql.engine.states.layout import COUNT, ENUMERATE, FOLLOW, W_COUNTED, W_ENVELOPE
from ceql.engine.states.loop import NO_KEY
from ceql.jit import Array, inlined, kernel

LAST = np.iinfo(np.int64).max


@kernel
def advance(
    steps: Steps,
    nodes: Array,
    times: Array,
    extra: Array,
    slots: Array,
    entries: Array,
    regs: Array,
    parts: Partitions,
    fresh: Fresh,
    events: Events,
    out: Output,
    scratch: Array,
    nothing: Array,
    way: Array,
    settings: Settings,
    room: int,
    stop: int,
) -> int:
    """Process the events from `regs[EVENT]` to `stop`; DONE, or the reason to come back.

    `room` is how many nodes one event may make, at the most.
    """
    i = regs[EVENT]
    while i < stop:
        partition = events.partition[i]
        if partition < 0:
            i += 1
            continue
        if regs[PHASE] == FRESH:
            reason = _step(
                steps,
                nodes,
                times,
                extra,
                slots,
                entries,
                regs,
                parts,
                fresh,
                events,
                way,
                settings,
                room,
                i,
                partition,
            )
            if reason != DONE:
                regs[EVENT] = i
                return reason
            if regs[ROOTS] == 0:
                i += 1
                continue
            regs[PHASE] = OUTPUT
        if regs[PHASE] == OUTPUT:
            reason = _output(
                nodes, times, extra, regs, fresh.roots, events, out, scratch, nothing, settings, i, partition
            )
            if reason != DONE:
                regs[EVENT] = i
                return reason
            regs[PHASE] = AFTER
        if regs[TOTAL] >> 62:
            regs[EVENT] = i
            return FULL
        if regs[SEEN] > 0 and settings.consume > 0:
            parts.forgotten[partition] = events.position[i]
            if settings.consume == 2:
                regs[FORGOTTEN] = events.position[i]
        regs[SEEN] = 0
        regs[PHASE] = FRESH
        i += 1
    regs[EVENT] = i
    return DONE


@inlined
def _output(
    nodes: Array,
    times: Array,
    extra: Array,
    regs: Array,
    roots: Array,
    events: Events,
    out: Output,
    scratch: Array,
    nothing: Array,
    settings: Settings,
    i: int,
    partition: int,
) -> int:
    bound = regs[BOUND]
    if settings.mode == COUNT:
        found = tally(nodes, regs, roots, scratch, bound, bound == NO_KEY)
        if found < 0:
            return OVERFLOW
        if settings.limit > 0 and found > settings.limit:
            found = settings.limit
        regs[TOTAL] += found
        regs[SEEN] = found
        return DONE
    if len(out.stack_node) < regs[ROOTS] + 8:
        return GROW_STACK
    if settings.mode != ENUMERATE:
        for k in range(regs[ROOTS]):
            if nodes[roots[k], MAX] >= bound:
                return HAND_OVER
        return DONE
    first = regs[MATCHES]
    time = events.time[i] if len(times) > 0 else 0
    if settings.latest > 0:
        for k in range(regs[ROOTS]):
            bound = max(bound, nodes[roots[k], MAX])
    push_roots(nodes, regs, roots, out, bound)
    reason = unfold(
        nodes,
        times,
        extra,
        regs,
        out,
        nothing,
        settings,
        bound,
        np.int64(-1),
        LAST,
        events.position[i],
        time,
        partition,
    )
    if reason != DONE:
        regs[MATCHES] = first
        regs[POSITIONS] = out.offsets[first] if first > 0 else 0
        if reason == FULL and first == 0:
            return MANY
        return reason
    last = regs[MATCHES]
    if settings.ordered and last > first + 1:
        sort_by_start(out, first, last, len(times) > 0)
    if settings.limit > 0 and last > first + settings.limit:
        last = first + settings.limit
        regs[MATCHES] = last
        regs[POSITIONS] = out.offsets[last]
    regs[SEEN] = last - first
    return DONE


@inlined
def _step(
    steps: Steps,
    nodes: Array,
    times: Array,
    extra: Array,
    slots: Array,
    entries: Array,
    regs: Array,
    parts: Partitions,
    fresh: Fresh,
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
    if regs[NODES] + room > nodes.shape[0]:
        return SWEEP
    if regs[ENTRIES] + room > entries.shape[0]:
        return GROW_TABLE
    position = events.position[i]
    stamp = parts.seen[partition]
    key, bound = events.key[i], events.bound[i]
    exact = key
    dead = bound  # what starts before is dead for good
    if settings.window == W_COUNTED:
        key = stamp
        exact = key
        bound = key - settings.width
        dead = bound
        parts.bound[partition] = bound
    elif settings.window == W_ENVELOPE:
        dead = NO_KEY
        if bound < parts.floor[partition]:
            return WENT_BACK
        if key != NO_KEY and key > parts.counter[partition]:
            parts.counter[partition] = key
            parts.bound[partition] = bound
        key = parts.counter[partition]
    elif bound > regs[HORIZON]:
        regs[HORIZON] = bound
    parts.seen[partition] = stamp + 1
    regs[BOUND] = bound
    if begin == end:
        return DONE
    forgotten = max(regs[FORGOTTEN], parts.forgotten[partition])
    time = events.time[i] if len(times) > 0 else 0
    values = events.values
    made = 0
    roots = 0
    for o in range(begin, end):
        e = steps.order[o]
        if not _there(values, i, steps.need_terms, steps.needs[e], steps.needs[e + 1]):
            continue
        able = True
        most = key
        one, two = steps.links[e], steps.links[e + 1]
        if one == two and settings.chain and exact == NO_KEY:
            continue  # cannot start a match
        child = np.int64(-1)
        factors = two - one > 1
        for link in range(one, two):
            low, high = steps.link_keys[link], steps.link_keys[link + 1]
            if not _there(values, i, steps.link_terms, low, high):
                able = False
                break
            index = steps.link_index[link]
            at = locate(slots, entries, index, partition, values, i, steps.link_terms, low, high)
            if at < 0 or entries[at, SINCE] <= forgotten or (steps.tight[index] and entries[at, STAMP] != stamp - 1):
                able = False
                break
            found = entries[at, NODE]
            unlike = steps.link_unlike[link]
            start = nodes[found, MAX]
            if unlike >= 0:
                value = np.int64(values[i, unlike & ~NULLS_DIFFER])
                if value < 0 and unlike & NULLS_DIFFER:
                    value = np.int64(NULL_NOW)
                start = most_unlike(nodes, extra, found, value) if value != -1 else NO_START
                if start != NO_START:
                    found = new_node(nodes, regs, start, found, value, -1, OTHERS)
            if start < dead or start == NO_START:
                able = False
                break
            most = min(most, start)
            # what is made for nothing, when a later link fails, is left for the next sweep
            child = new_node(nodes, regs, most, found, child, -1, FACTOR) if factors else found
        if not able:
            continue
        n = new_node(nodes, regs, most, position, child, exact, steps.mark[e])
        if len(times) > 0:
            times[n] = time
        target = steps.target[e]
        fresh.state[made] = target
        fresh.node[made] = n
        made += 1
        if settings.mode == FOLLOW:
            if most >= bound:
                note(fresh.reached, e, target, position, time)
        elif steps.final[target]:
            fresh.roots[roots] = n
            roots += 1
    regs[ROOTS] = roots
    for m in range(made):
        state = fresh.state[m]
        for feed in range(steps.feeds[state], steps.feeds[state + 1]):
            low, high = steps.feed_keys[feed], steps.feed_keys[feed + 1]
            able = _there(values, i, steps.feed_terms, low, high)
            unlike = steps.feed_unlike[feed]
            value = np.int64(0)
            if unlike >= 0:
                value = np.int64(values[i, unlike & ~NULLS_DIFFER])
                if value < 0:
                    value = np.int64(NULL_BEFORE)
                    able = able and unlike & NULLS_DIFFER != 0
            if not able:
                continue
            index = steps.feed_index[feed]
            at = locate(slots, entries, index, partition, values, i, steps.feed_terms, low, high)
            heap = np.int64(-1)
            if at < 0:
                at = regs[ENTRIES]
                regs[ENTRIES] = at + 1
                entries[at, INDEX] = index
                entries[at, PARTITION] = partition
                for k in range(low, high):
                    entries[at, KEY + k - low] = values[i, steps.feed_terms[k]]
                occupy(slots, entries, at, high - low)
            elif entries[at, SINCE] > forgotten and (not steps.tight[index] or entries[at, STAMP] == stamp):
                heap = entries[at, NODE]
            if unlike >= 0:
                entries[at, NODE] = listed(nodes, extra, regs, heap, fresh.node[m], value)
            else:
                entries[at, NODE] = union(nodes, regs, heap, fresh.node[m], dead, way)
            entries[at, STAMP] = stamp
            entries[at, SINCE] = position
    return DONE


@inlined
def _there(values: Array, i: int, terms: Array, low: int, high: int) -> bool:
    """Whether none of an event's values is NULL."""
    for k in range(low, high):
        if values[i, terms[k]] < 0:
            return False
    return True


def room_for(steps: Steps) -> int:
    """How many nodes, and table entries, one event may make."""
    counts = np.diff(steps.by_symbol)
    fired = int(counts.max()) if len(counts) else 0
    links = np.diff(steps.links)
    feeds = np.diff(steps.feeds)
    most_links = int(links.max()) if len(links) else 0
    most_feeds = int(feeds.max()) if len(feeds) else 0
    return fired * (1 + 2 * most_links + most_feeds * (WAY + 2)) + 8
