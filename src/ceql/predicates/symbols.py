"""Symbols: each event as the set of guards that it satisfies, numbered.

Codes (one digit for each column's class) are cheap to compute and many; symbols (sets of guards) are what the
automaton sees, and few. A code is translated the first time it occurs, by evaluating the guards on its classes;
from then on it is a table look-up. Symbol numbers outlive the binding: when the schema of an open input grows, the
guards are bound again and the numbers stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ceql.analysis.normal import Atom
from ceql.predicates import kernels
from ceql.predicates.bind import Bound, Events, bind
from ceql.predicates.logic import Test, Truth, evaluate

Array = np.ndarray[Any, np.dtype[Any]]

DENSE = 1 << 20  # codes below this are looked up in an array


class SymbolTable:
    """The symbols met so far; symbol 0 is the empty set."""

    def __init__(self) -> None:
        self.restore([0])

    def restore(self, bits: Sequence[int]) -> None:
        """Number these sets, in this order."""
        self.bits = list(bits)
        self._number = {b: k for k, b in enumerate(self.bits)}

    def number(self, bits: int) -> int:
        """The symbol of a set of guards (as a bit mask)."""
        known = self._number.get(bits)
        if known is None:
            known = self._number[bits] = len(self.bits)
            self.bits.append(bits)
        return known

    def bits_of(self, symbol: int) -> int:
        return self.bits[symbol]


class Symbolizer:
    """Batches of a fixed schema to symbols."""

    def __init__(self, guards: Sequence[Atom], events: Events, source: str, table: SymbolTable) -> None:
        self.bound: Bound = bind(guards, events, source)
        self.table = table
        self.stages = _stages([c.classes for c in self.bound.columns])
        size = int(np.prod([c.classes for c in self.bound.columns])) if len(self.stages) <= 1 else 0
        self._dense: Array | None = None
        self._sparse: dict[int, int] = {}
        self._ids: list[dict[int, int]] = [{} for _ in self.stages]
        self._parts: list[list[int]] = [[] for _ in self.stages]
        if len(self.stages) <= 1 and size <= DENSE:
            self._dense = np.full(size, -1, np.int32)

    def symbols(self, batch: pa.RecordBatch, streams: int | Array) -> Array:
        """The symbol of every row, as int32."""
        rows = batch.num_rows
        if self._dense is not None:
            codes = np.zeros(rows, np.int64)
            for column in self.bound.columns:
                column.add(codes, batch, streams)
            result = np.empty(rows, np.int32)
            while kernels.to_symbols(codes, self._dense, result):
                for code in np.unique(codes[result < 0]).tolist():
                    self._dense[code] = self._translate(self._classes(code, range(len(self.bound.columns))))
            return result
        return self._many_columns(batch, streams)

    def _many_columns(self, batch: pa.RecordBatch, streams: int | Array) -> Array:
        """Codes that do not fit one table: stage by stage, each distinct prefix numbered as it is met."""
        rows = batch.num_rows
        prefix = np.zeros(rows, np.int64)
        for stage, columns in enumerate(self.stages):
            codes = np.zeros(rows, np.int64)
            for index in columns:
                self.bound.columns[index].add(codes, batch, streams)
            codes |= prefix << 32
            distinct, inverse = np.unique(codes, return_inverse=True)
            known = self._ids[stage]
            for code in distinct.tolist():
                known.setdefault(code, len(known))
            if len(self._parts[stage]) < len(known):
                self._parts[stage].extend(list(known)[len(self._parts[stage]) :])
            prefix = np.array([known[code] for code in distinct.tolist()], np.int64)[inverse]
        distinct, inverse = np.unique(prefix, return_inverse=True)
        for code in distinct.tolist():
            if code not in self._sparse:
                self._sparse[code] = self._translate(self._staged_classes(code))
        return np.array([self._sparse[code] for code in distinct.tolist()], np.int32)[inverse]

    def _staged_classes(self, number: int) -> list[int]:
        classes: list[int] = []
        for stage in range(len(self.stages) - 1, -1, -1):
            combined = self._parts[stage][number]
            classes = self._classes(combined & 0xFFFFFFFF, self.stages[stage]) + classes
            number = combined >> 32
        return classes

    def _classes(self, code: int, columns: Sequence[int]) -> list[int]:
        digits = []
        for index in reversed(columns):
            code, digit = divmod(code, self.bound.columns[index].classes)
            digits.append(digit)
        return digits[::-1]

    def _translate(self, classes: list[int]) -> int:
        def value(test: Test) -> Truth:
            return self.bound.columns[test.slot].truth(test.index, classes[test.slot])

        bits = 0
        for k, guard in enumerate(self.bound.guards):
            if evaluate(guard, value):
                bits |= 1 << k
        return self.table.number(bits)


def _stages(classes: list[int], most: int = 1 << 31) -> list[list[int]]:
    """Columns in groups whose codes fit 31 bits."""
    stages: list[list[int]] = [[]]
    size = 1
    for index, count in enumerate(classes):
        if size * count > most:
            stages.append([])
            size = 1
        stages[-1].append(index)
        size *= count
    return stages
