"""The table that totals become: what was asked for, its columns and their types.

All of it is plain data. On Spark, the totals of a task become a batch of partial totals, which another task adds up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from ceql.analysis.aggregates import Summary
from ceql.errors import ArgumentError
from ceql.io.sort_keys import decode, encode
from ceql.recognition.decimals import divided, to_decimals
from ceql.recognition.folds import share_of
from ceql.recognition.totals import Slot, Totals, from_codes, to_code, whole_numbers
from ceql.recognition.value_totals import counts_of, moments_of, percentile, to_text, unscaled
from ceql.syntax import tree as t

Every = str | int | float | timedelta | None
BUCKET = "bucket"
"""The column of `every`: where the stretch of time begins."""
_MATCHES = "matches"


@dataclass(frozen=True)
class Request:
    """What `aggregate` was asked for."""

    summaries: tuple[Summary, ...]
    by: tuple[str, ...] = ()
    every: Every = None

    def __post_init__(self) -> None:
        names = [*self.by, *([BUCKET] if self.every is not None else []), *(s.name for s in self.summaries)]
        for name in names:
            if names.count(name) > 1:
                raise ArgumentError(f"two columns would be called '{name}'; call the aggregate otherwise")

    @cached_property
    def attributes(self) -> tuple[str, ...]:
        """The attributes of the events that are read."""
        return tuple(sorted(frozenset[str]().union(*(summary.attributes for summary in self.summaries))))

    @cached_property
    def slots(self) -> tuple[Slot, ...]:
        """What is added up for all columns together."""
        found: dict[Slot, None] = {}
        for summary in self.summaries:
            found |= dict.fromkeys(slots_of(summary.aggregate))
        return tuple(found)


def slots_of(aggregate: t.Aggregate) -> list[Slot]:
    """What is added up for an aggregate; COUNT(*) needs nothing but the number of matches."""
    function, variable, operand = aggregate.function, aggregate.variable, aggregate.operand
    if variable == t.EVERY_MATCH:
        return []
    if aggregate.distinct or function in ("MEDIAN", "PERCENTILE"):
        return [Slot("VALUES", variable, operand)]
    if function in ("VARIANCE", "STDDEV"):
        return [Slot("MOMENTS", variable, operand)]
    if function == "COUNT" or operand is None:
        return [Slot("COUNT", variable, operand)]
    return [Slot(function if function != "AVG" else "SUM", variable, operand), Slot("COUNT", variable, operand)]


@dataclass(frozen=True)
class Layout:
    """The columns of the table."""

    request: Request
    keys: tuple[pa.DataType, ...]
    time: pa.DataType | None
    """The type of the bucket, where there is one."""
    types: tuple[pa.DataType, ...]
    """Of the aggregates; int64 stands for whole numbers of any size."""

    @property
    def groups(self) -> list[tuple[str, pa.DataType]]:
        """The columns that tell groups apart."""
        bucket = [] if self.time is None else [(BUCKET, self.time)]
        return [*zip(self.request.by, self.keys, strict=True), *bucket]

    def table(self, totals: Totals, whole: pa.DataType | None = None) -> pa.Table:
        """The totals in order of keys and time. `whole` is the type of whole numbers, if it is settled."""
        keys, counts, rows = self._rows(totals)
        arrays = self._group_arrays(keys)
        for summary, type in zip(self.request.summaries, self.types, strict=True):
            arrays.append(self._column(summary, type, counts, rows, whole))
        names = [name for name, _ in self.groups]
        table = pa.table(arrays, [*names, *(summary.name for summary in self.request.summaries)])
        return table.sort_by([(name, "ascending") for name in names]) if names else table

    def _rows(self, totals: Totals) -> tuple[list[tuple[Any, ...]], list[int], list[list[Any]]]:
        keys = list(totals.counts)
        if not keys and not self.groups:
            keys = [()]
        nothing = [0 if slot.function == "COUNT" else None for slot in self.request.slots]
        return keys, [totals.counts.get(key, 0) for key in keys], [totals.values.get(key, nothing) for key in keys]

    def _group_arrays(self, keys: list[tuple[Any, ...]]) -> list[pa.Array]:
        found = []
        for k, (_, type) in enumerate(self.groups):
            values = [key[k] for key in keys]
            coded = pa.types.is_temporal(type) or k == len(self.keys)
            found.append(decode(np.array(values, np.int64), type) if coded else pa.array(values, type))
        return found

    def _column(
        self, summary: Summary, type: pa.DataType, counts: list[int], rows: list[list[Any]], whole: pa.DataType | None
    ) -> pa.Array:
        slots = [self.request.slots.index(slot) for slot in slots_of(summary.aggregate)]
        if not slots:
            return whole_numbers(counts, whole)
        found = [row[slots[0]] for row in rows]
        aggregate, function = summary.aggregate, summary.aggregate.function
        if function == "COUNT":
            return whole_numbers([len(one or ()) for one in found] if aggregate.distinct else found, whole)
        if function in ("MIN", "MAX"):
            return from_codes(found, type)
        if function == "SUM" and pa.types.is_integer(type):
            return whole_numbers(found, whole)
        if function == "AVG":
            found = [_mean(*pair, type) for pair in zip(found, (row[slots[1]] for row in rows), strict=True)]
        elif function in ("MEDIAN", "PERCENTILE"):
            found = [one and percentile(one, share_of(aggregate), type) for one in found]
        elif function != "SUM":
            found = [one and one.variance for one in found]
            found = found if function == "VARIANCE" else [one if one is None else math.sqrt(one) for one in found]
        elif pa.types.is_decimal(type):
            found = [one if one is None else unscaled(one, type) for one in found]
        return to_decimals(found, type, summary.text) if pa.types.is_decimal(type) else pa.array(_floats(found), type)

    # --- partial totals ---

    def slot_types(self) -> list[pa.DataType]:
        """The types of slots in a batch of partial totals; what adds up is text, which holds it all."""
        types: dict[Slot, pa.DataType] = {}
        for summary, type in zip(self.request.summaries, self.types, strict=True):
            for slot in slots_of(summary.aggregate):
                types[slot] = type if slot.function in ("MIN", "MAX") else pa.string()
        return [types[slot] for slot in self.request.slots]

    @property
    def partial_schema(self) -> pa.Schema:
        """The columns of a batch of partial totals."""
        slots = [(f"slot{k}", type) for k, type in enumerate(self.slot_types())]
        return pa.schema([*self.groups, (_MATCHES, pa.string()), *slots])

    def partial(self, totals: Totals) -> pa.RecordBatch:
        """The totals as a batch that `add_partial` takes."""
        keys, counts, rows = self._rows(totals)
        arrays = [*self._group_arrays(keys), pa.array(map(str, counts), pa.string())]
        for k, (slot, type) in enumerate(zip(self.request.slots, self.slot_types(), strict=True)):
            values = [row[k] for row in rows]
            if slot.function in ("MIN", "MAX"):
                arrays.append(from_codes(values, type))
            else:
                arrays.append(pa.array([None if value is None else _text(slot, value) for value in values], type))
        return pa.RecordBatch.from_arrays(arrays, schema=self.partial_schema)

    def add_partial(self, totals: Totals, batch: pa.RecordBatch) -> None:
        """Add partial totals of another task."""
        batch = pa.RecordBatch.from_arrays(
            [column.cast(field.type) for column, field in zip(batch.columns, self.partial_schema, strict=True)],
            schema=self.partial_schema,
        )
        groups = []
        for k, (name, type) in enumerate(self.groups):
            column = batch.column(name)
            coded = pa.types.is_temporal(type) or k == len(self.keys)
            groups.append(encode(column, name).tolist() if coded else column.to_pylist())
        columns: list[list[Any]] = []
        for k, slot in enumerate(self.request.slots):
            column = batch.column(f"slot{k}")
            if slot.function in ("MIN", "MAX"):
                columns.append(to_code(column, column.type))
            else:
                columns.append([None if text is None else _read(slot, text) for text in column.to_pylist()])
        keys = zip(*groups, strict=True) if groups else [()] * batch.num_rows
        totals.add(keys, map(int, batch.column(_MATCHES).to_pylist()), columns)


def _text(slot: Slot, value: Any) -> str:
    if slot.function in ("VALUES", "MOMENTS"):
        return to_text(value)
    return f"{value}d" if isinstance(value, Decimal) else repr(value)


def _read(slot: Slot, text: str) -> Any:
    """What `_text` has made this of."""
    match slot.function:
        case "VALUES":
            return counts_of(text)
        case "MOMENTS":
            return moments_of(text)
    if text.endswith("d"):
        return Decimal(text[:-1])
    return int(text) if text.lstrip("-").isdecimal() else float(text)


def _floats(values: list[Any]) -> list[float | None]:
    return [None if value is None else float(value) for value in values]


def _mean(total: Any, count: int, type: pa.DataType) -> float | int | None:
    """The mean; of decimals its unscaled number."""
    if total is None or not count:
        return None
    if pa.types.is_decimal(type):
        return int(divided(np.array([unscaled(total, type)], object), count, 0)[0])
    try:
        return float(total / count)
    except OverflowError:  # more pairs than the greatest float
        return float(Fraction(total, count)) if isinstance(total, int) else math.nan
