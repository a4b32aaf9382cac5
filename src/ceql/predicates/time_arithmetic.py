"""Arithmetic with times and durations, and times that are plain numbers.

A difference of two times is a duration; a time plus or minus a duration is a time; durations add up. Everything is
calculated in whole ticks of the finest unit at hand, and what does not fit 64 bits is an error. A time column of plain
numbers is told by its unit, which the schema has as metadata of the field: next to it, a duration is a number of ticks.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ceql.io.schemas import kind_of, value_type
from ceql.io.sort_keys import PER_SECOND, ticks

Calculate = Callable[[Any, Any], Any]

_UNITS = ("s", "ms", "us", "ns")
_UNIT = b"ceql.time_unit"


def with_unit(schema: pa.Schema, time: str | None, unit: str | None) -> pa.Schema:
    """The schema, whose time column says its unit if it holds plain numbers."""
    index = schema.get_field_index(time) if time is not None and unit is not None else -1
    if index < 0 or kind_of(schema.field(index).type) not in ("number", "null"):
        return schema
    return schema.set(index, schema.field(index).with_metadata({_UNIT: str(unit).encode()}))


def unit_in(schema: pa.Schema, name: str) -> str | None:
    """The unit of a column of plain numbers that are times."""
    index = schema.get_field_index(name)
    unit = (schema.field(index).metadata or {}).get(_UNIT) if index >= 0 else None
    return unit.decode() if unit is not None else None


def finest(*units: str) -> str:
    """The unit in which values of all these units are whole numbers."""
    return max(units, key=_UNITS.index)


def unit_for(nanoseconds: int) -> str:
    """The coarsest unit in which a duration is a whole number."""
    return next(unit for unit in _UNITS if nanoseconds * PER_SECOND[unit] % 10**9 == 0)


def duration_scalar(nanoseconds: int) -> pa.Scalar:
    """A duration as Arrow has it."""
    unit = unit_for(nanoseconds)
    return pa.scalar(nanoseconds * PER_SECOND[unit] // 10**9, pa.int64()).cast(pa.duration(unit))


def in_ticks(nanoseconds: int, unit: str) -> Fraction:
    """A duration in ticks of a unit."""
    found = ticks(nanoseconds, pa.int64(), unit)
    assert found is not None
    return found


def unit_of_type(type: pa.DataType) -> str:
    """The unit of a type of times or durations; that of dates is the second."""
    return "s" if pa.types.is_date32(type) else "ms" if pa.types.is_date64(type) else str(type.unit)


def is_moment(type: pa.DataType) -> bool:
    """Whether values are points in time: timestamps and dates."""
    return bool(pa.types.is_timestamp(type) or pa.types.is_date(type))


def in_unit(type: pa.DataType, unit: str) -> pa.DataType:
    """The type in which values of a type of times or durations are whole numbers of this unit, or of a finer one."""
    type = value_type(type)
    if pa.types.is_duration(type):
        return pa.duration(unit)
    if pa.types.is_time(type):
        return pa.time64("ns" if unit == "ns" else "us")
    return pa.timestamp(unit, getattr(type, "tz", None))


def time_arithmetic(op: str, left: pa.DataType, right: pa.DataType) -> tuple[pa.DataType, Calculate] | None:
    """The type of `left op right` and how it is calculated; None where times and durations have no such operation."""
    if not (pa.types.is_temporal(left) and pa.types.is_temporal(right)) or op not in "+-":
        return None
    lengths = [pa.types.is_duration(type) for type in (left, right)]
    if any(pa.types.is_interval(type) for type in (left, right)):
        return None
    unit = finest(unit_of_type(left), unit_of_type(right))
    if all(lengths):
        return _calculation(op, left, right, unit, pa.duration(unit))
    if not any(lengths):
        if op != "-" or kind_of(left) != kind_of(right):
            return None
        if pa.types.is_time(left):
            unit = finest(unit, "us")
        return _calculation(op, left, right, unit, pa.duration(unit))
    moment = right if lengths[0] else left
    if not is_moment(moment) or (lengths[0] and op == "-"):
        return None
    return _calculation(op, left, right, unit, in_unit(moment, unit))


def _calculation(
    op: str, left: pa.DataType, right: pa.DataType, unit: str, result: pa.DataType
) -> tuple[pa.DataType, Calculate]:
    add = pc.add_checked if op == "+" else pc.subtract_checked

    def calculate(a: Any, b: Any) -> Any:
        return pc.cast(add(whole_ticks(a, left, unit), whole_ticks(b, right, unit)), result)

    return result, calculate


def whole_ticks(values: Any, type: pa.DataType, unit: str) -> Any:
    """Times or durations as whole numbers of a unit that is fine enough."""
    return pc.cast(pc.cast(values, in_unit(type, unit)), pa.int64())
