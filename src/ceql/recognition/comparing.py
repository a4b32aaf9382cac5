"""A query that compares events with each other at work: what its machine is told of each event.

In: a batch. Out: its events with `values`: the words that conditions read, and the numbers of the values that are
looked up. The loop over groups and the one over ordered runs are fed like this.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ParamSpec, Protocol, TypeVar
from weakref import WeakMethod

import numpy as np
import pyarrow as pa

from ceql.automata.correlated import Correlated
from ceql.automata.registers import Register
from ceql.engine.common.layout import Events
from ceql.engine.groups.layout import CELLS_USED, NULL, Carrier
from ceql.engine.groups.told import Tell
from ceql.errors import DataError
from ceql.jit import Array
from ceql.predicates.operands import Operands, TooSmall
from ceql.predicates.values import ValueNumbers
from ceql.recognition.bound_plan import BoundPlan
from ceql.recognition.checks import Checks
from ceql.recognition.frame import Recognition
from ceql.recognition.listed import satisfied

P = ParamSpec("P")
R = TypeVar("R")

_MANY_VALUES = 1 << 17  # that have come since they were looked through for those to forget
_WRITTEN = ("rows", "keys", "buckets", "cells", "cell_slots", "rank", "died", "verdicts", "asked")  # of a carrier


class Carries(Protocol):
    """A machine whose runs carry registers."""

    carrier: Carrier | None
    numbered: Array
    """Which words of each index's key and registers are numbers of values."""
    sets: Array
    """Which of them are sets of values."""
    tell: Tell | None
    """Decides conditions on lists of events."""
    regs: Array
    collected: bool
    """Whether it gave something back since the caller last looked for values that nothing waits under."""

    def recode(self, chosen: Array, change: Callable[[Array], Array]) -> None:
        """Change the words that are chosen by index and word."""

    def used_values(self, most: int, sorted_by: bool) -> Array:
        """The numbers, below `most`, of the values that runs have."""

    def column(self, number: int) -> Array:
        """A scalar of each partition."""


