"""Sort keys: ordered columns (times, the attribute of a `n [a]` window) as int64 in the same order.

The engine compares starts as integers. `encode` maps a column of times, numbers, dates or decimals to int64 and keeps
the order; `decode` gives the same values back. For each key, `bounds` gives the least key that is at most `width` below
it, in exact arithmetic: a float bound is rounded up, never to nearest, so that 0.1 + 0.2 cannot slip past 0.3.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ceql.errors import DataError

Int64s = npt.NDArray[np.int64]

NO_BOUND = np.iinfo(np.int64).min
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
"""The ticks of a second by unit."""


def is_ordered(type: pa.DataType) -> bool:
    """Whether a column of this type can measure a window."""
    return bool(
        pa.types.is_integer(type)
        or pa.types.is_floating(type)
        or pa.types.is_decimal(type)
        or pa.types.is_timestamp(type)
        or pa.types.is_date(type)
        or pa.types.is_time(type)
        or pa.types.is_duration(type)
    )


def encode(values: pa.Array, name: str) -> Int64s:
    """The keys of `values`; unspecified at a NULL.

    >>> encode(pa.array([-1.5, 0.0, 2.0]), "a").argsort().tolist()
    [0, 1, 2]
    """
    type = values.type
    if pa.types.is_decimal(type):
        too_large = f"column '{name}' has decimals too large to measure a window with ({type})"
        try:
            low, high = decimal_words(values)
        except pa.ArrowInvalid as error:  # a decimal256 that does not fit in decimal128
            raise DataError(too_large) from error
        if (high != low >> 63).any():
            raise DataError(too_large)
        return low
    if pa.types.is_floating(type):
        return _float_to_key(_plain(values.cast(pa.float64())))
    if type == pa.uint64():
        return (_plain(values) ^ np.uint64(1 << 63)).view(np.int64)
    if pa.types.is_date32(type) or pa.types.is_time32(type):
        return _plain(values.view(pa.int32())).astype(np.int64)
    if pa.types.is_temporal(type):
        return _plain(values.view(pa.int64()))
    return _plain(values if type == pa.int64() else values.cast(pa.int64()))


def decode(keys: Int64s, type: pa.DataType) -> pa.Array:
    """The values from which `encode` made `keys`, as an array of `type`."""
    if pa.types.is_decimal(type):
        words = np.stack([keys, keys >> 63], axis=1)
        wide = pa.decimal128(38, type.scale)
        return pa.Array.from_buffers(wide, len(keys), [None, pa.py_buffer(words.tobytes())]).cast(type)
    if pa.types.is_floating(type):
        return pa.array(_key_to_float(keys)).cast(type)
    if type == pa.uint64():
        return pa.array(keys.view(np.uint64) ^ np.uint64(1 << 63))
    if pa.types.is_date32(type) or pa.types.is_time32(type):
        return pa.array(keys.astype(np.int32)).view(type)
    if pa.types.is_temporal(type):
        return pa.array(keys).view(type)
    return pa.array(keys).cast(type)


def bounds(keys: Int64s, type: pa.DataType, width: Fraction) -> Int64s:
    """For each key, the least key within `width` (in the column's own unit) below it.

    >>> bounds(np.array([10, 20]), pa.int64(), Fraction(15, 2)).tolist()
    [3, 13]
    """
    if pa.types.is_floating(type):
        values = _key_to_float(keys)
        w = float(width)
        with np.errstate(invalid="ignore", over="ignore"):
            low = values - w
            # two-sum: low + error is the exact difference; if it is above low, the next float is the bound
            virtual = low - values
            error = (values - (low - virtual)) + (-w - virtual)
            low = np.where(error > 0, np.nextafter(low, np.inf), low)
        if Fraction(w) < width:  # no window of whole numbers gets here; keeps the result exact for odd fractions
            low = np.nextafter(low, -np.inf)
        return np.where(np.isnan(values), np.iinfo(np.int64).max, _float_to_key(low))
    whole = width
    if pa.types.is_decimal(type):
        whole = width * 10**type.scale
    step = int(whole // 1)
    if step >= 1 << 63:
        return np.full(len(keys), NO_BOUND, np.int64)
    least = np.iinfo(np.int64).min
    return np.where(keys < least + step, least, keys - step)


def ticks(nanoseconds: int, type: pa.DataType, time_unit: str | None) -> Fraction | None:
    """`nanoseconds` in the unit of a time column of this type; None if the unit of plain numbers is unknown.

    >>> ticks(90_000_000_000, pa.timestamp("ms"), None)
    Fraction(90000, 1)
    """
    if pa.types.is_date32(type):
        per_second: Fraction = Fraction(1, 86_400)
    elif pa.types.is_date64(type):
        per_second = Fraction(1_000)
    elif pa.types.is_temporal(type):
        per_second = Fraction(PER_SECOND[type.unit])
    elif time_unit is None:
        return None
    else:
        per_second = Fraction(PER_SECOND[time_unit])
    return Fraction(nanoseconds, 10**9) * per_second


def decimal_words(values: pa.Array) -> tuple[Int64s, Int64s]:
    """The unscaled integers of a decimal column as low and high 64 bits; zero at a NULL."""
    wide = values.cast(pa.decimal128(38, values.type.scale)).fill_null(0)
    words = np.frombuffer(wide.buffers()[1], np.int64, 2 * (wide.offset + len(wide)))[2 * wide.offset :]
    return words[0::2].copy(), words[1::2].copy()


def _plain(values: pa.Array) -> npt.NDArray[Any]:
    """The values as numpy; unspecified at a NULL."""
    if values.null_count:
        zero = pa.scalar(0).cast(values.type) if not pa.types.is_temporal(values.type) else None
        values = values.fill_null(zero) if zero is not None else values.view(pa.int64()).fill_null(0)
    return np.asarray(values.to_numpy(zero_copy_only=False))


def _float_to_key(values: npt.NDArray[np.float64]) -> Int64s:
    bits = np.ascontiguousarray(values + 0.0).view(np.int64)  # + 0.0 makes -0.0 and 0.0 one key
    return np.where(bits >= 0, bits, np.int64(-(2**63)) - bits)


def _key_to_float(keys: Int64s) -> npt.NDArray[np.float64]:
    bits = np.where(keys >= 0, keys, np.int64(-(2**63)) - keys)
    return bits.view(np.float64)
