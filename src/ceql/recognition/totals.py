"""Totals over all matches, by groups: what `aggregate` adds up, and the table that it becomes.

A *slot* is one thing that is added up: the events of a variable, a sum of values, a least or a greatest value. Partial
totals come from batches of matches or from passes over the graph, in any order and any number; both give the same.
Whole numbers are Python's and so exact. Least and greatest values are sort keys (`io.sort_keys`) where their type has
some, and Python's objects otherwise.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from ceql.errors import DataError
from ceql.io.sort_keys import decode, encode
from ceql.jit import Array
from ceql.predicates.exact_decimals import EXACT
from ceql.recognition.value_totals import added
from ceql.syntax import tree as t

Key = tuple[Hashable, ...]
_INT64 = 1 << 63


class Slot(NamedTuple):
    """COUNT, SUM, MIN, MAX, VALUES or MOMENTS over the events of a variable; COUNT without an operand counts them all.

    The last two are of `value_totals`. Sums of decimals are Python's.
    """

    function: str
    variable: str
    operand: t.Expression | None = None


@dataclass
class Totals:
    """The totals of each group: how many matches it has, and for each slot its number or None."""

    slots: tuple[Slot, ...]
    counts: dict[Key, int] = field(default_factory=dict)
    values: dict[Key, list[Any]] = field(default_factory=dict)
    types: list[pa.DataType | None] = field(default_factory=list)
    """Of the least and greatest values, which dicts may widen on the way."""

    def add(self, keys: Iterable[Key], counts: Iterable[int], columns: Sequence[Iterable[Any]]) -> None:
        """Add partial totals of some groups: a number or None for each slot and group."""
        for key, count, *values in zip(keys, counts, *columns, strict=True):
            if key not in self.counts:
                self.counts[key] = count
                self.values[key] = values
                continue
            self.counts[key] += count
            known = self.values[key]
            for k, (slot, value) in enumerate(zip(self.slots, values, strict=True)):
                if value is not None:
                    known[k] = value if known[k] is None else _joined(slot, known[k], value)

    def use_types(self, types: Sequence[pa.DataType | None]) -> None:
        """Say of which types the least and greatest values that follow are; those before are made alike."""
        for k, (old, new) in enumerate(zip(self.types, types, strict=False)):
            if old is not None and new is not None and old != new and not pa.types.is_null(old):
                for values in self.values.values():
                    if values[k] is not None:
                        values[k] = to_code(from_codes([values[k]], old).cast(new), new)[0]
        self.types = list(types)


def _joined(slot: Slot, one: Any, other: Any) -> Any:
    match slot.function:
        case "MIN":
            return min(one, other)
        case "MAX":
            return max(one, other)
        case "VALUES":
            return added(one, other)
        case "MOMENTS":
            return one.with_others(other)
    if isinstance(one, float) or isinstance(other, float):
        return float(one) + float(other)  # dicts may have floats after decimals
    return EXACT.add(one, other) if isinstance(one, Decimal) or isinstance(other, Decimal) else one + other


# --- least and greatest values, and keys ---


def is_coded(type: pa.DataType) -> bool:
    """Whether values of this type compare as sort keys do."""
    return bool(pa.types.is_integer(type) or pa.types.is_floating(type) or pa.types.is_temporal(type))


def codes(values: pa.Array) -> Array:
    """The sort keys of values; those of NULL are unspecified."""
    if pa.types.is_floating(values.type):
        plain = values.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False)
        values = pa.array(np.where(np.isnan(plain), np.nan, plain))  # one NaN, the greatest number
    return np.asarray(encode(values, ""))


def to_code(values: pa.Array, type: pa.DataType) -> list[Any]:
    """The values as they are kept: sort keys, or objects."""
    if not is_coded(type):
        return list(values.to_pylist())
    numbers: list[Any] = codes(values).tolist()
    if values.null_count:
        for k in np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False)).tolist():
            numbers[k] = None
    return numbers


def from_codes(kept: Sequence[Any], type: pa.DataType) -> pa.Array:
    """The values that `to_code` has made these of."""
    if not is_coded(type):
        return pa.array(kept, type)
    missing = np.array([value is None for value in kept], np.bool_)
    numbers = np.array([0 if value is None else value for value in kept], np.int64)
    found = decode(numbers, type)
    return pa.array([None] * len(kept), type) if missing.all() else _masked(found, missing)


def _masked(values: pa.Array, missing: Array) -> pa.Array:
    rows = pa.array(np.arange(len(values)), mask=missing) if missing.any() else None
    return values if rows is None else values.take(rows)


# --- columns of whole numbers of any size ---


def whole_numbers(values: Sequence[int | None], type: pa.DataType | None = None) -> pa.Array:
    """A column of whole numbers: int64 if all of them fit, else decimal128(38, 0), decimal256(76, 0), else text.

    With a `type`, a `DataError` if they do not fit it.

    >>> whole_numbers([2**63 - 1]).type, whole_numbers([2**63]).type, whole_numbers([10**76]).type
    (DataType(int64), Decimal128Type(decimal128(38, 0)), DataType(string))
    """
    most = max((abs(value) for value in values if value is not None), default=0)
    fits = [
        (pa.int64(), _INT64 - 1),
        (pa.decimal128(38, 0), 10**38 - 1),
        (pa.decimal256(76, 0), 10**76 - 1),
    ]
    for able, largest in fits:
        if most <= largest and type in (None, able):
            return pa.array(values, able)
    if type is not None:
        raise DataError(f"a total of {most:,} does not fit {type}")
    return pa.array([None if value is None else str(value) for value in values], pa.string())
