"""The loop over the events of a batch, and what time decides between two events.

`advance` takes one event after the other: `step.step` makes the next list of its substream, which is then put back into
the pool, and the matches that the event has decided are written out. When it needs the caller (full buffers, a full
graph) it returns why, and is called again to go on at the very same event: until the list is put back, nothing of
the substream has changed.
"""

from __future__ import annotations

import numpy as np

from ceql.engine.common import layout as common
from ceql.engine.common.layout import (
    COLLECT,
    COUNTER,
    DONE,
    EVENT,
    FRESH,
    FULL,
    HORIZON,
    MATCHES,
    OUTPUT,
    PHASE,
    POSITIONS,
    TOTAL,
    W_COUNTED,
    Events,
    Output,
)
from ceql.engine.groups.layout import Carrier
from ceql.engine.preferred.graph import before
from ceql.engine.preferred.layout import (
    AT,
    BOUND,
    COLUMNS,
    COUNT,
    DECIDED,
    ENTRY,
    EXPIRED,
    FOUND,
    KEPT,
    LABEL,
    LIST,
    LONG,
    MARK,
    MARKED,
    MET,
    NO_NODE,
    NODE_OF,
    OLDEST,
    OWN_KEY,
    POOL,
    POSITION,
    PRESENT,
    READY,
    ROOM,
    SHOWN,
    SYMBOL,
    TIME,
    WAIT,
    Automaton,
    Settings,
    Work,
)
from ceql.engine.preferred.step import step
from ceql.jit import Array, Word, called, inlined, kernel, prefetch

AHEAD = 4  # events whose lists are asked for before their turn, and twice as many for where these are
LAST_BIT = 62  # of `moves` and `PRESENT`: waits from this one on, and all else that an event may change


@kernel
def advance(
    auto: Automaton,
    carrier: Carrier | None,
    nodes: Array,
    times: Array,
    regs: Array,
    table: Array,
    pool: Array,
    work: Work,
    out: Output,
    events: Events,
    settings: Settings,
    stop: int,
) -> int:
    """Process the events from `regs[EVENT]` to `stop`; DONE, or the reason to come back."""
    i = regs[EVENT]
    timed = len(times) > 0
    event = work.event
    while i < stop:
        if i + 2 * AHEAD < stop:
            prefetch(table, events.partition[i + 2 * AHEAD])
            prefetch(pool, table[max(events.partition[i + AHEAD], np.int32(0)), LIST])
        partition = events.partition[i]
        if partition < 0:
            i += 1
            continue
        row = table[partition]
        if regs[PHASE] == FRESH:
            event[SYMBOL] = events.symbol[i]
            event[AT] = events.position[i]
            event[OWN_KEY] = events.key[i]
            event[BOUND] = events.bound[i]
            event[TIME] = events.time[i] if timed else np.int64(0)
            if settings.window == W_COUNTED:
                event[OWN_KEY] = row[COUNTER]
                event[BOUND] = row[COUNTER] - settings.width
                row[common.BOUND] = event[BOUND]
            elif event[BOUND] > regs[HORIZON]:
                regs[HORIZON] = event[BOUND]
            if _moves(auto, row, settings, event[SYMBOL]):
                if carrier is not None:
                    for word in range(events.values.shape[1]):
                        work.words[0, word] = events.values[i, word]
                reason: int = step(auto, carrier, nodes, times, regs, row, pool, work, settings, event)
                if reason == DONE and not _put_back(auto, regs, row, pool, work):
                    reason = COLLECT
                if reason != DONE:
                    regs[EVENT] = i
                    return reason
                for bit in range(len(auto.forbids)):
                    if auto.holds[event[SYMBOL], auto.forbids[bit]] != 0:
                        row[MET] |= np.int64(1) << bit
                        row[COLUMNS + bit] = event[OWN_KEY]
                regs[PHASE] = OUTPUT
            row[COUNTER] += settings.window == W_COUNTED
        if regs[PHASE] == OUTPUT:
            reason = _show(auto, nodes, times, regs, work, out, settings, np.int64(partition))
            if reason != DONE:
                regs[EVENT] = i
                return reason
            regs[PHASE] = FRESH
        i += 1
    regs[EVENT] = i
    return DONE


