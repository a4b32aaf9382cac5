"""Algorithm 1 of pcea-hcq-2024 over symbols and numbered values.

`advance` takes the events of a batch one after the other: it fires the transitions that the event's guards allow and
for which runs wait under its values, files the new runs under theirs, and notes the complete ones (`Roots`). That is
all: what is done with them is the readers' business, which the caller lets read before it goes on. When the loop needs
the caller (a full graph, no room for roots) it returns why, with everything stored, and is called again to go on at the
very same event.
"""

from __future__ import annotations

import numpy as np

from ceql.engine.common.layout import (
    AFTER,
    DONE,
    EVENT,
    FRESH,
    HAND_OVER,
    LEAST,
    NODES,
    OUTPUT,
    PHASE,
    ROOTS,
    SEEN,
    W_COUNTED,
    Events,
)
from ceql.engine.common.reached import Reached
from ceql.engine.groups.ahead import AHEAD, hash_lookups, is_far, look_ahead
from ceql.engine.groups.carried_step import step_carried
from ceql.engine.groups.graph import MAX, WAY
from ceql.engine.groups.layout import (
    AT_BOUND,
    AT_END,
    AT_FIRST,
    AT_KEY,
    AT_NODES,
    AT_PARTITION,
    AT_POSITION,
    AT_TIME,
    FORGOTTEN,
    FORGOTTEN_HERE,
    NOTED,
    NOTED_NODES,
    READ_FIRST,
    UNREAD,
    Carrier,
    Roots,
    Settings,
    Steps,
    Store,
)
from ceql.engine.groups.rings import free_left
from ceql.engine.groups.step import step
from ceql.jit import Array, inlined, kernel


@kernel
def advance(
    steps: Steps,
    plain: Array | None,
    carrier: Carrier | None,
    store: Store,
    reached: Reached,
    roots: Roots,
    events: Events,
    settings: Settings,
    room: int,
    stop: int,
) -> int:
    """Process the events from `regs[EVENT]` to `stop`; DONE, or the reason to come back.

    `room` is how many nodes one event may make, at the most. `carrier` is there if runs carry registers, and `plain` if
    they do not: these are two loops, as Numba compiles nothing that needs what is None.
    """
    nodes, regs, parts, fresh = store.nodes, store.regs, store.parts, store.fresh
    i = regs[EVENT]
    if plain is not None:
        far = is_far(store.slots)
        for k in range(i, min(i + AHEAD, stop)):
            hash_lookups(steps, store.slots, fresh.hashes, events, k, far)
    if carrier is not None and regs[NOTED] == 0:
        free_left(carrier, regs)
    while i < stop:
        if plain is not None:
            look_ahead(steps, store.slots, store.entries, nodes, fresh.hashes, events, i, stop, far)
        partition = events.partition[i]
        if partition < 0:
            i += 1
            continue
        if regs[PHASE] == FRESH:
            reason = np.int64(DONE)
            if plain is not None:
                reason = step(steps, store, reached, events, settings, room, i, partition)
            if carrier is not None:
                reason = step_carried(steps, carrier, store, reached, events, settings, room, i, partition)
            if reason != DONE:
                regs[EVENT] = i
                return reason
            if regs[ROOTS] == 0:
                i += 1
                continue
            regs[PHASE] = OUTPUT
        if regs[PHASE] == OUTPUT:
            reason = _note(nodes, regs, fresh.roots, roots, events, settings, i, len(store.times) > 0)
            if reason != DONE:
                regs[EVENT] = i
                return reason
            regs[PHASE] = AFTER
        if regs[SEEN] > 0 and settings.consume > 0:
            parts[partition, FORGOTTEN_HERE] = events.position[i]
            if settings.consume == 2:
                regs[FORGOTTEN] = events.position[i]
        regs[SEEN] = 0
        regs[PHASE] = FRESH
        i += 1
    regs[EVENT] = i
    return DONE


@inlined
def _note(
    nodes: Array, regs: Array, found: Array, roots: Roots, events: Events, settings: Settings, i: int, timed: bool
) -> int:
    """Take down the complete runs of an event that are inside the window. Each has a match, as far as max-starts tell;
    where they do not, the caller says so (HAND_OVER)."""
    bound, last, end = regs[LEAST], regs[NOTED], regs[NOTED_NODES]
    live = 0
    for k in range(regs[ROOTS]):
        live += np.int64(nodes[found[k], MAX] >= bound)
    regs[SEEN] = live
    if live == 0 or not settings.notes:
        return DONE
    if last == len(roots.at) or end + live > len(roots.node):
        return READ_FIRST
    roots.at[last, AT_POSITION] = events.position[i]
    roots.at[last, AT_TIME] = events.time[i] if timed else 0
    roots.at[last, AT_PARTITION] = events.partition[i]
    roots.at[last, AT_BOUND] = bound
    roots.at[last, AT_KEY] = bound + settings.width if settings.window == W_COUNTED else events.key[i]
    roots.at[last, AT_FIRST] = end
    roots.at[last, AT_NODES] = regs[NODES]
    for k in range(regs[ROOTS]):
        if nodes[found[k], MAX] >= bound:
            roots.node[end] = found[k]
            end += 1
    roots.at[last, AT_END] = end
    regs[NOTED_NODES] = end
    regs[NOTED] = last + 1
    regs[UNREAD] = min(regs[UNREAD], bound)
    return HAND_OVER if settings.waits else DONE


def room_for(steps: Steps) -> int:
    """How many nodes, and table entries, one event may make."""
    counts = np.diff(steps.by_symbol)
    fired = int(counts.max()) if len(counts) else 0
    links = np.diff(steps.links)
    feeds = np.diff(steps.feeds)
    most_links = int(links.max()) if len(links) else 0
    most_feeds = int(feeds.max()) if len(feeds) else 0
    return fired * (1 + 2 * most_links + most_feeds * (WAY + 2)) + 8
