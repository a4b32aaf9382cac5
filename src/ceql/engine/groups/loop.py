"""Algorithm 1 of pcea-hcq-2024 over symbols and numbered values.

`advance` takes the events of a batch one after the other: it fires the transitions that the event's guards allow and
for which runs wait under its values, files the new runs under theirs, and hands on to the enumeration at a position
with complete runs. When it needs the caller (full buffers, a full graph) it returns why, with everything stored,
and is called again to go on at the very same event.
"""

from __future__ import annotations

import numpy as np

from ceql.engine.common.layout import (
    AFTER,
    BLOCKS,
    COLLECT,
    DONE,
    EVENT,
    FRESH,
    FULL,
    GROW_PATH,
    HAND_OVER,
    LEAST,
    MATCHES,
    MORE,
    NO_KEY,
    NODES,
    OFFSET,
    OUTPUT,
    PHASE,
    POSITIONS,
    ROOTS,
    SEEN,
    TOTAL,
    W_COUNTED,
    W_GIVEN,
    WENT_BACK,
    Events,
    Output,
)
from ceql.engine.common.order import is_sorted, sort_by_start
from ceql.engine.common.reached import Reached, note
from ceql.engine.common.window import apply_window
from ceql.engine.groups.carried_step import step_carried
from ceql.engine.groups.count import count_pending, wait_to_be_counted
from ceql.engine.groups.ending import end_all, ended_up_to
from ceql.engine.groups.enumerate import push_roots, search
from ceql.engine.groups.graph import FACTOR, MAX, NO_START, NONE, OTHERS, WAY, listed, most_unlike, new_node, union
from ceql.engine.groups.layout import (
    ENTRIES,
    FORGOTTEN,
    FORGOTTEN_HERE,
    GROW_TABLE,
    NODE,
    NULL_BEFORE,
    NULL_NOW,
    NULLS_DIFFER,
    PENDING,
    PENDING_DONE,
    SEEN_EVENTS,
    SINCE,
    STAMP,
    Carrier,
    Counting,
    Fresh,
    Settings,
    Steps,
)
from ceql.engine.groups.table import are_there, locate, new_entry, take_key
from ceql.jit import Array, inlined, kernel

LAST = np.iinfo(np.int64).max


