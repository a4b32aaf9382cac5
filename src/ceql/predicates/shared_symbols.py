"""The symbols of several queries over one stream: each column is classified once for all of them.

In: the guards of all queries, bound to the same column slots. Out: for each batch and query, the rows that concern the
query, and their symbols. The type (and stream) of an event decides which guards can hold at all, and so which slots
matter: a row's code has the digits of these slots alone. Each code that occurs stands for the set of guards that hold,
over all queries of a table; each query reads its own symbols from these sets. Rows of types that no query names are
left out before anything else. If the codes of all queries do not fit one table, the queries are divided among several.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ceql.jit import Array
from ceql.predicates import kernels
from ceql.predicates.bind import BoundTogether
from ceql.predicates.columns import AttributeColumn
from ceql.predicates.logic import TRUE, AllOf, AnyOf, ColumnTest, Logic, Not, Truths, code, evaluate
from ceql.predicates.symbols import DENSE, SymbolTable

_MOST_KINDS = 1 << 16  # combinations of types and streams
_NONE: Array = np.zeros(0, np.int64)
View = Callable[[pa.RecordBatch], tuple[pa.RecordBatch, int | Array]]


class Looked(NamedTuple):
    """What is known of a batch: the rows that concern a table's queries, and the number of each one's set of guards."""

    rows: Array
    sets: Array
    present: Array
    """The sets that occur."""


class SharedGuards:
    """The guards of all queries, decided together. They remember the last batch.

    `view` gives the columns of a batch under the names that the guards are bound to, and the streams of its rows.
    """

    def __init__(self, bound: BoundTogether, view: View | None = None) -> None:
        self._columns = bound.columns
        self._view = view
        self._truths: dict[ColumnTest, Truths] = {}
        self._selecting = sorted({slot for kinds in bound.kinds for kind in kinds for slot in _slots(kind)})
        self._last: tuple[pa.RecordBatch, list[Looked]] | None = None
        self.tables: list[_Table] = []
        self._places: list[_Place | None] = []
        sizes = [self._columns[slot].classes for slot in self._selecting]
        self._kinds = int(np.prod(sizes, dtype=np.int64))
        for kinds, rest in zip(bound.kinds, bound.rest, strict=True):
            self._places.append(self._place(kinds, rest) if self._kinds <= _MOST_KINDS else None)

    def reader(self, query: int, table: SymbolTable) -> SymbolReader | None:
        """What gives the symbols of a query, numbered by `table`; None if its codes alone are too many."""
        place = self._places[query]
        return SymbolReader(self, place, table) if place is not None else None

    def _place(self, kinds: Iterable[Logic], rest: tuple[Logic, ...]) -> _Place | None:
        """Find room for a query in a table, or make one."""
        guards = [
            _Guard(possible, logic, _slots(logic)) for possible, logic in zip(self._possible(kinds), rest, strict=True)
        ]
        for number, table in enumerate([*self.tables, _Table(self, self._kinds)]):
            if table.fits(guards):
                self.tables[number:] = [table, *self.tables[number + 1 :]]
                return _Place(number, table.add(guards), len(guards))
        return None

    def _possible(self, kinds: Iterable[Logic]) -> list[list[int]]:
        """Of each guard, the kinds of events for which it can hold."""
        digits, left = {}, np.arange(self._kinds)
        for slot in reversed(self._selecting):
            left, digits[slot] = np.divmod(left, self._columns[slot].classes)
        return [
            np.flatnonzero(
                evaluate(kind, lambda test: self.truths(test)[digits[test.slot]], self._kinds) == TRUE
            ).tolist()
            for kind in kinds
        ]

    def truths(self, test: ColumnTest) -> Truths:
        """What a test says of each class of its slot."""
        if test not in self._truths:
            column = self._columns[test.slot]
            self._truths[test] = np.array([code(column.truth(test.index, k)) for k in range(column.classes)], np.int8)
        return self._truths[test]

    def classes(self, slot: int) -> int:
        """How many classes a slot has."""
        return self._columns[slot].classes

    def look(self, batch: pa.RecordBatch, streams: int | Array) -> list[Looked]:
        """The rows that concern the queries, table by table. Queries ask for the same batch one after another."""
        if self._last is None or self._last[0] is not batch:
            read = (batch, streams) if self._view is None else self._view(batch)
            self._last = batch, self._look(*read)
        return self._last[1]

    def forget(self) -> None:
        """Let go of the last batch."""
        self._last = None

    def concerned(self, batch: pa.RecordBatch, streams: int | Array) -> Array:
        """The rows that concern some query whose guards are here."""
        looked = self.look(batch, streams)
        if len(looked) == 1:
            return looked[0].rows
        concerned = np.zeros(batch.num_rows, np.bool_)
        for one in looked:
            concerned[one.rows] = True
        return np.flatnonzero(concerned)

    def _look(self, batch: pa.RecordBatch, streams: int | Array) -> list[Looked]:
        kinds: Array = np.zeros(batch.num_rows, np.int32)
        for slot in self._selecting:
            self._columns[slot].add(kinds, batch, streams)
        if not self.tables:
            return []
        concerned = np.logical_or.reduce([table.concerned for table in self.tables])
        rows = np.flatnonzero(concerned[kinds])
        kinds = kinds[rows]
        digits: dict[int, Array] = {}
        found = []
        for table in self.tables:
            table.prepare()
            here = np.flatnonzero(table.concerned[kinds])
            codes = table.base[kinds[here]]
            for slot, weights in table.weights.items():
                if slot not in digits:
                    digits[slot] = self._classes_at(slot, batch, streams, rows)
                kernels.add_digits(codes, here, kinds, digits[slot], weights)
            found.append(table.look(rows[here], codes))
        return found

    def _classes_at(self, slot: int, batch: pa.RecordBatch, streams: int | Array, rows: Array) -> Array:
        """The class of a slot at these rows."""
        column = self._columns[slot]
        index = batch.schema.get_field_index(column.attribute) if isinstance(column, AttributeColumn) else -1
        if index < 0 or 2 * len(rows) > batch.num_rows:
            classes: Array = np.zeros(batch.num_rows, np.int32)
            column.add(classes, batch, streams)
            return classes[rows]
        values = batch.column(index).take(pa.array(rows))  # fewer rows are classified faster, by more than this costs
        classes = np.zeros(len(rows), np.int32)
        column.add(classes, pa.RecordBatch.from_arrays([values], names=[batch.schema.names[index]]), 0)
        return classes


class _Guard(NamedTuple):
    """A guard: the kinds of events for which it can hold, what it asks besides, and of which slots."""

    kinds: list[int]
    rest: Logic
    slots: frozenset[int]


class _Place(NamedTuple):
    """Where a query's guards are: in which table, and which of its guards."""

    table: int
    first: int
    guards: int


