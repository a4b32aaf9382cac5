"""Base of the machines of both loops: registers, the graph's arrays, partitions, output, memory, state.

A machine has the loop's arrays, and does what the loop cannot do by itself. `feed` takes the events of a batch and
yields chunks of matches. It is a generator: when the caller stops reading, nothing goes on. Between two batches the
whole state is in the arrays (`state`, `restore`).
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any

import numpy as np

from ceql.engine.common.check import require_shape
from ceql.engine.common.chunk import Chunk
from ceql.engine.common.layout import (
    BASE,
    BOUND,
    COUNT,
    COUNTER,
    EVENT,
    FLOOR,
    FROM,
    HORIZON,
    KEPT,
    LEAST,
    LIVE_FROM,
    MATCHES,
    NEVER,
    NO_KEY,
    NODES,
    PHASE,
    POSITIONS,
    REGISTERS,
    ROOTS,
    SEEN,
    SUMMED,
    TOTAL,
    UNREAD,
    UNTIL,
    W_ENVELOPE,
    Events,
)
from ceql.engine.common.limits import out_of_memory
from ceql.engine.common.output import grow_search, make_output, take_chunk
from ceql.engine.common.summing import Ended, FindTotals, Found, Summing
from ceql.errors import ResourceError
from ceql.jit import Array

_log = logging.getLogger(__name__)
_FEW_PARTITIONS = 1 << 12  # whose table is small beside the buffers that a machine has at first
_SHARD_MATCHES = 1 << 13
_SHARD_NODES = 1 << 10
MANY_ENDED = 1 << 12
NO_PARTITIONS: Array = np.zeros(0, np.int64)
OUTGROWN = 1 << 16  # nodes that are in use: more do not fit the nearer caches


class Ledger:
    """The bytes that machines take, of those that they may take together."""

    def __init__(self, machines: Sequence[Machine]) -> None:
        self._lock = Lock()
        self._taken = {id(machine): machine.used for machine in machines}
        for machine in machines:
            machine.ledger = self

    def take(self, machine: Machine, size: int) -> bool:
        """Let a machine have so many bytes, if there are as many."""
        with self._lock:
            rest = sum(self._taken.values()) - self._taken[id(machine)]
            if rest + size > machine.memory:
                return False
            self._taken[id(machine)] = size
            return True


class Machine(ABC):
    """The state of a recogniser and the buffers of its output."""

    node_words: int  # of a row of the graph
    scratch_rows: int
    columns: tuple[str, ...]  # of the table of partitions, in order, by their names in snapshots
    spare = 2  # the graph grows until it has this many times the nodes that are in use

    def __init__(
        self,
        settings: Any,
        registers: int,
        stack_columns: int,
        timed: bool,
        memory: int,
        matches: int,
        positions: int,
        nodes: int,
    ) -> None:
        self.settings = settings
        self.timed = timed
        self.memory = memory
        self.ledger: Ledger | None = None  # of machines that are shards
        self._floor: int | None = None  # where events come by key: the horizon of substreams whose turn is to come
        self.divides = False
        """Whether it stops feeding, between two events, when it has outgrown the caches: the caller divides it."""
        self.outgrown = False
        self.total = 0  # count mode
        self.collections = 0
        self.reclaimed = 0  # nodes that collections gave back
        self._emptied: Array | None = NO_PARTITIONS  # None: those that are empty now, not looked for yet
        self.oldest = 0  # no partial match holds an event before this position, see `oldest_held`
        self.regs: Array = np.zeros(REGISTERS, np.int64)
        self.regs[[HORIZON, LEAST]] = NO_KEY
        self._stored = registers
        self.nodes: Array = np.empty((nodes, self.node_words), np.int64)
        self.times: Array = np.zeros(nodes if timed else 0, np.int64)  # unions have none
        self.table: Array = np.zeros((0, len(self.columns)), np.int64)
        """The scalars of each partition."""
        self.scratch = self._no_marks(nodes)
        self.out = make_output(matches, positions, timed, stack_columns)
        self._mode: int = settings.mode
        self._in_vain = False  # whether matches are counted for nobody, see `mute`
        self._collected_at = (-1, -1)  # the event and the capacity of the last collection
        self._collected = False  # since the oldest position was last looked up
        self._exactly: Summing | None = None  # counts what is more than an int64
        self._ended: list[Ended] = []  # positions whose matches are still to be added up
        self.summing: Summing | None = None
        """Adds up the matches of positions that have very many, in place of enumerating them."""

    def _no_marks(self, nodes: int) -> Array:
        """Scratch for so many nodes. Marks are zero; what else is in it, is written before it is read."""
        scratch: Array = np.empty((self.scratch_rows, nodes + 1), np.int64)
        scratch[:1] = 0
        scratch[:, 0] = 0
        return scratch

    # --- shards ---

    def _small_buffers(self) -> dict[str, int]:
        """What there is room for in a shard of this machine."""
        return {
            "matches": min(_SHARD_MATCHES, self.out.match.shape[1] - 1),
            "positions": min(4 * _SHARD_MATCHES, len(self.out.position)),
            "nodes": min(_SHARD_NODES, len(self.nodes)),
        }

    def _make_alike(self, shard: Machine) -> None:
        """Let a shard do what this machine does."""
        shard.oldest = self.oldest
        shard._mode = self._mode
        shard._in_vain = self._in_vain
        shard.summing = self.summing.anew() if self.summing is not None else None

    # --- partitions ---

    @property
    def partitions(self) -> int:
        """How many partitions there is room for."""
        return len(self.table)

    def column(self, number: int) -> Array:
        """A scalar of each partition."""
        return np.asarray(self.table[:, number])

    def _blank(self) -> Array:
        """The scalars of a partition that has seen nothing."""
        row = np.zeros(len(self.columns), np.int64)
        row[[BOUND, FLOOR]] = NO_KEY
        row[COUNTER] = NO_KEY if self.settings.window == W_ENVELOPE else 0
        return row

    def room_for_partitions(self, count: int) -> None:
        """Make sure that partitions 0 to count - 1 exist."""
        have = len(self.table)
        if count > have:
            _log.debug("the table of partitions grows from %d rows, for %d partitions", have, count)
            size = max(count, 2 * have)
            if size > _FEW_PARTITIONS:
                self._check_memory(partitions=size)
            table = np.empty((size, len(self.columns)), np.int64)
            table[:have] = self.table
            table[have:] = self._blank()
            self.table = table

    def reuse_partitions(self, partitions: list[int]) -> None:
        """Make emptied partitions as good as new."""
        self.table[np.asarray(partitions, np.int64)] = self._blank()

    @abstractmethod
    def idle(self, partitions: Array) -> Array:
        """Those of these partitions that hold nothing."""

    @property
    def emptied(self) -> Array:
        """Partitions that are empty since the last collection; they are looked for when they are asked for."""
        if self._emptied is None:
            self._emptied = self.idle(np.arange(len(self.table)))
        return self._emptied

    @emptied.setter
    def emptied(self, partitions: Array) -> None:
        self._emptied = partitions

    @property
    def remembers(self) -> bool:
        """True if past events restrict where a new match may start."""
        return False

    @property
    def horizon(self) -> int:
        """The greatest bound met, for windows that all partitions share."""
        return int(self.regs[HORIZON])

    def raise_horizon(self, key: int) -> None:
        """Say that no event with a lower bound will come."""
        self.regs[HORIZON] = max(self.horizon, key)
        if self.settings.window == W_ENVELOPE:
            self.table[:, BOUND] = np.maximum(self.table[:, BOUND], key)

    def forget_floors(self) -> None:
        """Say that the attribute of the window never falls: nobody will ask for what was given up."""
        self.table[:, FLOOR] = NO_KEY

    # --- feeding ---

    def feed(self, events: Events, resume: bool = False) -> Iterator[Chunk]:
        """Process a batch; chunks come when the buffers are full. `flush` gives the rest.

        With `resume`, go on with a batch that was not fed to its end.
        """
        if not resume:
            self.regs[EVENT] = 0
        self._collected_at = (-1, -1)
        return self._run(events)

    def feed_by_key(self, parts: Iterable[Events], until: int) -> Iterator[Chunk]:
        """Process events of which those of each substream stand together, in one of the parts. Later events have bounds
        from `until` on."""
        horizon = self._floor = self.horizon
        divides, self.divides = self.divides, False
        self.regs[[UNTIL, BASE, EVENT]] = until, 1, 0
        self._hold_all()
        for events in parts:
            self.regs[FROM] = 0
            yield from self.feed(events)
            self._sweep(events)
        yield from self.flush()
        self.regs[BASE] = 0
        self.regs[HORIZON] = max(horizon, until)
        self._floor = None
        self.divides = divides

    def _sweep(self, events: Events) -> None:
        """Where events come by key: give back the young nodes that no substream holds. All that was found is read."""
        self._hold_all()

    def _hold_all(self) -> None:
        """Where events come by key: take all nodes that there are for old."""
        if self.regs[BASE]:
            self.regs[[BASE, FROM, KEPT]] = self.regs[NODES] + 1, self.regs[EVENT], 0

    @abstractmethod
    def _run(self, events: Events) -> Iterator[Chunk]:
        """Process the batch from the event in the registers on."""

    def _exact_count(self) -> int:
        """The matches of the current position, however many there are."""
        raise AssertionError("no position has more than one match")

    @property
    def counted(self) -> int:
        """Count mode: the matches so far, after `flush`."""
        return self.total

    def flush(self) -> Iterator[Chunk]:
        """Hand out what stands in the buffers."""
        if self.settings.mode == COUNT:
            self.total += int(self.regs[TOTAL])
            self.regs[TOTAL] = 0
        chunk = self.hand_out()
        if chunk is not None:
            yield chunk

    def hand_out(self) -> Chunk | None:
        """What stands in the buffers, if anything does."""
        self.out, chunk = take_chunk(self.out, self.regs, self.settings.labelled)
        return chunk

    def sum_up(self, summing: Summing | None) -> None:
        """Add up the matches of positions that have very many, or enumerate all again. The buffers are empty.

        Where no position has more than one match, all are enumerated.
        """
        self.summing = None

    def take_sums(self) -> list[Found]:
        """What was added up in place of matches."""
        self._sum_up()
        return self.summing.take() if self.summing is not None else []

    def _sum_up(self) -> None:
        ended, self._ended = self._ended, []
        if ended:
            assert self.summing is not None
            used = int(self.regs[NODES])
            self.summing.add(self.nodes, used, self.collections, ended, *self._adding(ended[0].bound), self.memory)

    def _adding(self, bound: int) -> tuple[Callable[[Ended], Array] | None, FindTotals]:
        """What lists the nodes that a position reaches, if that differs from one to the other, and what sums them."""
        raise AssertionError("this machine adds nothing up")

    def _grow_search(self) -> None:
        self.out = grow_search(self.out)

    def mute(self, on: bool, count: bool = False) -> None:
        """Count matches (with `count`: exactly) instead of enumerating them, or enumerate them again.

        Those that wait in the buffers are dropped.
        """
        self.settings = self.settings._replace(mode=COUNT if on else self._mode)
        self._in_vain = on and not count
        self.regs[[MATCHES, POSITIONS, TOTAL, SUMMED]] = 0
        self.total = 0

    # --- memory ---

    @abstractmethod
    def compact(self) -> None:
        """Give back what the window has left, and make room if that was not enough.

        The caller flushes before it gives the partitions that were found empty to other keys.
        """

    @contextmanager
    def _collecting(self) -> Iterator[None]:
        """Around a collection, which is counted."""
        self._sum_up()
        before = int(self.regs[NODES])
        horizon = self.horizon
        if self._floor is not None:
            self.regs[HORIZON] = self._floor
        with self._sparing_floors():
            yield
        self.regs[HORIZON] = horizon
        self.collections += 1
        self.reclaimed += before - int(self.regs[NODES])

    def measures(self) -> dict[str, int]:
        """Metrics by name; those of several machines are added up."""
        return {
            "nodes": int(self.regs[NODES]),
            "nodes_reclaimed": self.reclaimed,
            "collections": self.collections,
            "memory_graph": self.used,
        }

    @contextmanager
    def _sparing_floors(self) -> Iterator[None]:
        """A partition that held nothing before a collection has given nothing up, and keeps its floor."""
        if self.settings.window != W_ENVELOPE or len(self.table) < 2:
            yield
            return
        idle = self.idle(np.arange(len(self.table)))
        floors = self.table[idle, FLOOR]
        yield
        self.table[idle, FLOOR] = floors

    def forgettable(self, partitions: Array) -> Array:
        """Those of these partitions of which nothing needs to be remembered.

        An attribute window that has given up starts of a partition must know where, in case its attribute falls.
        """
        idle = self.idle(partitions)
        return idle[self.table[idle, FLOOR] == NO_KEY] if self.settings.window == W_ENVELOPE else idle

    def _make_room(self, enough: bool = False) -> None:
        """After a collection: double the graph if it is full (`spare`), or if the event was collected for before."""
        self._collected = True
        self.regs[[SUMMED, LIVE_FROM]] = 0
        self._hold_all()
        capacity = len(self.nodes)
        _log.debug("memory collected: %d of %d nodes are in use", self.regs[NODES], capacity)
        self.outgrown = self.divides and int(self.regs[NODES]) > OUTGROWN
        # a collection also looks at all partitions
        scans = capacity < len(self.table) and self._fits(nodes=2 * capacity)
        before, self._collected_at = self._collected_at, (int(self.regs[EVENT]), capacity)
        if scans or self.spare * int(self.regs[NODES]) > capacity or (before == self._collected_at and not enough):
            self._resize_nodes(2 * capacity)

    def _resize_nodes(self, capacity: int) -> None:
        self._check_memory(nodes=capacity)
        _log.debug("the graph of partial matches grows to %d nodes", capacity)
        self._set_nodes(self.nodes[: self.regs[NODES]], self.times[: self.regs[NODES]], capacity)

    def _set_nodes(self, nodes: Array, times: Array, capacity: int) -> None:
        """Go on with these nodes, in arrays of this capacity."""
        self.nodes = np.empty((capacity, self.node_words), np.int64)
        self.nodes[: len(nodes)] = nodes
        self.times = np.zeros(capacity if self.timed else 0, np.int64)
        self.times[: len(times)] = times
        self.scratch = self._no_marks(capacity)
        self.regs[SUMMED] = 0

    @property
    def used(self) -> int:
        """The bytes that the state takes, of those that `memory` allows."""
        return sum(8 * rows * words for rows, words in self._sizes().values())

    def _check_memory(self, **capacities: int) -> None:
        """Raise `ResourceError` when the state would be larger than allowed with these capacities."""
        if not self._fits(**capacities):
            raise self._out_of_memory()

    def _fits(self, **capacities: int) -> bool:
        """Whether the state may have these capacities."""
        sizes = self._sizes()
        rows = {name: max(capacities.get(name, 0), have) for name, (have, _) in sizes.items()}
        size = sum(8 * rows[name] * words for name, (_, words) in sizes.items())
        return size <= self.memory if self.ledger is None else self.ledger.take(self, size)

    def _out_of_memory(self) -> ResourceError:
        return out_of_memory(self.memory)

    def _sizes(self) -> dict[str, tuple[int, int]]:
        """What grows: its capacity, and the words of a row."""
        return {
            "nodes": (len(self.nodes), self.node_words + 1 + self.scratch_rows),
            "partitions": (len(self.table), len(self.columns)),
        }

    @abstractmethod
    def _held(self) -> Array:
        """The positions of the events that partial matches hold, in no order and with repeats."""

    def held(self) -> Array:
        """The positions of the events that partial matches hold, ascending."""
        return ascending(self._held())

    def oldest_held(self) -> int:
        """A position before which no partial match holds an event; it changes only after a collection."""
        if self._collected:
            held = self._held()
            if len(held):
                self.oldest = max(self.oldest, int(held.min()))
            self._collected = False
        return self.oldest

    # --- state ---

    def state(self, partitions: Array | None = None) -> dict[str, Array]:
        """The state between two batches, cut to what is in use; of these partitions alone, numbered in this order."""
        used = int(self.regs[NODES])
        arrays = {
            "regs": self.regs[: self._stored].copy(),
            "nodes": self.nodes[:used].copy(),
            "times": self.times[:used].copy(),
        }
        table = self.table if partitions is None else self.table[partitions]
        return arrays | {f"parts.{name}": table[:, k].copy() for k, name in enumerate(self.columns)}

    def restore(self, arrays: dict[str, Array]) -> None:
        """Continue from a `state`. One that the kernels could not work on is refused, with a `DataError`."""
        regs = require_shape(arrays, "regs", self._stored)
        count = len(require_shape(arrays, "nodes", None, self.node_words))
        require_shape(arrays, "times", count if self.timed else 0)
        partitions = len(require_shape(arrays, f"parts.{self.columns[0]}", None))
        for name in self.columns:
            require_shape(arrays, f"parts.{name}", partitions)
        self.check(arrays)
        self.regs[:] = 0
        self.regs[: len(regs)] = regs
        self.regs[[EVENT, PHASE, MATCHES, POSITIONS, ROOTS, TOTAL, SEEN]] = 0  # as between two batches
        self.regs[UNREAD] = NEVER
        self.regs[NODES] = count
        self._floor = None
        self.table = np.stack([arrays[f"parts.{name}"] for name in self.columns], axis=1).astype(np.int64)
        self._set_nodes(arrays["nodes"], arrays["times"], self._capacity(arrays))

    def check(self, arrays: dict[str, Array]) -> None:  # noqa: B027 - a loop may have nothing to add
        """Refuse arrays of a state that the kernels of this loop could not work on (`common.check`)."""

    def _capacity(self, arrays: dict[str, Array]) -> int:
        """The room for nodes in a machine that is restored."""
        return max(len(self.nodes), 2 * len(arrays["nodes"]))


def ascending(numbers: Array) -> Array:
    """These numbers, each once: most are near one another, so that marking is cheaper than sorting."""
    if not len(numbers):
        return numbers
    first = int(numbers.min())
    marked = np.zeros(int(numbers.max()) - first + 1, np.bool_)
    marked[numbers - first] = True
    return np.flatnonzero(marked) + first
