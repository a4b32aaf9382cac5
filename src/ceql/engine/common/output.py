"""The output buffers: how they are made, grown, and handed out as chunks."""

from __future__ import annotations

import numpy as np

from ceql.engine.common.chunk import Chunk
from ceql.engine.common.layout import END, END_TIME, MATCHES, OFFSET, PARTITION, POSITIONS, START, START_TIME, Output
from ceql.jit import Array

DEPTH = 256  # of the search, at first
APART = 136  # words by which rows differ from a power of two: the processor takes addresses 4096 bytes apart for equal


def make_output(matches: int, positions: int, timed: bool, stack: int) -> Output:
    """Buffers for so many matches and positions; `stack` is the number of its columns."""
    return Output(
        match=_no_matches(6 if timed else 4, matches + 1),
        position=np.empty(positions, np.int64),
        label=np.empty(positions, np.int32),
        stack=np.zeros((DEPTH, stack), np.int64),
        path=np.zeros((DEPTH, 2), np.int64),
        spare=np.empty((6, max(matches, positions) + APART), np.int64),
    )


def _no_matches(rows: int, room: int) -> Array:
    match: Array = np.empty((rows, room), np.int64)
    match[OFFSET, 0] = 0
    return match


def take_chunk(out: Output, regs: Array, labelled: bool = True) -> tuple[Output, Chunk | None]:
    """The matches in the buffers, and buffers to go on with.

    Buffers that are more than half full are handed over instead of copied.
    """
    m, e = int(regs[MATCHES]), int(regs[POSITIONS])
    if m == 0:
        return out, None
    regs[MATCHES] = regs[POSITIONS] = 0
    match, position, label = out.match, out.position, out.label
    if 2 * m > match.shape[1] or 2 * e > len(position):
        out = out._replace(
            match=_no_matches(*match.shape), position=np.empty_like(position), label=np.empty_like(label)
        )
    else:
        match, position, label = match[:, : m + 1].copy(), position[:e].copy(), label[:e].copy()
    timed = len(match) > START_TIME
    return out, Chunk(
        start=match[START, :m],
        end=match[END, :m],
        offsets=match[OFFSET, : m + 1],
        positions=position[:e],
        labels=label[: e if labelled else 0],
        partition=match[PARTITION, :m],
        start_time=match[START_TIME, :m] if timed else None,
        end_time=match[END_TIME, :m] if timed else None,
    )


def grow_search(out: Output) -> Output:
    """Room for longer matches and a deeper search."""
    return out._replace(stack=_twice(out.stack, 0), path=_twice(out.path, 0))


def grow_positions(out: Output) -> Output:
    """Room for a match that is longer than the buffers."""
    return out._replace(position=_twice(out.position), label=_twice(out.label), spare=_twice(out.spare))


def _twice(array: Array, axis: int = -1) -> Array:
    return np.concatenate([array, np.zeros_like(array)], axis=axis)
