"""One recogniser of a query with AFTER MATCH: the loop's arrays, and what the loop cannot do by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ceql.engine.common.chunk import Chunk
from ceql.engine.common.layout import (
    COLLECT,
    DONE,
    EVENT,
    FULL,
    MATCHES,
    NODES,
    PHASE,
    Events,
)
from ceql.engine.common.machine import Machine
from ceql.engine.common.output import grow_positions, take_chunk
from ceql.engine.common.summing import Summing
from ceql.engine.preferred.check import Known, check
from ceql.engine.preferred.collect import collect
from ceql.engine.preferred.layout import (
    COLUMNS,
    COUNT,
    ENTRY,
    FOUND,
    GROW,
    LABEL,
    LONG,
    MARKS,
    MET,
    POOL,
    POSITION,
    READY,
    REGISTERS,
    SHOWN,
    STAMP,
    STANDS,
    UNBOUND,
    WANTED,
    Automaton,
    Settings,
    Work,
)
from ceql.engine.preferred.loop import advance, decide_all
from ceql.errors import DataError
from ceql.jit import Array

ALL_PASSED = np.iinfo(np.int64).max
"""A bound that no window reaches."""
_LEAST_POOL = 1 << 10  # words


class PreferredMachine(Machine):
    """The state of a recogniser and the buffers of its output."""

    node_words = 3
    scratch_rows = 0
    columns = ("counter", "bound", "floor", "list", "count", "room", "met", "present", "marked")
    settings: Settings

    def __init__(
        self,
        auto: Automaton,
        settings: Settings,
        timed: bool,
        memory: int,
        variable: str | None,
        matches: int = 1 << 15,
        positions: int = 1 << 17,
        nodes: int = 1 << 14,
    ) -> None:
        super().__init__(settings, REGISTERS, 1, timed, memory, matches, positions, nodes)
        assert len(self.columns) == COLUMNS
        self.auto = auto
        self.variable = variable
        self.known: Known | None = None
        self._table: Array = np.zeros((0, COLUMNS), np.int64)
        self.pool: Array = np.zeros(_LEAST_POOL, np.int64)
        self.decided: Array = np.zeros((2, matches + 1), np.int64)
        """What has decided each match in the buffers: the position of an event, or (-1) the key of a start whose window
        has passed."""
        self.deciders: Array = self.decided[:, :0]
        """The same of the chunk that was handed out last."""
        self.work = self._scratch(64, 64)

    def _no_marks(self, nodes: int) -> Array:
        return np.zeros((0, 0), np.int64)

    def _scratch(self, entries: int, ready: int) -> Work:
        waits = len(self.auto.stays)
        return Work(
            np.zeros((entries + 2 * waits, ENTRY), np.int64),
            np.zeros(waits + 1, np.int64),
            np.zeros((ready, 3), np.int64),
            np.zeros(5, np.int64),
        )

    # --- partitions ---

    @property
    def table(self) -> Array:
        """The scalars of each partition."""
        return self._table

    def _set_table(self, table: Array) -> None:
        self._table = table

    def idle(self, partitions: Array) -> Array:
        """Those of these partitions that hold nothing."""
        idle: Array = partitions[(self.table[partitions, COUNT] == 0) & (self.table[partitions, MET] == 0)]
        return idle

    @property
    def remembers(self) -> bool:
        """Whether what was read changes what a match may start with."""
        return bool(self.table[:, MET].any())

    # --- feeding ---

    def _run(self, events: Events) -> Iterator[Chunk]:
        stop = len(events.symbol)

        def call() -> int:
            return advance(
                self.auto, self.nodes, self.times, self.regs, self.table, self.pool, self.work, self.out, self.decided,
                events, self.settings, stop,
            )  # fmt: skip

        yield from self._until_done(call)

    def decide(self, bound: int) -> Iterator[Chunk]:
        """Decide what is decided once every event to come has this bound at the least."""
        self.regs[[EVENT, PHASE]] = 0
        self._collected_at = (-1, -1)

        def call() -> int:
            return decide_all(
                self.auto, self.nodes, self.times, self.regs, self.table, self.pool, self.work, self.out, self.decided,
                self.settings, bound,
            )  # fmt: skip

        yield from self._until_done(call)
        self.regs[[EVENT, PHASE]] = 0

    def _until_done(self, call: Callable[[], int]) -> Iterator[Chunk]:
        while (reason := int(call())) != DONE:
            if reason == FULL:
                yield from self.flush()
            elif reason == COLLECT:
                self.compact()
            elif reason == GROW:
                self._grow_scratch()
            elif reason == LONG:
                self.out = grow_positions(self.out)
            else:
                raise self._no_target(reason)

    def _grow_scratch(self) -> None:
        entries, ready = len(self.work.entries), len(self.work.ready)
        self._check_memory(entries=2 * entries, ready=2 * ready)
        stamps = self.work.stamps
        self.work = self._scratch(2 * entries, 2 * ready)._replace(stamps=stamps, event=self.work.event)

    def _no_target(self, reason: int) -> DataError:
        assert reason in (UNBOUND, STANDS)
        skip = f"AFTER MATCH SKIP TO {self.variable}: the match that starts at position {int(self.regs[WANTED])}"
        if reason == UNBOUND:
            return DataError(f"{skip} binds no event to '{self.variable}', so there is nowhere to go on")
        return DataError(f"{skip} has its own first event there, and would be found again without end")

    def hand_out(self) -> Chunk | None:
        self.deciders = self.decided[:, : self.regs[MATCHES]].copy()
        self.out, chunk = take_chunk(self.out, self.regs)
        return chunk

    def sum_up(self, summing: Summing | None) -> None:
        """Nothing: there is one match for each start at the most, and all are enumerated."""

    def _exact_count(self) -> int:
        raise AssertionError("there is one match for each start at the most")

    # --- memory ---

    def compact(self) -> None:
        """Give back what runs do not reach, and make room if that was not enough; see `Machine.compact`."""
        with self._collecting():
            pool: Array = np.zeros(len(self.pool), np.int64)
            collect(self.nodes, self.times, self.regs, self.table, self.pool, pool, self.settings.window)
            self.pool = pool
        if len(self.table) > 1:
            self._emptied = None
        if 2 * self.regs[POOL] >= len(self.pool):
            self._check_memory(pool=2 * len(self.pool))
            self.pool = np.concatenate([self.pool, np.zeros_like(self.pool)])
        self._make_room()

    def _sizes(self) -> dict[str, tuple[int, int]]:
        return {
            "nodes": (len(self.nodes), self.node_words + 1),
            "partitions": (len(self.table), len(self.columns)),
            "pool": (len(self.pool), 2),
            "entries": (len(self.work.entries), ENTRY),
            "ready": (len(self.work.ready), 3),
        }

    def _held(self) -> Array:
        used = self.nodes[: self.regs[NODES]]
        return np.asarray(used[:, POSITION][used[:, LABEL] >= 0])

    # --- state ---

    def state(self, partitions: Array | None = None) -> dict[str, Array]:
        """The state between two batches; see `Machine.state`."""
        self.compact()
        return super().state(partitions) | {"pool": self.pool[: self.regs[POOL]].copy()}

    def check(self, arrays: dict[str, Array]) -> None:
        """Refuse arrays of a state that the kernels could not work on."""
        if self.known is not None:
            check(arrays, self.columns, self.known)

    def restore(self, arrays: dict[str, Array]) -> None:
        """Continue from a `state`; see `Machine.restore`."""
        super().restore(arrays)
        pool = arrays["pool"].astype(np.int64)
        self.regs[POOL] = len(pool)
        self.pool = np.zeros(max(_LEAST_POOL, 2 * len(pool)), np.int64)
        self.pool[: len(pool)] = pool
        self.work = self._scratch(64, 64)
        self.regs[[STAMP, READY, SHOWN, FOUND, MARKS]] = 0
