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
    NOTED,
    OUTPUT,
    PHASE,
    ROOTS,
    SEEN,
    Events,
    Settings,
)
from ceql.engine.common.reached import Reached
from ceql.engine.common.roots import Roots, note_roots
from ceql.engine.groups.ahead import AHEAD, hash_lookups, is_far, look_ahead
from ceql.engine.groups.carried_step import step_carried
from ceql.engine.groups.graph import WAY
from ceql.engine.groups.layout import FORGOTTEN, FORGOTTEN_HERE, Carrier, Steps, Store
from ceql.engine.groups.rings import free_left
from ceql.engine.groups.step import step
from ceql.jit import Array, kernel


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
            reason = note_roots(
                nodes, regs, fresh.roots, roots, events, settings.window, settings.width, settings.notes, i
            )
            if reason == DONE and settings.waits and regs[SEEN] > 0:
                reason = np.int64(HAND_OVER)
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


def room_for(steps: Steps) -> int:
    """How many nodes, and table entries, one event may make."""
    counts = np.diff(steps.by_symbol)
    fired = int(counts.max()) if len(counts) else 0
    links = np.diff(steps.links)
    feeds = np.diff(steps.feeds)
    most_links = int(links.max()) if len(links) else 0
    most_feeds = int(feeds.max()) if len(feeds) else 0
    return fired * (1 + 2 * most_links + most_feeds * (WAY + 2)) + 8