@kernel
def advance(
    steps: Steps,
    plain: Array | None,
    carrier: Carrier | None,
    ending: Array | None,
    nodes: Array,
    times: Array,
    extra: Array | None,
    slots: Array,
    entries: Array,
    regs: Array,
    parts: Array,
    fresh: Fresh,
    reached: Reached | None,
    events: Events,
    out: Output | None,
    more: Array | None,
    counting: Counting | None,
    nothing: Array,
    way: Array,
    settings: Settings,
    room: int,
    stop: int,
) -> int:
    """Process the events from `regs[EVENT]` to `stop`; DONE, or the reason to come back.

    `room` is how many nodes one event may make, at the most. Matches are written to `out`, or counted with `counting`,
    or the caller chooses. With `reached`, none is made. `carrier` is there if runs carry registers,
    and `plain` if they do not; `ending` if NOT ends groups, `extra` if runs are in lists, and with `more` nothing is
    left out of the compiled code: Numba compiles nothing that needs what is None.
    """
    together = settings.window == W_GIVEN or (settings.window == W_COUNTED and parts.shape[0] == 1)
    if counting is not None and regs[PENDING_DONE] > 0:  # it came back in the middle of this
        reason = count_pending(carrier, nodes, regs, counting, settings.limit, together, settings.block)
        if reason != DONE:
            return reason
    i = regs[EVENT]
    counted_by = regs[LEAST]  # the bound at which positions have waited long enough
    while i < stop:
        partition = events.partition[i]
        if partition < 0:
            i += 1
            continue
        if regs[PHASE] == FRESH:
            reason = np.int64(DONE)
            if counting is not None and regs[PENDING] > 0 and regs[LEAST] > counted_by:  # rows are kept for them
                reason = count_pending(carrier, nodes, regs, counting, settings.limit, together, settings.block)
                if reason != DONE:
                    regs[EVENT] = i
                    return reason
            if plain is not None:
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
                    reached,
                    events,
                    way,
                    settings,
                    room,
                    i,
                    partition,
                )
            if carrier is not None:
                reason = step_carried(
                    steps,
                    carrier,
                    ending,
                    nodes,
                    times,
                    slots,
                    entries,
                    regs,
                    parts,
                    fresh,
                    reached,
                    events,
                    way,
                    settings,
                    counting,
                    room,
                    i,
                    partition,
                )
            if reason != DONE:
                regs[EVENT] = i
                if counting is not None:  # before nodes and rows get other places
                    before = count_pending(carrier, nodes, regs, counting, settings.limit, together, settings.block)
                    return reason if before == DONE else before
                return reason
            if regs[ROOTS] == 0:
                i += 1
                continue
            regs[PHASE] = OUTPUT
        if regs[PHASE] == OUTPUT:
            reason = np.int64(DONE)
            if out is None and counting is None and _any_live(nodes, regs, fresh.roots):
                reason = np.int64(HAND_OVER)
            if out is not None:
                time = events.time[i] if len(times) > 0 else np.int64(0)
                reason = _enumerate(
                    carrier,
                    nodes,
                    times,
                    extra,
                    regs,
                    fresh.roots,
                    out,
                    more,
                    nothing,
                    settings,
                    events.position[i],
                    time,
                    partition,
                )
            if counting is not None:
                if regs[PENDING] == 0:  # until its window has no event in common with the current one
                    counted_by = regs[LEAST] + settings.width if settings.window == W_COUNTED else events.key[i]
                reason = wait_to_be_counted(
                    carrier,
                    nodes,
                    regs,
                    fresh.roots,
                    counting,
                    settings.limit,
                    settings.lanes,
                    together,
                    settings.block,
                )
            if reason != DONE:
                regs[EVENT] = i
                return reason
            regs[PHASE] = AFTER
        if regs[TOTAL] >> 62:
            regs[EVENT] = i
            return FULL
        if regs[SEEN] > 0 and settings.consume > 0:
            parts[partition, FORGOTTEN_HERE] = events.position[i]
            if settings.consume == 2:
                regs[FORGOTTEN] = events.position[i]
        regs[SEEN] = 0
        regs[PHASE] = FRESH
        i += 1
    regs[EVENT] = i
    if counting is not None:
        return count_pending(carrier, nodes, regs, counting, settings.limit, together, settings.block)
    return DONE


@inlined
def _any_live(nodes: Array, regs: Array, roots: Array) -> bool:
    """Whether some complete run is inside the window."""
    found = False
    for k in range(regs[ROOTS]):
        found = found or nodes[roots[k], MAX] >= regs[LEAST]
    return found


@inlined
def _enumerate(
    carrier: Carrier | None,
    nodes: Array,
    times: Array,
    extra: Array | None,
    regs: Array,
    roots: Array,
    out: Output,
    more: Array | None,
    nothing: Array,
    settings: Settings,
    position: int,
    time: int,
    partition: int,
) -> int:
    """Write the matches of the current event; nothing is written unless all of them fit."""
    if out.stack.shape[0] < regs[ROOTS] + 8:
        return GROW_PATH
    bound = regs[LEAST]
    first = regs[MATCHES]
    if settings.latest > 0:
        for k in range(regs[ROOTS]):
            bound = max(bound, nodes[roots[k], MAX])
    push_roots(nodes, regs, roots, out, bound)
    reason = search(
        carrier, nodes, times, extra, regs, out, nothing, settings, bound, np.int64(-1), LAST, position, time, partition
    )
    if reason != DONE:
        regs[MATCHES] = first
        regs[POSITIONS] = out.match[OFFSET, first] if first > 0 else 0
        return BLOCKS if reason == FULL and first == 0 else reason
    last = regs[MATCHES]
    if settings.ordered and not is_sorted(out.match, first, last):
        if more is None:
            regs[MATCHES] = first
            regs[POSITIONS] = out.match[OFFSET, first]
            return MORE
        sort_by_start(out, first, last, len(times) > 0)
    if settings.limit > 0 and last - first > settings.limit:
        last = first + settings.limit
        regs[MATCHES] = last
        regs[POSITIONS] = out.match[OFFSET, last]
    regs[SEEN] = last - first
    return DONE