class ComparingRecognition(Recognition):
    """Symbols and values in."""

    values: ValueNumbers
    operands: Operands
    checks: Checks
    auto: Correlated
    running: Correlated
    """The same as the engine runs it."""
    seen_column: int
    """Of the machine's table of partitions: how many events there were."""

    def __init__(self, bound: BoundPlan, counting: bool = False) -> None:
        super().__init__(bound, counting)
        self._values_kept = 0

    @property
    def carriers(self) -> Sequence[Carries]:
        """The machines."""
        raise NotImplementedError

    @property
    def keys_bytes(self) -> int:
        """The memory of keys and other values that have numbers."""
        return super().keys_bytes + self.values.nbytes

    def _bind(self, schema: pa.Schema) -> None:
        super()._bind(schema)
        schema = self.bound.with_unit(schema)
        self.values.bind(schema)
        self.checks.bind(self.bound.lengths.extended(schema))
        if self.auto.carrying is not None:
            self._read_by(self.operands.bound_to(self.bound.lengths.extended(schema)))

    def _read_by(self, operands: Operands) -> None:
        """Read what conditions compare in another way from now on."""
        before, self.operands = self.operands.encodings, operands
        if "machine" not in self.__dict__:
            return
        for machine in self.carriers:
            old = machine.carrier
            assert old is not None
            for k, encoding in enumerate(before):
                if encoding is not self.operands.encodings[k]:  # a column of dicts got a wider type
                    in_sets = any(k in self._columns_of(r) for r in self.auto.carrying.registers if r.is_set)  # type: ignore[union-attr]
                    if in_sets and machine.regs[CELLS_USED]:
                        raise DataError(
                            "the type of a column changed that conditions compare in sets of values; give it one type"
                        )
                    registers = [n for n, r in enumerate(self.auto.carrying.registers) if r.term >= 0]  # type: ignore[union-attr]
                    mine = {n for n in registers if self.auto.column(self.auto.register(n).term) == k}
                    change = partial(self.operands.recode, k, encoding, self.values)
                    machine.recode(self._words_of(machine, mine), change)
            made = self.bound.carrier(self.operands)
            machine.carrier = made._replace(**{name: getattr(old, name) for name in _WRITTEN})
            self.tell_words(machine, self.running)

    def _columns_of(self, register: Register) -> set[int]:
        """The columns of words that a set has."""
        return {self.auto.column(term) for term, _ in register.terms}

    def _words_of(self, machine: Carries, registers: set[int]) -> Array:
        """Of each index, which of its words are these registers."""
        found = np.zeros_like(machine.sets)
        for k, index in enumerate(self.running.indexes):
            first = len(next(iter(index.feeders.values()))[0])
            for n, register in enumerate(index.registers):
                found[k, first + n] = register in registers
        return found

    def tell_words(self, machine: Carries, auto: Correlated) -> None:
        """Tell which words of each index are numbers of values (its terms, and registers of numbered or ranked ones),
        and which are sets of values."""
        numbered, sets = np.ones_like(machine.numbered), np.zeros_like(machine.sets)
        for k, (first, words) in enumerate(auto.told_words(self.operands.ranked)):
            numbered[k, first + len(words) :] = False
            for n, (is_number, is_set) in enumerate(words, first):
                numbered[k, n], sets[k, n] = is_number, is_set
        count = len(auto.indexes)
        if len(numbered) > count:  # the heads of lists have the first words of their groups
            numbered[count:] = numbered[:count]
        machine.numbered, machine.sets = numbered, sets
        machine.tell = weakly(self._tell)

    def _tell(self, condition: int, cells: Array, lists: Array) -> Array:
        """Which of these lists of events satisfy a condition."""
        return satisfied(self.checks, self.operands, self.values, condition, cells, lists)

    # --- feeding ---

    def _for_machine(self, events: Events, data: pa.RecordBatch, rows: Array | None) -> Events:
        count = len(events.symbol)
        if self.auto.carrying is None:
            values: Array = np.empty((count, len(self.values.terms)), np.int32)
            self.values.numbers(data, rows, values, -1)
        else:
            lengths, reads = self.bound.lengths, len(self.operands.encodings)
            values = np.empty((count, reads + len(self.values.terms)), np.int64)
            self.values.numbers(data, rows, values[:, reads:], NULL)
            if lengths.names:
                places = self._place_of(events) if self.bound.plan.counts_events and self.keys is not None else None
                data, rows = lengths.measured(data, rows, events.position, events.time, places), None
            self._read(data, rows, values)
            self._tell_ranks()
        return events._replace(values=values)

    def _tell_ranks(self) -> None:
        """Tell the machines the order of all values that have come."""
        if any(self.operands.ranked):
            ranks = self.values.ranks()
            for machine in self.carriers:
                assert machine.carrier is not None
                machine.carrier = machine.carrier._replace(rank=ranks)

    def _read(self, data: pa.RecordBatch, rows: Array | None, words: Array) -> None:
        while True:
            try:
                self.operands.read(data, rows, self.values, words)
                return
            except TooSmall as found:
                self._read_by(self.operands.with_rank(found.term))

    def _place_of(self, events: Events) -> Array:
        """The place of each event in its substream."""
        partition = events.partition
        order = np.argsort(partition, kind="stable")
        ordered = partition[order]
        first = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))[: len(ordered)]
        run = np.arange(len(ordered)) - np.repeat(first, np.diff(np.append(first, len(ordered))))
        place = np.zeros(len(ordered), np.int64)
        seen = np.append(self.machine.column(self.seen_column), 0)  # the last is for events of no substream
        place[order] = run + seen[ordered]
        return place

    def _release_values(self, however_few: bool = False) -> None:
        """Forget the values that nothing waits under, once there may be many."""
        if not however_few and self.values.known <= 2 * self._values_kept + _MANY_VALUES:
            return
        if any(machine.collected for machine in self.carriers):
            self.values.release(self._used_values(sorted_by=True))
            self._values_kept = self.values.known
            for machine in self.carriers:
                machine.collected = False

    def _used_values(self, sorted_by: bool = False) -> Array:
        """The numbers of the values that runs are filed under, or (`sorted_by`) were and are still compared by."""
        used = [machine.used_values(self.values.most, sorted_by) for machine in self.carriers]
        return np.unique(np.concatenate(used))

    # --- state ---

    def _compared_state(self) -> tuple[dict[str, Any], dict[str, pa.RecordBatch]]:
        """What a state says of the values that runs have."""
        header = {"automaton": self.running.fingerprint, "ranked": self.operands.by_rank}
        return header, {"values": self.values.state(self._used_values())}

    def _restore_compared(self, header: dict[str, Any], tables: dict[str, pa.RecordBatch]) -> None:
        """Read the same, before the machine, which sorts runs by the rank of their values, is restored."""
        if header["automaton"] != self.running.fingerprint:
            raise DataError(
                "the snapshot was taken by a version of ceql that compiles this query to another automaton; "
                "finish the stream with that version, or start anew"
            )
        for term in header["ranked"]:
            self.operands = self.operands.with_rank(term)
        self.values.restore(tables["values"])


def weakly(method: Callable[P, R]) -> Callable[P, R]:
    """The method of a recognition for its machine, which does not keep the recognition: a cycle of the two would hold
    the memory of both until Python's collector comes by."""
    reference = WeakMethod(method)

    def call(*given: P.args, **named: P.kwargs) -> R:
        bound = reference()
        assert bound is not None, "the recognition whose machine this is has gone"
        return bound(*given, **named)

    return call
