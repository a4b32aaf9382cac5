"""One recogniser of a query with AFTER MATCH: the loop's arrays, and what the loop cannot do by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ceql.engine.common.check import require, require_between, require_shape
from ceql.engine.common.chunk import Chunk
from ceql.engine.common.layout import (
    BOUND,
    COLLECT,
    DONE,
    EVENT,
    FULL,
    GROW_PATH,
    HORIZON,
    MATCHES,
    NO_KEY,
    NODES,
    PHASE,
    W_GIVEN,
    Events,
)
from ceql.engine.common.machine import Machine, ascending
from ceql.engine.common.output import grow_positions, take_chunk
from ceql.engine.common.owners import power_of_two
from ceql.engine.groups import told
from ceql.engine.groups.check import check_cells
from ceql.engine.groups.layout import (
    ASK,
    CELL_HEAD,
    CELL_KIND,
    CELLS_USED,
    GROW_CELLS,
    INEXACT,
    MEMBER_CELL,
    NULL,
    SET_CELL,
    UNKNOWN,
    Carrier,
)
from ceql.engine.groups.sets import keep_cells
from ceql.engine.preferred.check import Known, check
from ceql.engine.preferred.collect import collect
from ceql.engine.preferred.layout import (
    AT,
    COLUMNS,
    COUNT,
    ENTRY,
    FOUND,
    GROW,
    KEPT,
    KEY,
    LABEL,
    LATEST,
    LIST,
    LONG,
    MET,
    NO_NODE,
    OF_STARTS,
    POOL,
    POSITION,
    READY,
    REGISTERS,
    SHOWN,
    STAMP,
    STANDS,
    STARTS,
    UNBOUND,
    WAIT,
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
_LEAST_POOL = 1 << 8
_FEW_CELLS = 1 << 12
_COLUMNS = ("counter", "bound", "floor", "list", "count", "room", "met", "present", "marked", "seen", "due")
assert len(_COLUMNS) == COLUMNS


class PreferredMachine(Machine):
    """The state of a recogniser and the buffers of its output."""

    scratch_rows = 0
    settings: Settings

    def __init__(
        self,
        auto: Automaton,
        settings: Settings,
        timed: bool,
        memory: int,
        variable: str | None,
        carrier: Carrier | None = None,
        matches: int = 1 << 15,
        positions: int = 1 << 17,
        nodes: int = 1 << 14,
    ) -> None:
        self.node_words = LATEST + 2 * settings.unites
        self.columns = (*_COLUMNS, *(f"met{bit}" for bit in range(len(auto.forbids))))
        super().__init__(settings, REGISTERS, 2, timed, memory, matches, positions, nodes)
        self.auto = auto
        self.variable = variable
        self.known: Known | None = None
        self.carrier = carrier
        self.conditions: tuple[str, ...] = ()
        """The conditions whose values runs carry, for messages."""
        self.tell: told.Tell | None = None
        """Decides conditions on lists of events."""
        self.registers = int(auto.carried.max(initial=0))
        self.numbered: Array = np.zeros((len(auto.carried), self.registers), np.bool_)
        """Which registers of each wait are numbers of values."""
        self.sets: Array = np.zeros_like(self.numbered)
        """Which of them are sets of values."""
        self.collected = False  # since the caller last looked for values that nothing carries
        self.pool: Array = np.zeros((_LEAST_POOL, ENTRY + self.registers), np.int64)
        self._decided: Array = np.zeros((2, matches + 1), np.int64)
        self.deciders: Array = self._decided[:, :0]
        """What has decided each match of the chunk that was handed out last: the position of an event, or (-1) the key
        of a start whose window has passed."""
        self.work = self._scratch(64, 64)

    def _scratch(self, entries: int, ready: int) -> Work:
        waits, width, carrier = len(self.auto.stays), ENTRY + self.registers, self.carrier
        entries += 2 * waits
        moves = int(np.diff(carrier.moves_of).max(initial=0)) if carrier is not None else 0
        slots = power_of_two(2 * entries) if carrier is not None else 0
        return Work(
            entries=np.zeros((entries, width), np.int64),
            stamps=np.zeros(waits + 1, np.int64),
            slots=np.zeros((slots, 2), np.int64),
            run=np.zeros((1, width), np.int64),
            words=np.zeros((1, 0), np.int64),
            vector=np.zeros((1, max(moves, self.registers)), np.int64),
            alike=np.zeros((power_of_two(2 * entries) if self.settings.unites else 0, 2), np.int64),
            stack=np.zeros(entries, np.int64),
            ready=np.zeros((ready, OF_STARTS + 1), np.int64),
            event=np.zeros(5, np.int64),
            decided=self._decided,
        )

    # --- partitions ---

    def idle(self, partitions: Array) -> Array:
        """Those of these partitions that hold nothing."""
        table = self.table[partitions]
        idle: Array = partitions[(table[:, COUNT] == 0) & ~self._forbids(table)]
        return idle

    def _forbids(self, table: Array) -> Array:
        """Of these partitions, whether an event was there that may not come before a match to come."""
        forbids: Array = table[:, MET] != 0
        if self.settings.looks_back:
            bounds = self.regs[HORIZON] if self.settings.window == W_GIVEN else table[:, BOUND]
            forbids &= table[:, COLUMNS:].max(axis=1, initial=NO_KEY) >= bounds
        return forbids

    @property
    def remembers(self) -> bool:
        """Whether what was read changes what a match may start with."""
        return bool(self._forbids(self.table).any())

    def entries(self, partitions: Array) -> tuple[Array, Array]:
        """What the lists of these partitions have, and which of the partitions each is of."""
        table = self.table[partitions]
        sizes = table[:, COUNT]
        begins = np.repeat(table[:, LIST] - np.cumsum(sizes) + sizes, sizes)
        return self.pool[begins + np.arange(len(begins))], np.repeat(np.arange(len(table)), sizes)

    def latest(self, entries: Array) -> Array:
        """The keys of the latest starts of runs."""
        starts = entries[:, STARTS]
        of_several: Array = self.nodes[:, LATEST][starts] if self.settings.unites else starts
        return np.where(starts == NO_NODE, entries[:, KEY], of_several)

    # --- feeding ---

    def _run(self, events: Events) -> Iterator[Chunk]:
        stop = len(events.symbol)
        if self.work.words.shape[1] != events.values.shape[1]:
            self.work = self.work._replace(words=np.zeros((1, events.values.shape[1]), np.int64))

        def call() -> int:
            return advance(
                self.auto, self.carrier, self.nodes, self.times, self.regs, self.table, self.pool, self.work, self.out,
                events, self.settings, stop,
            )  # fmt: skip

        yield from self._until_done(call)

    def decide(self, bound: int) -> Iterator[Chunk]:
        """Decide what is decided once every event to come has this bound at the least."""
        self.regs[[EVENT, PHASE]] = 0
        self._collected_at = (-1, -1)

        def call() -> int:
            return decide_all(
                self.auto, self.carrier, self.nodes, self.times, self.regs, self.table, self.pool, self.work, self.out,
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
            elif reason == GROW_PATH:
                self._grow_search()
            elif reason == LONG:
                self.out = grow_positions(self.out)
            elif reason == GROW_CELLS:
                self._more_cells()
            elif reason == ASK:
                assert self.carrier is not None
                assert self.tell is not None
                told.answer(self.carrier, self.tell)
            elif reason == INEXACT:
                raise DataError(
                    f"at position {int(self.work.event[AT])} a condition between events calculates with numbers that "
                    f"are too large to be exact ({', '.join(self.conditions)})"
                )
            else:
                raise self._no_target(reason)

    def _grow_scratch(self) -> None:
        entries, ready = len(self.work.entries), len(self.work.ready)
        self._check_memory(entries=2 * entries, ready=2 * ready)
        kept = {name: getattr(self.work, name) for name in ("stamps", "event", "words")}
        decided = self.work.ready
        self.work = self._scratch(2 * entries, 2 * ready)._replace(**kept)
        self.work.ready[: len(decided)] = decided

    def _no_target(self, reason: int) -> DataError:
        assert reason in (UNBOUND, STANDS)
        skip = f"AFTER MATCH SKIP TO {self.variable}: the match that starts at position {int(self.regs[WANTED])}"
        if reason == UNBOUND:
            return DataError(f"{skip} binds no event to '{self.variable}', so there is nowhere to go on")
        return DataError(f"{skip} has its own first event there, and would be found again without end")

    def hand_out(self) -> Chunk | None:
        self.deciders = self._decided[:, : self.regs[MATCHES]].copy()
        self.out, chunk = take_chunk(self.out, self.regs)
        return chunk

    # --- memory ---

    def compact(self) -> None:
        """Give back what runs do not reach, and make room if that was not enough; see `Machine.compact`."""
        longest = power_of_two(max(2, int(self.regs[KEPT] + self.regs[FOUND])))
        least = 4 * int(self.table[:, COUNT].sum()) + longest
        if least > len(self.pool):
            self._check_memory(pool=power_of_two(least))
        self._collect(max(len(self.pool), power_of_two(least)))
        if len(self.table) > 1:
            self._emptied = None
        self._make_room()

    def _collect(self, size: int = 0) -> None:
        """Drop what is dead, and go on with a pool of so many entries."""
        with self._collecting():
            pool: Array = np.zeros((size or len(self.pool), self.pool.shape[1]), np.int64)
            collect(self.nodes, self.times, self.regs, self.table, self.pool, pool, self.settings.window)
            self.pool = pool
        if self.regs[CELLS_USED]:
            self._keep_sets()
        self.collected = True

    # --- what runs carry ---

    def _places(self, chosen: Array) -> Iterator[Array]:
        """For each word of an entry, the rows of the pool whose waits have a chosen value there. Nothing in the pool
        may be left over: it has just been collected."""
        rows = self.pool[: self.regs[POOL]]
        waits = rows[:, WAIT]
        for k in range(self.registers):
            found = np.flatnonzero((waits >= 0) & chosen[waits, k] & (rows[:, ENTRY + k] > NULL))
            yield found

    def recode(self, chosen: Array, change: Callable[[Array], Array]) -> None:
        """Change the registers that are chosen by wait and place: their values are encoded in another way."""
        self._collect()
        for k, rows in enumerate(self._places(chosen)):
            self.pool[rows, ENTRY + k] = change(self.pool[rows, ENTRY + k])

    def used_values(self, most: int, sorted_by: bool) -> Array:
        """The numbers, below `most`, of the values that runs carry."""
        found = [self.pool[rows, ENTRY + k] for k, rows in enumerate(self._places(self.numbered))]
        if self.carrier is not None and self.regs[CELLS_USED]:
            cells = self.carrier.cells[: self.regs[CELLS_USED]]
            found.append(cells[cells[:, CELL_KIND] == MEMBER_CELL, CELL_HEAD])  # some are no numbers of values
        numbers = np.concatenate([np.zeros(0, np.int64), *found])
        return ascending(numbers[(numbers >= 0) & (numbers < most)])

    def _keep_sets(self) -> None:
        """Keep the sets of values that runs carry."""
        assert self.carrier is not None
        marked: Array = np.zeros(len(self.carrier.cells), np.int64)
        places = list(self._places(self.sets))
        for k, rows in enumerate(places):
            marked[self.pool[rows, ENTRY + k]] = 1
        with np.errstate(over="ignore"):
            keep_cells(self.carrier.cells, self.carrier.cell_slots, self.regs, marked)
        self.carrier.verdicts[:] = UNKNOWN
        for k, rows in enumerate(places):
            self.pool[rows, ENTRY + k] = marked[self.pool[rows, ENTRY + k]]

    def _more_cells(self) -> None:
        """Give back the sets that no run has, and make room if that was not enough."""
        assert self.carrier is not None
        have = len(self.carrier.cells)
        if have >= _FEW_CELLS:
            self._collect()
        if have < _FEW_CELLS or 2 * int(self.regs[CELLS_USED]) >= have:
            self._room_for_cells(max(1024, 2 * have))

    def _room_for_cells(self, room: int) -> None:
        assert self.carrier is not None
        self._check_memory(cells=room)
        cells: Array = np.zeros((room, 3), np.int64)
        cells[: len(self.carrier.cells)] = self.carrier.cells
        self.carrier = told.forgotten(self.carrier._replace(cells=cells, cell_slots=np.zeros(2 * room, np.int64)))
        with np.errstate(over="ignore"):  # fills the hash table
            keep_cells(cells, self.carrier.cell_slots, self.regs, np.ones(room, np.int64))

    def _sizes(self) -> dict[str, tuple[int, int]]:
        return {
            "nodes": (len(self.nodes), self.node_words + 1),
            "partitions": (len(self.table), len(self.columns)),
            "pool": (len(self.pool), 2 * (ENTRY + self.registers)),
            "entries": (len(self.work.entries), ENTRY + self.registers + 8),
            "ready": (len(self.work.ready), OF_STARTS + 1),
            "cells": (len(self.carrier.cells) if self.carrier is not None else 0, 5),
        }

    def _held(self) -> Array:
        used = self.nodes[: self.regs[NODES]]
        return np.asarray(used[:, POSITION][used[:, LABEL] >= 0])

    # --- state ---

    def state(self, partitions: Array | None = None) -> dict[str, Array]:
        """The state between two batches; see `Machine.state`."""
        self.compact()
        cells = self.carrier.cells[: self.regs[CELLS_USED]].copy() if self.carrier is not None else np.zeros((0, 3))
        pool = self.pool[: self.regs[POOL]].copy()
        return super().state(partitions) | {"pool": pool, "cells": cells.astype(np.int64)}

    def check(self, arrays: dict[str, Array]) -> None:
        """Refuse arrays of a state that the kernels could not work on."""
        if self.known is None:
            return
        check(arrays, self.columns, self.known)
        cells = require_shape(arrays, "cells", None, 3)
        require(self.carrier is not None or not len(cells), "it has sets of values, and the query has none")
        check_cells(cells)
        pool = arrays["pool"]
        waits = pool[:, WAIT]
        for k in range(self.registers):
            named = pool[(waits >= 0) & self.sets[waits, k], ENTRY + k]
            named = named[named > NULL]
            require_between(named, 0, len(cells), "its sets of values are none")
            require(bool((cells[named, CELL_KIND] == SET_CELL).all()), "its sets of values are none")

    def restore(self, arrays: dict[str, Array]) -> None:
        """Continue from a `state`; see `Machine.restore`."""
        super().restore(arrays)
        pool = arrays["pool"].astype(np.int64)
        self.regs[POOL] = len(pool)
        self.pool = np.zeros((max(_LEAST_POOL, 2 * len(pool)), pool.shape[1]), np.int64)
        self.pool[: len(pool)] = pool
        self.regs[CELLS_USED] = len(arrays["cells"])
        if self.carrier is not None and len(arrays["cells"]):
            self.carrier = self.carrier._replace(cells=arrays["cells"].astype(np.int64))
            self._room_for_cells(power_of_two(2 * len(arrays["cells"])))
        self.work = self._scratch(64, 64)
        self.regs[[STAMP, READY, SHOWN, FOUND]] = 0