@inlined
def _step(
    steps: Steps,
    nodes: Array,
    times: Array,
    extra: Array | None,
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
    time = events.time[i] if len(times) > 0 else np.int64(0)
    values = events.values
    made = 0
    roots = 0
    for o in range(begin, end):
        e = steps.order[o]
        if not are_there(values, i, steps.need_terms, steps.needs[e], steps.needs[e + 1]):
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
            if not are_there(values, i, steps.link_terms, low, high):
                able = False
                break
            index = steps.link_index[link]
            width = take_key(fresh.key, values, i, steps.link_terms, low, high)
            at = locate(slots, entries, index, partition, fresh.key, width)
            ended = ended_up_to(steps, parts, partition, index, forgotten)
            if at < 0 or entries[at, SINCE] <= ended or (steps.tight[index] and entries[at, STAMP] != stamp - 1):
                able = False
                break
            found = entries[at, NODE]
            unlike = steps.link_unlike[link]
            start = nodes[found, MAX]
            if extra is not None and unlike >= 0:
                value = np.int64(values[i, unlike & ~NULLS_DIFFER])
                if value < 0 and unlike & NULLS_DIFFER:
                    value = np.int64(NULL_NOW)
                start = most_unlike(nodes, extra, found, value) if value != -1 else NO_START
                if start != NO_START:
                    found = new_node(nodes, regs, start, found, value, NONE, np.int64(OTHERS))
            if start < dead or start == NO_START:
                able = False
                break
            most = min(most, start)
            # if a later link fails, the nodes made so far stay unreachable until the next collection
            child = new_node(nodes, regs, most, found, child, NONE, np.int64(FACTOR)) if factors else found
        if not able:
            continue
        n = new_node(nodes, regs, most, position, child, exact, np.int64(steps.mark[e]))
        if len(times) > 0:
            times[n] = time
        target = steps.target[e]
        fresh.state[made] = target
        fresh.node[made] = n
        made += 1
        if reached is not None:
            if most >= bound:
                note(reached, e, target, position, time)
        elif steps.final[target]:
            fresh.roots[roots] = n
            roots += 1
    regs[ROOTS] = roots
    end_all(steps, parts, partition, symbol, position)
    for m in range(made):
        state = fresh.state[m]
        for feed in range(steps.feeds[state], steps.feeds[state + 1]):
            low, high = steps.feed_keys[feed], steps.feed_keys[feed + 1]
            able = are_there(values, i, steps.feed_terms, low, high)
            unlike = steps.feed_unlike[feed]
            value = np.int64(0)
            if extra is not None and unlike >= 0:
                value = np.int64(values[i, unlike & ~NULLS_DIFFER])
                if value < 0:
                    value = np.int64(NULL_BEFORE)
                    able = able and unlike & NULLS_DIFFER != 0
            if not able:
                continue
            index = steps.feed_index[feed]
            width = take_key(fresh.key, values, i, steps.feed_terms, low, high)
            at = locate(slots, entries, index, partition, fresh.key, width)
            heap = np.int64(-1)
            if at < 0:
                at = new_entry(slots, entries, regs, index, partition, fresh.key, width)
            elif entries[at, SINCE] > ended_up_to(steps, parts, partition, index, forgotten) and (
                not steps.tight[index] or entries[at, STAMP] == stamp
            ):
                heap = entries[at, NODE]
            if extra is not None and unlike >= 0:
                entries[at, NODE] = listed(nodes, extra, regs, heap, fresh.node[m], value)
            else:
                entries[at, NODE] = union(nodes, regs, heap, fresh.node[m], dead, way)
            entries[at, STAMP] = stamp
            entries[at, SINCE] = position
    return DONE


def room_for(steps: Steps) -> int:
    """How many nodes, and table entries, one event may make."""
    counts = np.diff(steps.by_symbol)
    fired = int(counts.max()) if len(counts) else 0
    links = np.diff(steps.links)
    feeds = np.diff(steps.feeds)
    most_links = int(links.max()) if len(links) else 0
    most_feeds = int(feeds.max()) if len(feeds) else 0
    return fired * (1 + 2 * most_links + most_feeds * (WAY + 2)) + 8
