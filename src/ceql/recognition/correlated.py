"""A query that compares events with each other at work: the loop over groups (`engine.groups`)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from ceql.analysis.lengths import is_hidden
from ceql.engine.common.check import require, require_between
from ceql.engine.common.chunk import Chunk
from ceql.engine.common.graph import KIND, A
from ceql.engine.common.layout import CHOOSE, COUNT, ENUMERATE, NO_KEY, W_GIVEN, Events, Settings
from ceql.engine.common.sharded import Sharded, of_shard, shards_in
from ceql.engine.common.shares import Shares
from ceql.engine.groups.chosen.follow import Choosing, Kept
from ceql.engine.groups.divide import divide
from ceql.engine.groups.layout import ENTRIES, FORGOTTEN, FORGOTTEN_HERE, LANES, SEEN_EVENTS, SUBSTREAM
from ceql.engine.groups.machine import GroupMachine
from ceql.io.sort_keys import encode
from ceql.jit import Array
from ceql.plans import CandidateReason
from ceql.recognition.absences import Absences, time_bounds
from ceql.recognition.bound_plan import BoundPlan
from ceql.recognition.choosing import Chooser, Labels
from ceql.recognition.comparing import ComparingRecognition, weakly
from ceql.recognition.frame import CONSUME
from ceql.recognition.result_columns import to_record_batch
from ceql.recognition.value_owners import ValueOwners
from ceql.syntax import tree as t

_PLACE = "(place in the substream)"
_MANY_ABSENT = 1 << 17  # forbidden events that have come since they were looked through for those to forget


class CorrelatedRecognition(ComparingRecognition):
    """Symbols and values in, matches out, by way of candidates where the automaton does not decide alone."""

    seen_column = SEEN_EVENTS

    def __init__(self, bound: BoundPlan, counting: bool = False) -> None:
        super().__init__(bound, counting)
        self.plan = plan = bound.plan
        self.auto = auto = plan.automaton
        self.running = plan.running
        self.values, self.operands, self.checks = bound.values(), bound.operands, bound.checks()
        self.labels = Labels(auto, plan.selected, plan.columns)
        self._unsure = CandidateReason.DUPLICATES in plan.candidate_reasons
        self.chooses = bool(plan.candidate_reasons)
        strict = plan.query.strategy is t.Strategy.STRICT
        lists = any(link.unlike for transition in auto.transitions for link in transition.links)
        self.enumerates = self.chooses or bound.window.exact or lists
        """Whether matches must be enumerated even to be counted."""
        self._found = 0
        self.absences = Absences(self.checks, bound.window) if auto.absences else None
        back = self.absences is not None and self.absences.leads
        beyond = back or any(auto.shape.trails(watched.number) for watched in auto.absences)
        places = self.keys is not None and (strict or (beyond and bound.window.counts_all_rows))
        measured = [str(bound.window.column)] if back and bound.window.exact else []
        kept = [*measured, *self.checks.columns, *([_PLACE] if places else [])]
        schema = bound.lengths.extended(bound.schema)
        self._keep_rows(kept, schema.append(pa.field(_PLACE, pa.int64())) if places else schema)
        self._absent_kept = 0

    @property
    def rows_bytes(self) -> int:
        """The memory of the rows that conditions, measures and absences ask for."""
        return super().rows_bytes + (self.absences.nbytes if self.absences is not None else 0)

    @cached_property
    def machine(self) -> GroupMachine | Sharded[GroupMachine]:
        """The machine, made when the first events come: it knows their symbols then."""
        machine = self._make_machine()
        machine.divides = self._has_room and self._divides
        if self.keys is None:
            machine.room_for_partitions(1)
        return machine

    @property
    def machines(self) -> list[GroupMachine]:
        """The machine, or its shards."""
        machine = self.machine
        return machine.machines if isinstance(machine, Sharded) else [machine]

    @property
    def carriers(self) -> list[GroupMachine]:
        """The same: what runs carry is told to each."""
        return self.machines

    @property
    def whole(self) -> GroupMachine:
        """The machine, which is not divided from now on."""
        machine = self.machine
        assert isinstance(machine, GroupMachine)
        machine.divides = False
        return machine

    @cached_property
    def _owners(self) -> ValueOwners | None:
        """The shards of events by the value that all events of a match share; None if there is none."""
        value = self.plan.shared_value if self.bound.window.kind == W_GIVEN else None
        return ValueOwners(self.auto, value, self.values, self.table) if value is not None else None

    @property
    def _divides(self) -> bool:
        """Whether the machine can be divided, by substreams or by a value."""
        return self.bound.may_divide and not self.chooses and (self.keys is not None or self._owners is not None)

    def _divide(self) -> None:
        machine, shares = self.machine, self._shares()
        assert isinstance(machine, GroupMachine)
        entries = machine.entries[: machine.regs[ENTRIES]]
        if shares is not None:
            owner = shares.owner[entries[:, SUBSTREAM]]
        else:
            assert self._owners is not None
            owner = self._owners.of_entries(entries)
        self.machine = self._sharded(machine, divide(machine, owner, shares), shares)

    def _sharded(self, whole: GroupMachine, shards: list[GroupMachine], shares: Shares | None) -> Sharded[GroupMachine]:
        place = shares.owners if shares is not None else self._owners
        assert place is not None
        return Sharded.of(whole, shards, shares, place, self.bound.options.cores)

    def _make_machine(self) -> GroupMachine:
        plan, window = self.plan, self.bound.window
        consume = CONSUME[plan.query.consume]
        limit = 0 if self.chooses else plan.limit
        counts = self.counting and not self.enumerates
        checked = self.absences is not None
        # CONSUME asks whether a position has a match: what is checked, or starts one by one, may leave none
        may_lose_all = window.exact or (self.chooses and (checked or plan.query.strategy is t.Strategy.STRICT))
        waits = consume > 0 and may_lose_all
        times = window.kind == W_GIVEN and window.column is not None
        settings = Settings(
            window=window.kind,
            width=window.width,
            exact=window.exact,
            mode=COUNT if counts else CHOOSE if self.chooses and waits else ENUMERATE,
            limit=limit,
            latest=0 if limit != 1 or window.exact else 1 if times else 2,
            consume=consume,
            chain=self.auto.is_chain,
            ordered=not self.chooses,
            lanes=LANES,
            waits=waits,
        )
        choose = choosing = None
        if plan.chooses_on_graph and plan.query.strategy is not None:
            shown = self.labels.of_mark != (-1 if self.labels.hidden is None else self.labels.hidden)
            choosing = Choosing(Kept(plan.query.strategy.value), shown.astype(np.uint8))
        if self.chooses:
            check = weakly(self._check) if checked else None
            choose = Chooser(plan, self.labels, check, weakly(self._places), self._unsure)
        steps = self.bound.steps(self.table.bits)
        self._symbols = len(self.table.bits)
        carrier, carrying = None, self.auto.carrying
        if carrying is not None:
            carrier = self.bound.carrier(self.operands)
        timed, memory = self.bound.time is not None, self.bound.options.memory
        machine = GroupMachine(steps, settings, timed, memory, choose, carrier, choosing, **self._buffers)
        if carrying is not None:
            machine.conditions = tuple(dict.fromkeys(condition.claim.text for condition in carrying.conditions))
            self.tell_words(machine, self.running)
        return machine

    # --- candidates ---

    def _check(self, chunk: Chunk) -> Array:
        assert self.absences is not None
        if not (self.absences.count and len(chunk.start)):
            return np.ones(len(chunk.start), np.bool_)
        look = self.checks.look(chunk, self.values_at)
        return self.absences.hold(chunk, look, self._forgotten(chunk), self._lowest(chunk))

    def _forgotten(self, chunk: Chunk) -> Array:
        """Of each candidate, the position up to which CONSUME BY has forgotten all events."""
        machine = self.whole
        partition = np.zeros(len(chunk.start), np.int64) if chunk.partition is None else chunk.partition
        return np.asarray(np.maximum(machine.table[partition, FORGOTTEN_HERE], machine.regs[FORGOTTEN]))

    def _lowest(self, chunk: Chunk) -> Array | None:
        """Of each candidate, the least key that the window reaches back to from its end; None without a window."""
        window = self.bound.window
        assert self.absences is not None
        bounded = window.size is not None or window.counts_all_rows
        if not (bounded and self.absences.leads):
            return None
        if window.counts_all_rows:
            return self._places(chunk.end) - window.width
        if window.column is None:
            assert window.size is not None
            return chunk.end - int(window.size)
        if window.kind == W_GIVEN:
            assert chunk.end_time is not None
            return time_bounds(window, chunk.end_time)
        ends, inverse = np.unique(chunk.end, return_inverse=True)
        return np.asarray(window.keys(self.values_at(ends), None, ends, None)[1][inverse])

    def _places(self, positions: Array) -> Array:
        if self.keys is None:
            return positions
        here = np.unique(positions)
        places = self.values_at(here).column(_PLACE).to_numpy(zero_copy_only=False)
        return np.asarray(places[np.searchsorted(here, positions)])

    # --- feeding ---

    def _for_machine(self, events: Events, data: pa.RecordBatch, rows: Array | None) -> Events:
        if self.absences is not None:
            keys = self._place_of(events) if self.bound.window.counts_all_rows else events.key
            self.absences.add(events, keys, self.table.bits, data, rows)
        return super()._for_machine(events, data, rows)

    def _release_values(self, however_few: bool = False) -> None:
        before = self.values.known
        super()._release_values(however_few)
        if self._owners is not None and self.values.known != before:
            self._owners.forget()

    def _room_for_symbols(self) -> None:
        machines = self.machines  # the first call makes the machine, with the symbols so far
        if self._symbols != len(self.table.bits):
            self._symbols = len(self.table.bits)
            steps = self.bound.steps(self.table.bits)
            for machine in machines:
                machine.use(steps)
                if self.auto.carrying is not None:
                    self.tell_words(machine, self.running)

    def _rows_to_keep(self, data: pa.RecordBatch, events: Events, rows: Array | None) -> pa.RecordBatch:
        if any(map(is_hidden, self._keep_names)):
            data = self._measured_whole(data, events, rows)
        kept = super()._rows_to_keep(data, events, rows)
        if _PLACE in self._keep_names:
            kept = kept.append_column(_PLACE, pa.array(self._place_of(events)))
        return kept

    def _measured_whole(self, data: pa.RecordBatch, events: Events, rows: Array | None) -> pa.RecordBatch:
        """All rows of a batch with the measures of windows inside the formula."""
        time, places = self.bound.time, self._place_of(events) if rows is None else None
        times = encode(data.column(data.schema.get_field_index(time)), time) if time is not None else None
        positions = np.arange(self.position - data.num_rows, self.position)
        return self.bound.lengths.measured(data, None, positions, times, places)

    def _process(self, resume: bool) -> Iterator[pa.RecordBatch]:
        yield from super()._process(resume)
        if self.absences is not None and self.absences.count > 2 * self._absent_kept + _MANY_ABSENT:
            yield from self.flush()
            if not self.bound.window.exact:
                self._collect()
            self._thin_absences()
        self._release_values()

    def _collect(self) -> None:
        for machine in self.machines:
            machine.collect()

    def _thin_absences(self) -> None:
        """Forget the forbidden events that no match will ask for."""
        assert self.absences is not None
        window = self.bound.window
        least = self.machine.horizon if window.kind == W_GIVEN else NO_KEY
        self.absences.forget(self._oldest_gap(), least)
        self._absent_kept = self.absences.count

    def _oldest_gap(self) -> int:
        """A position before which no absence will be looked up, other than before a match."""
        return self.machine.oldest_held()

    def compact(self, now: int | None = None) -> Iterator[pa.RecordBatch]:
        """Forget all that the window has left."""
        yield from super().compact(now)
        if self.absences is not None and not self.bound.window.exact:
            self._thin_absences()
        self._release_values(however_few=True)

    def _busy(self) -> Array:
        return self.absences.partitions() if self.absences is not None and self.absences.leads else super()._busy()

    @property
    def counted(self) -> int:
        """When counting: the matches of all events so far."""
        if not self.enumerates:
            return super().counted
        for _ in self.flush():
            pass
        return self._found

    def _results(self, chunks: Iterator[Chunk]) -> Iterator[pa.RecordBatch]:
        for chunk in chunks:
            if self.counting:
                self._found += len(chunk.start)
            else:
                yield self._result(chunk)

    @property
    def sums(self) -> bool:
        """Unless matches are made of candidates, LIMIT leaves some out, or an event is read at several leaves."""
        return not (self.enumerates or self.plan.limit or self.labels.shared)

    @property
    def label_masks(self) -> Array:
        """Which variables each mark binds."""
        return np.asarray(self.labels.masks[self.labels.of_mark])

    @cached_property
    def _pattern(self) -> Array | None:
        """The labels of every match, where all have the same."""
        marks = None if self.chooses else self.auto.pattern()
        if marks is None:
            return None
        if self.labels.of_marks_alone:
            return np.array(marks, np.int32)
        labels = self.labels.of_mark[list(marks)]
        return np.asarray(labels[labels != self.labels.hidden])

    def _to_batch(self, chunk: Chunk, keys: pa.RecordBatch | None) -> pa.RecordBatch:
        masks = self.label_masks
        if self.chooses or not self.labels.of_marks_alone:  # the chooser has turned marks into labels
            chunk = chunk if self.chooses else self.labels.of(chunk)
            masks = self.labels.masks
        return to_record_batch(chunk, self.bound.result, masks, keys, self._pattern)

    # --- state ---

    def state(self) -> tuple[dict[str, Any], dict[str, Array], dict[str, pa.RecordBatch]]:
        """The state between two batches."""
        header, arrays, tables = super().state()
        compared, values = self._compared_state()
        header, tables = header | compared | {"found": self._found}, tables | values
        if self.absences is not None:
            absent, tables["absent"] = self.absences.state(None if self.keys is None else self.keys.used)
            arrays |= absent
        return header, arrays, tables

    def restore(self, header: dict[str, Any], arrays: dict[str, Array], tables: dict[str, pa.RecordBatch]) -> None:
        """Continue from a `state` of the same query."""
        self._restore_compared(header, tables)
        super().restore(header, arrays, tables)
        self._found = header["found"]
        if self.absences is not None:
            self.absences.restore(arrays, tables["absent"], header["partitions"], self.position)

    def _restore_machine(self, header: dict[str, Any], arrays: dict[str, Array]) -> None:
        self._room_for_symbols()
        machine, shards = self.machine, shards_in(arrays)
        if shards:
            assert isinstance(machine, GroupMachine)
            require(self._divides, "it has shards, and the query has none")
            shares = Shares(self.keys.hashes) if self.keys is not None else None
            self.machine = self._sharded(machine, [machine.shard() for _ in range(shards)], shares)
        self._tell_ranks()
        self.machine.restore(arrays)
        for shard in range(max(1, shards)):
            nodes = (of_shard(arrays, shard) if shards else arrays)["nodes"]
            events = nodes[nodes[:, KIND] >= 0, A]
            require_between(events, 0, header["position"], "its partial matches have events that never came")
