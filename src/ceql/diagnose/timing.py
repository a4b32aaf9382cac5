"""Measures when events came, how late the late ones were, and how long matches take beside the window.

In: batches in order of time, and what was followed through a window as wide as can be. Out: a `TimeFinding` and a
`Length`, with what is suspicious about them: times whose unit makes them lie in a year that nobody meant.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from math import ceil
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ceql.diagnose.counting import Counter, UnaryCounter
from ceql.diagnose.findings import Length, TimeFinding
from ceql.diagnose.following import UnaryFollowing
from ceql.diagnose.reach import shortest
from ceql.io.sequencer import Sequencer
from ceql.io.sort_keys import Int64s, decode, encode, ticks
from ceql.io.sorted_runs import EventBatch
from ceql.plan import plan_query
from ceql.plans import Loop
from ceql.recognition.bound_plan import BoundPlan
from ceql.recognition.options import TIME_UNITS
from ceql.recognition.unary import UnaryRecognition
from ceql.syntax import tree as t
from ceql.syntax.limits import MAX_COUNT
from ceql.syntax.printer import print_window

_SECOND = 10**9
_UNITS = [("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1)]
_OUT_OF_RANGE = "<value out of range"  # as Arrow writes it
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MEANT = (datetime(1980, 1, 1, tzinfo=UTC).timestamp(), datetime(2100, 1, 1, tzinfo=UTC).timestamp())


class WatchedSequencer(Sequencer):
    """Puts events in order, and remembers how far behind the latest of them came."""

    behind: Any = 0

    def _late_mask(self, keys: Int64s, before: int | None, type: pa.DataType) -> npt.NDArray[np.bool_] | None:
        late = super()._late_mask(keys, before, type)
        if late is not None:
            running = np.maximum.accumulate(np.concatenate([[keys[0] if before is None else before], keys[:-1]]))
            self.behind = max(self.behind, *(_numbers(running[late], type) - _numbers(keys[late], type)).tolist())
        return late


class Timing:
    """Collects the first and the last time, and follows the query through a window as wide as can be."""

    def __init__(self, bound: BoundPlan) -> None:
        self._bound = bound
        self._first: Int64s | None = None
        self._last: Int64s | None = None
        plan = bound.plan
        window = _widest(plan.query.window)
        self._wide: UnaryRecognition | None = None
        if window is not None:
            query = replace(plan.query, window=window, strategy=None, limit=None, consume=t.Consume.NONE)
            wide = plan_query(query, plan.source, prefers_unary=True)
            if wide.loop is not Loop.GROUPS:
                self._wide = UnaryRecognition(replace(bound, plan=wide), counting=True)
                self.following = UnaryFollowing(self._wide)

    def feed(self, batch: EventBatch) -> None:
        """Take a batch into account."""
        if self._wide is not None:
            self._wide.read(batch)
        name, rows = self._bound.time, batch.data.num_rows
        if name is not None and rows:
            column = batch.data.column(batch.data.schema.get_field_index(name))
            if self._first is None:
                self._first = encode(column.slice(0, 1), name)
            self._last = encode(column.slice(rows - 1), name)

    def finding(self, events: int, behind: Any) -> TimeFinding | None:
        """The span of the events, and their rate."""
        if self._first is None or self._last is None or self._bound.time_type is None:
            return None
        low, high = self._number(self._first), self._number(self._last)
        per_second = self._per_second
        seconds = None if per_second is None else float((Fraction(high) - Fraction(low)) / per_second)
        late = None
        if behind:
            late = f"{behind}" if per_second is None else f"'{self._duration(behind).lower()}'"
        return TimeFinding(
            self._shown(self._first), self._shown(self._last), seconds, _rate(events, seconds), late, self._wrong_unit()
        )

    def length(self, counter: Counter) -> Length | None:
        """How long the shortest match is, or the shortest run that got furthest, in the measure of the window.

        `counter` is that of the query without the window.
        """
        window, kind = self._bound.plan.query.window, self._bound.window.type
        if window is None or (kind is not None and not _is_whole(kind)):
            return None
        if self._wide is not None:
            complete, steps = shortest(self.following)
        elif isinstance(window, t.TimeWindow):
            complete, steps = True, counter.least_time
        elif isinstance(window, t.EventsWindow) and not self._bound.plan.query.partition:
            complete, steps = True, counter.least_events
            if isinstance(counter, UnaryCounter):  # without a window its measure is the position
                complete, steps = shortest(counter.follow())
        else:
            return None
        if steps is None:
            return None
        match window:
            case t.TimeWindow(size):
                taken = ceil(Fraction(steps) * _SECOND / (self._per_second or 1))
                needed: t.Window = t.TimeWindow(min(taken, MAX_COUNT))
            case t.EventsWindow(size):
                taken, needed = steps, t.EventsWindow(steps)
            case t.AttributeWindow(size, attribute):
                taken, needed = steps, t.AttributeWindow(steps, attribute)
        unit = self._finer_unit(taken, size) if isinstance(window, t.TimeWindow) and complete else None
        return Length(print_window(needed), print_window(window), complete, taken <= size, unit)

    @property
    def _per_second(self) -> Fraction | None:
        kind = self._bound.time_type
        return None if kind is None else ticks(_SECOND, kind, self._bound.options.time_unit)

    def _number(self, key: Int64s) -> Any:
        assert self._bound.time_type is not None
        return _numbers(key, self._bound.time_type)[0].item()

    def _duration(self, number: Any) -> str:
        assert self._per_second is not None
        return print_window(t.TimeWindow(min(ceil(Fraction(number) * _SECOND / self._per_second), MAX_COUNT)))

    def _shown(self, key: Int64s) -> str:
        """A time as text; with a date, where a plain number means one."""
        kind, unit = self._bound.time_type, self._bound.options.time_unit
        assert kind is not None
        if pa.types.is_temporal(kind):
            text = str(time_of(key, kind))
            return text.rstrip("0").rstrip(".") if "." in text else text
        number = self._number(key)
        if unit is None:
            return f"{number}"
        date = _date(float(Fraction(number) / (self._per_second or 1)))
        return f"{number} {unit}" + (f" ({date})" if date is not None else "")

    def _wrong_unit(self) -> str | None:
        """What to say, if all times lie outside the years that people mean, and inside them by another unit."""
        per_second, kind = self._per_second, self._bound.time_type
        if per_second is None or kind is None or self._first is None or self._last is None:
            return None
        if not (pa.types.is_timestamp(kind) or not pa.types.is_temporal(kind)):
            return None
        low, high = (float(Fraction(self._number(key)) / per_second) for key in (self._first, self._last))
        if self._has_dates:
            return None
        for power in (3, -3, 6, -6, 9, -9):
            factor = 10.0**power
            if _is_meant(low * factor) and _is_meant(high * factor):
                unit = self._other_unit(power)
                remedy = f"pass time_unit='{unit}'" if unit else "the column was made with the wrong unit"
                return f"By another unit (off by 10^{abs(power)}) the times begin at {_date(low * factor)}: {remedy}."
        return None

    @property
    def _has_dates(self) -> bool:
        """Whether some time lies in a year that people mean."""
        per_second = self._per_second
        keys = [key for key in (self._first, self._last) if key is not None]
        return per_second is not None and any(_is_meant(float(Fraction(self._number(k)) / per_second)) for k in keys)

    def _other_unit(self, power: int) -> str | None:
        """The unit in which times are greater by a power of ten, for plain numbers."""
        unit = self._bound.options.time_unit
        if unit is None or pa.types.is_temporal(self._bound.time_type):
            return None
        place = TIME_UNITS.index(unit) - power // 3
        return TIME_UNITS[place] if 0 <= place < len(TIME_UNITS) else None

    def _finer_unit(self, taken: int, size: int) -> str | None:
        """The unit by which the shortest match fits into the window, if the one given is too coarse."""
        unit = self._bound.options.time_unit
        if unit is None or taken <= 100 * size or pa.types.is_temporal(self._bound.time_type) or self._has_dates:
            return None
        finer = TIME_UNITS[TIME_UNITS.index(unit) + 1 :]
        return next((u for k, u in enumerate(finer, 1) if taken <= size * 1000**k), None)


def _widest(window: t.Window | None) -> t.Window | None:
    match window:
        case t.EventsWindow():
            return t.EventsWindow(1 << 62)
        case t.TimeWindow():
            return t.TimeWindow(MAX_COUNT)
        case t.AttributeWindow(_, attribute):
            return t.AttributeWindow(1 << 62, attribute)
    return None


def _is_whole(type: pa.DataType) -> bool:
    """Whether differences of keys are differences of values."""
    return not pa.types.is_floating(type) and not pa.types.is_decimal(type)


def _numbers(keys: Int64s, type: pa.DataType) -> npt.NDArray[Any]:
    return keys if _is_whole(type) else decode(keys, type).cast(pa.float64()).to_numpy(zero_copy_only=False)


def time_of(key: Int64s, type: pa.DataType) -> Any:
    """The time as Python's own value, a timestamp as text. If Python knows no such time, text says what is known."""
    column = decode(key, type)
    try:
        if not pa.types.is_timestamp(type):
            return column[0].as_py()
        text = str(column[0])
    except KeyError:  # an unknown zone
        text = f"{column.cast(pa.timestamp(type.unit)).cast(pa.string())[0]} UTC"
    except (ValueError, OverflowError):
        text = _OUT_OF_RANGE
    # the year 20000
    return text if _OUT_OF_RANGE not in text else f"{key[0]} {getattr(type, 'unit', 'days')} after 1970"


