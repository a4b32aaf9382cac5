"""Deals substreams to shards, and numbers them there.

Whose a substream is follows from a hash of its key. So it is the same in every run, and after a snapshot, whatever
number the substream has. Each shard numbers its own substreams from 0, since machines have a row for each number.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ceql.engine.common.layout import Events
from ceql.jit import Array

SHARDS = 16
DROPPED = 255  # the owner of what belongs to no shard
_UPPER = 24  # of the 32 bits of a hash: tables of keys use the lower ones

Hashes = Callable[[Array], Array]
"""The hashes of the keys of these substreams."""


def shard_count() -> int:
    """Into how many shards a machine is divided: always as many, so that nothing depends on threads."""
    return SHARDS


def owner_of(hashes: Array) -> Array:
    """The shard of a key, by its hash."""
    return ((hashes >> _UPPER) % SHARDS).astype(np.uint8)


class Shares:
    """The substreams of each shard."""

    def __init__(self, hashes: Hashes, known: Array | None = None) -> None:
        self._hashes = hashes
        self.owner: Array = np.zeros(0, np.uint8)
        self.local: Array = np.zeros(0, np.int32)
        """Of each substream: its number in its shard."""
        self.members: list[Array] = [np.zeros(0, np.int64) for _ in range(SHARDS)]
        """Of each shard: the substreams by its own numbers, -1 where a number is free."""
        self._free: list[list[int]] = [[] for _ in range(SHARDS)]
        if known is not None:
            self.add(known)

    @property
    def count(self) -> int:
        """One more than the greatest substream known."""
        return len(self.owner)

    def owners(self, events: Events) -> Array:
        """The shard of each event."""
        if not self.count:
            return np.full(len(events.partition), DROPPED, np.uint8)
        return np.where(events.partition >= 0, self.owner[events.partition], np.uint8(DROPPED))

    def add(self, numbers: Array) -> None:
        """Give these substreams, which have keys, to their shards."""
        if not len(numbers):
            return
        more = int(numbers.max()) + 1 - self.count
        if more > 0:
            self.owner = np.concatenate([self.owner, np.full(more, DROPPED, np.uint8)])
            self.local = np.concatenate([self.local, np.full(more, -1, np.int32)])
        owner = owner_of(self._hashes(numbers))
        self.owner[numbers] = owner
        for shard in np.unique(owner).tolist():
            mine, free = numbers[owner == shard], self._free[shard]
            again = [free.pop() for _ in range(min(len(free), len(mine)))]
            have = len(self.members[shard])
            new = np.arange(have, have + len(mine) - len(again))
            own = np.concatenate([np.array(again, np.int64), new])
            self.members[shard] = np.concatenate([self.members[shard], np.zeros(len(new), np.int64)])
            self.members[shard][own] = mine
            self.local[mine] = own

    def remove(self, numbers: Array) -> list[Array]:
        """Take these substreams from their shards; by which numbers each knew its own."""
        found = []
        numbers = numbers[numbers < self.count]
        for shard in range(SHARDS):
            mine = numbers[self.owner[numbers] == shard]
            own = self.local[mine].astype(np.int64)
            self.members[shard][own] = -1
            self._free[shard] += own.tolist()
            found.append(own)
        self.owner[numbers] = DROPPED
        return found

    def divided(self, numbers: Array) -> list[Array]:
        """Of these substreams, those of each shard, as it numbers them."""
        owner = self.owner[numbers]
        return [self.local[numbers[owner == shard]].astype(np.int64) for shard in range(SHARDS)]

    def names(self, shard: int, own: Array) -> Array:
        """The substreams that a shard knows by these numbers; those that are free are left out."""
        found = self.members[shard][own[own < len(self.members[shard])]]
        return np.asarray(found[found >= 0])

    def restore(self, members: list[Array]) -> None:
        """Each shard has these substreams, in this order."""
        self.members = [np.array(own, np.int64) for own in members]
        self._free = [[] for _ in range(SHARDS)]
        count = sum(map(len, members))
        self.owner, self.local = np.zeros(count, np.uint8), np.zeros(count, np.int32)
        for shard, own in enumerate(self.members):
            self.owner[own] = shard
            self.local[own] = np.arange(len(own))
