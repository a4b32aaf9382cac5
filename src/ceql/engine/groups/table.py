"""The look-up table H of pcea-hcq-2024, Algorithm 1: from an index, a substream and a key to the runs that wait there.

Entries stand one after the other; `slots` is a hash table of their numbers. A slot has half a hash, and an entry's
number + 1; 0 is empty.
"""

from __future__ import annotations

import numpy as np

from ceql.engine.groups.layout import ENTRIES, HEADS, INDEX, KEY, SUBSTREAM, Carrier, Store
from ceql.jit import LOWER, Array, Word, inlined, kernel, mix


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
def hash_of(index: int, partition: int, key: Array, width: int) -> Word:
    """The hash of a key of an index in a substream."""
    h = mix(np.int64(index), np.int64(partition))
    for k in range(width):
        h = mix(h, key[k])
    return mix(h, np.int64(width))


@inlined
def locate(slots: Array, entries: Array, index: int, partition: int, key: Array, width: int) -> int:
    """The entry of a key, or -1."""
    return locate_by(slots, entries, hash_of(index, partition, key, width), index, partition, key, width)


@inlined
def locate_by(slots: Array, entries: Array, h: int, index: int, partition: int, key: Array, width: int) -> int:
    """The same for a key whose hash is known."""
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
def head_of(carrier: Carrier, store: Store, index: int, partition: int, width: int) -> int:
    """The head of the groups of an index under the key in `fresh`, or -1."""
    alone = width == 0 and store.parts.shape[0] == 1
    if alone and store.fresh.only[index] >= 0:
        return store.fresh.only[index]
    head = locate(store.slots, store.entries, carrier.indexes[index, HEADS], partition, store.fresh.key, width)
    if alone:
        store.fresh.only[index] = head
    return head


@inlined
def new_entry(slots: Array, entries: Array, regs: Array, index: int, partition: int, key: Array, width: int) -> int:
    """An entry for a key that has none; there is room for it."""
    return new_entry_by(slots, entries, regs, hash_of(index, partition, key, width), index, partition, key, width)


@inlined
def new_entry_by(
    slots: Array, entries: Array, regs: Array, h: int, index: int, partition: int, key: Array, width: int
) -> int:
    """The same for a key whose hash is known."""
    at = regs[ENTRIES]
    regs[ENTRIES] = at + 1
    entries[at, INDEX] = index
    entries[at, SUBSTREAM] = partition
    for k in range(width):
        entries[at, KEY + k] = key[k]
    _occupy(slots, h, at)
    return at


@inlined
def _occupy(slots: Array, h: int, e: int) -> None:
    """Put an entry with this hash into the hash table, which does not have it."""
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
        index = entries[e, INDEX]
        _occupy(slots, hash_of(index, entries[e, SUBSTREAM], entries[e, KEY:], widths[index]), e)