class _Met(NamedTuple):
    """The sets of guards that have occurred: the number of each, and the guards in it. Nothing in it changes, so that
    an exception in the middle of a batch leaves it whole."""

    numbers: dict[bytes, int]
    holds: Array


class _Table:
    """Some queries, and the sets of their guards that have occurred. Set 0 is the empty one."""

    def __init__(self, shared: SharedGuards, kinds: int) -> None:
        self._shared = shared
        self._slots: list[frozenset[int]] = [frozenset()] * kinds  # that matter, of each kind of event
        self._guards: list[list[int]] = [[] for _ in range(kinds)]  # that can hold
        self._rest: list[Logic] = []  # of each guard
        self.concerned: Array = np.zeros(kinds, np.bool_)
        self.base: Array = np.zeros(kinds, np.int32)
        self.weights: dict[int, Array] = {}
        self._sets: Array | None = None  # of each code; -1: not met yet
        self._met = _Met({}, np.zeros((1, 0), np.bool_))

    @property
    def holds(self) -> Array:
        """Which guards are in each set that has occurred."""
        return self._met.holds

    # --- queries ---

    def _with(self, guards: list[_Guard]) -> dict[int, frozenset[int]]:
        """The slots that matter to the kinds of events that these guards can hold for."""
        changed: dict[int, frozenset[int]] = {}
        for guard in guards:
            for kind in guard.kinds:
                changed[kind] = changed.get(kind, self._slots[kind]) | guard.slots
        return changed

    def fits(self, guards: list[_Guard]) -> bool:
        """Whether there are few enough codes with a query of these guards."""
        changed = self._with(guards)
        concerned = {*np.flatnonzero(self.concerned).tolist(), *changed}
        return sum(self._size(changed.get(kind, self._slots[kind])) for kind in concerned) <= DENSE

    def _size(self, slots: frozenset[int]) -> int:
        size = 1
        for slot in slots:
            size *= self._shared.classes(slot)
        return size

    def add(self, guards: list[_Guard]) -> int:
        """Take a query in; the number of its first guard."""
        first = len(self._rest)
        for kind, slots in self._with(guards).items():
            self._slots[kind] = slots
            self.concerned[kind] = True
        for number, guard in enumerate(guards, first):
            for kind in guard.kinds:
                self._guards[kind].append(number)
            self._rest.append(guard.rest)
        return first

    # --- batches ---

    def prepare(self) -> None:
        """Give each kind of event its codes, once all queries are here."""
        if self._sets is not None:
            return
        size = 0
        for kind in np.flatnonzero(self.concerned).tolist():
            self.base[kind] = size
            weight = 1
            for slot in sorted(self._slots[kind]):
                weights = self.weights.setdefault(slot, np.zeros(len(self.base), np.int32))
                weights[kind] = weight
                weight *= self._shared.classes(slot)
            size += weight
        empty = np.zeros((1, len(self._rest)), np.bool_)
        self._met = _Met({np.packbits(empty[0]).tobytes(): 0}, empty)
        self._sets = np.full(size, -1, np.int32)

    def look(self, rows: Array, codes: Array) -> Looked:
        """The sets of the rows with these codes; those of the empty set are left out."""
        assert self._sets is not None
        sets: Array = np.empty(len(codes), np.int32)
        kept: Array = np.empty(len(codes), np.int64)
        count, missing = kernels.to_relevant(codes, self._sets, sets, kept)
        if missing:
            for kind, unknown in self._by_kind(np.unique(codes[kept[:count][sets[:count] < 0]])):
                self._sets[unknown] = self._learn(kind, unknown - self.base[kind])
            count, _ = kernels.to_relevant(codes, self._sets, sets, kept)
        found = sets[:count]
        return Looked(rows[kept[:count]], found, np.flatnonzero(np.bincount(found, minlength=1)))

    def _by_kind(self, codes: Array) -> Iterable[tuple[int, Array]]:
        """Ascending codes by the kind of event that has them."""
        kinds = np.flatnonzero(self.concerned)
        cuts = np.searchsorted(codes, [*self.base[kinds].tolist(), 1 << 31])
        for k, kind in enumerate(kinds.tolist()):
            if cuts[k] < cuts[k + 1]:
                yield kind, codes[cuts[k] : cuts[k + 1]]

    def _learn(self, kind: int, codes: Array) -> Array:
        """The sets of codes of a kind of event, counted from its first."""
        digits = {}
        for slot in sorted(self._slots[kind]):
            codes, digits[slot] = np.divmod(codes, self._shared.classes(slot))
        holds: Array = np.zeros((len(codes), len(self._rest)), np.bool_)
        for guard in self._guards[kind]:
            truths = evaluate(self._rest[guard], lambda test: self._shared.truths(test)[digits[test.slot]], len(codes))
            holds[:, guard] = truths == TRUE
        distinct, first, inverse = _distinct(np.packbits(holds, axis=1))
        known, met = len(self._met.numbers), self._met.numbers.copy()
        numbers = [met.setdefault(one.tobytes(), len(met)) for one in distinct]
        fresh = [row for row, number in zip(first.tolist(), numbers, strict=True) if number >= known]
        self._met = _Met(met, np.concatenate([self.holds, holds[fresh]]))
        return np.array(numbers, np.int32)[inverse]


