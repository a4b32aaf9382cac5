"""Roots: what a loop has found and its readers have not read yet."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ceql.engine.common.graph import MAX
from ceql.engine.common.layout import (
    DONE,
    LEAST,
    NODES,
    NOTED,
    NOTED_NODES,
    READ_FIRST,
    ROOTS,
    SEEN,
    UNREAD,
    W_COUNTED,
    Events,
)
from ceql.jit import Array, inlined, record

# Columns of a position that is still to be read: where it is, its time (0 without time), its substream; the bound of
# its window, and the bound from which on a window has no event in common with it; its roots in `Roots.node`; how many
# nodes there were; its matches, once they are counted; the last entry of its substream in the replay log.
AT_POSITION, AT_TIME, AT_PARTITION, AT_BOUND, AT_KEY, AT_FIRST, AT_END, AT_NODES, AT_TOTAL, AT_LOG = range(10)
POSITION_COLUMNS = 10


@record
class Roots(NamedTuple):
    """What the loop has found and nobody has read yet: the positions at which matches end, in order."""

    at: Array  # int64[positions, POSITION_COLUMNS]
    node: Array  # int64: the nodes whose matches end there, those inside the window


def make_roots(nodes: int = 4096) -> Roots:
    """Room for a piece of the stream: few enough positions for what they reach to be near, many enough to be worth a
    call."""
    return Roots(np.zeros((4096, POSITION_COLUMNS), np.int64), np.zeros(nodes, np.int64))


@inlined
def note_roots(
    nodes: Array,
    regs: Array,
    found: Array,
    roots: Roots,
    events: Events,
    window: int,
    width: int,
    notes: bool,
    i: int,
) -> int:
    """Take down the roots of an event that are inside the window, as many as `regs[ROOTS]` says; `regs[SEEN]` has their
    number. Each has a match, as far as max-starts tell. DONE, or READ_FIRST where there is no room.
    """
    bound, last, end = regs[LEAST], regs[NOTED], regs[NOTED_NODES]
    live = np.int64(0)
    for k in range(regs[ROOTS]):
        live += np.int64(nodes[found[k], MAX] >= bound)
    regs[SEEN] = live
    if live == 0 or not notes:
        return DONE
    if last == len(roots.at) or end + live > len(roots.node):
        return READ_FIRST
    roots.at[last, AT_POSITION] = events.position[i]
    roots.at[last, AT_TIME] = events.time[i] if len(events.time) > 0 else 0
    roots.at[last, AT_PARTITION] = events.partition[i]
    roots.at[last, AT_BOUND] = bound
    roots.at[last, AT_KEY] = bound + width if window == W_COUNTED else events.key[i]
    roots.at[last, AT_FIRST] = end
    roots.at[last, AT_NODES] = regs[NODES]
    for k in range(regs[ROOTS]):
        if nodes[found[k], MAX] >= bound:
            roots.node[end] = found[k]
            end += 1
    roots.at[last, AT_END] = end
    regs[NOTED_NODES] = end
    regs[NOTED] = last + 1
    regs[UNREAD] = min(regs[UNREAD], bound)
    return DONE
