"""The events of a batch, shard by shard: a radix partition by owner that keeps the order of each shard's events."""

from __future__ import annotations

import numpy as np

from ceql.engine.common.layout import Events
from ceql.jit import Array, kernel

TOGETHER = 8  # bits: so many substreams fit the nearest cache but one


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


@kernel
def _scatter(events: Events, owners: Array, local: Array | None, starts: Array, to: Events) -> None:
    timed = len(events.time) > 0
    words = events.values.shape[1] if len(events.values) > 0 else 0
    for i in range(len(owners)):
        owner = owners[i]
        if not 0 <= owner < len(starts):
            continue
        at = starts[owner]
        starts[owner] = at + 1
        to.symbol[at] = events.symbol[i]
        to.position[at] = events.position[i]
        partition = events.partition[i]
        if local is not None:
            partition = local[partition]
        to.partition[at] = partition
        to.key[at] = events.key[i]
        to.bound[at] = events.bound[i]
        if timed:
            to.time[at] = events.time[i]
        for k in range(words):
            to.values[at, k] = events.values[i, k]
