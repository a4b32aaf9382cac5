"""Scalar functions of SQL over Arrow columns, by sqlglot's names for them and with arguments in its order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from ceql.row_patterns.problem import Refused


def _as_text(value: Any) -> Any:
    if pa.types.is_string(value.type) or pa.types.is_large_string(value.type):
        return value
    return value.cast(pa.string())


def _concat(*values: Any) -> Any:
    return pc.binary_join_element_wise(*map(_as_text, values), "")


def _concat_ws(separator: Any, *values: Any) -> Any:
    if len(values) == 1 and (pa.types.is_list(values[0].type) or pa.types.is_large_list(values[0].type)):
        return pc.binary_join(values[0], separator)
    return pc.binary_join_element_wise(*map(_as_text, values), separator, null_handling="skip")


def _constant(value: Any) -> Any:
    """An argument that is no column."""
    if isinstance(value, str):
        return value
    if not isinstance(value, pa.Scalar):
        raise Refused("this function takes a constant here, and gets a value of each row", None, _ADVICE)
    return value.as_py()


def _named(name: str) -> Any:
    """The function of Arrow for a unit of time."""
    found = getattr(pc, name, None)
    if found is None:
        raise Refused(f"'{name}' names no unit of time that is known here", None, _ADVICE)
    return found


_ADVICE = "Compute it in a column of the rows."


def _substring(text: Any, start: Any, length: Any = None) -> Any:
    begin = _constant(start)
    begin = begin - 1 if begin > 0 else begin
    end = None if length is None else begin + _constant(length)
    return pc.utf8_slice_codeunits(text, begin, None if end == 0 and begin < 0 else end)


def _round(value: Any, digits: Any = None, *_: Any) -> Any:
    places = 0 if digits is None else _constant(digits)
    return pc.round(value, places, round_mode="half_towards_infinity")


def _log(base: Any, value: Any = None) -> Any:
    return pc.ln(_real(base)) if value is None else pc.logb(_real(value), _real(base))


def _real(value: Any) -> Any:
    return value.cast(pa.float64())


def _whole(value: Any, function: Any) -> Any:
    return value if pa.types.is_integer(value.type) else function(value)


def _null_if(value: Any, other: Any) -> Any:
    return pc.if_else(pc.fill_null(pc.equal(value, other), False), pa.scalar(None, value.type), value)


def _extreme(function: Any) -> Callable[..., Any]:
    def among(*values: Any) -> Any:
        """NULL if one of them is."""
        known = pc.is_valid(values[0])
        for value in values[1:]:
            known = pc.and_(known, pc.is_valid(value))
        found = function(*values)
        return pc.if_else(known, found, pa.scalar(None, found.type))

    return among


def _truncated(value: Any, unit: Any) -> Any:
    return pc.floor_temporal(value, unit=_constant(unit).lower(), week_starts_monday=True)


def _extract(unit: Any, value: Any) -> Any:
    name = str(unit).lower()
    known = {"dow": "day_of_week", "doy": "day_of_year", "day": "day", "week": "iso_week"}
    return _named(known.get(name, name))(value)


_SECONDS = {"week": 604800, "day": 86400, "hour": 3600, "minute": 60, "second": 1}


def difference(start: Any, end: Any, unit: str, ends_of_units: bool) -> Any:
    """The time between, in units: how many ends of one were passed, or how many whole ones it has."""
    unit = unit.lower().removesuffix("s")
    dates = pa.types.is_date(start.type) and pa.types.is_date(end.type)
    if ends_of_units or (dates and unit == "day") or unit in ("millisecond", "microsecond"):
        return _named(f"{unit}s_between")(start, end)
    if unit not in _SECONDS:
        raise Refused(f"the whole {unit}s between two times are not counted", None, "Compare YEAR() and MONTH().")
    zone = getattr(start.type, "tz", None) or getattr(end.type, "tz", None)
    passed = pc.subtract(end.cast(pa.timestamp("us", zone)), start.cast(pa.timestamp("us", zone))).cast(pa.int64())
    return pc.divide(passed, pa.scalar(_SECONDS[unit] * 1_000_000))


def _replaced(text: Any, old: Any, new: Any = None) -> Any:
    return pc.replace_substring(text, pattern=_constant(old), replacement="" if new is None else _constant(new))


def _join_list(values: Any, separator: Any) -> Any:
    return pc.binary_join(values, separator)


def _array(*values: Any) -> Any:
    return pa.scalar([value.as_py() for value in values])


NOT_STRICT: tuple[type[exp.Expr], ...] = (exp.Coalesce, exp.ConcatWs, exp.Nullif)
"""Functions that may give a value though an argument is NULL."""

FUNCTIONS: dict[type[exp.Expr], Callable[..., Any]] = {
    exp.Abs: pc.abs_checked,
    exp.Array: _array,
    exp.ArraySize: lambda values, *_: pc.list_value_length(values).cast(pa.int64()),
    exp.ArrayToString: _join_list,
    exp.Ceil: lambda value, *_: _whole(value, pc.ceil),
    exp.Coalesce: pc.coalesce,
    exp.Concat: _concat,
    exp.ConcatWs: _concat_ws,
    exp.Day: pc.day,
    exp.DayOfMonth: pc.day,
    exp.DayOfWeek: lambda value: pc.day_of_week(value, count_from_zero=False, week_start=7),
    exp.DayOfYear: pc.day_of_year,
    exp.Exp: lambda value: pc.exp(_real(value)),
    exp.Extract: _extract,
    exp.Floor: lambda value, *_: _whole(value, pc.floor),
    exp.Greatest: _extreme(pc.max_element_wise),
    exp.Hour: pc.hour,
    exp.Least: _extreme(pc.min_element_wise),
    exp.Length: lambda value, *_: pc.utf8_length(value),
    exp.Ln: lambda value: pc.ln(_real(value)),
    exp.Log: _log,
    exp.Lower: pc.utf8_lower,
    exp.Minute: pc.minute,
    exp.Month: pc.month,
    exp.Nullif: _null_if,
    exp.Pow: lambda base, power: pc.power(_real(base), _real(power)),
    exp.Quarter: pc.quarter,
    exp.Replace: _replaced,
    exp.Round: _round,
    exp.Second: pc.second,
    exp.Sign: pc.sign,
    exp.Sqrt: lambda value: pc.sqrt(_real(value)),
    exp.Substring: _substring,
    exp.TimestampTrunc: _truncated,
    exp.DateTrunc: lambda unit, value, *_: _truncated(value, unit),
    exp.TsOrDsToDate: lambda value, *_: value.cast(pa.date32()),
    exp.Trim: lambda value, *_: pc.utf8_trim_whitespace(value),
    exp.Upper: pc.utf8_upper,
    exp.Year: pc.year,
    exp.StartsWith: lambda value, start: pc.starts_with(value, _constant(start)),
}
