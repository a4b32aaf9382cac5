"""The look-up table H of pcea-hcq-2024, Algorithm 1: from an index, a substream and a key to the runs that wait there."""

from __future__ import annotations

from ceql.engine.jit import inlined, kernel
from ceql.engine.join.layout import INDEX, KEY, PARTITION, Array
from ceql.io.kernels import mix


@inlined
def locate(
    slots: Array, index: int, partition: int, values: Array, i: int, terms: Array, begin: int, end: int
) -> int:
    """The slot of a key; -1 - s where it has none and slot s is free for it."""
    h = mix(index + 1, partition)
    for k in range(begin, end):
        h = mix(h, values[i, terms[k]])
    mask = slots.shape[0] - 1
    at = (h >> 20) & mask
    while True:
        tag = slots[at, INDEX]
        if tag == 0:
            return -1 - at
        if tag == index + 1 and slots[at, PARTITION] == partition:
            same = True
            for k in range(begin, end):
                if slots[at, KEY + k - begin] != values[i, terms[k]]:
                    same = False
                    break
            if same:
                return at
        at = (at + 1) & mask


@kernel
def rehash(old: Array, new: Array, widths: Array) -> None:
    """Move the entries of a table into an empty one; `widths` has the length of each index's keys."""
    mask = new.shape[0] - 1
    for s in range(old.shape[0]):
        tag = old[s, INDEX]
        if tag <= 0:  # empty, or dropped
            continue
        h = mix(tag, old[s, PARTITION])
        for k in range(widths[tag - 1]):
            h = mix(h, old[s, KEY + k])
        at = (h >> 20) & mask
        while new[at, INDEX] != 0:
            at = (at + 1) & mask
        for k in range(old.shape[1]):
            new[at, k] = old[s, k]
