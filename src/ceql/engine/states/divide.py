"""A machine divided into shards: each gets the records of its own substreams, and the nodes that they reach."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ceql.engine.common.layout import NODES
from ceql.engine.common.owners import NOBODY, children_of, places, renumber_children, spread_down
from ceql.engine.common.shares import Shares, shard_count
from ceql.engine.states.layout import POOL, RECORD, ROOM
from ceql.jit import Array, kernel

if TYPE_CHECKING:
    from ceql.engine.states.machine import StateMachine


def divide(whole: StateMachine, shares: Shares) -> list[StateMachine]:
    """The shards of a machine whose buffers are empty and which was just collected."""
    arrays = whole.state()  # which also puts the loaded partition among the others
    nodes, pool = arrays["nodes"], arrays["parts.pool"]
    records = whole.table[:, RECORD]
    node_owner: Array = np.full(len(nodes), NOBODY, np.int64)
    _own_roots(records, shares.owner, pool, node_owner)
    children = children_of(nodes)
    spread_down(nodes, children, node_owner)
    own_nodes, place = places(node_owner, shard_count())
    renumber_children(nodes, children, place)
    machines = []
    for shard, own in enumerate(own_nodes):
        machine = whole.shard()
        machine.regs[:] = whole.regs
        machine.regs[NODES] = len(own)
        members = shares.members[shard]
        machine.room_for_partitions(len(members))
        machine.table[: len(members)] = whole.table[members]
        used: Array = np.zeros(1, np.int64)
        own_pool: Array = np.zeros(max(256, 2 * len(pool)), np.int64)
        _copy_records(machine.table, pool, place, own_pool, used)
        machine.regs[POOL] = used[0]
        times = whole.times[own] if whole.timed else whole.times[:0]
        machine.take(nodes[own], times, own_pool[: max(256, 2 * int(used[0]))].copy())
        machines.append(machine)
    return machines


@kernel
def _own_roots(records: Array, owner: Array, pool: Array, node_owner: Array) -> None:
    """Give the nodes in the lists of each substream to its owner."""
    for p in range(len(owner)):
        at = records[p]
        if at < 0:
            continue
        source = at + 1
        for _ in range(pool[at]):
            length = pool[source + 1]
            for k in range(length):
                node_owner[pool[source + 2 + k]] = owner[p]
            source += 2 + length


@kernel
def _copy_records(table: Array, pool: Array, place: Array, to: Array, used: Array) -> None:
    """Copy the records of these substreams one after the other, with their nodes' places."""
    top = used[0]
    for p in range(table.shape[0]):
        at = table[p, RECORD]
        if at < 0:
            continue
        begin = top
        to[top] = pool[at]
        top += 1
        source = at + 1
        for _ in range(pool[at]):
            length = pool[source + 1]
            to[top] = pool[source]
            to[top + 1] = length
            for k in range(length):
                to[top + 2 + k] = place[pool[source + 2 + k]]
            source += 2 + length
            top += 2 + length
        top = begin + (top - begin + 4) // 4 * 4
        table[p, RECORD] = begin
        table[p, ROOM] = top - begin
    used[0] = top
