"""A machine in shards, each with some of the substreams or values: small enough for the processor's caches.

A machine that has outgrown the caches is divided into `SHARDS` machines. Whatever can become one match is in one shard,
so they know nothing of each other: each takes its own events of a batch, at once or one after the other, in as
many threads as the caller allows. No two shards have matches that end at the same event. So the matches of all are put
in order by their ends, and neither their number nor their order depends on the threads.

A shard whose buffers are full waits with its matches until the others have come as far. So what is held is bounded by
the buffers, however many matches there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from itertools import pairwise
from typing import Generic, TypeVar

import numpy as np

from ceql.engine.common.check import require, require_shape
from ceql.engine.common.chunk import Chunk, by_end, part
from ceql.engine.common.layout import EVENT, NODES, Events
from ceql.engine.common.machine import NO_PARTITIONS, Ledger, Machine, ascending
from ceql.engine.common.scatter import scatter
from ceql.engine.common.shares import DROPPED, Shares, shard_count
from ceql.engine.common.summing import Found
from ceql.jit import Array

M = TypeVar("M", bound=Machine)
Place = Callable[[Events], Array]
"""The shard of each event."""

FEW = 1 << 12  # events that are not worth a thread


class Sharded(Generic[M]):
    """Machines that are one together: it does what `Machine` does.

    With `shares`, the machines have the substreams that it says; else `place` says whose an event is.
    """

    def __init__(self, machines: list[M], shares: Shares | None, place: Place, threads: int) -> None:
        self.machines = machines
        self.oldest = 0
        self._shares = shares
        self._place = place if shares is None else shares.owners
        self._threads = min(threads, len(machines))
        self._pool: ThreadPoolExecutor | None = None
        self._ledger = Ledger(machines)
        self._before = 0  # count mode: the matches that were counted before there were shards
        self._emptied = NO_PARTITIONS
        self._batch: list[tuple[int, Events]] = []  # the events of each shard
        self._taken: list[list[Chunk]] = [[] for _ in machines]  # matches that wait for those of other shards

    @classmethod
    def of(cls, whole: M, machines: list[M], shares: Shares | None, place: Place, threads: int) -> Sharded[M]:
        """A machine that was divided into these."""
        self = cls(machines, shares, place, threads)
        self.oldest = whole.oldest
        self._before = whole.total
        machines[0].collections += whole.collections  # their sums are shown
        machines[0].reclaimed += whole.reclaimed
        return self

    @property
    def outgrown(self) -> bool:
        """Whether it should be divided: shards are not divided again."""
        return False

    # --- substreams ---

    @property
    def partitions(self) -> int:
        """How many substreams there is room for."""
        return self._shares.count if self._shares is not None else 1

    def column(self, number: int) -> Array:
        """A scalar of each substream."""
        found: Array = np.zeros(self.partitions, np.int64)
        if self._shares is not None:
            for machine, members in zip(self.machines, self._shares.members, strict=True):
                own = np.flatnonzero(members >= 0)
                found[members[own]] = machine.table[own, number]
        return found

    def room_for_partitions(self, count: int) -> None:
        """Make sure that partitions 0 to count - 1 exist."""
        if self._shares is not None:
            self._shares.add(np.arange(self._shares.count, count))
            self._room()

    def reuse_partitions(self, partitions: list[int]) -> None:
        """Make emptied partitions as good as new: other keys have them, maybe of other shards."""
        if self._shares is not None:
            for shard, numbers in enumerate(self._shares.remove(np.array(partitions, np.int64))):
                if len(numbers):
                    self.machines[shard].reuse_partitions(numbers.tolist())
            self._shares.add(np.array(partitions, np.int64))
            self._room()

    def _room(self) -> None:
        assert self._shares is not None
        for machine, members in zip(self.machines, self._shares.members, strict=True):
            machine.room_for_partitions(len(members))

    def idle(self, partitions: Array) -> Array:
        """Those of these partitions that hold nothing."""
        if self._shares is None:
            return partitions[:0]
        own = self._shares.divided(partitions)
        found = [m.idle(numbers) for m, numbers in zip(self.machines, own, strict=True)]
        return np.concatenate([self._shares.names(shard, numbers) for shard, numbers in enumerate(found)])

    def forgettable(self, partitions: Array) -> Array:
        """Those of these partitions of which nothing needs to be remembered: no attribute window is divided."""
        return self.idle(partitions)

    @property
    def emptied(self) -> Array:
        """Partitions that are empty since the last collection."""
        if self._shares is None:
            return self._emptied
        found = [self._shares.names(shard, machine.emptied) for shard, machine in enumerate(self.machines)]
        return np.concatenate([self._emptied, *found])

    @emptied.setter
    def emptied(self, partitions: Array) -> None:
        self._emptied = partitions
        for machine in self.machines:
            machine.emptied = NO_PARTITIONS

    @property
    def remembers(self) -> bool:
        """Whether what was read changes what a match may start with."""
        return any(machine.remembers for machine in self.machines)

    @property
    def horizon(self) -> int:
        """The greatest bound met."""
        return max(machine.horizon for machine in self.machines)

    def raise_horizon(self, key: int) -> None:
        """Say that no event with a lower bound will come."""
        for machine in self.machines:
            machine.raise_horizon(key)

    def forget_floors(self) -> None:
        """See `Machine.forget_floors`."""
        for machine in self.machines:
            machine.forget_floors()

    # --- feeding ---

    def feed(self, events: Events, resume: bool = False) -> Iterator[Chunk]:
        """Process a batch; see `Machine.feed`."""
        if not resume:
            self._batch = self._divided(events)
            for machine in self.machines:
                machine.regs[EVENT] = 0
        return self._run([(shard, self.machines[shard].feed(own, resume=True)) for shard, own in self._batch])

    def _divided(self, events: Events) -> list[tuple[int, Events]]:
        """The events of each shard that has some."""
        owners = self._place(events)
        local = self._shares.local if self._shares is not None else None
        ends = np.cumsum(np.bincount(owners, minlength=DROPPED + 1)[: len(self.machines)])
        found = scatter(events, owners, local, ends)
        begins = [0, *ends.tolist()]
        return [
            (shard, Events(*(array[begin:end] for array in found)))
            for shard, (begin, end) in enumerate(pairwise(begins))
            if begin < end
        ]

    def _run(self, runs: list[tuple[int, Iterator[Chunk]]]) -> Iterator[Chunk]:
        waiting = runs  # for their next chunk
        while waiting:
            found = self._next_of_each([run for _, run in waiting])
            for (shard, _), chunk in zip(waiting, found, strict=True):
                if chunk is not None:
                    self._taken[shard].append(self._named(shard, chunk))
            ended = {shard for (shard, _), chunk in zip(waiting, found, strict=True) if chunk is None}
            runs = [run for run in runs if run[0] not in ended]
            if not runs and not any(self._taken):
                return  # all that was found is in the buffers of the machines
            self._take_all({shard for shard, _ in runs})
            come_to = min((int(self._taken[shard][-1].end[-1]) for shard, _ in runs), default=None)
            chunk = self._up_to(come_to)
            if chunk is not None:
                yield chunk
            waiting = [run for run in runs if not self._taken[run[0]]]

    def _next_of_each(self, runs: Sequence[Iterator[Chunk]]) -> list[Chunk | None]:
        """The next chunk of each run; None of those that have come to the end of the batch."""
        events = sum(len(own.symbol) for _, own in self._batch)
        if self._threads == 1 or len(runs) == 1 or events < FEW:
            return [next(run, None) for run in runs]
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._threads, "ceql")
        futures: list[Future[Chunk | None]] = []
        try:
            futures += [self._pool.submit(next, run, None) for run in runs]
            wait(futures)
        finally:  # whatever interrupts this: nobody works on the arrays when it comes to the caller
            for future in futures:
                future.cancel()
            wait(futures)
        return [future.result() for future in futures]

    def _take_all(self, running: set[int]) -> None:
        """Take what is in the buffers of the machines that are not running."""
        for shard, machine in enumerate(self.machines):
            if shard not in running:
                self._taken[shard] += [self._named(shard, chunk) for chunk in machine.flush()]

    def _up_to(self, position: int | None) -> Chunk | None:
        """The matches that wait, in order: those that end up to a position, or all."""
        found = []
        for shard, chunks in enumerate(self._taken):
            if position is None or not chunks or chunks[-1].end[-1] <= position:
                found += chunks
                self._taken[shard] = []
                continue
            while chunks and chunks[0].end[-1] <= position:
                found.append(chunks.pop(0))
            cut = int(np.searchsorted(chunks[0].end, position, side="right"))
            if cut:
                found.append(part(chunks[0], 0, cut))
                chunks[0] = part(chunks[0], cut, len(chunks[0].end))
        return by_end(found) if len(found) > 1 else found[0] if found else None

    def _named(self, shard: int, chunk: Chunk) -> Chunk:
        """The chunk with the numbers that the caller knows its substreams by."""
        if self._shares is None or chunk.partition is None:
            return chunk
        return chunk._replace(partition=self._shares.members[shard][chunk.partition])

    def flush(self) -> Iterator[Chunk]:
        """Hand out what stands in the buffers."""
        self._take_all(set())
        chunk = self._up_to(None)
        if chunk is not None:
            yield chunk

    def take_sums(self) -> list[Found]:
        """What was added up in place of matches; see `Machine.take_sums`."""
        found = []
        for shard, machine in enumerate(self.machines):
            own = machine.take_sums()
            if self._shares is not None and own:
                members = self._shares.members[shard]
                own = [sums._replace(partition=int(members[sums.partition])) for sums in own]
            found += own
        return found

    @property
    def counted(self) -> int:
        """Count mode: the matches so far, after `flush`."""
        return self._before + sum(machine.counted for machine in self.machines)

    def mute(self, on: bool, count: bool = False) -> None:
        """Count matches instead of enumerating them, or enumerate them again; see `Machine.mute`."""
        self._before = 0
        self._taken = [[] for _ in self.machines]
        for machine in self.machines:
            machine.mute(on, count)

    # --- memory ---

    @property
    def memory(self) -> int:
        """The bytes that the state of all may take."""
        return self.machines[0].memory

    @memory.setter
    def memory(self, memory: int) -> None:
        for machine in self.machines:
            machine.memory = memory

    @property
    def used(self) -> int:
        """The bytes that the state takes, of those that `memory` allows."""
        return sum(machine.used for machine in self.machines)

    def compact(self) -> None:
        """Give back what the window has left; see `Machine.compact`."""
        horizon = self.horizon
        for machine in self.machines:
            machine.raise_horizon(horizon)
            machine.compact()

    def held(self) -> Array:
        """The positions of the events that partial matches hold, ascending."""
        return ascending(np.concatenate([machine.held() for machine in self.machines]))

    def oldest_held(self) -> int:
        """A position before which no partial match holds an event."""
        oldest = [machine.oldest_held() for machine in self.machines if machine.regs[NODES]]
        self.oldest = max(self.oldest, min(oldest, default=0))
        return self.oldest

    # --- state ---

    def state(self, partitions: Array | None = None) -> dict[str, Array]:
        """The state between two batches; see `Machine.state`."""
        arrays: dict[str, Array] = {"shards": np.array([len(self.machines)])}
        whose = self._shares.owner[partitions] if self._shares is not None and partitions is not None else None
        for shard, machine in enumerate(self.machines):
            own: dict[str, Array] = {}
            if whose is not None:
                assert self._shares is not None
                assert partitions is not None
                members = np.flatnonzero(whose == shard)
                own = machine.state(self._shares.local[partitions[members]]) | {"members": members}
            else:
                own = machine.state()
            arrays |= {f"shard{shard}.{name}": array for name, array in own.items()}
        return arrays

    def restore(self, arrays: dict[str, Array]) -> None:
        """Continue from a `state`. One that the kernels could not work on is refused, with a `DataError`."""
        members = []
        for shard, machine in enumerate(self.machines):
            own = of_shard(arrays, shard)
            machine.restore(own)
            self._ledger.take(machine, machine.used)
            if self._shares is not None:
                members.append(require_shape(own, "members", machine.partitions))
        if self._shares is not None:
            named = np.sort(np.concatenate(members))
            require(bool((named == np.arange(len(named))).all()), "its shards have other substreams")
            self._shares.restore(members)


def of_shard(arrays: dict[str, Array], shard: int) -> dict[str, Array]:
    """The arrays of one shard in those of the state of all."""
    front = f"shard{shard}."
    return {name.removeprefix(front): array for name, array in arrays.items() if name.startswith(front)}


def shards_in(arrays: dict[str, Array]) -> int:
    """How many shards a state has; 0 for that of a machine by itself."""
    if "shards" not in arrays:
        return 0
    count = require_shape(arrays, "shards", 1)
    require(int(count[0]) == shard_count(), "it has another number of shards than this version makes")
    return int(count[0])
