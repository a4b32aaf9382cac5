"""NOT at the end of a match: candidates wait until time, or the count of events, has passed their window.

A candidate waits under the key of its first event. An event whose window does not reach back to that key decides it: it
is a match if no forbidden event came since its last one. Where a strategy or LIMIT chooses among the matches of an end,
those that are left wait once more, until the latest of them is decided. Matches come in order of the position at which
they are decided; the end of the input, and `advance`, decide at the position of the next event.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from ceql.engine.common.chunk import Chunk, joined
from ceql.engine.common.chunk import rows as rows_of
from ceql.engine.common.layout import Events
from ceql.engine.common.limits import out_of_memory
from ceql.engine.groups.machine import GroupMachine
from ceql.io.sort_keys import encode
from ceql.io.sorted_runs import EventBatch
from ceql.jit import Array
from ceql.recognition.absences import time_bounds
from ceql.recognition.bound_plan import BoundPlan
from ceql.recognition.choosing import Check, Chooser
from ceql.recognition.correlated import CorrelatedRecognition
from ceql.recognition.waiting import PLACES, Held, Waiting
from ceql.syntax import tree as t

_NONE: Array = np.zeros(0, np.int64)


class TrailingRecognition(CorrelatedRecognition):
    """A query that ends with NOT."""

    may_pass_over = False  # any event may decide what waits

    def __init__(self, bound: BoundPlan, counting: bool = False) -> None:
        super().__init__(bound, counting)
        assert self.absences is not None
        denied = {claim.absence for claim in self.auto.denials}
        trailing = [w for w in self.auto.absences if self.auto.shape.trails(w.number)]
        self._forbidden = 0
        for watched in trailing:
            self._forbidden |= 0 if watched.number in denied else watched.guards
        self._compared = [w.number for w in trailing if w.number in denied]
        query = bound.plan.query
        self._together = bool(bound.plan.limit) or bound.plan.rivalry is not None
        self._by_place = bound.window.counts_all_rows
        self._room, self._chosen = Waiting(), Waiting()
        self._memory = bound.options.memory
        self._last: Array = np.full(1, -1, np.int64)
        """Of each substream: the position of the last forbidden event before this batch."""
        self._killers: tuple[Array, Array] = (_NONE, _NONE)  # of this batch: substreams and positions, in order
        self._bounds: Array = _NONE
        self._codes: Array = _NONE
        self._first = 0
        self._ready: list[pa.RecordBatch] = []
        assert query.consume is t.Consume.NONE

    def _make_machine(self) -> GroupMachine:
        machine = super()._make_machine()
        chooser = machine.choose
        assert isinstance(chooser, Chooser)
        machine.choose = _Gatherer(chooser.check, self._together)
        chooser.check = None
        self._chooser = chooser
        return machine

    # --- feeding ---

    def _events(self, batch: EventBatch) -> Events:
        self._first = self.position
        window = self.bound.window
        if window.column is not None:
            column = batch.data.column(window.column)
            self._bounds = time_bounds(window, encode(column, window.column)) if len(column) else _NONE
        return super()._events(batch)

    def _for_machine(self, events: Events, data: pa.RecordBatch, rows: Array | None) -> Events:
        events = super()._for_machine(events, data, rows)
        partitions = self.machine.partitions
        if partitions > len(self._last):
            more = np.full(max(partitions, 2 * len(self._last)) - len(self._last), -1, np.int64)
            self._last = np.concatenate([self._last, more])
        if self.reused:
            self._last[self.reused] = -1
        kills = np.array([bool(bits & self._forbidden) for bits in self.table.bits], np.bool_)
        chosen = np.flatnonzero(kills[events.symbol] & (events.partition >= 0))
        order = chosen[np.argsort(events.partition[chosen], kind="stable")]
        self._killers = events.partition[order].astype(np.int64), events.position[order]
        if self._by_place:
            places = self._place_of(events)
            self._codes = np.where(events.partition < 0, -1, (events.partition.astype(np.int64) << PLACES) + places)
        return events

    def _process(self, resume: bool) -> Iterator[pa.RecordBatch]:
        yield from super()._process(resume)
        self._gather()
        self._decide_batch()
        yield from self._given()

    def _results(self, chunks: Iterator[Chunk]) -> Iterator[pa.RecordBatch]:
        for chunk in chunks:
            self._hold(chunk)
        yield from ()

    def _gather(self) -> None:
        """Let what stands in the machine's buffers wait."""
        for chunk in self.machine.flush():
            self._hold(chunk)

    def _given(self) -> Iterator[pa.RecordBatch]:
        while self._ready:
            yield self._ready.pop(0)

    def _hold(self, chunk: Chunk) -> None:
        numbers = self._numbers(chunk)
        further = numbers
        if self._together:  # the latest start of each end; later starts have greater numbers
            ends, inverse = np.unique(chunk.end, return_inverse=True)
            latest = np.full(len(ends), np.iinfo(np.int64).min)
            np.maximum.at(latest, inverse, numbers)
            further = latest[inverse]
        self._room.add(Held(chunk, numbers, further))
        self._leave_room()

    def _leave_room(self) -> None:
        """Leave partial matches the memory that the matches that wait do not take."""
        taken = self._waiting_bytes
        if taken + self.machine.used > self._memory:
            raise out_of_memory(self._memory, "the matches that wait until their NOT is decided")
        self.machine.memory = self._memory - taken

    def set_memory(self, memory: int) -> None:
        """Change the budget of partial matches and of matches that wait."""
        self._memory = memory
        self.machine.memory = max(0, memory - self._waiting_bytes)

    @property
    def _waiting_bytes(self) -> int:
        return self._room.nbytes + self._chosen.nbytes + int(self._last.nbytes)

    @property
    def used(self) -> int:
        """The memory of partial matches, and of matches that wait until they are decided."""
        return super().used + self._waiting_bytes

    def measures(self) -> dict[str, int]:
        """Metrics by name."""
        return super().measures() | {"memory_graph": self.used}

    def _numbers(self, chunk: Chunk) -> Array:
        """What candidates wait under: the key of the first event; or the substream and place that decides."""
        window = self.bound.window
        if self._by_place:
            due = self._places(chunk.start) + window.width + 1
            return due if chunk.partition is None else (chunk.partition << PLACES) + due
        if window.column is None:
            return chunk.start
        assert chunk.start_time is not None
        return chunk.start_time + window.shift

    def flush(self) -> Iterator[pa.RecordBatch]:
        """The matches that were decided."""
        yield from super().flush()
        yield from self._given()

    def compact(self, now: int | None = None) -> Iterator[pa.RecordBatch]:
        """Forget all that the window has left."""
        yield from super().compact(now)
        if now is not None:
            yield from self.advance(now)

    def advance(self, now: int) -> Iterator[pa.RecordBatch]:
        """Decide what the time `now` (its key) decides: no event before it will come."""
        self._gather()
        if self.bound.by_time:
            least = int(time_bounds(self.bound.window, np.array([now]))[0])
            self._killers = _NONE, _NONE
            self._decide(self._room.below(least), lambda numbers: np.full(len(numbers), self.position))
            self._choose(self._chosen.below(least), lambda numbers: np.full(len(numbers), self.position))
        yield from self._given()

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Decide all that waits: no event will come."""
        self._gather()
        self._killers = _NONE, _NONE
        self._decide(self._room.all(), lambda numbers: np.full(len(numbers), self.position))
        self._choose(self._chosen.all(), lambda numbers: np.full(len(numbers), self.position))
        yield from super().finish()
        yield from self._given()

    # --- deciding ---

    def _decide_batch(self) -> None:
        """Decide what the events of the last batch decide."""
        unbounded = self.bound.window.size is None and not self._by_place
        if self.position > self._first and not unbounded:
            if self._by_place:
                order = np.argsort(self._codes, kind="stable")
                codes = self._codes[order]

                def decided_at(numbers: Array) -> Array:
                    return self._first + order[np.searchsorted(codes, numbers)]

                self._decide(self._room.at(codes), decided_at)
                self._choose(self._chosen.at(codes), decided_at)
            else:
                bounds = self._bounds
                if self.bound.window.column is None:
                    assert self.bound.window.size is not None
                    bounds = np.arange(self._first, self.position) - int(self.bound.window.size)

                def decides(numbers: Array) -> Array:
                    return self._first + np.searchsorted(bounds, numbers, side="right")

                self._decide(self._room.below(int(bounds[-1])), decides)
                self._choose(self._chosen.below(int(bounds[-1])), decides)
        partition, position = self._killers
        np.maximum.at(self._last, partition, position)
        self._killers = _NONE, _NONE
        self._leave_room()

    def _decide(self, held: Held | None, decided_at: Any) -> None:
        if held is None or not held.size:
            return
        at = decided_at(held.number)
        chunk = held.chunk
        partition = np.zeros(held.size, np.int64) if chunk.partition is None else chunk.partition
        alive = self._last[partition] <= chunk.end
        where, killer = self._killers
        if len(where):
            base = self._first
            line = (where << PLACES) + (killer - base)
            following = np.searchsorted(line, (partition << PLACES) + np.maximum(chunk.end + 1 - base, 0))
            following = np.minimum(following, len(line) - 1)
            mine = (where[following] == partition) & (killer[following] > chunk.end) & (killer[following] < at)
            alive &= ~mine
        if self._compared and alive.any():
            assert self.absences is not None
            some = np.flatnonzero(alive)
            part = rows_of(chunk, some)
            look = self.checks.look(part, self.values_at)
            alive[some] = self.absences.hold_after(part, look, self._compared, at[some])
        left = np.flatnonzero(alive)
        if self._together:
            self._chosen.add(Held(rows_of(chunk, left), held.further[left], held.further[left]))
        else:
            self._emit(rows_of(chunk, left), chunk.start[left], at[left])

    def _choose(self, held: Held | None, decided_at: Any) -> None:
        if held is not None and held.size:
            self._emit(held.chunk, held.chunk.end, decided_at(held.number))

    def _emit(self, chunk: Chunk, what: Array, at: Array) -> None:
        """Make matches of candidates; `at` is the position that decides them, by their start or end `what`."""
        if not len(chunk.start):
            return
        known, first = np.unique(what, return_index=True)
        for found in self._chooser.choose([self._chooser.sift(chunk)]):
            mine = found.end if self._together else found.start
            place = at[first][np.searchsorted(known, mine)]
            found = rows_of(found, np.lexsort((np.arange(len(place)), place)))
            if self.counting:
                self._found += len(found.start)
            else:
                self._ready.append(self._result(found))

    @property
    def counted(self) -> int:
        """When counting: the matches of all events so far, which are all there are."""
        for _ in self.finish():
            pass
        return self._found

    # --- what is held ---

    def _rooms(self) -> list[Held]:
        return [held for held in (self._room.peek(), self._chosen.peek()) if held is not None]

    def held(self) -> Array:
        """The positions of the events that a match from now on may name, ascending."""
        return np.unique(np.concatenate([super().held(), *(held.chunk.positions for held in self._rooms())]))

    def oldest_position(self) -> int:
        """No match from now on names an event before this position."""
        return min([super().oldest_position(), *self._oldest()])

    def _oldest_gap(self) -> int:
        return min([super()._oldest_gap(), *self._oldest()])

    def _oldest(self) -> list[int]:
        return [oldest for oldest in (self._room.oldest, self._chosen.oldest) if oldest is not None]

    def _busy(self) -> Array:
        waiting = [held.chunk.partition for held in self._rooms() if held.chunk.partition is not None]
        return np.unique(np.concatenate([super()._busy(), *waiting]))

    @property
    def is_idle(self) -> bool:
        """Whether no match is under way, and none waits."""
        return not self._room.count and not self._chosen.count and super().is_idle

    @property
    def expires_at(self) -> int | None:
        """The key of the time at which something is decided, or the window will have left all events so far."""
        window = self.bound.window
        least = [number for number in (self._room.least, self._chosen.least) if number is not None]
        if not least or not self.bound.by_time:
            return super().expires_at
        assert window.size is not None
        return min(least) - window.shift + math.ceil(window.size) + 1

    # --- state ---

    def state(self) -> tuple[dict[str, Any], dict[str, Array], dict[str, pa.RecordBatch]]:
        """The state between two batches."""
        header, arrays, tables = super().state()
        anew = None
        last = self._last[:1]
        if self.keys is not None:
            used = self.keys.used
            anew = np.full(int(used.max(initial=-1)) + 1, -1, np.int64)
            anew[used] = np.arange(len(used))
            last = self._last[used]
        arrays["last"] = last.copy()
        arrays |= self._room.state("room", anew, self._by_place)
        arrays |= self._chosen.state("chosen", anew, self._by_place)
        return header, arrays, tables

    def restore(self, header: dict[str, Any], arrays: dict[str, Array], tables: dict[str, pa.RecordBatch]) -> None:
        """Continue from a `state` of the same query."""
        super().restore(header, arrays, tables)
        self._last = np.concatenate([arrays["last"], [-1]]).astype(np.int64)
        for name, room in (("room", self._room), ("chosen", self._chosen)):
            partitions, marks = header["partitions"], len(self.auto.marks)
            room.restore(name, arrays, partitions, self.position, marks, self._by_place)


class _Gatherer:
    """Takes the place of a chooser in the machine: candidates that satisfy the claims, as they are."""

    def __init__(self, check: Check | None, together: bool) -> None:
        self.check = check
        self.together = together  # whether those of one end must come in one chunk

    def sift(self, chunk: Chunk) -> Chunk:
        return chunk if self.check is None else rows_of(chunk, np.flatnonzero(self.check(chunk)))

    def choose(self, chunks: list[Chunk]) -> list[Chunk]:
        found = [chunk for chunk in chunks if len(chunk.start)]
        return [joined(found)] if found and self.together else found
