"""The look-up table H of pcea-hcq-2024, Algorithm 1: from an index, a substream and a key to the runs that wait there.

Entries stand one after the other; `slots` is a hash table of their numbers. A slot has half a hash, and an entry's
number + 1; 0 is empty.
"""

from __future__ import annotations

import numpy as np

from ceql.engine.groups.layout import ENTRIES, INDEX, KEY, SUBSTREAM
from ceql.jit import LOWER, Array, inlined, kernel, mix


@inlined
def are_there(values: Array, i: int, terms: Array, low: int, high: int) -> bool:
    """Whether none of an event's values is NULL."""
    for k in range(low, high):
        if values[i, terms[k]] < 0:
            return False
    return True


@inlined
def take_key(key: Array, values: Array, i: int, terms: Array, low: int, high: int) -> int:
    """Put an event's values of some terms into `key`; how many they are."""
    for k in range(low, high):
        key[k - low] = values[i, terms[k]]
    return high - low


@inlined
def locate(slots: Array, entries: Array, index: int, partition: int, key: Array, width: int) -> int:
    """The entry of a key, or -1."""
    h = mix(np.int64(index), np.int64(partition))
    for k in range(width):
        h = mix(h, key[k])
    h = mix(h, np.int64(width))
    half = (h >> 32) << 32
    mask = len(slots) - 1
    at = (h >> 32) & mask
    while True:
        slot = slots[at]
        if slot == 0:
            return -1
        if (slot >> 32) << 32 == half:
            e = (slot & LOWER) - 1
            if entries[e, INDEX] == index and entries[e, SUBSTREAM] == partition:
                same = True
                for k in range(width):
                    if entries[e, KEY + k] != key[k]:
                        same = False
                        break
                if same:
                    return e
        at = (at + 1) & mask


@inlined
def new_entry(slots: Array, entries: Array, regs: Array, index: int, partition: int, key: Array, width: int) -> int:
    """An entry for a key that has none; there is room for it."""
    at = regs[ENTRIES]
    regs[ENTRIES] = at + 1
    entries[at, INDEX] = index
    entries[at, SUBSTREAM] = partition
    for k in range(width):
        entries[at, KEY + k] = key[k]
    occupy(slots, entries, at, width)
    return at


@inlined
def occupy(slots: Array, entries: Array, e: int, width: int) -> None:
    """Put an entry into the hash table, which does not have it."""
    h = mix(entries[e, INDEX], entries[e, SUBSTREAM])
    for k in range(width):
        h = mix(h, entries[e, KEY + k])
    h = mix(h, np.int64(width))
    mask = len(slots) - 1
    at = (h >> 32) & mask
    while slots[at] != 0:
        at = (at + 1) & mask
    slots[at] = ((h >> 32) << 32) | np.int64(e + 1)


@kernel
def fill(slots: Array, entries: Array, regs: Array, widths: Array) -> None:
    """Make the hash table of all entries; `widths` has the length of each index's keys."""
    for k in range(len(slots)):
        slots[k] = 0
    for e in range(regs[ENTRIES]):
        occupy(slots, entries, e, widths[entries[e, INDEX]])
