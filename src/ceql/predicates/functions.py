"""The functions of values over columns, with the meaning that they have in Spark SQL.

In: the node of a call, and its arguments as types and readers. Out: the type of the result and a reader. NULL gives
NULL, but for LEAST, GREATEST and COALESCE, which skip it. NaN is the greatest number to LEAST and GREATEST. Numbers are
64 bits wide, whole or floating. The parts of a time are those that its own time zone shows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ceql.errors import DataError
from ceql.io.schemas import is_text, kind_of
from ceql.io.soundness import is_utf8
from ceql.predicates.time_arithmetic import finest, in_unit, is_moment, unit_of_type, whole_ticks
from ceql.syntax import tree as t

Evaluate = Callable[[pa.RecordBatch], Any]  # gives a pa.Array or pa.Scalar
Typed = tuple[pa.DataType, Evaluate]

CALENDAR: dict[str, Callable[[Any], Any]] = {
    "YEAR": pc.year,
    "MONTH": pc.month,
    "DAY": pc.day,
    "HOUR": pc.hour,
    "MINUTE": pc.minute,
    "DAYOFWEEK": lambda values: pc.day_of_week(values, count_from_zero=False, week_start=7),
}
_TEXT = {"LOWER", "UPPER", "LENGTH", "SUBSTRING"}
_OF_THE_CLOCK = {"HOUR", "MINUTE"}
_EXACT = 2.0**52  # a double from here on has no digits after the point


class Unfit(Exception):
    """An argument is of a kind that the function does not take; the message says what it takes."""

    def __init__(self, argument: int, wanted: str) -> None:
        super().__init__(wanted)
        self.argument = argument


def compile_call(node: t.Call, arguments: Sequence[Typed]) -> Typed:
    """The type of a call's value, and its reader; `Unfit` where an argument does not fit."""
    types = [type for type, _ in arguments]
    reads = [read for _, read in arguments]
    function = node.function
    if function in ("LEAST", "GREATEST", "COALESCE"):
        return _of_alternatives(function, types, reads)
    if function == "CONCAT":
        return _concat(types, reads)
    if all(pa.types.is_null(type) for type in types[:1]):
        return pa.null(), lambda batch: pa.scalar(None)
    if function in CALENDAR:
        return _calendar(function, types[0], reads[0])
    if function in _TEXT:
        return _of_text(function, types, reads)
    return _of_a_number(node, types[0], reads[0])


# --- alternatives ---


def common_type(types: Sequence[pa.DataType]) -> pa.DataType:
    """The type that values of all these types are cast to; `Unfit` if they are of different kinds."""
    known = [(k, type) for k, type in enumerate(types) if not pa.types.is_null(type)]
    if not known:
        return pa.null()
    first = known[0][1]
    for k, type in known:
        if kind_of(type) != kind_of(first) or pa.types.is_nested(type):
            raise Unfit(k, f"values of one kind, a {kind_of(first)} like the first")
    if kind_of(first) == "number":
        return pa.float64() if any(pa.types.is_floating(type) for _, type in known) else pa.int64()
    if pa.types.is_timestamp(first) or pa.types.is_duration(first):
        return in_unit(first, finest(*(unit_of_type(type) for _, type in known)))
    return first


def _of_alternatives(function: str, types: Sequence[pa.DataType], reads: Sequence[Evaluate]) -> Typed:
    type = common_type(types)
    if pa.types.is_null(type):
        return type, lambda batch: pa.scalar(None)
    choose = {"LEAST": pc.min_element_wise, "GREATEST": pc.max_element_wise, "COALESCE": pc.coalesce}[function]

    def read(batch: pa.RecordBatch) -> Any:
        values = [pc.cast(value, type) for value in (read(batch) for read in reads)]
        found = choose(*values)
        if function == "GREATEST" and pa.types.is_floating(type):
            for value in values:
                nan = pc.coalesce(pc.is_nan(value), pa.scalar(False))
                found = pc.if_else(nan, pa.scalar(np.nan), found)
        return found

    return type, read


# --- text ---


