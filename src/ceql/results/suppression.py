"""Suppresses alerts: of a rule and a key, so many matches are kept in a period; how many were not is told later.

The first match of a key opens a period, which begins at the end of that match; `n` matches are kept in it, those that
come first. The next match after it opens another. Only times of events decide, so that the same matches are kept in
every run, batching and process. A match that is kept comes out at once, and nobody knows then how many will follow. So
the column `suppressed` has, for each kept match, how many of its rule and key were suppressed since the one kept before
it, if that was in the period before or the one before that: older ones are forgotten, else keys would be kept for ever.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ceql.errors import ArgumentError, DataError, SchemaError
from ceql.io.schemas import one_batch
from ceql.io.sort_keys import encode, ticks
from ceql.jit import Array
from ceql.recognition import snapshot
from ceql.recognition.options import duration
from ceql.results.combined import key_fields
from ceql.results.match_ids import digests
from ceql.results.match_set import MatchSet
from ceql.results.matches import Matches

_FORM = re.compile(r"\s*(\d+)\s+(?:per|PER)\s+(.+)")
_UNITS = re.compile(r"(?:a |an |one )?(second|minute|hour|day|week)", re.IGNORECASE)
_KIND = "suppression"
_COLUMNS = 5  # of a state: two words of the key's digest, the period's begin, kept, suppressed


def read_limit(text: str) -> tuple[int, int]:
    """How many matches are kept in a period, and its nanoseconds.

    >>> read_limit("1 per hour"), read_limit("3 per 10 minutes")
    ((1, 3600000000000), (3, 600000000000))
    """
    found = _FORM.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise ArgumentError(
            f"suppress= is a number and a period, such as '1 per hour' or '3 per 10 minutes', not {text!r}"
        )
    period = found[2].strip()
    try:
        nanoseconds = duration(f"1 {period.split()[-1]}" if _UNITS.fullmatch(period) else period)
    except ValueError as error:
        raise ArgumentError(f"suppress={text!r}: {error}") from error
    if int(found[1]) < 1 or nanoseconds <= 0:
        raise ArgumentError(f"suppress={text!r} keeps nothing: the number and the period are at least 1")
    return int(found[1]), int(nanoseconds)


class Periods:
    """The periods of one rule, by key. Times are in the unit of `period`."""

    def __init__(self, count: int, period: int) -> None:
        self.count = count
        self.period = period
        self._open: dict[bytes, list[int]] = {}  # by key: the begin, how many are kept, how many suppressed

    def keep(self, keys: Array, times: Array) -> tuple[Array, Array]:
        """Which matches are kept, and how many were suppressed before each of these; they come in their order."""
        kept, before = np.zeros(len(times), np.bool_), list[int]()
        for row, (key, time) in enumerate(zip(keys.tolist(), times.tolist(), strict=True)):
            known = self._open.get(key)
            if known is None or time >= known[0] + self.period:
                told = known[2] if known is not None and time < known[0] + 2 * self.period else 0
                self._open[key] = [time, 1, 0]
            elif known[1] < self.count:
                told, known[2] = known[2], 0
                known[1] += 1
            else:
                known[2] += 1
                continue
            kept[row] = True
            before.append(told)
        return kept, np.array(before, np.int64)

    def forget(self, time: int) -> None:
        """Forget the periods that no match from this time on asks for."""
        over = time - 2 * self.period
        self._open = {key: own for key, own in self._open.items() if own[0] > over}

    @property
    def over_at(self) -> int | None:
        """The time from which on some period is over; None if there is none."""
        return min((own[0] for own in self._open.values()), default=None)

    @property
    def is_idle(self) -> bool:
        """Whether no period is open."""
        return not self._open

    def state(self) -> Array:
        """The open periods as numbers."""
        words = np.frombuffer(b"".join(self._open), np.int64).reshape(-1, 2)
        return np.hstack([words, np.array(list(self._open.values()), np.int64).reshape(-1, 3)])

    def restore(self, state: Array) -> None:
        """Go on from a `state`."""
        if state.ndim != 2 or state.shape[1] != _COLUMNS:
            raise DataError("the snapshot is damaged: its suppressed matches are no table")
        words = np.ascontiguousarray(state[:, :2])
        self._open = {row.tobytes(): own for row, own in zip(words, state[:, 2:].tolist(), strict=True)}


def keys_of(columns: Sequence[pa.Array], rows: int) -> Array:
    """What tells the keys of matches, which may have any types."""
    if not columns:
        return np.zeros(rows, "V16")
    return digests(pa.table(list(columns), names=[str(k) for k in range(len(columns))]))


class Suppression:
    """Keeps so many matches of each rule and key in a period: `Suppression("1 per hour").of(matches)`.

    It remembers what it has kept, so that the matches of feeds may be given to it one after another. `per` is for all
    queries, or by name.

    >>> import ceql
    >>> alerts = Suppression("1 per minute")
    >>> events = [{"type": "A", "time": at} for at in (0, 10, 20, 70)]
    >>> matches = ceql.match("SELECT * WHERE A", events, time_unit="s")
    >>> alerts.of(matches, time_unit="s").select(["end", "suppressed"]).to_pylist()
    [{'end': 0, 'suppressed': 0}, {'end': 3, 'suppressed': 2}]
    """

    def __init__(self, per: str | Mapping[str, str]) -> None:
        self._per = dict(per) if isinstance(per, Mapping) else per
        for text in per.values() if isinstance(per, Mapping) else [per]:
            read_limit(text)
        self._periods: dict[str, Periods] = {}

    def of(self, matches: Matches | MatchSet, time_unit: str | None = None) -> pa.Table:
        """The matches that are kept, with a column `suppressed` after their own; `time_unit` as matches had it."""
        batch = one_batch(matches.to_arrow())
        if "end_time" not in batch.schema.names:
            raise SchemaError("matches are suppressed by time, and these have none: pass time=, the column of times")
        several, rows = isinstance(matches, MatchSet), batch.num_rows
        names = batch.column("query").to_pylist() if several else [""] * rows
        end = batch.column("end_time")
        times = encode(end, "end_time")
        fields = key_fields(pa.schema(list(batch.schema)[several:]))  # the first column of a set is its query's name
        keys = keys_of([batch.column(field.name) for field in fields], rows)
        kept, told = np.ones(rows, np.bool_), np.zeros(rows, np.int64)
        of_name = np.array(names, object)
        for name in dict.fromkeys(names):
            periods = self._of(name, end.type, time_unit)
            if periods is None:
                continue
            mine = np.flatnonzero(of_name == name)
            ours, before = periods.keep(keys[mine], times[mine])
            kept[mine] = ours
            told[mine[ours]] = before
        shown = pa.Table.from_batches([batch]).append_column("suppressed", pa.array(told))
        return shown.filter(pa.array(kept))

    def _of(self, name: str, type: pa.DataType, unit: str | None) -> Periods | None:
        text = self._per if isinstance(self._per, str) else self._per.get(name)
        if text is None:
            return None
        if name not in self._periods:
            count, nanoseconds = read_limit(text)
            self._periods[name] = Periods(count, period_in(nanoseconds, type, unit))
        return self._periods[name]

    def snapshot(self) -> bytes:
        """What it remembers, as bytes."""
        names = list(self._periods)
        arrays = {str(k): self._periods[name].state() for k, name in enumerate(names)}
        lengths = [[self._periods[name].count, self._periods[name].period] for name in names]
        return snapshot.write(
            {"kind": _KIND, "per": json.dumps(self._per), "names": names, "lengths": lengths}, arrays, {}
        )

    @classmethod
    def restored(cls, blob: bytes) -> Suppression:
        """Go on from a snapshot."""
        header, arrays, _ = snapshot.read(blob)
        with snapshot.guarded():
            if header.get("kind") != _KIND:
                raise DataError("the snapshot is not that of a Suppression")
            self = cls(json.loads(header["per"]))
            for k, (name, (count, period)) in enumerate(zip(header["names"], header["lengths"], strict=True)):
                self._periods[name] = Periods(count, period)
                self._periods[name].restore(arrays[str(k)])
            return self


def period_in(nanoseconds: int, type: pa.DataType, unit: str | None) -> int:
    """A period in the unit of a column of times, rounded up."""
    if pa.types.is_floating(type):
        raise SchemaError("matches are suppressed by times that are timestamps, dates or whole numbers, not floats")
    converted: Any = ticks(nanoseconds, type, unit)
    if converted is None:
        raise SchemaError(f"times are plain numbers ({type}): say their unit with time_unit='s', 'ms', 'us' or 'ns'")
    return max(1, -int(-converted // 1))
