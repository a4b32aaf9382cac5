"""Hashes what coming events will look up, and prefetches it before their turn.

Where the look-up table is far larger than the nearer caches, most of a step is waiting for memory. Which slot of the
hash table an event will look at is known as soon as the event is; so the slots are asked for some events ahead, then
the entries that they lead to, then the nodes of these. A look-up that several transitions of an event share is hashed
once.
"""

from __future__ import annotations

import numpy as np

from ceql.engine.common.layout import Events
from ceql.engine.groups.layout import NODE, Fresh, Steps
from ceql.engine.groups.table import hash_of
from ceql.jit import LOWER, Array, Word, inlined, mix, prefetch

RING = 16  # events whose hashes are kept: a power of two
AHEAD, NEARER, NEXT = 12, 8, 4  # events before their turn: slots, entries, nodes are asked for
_FAR = 1 << 15  # slots: tables with fewer are near by themselves


@inlined
def is_far(slots: Array) -> bool:
    """Whether the table is so large that look-ups wait for it."""
    return len(slots) > _FAR


@inlined
def hash_lookups(steps: Steps, slots: Array, hashes: Array, events: Events, i: int, far: bool) -> None:
    """Hash what event i surely looks up."""
    symbol, partition = events.symbol[i], np.int64(events.partition[i])
    mask = len(slots) - 1
    for k in range(steps.lookups[symbol], steps.lookups[symbol + 1]):
        number = steps.lookup[k]
        low, high = steps.lookup_keys[number], steps.lookup_keys[number + 1]
        h = mix(np.int64(steps.lookup_index[number]), partition)
        for term in range(low, high):
            h = mix(h, np.int64(events.values[i, steps.lookup_terms[term]]))
        h = mix(h, np.int64(high - low))
        hashes[i & (RING - 1), number] = h
        if far:
            prefetch(slots, (h >> 32) & mask)


@inlined
def hash_ahead(fresh: Fresh, i: int, number: int, index: int, partition: int, width: int) -> Word:
    """The hash of the key in `fresh`, which event i looks up; `number` is that of the look-up, or -1."""
    return fresh.hashes[i & (RING - 1), number] if number >= 0 else hash_of(index, partition, fresh.key, width)


@inlined
def look_ahead(
    steps: Steps,
    slots: Array,
    entries: Array,
    nodes: Array,
    hashes: Array,
    events: Events,
    i: int,
    stop: int,
    far: bool,
) -> None:
    """While event i has its turn, hash what a later one looks up; if that is far, ask for what others need."""
    if i + AHEAD < stop:
        hash_lookups(steps, slots, hashes, events, i + AHEAD, far)
    if far and i + NEARER < stop:
        mask = len(slots) - 1
        j = i + NEARER
        for k in range(steps.lookups[events.symbol[j]], steps.lookups[events.symbol[j] + 1]):
            slot = slots[(hashes[j & (RING - 1), steps.lookup[k]] >> 32) & mask]
            if slot != 0:
                prefetch(entries, (slot & LOWER) - 1)
        j = i + NEXT
        for k in range(steps.lookups[events.symbol[j]], steps.lookups[events.symbol[j] + 1]):
            slot = slots[(hashes[j & (RING - 1), steps.lookup[k]] >> 32) & mask]
            if slot != 0:
                prefetch(nodes, entries[(slot & LOWER) - 1, NODE])
