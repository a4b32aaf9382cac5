"""Algorithm 1 of core-vldb2022 over symbols.

`advance` takes the events of a batch one after the other: it looks up what the symbol does to each active state,
moves the union-lists, and at a position with accepting states enumerates or counts the matches that end there.
When it needs the caller (a hole in the table, full buffers, a full arena) it returns why, with
everything stored, and is called again to go on at the very same event.
"""

from __future__ import annotations

import numpy as np

from ceql.engine.states.count import count_kept, count_live
from ceql.engine.states.enumerate import any_live, enumerate_position
from ceql.engine.states.graph import NODES
from ceql.engine.states.layout import (
    ACTIVE,
    AFTER,
    COLLECT,
    COUNT,
    DEAD,
    DONE,
    ENUMERATE,
    EPOCH,
    EVENT,
    FRESH,
    FULL,
    GROW,
    GROW_PATH,
    HOLE,
    HOLE_STATE,
    HOLE_SYMBOL,
    HORIZON,
    LOADED,
    LOG,
    MISSING,
    NO_OP,
    OUTPUT,
    OVERFLOW,
    PHASE,
    REPLAY,
    ROOTS,
    SEEN,
    TOTAL,
    W_COUNTED,
    W_ENVELOPE,
    W_GIVEN,
    WENT_BACK,
    Active,
    Events,
    Output,
    Partitions,
    Settings,
    Tables,
)
from ceql.engine.states.moves import move_all, move_few
from ceql.engine.states.records import load, store
from ceql.jit import Array, inlined, kernel

NO_KEY = np.iinfo(np.int64).min  # of an event that can start no match: its window attribute is NULL


@kernel
def advance(
    tables: Tables,
    nodes: Array,
    times: Array,
    regs: Array,
    parts: Partitions,
    active: Active,
    events: Events,
    log: Array,
    out: Output,
    scratch: Array,
    settings: Settings,
    stop: int,
) -> int:
    """Process the events from `regs[EVENT]` to `stop`; DONE, or the reason to come back."""
    i = regs[EVENT]
    skips = settings.window == W_GIVEN and not settings.log
    while i < stop:
        partition = events.partition[i]
        if partition < 0:
            i += 1
            continue
        if partition != regs[LOADED]:
            if skips and regs[PHASE] == FRESH and _is_unmoved(tables, regs, parts, partition, events.symbol[i]):
                i += 1
                continue
            if not store(regs, parts, active):
                regs[EVENT] = i
                return COLLECT
            if not load(regs, parts, active, partition):
                regs[LOADED] = -1
                regs[EVENT] = i
                return GROW
        if regs[PHASE] == FRESH:
            reason = _step(tables, nodes, times, regs, parts, active, events, log, settings, i, partition)
            if reason != DONE:
                regs[EVENT] = i
                return reason
            if regs[ROOTS] == 0 or i < settings.emit_from:
                i += 1
                continue
            regs[PHASE] = OUTPUT
        if regs[PHASE] == OUTPUT:
            reason = _output(nodes, times, regs, active, events, out, scratch, settings, i, partition)
            if reason != DONE:
                regs[EVENT] = i
                return reason
            regs[PHASE] = AFTER
        if regs[TOTAL] >> 62:
            regs[EVENT] = i
            return FULL
        if regs[SEEN] > 0 and settings.consume > 0:
            regs[ACTIVE] = 0
            if settings.consume == 2:
                regs[EPOCH] += 1
            parts.initial[partition] = 0
            parts.log[partition] = -1
            parts.epoch[partition] = regs[EPOCH]
            _free_all(active)
        regs[SEEN] = 0
        regs[PHASE] = FRESH
        i += 1
    regs[EVENT] = i
    if not store(regs, parts, active):
        return COLLECT
    return DONE


@inlined
def _free_all(active: Active) -> None:
    slots = active.lists.shape[0]
    for k in range(slots):
        active.free[k] = slots - 1 - k
    active.free[slots] = slots


@inlined
def _output(
    nodes: Array,
    times: Array,
    regs: Array,
    active: Active,
    events: Events,
    out: Output,
    scratch: Array,
    settings: Settings,
    i: int,
    partition: int,
) -> int:
    bound = events.bound[i]
    if settings.window == W_COUNTED:
        bound = regs[HORIZON]
    if settings.mode == ENUMERATE:
        time = events.time[i] if len(times) > 0 else 0
        return enumerate_position(
            nodes, times, regs, active.roots, out, scratch, settings, bound, events.position[i], time, partition
        )
    if settings.mode == COUNT:
        if bound == NO_KEY:
            found = count_kept(nodes, regs, active.roots, scratch)
        else:
            found = count_live(nodes, regs, active.roots, scratch, settings.exact, bound)
        if found < 0:
            return OVERFLOW
        if settings.limit > 0 and found > settings.limit:
            found = settings.limit
        regs[TOTAL] += found
        regs[SEEN] = found
        return DONE
    live = any_live(nodes, regs, active.roots, out, settings.exact, bound)
    if live < 0:
        return GROW_PATH
    if live == 0:
        return DONE
    regs[SEEN] = 1
    return REPLAY


