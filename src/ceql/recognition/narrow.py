"""The arrays of a state in as few bytes as their values need: 64-bit integers in, columns of narrow ones out, and back.

A state is written after every micro-batch, and its bytes pass through sockets, checksums and Spark's store, which cost
more than the recognition that made them. Most of its numbers are near each other: times in a window, positions of its
events, indexes of nodes. So a column is kept as the differences from its least value. Where a column mixes two kinds
of numbers, such as times and indexes, it has a least value for each, and a bit for each entry says which.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ceql.jit import Array

FEW = 64
"""Arrays with fewer entries are kept as they are."""
_WIDTHS: tuple[tuple[int, Any], ...] = ((1 << 8, np.uint8), (1 << 16, np.uint16), (1 << 32, np.uint32))


def narrowed(arrays: Mapping[str, Array]) -> tuple[dict[str, Any], dict[str, Array]]:
    """The arrays as others with fewer bytes, and the notes with which `widened` gives them back."""
    notes: dict[str, Any] = {}
    found: dict[str, Array] = {}
    for name, array in arrays.items():
        if array.dtype != np.int64 or array.size < FEW:
            found[name] = array
            continue
        columns = array.reshape(len(array), -1)
        notes[name] = {"shape": list(array.shape), "columns": []}
        for k in range(columns.shape[1]):
            bases, parts = _narrow(columns[:, k])
            notes[name]["columns"].append(bases)
            found.update({f"{name}/{k}/{part}": values for part, values in parts.items()})
    return notes, found


def _narrow(column: Array) -> tuple[list[int], dict[str, Array]]:
    """The least values of a column (or of its lower and its upper part), and what is above them."""
    low, high = int(column.min()), int(column.max())
    if low == high:
        return [low], {}
    kind = _type(high - low)
    if kind is not None:
        return [low], {"above": (column - low).astype(kind)}
    upper: Array = column > (low + high) // 2
    highest, least = int(column[~upper].max()), int(column[upper].min())
    kind = _type(max(highest - low, high - least))
    if kind is None:
        return [], {"above": np.ascontiguousarray(column)}
    above = column - np.where(upper, least, low)
    return [low, least], {"above": above.astype(kind), "upper": np.packbits(upper)}


def _type(span: int) -> Any:
    """The narrowest type for numbers from 0 to `span`; None where that is no gain."""
    return next((kind for count, kind in _WIDTHS if span < count), None)


def widened(notes: Mapping[str, Any], arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The arrays that `narrowed` was given."""
    found = {name: array for name, array in arrays.items() if name.rsplit("/", 2)[0] not in notes}
    for name, note in notes.items():
        array = np.empty(note["shape"], np.int64)
        columns = array.reshape(len(array), -1)
        if len(note["columns"]) != columns.shape[1]:
            raise ValueError(f"'{name}' has {columns.shape[1]} columns, and notes for {len(note['columns'])}")
        for k, bases in enumerate(note["columns"]):
            columns[:, k] = _widen(bases, f"{name}/{k}", arrays, len(columns))
        found[name] = array
    return found


def _widen(bases: list[int], name: str, arrays: Mapping[str, Array], count: int) -> Array | int:
    if len(bases) == 1 and f"{name}/above" not in arrays:
        return bases[0]
    above = arrays[f"{name}/above"].astype(np.int64)
    if not bases:
        return above
    if len(bases) == 1:
        return above + bases[0]
    upper = np.unpackbits(arrays[f"{name}/upper"], count=count).astype(bool)
    return above + np.where(upper, bases[1], bases[0])
