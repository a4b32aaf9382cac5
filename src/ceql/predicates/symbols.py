"""Symbols: each event as the number of the set of guards that it satisfies.

An event's code has one digit for each column slot: the class of its value. Codes are cheap to compute, and there may be
many; the symbols that the automaton reads are few. The guards are evaluated on a code the first time it occurs; from
then on, its symbol is looked up in a table. When the schema of an open input grows, the guards are bound again and the
symbols keep their numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from ceql.jit import Array
from ceql.predicates import kernels
from ceql.predicates.bind import BoundGuards
from ceql.predicates.logic import TRUE, ColumnTest, Truths, code, evaluate

DENSE = 1 << 20  # codes below this are looked up in an array
_SOME = 1 << 12  # codes that are translated at once


class SymbolTable:
    """The symbols that have occurred. Symbol 0 is the empty set."""

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
    """Batches to symbols; the guards are bound to their columns."""

    def __init__(self, bound: BoundGuards, table: SymbolTable) -> None:
        self.bound = bound
        self.table = table
        self._section_columns = _sections([c.classes for c in self.bound.columns])
        size = int(np.prod([c.classes for c in self.bound.columns])) if len(self._section_columns) <= 1 else 0
        self._dense: Array | None = None
        self._symbols: Array = np.zeros(0, np.int32)
        self._ids: list[dict[int, int]] = [{} for _ in self._section_columns]
        self._parts: list[list[int]] = [[] for _ in self._section_columns]
        if len(self._section_columns) <= 1 and size <= DENSE:
            self._dense = np.full(size, -1, np.int32)

    def symbols(self, batch: pa.RecordBatch, streams: int | Array) -> Array:
        """The symbol of every row, as int32."""
        if self._dense is None:
            return self._by_sections(batch, streams)
        codes = self._codes(range(len(self.bound.columns)), batch, streams)
        result: Array = np.empty(batch.num_rows, np.int32)
        while kernels.to_symbols(codes, self._dense, result):
            self._learn(codes[result < 0])
        return result

    def relevant(self, batch: pa.RecordBatch, streams: int | Array) -> tuple[Array, Array]:
        """The rows whose symbol is not 0, and their symbols."""
        if self._dense is None:
            symbols = self._by_sections(batch, streams)
            rows = np.flatnonzero(symbols)
            return rows, symbols[rows]
        codes = self._codes(range(len(self.bound.columns)), batch, streams)
        symbols, rows = np.empty(batch.num_rows, np.int32), np.empty(batch.num_rows, np.int64)
        while True:
            count, missing = kernels.to_relevant(codes, self._dense, symbols, rows)
            if not missing:
                return rows[:count], symbols[:count]
            self._learn(codes[rows[:count][symbols[:count] < 0]])

    def _learn(self, codes: Array) -> None:
        """Translate some of the codes that the table does not know; most of them repeat."""
        assert self._dense is not None
        missing = np.unique(codes[:_SOME])
        known = [self.bound.known.get(code) for code in missing.tolist()]
        sets = [bits for bits in known if bits is not None]
        if len(sets) < len(missing):
            sets = self._sets(self._digits(missing, range(len(self.bound.columns))))
            if len(self.bound.known) < _SOME:
                self.bound.known.update(zip(missing.tolist(), sets, strict=True))
        self._dense[missing] = [self.table.number(bits) for bits in sets]

    def _codes(self, columns: Sequence[int], batch: pa.RecordBatch, streams: int | Array) -> Array:
        codes: Array = np.zeros(batch.num_rows, np.int32)
        for index in columns:
            self.bound.columns[index].add(codes, batch, streams)
        return codes

    def _by_sections(self, batch: pa.RecordBatch, streams: int | Array) -> Array:
        """The symbols of codes that do not fit one table: section by section, each distinct prefix gets a number."""
        prefix: Array = np.zeros(batch.num_rows, np.int64)
        for section, columns in enumerate(self._section_columns):
            codes = self._codes(columns, batch, streams) | prefix << 32
            distinct, inverse = np.unique(codes, return_inverse=True)
            known = self._ids[section]
            numbers = [known.setdefault(code, len(known)) for code in distinct.tolist()]
            self._parts[section].extend(list(known)[len(self._parts[section]) :])
            prefix = np.array(numbers, np.int64)[inverse]
        if len(self._symbols) < len(self._ids[-1]):
            fresh = np.arange(len(self._symbols), len(self._ids[-1]))
            numbers = [self.table.number(bits) for bits in self._sets(self._section_digits(fresh))]
            self._symbols = np.concatenate([self._symbols, np.array(numbers, np.int32)])
        return self._symbols[prefix]

    def _section_digits(self, numbers: Array) -> list[Array]:
        digits: list[Array] = []
        for section in range(len(self._section_columns) - 1, -1, -1):
            combined = np.array(self._parts[section], np.int64)[numbers]
            digits = self._digits(combined & 0xFFFFFFFF, self._section_columns[section]) + digits
            numbers = combined >> 32
        return digits

    def _digits(self, codes: Array, columns: Sequence[int]) -> list[Array]:
        """The digits of the codes, an array for each column."""
        digits = []
        for index in reversed(columns):
            codes, digit = np.divmod(codes, self.bound.columns[index].classes)
            digits.append(digit)
        return digits[::-1]

    def _sets(self, digits: list[Array]) -> list[int]:
        """The sets of guards that combinations of classes satisfy, as bit masks."""
        count = len(digits[0]) if digits else 1
        known: dict[ColumnTest, Truths] = {}
        classes: dict[int, tuple[Array, Array]] = {}  # of each slot, those that occur here, and where

        def values(test: ColumnTest) -> Truths:
            if test not in known:
                column = self.bound.columns[test.slot]
                if test.slot not in classes:
                    classes[test.slot] = np.unique(digits[test.slot], return_inverse=True)
                occurring, which = classes[test.slot]
                by_class = np.array([code(column.truth(test.index, k)) for k in occurring.tolist()], np.int8)
                known[test] = by_class[which]
            return known[test]

        holds = np.array([evaluate(guard, values, count) == TRUE for guard in self.bound.guards], np.bool_)
        packed = np.packbits(holds.reshape(len(self.bound.guards), count), axis=0, bitorder="little").T
        return [int.from_bytes(row.tobytes(), "little") for row in packed]


def _sections(classes: list[int], most: int = 1 << 31) -> list[list[int]]:
    """Splits the columns into sections whose codes fit 31 bits."""
    sections: list[list[int]] = [[]]
    size = 1
    for index, count in enumerate(classes):
        if size * count > most:
            sections.append([])
            size = 1
        sections[-1].append(index)
        size *= count
    return sections
