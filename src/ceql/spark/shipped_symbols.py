"""Symbols from the bits that the JVM computed; the task itself decides the guards that the JVM left undecided.

Several queries decide them together, and number the keys that they have in common once (`Together`).
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa

from ceql.analysis.neighbours import lags_in
from ceql.io.partition_keys import PartitionKeys
from ceql.io.shared_keys import QueryKeys, SharedKeys
from ceql.jit import Array
from ceql.predicates import kernels
from ceql.predicates.bind import InputSchema, bind
from ceql.predicates.shared_symbols import SymbolReader
from ceql.predicates.symbols import Symbolizer, SymbolTable
from ceql.predicates.time_arithmetic import with_unit
from ceql.recognition.lags import with_lags
from ceql.recognition.snapshot import schema_from_text
from ceql.spark.task_spec import BITS, SetSpec, TaskSpec, bits_column, own_name

_DENSE = 20  # up to so many guards, every combination has a place in a table


class ShippedSymbols:
    """Symbols from the bits that the JVM computed, with the undecided guards decided here."""

    def __init__(self, spec: TaskSpec, table: SymbolTable) -> None:
        self._spec = spec
        self._table = table
        self._undecided: Symbolizer | None = None
        self._own_table = SymbolTable()
        if spec.undecided:
            guards = [spec.plan.guards[k] for k in spec.undecided]
            schema = with_unit(schema_from_text(spec.schema), spec.options.time, spec.options.time_unit)
            schema = with_lags(schema, lags_in(predicate for guard in guards for predicate in guard.predicates))
            events = InputSchema(schema, False, spec.type, spec.streams, spec.untyped)
            self._undecided = Symbolizer(bind(guards, events, spec.plan.source), self._own_table)
        small = not spec.undecided and len(spec.exact) <= _DENSE
        self._dense: Array | None = np.full(1 << len(spec.exact), -1, np.int32) if small else None
        self._known: dict[tuple[int, ...], int] = {}

    def symbols(self, batch: pa.RecordBatch, streams: int | Array) -> Array:
        """The symbol of every row."""
        if self._dense is not None:
            return self._from_table(batch)
        if self._undecided is not None and not self._spec.bit_columns:
            own = self._decide(batch)
            return np.array([self._number((k,)) for k in range(len(self._own_table.bits))], np.int32)[own]
        codes = [self._column(batch, name) for name in self._spec.bit_columns]
        if self._undecided is not None:
            codes.append(self._decide(batch))
        # one column of codes at a time: combinations that occur are few
        numbers: Array = np.zeros(batch.num_rows, np.int64)
        rows: list[tuple[int, ...]] = [()]
        for column in codes:
            distinct, inverse = np.unique(column, return_inverse=True)
            pairs, numbers = np.unique(numbers * len(distinct) + inverse, return_inverse=True)
            rows = [(*rows[p // len(distinct)], int(distinct[p % len(distinct)])) for p in pairs.tolist()]
        return np.array([self._number(row) for row in rows], np.int32)[numbers]

    def relevant(self, batch: pa.RecordBatch, streams: int | Array) -> tuple[Array, Array]:
        """The rows whose symbol is not 0, and their symbols."""
        symbols = self.symbols(batch, streams)
        rows = np.flatnonzero(symbols)
        return rows, symbols[rows]

    def _from_table(self, batch: pa.RecordBatch) -> Array:
        assert self._dense is not None
        if not self._spec.bit_columns:
            return np.full(batch.num_rows, self._number(()), np.int32)
        result: Array = np.zeros(batch.num_rows, np.int32)
        codes = self._column(batch, bits_column(0)).astype(np.int32)
        while kernels.to_symbols(codes, self._dense, result):
            for code in np.unique(codes[result < 0]).tolist():
                self._dense[code] = self._number((code,))
        return result

    @staticmethod
    def _column(batch: pa.RecordBatch, name: str) -> Array:
        return np.asarray(batch.column(own_name(name)).to_numpy(zero_copy_only=False))

    def _decide(self, batch: pa.RecordBatch) -> Array:
        assert self._undecided is not None
        return self._undecided.symbols(*self._spec.with_streams(batch)).astype(np.int64)

    def _number(self, row: tuple[int, ...]) -> int:
        """The symbol of a combination: the shipped words of bits, then the undecided guards' symbol."""
        known = self._known.get(row)
        if known is None:
            bits = sum(1 << guard for guard in self._spec.always)
            words = row[: len(self._spec.bit_columns)]
            for place, guard in enumerate(self._spec.exact):
                bits |= (words[place // BITS] >> place % BITS & 1) << guard
            if self._undecided is not None:
                own = self._own_table.bits_of(row[-1])
                for place, guard in enumerate(self._spec.undecided):
                    bits |= (own >> place & 1) << guard
            known = self._known[row] = self._table.number(bits)
        return known


class Together:
    """What the queries of a task share (`recognition.bound_plan.Sharing`)."""

    def __init__(self, spec: SetSpec) -> None:
        self._guards = spec.guards
        self._keys: dict[object, SharedKeys] = {}

    def reader(self, number: int, spec: TaskSpec, table: SymbolTable) -> SymbolReader | ShippedSymbols:
        """What gives the symbols of a query."""
        shared = None if spec.plan.lags else self._guards.reader(number, table)
        return shared or ShippedSymbols(spec, table)

    def symbols(self, schema: pa.Schema, table: SymbolTable) -> None:
        """Guards are decided by way of `reader`."""

    def keys(self, own: PartitionKeys) -> QueryKeys:
        """The keys of a query, read together with those of others that have the same."""
        alike = tuple(own.parts), tuple(own.types)
        if alike not in self._keys:
            make = partial(PartitionKeys, own.parts, own.schema, None, False, own.source)
            self._keys[alike] = SharedKeys(make, self._guards.concerned, (None,))
        return self._keys[alike].query()