@inlined
def _step(
    tables: Tables,
    nodes: Array,
    times: Array,
    regs: Array,
    parts: Partitions,
    active: Active,
    events: Events,
    log: Array,
    settings: Settings,
    i: int,
    partition: int,
) -> int:
    """One event of Algorithm 1: lines 5 to 11. Nothing is changed unless it can be done whole."""
    symbol = events.symbol[i]
    table = tables.next
    edges = tables.edges
    initial = parts.initial[partition]
    starts = table[initial, symbol]
    if starts == MISSING:
        regs[HOLE_STATE] = initial
        regs[HOLE_SYMBOL] = symbol
        return HOLE
    after = tables.initial_next[initial, symbol]
    count = regs[ACTIVE]
    changes = starts != DEAD or after != initial
    moves = count + 2
    few = True  # whether every state that moves also stays, and moves to where nothing else happens
    if starts >= 0:
        moves += edges[starts]
        few = _moves_apart(tables, starts, edges[starts], symbol)
    for k in range(count):
        does = table[active.state[k], symbol]
        if does == NO_OP:
            continue
        if does == MISSING:
            regs[HOLE_STATE] = active.state[k]
            regs[HOLE_SYMBOL] = symbol
            return HOLE
        changes = True
        if does == DEAD:
            few = False
        else:
            moves += edges[does]
            few = few and edges[does + 1] == 1 and _moves_apart(tables, does, edges[does] - 1, symbol)
    regs[ROOTS] = 0
    if not changes and settings.window == W_GIVEN and not settings.log:
        return DONE
    held = np.int64(0)
    longest = np.int64(0)
    for k in range(count):
        length = active.lengths[active.slot[k]]
        held += length
        longest = max(longest, length)
    if regs[NODES] + held + 4 * moves > nodes.shape[0] or (settings.log and regs[LOG] >= log.shape[0]):
        return COLLECT
    if (
        count + moves > active.lists.shape[0]
        or longest + moves > active.lists.shape[1]
        or held + moves > len(active.roots)
    ):
        return GROW

    key, bound = events.key[i], events.bound[i]
    exact = key
    dead = bound  # lists whose max-start is below are dead for good
    if settings.window == W_COUNTED:
        key = parts.counter[partition]
        parts.counter[partition] = key + 1
        exact = key
        bound = key - settings.width
        dead = bound
        regs[HORIZON] = bound
        parts.bound[partition] = bound
    elif settings.window == W_ENVELOPE:
        dead = NO_KEY
        if bound < parts.floor[partition]:
            return WENT_BACK
        if key != NO_KEY:
            if key > parts.counter[partition]:
                parts.counter[partition] = key
                parts.bound[partition] = bound
            key = parts.counter[partition]
    elif bound > regs[HORIZON]:
        regs[HORIZON] = bound
    if settings.log:
        entry = regs[LOG]
        log[entry, 0] = events.position[i]
        log[entry, 1] = symbol
        log[entry, 2] = parts.counter[partition] if settings.window == W_ENVELOPE else key
        log[entry, 3] = exact
        log[entry, 4] = events.time[i] if len(events.time) > 0 else 0
        log[entry, 5] = parts.log[partition]
        parts.log[partition] = entry
        regs[LOG] = entry + 1
    if not changes:
        return DONE
    parts.initial[partition] = after
    if exact == NO_KEY:
        starts = DEAD
    time = events.time[i] if len(times) > 0 else 0
    if few:
        move_few(tables, nodes, times, regs, active, symbol, starts, key, exact, time, events.position[i], dead)
    else:
        move_all(tables, nodes, times, regs, active, symbol, starts, key, exact, time, events.position[i], dead)
    return DONE


@inlined
def _is_unmoved(tables: Tables, regs: Array, parts: Partitions, partition: int, symbol: int) -> bool:
    """Whether an event changes nothing in its partition, by the record alone, which is then not loaded."""
    stale = parts.epoch[partition] != regs[EPOCH]
    initial = np.int32(0) if stale else parts.initial[partition]
    if tables.next[initial, symbol] != DEAD or tables.initial_next[initial, symbol] != initial:
        return False
    at = parts.offset[partition]
    if stale or at < 0:
        return True
    pool = parts.pool
    count = pool[at]
    at += 1
    for _ in range(count):
        if tables.next[pool[at], symbol] != NO_OP:
            return False
        at += 2 + pool[at + 1]
    return True


@inlined
def _moves_apart(tables: Tables, entry: int, count: int, symbol: int) -> bool:
    """Whether the first edges of an entry lead to states that this symbol does not move, or that end at once."""
    for e in range(count):
        target = tables.edges[entry + 3 + 2 * e]
        if tables.accept[target] == 2:
            continue
        if tables.accept[target] == 1 or tables.next[target, symbol] != NO_OP:
            return False
    return True
