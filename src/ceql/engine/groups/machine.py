"""One recogniser of a correlated query: the loop's arrays, and what the loop cannot do by itself."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np

from ceql.engine.common.chunk import Chunk
from ceql.engine.common.graph import KIND, A
from ceql.engine.common.layout import (
    BLOCK,
    CHOOSE,
    COLLECT,
    COUNTER,
    EVENT,
    FOLLOW,
    HAND_OVER,
    LIVE_COUNT,
    LIVE_FROM,
    MATCHES,
    NEVER,
    NODES,
    SEEN,
    W_COUNTED,
    Events,
    Settings,
)
from ceql.engine.common.limits import out_of_memory_for_groups
from ceql.engine.common.owners import power_of_two
from ceql.engine.common.reached import nothing_reached
from ceql.engine.groups import rows, told, words
from ceql.engine.groups.ahead import RING
from ceql.engine.groups.check import check
from ceql.engine.groups.chosen.follow import FEW, Choosing, kept_runs, kept_ways, write_kept
from ceql.engine.groups.collect import collect
from ceql.engine.groups.graph import WAY
from ceql.engine.groups.layout import (
    ASK,
    BUCKETS,
    BUCKETS_STORED,
    BUCKETS_USED,
    CELLS_USED,
    COLUMNS,
    ENTRIES,
    FORGOTTEN,
    FORGOTTEN_HERE,
    FREE_BUCKET,
    GROW_CELLS,
    GROW_FRESH,
    GROW_ROWS,
    GROW_TABLE,
    HASHED,
    INEXACT,
    KEY,
    LEFT_BUCKET,
    NEED,
    ORDER,
    OWN_REGISTERS,
    ROWS,
    ROWS_USED,
    SEEN_EVENTS,
    SUBSTREAM,
    WIDTH,
    Carrier,
    Fresh,
    Steps,
    Store,
)
from ceql.engine.groups.loop import advance, room_for
from ceql.engine.groups.reading import NOTHING, Reading
from ceql.engine.groups.rings import free_buckets
from ceql.engine.groups.sets import keep_cells
from ceql.engine.groups.table import fill
from ceql.errors import DataError, ResourceError
from ceql.jit import Array

_log = logging.getLogger(__name__)
_FEW = 4096  # entries or cells: a table of fewer grows without a collection, which gives up what a window has left
_STRETCH = 1 << 14  # events
_NOTHING: tuple[Array, Array] = (np.zeros((0, ROWS), np.int64), np.zeros((0, BUCKETS), np.int64))


class Choice(Protocol):
    """What makes matches of candidates."""

    def sift(self, chunk: Chunk) -> Chunk:
        """The candidates that may be matches, each looked at by itself."""

    def choose(self, chunks: list[Chunk]) -> list[Chunk]:
        """The matches among all that is left of the candidates of some positions."""


class GroupMachine(Reading):
    """The state of a recogniser and the buffers of its output.

    With `choose`, complete runs are candidates, and it makes the matches of all those of a position. With `choosing`
    too, only a few of them are made where a position has many: those that a strategy keeps.
    """

    columns: tuple[str, ...] = ("counter", "bound", "floor", "seen", "forgotten")

    def __init__(
        self,
        steps: Steps,
        settings: Settings,
        timed: bool,
        memory: int,
        choose: Choice | None = None,
        carrier: Carrier | None = None,
        choosing: Choosing | None = None,
        matches: int = 1 << 15,
        positions: int = 1 << 17,
        nodes: int = 1 << 14,
        block: int = BLOCK,
    ) -> None:
        settings = settings._replace(block=block, few=FEW if choosing is not None else NEVER)
        super().__init__(settings, OWN_REGISTERS, timed, memory, matches, positions, nodes)
        self.choose, self.choosing = choose, choosing
        self.carrier = carrier
        if carrier is not None:
            self.spare = 4  # an event makes many nodes, most of which are soon out of reach
            if carrier.indexes[:, ORDER].any():
                self.carrier = rows.begun(carrier, nodes >> 4)
        self.conditions: tuple[str, ...] = ()
        """The conditions whose values make groups, for messages."""
        self.tell: told.Tell | None = None
        """Decides conditions on lists of events."""
        self.on_candidates: Callable[[int], None] | None = None
        """Is told how many complete runs are about to be handed out; what it raises ends the feeding."""
        follows = settings.mode == FOLLOW
        self.reached = nothing_reached(*((len(steps.target), len(steps.final)) if follows else (0, 0)))
        self.regs[[LEFT_BUCKET, FREE_BUCKET]] = -1
        self.regs[FORGOTTEN] = -1
        self.collected = False  # since the caller last looked for values that nothing waits under
        self.lists = bool((steps.feed_unlike >= 0).any())
        self.extra: Array = np.zeros((nodes if self.lists else 0, 3), np.int64)
        ended = int(steps.index_ended.max(initial=-1)) + 1
        self.columns = (*GroupMachine.columns, *(f"ended {k}" for k in range(ended)))
        self.table: Array = np.zeros((0, COLUMNS + ended), np.int64)
        self.way: Array = np.zeros(WAY, np.int64)
        self.entries: Array = np.zeros((0, KEY), np.int64)
        self.slots: Array = np.zeros(0, np.int64)
        self._most_made = 0
        self._short_of_cells = -1  # the event that last found no room for its sets
        self.use(steps)

    def use(self, steps: Steps) -> None:
        """Go on with these tables: the same automaton, more symbols."""
        self.steps = steps
        self.room = room_for(steps)
        widths = np.zeros(len(steps.tight), np.int64)
        widths[steps.feed_index] = np.diff(steps.feed_keys)
        self.tight = steps.tight
        if self.carrier is not None:  # the heads of lists are further indexes
            widths = np.concatenate([self.carrier.indexes[:, WIDTH], self.carrier.indexes[:, HASHED]]).astype(np.int64)
            self.tight = np.concatenate([steps.tight, np.zeros_like(steps.tight)])
        self.widths = widths
        self.numbered: Array = np.ones((len(widths), int(widths.max(initial=0))), np.bool_)
        """Which words of each index's key and registers are numbers of values."""
        self.sets: Array = np.zeros_like(self.numbered)
        """Which of them are sets of values."""
        self._make_fresh(max(self._most_made, int(np.diff(steps.by_symbol).max(initial=0)) + 1))
        if not len(self.entries):
            own = 0 if self.carrier is None else 2
            least = 1 << (len(self.nodes) >> 2).bit_length() if self._makes_entries else 64
            size = max(64, least, power_of_two(self.room))
            self.entries = np.zeros((size, KEY + int(widths.max(initial=0)) + own), np.int64)
        self._room_for_entries()
        while len(self.nodes) < 4 * self.room:
            self._resize_nodes(2 * len(self.nodes))

    def _make_fresh(self, room: int) -> None:
        self._most_made = room
        carried = int(np.diff(self.carrier.moves_of).max(initial=0)) if self.carrier is not None else 0
        self.fresh = Fresh(
            state=np.zeros(room, np.int32),
            node=np.zeros(room, np.int64),
            via=np.zeros(room, np.int32),
            roots=np.zeros(room, np.int64),
            vector=np.zeros((room, carried), np.int64),
            found=np.zeros(room, np.int64),
            key=np.zeros(int(self.widths.max(initial=0)) + 1, np.int64),
            hashes=np.zeros((RING, len(self.steps.lookup_index)), np.int64),
            heads=np.zeros((room * int(np.diff(self.steps.feeds).max(initial=1)), 2), np.int64),
            only=np.full(len(self.steps.tight), -1, np.int64),
        )

    @property
    def _makes_entries(self) -> bool:
        """Whether almost every event makes a group: runs carry registers, and some are not in rows."""
        return self.carrier is not None and not self.carrier.indexes[:, ORDER].all()

    # --- shards ---

    def shard(self) -> GroupMachine:
        """A machine like this one, with nothing in it and small buffers."""
        made = GroupMachine(
            self.steps, self.settings, self.timed, self.memory, None, self.carrier, None,
            block=self.settings.block, **self._small_buffers(),
        )  # fmt: skip
        if self.carrier is not None:
            made.carrier = rows.emptied(self.carrier)
        made.conditions, made.tell, made.numbered, made.sets = self.conditions, self.tell, self.numbered, self.sets
        self._make_alike(made)
        return made

    def take_graph(self, nodes: Array, times: Array, extra: Array) -> None:
        """Begin with these nodes."""
        self._set_nodes(nodes, times, max(len(self.nodes), power_of_two(2 * len(nodes))))
        if self.lists:
            self.extra[: len(extra)] = extra

    def take_entries(self, entries: Array, kept: Array, buckets: Array, cells: Array) -> None:
        """Begin with these entries of the look-up table, and their runs in order; of the sets of values, keep those
        that they have."""
        self.regs[[ENTRIES, LIVE_FROM, LIVE_COUNT]] = len(entries), 0, 0
        self.regs[[LEFT_BUCKET, FREE_BUCKET]] = -1
        self.entries = _longer(entries, max(len(self.entries), power_of_two(2 * len(entries))))
        if self.carrier is not None:
            self._restore_rows(kept, buckets)
            if len(cells):
                self.carrier = self.carrier._replace(cells=cells)
                self._room_for_cells(power_of_two(len(cells)))
                words.keep_sets(self)
        self._room_for_entries()

    # --- partitions ---

    def _blank(self) -> Array:
        row = super()._blank()
        row[FORGOTTEN_HERE] = -1
        row[COLUMNS:] = -1
        return row

    def idle(self, partitions: Array) -> Array:
        """Those of these partitions that hold nothing."""
        waiting = np.zeros(len(self.table), np.bool_)
        waiting[self.entries[: self.regs[ENTRIES], SUBSTREAM]] = True
        return partitions[~waiting[partitions]]

    # --- feeding ---

    def _end(self, stop: int) -> int:
        # rows are kept for what is still to be read: of a stretch of the stream, however few matches it has
        return stop if self.carrier is None else min(stop, int(self.regs[EVENT]) + _STRETCH)

    def _answer(self, reason: int, events: Events) -> None:
        """Do what the loop came back for, so that it can go on. All that it has found is read."""
        if reason == GROW_FRESH:
            self._check_memory(fresh=2 * self._most_made)
            self._make_fresh(2 * self._most_made)
        elif reason == GROW_ROWS:
            self._room_for_rows()
        elif reason == GROW_CELLS:
            self._more_cells()
        elif reason == ASK:
            told.look_ahead(self, events)
        elif reason == INEXACT:
            raise DataError(
                f"at position {events.position[self.regs[EVENT]]} a condition between events calculates with numbers "
                f"that are too large to be exact ({', '.join(self.conditions)})"
            )
        else:
            assert reason in (COLLECT, GROW_TABLE)
            if reason == GROW_TABLE and len(self.entries) < _FEW:
                self._room_for_entries()
            else:
                self.collect(for_table=reason == GROW_TABLE)

    @property
    def _store(self) -> Store:
        return Store(
            self.nodes, self.times, self.extra, self.slots, self.entries, self.regs, self.table, self.fresh, self.way
        )

    def _advance(self, events: Events, stop: int) -> int:
        with np.errstate(over="ignore", invalid="ignore"):  # where Numba is switched off
            reason = advance(
                self.steps, NOTHING if self.carrier is None else None, self.carrier, self._store, self.reached,
                self.noted, events, self.settings._replace(notes=not self._in_vain), self.room, stop,
            )  # fmt: skip
        return int(reason)

    # --- reading what the loop has found ---

    def _read_on(self) -> int:
        return HAND_OVER if self.settings.mode == CHOOSE else super()._read_on()

    def _read_many(self, reason: int) -> Iterator[Chunk]:
        if self.choosing is not None:
            ways = kept_ways(self, self.choosing)
            if reason == HAND_OVER or not write_kept(self, ways):
                yield from self._candidates(kept_runs(self, ways))
        elif self.choose is not None:
            yield from self._candidates(self.all_runs())
        else:
            yield from super()._read_many(reason)

    @property
    def carried(self) -> Carrier:
        """What runs carry, as the readers take it."""
        return self.carrier if self.carrier is not None else super().carried

    def flush(self) -> Iterator[Chunk]:
        """Hand out what stands in the buffers."""
        for chunk in super().flush():
            yield from [chunk] if self.choose is None else self.choose.choose([self.choose.sift(chunk)])

    def hand_out(self) -> Chunk | None:
        if self.on_candidates is not None and self.regs[MATCHES]:
            self.on_candidates(int(self.regs[MATCHES]))
        return super().hand_out()

    # --- what the loop comes back for ---

    def _candidates(self, runs: Iterator[Chunk]) -> Iterator[Chunk]:
        """One position's candidates at once: what follows depends on whether there is a match among them."""
        assert self.choose is not None
        yield from self.flush()
        chosen = self.choose.choose(self.at_once(map(self.choose.sift, runs)))
        self.regs[SEEN] = sum(len(chunk.start) for chunk in chosen)
        yield from chosen

    # --- memory ---

    def compact(self) -> None:
        """Give back what the window has left; see `Machine.compact`."""
        self.collect()
        if len(self.table) > 1:
            self._emptied = None

    def collect(self, for_table: bool = False) -> None:
        """The same, without looking for partitions that hold nothing."""
        with self._collecting():
            collect(
                self._store, self.tight, self.steps.index_ended, len(self.steps.tight), *self._in_order,
                self.settings.window,
            )  # fmt: skip
        self.regs[[LEFT_BUCKET, FREE_BUCKET]] = -1  # no head has them
        if self.regs[CELLS_USED]:
            words.keep_sets(self)
        self.collected = True
        self._room_for_entries()
        self._make_room(enough=for_table)

    @property
    def _in_order(self) -> tuple[Array, Array]:
        return _NOTHING if self.carrier is None else (self.carrier.rows, self.carrier.buckets)

    def _room_for_rows(self) -> None:
        """Make room for what an event needs, and as much again as there is."""
        room = rows.room_needed(self)
        self._check_memory(rows=room)
        self.carrier = rows.packed(self, room)

    def recode(self, chosen: Array, change: Callable[[Array], Array]) -> None:
        """Change the words that are chosen by index and word: their values are encoded in another way from now on."""
        words.recode(self, chosen, change)
        self._room_for_entries()

    def _more_cells(self) -> None:
        """After an event that found no room for its sets: collect, and double the room if that was not enough."""
        assert self.carrier is not None
        again, self._short_of_cells = self._short_of_cells == self.regs[EVENT], int(self.regs[EVENT])
        have = len(self.carrier.cells)
        if have >= _FEW:
            self.collect(for_table=True)
        if again or have < _FEW or 2 * int(self.regs[CELLS_USED]) >= have:
            self._room_for_cells(max(1024, 2 * have))

    def _room_for_cells(self, room: int) -> None:
        assert self.carrier is not None
        self._check_memory(cells=room)
        cells, slots = _longer(self.carrier.cells, room), np.zeros(2 * room, np.int64)
        self.carrier = told.forgotten(self.carrier._replace(cells=cells, cell_slots=slots))
        with np.errstate(over="ignore"):  # fills the hash table
            keep_cells(self.carrier.cells, self.carrier.cell_slots, self.regs, np.ones(room, np.int64))

    def _room_for_entries(self) -> None:
        """Make sure that there is room for entries, and fill the hash table again."""
        size = len(self.entries)
        # where almost every event makes an entry, a full table must not be what collects a large graph
        least = len(self.nodes) >> 3 if self._makes_entries else 0
        while size < max(2 * int(self.regs[ENTRIES]) + max(self.room, int(self.regs[NEED])), least):
            size *= 2
        if size != len(self.entries):
            self._check_memory(entries=size)
            _log.debug("the table of partial matches grows to %d entries", size)
            used = self.entries[: self.regs[ENTRIES]]
            self.entries = np.zeros((size, used.shape[1]), np.int64)
            self.entries[: len(used)] = used
        if len(self.slots) < 2 * size:
            self.slots = np.zeros(2 * size, np.int64)
        with np.errstate(over="ignore"):
            fill(self.slots, self.entries, self.regs, self.widths)
        self.fresh.only[:] = -1

    def _set_nodes(self, nodes: Array, times: Array, capacity: int) -> None:
        super()._set_nodes(nodes, times, capacity)
        if self.lists:
            extra = np.zeros((capacity, 3), np.int64)
            kept = min(len(nodes), len(self.extra))
            extra[:kept] = self.extra[:kept]
            self.extra = extra

    def _sizes(self) -> dict[str, tuple[int, int]]:
        entries = (len(self.entries), self.entries.shape[1] + 2)
        fresh = (self._most_made, 4 + self.fresh.vector.shape[1])
        cells = len(self.carrier.cells) if self.carrier is not None else 0
        sizes = super()._sizes()
        counting = self._lanes_counted
        return sizes | {
            "entries": entries,
            "fresh": fresh,
            "rows": (len(self._in_order[0]), 1 + ROWS + (counting + 1 if counting else 0)),
            "cells": (cells, 5),
        }

    def _out_of_memory(self) -> ResourceError:
        return out_of_memory_for_groups(self.memory, self.conditions)

    def measures(self) -> dict[str, int]:
        """Metrics by name; see `Machine.measures`."""
        return super().measures() | {"groups": int(self.regs[ENTRIES]), "states": len(self.steps.final)}

    def _held(self) -> Array:
        used = self.nodes[: self.regs[NODES]]
        return np.asarray(used[used[:, KIND] >= 0][:, A])

    def used_values(self, most: int, sorted_by: bool) -> Array:
        """The numbers, below `most`, of the values that runs are filed under, or (`sorted_by`) were."""
        return words.used_values(self, most, sorted_by)

    # --- state ---

    def state(self, partitions: Array | None = None) -> dict[str, Array]:
        """The state between two batches; see `Machine.state`."""
        if self.carrier is not None:
            free_buckets(self.carrier, self.regs)
        entries = self.entries[: self.regs[ENTRIES]].copy()
        if partitions is not None:
            number: Array = np.full(len(self.table), -1, np.int64)
            number[partitions] = np.arange(len(partitions))
            entries[:, SUBSTREAM] = number[entries[:, SUBSTREAM]]
        return super().state(partitions) | {
            "extra": self.extra[: self.regs[NODES]].ravel(),
            "entries": entries,
            "sizes": np.array([len(self.nodes), len(self.entries), self._sizes()["cells"][0]]),
            "rows": rows.kept(self.carrier, int(self.regs[BUCKETS_USED])),
            "buckets": self._in_order[1][: self.regs[BUCKETS_USED], :BUCKETS_STORED].copy(),
            "cells": self.carrier.cells[: self.regs[CELLS_USED]].copy() if self.carrier is not None else _NOTHING[0],
        }

    def check(self, arrays: dict[str, Array]) -> None:
        """Refuse arrays of a state that the kernels could not work on."""
        sizes = check(self, arrays)
        self._check_memory(nodes=int(sizes[0]), entries=int(sizes[1]))

    def restore(self, arrays: dict[str, Array]) -> None:
        """Continue from a `state`."""
        super().restore(arrays)
        if self.settings.window == W_COUNTED:
            self.table[:, COUNTER] = self.table[:, SEEN_EVENTS]
        self.regs[[ENTRIES, ROWS_USED, BUCKETS_USED, CELLS_USED, NEED]] = 0
        self.regs[[LEFT_BUCKET, FREE_BUCKET]] = -1
        self.regs[ENTRIES] = len(arrays["entries"])
        if self.lists:
            self.extra[: self.regs[NODES]] = arrays["extra"].reshape(-1, 3)
        if self.carrier is not None:
            self.regs[CELLS_USED] = len(arrays["cells"])
            self.carrier = self.carrier._replace(cells=arrays["cells"])
            self._room_for_cells(int(arrays["sizes"][2]))
            self._restore_rows(arrays["rows"], arrays["buckets"])
        self.entries = np.zeros((arrays["sizes"][1], self.entries.shape[1]), np.int64)
        self.entries[: len(arrays["entries"])] = arrays["entries"]
        self._room_for_entries()

    def _restore_rows(self, kept: Array, buckets: Array) -> None:
        assert self.carrier is not None
        buckets = rows.stored(buckets)
        sizes = rows.sizes_of(buckets, self.settings.block)
        self._check_memory(rows=sum(sizes))
        self.regs[[ROWS_USED, BUCKETS_USED]] = sum(sizes), len(buckets)
        self.carrier = rows.restored(self.carrier, self.nodes, kept, buckets, sizes, self.settings.block)

    def _capacity(self, arrays: dict[str, Array]) -> int:
        return int(arrays["sizes"][0])  # as it was, so that collections come at the same events


def _longer(array: Array, size: int) -> Array:
    """An array with so many rows; those that are new are written before they are read."""
    longer = np.empty((size, array.shape[1]), np.int64)
    longer[: len(array)] = array
    return longer
