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
    DONE,
    EVENT,
    FRESH,
    FULL,
    GROW_PATH,
    HAND_OVER,
    LEAST,
    MATCHES,
    MORE,
    OFFSET,
    OUTPUT,
    PHASE,
    POSITIONS,
    ROOTS,
    SEEN,
    TOTAL,
    W_COUNTED,
    W_GIVEN,
    Events,
    Output,
)
from ceql.engine.common.order import is_sorted, sort_by_start
from ceql.engine.common.reached import Reached
from ceql.engine.groups.ahead import AHEAD, hash_lookups, is_far, look_ahead
from ceql.engine.groups.carried_step import step_carried
from ceql.engine.groups.count import count_pending, wait_to_be_counted
from ceql.engine.groups.enumerate import push_roots, search
from ceql.engine.groups.graph import MAX, WAY
from ceql.engine.groups.layout import (
    FORGOTTEN,
    FORGOTTEN_HERE,
    PENDING,
    PENDING_DONE,
    Carrier,
    Counting,
    Fresh,
    Settings,
    Steps,
    Store,
)
from ceql.engine.groups.step import step
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
    store = Store(nodes, times, slots, entries, regs, parts, fresh, way)
    i = regs[EVENT]
    counted_by = regs[LEAST]  # the bound at which positions have waited long enough
    if plain is not None:
        far = is_far(slots)
        for k in range(i, min(i + AHEAD, stop)):
            hash_lookups(steps, slots, fresh.hashes, events, k, far)
    while i < stop:
        if plain is not None:
            look_ahead(steps, slots, entries, nodes, fresh.hashes, events, i, stop, far)
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
                reason = step(steps, store, extra, reached, events, settings, room, i, partition)
            if carrier is not None:
                reason = step_carried(
                    steps, carrier, ending, store, reached, events, settings, counting, room, i, partition
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
        many = first == 0 or regs[MATCHES] - first >= settings.few
        regs[MATCHES] = first
        regs[POSITIONS] = out.match[OFFSET, first] if first > 0 else 0
        return BLOCKS if reason == FULL and many else reason
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


def room_for(steps: Steps) -> int:
    """How many nodes, and table entries, one event may make."""
    counts = np.diff(steps.by_symbol)
    fired = int(counts.max()) if len(counts) else 0
    links = np.diff(steps.links)
    feeds = np.diff(steps.feeds)
    most_links = int(links.max()) if len(links) else 0
    most_feeds = int(feeds.max()) if len(feeds) else 0
    return fired * (1 + 2 * most_links + most_feeds * (WAY + 2)) + 8
