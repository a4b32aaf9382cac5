"""A machine divided into shards: each gets the entries that are its own, and the nodes that they reach.

An entry of the look-up table belongs to the shard of its substream, or of a value in its key. No node is reached from
entries of two shards, since a run is found only under the values of its own events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ceql.engine.common.graph import BETWEEN, KIND, ORDERED, A, B
from ceql.engine.common.layout import NODES
from ceql.engine.common.owners import NOBODY, children_of, places, renumber_children, renumbered, spread_down
from ceql.engine.common.shares import Shares, shard_count
from ceql.engine.groups.layout import ENTRIES, FIRST_ROW, INDEX, NEXT_ROW, NODE, SUBSTREAM, UNLINKED
from ceql.jit import Array

if TYPE_CHECKING:
    from ceql.engine.groups.machine import GroupMachine


def divide(whole: GroupMachine, owner: Array, shares: Shares | None) -> list[GroupMachine]:
    """The shards of a machine whose buffers are empty and which was just collected; `owner` is that of each entry."""
    heads, shards = len(whole.steps.tight), shard_count()
    arrays = whole.state()
    nodes, entries, rows, buckets = (arrays[name] for name in ("nodes", "entries", "rows", "buckets"))
    is_head = entries[:, INDEX] >= heads
    bucket_owner: Array = np.full(len(buckets), NOBODY, np.int64)
    in_bucket = np.flatnonzero(is_head & (entries[:, -1] >= 0) & bool(len(buckets)))
    bucket_owner[entries[in_bucket, -1]] = owner[in_bucket]
    row_owner = np.repeat(bucket_owner, buckets[:, NEXT_ROW] - buckets[:, FIRST_ROW])
    node_owner: Array = np.full(len(nodes), NOBODY, np.int64)
    node_owner[entries[~is_head, NODE]] = owner[~is_head]
    filed = np.flatnonzero(rows[:, 1] >= 0)
    node_owner[rows[filed, 1]] = row_owner[filed]
    kinds = nodes[:, KIND]
    children = children_of(nodes)
    spread_down(nodes, children, node_owner)

    own_nodes, place = places(node_owner, shards)
    renumber_children(nodes, children, place)
    rows[:, 1] = renumbered(rows[:, 1], place)
    own_entries, entry_place = places(owner.astype(np.int64), shards)
    entries[~is_head, NODE] = place[entries[~is_head, NODE]]
    own_buckets, bucket_place = places(bucket_owner, shards)
    if len(buckets):
        in_order = np.flatnonzero(kinds == ORDERED)
        nodes[in_order, A] = bucket_place[nodes[in_order, A]]
        pairs = np.flatnonzero(kinds == BETWEEN)
        nodes[pairs, B] = bucket_place[nodes[pairs, B]]
        entries[in_bucket, -1] = bucket_place[entries[in_bucket, -1]]
    if whole.carrier is not None:
        entries[is_head, NODE] = renumbered(entries[is_head, NODE], entry_place)
        listed = ~is_head & (entries[:, -2] != UNLINKED)
        for column in (-2, -1):  # the next group, and the head of the list
            entries[listed, column] = renumbered(entries[listed, column], entry_place)
    if shares is not None:
        entries[:, SUBSTREAM] = shares.local[entries[:, SUBSTREAM]]

    machines = []
    for shard, (own, mine) in enumerate(zip(own_nodes, own_entries, strict=True)):
        machine = whole.shard()
        machine.regs[:] = whole.regs
        machine.regs[[NODES, ENTRIES]] = len(own), len(mine)
        times = whole.times[own] if whole.timed else whole.times[:0]
        machine.take_graph(nodes[own], times, whole.extra[own] if whole.lists else whole.extra)
        if shares is None:
            machine.room_for_partitions(1)
            machine.table[:] = whole.table
        else:
            members = shares.members[shard]
            machine.room_for_partitions(len(members))
            machine.table[: len(members)] = whole.table[members]
        machine.take_entries(entries[mine], rows[row_owner == shard], buckets[own_buckets[shard]], arrays["cells"])
        machines.append(machine)
    return machines
