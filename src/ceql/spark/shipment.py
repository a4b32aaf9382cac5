"""What is shipped from the JVM to Python: the agreement between the plan on the driver and the tasks.

Shipped columns have names of their own, so that they never clash with the user's: `bits0` ... (which guards hold),
`time`, `key0` ... (what substreams are made by, the PARTITION BY clause first), `window` (the attribute of `WITHIN n
[a]`), `order` (a hash of what orders ties), `main` (whether a row is in its chunk, or only warms it up), `a0` ...
(attributes of events, for the output, for what compares events with each other, and for guards that the JVM cannot
decide). Everything here is plain data, pickled to the workers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from ceql.jit import Array
from ceql.plan import Plan
from ceql.predicates import kernels
from ceql.predicates.bind import Events, bind
from ceql.predicates.symbols import Symbolizer, SymbolTable
from ceql.recognition.options import Options
from ceql.recognition.snapshot import schema_from_text
from ceql.spark.shipped_plan import shipped_plan

TIME, ORDER, MAIN, CHUNK, STREAM = "time", "order", "main", "chunk", "stream"
BITS = 63
"""Guards in one shipped column: what a signed 64-bit integer holds without its sign."""
_DENSE = 20


def bits_column(index: int) -> str:
    """The shipped column that says which of guards 63 * index and following hold."""
    return f"bits{index}"


def key_column(index: int) -> str:
    return f"key{index}"


def attribute_column(index: int) -> str:
    return f"a{index}"


@dataclass(frozen=True)
class Shipment:
    """What a task needs to know: the query, which shipped column is what, and what the result shows.

    `exact` lists the guards that the JVM decides, in the order of the bits; `undecided` those that the task decides
    itself, bound to the attributes' schema (`schema`, as text) under these names.
    """

    query: str
    options: Options
    attributes: tuple[str, ...]
    """The shipped attributes by name: number i is the column `a{i}`, but for those in `shared`."""
    keys: tuple[str, ...]
    """The names of the key columns in the result; they are the first that are shipped."""
    shown: tuple[str, ...]
    """The attributes that the events of the result have; a single one, the id, where `ids`."""
    ids: bool
    exact: tuple[int, ...]
    hidden_keys: int = 0
    """How many more keys are shipped: what all events of a match have in common though no clause says so."""
    compared: tuple[str, ...] = ()
    """The attributes that are compared between events, other than by keys."""
    shared: tuple[tuple[str, str], ...] = ()
    """Attributes that are shipped already, as the time or a key, with that column."""
    keys_as_text: frozenset[int] = frozenset()
    """The keys that are shipped as texts, so as not to be rounded, and shown as floats."""
    undecided: tuple[int, ...] = ()
    schema: str = ""
    type: str | None = None
    streams: tuple[str | None, ...] = (None,)
    untyped: frozenset[int] = frozenset()
    ordered_by: tuple[str, ...] = ()
    """What the user gave as order_by, for messages."""

    @cached_property
    def plan(self) -> Plan:
        """The plan over the shipped columns."""
        return self._plan_by(self.key_columns)

    def _plan_by(self, keys: tuple[str, ...]) -> Plan:
        return shipped_plan(self.query, keys, tuple((name, self.place[name]) for name in self.compared))

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The shipped columns of keys."""
        return tuple(key_column(k) for k in range(len(self.keys) + self.hidden_keys))

    @cached_property
    def place(self) -> dict[str, str]:
        """The shipped column of each attribute."""
        return {name: attribute_column(k) for k, name in enumerate(self.attributes)} | dict(self.shared)

    @property
    def bit_columns(self) -> list[str]:
        """The shipped columns of bits."""
        return [bits_column(k) for k in range(-(-len(self.exact) // BITS))]


class ShippedSymbols:
    """Symbols from the bits that the JVM computed, with the undecided guards decided here."""

    def __init__(self, shipment: Shipment, table: SymbolTable) -> None:
        self._shipment = shipment
        self._table = table
        self._undecided: Symbolizer | None = None
        self._own_table = SymbolTable()
        if shipment.undecided:
            guards = [shipment.plan.guards[k] for k in shipment.undecided]
            schema = schema_from_text(shipment.schema)
            events = Events(schema, False, shipment.type, shipment.streams, shipment.untyped)
            self._undecided = Symbolizer(bind(guards, events, shipment.plan.source), self._own_table)
            self._names = schema.names
        small = not shipment.undecided and len(shipment.exact) <= _DENSE
        self._dense: Array | None = np.full(1 << len(shipment.exact), -1, np.int32) if small else None
        self._known: dict[tuple[int, ...], int] = {}

    def symbols(self, batch: pa.RecordBatch, streams: int | Array) -> Array:
        """The symbol of every row."""
        if self._dense is not None:
            return self._from_table(batch)
        if self._undecided is not None and not self._shipment.bit_columns:
            own = self._decide(batch)
            return np.array([self._number((k,)) for k in range(len(self._own_table.bits))], np.int32)[own]
        codes = [self._column(batch, name) for name in self._shipment.bit_columns]
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
        result: Array = np.zeros(batch.num_rows, np.int32)
        if not self._shipment.bit_columns:
            return result
        codes = self._column(batch, bits_column(0)).astype(np.int32)
        while kernels.to_symbols(codes, self._dense, result):
            for code in np.unique(codes[result < 0]).tolist():
                self._dense[code] = self._number((code,))
        return result

    @staticmethod
    def _column(batch: pa.RecordBatch, name: str) -> Array:
        return np.asarray(batch.column(name).to_numpy(zero_copy_only=False))

    def _decide(self, batch: pa.RecordBatch) -> Array:
        assert self._undecided is not None
        columns = [batch.column(self._shipment.place[name]) for name in self._names]
        named = pa.RecordBatch.from_arrays(columns, names=self._names)
        streams: int | Array = 0
        if len(self._shipment.streams) > 1:
            streams = self._column(batch, STREAM).astype(np.int32)
        return self._undecided.symbols(named, streams).astype(np.int64)

    def _number(self, row: tuple[int, ...]) -> int:
        """The symbol of a combination: the shipped words of bits, then the undecided guards' symbol."""
        known = self._known.get(row)
        if known is None:
            bits = 0
            words = row[: len(self._shipment.bit_columns)]
            for place, guard in enumerate(self._shipment.exact):
                bits |= (words[place // BITS] >> place % BITS & 1) << guard
            if self._undecided is not None:
                own = self._own_table.bits_of(row[-1])
                for place, guard in enumerate(self._shipment.undecided):
                    bits |= (own >> place & 1) << guard
            known = self._known[row] = self._table.number(bits)
        return known
