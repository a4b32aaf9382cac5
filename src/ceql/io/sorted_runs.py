"""Sorted runs: events of one stream in order of time. Merges runs into batches of bounded size."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ceql.io.schemas import conform, take_rows
from ceql.io.sort_keys import Int64s, encode
from ceql.jit import kernel

PIECE_ROWS = 1 << 16
ENDED = (1 << 63) - 1
BELOW_ALL = -(1 << 63) - 1
"""A limit below every key."""
_SMALL_RUN = 1 << 13


@kernel
def in_order(keys: Int64s) -> bool:
    """Whether the keys never decrease."""
    falls = 0
    for i in range(1, len(keys)):
        falls += keys[i] < keys[i - 1]
    return falls == 0


class EventBatch(NamedTuple):
    """Events in time order, and the index of their stream: one for all rows, or one for each."""

    data: pa.RecordBatch
    stream: int | npt.NDArray[np.int32]
    until: int | None = None
    """The key of a time before which no event will come after these, where that is known; ENDED: none will come."""
    skipped: int = 0
    """How many events were left out before these, since they satisfy no guard."""
    times: Int64s | None = None
    """The keys of their times, where whoever put them in order had worked them out."""

    def keys(self, time: str) -> Int64s:
        """The keys of their times, which are in this column."""
        return self.times if self.times is not None else encode(self.data.column(time), time)

    def slice(self, first: int, count: int | None = None) -> EventBatch:
        """These events of the batch; without `count`, all from the first on."""
        rows = slice(first, None if count is None else first + count)
        return EventBatch(
            self.data.slice(first, count),
            self.stream if isinstance(self.stream, int) else self.stream[rows],
            times=self.times[rows] if self.times is not None else None,
        )


class SortedRun(NamedTuple):
    """Rows of one stream by time, ties in order of arrival, with their sort keys."""

    data: pa.RecordBatch
    keys: Int64s

    @classmethod
    def sorted(cls, data: pa.RecordBatch, keys: Int64s) -> SortedRun:
        """The run of these rows, which are in order of arrival."""
        if (keys[1:] >= keys[:-1]).all():
            return cls(data, keys)
        order = np.argsort(keys, kind="stable")
        return cls(take_rows(data, pa.array(order)), keys[order])

    def slice(self, start: int, stop: int) -> SortedRun:
        return SortedRun(self.data.slice(start, stop - start), self.keys[start:stop])

    def ready(self, limit: int | None) -> int:
        """How many rows have a key of at most `limit` (None: no limit)."""
        if limit is None:
            return len(self.keys)
        if limit <= BELOW_ALL:
            return 0
        return int(np.searchsorted(self.keys, limit, side="right"))


def merge_small_runs(runs: list[SortedRun], schema: pa.Schema) -> None:
    """Merges the youngest runs while they are small, so that events pushed one by one do not pile up as runs.

    Only runs of similar size are merged, so that each row is copied a logarithmic number of times.
    """
    while len(runs) > 1 and len(runs[-2].keys) <= 2 * len(runs[-1].keys) and len(runs[-2].keys) < _SMALL_RUN:
        young, old = runs.pop(), runs.pop()
        data = _concat([old.data, young.data], schema)
        runs.append(SortedRun.sorted(data, np.concatenate([old.keys, young.keys])))


def release_limits(bounds: list[int | None]) -> list[int | None]:
    """For each stream, the greatest key that can go out if stream s may still bring keys from `bounds[s]` on.

    A bound of None stands for a stream that has ended, a limit of None for no limit.
    A row waits while an earlier stream may still bring a row of the same key.

    >>> release_limits([5, 5]), release_limits([7, 5]), release_limits([5, None])
    ([5, 4], [5, 5], [5, 4])
    """
    limits: list[int | None] = []
    for stream in range(len(bounds)):
        below = [bound - 1 for bound in bounds[:stream] if bound is not None]
        limits.append(min(below + [bound for bound in bounds[stream:] if bound is not None], default=None))
    return limits


def merge_runs(parts: list[tuple[int, SortedRun]], schema: pa.Schema) -> list[EventBatch]:
    """The rows of `parts` (stream and run, by stream and then arrival) by time, ties in the order of `parts`.

    Parts are sorted, so a piece of the result takes one contiguous slice of each part. Pieces are copied one at a time;
    a piece of one part is not copied at all.
    """
    if not parts:
        return []
    lengths = [len(run.keys) for _, run in parts]
    total = sum(lengths)
    if len(parts) == 1:
        owner = np.zeros(total, np.int64)
    else:
        order = np.argsort(np.concatenate([run.keys for _, run in parts]), kind="stable")
        owner = np.repeat(np.arange(len(parts)), lengths)[order]
    taken = [0] * len(parts)
    out = []
    for cut_from, cut_to in _cuts(owner):
        counts = np.bincount(owner[cut_from:cut_to], minlength=len(parts))
        slices, streams = [], []
        for part in np.flatnonzero(counts).tolist():
            stop = taken[part] + int(counts[part])
            slices.append(parts[part][1].slice(taken[part], stop))
            streams.append(parts[part][0])
            taken[part] = stop
        out.append(_merge_piece(slices, streams, schema))
    return out


def _cuts(owner: Int64s) -> list[tuple[int, int]]:
    """Where to cut the merged rows: after at most PIECE_ROWS, and where long stretches of one part begin and end."""
    changes = np.flatnonzero(owner[1:] != owner[:-1]) + 1
    edges = np.concatenate([[0], changes, [len(owner)]])
    long = np.flatnonzero(np.diff(edges) >= PIECE_ROWS // 4)
    marks = sorted({0, len(owner), *edges[long].tolist(), *edges[long + 1].tolist()})
    cuts = []
    for start, stop in pairwise(marks):
        cuts += [(i, min(i + PIECE_ROWS, stop)) for i in range(start, stop, PIECE_ROWS)]
    return cuts


def _merge_piece(slices: list[SortedRun], streams: list[int], schema: pa.Schema) -> EventBatch:
    if len(slices) == 1:
        return EventBatch(conform(slices[0].data, schema), streams[0], times=slices[0].keys)
    keys = np.concatenate([run.keys for run in slices])
    order = np.argsort(keys, kind="stable")
    data = _concat([run.data for run in slices], schema)
    stream: int | npt.NDArray[np.int32] = streams[0]
    if len(set(streams)) > 1:
        stream = np.repeat(np.array(streams, np.int32), [len(run.keys) for run in slices])[order]
    return EventBatch(take_rows(data, pa.array(order)), stream, times=keys[order])


def _concat(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    return pa.concat_batches([conform(batch, schema) for batch in batches])
