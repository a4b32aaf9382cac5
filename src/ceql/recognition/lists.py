"""Aggregates that need all values of a list at once: different values, spread, percentiles.

In: the values of events, and of each list its rows among them (`row[offsets[k] : offsets[k + 1]]`), none of which is
NULL. Out: an array with an entry for each list. What an empty list has is unspecified, and left to the caller.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ceql.jit import Array
from ceql.recognition import decimals


def numbers_of_values(values: pa.Array) -> tuple[Array, pa.Array]:
    """A number for each value, the same for equal ones, and the values by number. NaN is one value, -0.0 is 0.0."""
    if pa.types.is_floating(values.type):
        values = pc.add(values.cast(pa.float64()), 0.0)
        values = pc.if_else(pc.is_nan(values), float("nan"), values)
    encoded = pc.dictionary_encode(values)
    return encoded.indices.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64), encoded.dictionary


def count_different(values: pa.Array, row: Array, offsets: Array) -> Array:
    """How many different values each list has."""
    code, known = numbers_of_values(values)
    pairs = np.sort(_owners(offsets) * len(known) + code[row])  # quicker than np.unique, which hashes
    new = np.ones(len(pairs), np.bool_)
    new[1:] = pairs[1:] != pairs[:-1]
    return np.bincount(pairs[new] // max(1, len(known)), minlength=len(offsets) - 1)


def variances(numbers: Array, row: Array, offsets: Array) -> Array:
    """The variance of each list as a sample: of the squares of deviations from its mean."""
    counts, owner, mine = np.diff(offsets), _owners(offsets), numbers[row]
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        means = np.bincount(owner, mine, len(counts)) / np.maximum(counts, 1)
        squares: Array = np.bincount(owner, (mine - means[owner]) ** 2, len(counts))
    return np.asarray(squares / np.maximum(counts - 1, 1))


def percentiles(values: pa.Array, row: Array, offsets: Array, share: Fraction, digits: int = 0) -> Array:
    """Of each list, the value that this share of it is not above, by linear interpolation: floats.

    Of decimals, unscaled numbers with so many `digits` more behind the point.
    """
    is_decimal = pa.types.is_decimal(values.type)
    numbers = decimals.unscaled(values) if is_decimal else values.cast(pa.float64(), safe=False).to_numpy(False)
    comparable = values.cast(pa.float32()) if pa.types.is_float16(values.type) else values
    ranks = np.asarray(pc.rank(comparable, tiebreaker="dense")).astype(np.int64)[row]
    order = row[np.lexsort((ranks, _owners(offsets)))]
    last = np.maximum(np.diff(offsets) - 1, 0)
    low = (last.astype(object) * share.numerator // share.denominator).astype(np.int64)
    high = np.minimum(low + 1, last)
    empty = np.diff(offsets) == 0
    one, two = (numbers[order[np.where(empty, 0, offsets[:-1] + at)]] for at in (low, high))
    if is_decimal:
        return decimals.between(one, two, last, share, digits)
    part = (last.astype(object) * share.numerator % share.denominator / share.denominator).astype(np.float64)
    with np.errstate(invalid="ignore"):
        return np.where((one == two) | (part == 0), one, (1 - part) * one + part * two)


def _owners(offsets: Array) -> Array:
    """The list of each entry."""
    return np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
