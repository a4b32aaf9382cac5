"""Snapshots of older versions, brought up to date step by step.

Each function takes a snapshot of one version, as `snapshot.read` has taken it apart, to the next version; `STEPS` has
them in order, the first for version 1. A step is never changed: tests hold snapshots that the old code wrote.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

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


STEPS: tuple[Callable[[Snapshot], Snapshot], ...] = (keys_as_words,)


def migrate(version: int, snapshot: Snapshot) -> Snapshot:
    """A snapshot of this version as one of the newest."""
    for step in STEPS[version - 1 :]:
        snapshot = step(snapshot)
    return snapshot
