"""Snapshots of older versions, brought up to date step by step.

Each function takes a snapshot of one version, as `snapshot.read` has taken it apart, to the next version; `STEPS` has
them in order, the first for version 1. A step is never changed: tests hold snapshots that the old code wrote.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from ceql.io.partition_keys import state_batch
from ceql.io.values import Value, from_python
from ceql.jit import Array

Snapshot = tuple[dict[str, Any], dict[str, Array], dict[str, list[pa.RecordBatch]]]


def keys_as_words(snapshot: Snapshot) -> Snapshot:
    """1 to 2: the keys of PARTITION BY were texts such as "int 5"; now they are rows of the table of keys."""
    header, arrays, tables = snapshot
    if "keys" in tables:
        numbers, *columns = tables["keys"][0].columns
        parts = [from_python(_from_text(text) for text in column.to_pylist()) for column in columns]
        tables = {**tables, "keys": [state_batch(numbers.to_numpy(), parts)]}
    return header, arrays, tables


def _from_text(text: str) -> Value:
    kind, _, value = text.partition(" ")
    match kind:
        case "bool":
            return value == "1"
        case "int":
            return int(value)
        case "float":
            return float.fromhex(value)
        case "decimal":
            return Decimal(value)
        case "bytes":
            return bytes.fromhex(value)
        case _:
            return value


def registers_in_common_order(snapshot: Snapshot) -> Snapshot:
    """2 to 3: each loop numbered its registers by itself; now those that both have come first, in one order."""
    header, arrays, tables = snapshot
    if "regs" in arrays:
        order = _GROUP_REGISTERS if "entries" in arrays else _STATE_REGISTERS
        old = arrays["regs"]
        new = np.array([_NO_KEY if place is None else old[place] for place in order], np.int64)
        arrays = {**arrays, "regs": new}
    return header, arrays, tables


# the places of today's registers among those of version 2; None: there was no such register
_STATE_REGISTERS = (0, 3, 4, 5, 6, 12, 13, 14, 15, 16, None, 1, 2, 7, 8, 9, 10, 11)
_GROUP_REGISTERS = (0, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 1, 10, 13)
_NO_KEY = np.iinfo(np.int64).min


def least_key_left_out(snapshot: Snapshot) -> Snapshot:
    """3 to 4: the keys of unsigned 64-bit numbers are greater by one, so that none is the least int64.

    Which numbers of a state are such keys is known to whoever restores it (`recognition.frame`), and it is refused.
    """
    header, arrays, tables = snapshot
    for place in (header, header.get("shard") or {}):
        if "recognition" in place:
            place["recognition"] = {**place["recognition"], "unsigned_keys": "less by one"}
    return header, arrays, tables


def rows_in_place_of_runs(snapshot: Snapshot) -> Snapshot:
    """4 to 5: what is found in order is in buckets. Queries that find anything in order have new fingerprints."""
    header, arrays, tables = snapshot
    if "runs" in arrays:
        arrays = {name: array for name, array in arrays.items() if name not in ("runs", "links")}
        nodes, entries, _, _, cells = arrays["sizes"].tolist()
        nothing: dict[str, Array] = {"rows": np.zeros((0, 2), np.int64), "buckets": np.zeros((0, 5), np.int64)}
        arrays |= nothing | {"sizes": np.array([nodes, entries, cells])}
    return header, arrays, tables


STEPS: tuple[Callable[[Snapshot], Snapshot], ...] = (
    keys_as_words,
    registers_in_common_order,
    least_key_left_out,
    rows_in_place_of_runs,
)


def migrate(version: int, snapshot: Snapshot) -> Snapshot:
    """A snapshot of this version as one of the newest."""
    for step in STEPS[version - 1 :]:
        snapshot = step(snapshot)
    return snapshot
