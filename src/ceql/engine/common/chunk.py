"""A bounded batch of matches as arrays, straight from the engine's buffers."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ceql.jit import Array

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]


class Chunk(NamedTuple):
    """Matches 0 to m-1; match i has the events `positions[offsets[i]:offsets[i + 1]]` with as many `labels`
    (none, where the automaton knows that all matches have the same).

    The arrays are handed over, not lent: results keep them without a copy, so the engine must not write to
    them again. `partition[i]` is a substream's number; times are keys as of `ceql.io.sort_keys.encode`.
    """

    start: Int64s
    end: Int64s
    offsets: Int64s
    positions: Int64s
    labels: Int32s
    partition: Int64s | None = None
    start_time: Int64s | None = None
    end_time: Int64s | None = None


def size(chunk: Chunk) -> int:
    """The bytes of its arrays."""
    return sum(int(array.nbytes) for array in chunk if array is not None)


def joined(chunks: list[Chunk]) -> Chunk:
    """One chunk of all."""
    if len(chunks) == 1:
        return chunks[0]
    lengths = [np.diff(chunk.offsets) for chunk in chunks]
    offsets = np.concatenate([[0], np.cumsum(np.concatenate(lengths))]).astype(np.int64)

    def column(name: str) -> Any:
        parts = [getattr(chunk, name) for chunk in chunks]
        return None if parts[0] is None else np.concatenate(parts)

    names = ("start", "end", "positions", "labels", "partition", "start_time", "end_time")
    return Chunk(offsets=offsets, **{name: column(name) for name in names})


def rows(chunk: Chunk, order: Array) -> Chunk:
    """These matches of a chunk, in this order."""
    lengths = np.diff(chunk.offsets)[order]
    offsets = np.zeros(len(order) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    entries = np.arange(offsets[-1]) + np.repeat(chunk.offsets[:-1][order] - offsets[:-1], lengths)
    return Chunk(
        start=chunk.start[order],
        end=chunk.end[order],
        offsets=offsets,
        positions=chunk.positions[entries],
        labels=chunk.labels[entries] if len(chunk.labels) else chunk.labels,
        partition=None if chunk.partition is None else chunk.partition[order],
        start_time=None if chunk.start_time is None else chunk.start_time[order],
        end_time=None if chunk.end_time is None else chunk.end_time[order],
    )


def by_start(chunk: Chunk) -> Chunk:
    """Later starts first."""
    return rows(chunk, np.argsort(-chunk.start, kind="stable"))


def by_end(chunk: Chunk) -> Chunk:
    """Earlier ends first; those of one end keep their order."""
    return rows(chunk, np.argsort(chunk.end, kind="stable"))


def head(chunk: Chunk, count: int) -> Chunk:
    """The first matches."""
    return chunk if len(chunk.start) <= count else rows(chunk, np.arange(count))
