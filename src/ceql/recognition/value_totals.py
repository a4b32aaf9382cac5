"""Totals that need more than a number of each group: how often each value came, and how far values are spread.

COUNT(DISTINCT), MEDIAN and PERCENTILE are made of the values of a group with their counts, which take memory for each
different value. VARIANCE and STDDEV are made of the count, the mean and the sum of squared deviations from it; two of
these give those of both groups together without loss of digits.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from ceql.io.sort_keys import encode, ticks
from ceql.jit import Array
from ceql.recognition import decimals
from ceql.recognition.lists import numbers_of_values

Counts = dict[Any, int]
"""The number of times that each value came."""


class Moments(NamedTuple):
    """The number of values, their mean, and the sum of the squares of their deviations from it."""

    number: int
    mean: float
    squares: float

    def with_others(self, other: Moments) -> Moments:
        """Those of both together."""
        count, apart = self.number + other.number, other.mean - self.mean
        mean = self.mean + apart * (other.number / count)
        squares = self.squares + other.squares + apart * apart * (self.number / count * other.number)
        return Moments(count, mean, squares)

    @property
    def variance(self) -> float | None:
        """Of a sample; None if that is one value."""
        return None if self.number < 2 else self.squares / (self.number - 1)


def moments(values: pa.Array, row: Array, group: Array, groups: int) -> list[Moments | None]:
    """The moments of each group's entries, which are rows of `values`; None where there are none."""
    numbers = values.cast(pa.float64(), safe=False)
    mine = (numbers.fill_null(0) if numbers.null_count else numbers).to_numpy()[row]
    count = np.bincount(group, minlength=groups)
    with np.errstate(invalid="ignore", over="ignore"):
        mean = np.bincount(group, mine, groups) / np.maximum(count, 1)
        squares = np.bincount(group, (mine - mean[group]) ** 2, groups)
    found = zip(count.tolist(), mean.tolist(), squares.tolist(), strict=True)
    return [Moments(*each) if each[0] else None for each in found]


def counts(values: pa.Array, row: Array, group: Array, groups: int) -> list[Counts | None]:
    """How often each value comes in each group's entries; None where there are none."""
    found: list[Counts | None] = [None] * groups
    if not len(row):
        return found
    code, known = numbers_of_values(values)
    names = _plain(known)
    pairs, times = np.unique(group * len(known) + code[row], return_counts=True)
    for pair, count in zip(pairs.tolist(), times.tolist(), strict=True):
        own, value = divmod(pair, len(known))
        here = found[own]
        if here is None:
            here = found[own] = {}
        here[names[value]] = count
    return found


def _plain(values: pa.Array) -> list[Any]:
    """Values that Python compares as they compare, whatever the type of their column; times are nanoseconds."""
    if pa.types.is_temporal(values.type) and not pa.types.is_interval(values.type):
        length = ticks(10**9, values.type, None) if not pa.types.is_date(values.type) else Fraction(1)
        return [Fraction(number) / length if length else number for number in encode(values, "").tolist()]
    return [math.nan if isinstance(value, float) and math.isnan(value) else value for value in values.to_pylist()]


def added(one: Counts, other: Mapping[Any, int]) -> Counts:
    """The counts of both, in place of the first."""
    for value, count in other.items():
        one[value] = one.get(value, 0) + count
    return one


def percentile(values: Counts, share: Fraction, type: pa.DataType) -> float | int:
    """The value that this share of all is not above, by linear interpolation; of decimals the unscaled number."""
    in_order = sorted(values, key=lambda value: (_is_nan(value), value))
    ends = np.cumsum(np.array([values[value] for value in in_order], object))
    place = (ends[-1] - 1) * share
    low, high = (in_order[int(np.searchsorted(ends, at, side="right"))] for at in (math.floor(place), math.ceil(place)))
    part = place - math.floor(place)
    if pa.types.is_decimal(type):
        one, two = (np.array([unscaled(value, type)], object) for value in (low, high))
        return int(decimals.between(one, two, np.ones(1, object), part, 0)[0])
    return float(low) if low == high or not part else float(1 - part) * float(low) + float(part) * float(high)


def unscaled(value: Any, type: pa.DataType) -> int:
    """A number as the unscaled whole number of a type that has its digits."""
    return int(Fraction(value) * 10**type.scale)


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


# --- as text, for another task ---

_READ: dict[str, Any] = {
    "int": int, "float": float, "Decimal": Decimal, "Fraction": Fraction, "str": str,
    "bool": lambda text: text == "True", "bytes": bytes.fromhex,
}  # fmt: skip


def to_text(kept: Moments | Counts) -> str:
    """The totals of a group as JSON.

    >>> to_text({"a": 2, 1.5: 1})
    '[["str", "a", 2], ["float", "1.5", 1]]'
    """
    if isinstance(kept, Moments):
        return json.dumps([repr(number) for number in kept])
    rows: Iterable[list[object]] = (
        [type(value).__name__, value.hex() if isinstance(value, bytes) else str(value), count]
        for value, count in kept.items()
    )
    return json.dumps(list(rows))


def moments_of(text: str) -> Moments:
    """What `to_text` has made this of."""
    count, mean, squares = json.loads(text)
    return Moments(int(count), float(mean), float(squares))


def counts_of(text: str) -> Counts:
    """What `to_text` has made this of."""
    found: Counts = {}
    for kind, value, count in json.loads(text):
        read = _READ[kind](value)
        found[math.nan if _is_nan(read) else read] = count
    return found
