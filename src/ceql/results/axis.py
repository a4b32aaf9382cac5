"""The horizontal axis of a timeline: times or positions as numbers, and round ticks with labels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ceql.io.sort_keys import PER_SECOND

Floats = npt.NDArray[np.float64]

_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_STEPS = [
    *(1, 2, 5, 10, 15, 30, _MINUTE, 2 * _MINUTE, 5 * _MINUTE, 10 * _MINUTE, 15 * _MINUTE, 30 * _MINUTE),
    *(_HOUR, 2 * _HOUR, 3 * _HOUR, 6 * _HOUR, 12 * _HOUR, _DAY, 2 * _DAY, 7 * _DAY, 14 * _DAY, 30 * _DAY, 90 * _DAY),
]
_TICKS = 6


@dataclass(frozen=True)
class Tick:
    at: float
    label: str


def to_numbers(column: pa.Array) -> tuple[Floats, bool] | None:
    """The values as numbers, and whether these are seconds since 1970; None if they are neither times nor numbers."""
    kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        if pa.types.is_timestamp(kind) and kind.tz is not None:
            column = pc.local_timestamp(column)
        ticks = column.cast(pa.timestamp(getattr(column.type, "unit", "ms"))).cast(pa.int64())
        per_second = PER_SECOND[getattr(column.type, "unit", "ms")]
        return np.asarray(ticks, np.float64) / per_second, True
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return np.asarray(column.cast(pa.float64())), False
    return None


def ticks(low: float, high: float, seconds: bool, since: bool) -> list[Tick]:
    """Round numbers from `low` to `high`; `seconds` on a clock, unless they are `since` some beginning.

    >>> [tick.label for tick in ticks(0, 100, False, False)]
    ['0', '20', '40', '60', '80', '100']
    >>> [tick.label for tick in ticks(0, 150, True, True)]
    ['0', '30 s', '1 min', '1 min 30 s', '2 min', '2 min 30 s']
    >>> [tick.label for tick in ticks(1715940000, 1715940020, True, False)]
    ['10:00:00', '10:00:05', '10:00:10', '10:00:15', '10:00:20']
    """
    step = _step(high - low, seconds)
    first = math.ceil(low / step - 1e-9)
    places = [k * step for k in range(first, first + _TICKS + 1) if k * step <= high + step * 1e-9]
    if not seconds:
        return [Tick(at, f"{at:,.{_decimals(step)}f}") for at in places]
    return [Tick(at, duration(at) if since else _clock(at, step)) for at in places]


def duration(seconds: float) -> str:
    """
    >>> duration(0), duration(0.25), duration(90), duration(90000)
    ('0', '0.25 s', '1 min 30 s', '1 d 1 h')
    """
    parts = []
    whole = round(seconds, 9)
    for unit, size in (("d", _DAY), ("h", _HOUR), ("min", _MINUTE)):
        n, whole = divmod(whole, size)
        parts += [f"{int(n)} {unit}"] if n else []
    parts += [f"{whole:g} s"] if whole else []
    return " ".join(parts) or "0"


def date(seconds: float) -> str:
    """The day of a time."""
    return _datetime(seconds).date().isoformat()


def _step(span: float, seconds: bool) -> float:
    """The least round step that gives no more than `_TICKS` ticks."""
    if seconds and span > 1:
        for step in _STEPS:
            if span / step <= _TICKS - 0.5:
                return step
        return _DAY * _round_up(span / _DAY / (_TICKS - 0.5))
    return _round_up(span / (_TICKS - 0.5))


def _round_up(least: float) -> float:
    """The least of 1, 2, 5, 10, … that is no less."""
    power = 10.0 ** math.floor(math.log10(least))
    return float(next(n * power for n in (1, 2, 5, 10) if n * power >= least * (1 - 1e-9)))


def _decimals(step: float) -> int:
    return max(0, -math.floor(math.log10(step) + 1e-9))


def _clock(seconds: float, step: float) -> str:
    at = _datetime(seconds)
    if step >= _DAY:
        return at.date().isoformat()
    if step >= _MINUTE:
        return at.strftime("%H:%M")
    return at.strftime("%H:%M:%S") + (f"{seconds % 1:.{_decimals(step)}f}"[1:] if step < 1 else "")


def _datetime(seconds: float) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
