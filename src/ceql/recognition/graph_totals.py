"""Aggregates over all matches without enumerating them: what the graph of partial matches adds up.

A position with few matches is enumerated, since that is quicker; its matches go to `Aggregation.add`. One with many is
added up by the machine (`engine.common.summing`), which asks here what events weigh, and its totals come here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from ceql.engine.common.summing import Found, Summing
from ceql.engine.common.sums import ABSENT, Weights
from ceql.jit import Array
from ceql.recognition.aggregation import Aggregation, Take, decimal_of, grouped, hashable, wholes
from ceql.recognition.checks import numbered
from ceql.recognition.frame import Recognition
from ceql.recognition.totals import Slot, codes, is_coded

_MOST_DIGITS = 18  # of a decimal whose unscaled number fits 64 bits


def listen(aggregation: Aggregation, recognition: Recognition) -> None:
    """Add up all matches of a recognition that has not begun."""
    recognition.keep_also(aggregation.request.attributes)
    follow(aggregation, recognition)


def follow(aggregation: Aggregation, recognition: Recognition, take: Take | None = None) -> None:
    """Add up the matches of a recognition from now on; `take` has the attributes that it does not keep."""

    def gather(matches: pa.RecordBatch, kept: Take) -> None:
        aggregation.read(recognition.schema)
        aggregation.add(matches, kept if take is None else take)

    graph = GraphTotals(aggregation, recognition, take)
    recognition.gather, recognition.gather_sums, recognition.before_batch = gather, graph.add, graph.begin


def leave(recognition: Recognition) -> None:
    """Let a recognition find its matches for others again."""
    recognition.gather = recognition.gather_sums = recognition.before_batch = None
    recognition.use_sums(None)


class GraphTotals:
    """What a recognition adds up over its graph, as totals of groups."""

    def __init__(self, aggregation: Aggregation, recognition: Recognition, take: Take | None) -> None:
        self._aggregation = aggregation
        self._recognition = recognition
        self._take = recognition.values_at if take is None else take
        self._types: list[pa.DataType] | None = None
        self._whole: list[Slot] = []
        self._real: list[Slot] = []
        self._code: list[Slot] = []

    def begin(self) -> None:
        """Before a batch: look at the types of its columns, which those of dicts may have changed."""
        aggregation = self._aggregation
        aggregation.read(self._recognition.schema)
        slots = aggregation.request.slots
        types = [aggregation.type_of(slot) for slot in slots]
        if types == self._types:
            return
        self._types = types
        self._whole = [slot for slot in slots if slot.function == "COUNT" or self._is_whole(slot)]
        self._real = [slot for slot in slots if slot.function == "SUM" and not self._is_whole(slot)]
        self._code = [slot for slot in slots if slot.function in ("MIN", "MAX")]
        able = all(map(self._is_able, slots))
        self._recognition.use_sums(self.summing if able else None)

    def _is_able(self, slot: Slot) -> bool:
        """Whether the graph adds up what a slot takes: numbers of 64 bits."""
        if slot.function in ("MIN", "MAX"):
            return is_coded(self._aggregation.type_of(slot))
        if slot.function == "SUM" and pa.types.is_decimal(self._aggregation.type_of(slot)):
            return bool(self._aggregation.operand_type(slot).precision <= _MOST_DIGITS)
        return slot.function in ("COUNT", "SUM")

    def _is_whole(self, slot: Slot) -> bool:
        type = self._aggregation.type_of(slot)
        return slot.function == "SUM" and bool(pa.types.is_integer(type) or pa.types.is_decimal(type))

    def summing(self) -> Summing:
        """Adds up the matches of one machine."""
        return Summing(self._weigh, len(self._whole), len(self._real), len(self._code))

    def _weigh(self, positions: Array, labels: Array) -> Weights:
        """What events weigh at these positions, with these labels: nothing, if the label does not bind the variable."""
        masks, columns = self._recognition.label_masks, self._recognition.bound.plan.columns
        binds = {name: masks[labels, k] for k, name in enumerate(columns)}
        data, row = None, positions
        if any(slot.operand is not None for slot in self._aggregation.request.slots):
            known, (row,) = numbered(positions)
            data = self._take(known)
        whole = np.zeros((len(positions), len(self._whole)), np.int64)
        real = np.zeros((len(positions), len(self._real)))
        code = np.full((len(positions), len(self._code)), ABSENT)
        for k, slot in enumerate(self._whole):
            whole[:, k] = np.where(binds[slot.variable], self._wholes(slot, data, row), 0)
        for k, slot in enumerate(self._real):
            assert data is not None
            values = self._aggregation.values(slot, data).cast(pa.float64()).fill_null(0.0)
            real[:, k] = np.where(binds[slot.variable], np.asarray(values)[row], 0.0)
        for k, slot in enumerate(self._code):
            assert data is not None
            values = self._aggregation.values(slot, data)
            numbers = codes(values) if slot.function == "MAX" else ~codes(values)
            there = binds[slot.variable] & values.is_valid().to_numpy(zero_copy_only=False)[row]
            code[:, k] = np.where(there, numbers[row], ABSENT)
        return Weights(whole, real, code)

    def _wholes(self, slot: Slot, data: pa.RecordBatch | None, row: Array) -> Array:
        if slot.operand is None or data is None:
            return np.ones(len(row), np.int64)
        values = self._aggregation.values(slot, data)
        if slot.function == "SUM":
            return wholes(values)[row]
        return np.asarray(values.is_valid().to_numpy(zero_copy_only=False)[row].astype(np.int64))

    def add(self, found: list[Found]) -> None:
        """Add the totals of positions to those of their groups."""
        aggregation, request = self._aggregation, self._aggregation.request
        found = [sums for sums in found if sums.end >= aggregation.begin]
        keys, group = self._groups(found)
        counts = {slot: 1 + k for k, slot in enumerate(self._whole)}
        columns: list[list[Any]] = []
        for slot in request.slots:
            some = [sums.whole[counts[Slot("COUNT", slot.variable, slot.operand)]] > 0 for sums in found]
            if slot in self._code:
                k = self._code.index(slot)
                values: list[Any] = [s.code[k] if slot.function == "MAX" else ~s.code[k] for s in found]
            elif slot in self._real:
                values = [sums.real[self._real.index(slot)] for sums in found]
            else:
                values = [sums.whole[counts[slot]] for sums in found]
                if pa.types.is_decimal(type := aggregation.type_of(slot)):
                    values = [decimal_of(value, type) for value in values]
            if slot.function != "COUNT":
                values = [value if is_there else None for value, is_there in zip(values, some, strict=True)]
            columns.append(values)
        aggregation.totals.add((keys[k] for k in group.tolist()), (sums.whole[0] for sums in found), columns)

    def _groups(self, found: list[Found]) -> tuple[list[tuple[Any, ...]], Array]:
        request, columns = self._aggregation.request, list[Array | pa.Array]()
        if request.by:
            assert self._recognition.keys is not None
            partitions = np.array([sums.partition for sums in found], np.int64)
            numbers, rows = np.unique(partitions, return_inverse=True)
            values = self._recognition.keys.key_columns(numbers)
            types = dict(self._aggregation.bound.keys)
            for name in request.by:
                column = values.column(self._recognition.keys.names.index(name)).take(pa.array(rows))
                columns.append(hashable(column.cast(types[name])))
        if self._aggregation.width is not None:
            columns.append(self._aggregation.buckets(np.array([sums.time for sums in found], np.int64)))
        return grouped(columns, len(found))
