"""Large pieces of a stream that ends, gone through substream by substream.

Where substreams are many, each event finds another one's partial matches, far from those before: most of its time goes
into fetching them. So the events of a piece are put together by substream, in which they keep their order. A loop then
has one substream's partial matches at hand until all its events are done, and forgets at once what no later event can
be with. The matches of a piece are put in order by their ends afterwards: no two substreams have matches that end at
the same event. Of 10 million clicks of 100,000 users, a funnel takes half the time so
(`python -m bench.experiments.by_hand 10000000 4`).

Few substreams stay in the caches as it is, and putting matches in order takes time too: a query over a thousand of them
with five matches for each event takes 1.15 times as long by key (row `by-key` of `bench/gate/rows.py`).

A match comes out when its piece is done, and all matches of a piece are held at once. Where they are more than a piece
may have, it is gone through again in order of time, and so is all that follows.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ceql.engine.common.chunk import Chunk, by_end, in_order, size
from ceql.engine.common.layout import NEVER, NO_VALUES, Events
from ceql.engine.common.machine import Machine
from ceql.jit import Array, kernel

MANY = 1 << 12  # substreams, whose partial matches no longer fit the near caches
MOST = 3 << 20  # events of a piece
FEW = 1 << 14  # events that are not worth to be put in order
BLOCKS = 8  # bits: of 4 to 10, the fastest for 100,000 substreams
PART = 1 << 16  # events that are put in order at a time, at least: they are in the caches when the loop reads them
_EVENT_BYTES = 128  # of the budget for each event of a piece
_MATCH_BYTES = 96  # that the matches of a piece may take for each of its events


class Pieces:
    """Holds events back until they are many."""

    def __init__(self, memory: int) -> None:
        self._most = min(MOST, memory // _EVENT_BYTES)
        self._batches: list[Events] = []
        self._rows: Array = np.zeros((0, 0), np.int64)  # kept for the next piece: fresh memory takes time
        self.held = 0

    def add(self, events: Events) -> bool:
        """Hold a batch back, and say whether the piece is as large as it may be."""
        if len(events.symbol):
            self._batches.append(events)
            self.held += len(events.symbol)
        return self.held >= self._most

    def take(self) -> Events:
        """The events that are held, in order of time."""
        batches, self._batches, self.held = self._batches, [], 0
        return Events(*map(np.concatenate, zip(*batches, strict=True))) if len(batches) > 1 else batches[0]

    def run(self, machine: Machine, last: bool) -> list[Chunk] | None:
        """The matches of the events that are held, which a machine goes through by key; `last` says that no others
        come. None if the matches are too many: then the machine is as before, and the events are held still."""
        until = NEVER if last else int(self._batches[-1].bound[-1])
        before = machine.state()
        room = _MATCH_BYTES * self.held
        dealt = self._deal(machine.partitions)
        found: list[Chunk] = []
        for chunk in machine.feed_by_key(dealt.parts(), until):
            found.append(chunk)
            room -= size(chunk)
            if room < 0:
                machine.restore(before)
                machine.divides = True
                self._batches = [dealt.by_time()]
                return None
        self.held = 0
        return [by_end(found)] if found else []

    def _deal(self, substreams: int) -> _Dealt:
        """Deal what is held to blocks of so many substreams, which fit a near cache."""
        batches, self._batches = self._batches, []
        shift = max(0, (substreams - 1).bit_length() - BLOCKS)
        counts: Array = np.zeros(((substreams - 1) >> shift) + 1, np.int64)
        for batch in batches:
            count_blocks(batch.partition, shift, counts)
        ends = np.cumsum(counts)
        timed = len(batches[0].time) > 0
        apart = timed and any(batch.key is not batch.time for batch in batches)
        columns = 5 if apart else 4
        if len(self._rows) < ends[-1] or self._rows.shape[1] != columns:
            self._rows = np.empty((ends[-1], columns), np.int64)
        starts = ends - counts
        while batches:
            deal(batches.pop(0), shift, starts, self._rows)
        return _Dealt(self._rows[: ends[-1]], ends, shift, timed)


class _Dealt:
    """Events by block of substreams, as rows: symbol and substream, position, bound, key, and the time unless that is
    the key."""

    def __init__(self, rows: Array, ends: Array, shift: int, timed: bool) -> None:
        self._rows, self._ends, self._shift, self._timed = rows, ends, shift, timed

    def _room(self, count: int) -> Events:
        """Room for so many of these events."""
        small: Array = np.empty((2, count), np.int32)
        large: Array = np.empty((self._rows.shape[1] - 1, count), np.int64)
        time = large[-1] if self._timed else large[0, :0]
        return Events(small[0], large[0], small[1], large[2], large[1], time, NO_VALUES)

    def parts(self) -> Iterator[Events]:
        """The events of some blocks after another, in order of their substreams."""
        begins = np.concatenate([[0], self._ends[:-1]])
        block: Array = np.zeros((1 << self._shift) + 1, np.int64)
        first = 0
        while first < len(self._ends):
            last = max(int(np.searchsorted(self._ends, begins[first] + PART, "right")), first + 1)
            part = self._room(int(self._ends[last - 1] - begins[first]))
            rows = self._rows[begins[first] : self._ends[last - 1]]
            put_in_order(rows, self._ends[first:last] - begins[first], block, part)
            yield part
            first = last

    def by_time(self) -> Events:
        """All events, in order of time."""
        rows, whole = self._rows[in_order(self._rows[:, 1])], self._room(len(self._rows))
        put_in_order(rows, np.array([len(rows)]), np.zeros(2, np.int64), whole)
        return whole


@kernel
def count_blocks(partition: Array, shift: int, counts: Array) -> None:
    """Count the events of each block of substreams."""
    for i in range(len(partition)):
        if partition[i] >= 0:
            counts[partition[i] >> shift] += 1


@kernel
def deal(events: Events, shift: int, starts: Array, rows: Array) -> None:
    """Write events into the rows of their blocks, the next of which `starts` names."""
    for i in range(len(events.partition)):
        partition = events.partition[i]
        if partition < 0:
            continue
        at = starts[partition >> shift]
        starts[partition >> shift] = at + 1
        rows[at, 0] = (np.int64(events.symbol[i]) << 32) | partition
        rows[at, 1] = events.position[i]
        rows[at, 2] = events.bound[i]
        rows[at, 3] = events.key[i]
        if rows.shape[1] > 4:
            rows[at, 4] = events.time[i]


@kernel
def put_in_order(rows: Array, ends: Array, block: Array, to: Events) -> None:
    """Write the events of each block in order of their substreams; `block` is scratch with a place for each of these,
    and one more."""
    mask = len(block) - 2
    begin = np.int64(0)
    for k in range(len(ends)):
        block[:] = 0
        for i in range(begin, ends[k]):
            block[(rows[i, 0] & mask) + 1] += 1
        for p in range(mask + 1):
            block[p + 1] += block[p]
        for i in range(begin, ends[k]):
            p = rows[i, 0] & mask
            at = begin + block[p]
            block[p] += 1
            to.symbol[at] = rows[i, 0] >> 32
            to.partition[at] = rows[i, 0] & 0xFFFFFFFF
            to.position[at] = rows[i, 1]
            to.bound[at] = rows[i, 2]
            to.key[at] = rows[i, 3]
            if len(to.time) > 0:
                to.time[at] = rows[i, rows.shape[1] - 1]
        begin = ends[k]