class SymbolReader:
    """The symbols of one query, read from the sets of guards that all queries share."""

    def __init__(self, shared: SharedGuards, place: _Place, table: SymbolTable) -> None:
        self._shared = shared
        self._place = place
        self._table = table
        self._symbols: Array = np.zeros(1, np.int32)  # of each set; the empty set has symbol 0

    def concerns(self, batch: pa.RecordBatch, streams: int | Array) -> bool:
        """Whether some guard of the query holds for an event of the batch."""
        looked = self._shared.look(batch, streams)[self._place.table]
        return bool(self._known()[looked.present].any())

    def symbols(self, batch: pa.RecordBatch, streams: int | Array) -> Array:
        """The symbol of every row, as int32."""
        looked = self._shared.look(batch, streams)[self._place.table]
        result: Array = np.zeros(batch.num_rows, np.int32)
        result[looked.rows] = self._known()[looked.sets]
        return result

    def relevant(self, batch: pa.RecordBatch, streams: int | Array) -> tuple[Array, Array]:
        """The rows whose symbol is not 0, and their symbols."""
        looked = self._shared.look(batch, streams)[self._place.table]
        known = self._known()
        if not known[looked.present].any():
            return _NONE, np.zeros(0, np.int32)
        symbols: Array = np.empty(len(looked.sets), np.int32)
        rows: Array = np.empty(len(looked.sets), np.int64)
        count, _ = kernels.to_relevant(looked.sets, known, symbols, rows)
        return looked.rows[rows[:count]], symbols[:count]

    def _known(self) -> Array:
        """The symbol of each set, with those that are new."""
        _, first, guards = self._place
        holds = self._shared.tables[self._place.table].holds
        if len(self._symbols) < len(holds):
            fresh = holds[len(self._symbols) :, first : first + guards]
            distinct, _, inverse = _distinct(np.packbits(fresh, axis=1, bitorder="little"))
            numbers = [self._table.number(int.from_bytes(row.tobytes(), "little")) for row in distinct]
            self._symbols = np.concatenate([self._symbols, np.array(numbers, np.int32)[inverse]])
        return self._symbols


def _distinct(rows: Array) -> tuple[Array, Array, Array]:
    """The distinct rows of bytes, the first place of each, and which of them each row is."""
    if rows.shape[1] <= 8:  # as numbers they are compared faster
        words = np.zeros((len(rows), 8), np.uint8)
        words[:, : rows.shape[1]] = rows
        _, first, inverse = np.unique(words.view(np.uint64).reshape(-1), return_index=True, return_inverse=True)
    else:
        whole = np.ascontiguousarray(rows).view(np.dtype((np.void, rows.shape[1]))).reshape(-1)
        _, first, inverse = np.unique(whole, return_index=True, return_inverse=True)
    return rows[first], first, inverse.reshape(-1)


def _slots(logic: Logic) -> frozenset[int]:
    """The slots that a formula asks."""
    match logic:
        case ColumnTest(slot):
            return frozenset([slot])
        case Not(item):
            return _slots(item)
        case AllOf(items) | AnyOf(items):
            return frozenset().union(*map(_slots, items))
        case _:
            return frozenset()