@kernel
def decide_all(
    auto: Automaton,
    carrier: Carrier | None,
    nodes: Array,
    times: Array,
    regs: Array,
    table: Array,
    pool: Array,
    work: Work,
    out: Output,
    settings: Settings,
    bound: int,
) -> int:
    """Drop the runs whose windows have passed at this bound, in all substreams with marks, from `regs[EVENT]` on."""
    p = regs[EVENT]
    event = work.event
    while p < len(table):
        row = table[p]
        if regs[PHASE] == FRESH:
            if row[MARKED] == 0:
                p += 1
                continue
            event[SYMBOL] = -1
            event[AT] = -1
            event[BOUND] = bound
            reason: int = step(auto, carrier, nodes, times, regs, row, pool, work, settings, event)
            if reason == DONE and not _put_back(auto, regs, row, pool, work):
                reason = COLLECT
            if reason != DONE:
                regs[EVENT] = p
                return reason
            regs[PHASE] = OUTPUT
        reason = _show(auto, nodes, times, regs, work, out, settings, np.int64(p))
        if reason != DONE:
            regs[EVENT] = p
            return reason
        regs[PHASE] = FRESH
        p += 1
    regs[EVENT] = p
    return DONE


@inlined
def _moves(auto: Automaton, row: Array, settings: Settings, symbol: int) -> bool:
    """Whether an event changes anything in its substream. What its window lets go of alone is seen to later, unless it
    is this event that decides a match."""
    if auto.moves[symbol] & (row[PRESENT] | np.int64(1) << LAST_BIT) != 0:
        return True
    return settings.window == W_COUNTED and row[MARKED] > 0


@called
def _put_back(auto: Automaton, regs: Array, row: Array, pool: Array, work: Work) -> bool:
    """Make the new list that of the substream; whether the pool had room for it."""
    kept = regs[KEPT]
    count = kept + regs[FOUND]
    if count > row[ROOM]:
        room = np.int64(2)
        while room < count:
            room *= 2
        if regs[POOL] + room > len(pool):
            return False
        for k in range(kept):
            for word in range(pool.shape[1]):
                pool[regs[POOL] + k, word] = pool[row[LIST] + k, word]
        row[LIST] = regs[POOL]
        row[ROOM] = room
        regs[POOL] += room
    at = row[LIST] + kept
    present: Word = row[PRESENT] if kept > 0 else np.int64(0)
    marked: Word = row[MARKED] if kept > 0 else np.int64(0)
    for k in range(regs[FOUND]):
        for word in range(ENTRY):
            pool[at, word] = work.entries[k, word]
        for word in range(ENTRY, pool.shape[1]):
            pool[at, word] = work.entries[k, word]
        at += 1
        wait = work.entries[k, WAIT]
        marked += wait == MARK or auto.waits[wait] == auto.waits[wait + 1]
        if wait != MARK:
            present |= np.int64(1) << min(wait, LAST_BIT - 1)
    row[COUNT] = count
    row[PRESENT] = present
    row[MARKED] = marked
    regs[SHOWN] = 0
    return True


@called
def _show(
    auto: Automaton,
    nodes: Array,
    times: Array,
    regs: Array,
    work: Work,
    out: Output,
    settings: Settings,
    partition: Word,
) -> int:
    """Write the matches that are decided to the buffers, from `regs[SHOWN]` on."""
    if settings.mode == common.COUNT:
        regs[TOTAL] += regs[READY]
        return DONE
    while regs[SHOWN] < regs[READY]:
        entry = regs[SHOWN]
        last, oldest = work.ready[entry, NODE_OF], work.ready[entry, OLDEST]
        length = np.int64(0)
        node = last
        first = last
        while node != NO_NODE:
            length += auto.shown[nodes[node, LABEL]]
            first = node
            node = before(nodes, node, oldest)
        match = regs[MATCHES]
        if match + 1 >= out.match.shape[1] or regs[POSITIONS] + length > len(out.position):
            return FULL if match > 0 else LONG
        at = regs[POSITIONS] + length
        node = last
        while node != NO_NODE:
            label = nodes[node, LABEL]
            if auto.shown[label] != 0:
                at -= 1
                out.position[at] = nodes[node, POSITION]
                out.label[at] = label
            node = before(nodes, node, oldest)
        out.match[common.START, match] = nodes[first, POSITION]
        out.match[common.END, match] = nodes[last, POSITION]
        out.match[common.PARTITION, match] = partition
        if len(times) > 0:
            out.match[common.START_TIME, match] = times[first]
            out.match[common.END_TIME, match] = times[last]
        work.decided[0, match] = work.ready[entry, DECIDED]
        work.decided[1, match] = work.ready[entry, EXPIRED]
        regs[POSITIONS] += length
        regs[MATCHES] = match + 1
        out.match[common.OFFSET, match + 1] = regs[POSITIONS]
        regs[SHOWN] = entry + 1
    return DONE