def _of_text(function: str, types: Sequence[pa.DataType], reads: Sequence[Evaluate]) -> Typed:
    if not is_text(types[0]):
        raise Unfit(0, "text")
    text = reads[0]
    if function == "LENGTH":
        return pa.int64(), lambda batch: pc.cast(pc.utf8_length(_text(text(batch))), pa.int64())
    if function == "SUBSTRING":
        for k, type in enumerate(types[1:], start=1):
            if not pa.types.is_integer(type):
                raise Unfit(k, "whole numbers for where to begin and how many characters to take")
        return pa.large_string(), lambda batch: _substring(_text(text(batch)), *(read(batch) for read in reads[1:]))
    change, plain = (str.lower, pc.ascii_lower) if function == "LOWER" else (str.upper, pc.ascii_upper)
    return pa.large_string(), lambda batch: _mapped(_text(text(batch)), change, plain)


def _text(values: Any) -> Any:
    return pc.cast(values, pa.large_string())


def _mapped(values: Any, change: Callable[[str], str], plain: Callable[[Any], Any]) -> Any:
    """Each text changed; those beyond ASCII one by one, since one character may become two."""
    if isinstance(values, pa.Scalar):
        return pa.scalar(None if values.as_py() is None else change(values.as_py()), pa.large_string())
    if pc.all(pc.string_is_ascii(values)).as_py() is not False:
        return plain(_from_zero(values))
    codes = values.dictionary_encode()
    if not is_utf8(codes):
        raise pa.ArrowInvalid("it has text that is not UTF-8")
    changed = pa.array([change(text) for text in codes.dictionary.to_pylist()], pa.large_string())
    return changed.take(codes.indices)


def _from_zero(values: Any) -> Any:
    """The same, with characters from the beginning of their buffer on. Arrow takes that for granted where it changes
    ASCII: of a part of a column, it would give offsets that are out of bounds."""
    first = np.frombuffer(values.buffers()[1], np.int64)[values.offset] if len(values) else 0
    return pa.concat_arrays([values, values[:0]]) if first else values


def _substring(text: Any, begin: Any, size: Any = None) -> Any:
    """From the character `begin` on, counted from 1, or from the end if it is negative."""
    if isinstance(begin, pa.Scalar) and (size is None or isinstance(size, pa.Scalar)):
        return _slice(text, begin.as_py(), None if size is None else size.as_py(), size is not None)
    rows = max(len(v) for v in (text, begin, size) if isinstance(v, pa.Array))
    columns = [_rows_of(v, rows) for v in (text, begin)] + [[2**31] * rows if size is None else _rows_of(size, rows)]
    found = [
        None if s is None or b is None or n is None else s[slice(*_ends(len(s), b, n))]
        for s, b, n in zip(*columns, strict=True)
    ]
    return pa.array(found, pa.large_string())


def _rows_of(values: Any, rows: int) -> list[Any]:
    return [values.as_py()] * rows if isinstance(values, pa.Scalar) else values.to_pylist()


def _ends(length: int, begin: int, size: int) -> tuple[int, int]:
    start = begin - 1 if begin > 0 else length + begin if begin < 0 else 0
    return max(start, 0), max(start + size, 0)


def _slice(text: Any, begin: int | None, size: int | None, sized: bool) -> Any:
    if begin is None or (sized and size is None):
        return pc.if_else(pc.is_null(text), text, pa.scalar(None, pa.large_string()))
    if begin >= 0:
        start = max(begin - 1, 0)
        stop = None if size is None else max(start + size, 0)
        return pc.utf8_slice_codeunits(text, start, stop)
    stop = None if size is None or begin + size >= 0 else begin + size
    if size is not None and size <= 0:
        stop = begin
    return pc.utf8_slice_codeunits(text, begin, stop)


def _concat(types: Sequence[pa.DataType], reads: Sequence[Evaluate]) -> Typed:
    for k, type in enumerate(types):
        if not (is_text(type) or pa.types.is_integer(type) or pa.types.is_null(type)):
            raise Unfit(k, "texts and whole numbers")

    def read(batch: pa.RecordBatch) -> Any:
        empty = pa.scalar("", pa.large_string())
        return pc.binary_join_element_wise(*(_text(value(batch)) for value in reads), empty, null_handling="emit_null")

    return pa.large_string(), read


# --- times ---


def _calendar(function: str, type: pa.DataType, read: Evaluate) -> Typed:
    part = CALENDAR[function]
    if pa.types.is_time(type) and function in _OF_THE_CLOCK:
        return pa.int64(), lambda batch: pc.cast(part(read(batch)), pa.int64())
    if not is_moment(type):
        raise Unfit(0, "a time")
    wanted = pa.timestamp("s") if pa.types.is_date(type) else type
    return pa.int64(), lambda batch: pc.cast(part(pc.cast(read(batch), wanted)), pa.int64())


