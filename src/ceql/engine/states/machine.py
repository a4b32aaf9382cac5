"""One recogniser of a query on single events: the loop's arrays, and what the loop cannot do by itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np

from ceql.engine.common.chunk import Chunk
from ceql.engine.common.graph import KIND, NODE_WORDS, A, B, C
from ceql.engine.common.layout import (
    BASE,
    COLLECT,
    KEPT,
    LEAST,
    LIVE_FROM,
    NODES,
    NOTED,
    PHASE,
    PICKED,
    ROOTS,
    SEEN,
    SUMMED,
    TO_PICK,
    Events,
    Settings,
)
from ceql.engine.common.limits import out_of_memory_for_tables
from ceql.engine.common.owners import power_of_two
from ceql.engine.common.roots import Roots, make_roots
from ceql.engine.common.shares import shard_count
from ceql.engine.common.summing import QUOTA, Summing
from ceql.engine.groups.reading import Reading
from ceql.engine.states.check import Known, check
from ceql.engine.states.collect import collect, compact_pool, sweep
from ceql.engine.states.enumerate import list_chains
from ceql.engine.states.latest import list_latest
from ceql.engine.states.layout import (
    ACTIVE,
    BOOKED,
    EPOCH,
    GROW,
    HOLE,
    HOLE_STATE,
    HOLE_SYMBOL,
    INITIAL,
    LOADED,
    LOG,
    LOGGED,
    MORE,
    OWN_REGISTERS,
    POOL,
    RECORD,
    SINCE,
    SWEEP,
    Active,
    Partitions,
    Store,
    Tables,
)
from ceql.engine.states.loop import advance
from ceql.engine.states.pick import BOOK, make_picked, pick
from ceql.engine.states.records import put_back
from ceql.jit import Array

LOG_WORDS = 6
_LEAST_TABLES = 1 << 18  # bytes
_LEAST_POOL = 256  # words
_POOL_SHARE = 2  # words of the pool for each node


class Tabled(Protocol):
    """What the machine needs of the determinised automaton (`automata.cache.TableCache`)."""

    tables: Tables
    automaton: Any
    max_bytes: int
    states: list[Any]

    def room_for_symbols(self, count: int) -> bool: ...

    def restore(self, states: list[Any]) -> None: ...

    def copy(self) -> Tabled: ...

    def fill(self, state: int, symbol: int) -> bool: ...

    def forget(self, in_use: Array) -> Array: ...


class StateMachine(Reading):
    """The state of a recogniser and the buffers of its output.

    Where it picks, its automaton gives runs up for rivals that start later only, and of a position's matches those of
    earliest start are shown (`engine.states.pick`).
    """

    columns = ("counter", "bound", "floor", "offset", "room", "epoch", "initial", "log")

    def __init__(
        self,
        cache: Tabled,
        settings: Settings,
        timed: bool,
        memory: int,
        matches: int = 1 << 15,
        positions: int = 1 << 17,
        nodes: int = 1 << 14,
        pool: int = _LEAST_POOL,
    ) -> None:
        super().__init__(settings, OWN_REGISTERS, timed, memory, matches, positions, nodes)
        self.picked = make_picked(nodes, timed, len(self.noted.node)) if settings.picks else None
        self.cache = cache
        self.regs[LOADED] = -1
        self.log: Array = np.zeros((1024 if settings.log else 0, LOG_WORDS), np.int64)
        self.pool: Array = np.zeros(pool, np.int64)
        self.active = _active(16, 16, cache.tables.next.shape[0])
        self._few = settings.few
        self._needs_more = False
        self.known: Known | None = None
        self.table_share = 1
        """Of how many machines the tables share what memory the graphs leave."""

    # --- shards ---

    def shard(self) -> StateMachine:
        """A machine like this one, with nothing in it and small buffers; its automaton has tables of its own."""
        made = StateMachine(self.cache.copy(), self.settings, self.timed, self.memory, **self._small_buffers())
        made.table_share = shard_count()
        made._few = self._few
        made._needs_more = self._needs_more
        self._make_alike(made)
        return made

    def take(self, nodes: Array, times: Array, pool: Array) -> None:
        """Begin with these nodes and this pool of records."""
        self._set_nodes(nodes, times, max(len(self.nodes), power_of_two(2 * len(nodes))))
        self.pool = pool
        slots, longest = self.active.lists.shape
        self.active = _active(slots, longest, self.cache.tables.next.shape[0])

    # --- partitions ---

    @property
    def parts(self) -> Partitions:
        """The partitions, as the loop takes them."""
        return Partitions(self.table, self.pool)

    def _blank(self) -> Array:
        row = super()._blank()
        row[[RECORD, LOGGED]] = -1
        row[SINCE] = self.regs[EPOCH]
        return row

    def idle(self, partitions: Array) -> Array:
        """Those of these partitions that hold nothing."""
        holds_nothing = (self.table[:, RECORD] < 0) & (self.table[:, INITIAL] == 0)
        idle: Array = partitions[holds_nothing[partitions]]
        return idle

    @property
    def remembers(self) -> bool:
        """Whether what was read changes what a match may start with (NEXT, LAST, MAX)."""
        return bool(self.table[:, INITIAL].any())

    # --- feeding ---

    @property
    def _arrays(self) -> Store:
        return Store(self.nodes, self.times, self.regs, self.parts, self.active, self.log)

    def _advance(self, events: Events, stop: int) -> int:
        settings = self.settings
        if self._in_vain and not settings.waits:
            settings = settings._replace(notes=False)
        reason = advance(self.cache.tables, self._arrays, events, self.noted, settings, stop)
        while reason == HOLE and self._fill():
            reason = advance(self.cache.tables, self._arrays, events, self.noted, settings, stop)
        if self.picked is not None:
            self.regs[[PICKED, TO_PICK, NOTED]] = 0, self.regs[NOTED], 0
        return int(reason)

    def _answer(self, reason: int, events: Events) -> None:
        if reason == HOLE:
            self._forget_states()
        elif reason == COLLECT:
            size = len(self.parts.pool)
            self._store()
            # while the pool is small beside the graph, it grows without a collection, which looks at both
            if size == len(self.parts.pool) or size > _POOL_SHARE * len(self.nodes):
                self.compact()
        elif reason == SWEEP:
            self._sweep(events)
        else:
            assert reason == GROW
            self._store()
            slots, longest = self.active.lists.shape
            self.active = _active(2 * slots, 2 * longest, len(self.active.place))

    def _sweep(self, events: Events) -> None:
        if self.regs[KEPT]:
            sweep(self._arrays, events, self.settings.window)
        else:
            self.regs[NODES] = self.regs[BASE] - 1
        self._hold_all()

    def _settle(self) -> None:
        live = self.nodes[self._live(self.active.roots[: int(self.regs[ROOTS])], int(self.regs[LEAST]))]
        self.regs[SEEN] = np.any((live[:, B] < 0) & (live[:, C] >= self.regs[LEAST]) & (live[:, KIND] >= 0))

    # --- reading what the loop has found ---

    @property
    def found(self) -> Roots:
        """The roots that are read."""
        return self.noted if self.picked is None else self.picked.roots

    @property
    def graph(self) -> tuple[Array, Array]:
        """The nodes that they name, and their times."""
        return (self.nodes, self.times) if self.picked is None else (self.picked.nodes, self.picked.times)

    def _read(self) -> Iterator[Chunk]:
        yield from super()._read()
        while self.picked is not None and self.regs[PICKED] < self.regs[TO_PICK]:
            if len(self.picked.roots.node) < len(self.noted.node):
                self.picked = self.picked._replace(roots=make_roots(len(self.noted.node)))
            pick(self.nodes, self.times, self.regs, self.noted, self.picked)
            self._exactly = None
            yield from super()._read()

    def _list(self) -> int:
        nodes, times = self.graph
        if self.settings.latest:
            return int(list_latest(nodes, times, self.regs, self.out, self.scratch, self.settings, self.found))
        rows = self.scratch if self._needs_more else None
        reason = int(list_chains(nodes, times, self.regs, self.out, rows, self.settings, self.found))
        self._needs_more = self._needs_more or reason == MORE
        return reason

    def sum_up(self, summing: Summing | None) -> None:
        """Add up the matches of positions that have very many, or enumerate all again."""
        self.summing = summing
        self.settings = self.settings._replace(few=QUOTA if summing is not None else self._few)

    # --- what the loop comes back for ---

    def room_for_symbols(self, count: int) -> None:
        """Make sure that the tables have a column for each of `count` symbols."""
        if 4 * max(self.cache.tables.next.nbytes, self.cache.tables.next.itemsize * count * len(self.cache.states)) > (
            _LEAST_TABLES
        ):
            self._budget_tables()
        if not self.cache.room_for_symbols(count):
            self._forget_states()
            if not self.cache.room_for_symbols(count):
                raise out_of_memory_for_tables(self.cache.max_bytes, len(self.cache.states), count)

    def _budget_tables(self) -> None:
        """Let the tables take what the rest leaves of `memory`, or a little in any case."""
        rest = sum(8 * rows * words for name, (rows, words) in self._sizes().items() if name != "tables")
        self.cache.max_bytes = max(_LEAST_TABLES, (self.memory - rest) // self.table_share)

    def _fill(self) -> bool:
        """Fill the cell that the loop has missed; False if that makes states too many."""
        if self.cache.tables.next.nbytes > _LEAST_TABLES // 4:
            self._budget_tables()
        full = self.cache.fill(int(self.regs[HOLE_STATE]), int(self.regs[HOLE_SYMBOL]))
        states = self.cache.tables.next.shape[0]
        if states > len(self.active.place):
            self.active = self.active._replace(place=np.zeros(states, np.int64))
        return not full

    def _forget_states(self) -> None:
        self._store()
        self.compact()
        in_use = np.zeros(len(self.cache.tables.accept), np.uint8)
        spots = list(self._state_spots())
        in_use[[int(self.pool[s]) for s in spots]] = 1
        in_use[self.table[:, INITIAL]] = 1
        renumbered = self.cache.forget(in_use)
        for spot in spots:
            self.pool[spot] = renumbered[self.pool[spot]]
        self.table[:, INITIAL] = renumbered[self.table[:, INITIAL]]

    def _state_spots(self) -> Iterator[int]:
        """Where in the pool the numbers of states stand."""
        pool = self.pool
        records = self.table[:, RECORD]
        for at in records[records >= 0].tolist():
            spot = at + 1
            for _ in range(int(pool[at])):
                yield spot
                spot += 2 + int(pool[spot + 1])

    def _store(self) -> None:
        """Put the loaded partition back into the pool, which grows as needed."""
        while not put_back(self.regs, self.parts, self.active):
            size = 2 * len(self.pool)
            self._check_memory(pool=size)
            self._compact_pool(size)
        self._hold_all()

    def _compact_pool(self, size: int) -> None:
        records = np.count_nonzero(self.table[:, RECORD] >= 0)  # a record that has filled its room gets more of it
        pool = np.zeros(max(size, int(self.regs[POOL]) + 4 * int(records)), np.int64)
        compact_pool(self.regs, self.parts, pool)
        self.pool = pool

    # --- memory ---

    def compact(self) -> None:
        """Give back what the window has left, and make room if that was not enough; see `Machine.compact`."""
        self._store()
        with self._collecting():
            collect(self._arrays, self.settings.window)
        self.regs[BOOKED] = 0
        if len(self.table) > 1:
            self._emptied = None
        self._make_room()
        if self.settings.log and 2 * self.regs[LOG] > len(self.log):
            self._check_memory(log=2 * len(self.log))
            self.log = np.concatenate([self.log, np.zeros_like(self.log)])
        if 2 * self.regs[POOL] > len(self.pool):
            self._compact_pool(len(self.pool))

    def _set_nodes(self, nodes: Array, times: Array, capacity: int) -> None:
        super()._set_nodes(nodes, times, capacity)
        self.regs[BOOKED] = 0
        if self.picked is not None:
            self.picked = make_picked(capacity, self.timed, len(self.noted.node))

    def _sizes(self) -> dict[str, tuple[int, int]]:
        states, symbols = self.cache.tables.next.shape
        sizes = super()._sizes()
        rows, words = sizes["nodes"]
        if self.picked is not None:
            words += NODE_WORDS + 1 + BOOK
        return sizes | {
            "nodes": (rows, words),
            "log": (len(self.log), LOG_WORDS),
            "pool": (len(self.pool), 1),
            "tables": (states, symbols),
        }

    def measures(self) -> dict[str, int]:
        """Metrics by name; see `Machine.measures`."""
        return super().measures() | {"states": len(self.cache.states)}

    def _held(self) -> Array:
        used = self.nodes[: self.regs[NODES]]
        return np.concatenate([used[:, A][used[:, KIND] >= 0], self.log[: self.regs[LOG], 0]])

    # --- state ---

    def start_over(self) -> None:
        """Forget all events; matches that wait in the buffers stay."""
        regs = self.regs
        regs[[NODES, SUMMED, LIVE_FROM, BOOKED, PHASE, ROOTS, SEEN, ACTIVE, POOL]] = 0
        regs[LOADED] = -1
        self.table[:, RECORD] = -1
        self.table[:, INITIAL] = 0
        self._exactly = None
        self._have_read()

    def state(self, partitions: Array | None = None) -> dict[str, Array]:
        """The state between two batches; see `Machine.state`."""
        self._store()
        log, pool = self.log[: self.regs[LOG]].copy(), self.pool[: self.regs[POOL]].copy()
        return super().state(partitions) | {"log": log, "parts.pool": pool}

    def check(self, arrays: dict[str, Array]) -> None:
        """Refuse arrays of a state that the kernels could not work on; `known` says what their numbers may name."""
        if self.known is not None:
            check(arrays, self.columns, LOG_WORDS, self.settings.log, self.known)

    def restore(self, arrays: dict[str, Array]) -> None:
        """Continue from a `state`; see `Machine.restore`."""
        super().restore(arrays)
        self.regs[[ACTIVE, HOLE_STATE, HOLE_SYMBOL, BOOKED]] = 0
        self.regs[LOADED] = -1
        self.regs[POOL] = len(arrays["parts.pool"])
        self.regs[LOG] = len(arrays["log"])
        if self.settings.log:
            self.log = np.zeros((max(1024, 2 * len(arrays["log"])), LOG_WORDS), np.int64)
            self.log[: len(arrays["log"])] = arrays["log"]
        slots, longest = self.active.lists.shape
        self.active = _active(slots, longest, self.cache.tables.next.shape[0])
        pool = arrays["parts.pool"].astype(np.int64)
        self.pool = np.concatenate([pool, np.zeros(max(_LEAST_POOL, len(pool)), np.int64)])


def _active(slots: int, longest: int, states: int) -> Active:
    return Active(
        table=np.zeros((6, slots + 1), np.int64),
        lists=np.zeros((slots, longest), np.int64),
        place=np.zeros(states, np.int64),
        roots=np.zeros(slots * longest, np.int64),
    )
