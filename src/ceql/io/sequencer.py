"""The sequencer: puts the events of each stream in time order, as far as the lateness allows, and merges the streams.

In: batches of streams as they arrive. Out: batches in which time never goes back. Both rules look at single rows,
so the result does not depend on how rows are cut into batches:

- A row is *late* if its time is below the greatest time that its stream had before it, less the lateness. Late rows are
  set aside, never dropped in silence.
- The other rows come out by time, then stream, then arrival. A row is released once no row that may still come can
  precede it. A row that stream s may still bring has at least `bound[s]`, the stream's greatest time less the lateness;
  at equal times the earlier stream goes first. A stream that has brought no row yet holds back all others.

Buffered rows are sorted runs. A release takes a prefix of each run and merges these piece by piece.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ceql.errors import DataError, ResourceError, SchemaError
from ceql.io import sort_keys
from ceql.io.growing import Growing
from ceql.io.schemas import changed, conform, no_rows, take_rows, unify_types, wide_codes
from ceql.io.sort_keys import Int64s
from ceql.io.sorted_runs import BELOW_ALL, EventBatch, SortedRun, in_order, merge_runs, merge_small_runs, release_limits
from ceql.io.source import Source
from ceql.io.times import called, time_keys

_log = logging.getLogger(__name__)
_STATE_VERSION = 1


class Sequencer:
    """Reorders and merges streams. `lateness` is in the unit of the column `time`."""

    def __init__(
        self,
        streams: Sequence[str | None],
        time: str | None,
        lateness: Fraction | int = 0,
        max_buffered_rows: int = 50_000_000,
    ):
        if time is None and len(streams) > 1:
            raise SchemaError("merging streams needs a time column")
        if lateness < 0:
            raise ValueError("lateness must not be negative")
        self.streams = tuple(streams)
        self.time = time
        self.lateness = Fraction(lateness)
        self.max_buffered_rows = max_buffered_rows
        self.late_rows = 0
        self._runs: list[list[SortedRun]] = [[] for _ in streams]
        self._greatest: list[int | None] = [None] * len(self.streams)
        self._floor: int | None = None  # the key of a time before which no row comes any more
        self._closed = [False] * len(self.streams)
        self._seen = [0] * len(self.streams)
        self._late = Growing[tuple[int, pa.RecordBatch]]()
        self._late_kept = 0
        self._schema = pa.schema([])
        self._first_stream: dict[str, int] = {}
        self._time_type: pa.DataType | None = None

    def copy(self) -> Sequencer:
        """The same, which can take rows in while this one stays as it is; this one must take none in any more."""
        other = Sequencer.__new__(Sequencer)
        other.__dict__.update(self.__dict__)
        other._runs = [runs.copy() for runs in self._runs]
        other._closed, other._seen = self._closed.copy(), self._seen.copy()
        return other

    @property
    def seen_rows(self) -> int:
        """How many rows have come."""
        return sum(self._seen)

    @property
    def buffered_rows(self) -> int:
        """How many rows are held back."""
        return sum(len(run.keys) for runs in self._runs for run in runs)

    @property
    def late_kept(self) -> int:
        """How many late rows are kept."""
        return self._late_kept

    def greatest(self, stream: int) -> int | None:
        """The key of the greatest time of `stream` so far; None before its first event."""
        return self._greatest[stream]

    def push(self, batch: pa.RecordBatch, stream: int = 0) -> list[EventBatch]:
        """Takes in rows of one stream; returns the rows that can now go out. An error leaves the state as it was."""
        if self._closed[stream]:
            raise DataError(f"{self._called(stream)} is finished and takes no more events")
        if self.time is None:
            self._schema = self._schema if self._schema.names else batch.schema
            self._seen[stream] += batch.num_rows
            return [EventBatch(batch, stream)] if batch.num_rows else []
        schema, first_stream = self._merged_schema(batch.schema, stream)
        if not batch.num_rows:
            self._schema, self._first_stream = schema, first_stream
            return []
        name, seen = self._called(stream), self._seen[stream]
        batch, keys, type = time_keys(batch, self.time, self._time_type, name, seen)
        before = self._greatest[stream]
        late = self._late_mask(keys, before, type)
        greatest = self._greatest.copy()
        highest = int(keys[-1]) if late is None and not self.lateness else int(keys.max())
        greatest[stream] = highest if before is None else max(before, highest)

        on_time, on_time_keys = batch, keys
        if late is not None:
            on_time, on_time_keys = take_rows(batch, pa.array(np.flatnonzero(~late))), keys[~late]
        # without lateness, the rows of a lone stream are in order once the late ones are out: none waits
        direct = len(self.streams) == 1 and not self.lateness
        limits: list[int | None] = []
        if late is not None or not direct:
            limits = self._limits(greatest, type)
            self._check_room(len(keys) - len(on_time_keys), None if direct else (stream, on_time_keys), limits)

        self._greatest, self._time_type = greatest, type
        self._schema, self._first_stream = schema, first_stream
        self._seen[stream] += batch.num_rows
        if late is not None:
            self._late = self._late.plus((stream, take_rows(batch, pa.array(np.flatnonzero(late)))))
            self._late_kept += len(keys) - len(on_time_keys)
            self.late_rows += len(keys) - len(on_time_keys)
            _log.info("%s: %d of %d events came too late", name, len(keys) - len(on_time_keys), len(keys))
        if direct:
            return [EventBatch(on_time, stream, times=on_time_keys)] if on_time.num_rows else []
        if len(on_time_keys):
            self._runs[stream].append(SortedRun.sorted(on_time, on_time_keys))
            merge_small_runs(self._runs[stream], schema)
        return self._release(limits)

    def key(self, time: Any) -> int:
        """The sort key of a time, which must be of the type that times have."""
        if self.time is None or self._time_type is None:
            raise DataError("there is no time to move on: no event with a time has come")
        try:
            value = pa.array([time], self._time_type)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
            raise DataError(f"{time!r} is no time like those of the events ({self._time_type}): {error}") from error
        if value.null_count:
            raise DataError("NULL is no time")
        return int(sort_keys.encode(value, self.time)[0])

    def advance(self, key: int) -> list[EventBatch]:
        """Says that no row before the time of this key will come; rows that do are late."""
        self._floor = key if self._floor is None else max(self._floor, key)
        return self._release(self._limits(self._greatest, self._time_type))

    def close(self, stream: int) -> list[EventBatch]:
        """Ends `stream`, which holds back the others no longer."""
        self._closed[stream] = True
        return self._release(self._limits(self._greatest, self._time_type))

    def finish(self) -> list[EventBatch]:
        """Ends all streams and returns the rows that are still buffered."""
        self._closed = [True] * len(self.streams)
        return self._release([None] * len(self.streams))

    def late(self, clear: bool = False) -> pa.Table:
        """The late rows in order of arrival. If there are several streams, the column `stream` names each row's.

        Late rows count towards `max_buffered_rows` until they are taken with `clear`.
        """
        batches = [conform(batch, self._schema) for _, batch in self._late]
        table = pa.Table.from_batches(batches, self._schema)
        if len(self.streams) > 1:
            name = "stream"
            while name in self._schema.names:
                name += "_"
            names = np.repeat([stream for stream, _ in self._late], [b.num_rows for b in batches]).astype(np.int64)
            table = table.append_column(name, pa.array(self.streams, pa.string()).take(pa.array(names)))
        if clear:
            self._late, self._late_kept = Growing(), 0
        return table

    def state(self) -> tuple[dict[str, Any], list[pa.RecordBatch]]:
        """For a snapshot: a header that JSON can hold, and batches of one schema, of which the first is empty."""
        runs = [(stream, run.data) for stream, own in enumerate(self._runs) for run in own]
        header = {
            "version": _STATE_VERSION,
            "streams": list(self.streams),
            "time": self.time,
            "lateness": str(self.lateness),
            "max_buffered_rows": self.max_buffered_rows,
            "late_rows": self.late_rows,
            "greatest": self._greatest,
            "floor": self._floor,
            "closed": self._closed,
            "seen": self._seen,
            "said_by": self._first_stream,
            "runs": [stream for stream, _ in runs],
            "late": [stream for stream, _ in self._late],
        }
        kept = [data for _, data in [*runs, *self._late]]
        empty = no_rows(self._schema)
        return header, [empty] + [conform(data, self._schema) for data in kept]

    @classmethod
    def from_state(cls, header: dict[str, Any], batches: Sequence[pa.RecordBatch]) -> Sequencer:
        """A sequencer that continues as the one whose `state` this is. `DataError` if it makes no sense."""
        if header.get("version") != _STATE_VERSION:
            raise DataError(f"the sequencer's state has version {header.get('version')}, not {_STATE_VERSION}")
        if not re.fullmatch(r"\d{1,40}(/\d{1,40})?", header["lateness"]):
            raise DataError("the snapshot is damaged: its lateness is no number")
        self = cls(header["streams"], header["time"], Fraction(header["lateness"]), header["max_buffered_rows"])
        self.late_rows = header["late_rows"]
        self._greatest, self._closed = list(header["greatest"]), list(header["closed"])
        self._floor = header.get("floor")
        self._seen = list(header["seen"])
        self._schema, self._first_stream = batches[0].schema, dict(header["said_by"])
        if any(greatest is not None for greatest in self._greatest):
            self._time_type = self._schema.field(self.time).type
        split = 1 + len(header["runs"])
        for stream, data in zip(header["runs"], batches[1:split], strict=True):
            self._runs[stream].append(SortedRun(data, sort_keys.encode(data.column(self.time), str(self.time))))
        self._late = Growing(list(zip(header["late"], batches[split:], strict=True)))
        self._late_kept = sum(data.num_rows for _, data in self._late)
        self._check()
        return self

    def _check(self) -> None:
        """Refuse a state that no sequencer comes to."""
        lists = (self._greatest, self._closed, self._seen)
        greatest = [key for key in [*self._greatest, self._floor] if key is not None]
        counts = [*self._seen, self.late_rows, self.max_buffered_rows]
        streams = [*(stream for stream, _ in self._late), *self._first_stream.values()]
        sound = (
            all(len(own) == len(self.streams) for own in lists)
            and all(type(n) is int and 0 <= n < 1 << 62 for n in counts)
            and all(type(key) is int and -(1 << 63) <= key < 1 << 63 for key in greatest)
            and all(type(closed) is bool for closed in self._closed)
            and all(type(stream) is int and 0 <= stream < len(self.streams) for stream in streams)
            and all(name in self._schema.names for name in self._first_stream)
            and all(in_order(run.keys) for runs in self._runs for run in runs)
            and not any(run.data.column(self.time).null_count for runs in self._runs for run in runs)
        )
        if not sound:
            raise DataError("the snapshot is damaged: its waiting events make no sense")

    def _late_mask(self, keys: Int64s, before: int | None, type: pa.DataType) -> npt.NDArray[np.bool_] | None:
        """Which rows are late; None if none is."""
        floor = self._floor
        if (before is None or keys[0] >= before) and in_order(keys) and (floor is None or keys[0] >= floor):
            return None
        running = np.empty_like(keys)
        running[0] = keys[0] if before is None else before
        running[1:] = keys[:-1]
        running = np.maximum.accumulate(running)
        late = keys < self._bounds(running, type)
        if floor is not None:
            late |= keys < floor
        return late if late.any() else None

    def _bounds(self, keys: Int64s, type: pa.DataType) -> Int64s:
        return sort_keys.bounds(keys, type, self.lateness) if self.lateness else keys

    def _limits(self, greatest: list[int | None], type: pa.DataType | None) -> list[int | None]:
        """For each stream, the greatest key that can go out; None if all can."""
        bounds: list[int | None] = []
        for key, closed in zip(greatest, self._closed, strict=True):
            if closed:
                bounds.append(None)
            else:
                known = key is not None and type is not None
                bound = int(self._bounds(np.array([key], np.int64), type)[0]) if known else BELOW_ALL
                bounds.append(bound if self._floor is None else max(bound, self._floor))
        return release_limits(bounds)

    def _check_room(self, late: int, new: tuple[int, Int64s] | None, limits: list[int | None]) -> None:
        """Raises a ResourceError if more rows than allowed would be held after this push."""
        held = self._late_kept + late
        if held + self.buffered_rows + (len(new[1]) if new else 0) <= self.max_buffered_rows:
            return
        for runs, limit in zip(self._runs, limits, strict=True):
            held += sum(len(run.keys) - run.ready(limit) for run in runs)
        if new is not None:
            limit = limits[new[0]]
            held += 0 if limit is None else int((new[1] > limit).sum())
        if held > self.max_buffered_rows:
            silent = [self._called(s) for s, key in enumerate(self._greatest) if key is None and not self._closed[s]]
            cause = f"{silent[0]} has brought no event yet; close it" if silent else "use a smaller lateness"
            raise ResourceError(
                f"{held} rows would wait for their turn, and max_buffered_rows is {self.max_buffered_rows}: {cause}, "
                "take the late rows out, or raise the limit",
                limit="max_buffered_rows",
            )

    def _release(self, limits: list[int | None]) -> list[EventBatch]:
        parts: list[tuple[int, SortedRun]] = []
        for stream, limit in enumerate(limits):
            kept = []
            for run in self._runs[stream]:
                ready = run.ready(limit)
                if ready:
                    parts.append((stream, run.slice(0, ready)))
                if ready < len(run.keys):
                    kept.append(run.slice(ready, len(run.keys)))
            self._runs[stream] = kept
        return merge_runs(parts, self._schema)

    def _merged_schema(self, schema: pa.Schema, stream: int) -> tuple[pa.Schema, dict[str, int]]:
        """The columns so far and those of this batch, and which stream had each of them first."""
        if schema.equals(self._schema):
            return self._schema, self._first_stream
        types = {field.name: field.type for field in self._schema}
        first_stream = self._first_stream.copy()
        for field in schema:
            before = types.get(field.name, wide_codes(field.type))
            both = before if field.name == self.time else unify_types(before, wide_codes(field.type))
            if both is None:
                if first_stream[field.name] == stream:
                    raise DataError(changed(field.name, before, field.type))
                first, here = self._called(first_stream[field.name]), self._called(stream)
                raise SchemaError(f"column '{field.name}' is {before} in {first} but {field.type} in {here}")
            types[field.name] = both
            first_stream.setdefault(field.name, stream)
        return pa.schema(list(types.items())), first_stream

    def _called(self, stream: int) -> str:
        name = self.streams[stream]
        return called(name) if name or len(self.streams) == 1 else f"stream {stream}"


def merge_sources(
    sources: Sequence[Source], sequencer: Sequencer, columns: Sequence[str] | None = None
) -> Iterator[EventBatch]:
    """All events of `sources` in order. Always reads from the source that is furthest behind, so that few rows wait."""
    reading = {stream: source.batches(columns) for stream, source in enumerate(sources)}
    while reading:
        stream = min(reading, key=lambda s: (sequencer.greatest(s) is not None, sequencer.greatest(s) or 0, s))
        batch = next(reading[stream], None)
        if batch is None:
            del reading[stream]
            yield from sequencer.close(stream)
        else:
            yield from sequencer.push(batch, stream)
    yield from sequencer.finish()