def _is_meant(seconds: float) -> bool:
    return _MEANT[0] <= seconds <= _MEANT[1]


def _date(seconds: float) -> str | None:
    """The date of a moment, unless it is so near to 1970 that it is a duration, or beyond the calendar."""
    try:
        date = _EPOCH + timedelta(seconds=round(seconds))
    except OverflowError:
        return None
    return f"{date:%Y-%m-%d %H:%M:%S}" if abs(seconds) > _MEANT[0] / 10 else None


def _rate(events: int, seconds: float | None) -> str | None:
    """How many events come, by the least unit of time in which one does."""
    if not seconds or events < 2:
        return None
    for name, size in reversed(_UNITS):
        if events / seconds * size >= 1 or name == "day":
            rate = events / seconds * size
            return f"{rate:,.0f} per {name}" if rate >= 100 else f"{rate:.3g} per {name}"
    return None


def spelled(seconds: float) -> str:
    """A duration as people say it.

    >>> spelled(90), spelled(86_400 * 3), spelled(0.05)
    ('1.5 minutes', '3 days', '0.05 seconds')
    """
    name, size = next(((n, s) for n, s in _UNITS if seconds >= s), ("second", 1))
    count = f"{seconds / size:.4g}"
    return f"{count} {name}{'s' * (count != '1')}"
