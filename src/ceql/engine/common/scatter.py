"""The events of a batch, shard by shard or key by key: radix partitions that keep the order of each owner's events."""

from __future__ import annotations

import numpy as np

from ceql.engine.common.layout import Events
from ceql.jit import Array, inlined, kernel

TOGETHER = 8  # bits: so many substreams fit the nearest cache but one
_BLOCKS = 8  # bits: of 4 to 10, the fastest for 100,000 substreams


def scatter(events: Events, owners: Array, local: Array | None, ends: Array) -> Events:
    """The events in order of their owners; `ends` says where those of each end, and those of other owners are dropped.
    With `local`, substreams get the numbers that it has for them."""
    count = int(ends[-1])
    starts = np.concatenate([[0], ends[:-1]])
    found = Events(*(np.empty((count if len(array) else 0, *array.shape[1:]), array.dtype) for array in events))
    _scatter(events, owners, local, starts, found)
    return found


def gathered(events: Events) -> Events:
    """The events with those of neighbouring substreams together, so that what a loop has of these is near meanwhile.

    The order in each substream stays. Sessions of 10 million log-ins of 100,000 users take a third of the time so
    (`python -m bench.experiments.by_hand 10000000 8`).
    """
    owners = events.partition >> TOGETHER
    return scatter(events, owners, None, np.cumsum(np.bincount(owners[owners >= 0], minlength=1)))


def by_key(batches: list[Events], substreams: int, room: Events | None = None) -> tuple[Events, Events]:
    """The events of these batches, of so many substreams, with those of each substream together; the list is emptied.
    They stand in `room`, if there is enough of it; returns it as well, to be used again.

    They are first dealt to blocks of substreams, which fit a near cache, and then put in order there.
    """
    shift = max(0, (substreams - 1).bit_length() - _BLOCKS)
    counts: Array = np.zeros(((substreams - 1) >> shift) + 1, np.int64)
    for batch in batches:
        count_owners(batch.partition, shift, counts)
    ends = np.cumsum(counts)
    starts = ends - counts
    if room is None or len(room.symbol) < ends[-1]:
        room = _room(batches, int(ends[-1]))
    found = Events(*(array[: ends[-1]] for array in room))
    spare = _room(batches, int(counts.max()))
    while batches:
        batch = batches.pop(0)
        _scatter(batch, batch.partition >> shift, None, starts, found)
    if shift:
        _put_in_order(found, ends, spare, np.zeros((1 << shift) + 1, np.int64))
    return found, room


@kernel
def count_owners(partition: Array, shift: int, counts: Array) -> None:
    """Count the events of each block of substreams."""
    for i in range(len(partition)):
        if partition[i] >= 0:
            counts[partition[i] >> shift] += 1


def _room(batches: list[Events], count: int) -> Events:
    """Room for so many events like these. Where keys are times in all batches, or positions, they stay so."""
    first = batches[0]
    made = Events(*(np.empty((count if len(array) else 0, *array.shape[1:]), array.dtype) for array in first))
    for name in ("time", "position"):
        if all(getattr(batch, name) is batch.key for batch in batches):
            return made._replace(key=getattr(made, name))
    return made


@kernel
def _put_in_order(events: Events, ends: Array, spare: Events, block: Array) -> None:
    """Put the events of each block of substreams in order of these; `block` is scratch with a place for each, and one
    more."""
    mask = len(block) - 2
    begin = np.int64(0)
    for k in range(len(ends)):
        end = ends[k]
        block[:] = 0
        for i in range(begin, end):
            block[(events.partition[i] & mask) + 1] += 1
        for p in range(mask + 1):
            block[p + 1] += block[p]
        for i in range(begin, end):
            p = events.partition[i] & mask
            _copy(events, i, spare, int(block[p]))
            block[p] += 1
        for i in range(begin, end):
            _copy(spare, i - begin, events, i)
        begin = end


@inlined
def _copy(events: Events, i: int, to: Events, at: int) -> None:
    """Copy an event from one place to another."""
    to.symbol[at] = events.symbol[i]
    to.position[at] = events.position[i]
    to.partition[at] = events.partition[i]
    to.key[at] = events.key[i]
    to.bound[at] = events.bound[i]
    if len(events.time) > 0:
        to.time[at] = events.time[i]
    for k in range(events.values.shape[1] if len(events.values) > 0 else 0):
        to.values[at, k] = events.values[i, k]


@kernel
def _scatter(events: Events, owners: Array, local: Array | None, starts: Array, to: Events) -> None:
    for i in range(len(owners)):
        owner = owners[i]
        if not 0 <= owner < len(starts):
            continue
        at = starts[owner]
        starts[owner] = at + 1
        _copy(events, i, to, at)
        if local is not None:
            to.partition[at] = local[events.partition[i]]
