"""Sums and means of decimals, digit by digit, with the precision and scale that Spark SQL gives them.

A decimal is its *unscaled* whole number and the scale of its type. Sums are added up in pieces of 32 bits, so that
whole columns are added at once and nothing overflows. Unscaled numbers of results are Python's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

import numpy as np
import pyarrow as pa

from ceql.errors import DataError
from ceql.jit import Array

_PIECE = 32


def sum_type(type: pa.DataType) -> pa.DataType:
    """The type of sums: ten digits more.

    >>> sum_type(pa.decimal128(10, 2)), sum_type(pa.decimal128(35, 2))
    (Decimal128Type(decimal128(20, 2)), Decimal128Type(decimal128(38, 2)))
    """
    return _wider(type, 10, 0)


def mean_type(type: pa.DataType) -> pa.DataType:
    """The type of means: four digits more, all behind the point.

    >>> mean_type(pa.decimal128(10, 2)), mean_type(pa.decimal128(38, 2))
    (Decimal128Type(decimal128(14, 6)), Decimal128Type(decimal128(38, 6)))
    """
    return _wider(type, 4, 4)


def _wider(type: pa.DataType, digits: int, behind: int) -> pa.DataType:
    wide = type.bit_width > 128
    most = 76 if wide else 38
    make = pa.decimal256 if wide else pa.decimal128
    return make(min(type.precision + digits, most), min(type.scale + behind, most))


def pieces(values: pa.Array) -> list[Array]:
    """The unscaled numbers in pieces of 32 bits as int64, the least first; zero at a NULL."""
    count = values.type.bit_width // _PIECE
    plain = values.fill_null(0) if values.null_count else values
    raw = np.frombuffer(plain.buffers()[1], np.uint32, count * len(plain), plain.offset * count * 4).reshape(-1, count)
    low = [raw[:, k].astype(np.int64) for k in range(count - 1)]
    return [*low, raw.view(np.int32)[:, -1].astype(np.int64)]


def joined(sums: Iterable[Array]) -> Array:
    """The whole numbers whose pieces add up to these, as Python's."""
    total: Array = np.zeros(1, object)
    for k, part in enumerate(sums):
        total = total + part.astype(object) * (1 << (_PIECE * k))
    return total


def unscaled(values: pa.Array) -> Array:
    """The unscaled numbers as Python's; zero at a NULL."""
    return joined(pieces(values)) if len(values) else np.zeros(0, object)


def divided(numbers: Array, by: Array | int, digits: int) -> Array:
    """Unscaled numbers divided, with so many digits more behind the point; halves are rounded away from zero."""
    scaled = numbers * 10**digits
    away = 2 * abs(scaled) // by + 1
    return np.asarray(np.where(scaled < 0, -(away // 2), away // 2))


def between(low: Array, high: Array, places: Array, share: Fraction, digits: int) -> Array:
    """The unscaled numbers between others, by linear interpolation: as far as the fraction of `places * share` says."""
    parts = places.astype(object) * share.numerator % share.denominator
    return divided(low * (share.denominator - parts) + high * parts, share.denominator, digits)


def to_decimals(numbers: Sequence[int | None], type: pa.DataType, what: str) -> pa.Array:
    """Unscaled numbers as a column of decimals; one that does not fit is a `DataError` about `what`."""
    most = 10**type.precision
    width = type.bit_width // 8
    if any(number is not None and abs(number) >= most for number in numbers):
        raise DataError(f"{what} does not fit {type}: cast the column to a decimal with fewer digits behind the point")
    data = b"".join((number or 0).to_bytes(width, "little", signed=True) for number in numbers)
    missing = [number is None for number in numbers]
    whole = pa.Array.from_buffers(type, len(numbers), [None, pa.py_buffer(data)])
    return whole if not any(missing) else whole.take(pa.array(np.arange(len(numbers)), mask=np.array(missing)))
