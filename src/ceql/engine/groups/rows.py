"""The arrays of what is found in order (see `ordered`): their room, and what a snapshot keeps of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ceql.engine.common.graph import KIND, ORDERED, A
from ceql.engine.common.layout import NODES
from ceql.engine.common.owners import power_of_two
from ceql.engine.groups import told
from ceql.engine.groups.collect import pack_rows
from ceql.engine.groups.layout import (
    BASE,
    BUCKET_INDEX,
    BUCKETS,
    BUCKETS_USED,
    FIRST_ROW,
    NEXT_ROW,
    PLACE,
    REACH,
    ROOM,
    ROWS_NEEDED,
    Carrier,
)
from ceql.engine.groups.rings import LEAST_ROOM, restore_rows, size_of
from ceql.jit import Array

if TYPE_CHECKING:
    from ceql.engine.groups.machine import GroupMachine


def emptied(carrier: Carrier) -> Carrier:
    """What runs carry, with nothing in it; what is only read is shared."""
    sizes = {"scratch": None, "rows": 1, "keys": 1, "buckets": 1, "cells": 1, "cell_slots": 2}
    made = {name: np.zeros_like(getattr(carrier, name)[:size]) for name, size in sizes.items()}
    return told.forgotten(carrier._replace(**made))


def begun(carrier: Carrier, room: int) -> Carrier:
    """What runs carry, with nothing in it and room for so many rows, so that short streams need no more."""
    return carrier._replace(
        rows=np.empty((room, carrier.rows.shape[1]), np.int64),
        keys=np.zeros((room, 1), np.int64),
        buckets=np.zeros((1 + room // 16, carrier.buckets.shape[1]), np.int64),
    )


def room_needed(machine: GroupMachine) -> int:
    """Rows for what the current event needs, and as much again as there is."""
    assert machine.carrier is not None
    used = machine.carrier.buckets[: machine.regs[BUCKETS_USED]]
    live = sum(sizes_of(used, machine.settings.block))
    return max(len(machine.carrier.rows), 2 * live + int(machine.regs[ROWS_NEEDED]) + 64)


def packed(machine: GroupMachine, room: int) -> Carrier:
    """What runs carry, with room for so many rows, and without those that larger rings have replaced."""
    carrier = machine.carrier
    assert carrier is not None
    rows = np.empty((room, carrier.rows.shape[1]), np.int64)
    keys = np.zeros((room, 1), np.int64)  # `recode` changes all of them: what was never written is a value, too
    pack_rows(machine.regs, carrier, rows, keys, machine.settings.block)
    buckets, used = carrier.buckets, int(machine.regs[BUCKETS_USED])
    if 2 * used + 16 > len(buckets):
        buckets = np.zeros((4 * used + 64, buckets.shape[1]), np.int64)
        buckets[:used] = carrier.buckets[:used]
    return carrier._replace(rows=rows, keys=keys, buckets=buckets)


def sizes_of(buckets: Array, block: int) -> list[int]:
    """The rows that each bucket takes, with its blocks."""
    rooms = [(room, reach) for room, reach in buckets[:, [ROOM, REACH]].tolist()]
    known = {pair: int(size_of(*pair, block)) for pair in set(rooms)}
    return [known[pair] for pair in rooms]


def buckets_of(machine: GroupMachine, chosen: Array) -> Array:
    """The buckets whose value in order is chosen, by index and word."""
    assert machine.carrier is not None
    indexes = machine.carrier.buckets[: machine.regs[BUCKETS_USED], BUCKET_INDEX]
    return np.flatnonzero(chosen[indexes, machine.widths[indexes] - 1])


def nodes_of(machine: GroupMachine, buckets: Array) -> Array:
    """The nodes that name one of these buckets."""
    used = machine.nodes[: machine.regs[NODES]]
    found = np.flatnonzero(used[:, KIND] == ORDERED)
    return found[np.isin(used[found, A], buckets)]


def ring(carrier: Carrier, bucket: int) -> Array:
    """Where the rows of a bucket stand, in order of arrival."""
    base, room, first, end = carrier.buckets[bucket, :BUCKET_INDEX].tolist()
    return np.asarray(base + (np.arange(first, end) & (room - 1)))


def kept(carrier: Carrier | None, buckets: int) -> Array:
    """The values and nodes of the rows that may be alive, bucket by bucket: blocks are made of them."""
    if carrier is None:
        return np.zeros((0, 2), np.int64)
    rows = np.concatenate([np.zeros(0, np.int64), *(ring(carrier, bucket) for bucket in range(buckets))])
    return np.column_stack([carrier.keys[rows, 0], carrier.rows[rows, PLACE]])


def stored(buckets: Array) -> Array:
    """Buckets of a snapshot, with blocks for all of their rows."""
    buckets = np.pad(buckets, ((0, 0), (0, BUCKETS - buckets.shape[1])))
    alive = np.maximum(buckets[:, NEXT_ROW] - buckets[:, FIRST_ROW], LEAST_ROOM)
    buckets[:, REACH] = [power_of_two(count) for count in alive.tolist()]
    return buckets


def restored(carrier: Carrier, nodes: Array, rows: Array, buckets: Array, sizes: list[int], block: int) -> Carrier:
    """What runs carry, with these buckets, whose rows are as `kept` gave them."""
    made = sum(sizes) + 1
    buckets[:, BASE] = np.cumsum([0, *sizes])[:-1]
    carrier = carrier._replace(
        rows=np.zeros((made, carrier.rows.shape[1]), np.int64), keys=np.zeros((made, 1), np.int64), buckets=buckets
    )
    restore_rows(carrier, nodes, rows, block)
    return carrier
