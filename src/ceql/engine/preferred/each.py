"""One event in a substream under TO NEXT EVENT: each start has a match of its own, whatever becomes of the others.

The list has groups: the runs of the starts that go on alike, the most preferred first, and in the end perhaps a *mark*,
the match of these starts so far. A run that accepts ends those after it. The match is decided when nothing is left
before the mark, or when the window of a start has passed. The starts whose windows have passed leave their group.

An event makes the next list of each group, and groups that have become alike are united (`graph`). So what an event
costs depends on how many groups differ, and not on how many starts there are. One that moves none of the runs, and only
begins others, leaves the list as it is and adds to it.
"""

from __future__ import annotations

import numpy as np

from ceql.engine.common.layout import DONE, NEVER, NO_KEY
from ceql.engine.groups.layout import Carrier
from ceql.engine.preferred.graph import oldest_of, unite_alike
from ceql.engine.preferred.layout import (
    AT,
    BOUND,
    COUNT,
    FOUND,
    GROW,
    KEPT,
    KEY,
    LATEST,
    LIST,
    MARK,
    NO_NODE,
    NODE,
    OWN_KEY,
    POSITION,
    READY,
    STAMP,
    START,
    STARTS,
    SYMBOL,
    WAIT,
    Automaton,
    Settings,
    Work,
)
from ceql.engine.preferred.runs import ACCEPTED, begin, has_room, keep, lasts, move, note, only_begins, take
from ceql.jit import Array, Word, called, inlined


@called
def step_each(
    auto: Automaton, carrier: Carrier | None, nodes: Array, times: Array, regs: Array, row: Array, pool: Array,
    work: Work, settings: Settings, event: Array,
) -> Word:  # fmt: skip
    """Make the new list of a substream in `work`, and note which matches are decided; see `step.step`."""
    regs[STAMP] += 1
    stamp = regs[STAMP]
    regs[READY] = regs[FOUND] = regs[KEPT] = 0
    at = row[LIST]
    stop = at + row[COUNT]
    if only_begins(auto, settings, event, row):
        regs[KEPT] = row[COUNT]
        at = stop
    while at < stop:
        first = at
        at += 1
        while at < stop and pool[at, STARTS] == pool[first, STARTS]:
            at += 1
        reason: Word = _go_on(auto, carrier, nodes, times, regs, pool, work, settings, event, first, at, stamp)
        if reason != DONE:
            return reason
    if event[SYMBOL] < 0 or event[OWN_KEY] == NO_KEY:
        return np.int64(DONE)
    if not has_room(auto, regs, work):
        return np.int64(GROW)
    regs[STAMP] += 1
    first = regs[FOUND]
    moved = begin(auto, carrier, nodes, times, regs, row, work, settings, event)
    if moved < 0:
        return np.int64(-moved)
    if regs[FOUND] > first:
        for entry in range(first, regs[FOUND]):
            work.entries[entry, STARTS] = work.entries[first, NODE]
    return _end(auto, nodes, times, regs, work, settings, event, first, stamp)


@inlined
def _go_on(
    auto: Automaton, carrier: Carrier | None, nodes: Array, times: Array, regs: Array, pool: Array, work: Work,
    settings: Settings, event: Array, first: Word, stop: Word, stamp: Word,
) -> Word:  # fmt: skip
    """Take a group, which stands in the pool, to the new list."""
    starts, key, start, bound = pool[first, STARTS], pool[first, KEY], pool[first, START], event[BOUND]
    if key < bound:
        for at in range(first, stop):
            if pool[at, WAIT] == MARK or lasts(auto, pool[at, WAIT]):
                if not note(nodes, regs, work, pool[at, NODE], np.int64(-1), np.int64(0), key, bound - 1, starts):
                    return np.int64(GROW)
                break
        if nodes[starts, LATEST] < bound:
            return np.int64(DONE)
        oldest = oldest_of(nodes, work.stack, starts, bound)
        if oldest < NO_NODE:
            return np.int64(GROW)
        key, start = nodes[oldest, LATEST], nodes[oldest, POSITION]
    regs[STAMP] += 1
    into = regs[FOUND]
    for at in range(first, stop):
        if not has_room(auto, regs, work):
            return np.int64(GROW)
        take(work, pool, at)
        work.run[0, KEY], work.run[0, START] = key, start
        if work.run[0, WAIT] == MARK or event[SYMBOL] < 0:
            keep(regs, work)
        else:
            moved = move(auto, carrier, nodes, times, regs, work, event)
            if moved < 0:
                return np.int64(-moved)
            if moved == ACCEPTED:
                break
    return _end(auto, nodes, times, regs, work, settings, event, into, stamp)


@called
def _end(
    auto: Automaton, nodes: Array, times: Array, regs: Array, work: Work, settings: Settings, event: Array,
    first: Word, stamp: Word,
) -> Word:  # fmt: skip
    """The runs of some starts are in the new list from `first` on: decide what can be, and unite them with others."""
    entries = work.entries
    if regs[FOUND] == first:
        return np.int64(DONE)
    starts, key, bound = entries[first, STARTS], entries[first, KEY], event[BOUND]
    if entries[first, WAIT] == MARK:
        regs[FOUND] = first
        noted = note(nodes, regs, work, entries[first, NODE], event[AT], np.int64(0), key, np.int64(NEVER), starts)
        return np.int64(DONE if noted else GROW)
    if settings.counted and event[SYMBOL] >= 0 and key <= bound:  # no event to come is in the window of this start
        for entry in range(first, regs[FOUND]):
            if entries[entry, WAIT] == MARK or lasts(auto, entries[entry, WAIT]):
                if not note(nodes, regs, work, entries[entry, NODE], event[AT], np.int64(0), key, bound, starts):
                    return np.int64(GROW)
                break
        if nodes[starts, LATEST] <= bound:
            regs[FOUND] = first
            return np.int64(DONE)
        oldest = oldest_of(nodes, work.stack, starts, bound + 1)
        if oldest < NO_NODE:
            return np.int64(GROW)
        for entry in range(first, regs[FOUND]):
            entries[entry, KEY] = nodes[oldest, LATEST]
            entries[entry, START] = nodes[oldest, POSITION]
    if regs[KEPT] > 0:
        return np.int64(DONE)
    return np.int64(unite_alike(nodes, times, regs, work, stamp, first))
