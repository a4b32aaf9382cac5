"""A query that compares events with each other at work: the loop over groups (`engine.groups`)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property, partial
from typing import Any

import numpy as np
import pyarrow as pa

from ceql.automata.carrying import Fold
from ceql.automata.steps import to_carrier, to_steps
from ceql.engine.common.check import require_between
from ceql.engine.common.chunk import Chunk
from ceql.engine.common.layout import CHOOSE, COUNT, ENUMERATE, W_GIVEN, Events
from ceql.engine.groups.graph import KIND, A
from ceql.engine.groups.layout import NULL, SEEN_EVENTS, Settings
from ceql.engine.groups.machine import GroupMachine
from ceql.errors import DataError
from ceql.io.schemas import no_rows
from ceql.jit import Array
from ceql.plan import CandidateReason, CorrelatedPlan
from ceql.predicates.operands import Operands, TooSmall
from ceql.predicates.values import ValueNumbers
from ceql.recognition.bound_plan import BoundPlan
from ceql.recognition.checks import Checks
from ceql.recognition.choosing import Chooser, Labels
from ceql.recognition.frame import CONSUME, Recognition
from ceql.recognition.result_columns import to_record_batch
from ceql.recognition.rows import RowStore
from ceql.syntax import tree as t

_PLACE = "(place in the substream)"
_THIN_OUT = 1 << 17  # rows are thinned out when there are this many more than were needed


class CorrelatedRecognition(Recognition):
    """Symbols and values in, matches out, by way of candidates where the automaton does not decide alone."""

    def __init__(self, bound: BoundPlan, counting: bool = False) -> None:
        super().__init__(bound, counting)
        assert isinstance(bound.plan, CorrelatedPlan)
        self.plan = plan = bound.plan
        self.auto = auto = plan.automaton
        self.values = ValueNumbers(auto.terms, auto.compares, bound.schema, bound.open_schema, plan.source)
        self.operands = Operands(auto, self.values, bound.schema, bound.open_schema, plan.source)
        self.checks = Checks(auto, bound.schema, bound.open_schema, plan.source)
        self.labels = Labels(auto, plan.selected, plan.columns)
        self._unsure = CandidateReason.DUPLICATES in plan.candidate_reasons
        self.chooses = bool(plan.candidate_reasons)
        strict = plan.query.strategy is t.Strategy.STRICT
        lists = any(link.unlike for transition in auto.transitions for link in transition.links)
        self.enumerates = self.chooses or bound.window.exact or lists
        """Whether matches must be enumerated even to be counted."""
        self._found = 0
        self._keep_names = [*self.checks.columns, *([_PLACE] if strict and self.keys is not None else [])]
        self._kept = RowStore(self._keepable(bound.schema)) if self._keep_names else None
        self._thinned = 0
        self._values_kept = 0

    def _keepable(self, schema: pa.Schema) -> pa.Schema:
        fields = [schema.field(name) for name in self._keep_names if name in schema.names]
        return pa.schema([*fields, *([pa.field(_PLACE, pa.int64())] if _PLACE in self._keep_names else [])])

    def _bind(self, schema: pa.Schema) -> None:
        super()._bind(schema)
        self.values.bind(schema)
        self.checks.bind(schema)
        if self.auto.carrying is not None:
            self._bind_operands(schema)

    def _bind_operands(self, schema: pa.Schema) -> None:
        before = list(self.operands.encodings)
        self.operands.bind(schema)
        if "machine" not in self.__dict__:
            return
        machine, old = self.machine, self.machine.carrier
        assert old is not None
        for k, encoding in enumerate(before):
            if encoding is not self.operands.encodings[k]:  # a column of dicts got a wider type
                registers = [n for n, r in enumerate(self.auto.carrying.registers) if r.term >= 0]  # type: ignore[union-attr]
                mine = {n for n in registers if self.auto.column(self.auto.register(n).term) == k}
                machine.recode(self._words_of(mine), partial(self.operands.recode, k, encoding))
        made = to_carrier(self.auto, self.operands.tests, self.operands.ranked, self.operands.absent)
        kept = {name: getattr(old, name) for name in ("runs", "links", "cells", "cell_slots", "rank", "died")}
        machine.carrier = made._replace(**kept)
        self.tell_words(machine)

    def _words_of(self, registers: set[int]) -> Array:
        """Of each index, which of its words are these registers."""
        found = np.zeros_like(self.machine.sets)
        for k, index in enumerate(self.auto.indexes):
            first = len(next(iter(index.feeders.values()))[0])
            for n, register in enumerate(index.registers):
                found[k, first + n] = register in registers
        return found

    @cached_property
    def machine(self) -> GroupMachine:
        """The machine, made when the first events come: it knows their symbols then."""
        machine = self._make_machine()
        if self.keys is None:
            machine.room_for_partitions(1)
        return machine

    def _make_machine(self) -> GroupMachine:
        plan, window = self.plan, self.bound.window
        consume = CONSUME[plan.query.consume]
        limit = 0 if self.chooses else plan.limit
        counts = self.counting and not self.enumerates
        one_by_one = self.chooses and consume > 0
        times = window.kind == W_GIVEN and window.column is not None
        settings = Settings(
            window=window.kind,
            width=window.width,
            exact=window.exact,
            mode=COUNT if counts else CHOOSE if one_by_one else ENUMERATE,
            limit=limit,
            latest=0 if limit != 1 or window.exact else 1 if times else 2,
            consume=consume,
            chain=self.auto.is_chain,
            ordered=not self.chooses,
        )
        choose = None
        if self.chooses:
            check = self._check if self.auto.checks else None
            choose = Chooser(plan, self.auto, self.labels, check, self._places, self._unsure)
        steps = to_steps(self.auto, self.table.bits)
        self._symbols = len(self.table.bits)
        carrier, carrying = None, self.auto.carrying
        if carrying is not None:
            carrier = to_carrier(self.auto, self.operands.tests, self.operands.ranked, self.operands.absent)
        machine = GroupMachine(steps, settings, self.bound.time is not None, self.bound.options.memory, choose, carrier)
        if carrying is not None:
            machine.conditions = tuple(dict.fromkeys(condition.claim.text for condition in carrying.conditions))
            self.tell_words(machine)
        return machine

    def tell_words(self, machine: GroupMachine) -> None:
        """Tell which words of each index are numbers of values (its terms, and registers of numbered or ranked ones),
        and which are sets of values."""
        numbered, sets = np.ones_like(machine.numbered), np.zeros_like(machine.sets)
        ranked = self.operands.ranked
        for k, index in enumerate(self.auto.indexes):
            first = len(next(iter(index.feeders.values()))[0])
            for n, register in enumerate(index.registers):
                term = self.auto.register(register).term
                column = self.auto.column(term) if term >= 0 else -1
                numbered[k, first + n] = column >= len(ranked) or (column >= 0 and ranked[column])
                sets[k, first + n] = self.auto.register(register).fold is Fold.SET
        count = len(self.auto.indexes)
        if len(numbered) > count:  # the heads of lists have the first words of their groups
            numbered[count:] = numbered[:count]
        machine.numbered, machine.sets = numbered, sets

    # --- candidates ---

    def _check(self, chunk: Chunk) -> Array:
        return self.checks.hold(chunk, self._values_at)

    def _values_at(self, positions: Array) -> pa.RecordBatch:
        assert self._kept is not None
        table = self._kept.take(positions).combine_chunks()
        batches = table.to_batches()
        return batches[0] if batches else no_rows(table.schema)

    def _places(self, positions: Array) -> Array:
        if self.keys is None:
            return positions
        here = np.unique(positions)
        places = self._values_at(here).column(_PLACE).to_numpy(zero_copy_only=False)
        return np.asarray(places[np.searchsorted(here, positions)])

    # --- feeding ---

    def _for_machine(self, events: Events, data: pa.RecordBatch, rows: Array | None) -> Events:
        values = np.require(self.values.numbers(data, rows), requirements=["C", "W"])
        if self.auto.carrying is not None:
            read = self._read(data, rows)
            values = np.concatenate([read, np.where(values < 0, np.int64(NULL), values)], axis=1)
            if any(self.operands.ranked):
                machine = self.machine
                assert machine.carrier is not None
                machine.carrier = machine.carrier._replace(rank=self.values.ranks())
        if self._kept is not None:
            self._kept.add(self._rows_to_keep(data, events))
        return events._replace(values=values)

    def _read(self, data: pa.RecordBatch, rows: Array | None) -> Array:
        while True:
            try:
                return self.operands.columns(data, rows)
            except TooSmall as found:
                self.operands.rank(found.term)
                self._bind_operands(self.schema)

    def _room_for_symbols(self) -> None:
        machine = self.machine  # the first call makes it, with the symbols so far
        if self._symbols != len(self.table.bits):
            self._symbols = len(self.table.bits)
            machine.use(to_steps(self.auto, self.table.bits))
            if self.auto.carrying is not None:
                self.tell_words(machine)

    def _rows_to_keep(self, data: pa.RecordBatch, events: Events) -> pa.RecordBatch:
        names = [name for name in self._keep_names if name in data.schema.names]
        columns = {name: data.column(data.schema.get_field_index(name)) for name in names}
        if _PLACE in self._keep_names:
            partition = events.partition
            order = np.argsort(partition, kind="stable")
            ordered = partition[order]
            first = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))[: len(ordered)]
            run = np.arange(len(ordered)) - np.repeat(first, np.diff(np.append(first, len(ordered))))
            place = np.zeros(len(ordered), np.int64)
            seen = np.append(self.machine.table[:, SEEN_EVENTS], 0)  # the last is for events of no substream
            place[order] = run + seen[ordered]
            columns[_PLACE] = pa.array(place)
        if not columns:
            columns[""] = pa.nulls(data.num_rows)
        return pa.record_batch(columns)

    def _process(self, resume: bool) -> Iterator[pa.RecordBatch]:
        yield from super()._process(resume)
        machine = self.machine
        if self._kept is not None and self._kept.count > 2 * self._thinned + _THIN_OUT:
            yield from self.flush()
            if not self.bound.window.exact:  # see `Recognition.compact`
                machine.collect()
            self._kept.keep(machine.held())
            self._thinned = self._kept.count
        self._release_values()

    def _release_values(self, however_few: bool = False) -> None:
        """Forget the values that nothing waits under, once there may be many."""
        if self.machine.collected and (however_few or self.values.known > 2 * self._values_kept + _THIN_OUT):
            self.values.release(self.machine.used_values(self.values.most))
            self._values_kept = self.values.known
            self.machine.collected = False

    def compact(self, now: int | None = None) -> Iterator[pa.RecordBatch]:
        """Forget all that the window has left."""
        yield from super().compact(now)
        if self._kept is not None:
            self._kept.keep(self.machine.held())
        self._release_values(however_few=True)

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

    def _to_batch(self, chunk: Chunk, keys: pa.RecordBatch | None) -> pa.RecordBatch:
        masks = self.labels.masks  # the chooser turns marks into labels
        return to_record_batch(chunk, self.bound.result, masks if self.chooses else masks[self.labels.of_mark], keys)

    # --- state ---

    def state(self) -> tuple[dict[str, Any], dict[str, Array], dict[str, pa.RecordBatch]]:
        """The state between two batches."""
        header, arrays, tables = super().state()
        machine = self.machine
        header |= {"found": self._found, "automaton": self.auto.fingerprint, "ranked": self.operands.by_rank}
        tables["values"] = self.values.state(machine.used_values(self.values.most))
        if self._kept is not None:
            positions = machine.held()
            positions = positions[positions >= self._kept.first]
            tables["kept"] = self._values_at(positions)
            arrays["kept"] = positions
        return header, arrays, tables

    def restore(self, header: dict[str, Any], arrays: dict[str, Array], tables: dict[str, pa.RecordBatch]) -> None:
        """Continue from a `state` of the same query."""
        if header["automaton"] != self.auto.fingerprint:
            raise DataError(
                "the snapshot was taken by a version of ceql that compiles this query to another automaton; "
                "finish the stream with that version, or start anew"
            )
        for term in header.get("ranked", []):
            self.operands.rank(term)
        super().restore(header, arrays, tables)
        self.values.restore(tables["values"])
        self._found = header["found"]
        if self._kept is not None:
            self._kept.restore(arrays["kept"], tables["kept"], self.position)
            self._thinned = self._kept.count

    def _restore_machine(self, header: dict[str, Any], arrays: dict[str, Array]) -> None:
        self._room_for_symbols()
        self.machine.restore(arrays)
        nodes = arrays["nodes"]
        events = nodes[nodes[:, KIND] >= 0, A]
        require_between(events, 0, header["position"], "its partial matches have events that never came")
