"""A step of the loop where runs carry nothing: they are found by values of their last event alone."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ceql.engine.common.graph import FACTOR, MAX, NO_START, NONE, OTHERS
from ceql.engine.common.layout import COLLECT, DONE, LEAST, NO_KEY, NODES, ROOTS, WENT_BACK, Events, Settings
from ceql.engine.common.reached import Reached, note
from ceql.engine.common.window import apply_window
from ceql.engine.groups.ahead import hash_ahead
from ceql.engine.groups.ending import end_all, ended_up_to
from ceql.engine.groups.graph import listed, most_unlike, new_node, union
from ceql.engine.groups.layout import (
    ENTRIES,
    FORGOTTEN,
    FORGOTTEN_HERE,
    GROW_TABLE,
    NODE,
    NULL_BEFORE,
    NULL_NOW,
    NULLS_DIFFER,
    SEEN_EVENTS,
    SINCE,
    STAMP,
    Steps,
    Store,
)
from ceql.engine.groups.table import are_there, locate_by, new_entry_by, take_key
from ceql.jit import Array, inlined


class _Now(NamedTuple):
    """The event at hand."""

    i: int
    partition: int
    position: int
    key: int
    exact: int
    dead: int
    stamp: int
    forgotten: int


@inlined
def step(
    steps: Steps, store: Store, reached: Reached, events: Events, settings: Settings, room: int, i: int, partition: int
) -> int:
    """Fire the transitions and update the indexes. Nothing is changed unless it can be done whole."""
    nodes, times, entries, regs, parts = store.nodes, store.times, store.entries, store.regs, store.parts
    fresh, symbol = store.fresh, events.symbol[i]
    begin, end = steps.by_symbol[symbol], steps.by_symbol[symbol + 1]
    regs[ROOTS] = 0
    if regs[NODES] + room > nodes.shape[0]:
        return COLLECT
    if regs[ENTRIES] + room > entries.shape[0]:
        return GROW_TABLE
    position = events.position[i]
    stamp = parts[partition, SEEN_EVENTS]
    able, key, exact, bound, dead = apply_window(
        regs, parts, partition, settings.window, settings.width, events.key[i], events.bound[i]
    )
    if not able:
        return WENT_BACK
    parts[partition, SEEN_EVENTS] = stamp + 1
    regs[LEAST] = bound
    if begin == end:
        end_all(steps, parts, partition, symbol, position)
        return DONE
    forgotten = max(regs[FORGOTTEN], parts[partition, FORGOTTEN_HERE])
    now = _Now(i, partition, position, key, exact, dead, stamp, forgotten)
    time = events.time[i] if len(times) > 0 else np.int64(0)
    values = events.values
    made = 0
    roots = 0
    looked_up = np.int32(-1)  # the last look-up, which often is the next one too; and what it found
    at = np.int64(-1)
    for o in range(begin, end):
        e = steps.order[o]
        if not are_there(values, i, steps.need_terms, steps.needs[e], steps.needs[e + 1]):
            continue
        if steps.links[e] == steps.links[e + 1] and settings.chain and exact == NO_KEY:
            continue  # cannot start a match
        able, most, child, looked_up, at = _find(steps, store, values, now, e, looked_up, at)
        if not able:
            continue
        n = new_node(nodes, regs, most, position, child, exact, np.int64(steps.mark[e]))
        if len(times) > 0:
            times[n] = time
        target = steps.target[e]
        fresh.state[made] = target
        fresh.node[made] = n
        made += 1
        if len(reached.fired) > 0:
            if most >= bound:
                note(reached, e, target, position, time)
        elif steps.final[target]:
            fresh.roots[roots] = n
            roots += 1
    regs[ROOTS] = roots
    end_all(steps, parts, partition, symbol, position)
    for m in range(made):
        _file(steps, store, values, now, m)
    return DONE


@inlined
def _find(
    steps: Steps, store: Store, values: Array, now: _Now, e: int, looked_up: int, at: int
) -> tuple[bool, int, int, int, int]:
    """Find the runs that a transition goes on from. `looked_up` is the last look-up, and `at` what it found.

    Returns whether there are any for each link, their max-start, their node, and the last look-up with what it found.
    """
    nodes, extra, entries, regs, fresh = store.nodes, store.extra, store.entries, store.regs, store.fresh
    most, child = now.key, np.int64(-1)
    one, two = steps.links[e], steps.links[e + 1]
    factors = two - one > 1
    for link in range(one, two):
        low, high = steps.link_keys[link], steps.link_keys[link + 1]
        if not are_there(values, now.i, steps.link_terms, low, high):
            return False, most, child, looked_up, at
        index = steps.link_index[link]
        number = steps.link_lookup[link]
        if number < 0 or number != looked_up:
            looked_up = number
            width = take_key(fresh.key, values, now.i, steps.link_terms, low, high)
            h = hash_ahead(fresh, now.i, number, index, now.partition, width)
            at = locate_by(store.slots, entries, h, index, now.partition, fresh.key, width)
        ended = ended_up_to(steps, store.parts, now.partition, index, now.forgotten)
        if at < 0 or entries[at, SINCE] <= ended or (steps.tight[index] and entries[at, STAMP] != now.stamp - 1):
            return False, most, child, looked_up, at
        found = entries[at, NODE]
        unlike = steps.link_unlike[link]
        start = nodes[found, MAX]
        if unlike >= 0:
            value = np.int64(values[now.i, unlike & ~NULLS_DIFFER])
            if value < 0 and unlike & NULLS_DIFFER:
                value = np.int64(NULL_NOW)
            start = most_unlike(nodes, extra, found, value) if value != -1 else NO_START
            if start != NO_START:
                found = new_node(nodes, regs, start, found, value, NONE, np.int64(OTHERS))
        if start < now.dead or start == NO_START:
            return False, most, child, looked_up, at
        most = min(most, start)
        # if a later link fails, the nodes made so far stay unreachable until the next collection
        child = new_node(nodes, regs, most, found, child, NONE, np.int64(FACTOR)) if factors else found
    return True, most, child, looked_up, at


@inlined
def _file(steps: Steps, store: Store, values: Array, now: _Now, m: int) -> None:
    """Enter a new run in the indexes that its state feeds."""
    nodes, entries, regs, fresh, index_of = store.nodes, store.entries, store.regs, store.fresh, steps.feed_index
    state = fresh.state[m]
    for feed in range(steps.feeds[state], steps.feeds[state + 1]):
        low, high = steps.feed_keys[feed], steps.feed_keys[feed + 1]
        able = are_there(values, now.i, steps.feed_terms, low, high)
        unlike = steps.feed_unlike[feed]
        value = np.int64(0)
        if unlike >= 0:
            value = np.int64(values[now.i, unlike & ~NULLS_DIFFER])
            if value < 0:
                value = np.int64(NULL_BEFORE)
                able = able and unlike & NULLS_DIFFER != 0
        if not able:
            continue
        index = index_of[feed]
        width = take_key(fresh.key, values, now.i, steps.feed_terms, low, high)
        h = hash_ahead(fresh, now.i, steps.feed_lookup[feed], index, now.partition, width)
        at = locate_by(store.slots, entries, h, index, now.partition, fresh.key, width)
        heap = np.int64(-1)
        if at < 0:
            at = new_entry_by(store.slots, entries, regs, h, index, now.partition, fresh.key, width)
        elif entries[at, SINCE] > ended_up_to(steps, store.parts, now.partition, index, now.forgotten) and (
            not steps.tight[index] or entries[at, STAMP] == now.stamp
        ):
            heap = entries[at, NODE]
        if unlike >= 0:
            entries[at, NODE] = listed(nodes, store.extra, regs, heap, fresh.node[m], value)
        else:
            entries[at, NODE] = union(nodes, regs, heap, fresh.node[m], now.dead, store.way)
        entries[at, STAMP] = now.stamp
        entries[at, SINCE] = now.position
