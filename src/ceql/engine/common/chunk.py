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
    begins = np.cumsum([0, *(chunk.offsets[-1] for chunk in chunks)])
    offsets = np.concatenate([begins[:1], *(b + chunk.offsets[1:] for b, chunk in zip(begins, chunks, strict=False))])

    def column(name: str) -> Any:
        parts = [getattr(chunk, name) for chunk in chunks]
        return None if parts[0] is None else np.concatenate(parts)

    names = ("start", "end", "positions", "labels", "partition", "start_time", "end_time")
    return Chunk(offsets=offsets, **{name: column(name) for name in names})


def rows(chunk: Chunk, order: Array) -> Chunk:
    """These matches of a chunk, in this order."""
    lengths = np.diff(chunk.offsets)
    if len(lengths) and (lengths == lengths[0]).all():
        length = int(lengths[0])
        offsets = length * np.arange(len(order) + 1, dtype=np.int64)
        entries = np.add.outer(length * order, np.arange(length)).ravel()
    else:
        lengths = lengths[order]
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


def part(chunk: Chunk, begin: int, end: int) -> Chunk:
    """These neighbouring matches of a chunk, not copied."""
    first, last = chunk.offsets[begin], chunk.offsets[end]
    return Chunk(
        start=chunk.start[begin:end],
        end=chunk.end[begin:end],
        offsets=chunk.offsets[begin : end + 1] - first,
        positions=chunk.positions[first:last],
        labels=chunk.labels[first:last] if len(chunk.labels) else chunk.labels,
        partition=None if chunk.partition is None else chunk.partition[begin:end],
        start_time=None if chunk.start_time is None else chunk.start_time[begin:end],
        end_time=None if chunk.end_time is None else chunk.end_time[begin:end],
    )


def in_order(places: Array) -> Array:
    """What puts positions of a batch in order, and leaves equal ones as they are.

    They are near one another, so that entering each in a table is cheaper than sorting, where no two are equal.
    """
    if not len(places):
        return places
    first = places.min()
    entered: Array = np.full(int(places.max() - first) + 1, -1, np.int64)
    entered[places - first] = np.arange(len(places))
    order: Array = entered[entered >= 0]
    return order if len(order) == len(places) else np.argsort(places, kind="stable")


def by_start(chunk: Chunk) -> Chunk:
    """Later starts first."""
    return rows(chunk, np.argsort(-chunk.start, kind="stable"))


def by_end(chunk: Chunk) -> Chunk:
    """Earlier ends first; those of one end keep their order."""
    return rows(chunk, np.argsort(chunk.end, kind="stable"))


def head(chunk: Chunk, count: int) -> Chunk:
    """The first matches."""
    return chunk if len(chunk.start) <= count else part(chunk, 0, count)
