"""Checks the arrays of this loop that come from outside (see `engine.common.check`).

Every index must lie within its array, and every list must end: nodes lead to earlier ones, and lists of the pool stand
one after the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ceql.engine.common.check import require, require_between, require_shape
from ceql.engine.preferred.layout import (
    COUNT,
    ENTRY,
    JOINED,
    LABEL,
    LATEST,
    LIST,
    MARK,
    NO_NODE,
    NODE,
    PARENT,
    POSITION,
    ROOM,
    START,
    STARTS,
    UNION,
    WAIT,
)
from ceql.jit import Array


class Known(NamedTuple):
    """What the numbers of a state may name."""

    waits: int
    labels: int
    position: int  # of the next event
    registers: int  # of a run
    shares: bool  # whether entries say which starts share them


def check(arrays: Mapping[str, Array], columns: tuple[str, ...], known: Known) -> None:
    """Refuse arrays of a state that the kernels could not work on."""
    nodes = arrays["nodes"]
    index = np.arange(len(nodes))
    position, parent, label = nodes[:, POSITION], nodes[:, PARENT], nodes[:, LABEL]
    require_between(label, UNION - 128, known.labels, "a node has an unknown label")
    require((label != -1).all(), "a node has an unknown label")
    require(nodes.shape[1] > LATEST or (label > UNION).all(), "starts share runs, and may not")
    event, joined, union = label >= 0, label == JOINED, label <= UNION
    require_between(position[event], 0, known.position, "a node has an event that did not come")
    require_between(parent, NO_NODE, index, "a node does not come after those that it leads to")
    require_between(position[~event], 0, index[~event], "a node does not come after those that it leads to")
    require_between(parent[joined | union], 0, index[joined | union], "a mark or a run is missing")
    runs = event | union
    led = np.concatenate([parent[event & (parent >= 0)], position[union], parent[union]])
    require(runs[led].all(), "a node leads to one of another kind")
    entries = require_shape(arrays, "pool", None, ENTRY + known.registers)
    begin, count, room = (arrays[f"parts.{columns[k]}"].astype(np.int64) for k in (LIST, COUNT, ROOM))
    require_between(room, 0, len(entries) + 1, "a list has more room than there is")
    require_between(begin, 0, len(entries) - room + 1, "a list lies outside the pool")
    require_between(count, 0, room + 1, "a list is longer than its room")
    order = np.argsort(begin, kind="stable")
    order = order[room[order] > 0]
    ends = begin[order] + room[order]
    require((ends[:-1] <= begin[order][1:]).all(), "lists overlap")
    require_between(entries[:, WAIT], MARK, known.waits, "a run waits for what is not there")
    require_between(entries[:, NODE], 0, len(nodes), "a run has no last event")
    require_between(entries[:, START], -known.position, known.position, "a run starts at an event that did not come")
    require((runs[entries[:, NODE]] | (entries[:, WAIT] == MARK)).all(), "a run leads to matches")
    starts = entries[:, STARTS]
    require_between(starts, NO_NODE, len(nodes), "a run has no start")
    require(((starts >= 0) == known.shares).all() and runs[starts[starts >= 0]].all(), "a run has no start")