# --- numbers ---


def _of_a_number(node: t.Call, type: pa.DataType, read: Evaluate) -> Typed:
    function = node.function
    if function == "ABS" and pa.types.is_duration(type):
        unit = unit_of_type(type)
        return type, lambda batch: pc.cast(pc.abs_checked(whole_ticks(read(batch), type, unit)), type)
    if kind_of(type) != "number":
        raise Unfit(0, "a number")
    whole = pa.types.is_integer(type)
    if function == "ABS":
        return type, lambda batch: (pc.abs_checked if whole else pc.abs)(read(batch))
    if function in ("FLOOR", "CEIL"):
        if whole:
            return type, read
        step = np.floor if function == "FLOOR" else np.ceil
        return pa.int64(), lambda batch: _by_numpy(read(batch), lambda values: _to_long(step(values)), pa.int64())
    digits = node.arguments[1].value if len(node.arguments) > 1 else 0  # type: ignore[union-attr]
    assert isinstance(digits, int)
    if whole:
        return type, read if digits >= 0 else lambda batch: _by_numpy(read(batch), lambda v: _tens(v, -digits), type)
    return type, lambda batch: _by_numpy(read(batch), lambda values: rounded(values, digits), type)


def _by_numpy(values: Any, change: Callable[[Any], Any], type: pa.DataType) -> Any:
    """A function of numpy arrays over Arrow's values; NULL stays NULL."""
    if isinstance(values, pa.Scalar):
        return _by_numpy(pa.array([values.as_py()], values.type), change, type)[0]
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    null = values.is_null().to_numpy(zero_copy_only=False)
    plain = (values.fill_null(0) if values.null_count else values).to_numpy(zero_copy_only=False)
    return pa.array(change(plain), type, mask=null if values.null_count else None)


def _to_long(values: Any) -> Any:
    """Doubles as Java makes them long: the nearest there is, and 0 for NaN."""
    with np.errstate(invalid="ignore"):
        whole = np.nan_to_num(values, nan=0.0).astype(np.int64)
    whole = np.where(values >= 2.0**63, np.iinfo(np.int64).max, whole)
    return np.where(values < -(2.0**63), np.iinfo(np.int64).min, whole)


def _tens(values: Any, zeros: int) -> Any:
    """Whole numbers rounded to a power of ten, halves away from zero."""
    if zeros > 19:
        return np.zeros_like(values)
    size, power = np.abs(values).view(np.uint64), np.uint64(10**zeros)
    count, rest = size // power, size % power
    count += (rest >= power - rest).astype(np.uint64)
    if (count > np.uint64((2**63 - 1) // 10**zeros)).any():
        raise DataError("ROUND leaves the range of 64-bit integers")
    return np.where(values < 0, -(count * power).view(np.int64), (count * power).view(np.int64))


def rounded(values: Any, digits: int) -> Any:
    """Doubles rounded to `digits` after the point, halves away from zero, as their shortest decimal text says.

    >>> rounded(np.array([2.5, -0.5, 0.285, 1e300]), 0).tolist(), float(rounded(np.array([0.285]), 2)[0])
    ([3.0, -1.0, 0.0, 1e+300], 0.29)
    """
    if not len(values) or digits > 22 or digits < -22:
        return np.array([_round_one(value, digits) for value in values.tolist()], np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        power = 10.0 ** abs(digits)
        scaled = values * power if digits >= 0 else values / power
        size = np.abs(scaled)
        whole = np.floor(size)
        near = np.copysign(np.where(size - whole >= 0.5, whole + 1, whole), values)
        found = near / power if digits >= 0 else near * power
        # close to a half, or with more digits than doubles have, the decimal text decides
        doubtful = (np.abs(size - whole - 0.5) < 1e-6 * np.maximum(size, 1)) | (size >= _EXACT)
    for k in np.flatnonzero(doubtful & np.isfinite(values)).tolist():
        found[k] = _round_one(float(values[k]), digits)
    return np.where(np.isfinite(values), found, values)


def _round_one(value: float, digits: int) -> float:
    if not np.isfinite(value):
        return value
    with localcontext(prec=800):
        return float(Decimal(repr(value)).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP))
