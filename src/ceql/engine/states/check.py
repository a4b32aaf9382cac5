"""Checks the arrays of this loop that come from outside (see `engine.common.check`).

Every index must lie within its array. Every list must end: children of nodes have lower numbers than their parents,
entries of the log lead to earlier ones. Records of the pool must not overlap, since one that is written again would
change another.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ceql.engine.common.check import require, require_between, require_shape
from ceql.engine.common.graph import BOTTOM, KIND, MAX, PAIR, A, B, C
from ceql.engine.states.layout import RECORD, ROOM
from ceql.jit import Array, kernel


class Known(NamedTuple):
    """What the numbers of a state may name."""

    active: Array  # bool, of each determinised state: whether a run can be in it
    symbols: int
    labels: int
    position: int  # of the next event


def check_nodes(nodes: Array, known: Known) -> None:
    """Refuse nodes that are no graph as `graph.py` describes it."""
    index = np.arange(len(nodes))
    kind, a, b, c, greatest = nodes[:, KIND], nodes[:, A], nodes[:, B], nodes[:, C], nodes[:, MAX]
    bottom, union = kind == BOTTOM, kind == PAIR
    output, parent = ~(bottom | union), ~bottom
    require_between(kind[output], 0, known.labels, "a node has an unknown label")
    require_between(a[~union], 0, known.position, "a node has an event that did not come")
    require_between(b[parent], 0, index[parent], "a child of a node does not come before it")
    require_between(a[union], 0, index[union], "a child of a node does not come before it")
    require((b[bottom] == -1).all() and (c[parent] == -1).all(), "a node has a child that it cannot have")
    require((greatest[output] == greatest[b[output]]).all(), "a node has another greatest start than its child")
    require((greatest[union] == greatest[a[union]]).all(), "a node has another greatest start than its child")
    require((greatest[b[union]] <= greatest[union]).all(), "the children of a node are in the wrong order")


def check_partitions(table: Array, pool: Array, nodes: Array, initial: Array, known: Known) -> None:
    """Refuse records that lead out of the pool, overlap, or name what is not there."""
    require_between(initial, 0, len(known.active), "a partition begins in an unknown state")
    records = table[table[:, RECORD] >= 0]
    begin, room = records[:, RECORD], records[:, ROOM]
    require_between(table[:, RECORD], -1, len(pool), "a record lies outside the pool")
    require_between(room, 1, len(pool) + 1, "a record has no room")
    order = np.argsort(begin, kind="stable")
    ends = begin[order] + room[order]
    require((ends <= np.append(begin[order][1:], len(pool))[: len(ends)]).all(), "records overlap")
    last: Array = np.full(len(known.active), -1, np.int64)
    bad = broken_record(begin.copy(), room.copy(), pool, nodes[:, MAX].copy(), known.active, last)
    require(bad < 0, "a record names what is not there")


@kernel
def broken_record(begin: Array, room: Array, pool: Array, greatest: Array, active: Array, last: Array) -> int:
    """The first record that is not a list of different states, each with a list of nodes; -1 if all are.

    `last` is scratch: the last record that has each state, -1 at first.
    """
    for r in range(len(begin)):
        at = begin[r]
        end = at + room[r]
        count = pool[at]
        at += 1
        if count < 1 or count > room[r]:
            return r
        for _ in range(count):
            if at + 2 > end:
                return r
            state, length = pool[at], pool[at + 1]
            if state < 0 or state >= len(active) or not active[state] or last[state] == r:
                return r
            last[state] = r
            at += 2
            if length < 1 or length > end - at:
                return r
            for k in range(length):
                node = pool[at + k]
                if node < 0 or node >= len(greatest):
                    return r
                if k > 0 and greatest[node] > greatest[pool[at + k - 1]]:
                    return r
            at += length
    return -1


def check_log(log: Array, last: Array, known: Known) -> None:
    """Refuse a replay log whose entries lead out of it or to themselves."""
    require_between(last, -1, len(log), "a partition's last event is not in the log")
    require_between(log[:, 5], -1, np.arange(len(log)), "an entry of the log leads to a later one")
    require_between(log[:, 0], 0, known.position, "the log has an event that did not come")
    require_between(log[:, 1], 0, known.symbols, "the log has an unknown symbol")


def check(arrays: Mapping[str, Array], columns: tuple[str, ...], words: int, logs: bool, known: Known) -> None:
    """Refuse arrays that the kernels of this loop could not work on."""
    table = np.stack([arrays[f"parts.{name}"] for name in columns], axis=1)
    nodes, pool = arrays["nodes"], require_shape(arrays, "parts.pool", None)
    check_nodes(nodes, known)
    check_partitions(table, pool, nodes, arrays["parts.initial"], known)
    log = require_shape(arrays, "log", None, words)
    require(logs or not len(log), "there is a log that nobody asked for")
    check_log(log, arrays["parts.log"], known)
