"""Aggregates over all matches: what is added up of a batch of matches, by groups.

In: what `aggregate` was asked for, and a bound plan. Out: a table with a row for each group. A group has the matches
with the same keys (`by`) that end in the same stretch of time (`every`).

Here the matches are enumerated, and each batch adds its part to the totals, so that what is held depends on the groups
alone. `recognition.graph_totals` does without enumerating them, where the query allows it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ceql.errors import ArgumentError, DataError, SchemaError, did_you_mean
from ceql.io.sort_keys import decimal_words, decode, encode, ticks
from ceql.jit import Array
from ceql.predicates.exact_decimals import EXACT
from ceql.recognition.bound_plan import BoundPlan
from ceql.recognition.checks import numbered
from ceql.recognition.decimals import joined, pieces
from ceql.recognition.folds import Folds
from ceql.recognition.options import duration
from ceql.recognition.result_columns import as_lists, true_name, variable_fields
from ceql.recognition.totals import Slot, Totals, codes, is_coded, to_code
from ceql.recognition.totals_table import BUCKET, Every, Layout, Request, slots_of
from ceql.recognition.value_totals import counts, moments
from ceql.syntax import tree as t

Take = Callable[[Array], pa.RecordBatch]
"""The attributes of the events at these ascending positions."""


class Aggregation:
    """A request over the events of a bound plan. An open schema may grow: see `over`."""

    def __init__(self, request: Request, bound: BoundPlan) -> None:
        self.request = request
        self.bound = bound
        self.totals = Totals(request.slots)
        self.begin = 0
        """Matches that end before this position are another's to add up."""
        self._check_keys()
        self.width = _width(request.every, bound) if request.every is not None else None
        self.over(bound.schema)

    def over(self, schema: pa.Schema) -> None:
        """Read columns of this schema from now on."""
        self._schema = schema
        events, bound = self.bound.with_unit(schema), self.bound
        self._folds: dict[Slot, Folds] = {}
        self.types: dict[str, pa.DataType] = {}
        for summary in self.request.summaries:
            folds = Folds(events, bound.open_schema, bound.time, summary.text)
            aggregate = summary.aggregate
            counts = aggregate.variable == t.EVERY_MATCH
            self.types[summary.name] = pa.int64() if counts else folds.type_of(aggregate)
            for slot in slots_of(aggregate):
                self._folds[slot] = folds
        extremes = [self.type_of(s) if s.function in ("MIN", "MAX") else None for s in self.request.slots]
        self.totals.use_types(extremes)

    def type_of(self, slot: Slot) -> pa.DataType:
        """The type of what is added up in a slot."""
        functions = {"VALUES": "MIN", "MOMENTS": "STDDEV"}  # which take values of the same types
        return self._folds[slot].type_of(t.Aggregate(functions.get(slot.function, slot.function), *slot[1:]))

    def operand_type(self, slot: Slot) -> pa.DataType:
        """The type of what a slot is over."""
        return self._folds[slot].type_of(t.Aggregate("FIRST", *slot[1:]))

    def values(self, slot: Slot, data: pa.RecordBatch) -> pa.Array:
        """What a slot reads of these events."""
        assert slot.operand is not None
        return self._folds[slot].values(slot.operand, data)

    def _check_keys(self) -> None:
        shown = [name for name, _ in self.bound.keys[: len(self.bound.plan.shown_keys)]]
        for name in self.request.by:
            if name not in shown:
                keys = ", ".join(shown) or "none, since the query has no PARTITION BY clause with attributes"
                hint = did_you_mean(name, shown) or f"The keys of PARTITION BY are: {keys}."
                raise SchemaError(f"by= names '{name}', which is no key of PARTITION BY", suggestion=hint)

    def read(self, schema: pa.Schema) -> None:
        """Read the columns that the events have come to have."""
        if self.bound.open_schema and schema is not self._schema:
            self.over(schema)

    # --- batches of matches ---

    def add(self, matches: pa.RecordBatch, take: Take) -> None:
        """Add the matches of a batch, which has the positions of each variable."""
        if self.begin:
            matches = matches.filter(pc.greater_equal(matches.column("end"), self.begin))
        if not matches.num_rows:
            return
        keys, group = self._groups(matches)
        counts = np.bincount(group, minlength=len(keys)).tolist()
        lists = {true_name(field): as_lists(matches.column(field.name)) for field in variable_fields(matches.schema)}
        wanted = sorted({slot.variable for slot in self.request.slots})
        for name in wanted:
            if name not in lists:
                raise DataError(f"the events of '{name}' were not kept; call aggregate() before you feed again")
        entries = {name: np.asarray(lists[name].flatten()) for name in wanted}
        owners = {name: np.repeat(group, np.asarray(lists[name].value_lengths()).astype(np.int64)) for name in wanted}
        data, rows = None, entries
        if any(slot.operand is not None for slot in self.request.slots):
            positions, found = numbered(*entries.values())
            data = take(positions) if len(positions) else None
            rows = dict(zip(entries, found, strict=True))
        columns = [
            self._added(slot, rows[slot.variable], owners[slot.variable], data, len(keys))
            for slot in self.request.slots
        ]
        self.totals.add(keys, counts, columns)

    def _added(self, slot: Slot, row: Array, group: Array, data: pa.RecordBatch | None, groups: int) -> list[Any]:
        """What the entries of a batch (rows of `data`) add to each group."""
        if slot.operand is None:
            return list(np.bincount(group, minlength=groups).tolist())
        if data is None:
            return [0 if slot.function == "COUNT" else None] * groups
        values = self.values(slot, data)
        if values.null_count:
            valid = values.is_valid().to_numpy(zero_copy_only=False)[row]
            row, group = row[valid], group[valid]
        if slot.function == "VALUES":
            return list(counts(values, row, group, groups))
        if slot.function == "MOMENTS":
            return list(moments(values, row, group, groups))
        known = np.bincount(group, minlength=groups)
        if slot.function == "COUNT":
            return list(known.tolist())
        if slot.function == "SUM":
            found = _sums(values, row, group, groups)
            return [value if count else None for value, count in zip(found, known.tolist(), strict=True)]
        if not len(row):
            return [None] * groups
        return self._extremes(slot, values, row, group, groups)

    def _extremes(self, slot: Slot, values: pa.Array, row: Array, group: Array, groups: int) -> list[Any]:
        type = self.type_of(slot)
        coded = is_coded(type)
        order = codes(values) if coded else _ranks(values)
        limits = np.iinfo(np.int64)
        best = np.full(groups, limits.max if slot.function == "MIN" else limits.min, np.int64)
        (np.minimum if slot.function == "MIN" else np.maximum).at(best, group, order[row])
        some = np.bincount(group, minlength=groups) > 0
        if coded:
            return [value if is_there else None for value, is_there in zip(best.tolist(), some.tolist(), strict=True)]
        place = np.zeros(int(order.max()) + 1, np.int64)
        place[order] = np.arange(len(order))
        chosen = values.take(pa.array(place[np.where(some, best, 0)], mask=~some))
        return to_code(chosen, type)

    # --- groups ---

    def _groups(self, matches: pa.RecordBatch) -> tuple[list[tuple[Any, ...]], Array]:
        """The keys of the groups of these matches, and the number of each match's group."""
        columns = [hashable(self._key_column(matches, name)) for name in self.request.by]
        if self.width is not None:
            columns.append(self.buckets(encode(matches.column("end_time"), "end_time")))
        return grouped(columns, matches.num_rows)

    def _key_column(self, matches: pa.RecordBatch, name: str) -> pa.Array:
        before = matches.schema.get_field_index("events")
        at = [k for k in range(before) if true_name(matches.schema.field(k)) == name]
        return matches.column(at[-1])

    def buckets(self, keys: Array) -> Array:
        """The sort keys of where the stretches of time begin in which these times are."""
        type, width = self.bound.time_type, self.width
        assert type is not None
        assert width is not None
        if pa.types.is_floating(type):
            plain = np.asarray(decode(keys, pa.float64()))
            return encode(pa.array(np.floor(plain / float(width)) * float(width)), BUCKET)
        if type == pa.uint64():
            plain = np.asarray(decode(keys, type))
            return encode(pa.array(plain // np.uint64(width) * np.uint64(width)), BUCKET)
        return keys // int(width) * int(width)

    # --- the result ---

    @property
    def layout(self) -> Layout:
        """The table's columns, as far as they are known."""
        keys = dict(self.bound.keys)
        return Layout(
            self.request,
            tuple(keys[name] for name in self.request.by),
            None if self.width is None else self.bound.time_type,
            tuple(self.types[summary.name] for summary in self.request.summaries),
        )

    def table(self) -> pa.Table:
        """The totals as a table, in order of keys and time."""
        return self.layout.table(self.totals)


def grouped(columns: Sequence[Array | pa.Array], rows: int) -> tuple[list[tuple[Any, ...]], Array]:
    """The combinations of values in the rows of these columns, and the number of each row's own.

    >>> grouped([pa.array(["b", "a", "b"]), np.array([1, 1, 2])], 3)[0]
    [('b', 1), ('b', 2), ('a', 1)]
    """
    group: Array = np.zeros(rows, np.int64)
    values: list[list[Any]] = []
    for column in columns:
        if isinstance(column, np.ndarray):
            known, code = np.unique(column, return_inverse=True)
            values.append(known.tolist())
        else:
            encoded = pc.dictionary_encode(column)
            values.append(encoded.dictionary.to_pylist())
            code = encoded.indices.to_numpy()
        group = group * max(1, len(values[-1])) + code
    used, inverse = np.unique(group, return_inverse=True)
    keys = []
    for number in used.tolist():
        key = []
        for known in reversed(values):
            number, k = divmod(number, max(1, len(known)))
            key.append(known[k])
        keys.append(tuple(reversed(key)))
    return keys, inverse


def hashable(column: pa.Array) -> Array | pa.Array:
    """A column of keys: its sort keys if it has times, so that Python compares them."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return encode(column, "") if pa.types.is_temporal(column.type) else column


def _ranks(values: pa.Array) -> Array:
    return np.asarray(pc.rank(values, sort_keys="ascending", tiebreaker="dense")).astype(np.int64)


def _sums(values: pa.Array, row: Array, group: Array, groups: int) -> list[Any]:
    """The sums of each group: exact for whole numbers, whose halves are added up apart so that nothing overflows."""
    if pa.types.is_decimal(values.type):
        totals = [np.zeros(groups, np.int64) for _ in range(values.type.bit_width // 32)]
        for piece, to in zip(pieces(values), totals, strict=True):
            np.add.at(to, group, piece[row])
        return [decimal_of(number, values.type) for number in joined(totals).tolist()]
    if not pa.types.is_integer(values.type):
        plain = values.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False)
        return list(np.bincount(group, plain[row], groups).tolist())
    numbers = wholes(values)
    found = [0] * groups
    for part, shift in ((numbers & 0xFFFFFFFF, 0), (numbers >> 32, 32)):
        total = np.zeros(groups, np.int64)
        np.add.at(total, group, part[row])
        found = [a + (b << shift) for a, b in zip(found, total.tolist(), strict=True)]
    return found


def decimal_of(number: int, type: pa.DataType) -> Decimal:
    """The decimal with this unscaled number."""
    return EXACT.scaleb(Decimal(number), -type.scale)


def wholes(values: pa.Array) -> Array:
    """Whole numbers as int64, 0 for NULL; of decimals the unscaled ones."""
    if pa.types.is_decimal(values.type):
        return decimal_words(values)[0]
    try:
        return np.asarray(values.cast(pa.int64()).fill_null(0))
    except pa.ArrowInvalid as error:
        raise DataError("SUM and AVG take whole numbers up to 2^63 - 1, and a value is greater") from error


def _width(every: Every, bound: BoundPlan) -> Fraction:
    """The length of a stretch of time, in units of the time column."""
    type = bound.time_type
    if type is None:
        raise SchemaError("every= needs a time column, and there is none")
    nanoseconds: int | None = None
    match every:
        case str():
            try:
                nanoseconds = duration(every)
            except ValueError as error:
                raise ArgumentError(f"every: {error}") from error
        case timedelta():
            nanoseconds = (every // timedelta(microseconds=1)) * 1000
        case bool():
            raise ArgumentError(f"every= is a duration such as '1 minute', a timedelta or a number, not {every!r}")
        case int() | float() if not pa.types.is_temporal(type):
            pass
        case int() | float():
            raise ArgumentError(f"times are {type}: give every= as text ('1 minute') or as a timedelta")
        case _:
            raise ArgumentError(f"every= is a duration such as '1 minute', a timedelta or a number, not {every!r}")
    if nanoseconds is not None:
        width = ticks(nanoseconds, type, bound.options.time_unit)
    else:
        assert isinstance(every, int | float)
        width = Fraction(every)
    if width is None:
        raise SchemaError(f"times are plain numbers ({type}): say their unit with time_unit='s', 'ms', 'us' or 'ns'")
    if pa.types.is_decimal(type):
        width *= 10**type.scale
    if width <= 0:
        raise ArgumentError(f"every= must be longer than 0 seconds, not {every!r}")
    if not pa.types.is_floating(type) and width.denominator != 1:
        raise ArgumentError(f"every={every!r} is no whole number of the units of times, which are {type}")
    return width
