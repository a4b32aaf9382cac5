"""A query with AFTER MATCH at work: the loop over ordered lists of runs (`engine.preferred`).

Matches come in order of the position at which they are decided. What decides a match is an event of its substream, or
time: the first event of the stream to which the windows of all runs that may still be preferred do not reach
back. Nothing else happens at that event, so that the loop leaves such runs for later, and all are looked through
at the end of a batch. Without a window that time passes, the loop finds matches in order.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from ceql.automata.ordered_arrays import OrderedArrays
from ceql.engine.common.check import require
from ceql.engine.common.chunk import Chunk, in_order, joined
from ceql.engine.common.chunk import rows as rows_of
from ceql.engine.common.layout import COUNT, ENUMERATE, W_GIVEN, Events
from ceql.engine.common.scatter import gathered
from ceql.engine.groups.layout import Carrier
from ceql.engine.preferred.check import Known
from ceql.engine.preferred.layout import KEY, MARKED, MET, SEEN, TO_NEXT, Settings
from ceql.engine.preferred.machine import ALL_PASSED, PreferredMachine
from ceql.io.sort_keys import encode
from ceql.io.sorted_runs import EventBatch
from ceql.jit import Array
from ceql.recognition.absences import time_bounds
from ceql.recognition.bound_plan import BoundPlan
from ceql.recognition.comparing import ComparingRecognition
from ceql.recognition.frame import Recognition
from ceql.recognition.result_columns import masks_of, to_record_batch
from ceql.syntax import tree as t

MANY = 1 << 12  # substreams, whose lists no longer fit the near caches
_SKIPS = {skip: k for k, skip in enumerate(t.Skip)}


class PreferredRecognition(Recognition):
    """Symbols in, the preferred match of each start out."""

    def __init__(self, bound: BoundPlan, counting: bool = False) -> None:
        super().__init__(bound, counting)
        self.plan = bound.plan
        assert self.plan.ordered is not None
        self._ordered = self.plan.ordered
        self._by_key = bound.window.kind == W_GIVEN and bound.window.size is not None
        """Whether events of other substreams may decide a match, or those that no guard accepts."""
        self.may_pass_over = not self._by_key
        self._counts = int(bound.window.column is None)
        """1 if the window counts events: the last event inside it decides, where time needs the first one outside."""
        self._gathers = False  # whether events of near substreams are together in the batch at hand
        self._first = 0
        self._bounds: Array = np.zeros(0, np.int64)
        """Of each row of the batch, the least key that its window reaches back to."""
        self._keep_rows([], bound.schema)

    @cached_property
    def _arrays(self) -> OrderedArrays:
        plan = self.plan
        return OrderedArrays(self._ordered, plan.selected, plan.after_match.variable, plan.automaton)

    def _carrier(self) -> Carrier | None:
        """What runs carry, if conditions compare events."""
        return None

    @cached_property
    def machine(self) -> PreferredMachine:
        """The machine, made when the first events come."""
        window, skip = self.bound.window, self.plan.after_match.skip
        windowed = window.kind != W_GIVEN or window.size is not None
        settings = Settings(
            window=window.kind,
            width=window.width,
            counted=windowed and window.column is None,
            mode=COUNT if self.counting else ENUMERATE,
            skip=_SKIPS[skip],
            looks_back=self.plan.looks_back,
            shared=self.plan.ends_starts,
            unites=self.plan.unites_starts,
        )
        machine = PreferredMachine(
            self._arrays.over(self.table.bits),
            settings,
            self.bound.time is not None,
            self.bound.options.memory,
            self.plan.after_match.variable,
            self._carrier(),
            **self._buffers,
        )
        if self.keys is None:
            machine.room_for_partitions(1)
        return machine

    def _divide(self) -> None:
        raise AssertionError("this machine is not divided")

    def _room_for_symbols(self) -> None:
        if len(self.machine.auto.holds) < len(self.table.bits):
            self.machine.auto = self._arrays.over(self.table.bits)

    def _events(self, batch: EventBatch) -> Events:
        self._first = self.position + batch.skipped
        window = self.bound.window
        if self._by_key and window.column is not None:
            column = batch.data.column(window.column)
            self._bounds = time_bounds(window, encode(column, window.column)) if len(column) else self._bounds[:0]
        events = super()._events(batch)
        if self._by_key and window.column is None:
            assert window.size is not None
            self._bounds = np.arange(self._first, self.position, dtype=np.int64) - int(window.size)
        return events

    def read(self, batch: EventBatch) -> Events:
        """The events as the machine takes them: if there are many substreams, those of near ones together."""
        events = super().read(batch)
        self._gathers = MANY <= self.machine.partitions <= len(events.partition)
        self.machine.settings = self.machine.settings._replace(gathered=self._gathers)
        return gathered(events) if self._gathers else events

    def _feed_machine(self, events: Events, resume: bool) -> Iterator[Chunk]:
        found = self.machine.feed(events, resume)
        if not (self._by_key or self._gathers):
            yield from found
            return
        known = self._with_deciders(found)
        if not self._by_key:
            yield from _as_decided(known)
            return
        if self._gathers:
            self.machine.raise_horizon(int(events.bound.max()))
        if len(self._bounds):
            known += self._decided_by(int(self._bounds[-1]) + self._counts)
        bounds, first = self._bounds + self._counts, self._first
        yield from _in_order(known, lambda keys: first + np.searchsorted(bounds, keys, side="right"))

    def _with_deciders(self, chunks: Iterator[Chunk]) -> list[tuple[Chunk, Array]]:
        """These chunks and what is left in the buffers, each with what has decided its matches."""
        machine = self.machine
        known = [(chunk, machine.deciders) for chunk in chunks]
        return known + [(chunk, machine.deciders) for chunk in machine.flush()]

    def _decided_by(self, bound: int) -> list[tuple[Chunk, Array]]:
        machine = self.machine
        return self._with_deciders(machine.decide(bound)) if machine.table[:, MARKED].any() else []

    def advance(self, now: int) -> Iterator[pa.RecordBatch]:
        """The matches that are decided because no event before the time `now` (its key) will come."""
        if self.bound.by_time:
            known = self._decided_by(int(time_bounds(self.bound.window, np.array([now]))[0]))
            yield from self._results(_in_order(known, self._now))

    def finish(self) -> Iterator[pa.RecordBatch]:
        """The matches that are left: a run that is still going on counts as it stands."""
        yield from self.flush()
        known = self._decided_by(ALL_PASSED)
        yield from self._results(_in_order(known, self._now))

    def _now(self, keys: Array) -> Array:
        return np.full(len(keys), self.position, np.int64)

    def compact(self, now: int | None = None) -> Iterator[pa.RecordBatch]:
        """Forget all that the window has left."""
        if now is not None:
            yield from self.advance(now)
        yield from super().compact(now)

    @property
    def expires_at(self) -> int | None:
        """The key of the time at which something may be decided, or the window will have left all events so far."""
        latest, machine = super().expires_at, self.machine
        runs, _ = machine.entries(np.flatnonzero(machine.table[:, MARKED]))
        if latest is None or not len(runs):
            return latest
        assert self.bound.window.size is not None
        least = int(runs[:, KEY].min())
        return min(latest, least - self.bound.window.shift + int(np.ceil(float(self.bound.window.size))) + 1)

    @property
    def counted(self) -> int:
        """When counting: the matches of all events so far, which are all there are."""
        for _ in self.finish():
            pass
        return self.machine.counted

    @property
    def sums(self) -> bool:
        """Whether the graph tells all that totals need: there are few matches, and all are enumerated."""
        return False

    @cached_property
    def label_masks(self) -> Array:
        """Which variables each label binds."""
        return masks_of(self._arrays.labels, self.plan.columns)

    def _to_batch(self, chunk: Chunk, keys: pa.RecordBatch | None) -> pa.RecordBatch:
        return to_record_batch(chunk, self.bound.result, self.label_masks, keys)

    def _restore_machine(self, header: dict[str, Any], arrays: dict[str, Array]) -> None:
        machine = self.machine
        self._room_for_symbols()
        known = len(self._ordered.waits), len(self._arrays.labels), self.position, machine.registers
        machine.known = Known(*known, shares=machine.settings.skip == TO_NEXT)
        machine.restore(arrays)
        bits = len(machine.auto.forbids)
        require(bool((machine.table[:, MET] >> bits == 0).all()), "what came before a match is not of the query")


class ComparingPreferred(PreferredRecognition, ComparingRecognition):
    """The same, if conditions compare events: runs carry registers."""

    seen_column = SEEN

    def __init__(self, bound: BoundPlan, counting: bool = False) -> None:
        super().__init__(bound, counting)
        self.auto = self.running = self.plan.automaton
        self.values, self.operands, self.checks = bound.values(), bound.operands, bound.checks()

    def _carrier(self) -> Carrier | None:
        return self.bound.carrier(self.operands)

    @cached_property
    def machine(self) -> PreferredMachine:
        """The machine, made when the first events come."""
        machine = PreferredRecognition.machine.func(self)  # type: ignore[attr-defined]
        assert isinstance(machine, PreferredMachine)
        assert self.auto.carrying is not None
        machine.conditions = tuple(dict.fromkeys(condition.claim.text for condition in self.auto.carrying.conditions))
        self.tell_words(machine, self.running)
        return machine

    @property
    def carriers(self) -> list[PreferredMachine]:
        """The machine."""
        return [self.machine]

    def _place_of(self, events: Events) -> Array:
        places = super()._place_of(events)
        here = events.partition >= 0
        np.maximum.at(self.machine.table[:, SEEN], events.partition[here], places[here] + 1)
        return places

    def _process(self, resume: bool) -> Iterator[pa.RecordBatch]:
        yield from super()._process(resume)
        self._release_values()

    def compact(self, now: int | None = None) -> Iterator[pa.RecordBatch]:
        """Forget all that the window has left."""
        yield from super().compact(now)
        self._release_values(however_few=True)

    def state(self) -> tuple[dict[str, Any], dict[str, Array], dict[str, pa.RecordBatch]]:
        """The state between two batches."""
        header, arrays, tables = super().state()
        compared, values = self._compared_state()
        return header | compared, arrays, tables | values

    def restore(self, header: dict[str, Any], arrays: dict[str, Array], tables: dict[str, pa.RecordBatch]) -> None:
        """Continue from a `state` of the same query."""
        self._restore_compared(header, tables)
        super().restore(header, arrays, tables)

    def _restore_machine(self, header: dict[str, Any], arrays: dict[str, Array]) -> None:
        self._room_for_symbols()
        self._tell_ranks()
        super()._restore_machine(header, arrays)


def _as_decided(known: list[tuple[Chunk, Array]]) -> Iterator[Chunk]:
    """These matches in the order of the events that decide them; those of one event are in order."""
    if known:
        places = np.concatenate([decider[0] for _, decider in known])
        yield rows_of(joined([chunk for chunk, _ in known]), in_order(places))


def _in_order(known: list[tuple[Chunk, Array]], at: Any) -> Iterator[Chunk]:
    """These matches in the order of the positions that decide them, those of one position by their starts, which differ
    and do not depend on how substreams are numbered; `at` gives the positions that pass windows of these keys."""
    if not known:
        return
    chunk = joined([chunk for chunk, _ in known])
    deciders = np.concatenate([decider for _, decider in known], axis=1)
    by_key = deciders[0] < 0
    place = deciders[0].copy()
    place[by_key] = at(deciders[1, by_key])
    yield rows_of(chunk, _order(place, chunk.start))


def _order(places: Array, starts: Array) -> Array:
    """What puts matches in order of their places, then of their starts. No two are equal, so that one key may stand for
    both: sorting by it takes a tenth of the time."""
    places, starts = places - places.min(initial=0), starts - starts.min(initial=0)
    if max(places.max(initial=0), starts.max(initial=0)) >> 31:
        return np.lexsort((starts, places))
    return np.argsort(places << 32 | starts)
