"""The loop over the events of a batch, and what time decides between two events.

`advance` takes one event after the other: `step.step` or `each.step_each` makes the next list of its substream, which
is then put back into the pool, and the matches that the event has decided are written out. When it needs the caller
(full buffers, a full graph) it returns why, and is called again to go on at the very same event: until the list is put
back, nothing of the substream has changed.
"""

from __future__ import annotations

import numpy as np

from ceql.engine.common.layout import (
    BOUND as LAST_BOUND,
)
from ceql.engine.common.layout import (
    COLLECT,
    COUNTER,
    DONE,
    EVENT,
    FRESH,
    HORIZON,
    NEVER,
    OUTPUT,
    PHASE,
    W_COUNTED,
    Events,
    Output,
)
from ceql.engine.groups.layout import Carrier
from ceql.engine.preferred.each import step_each
from ceql.engine.preferred.layout import (
    AT,
    BOUND,
    BRANCHES,
    COLUMNS,
    COUNT,
    DUE,
    ENTRY,
    FOUND,
    KEPT,
    KEY,
    LIST,
    MARK,
    MARKED,
    MET,
    OWN_KEY,
    POOL,
    PRESENT,
    READ,
    ROOM,
    SHOWN,
    SYMBOL,
    TIME,
    TO_NEXT,
    WAIT,
    Automaton,
    Settings,
    Work,
)
from ceql.engine.preferred.runs import LAST_BIT, lasts
from ceql.engine.preferred.show import show
from ceql.engine.preferred.step import step
from ceql.jit import Array, Word, called, inlined, kernel, prefetch

AHEAD = 4  # events whose lists are asked for before their turn, and twice as many for where these are


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
    event = work.event
    reason: Word = np.int64(DONE)
    for i in range(regs[EVENT], stop):
        if i + 2 * AHEAD < stop:
            prefetch(table, events.partition[i + 2 * AHEAD])
            prefetch(pool, table[max(events.partition[i + AHEAD], np.int32(0)), LIST])
        partition = events.partition[i]
        if partition < 0:
            continue
        row = table[partition]
        if regs[PHASE] == FRESH:
            event[SYMBOL] = events.symbol[i]
            event[AT] = events.position[i]
            event[OWN_KEY] = events.key[i]
            event[BOUND] = events.bound[i]
            event[TIME] = events.time[i] if len(times) > 0 else np.int64(0)
            if settings.window == W_COUNTED:
                event[OWN_KEY] = row[COUNTER]
                event[BOUND] = row[COUNTER] - settings.width
                row[LAST_BOUND] = event[BOUND]
            elif event[BOUND] > regs[HORIZON] and not settings.gathered:
                regs[HORIZON] = event[BOUND]
            if not _moves(auto, row, settings, event[SYMBOL]):
                row[COUNTER] += settings.window == W_COUNTED
                continue
            if carrier is not None:
                for word in range(events.values.shape[1]):
                    work.words[0, word] = events.values[i, word]
        reason = _turn(auto, carrier, nodes, times, regs, row, pool, work, out, settings, np.int64(partition))
        if reason != DONE:
            regs[EVENT] = i
            return int(reason)
        row[COUNTER] += settings.window == W_COUNTED
    regs[EVENT] = stop
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
    event = work.event
    event[SYMBOL] = -1
    event[AT] = -1
    event[BOUND] = bound
    reason: Word = np.int64(DONE)
    for p in range(regs[EVENT], len(table)):
        row = table[p]
        if regs[PHASE] == FRESH and (row[MARKED] == 0 or row[DUE] >= bound):
            continue
        reason = _turn(auto, carrier, nodes, times, regs, row, pool, work, out, settings, np.int64(p))
        if reason != DONE:
            regs[EVENT] = p
            return int(reason)
    regs[EVENT] = len(table)
    return DONE


@inlined
def _turn(
    auto: Automaton, carrier: Carrier | None, nodes: Array, times: Array, regs: Array, row: Array, pool: Array,
    work: Work, out: Output, settings: Settings, partition: Word,
) -> Word:  # fmt: skip
    """Let the event at hand change the list of its substream, unless it has, and write what that decides."""
    event = work.event
    if regs[PHASE] == FRESH:
        if settings.skip == TO_NEXT:
            reason = step_each(auto, carrier, nodes, times, regs, row, pool, work, settings, event)
        else:
            reason = step(auto, carrier, nodes, times, regs, row, pool, work, settings, event)
        if reason != DONE:
            return reason
        if not _put_back(auto, regs, row, pool, work):
            return np.int64(COLLECT)
        for bit in range(len(auto.forbids) if event[SYMBOL] >= 0 else 0):
            if auto.holds[event[SYMBOL], auto.forbids[bit]] != 0:
                row[MET] |= np.int64(1) << bit
                row[COLUMNS + bit] = event[OWN_KEY]
        regs[PHASE] = OUTPUT
    reason = show(auto, nodes, times, regs, work, out, settings, partition)
    if reason == DONE:
        regs[PHASE] = FRESH
    return reason


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
    due: Word = row[DUE] if kept > 0 else np.int64(NEVER)
    for k in range(regs[FOUND]):
        for word in range(ENTRY):
            pool[at, word] = work.entries[k, word]
        for word in range(ENTRY, pool.shape[1]):
            pool[at, word] = work.entries[k, word]
        at += 1
        wait = work.entries[k, WAIT]
        marked += wait == MARK or lasts(auto, wait)
        if wait != MARK:
            present |= np.int64(1) << min(wait, LAST_BIT - 1)
            due = min(due, work.entries[k, KEY])
    row[COUNT] = count
    row[PRESENT] = present
    row[MARKED] = marked
    row[DUE] = due
    regs[SHOWN] = regs[BRANCHES] = regs[READ] = 0
    return True
