"""Writes the matches that an event has decided to the output buffers, from the last event of each to its first.

Starts may share runs: a node that stands for the match of several has a path for each (`graph`). A search goes through
those whose starts are wanted, and remembers where paths part. What starts have in common is walked once, and copied.
"""

from __future__ import annotations

from ceql.engine.common import layout as common
from ceql.engine.common.layout import DONE, FULL, GROW_PATH, MATCHES, POSITIONS, TOTAL, Output
from ceql.engine.preferred.graph import count_starts, has, is_union
from ceql.engine.preferred.layout import (
    BRANCHES,
    DECIDED,
    EXPIRED,
    FROM,
    GROW,
    LABEL,
    LATEST,
    LONG,
    NO_NODE,
    NODE_OF,
    OF_STARTS,
    PARENT,
    POSITION,
    READ,
    READY,
    SHOWN,
    TO,
    TO_NEXT,
    Automaton,
    Settings,
    Work,
)
from ceql.jit import Array, Word, called, inlined


@called
def show(
    auto: Automaton,
    nodes: Array,
    times: Array,
    regs: Array,
    work: Work,
    out: Output,
    settings: Settings,
    partition: Word,
) -> int:
    """Write the matches from `regs[SHOWN]` on: DONE, or the reason to come back."""
    while regs[SHOWN] < regs[READY]:
        match = work.ready[regs[SHOWN]]
        if settings.mode == common.COUNT:
            count = 1
            if settings.skip == TO_NEXT:
                count = count_starts(nodes, work.stack, match[OF_STARTS], match[FROM], match[TO])
            if count < 0:
                return GROW
            regs[TOTAL] += count
            regs[SHOWN] += 1
            continue
        if regs[READ] == 0:
            if regs[BRANCHES] == 0:
                out.stack[0, 0], out.stack[0, 1] = match[NODE_OF], 0
                regs[BRANCHES] = 1
            if not _search(nodes, regs, out, match):
                return GROW_PATH
        if regs[READ] > 0:
            reason = _write(auto, nodes, times, regs, work, out, settings, match, partition)
            if reason != DONE:
                return reason
            regs[READ] = 0
            if settings.skip != TO_NEXT:
                regs[BRANCHES] = 0
        regs[SHOWN] += regs[BRANCHES] == 0
    return DONE


@inlined
def _search(nodes: Array, regs: Array, out: Output, match: Array) -> bool:
    """Go on from the place that was remembered last, to the first event of a match: its events are then in `out.path`,
    and `regs[READ]` says how many. Whether there was room."""
    height = regs[BRANCHES] - 1
    begun, length = out.stack[height, 0], out.stack[height, 1]
    node, parted = begun, length
    while node != NO_NODE:
        if height + 1 >= len(out.stack) or length + 1 >= len(out.path):
            out.stack[regs[BRANCHES] - 1, 0], out.stack[regs[BRANCHES] - 1, 1] = begun, parted
            return False
        label = nodes[node, LABEL]
        if not is_union(label):
            out.path[length, 0] = node
            length += 1
            node = nodes[node, PARENT]
            continue
        older, newer = nodes[node, POSITION], nodes[node, PARENT]
        is_newer = has(nodes, newer, match[FROM], match[TO])
        if has(nodes, older, match[FROM], match[TO]):
            if is_newer:
                out.stack[height, 0], out.stack[height, 1] = newer, length
                height += 1
            node = older
        elif is_newer:
            node = newer
        else:  # the starts of either are mixed with others
            length = 0
            break
    regs[BRANCHES] = height
    regs[READ] = length
    return True


@inlined
def _write(
    auto: Automaton, nodes: Array, times: Array, regs: Array, work: Work, out: Output, settings: Settings,
    match: Array, partition: Word,
) -> int:  # fmt: skip
    """Write the match that was found."""
    first, last = out.path[regs[READ] - 1, 0], out.path[0, 0]
    at = regs[POSITIONS]
    row = regs[MATCHES]
    length = 0
    for k in range(regs[READ]):
        length += auto.shown[nodes[out.path[k, 0], LABEL]]
    if row + 1 >= out.match.shape[1] or at + length > len(out.position):
        return FULL if row > 0 else LONG
    for k in range(regs[READ] - 1, -1, -1):
        node = out.path[k, 0]
        label = nodes[node, LABEL]
        if auto.shown[label] != 0:
            out.position[at] = nodes[node, POSITION]
            out.label[at] = label
            at += 1
    out.match[common.START, row] = nodes[first, POSITION]
    out.match[common.END, row] = nodes[last, POSITION]
    out.match[common.PARTITION, row] = partition
    if len(times) > 0:
        out.match[common.START_TIME, row] = times[first]
        out.match[common.END_TIME, row] = times[last]
    work.decided[0, row] = match[DECIDED]
    work.decided[1, row] = nodes[first, LATEST] if settings.skip == TO_NEXT else match[EXPIRED]
    regs[POSITIONS] = at
    regs[MATCHES] = row + 1
    out.match[common.OFFSET, row + 1] = at
    return DONE
