"""Algorithm 1 of core-vldb2022 over symbols.

`advance` takes the events of a batch one after the other: it looks up what the symbol does to each active state,
moves the union-lists, and at a position with accepting states notes the roots of the matches that end there. That is
all: what is done with them is the readers' business (`groups.reading`). When it needs the caller (a hole in the table,
a full graph, no room for roots) it returns why, with everything stored, and is called again to go on at the very same
event.
"""

from __future__ import annotations

import numpy as np

from ceql.engine.common.layout import (
    AFTER,
    BASE,
    COLLECT,
    DONE,
    EVENT,
    FRESH,
    HAND_OVER,
    LEAST,
    NO_KEY,
    NODES,
    NOTED,
    OUTPUT,
    PHASE,
    ROOTS,
    SEEN,
    W_GIVEN,
    WENT_BACK,
    Events,
    Settings,
)
from ceql.engine.common.roots import AT_LOG, Roots, note_roots
from ceql.engine.common.window import apply_window
from ceql.engine.states.layout import (
    ACTIVE,
    DEAD,
    EPOCH,
    GROW,
    HOLE,
    HOLE_STATE,
    HOLE_SYMBOL,
    INITIAL,
    LENGTH,
    LOADED,
    LOG,
    LOGGED,
    MISSING,
    NO_OP,
    RECORD,
    SINCE,
    SLOT,
    STATE,
    SWEEP,
    Active,
    Partitions,
    Start,
    Store,
    Tables,
)
from ceql.engine.states.moves import end_substream, move_all, move_few
from ceql.engine.states.records import free_all, load, put_back
from ceql.jit import Array, inlined, kernel, prefetch

YOUNG = 1 << 14  # nodes that are made before those that are dead are swept out, where events come by key
AHEAD = 6  # events whose records are asked for before their turn, and twice as many for where these are


@kernel
def advance(tables: Tables, store: Store, events: Events, roots: Roots, settings: Settings, stop: int) -> int:
    """Process the events from `regs[EVENT]` to `stop`; DONE, or the reason to come back."""
    regs, parts, active = store.regs, store.parts, store.active
    i = regs[EVENT]
    skips = settings.window == W_GIVEN and not settings.log
    while i < stop:
        if i + 2 * AHEAD < stop:
            prefetch(parts.table, events.partition[i + 2 * AHEAD])
            near = parts.table[max(events.partition[i + AHEAD], np.int32(0)), RECORD]
            prefetch(parts.pool, max(near, np.int64(0)))
        partition = events.partition[i]
        if partition < 0:
            i += 1
            continue
        if partition != regs[LOADED]:
            if skips and regs[PHASE] == FRESH and _is_unmoved(tables, regs, parts, partition, events.symbol[i]):
                i += 1
                continue
            if regs[BASE] > 0:
                end_substream(store, settings.window, i)
            if not put_back(regs, parts, active):
                regs[EVENT] = i
                return COLLECT
            if regs[BASE] > 0 and regs[NODES] - regs[BASE] > min(YOUNG, store.nodes.shape[0] // 2):
                regs[EVENT] = i
                return SWEEP
            if not load(regs, parts, active, partition):
                regs[LOADED] = -1
                regs[EVENT] = i
                return GROW
        if regs[PHASE] == FRESH:
            reason = _step(tables, store, events, settings, i, partition)
            if reason != DONE:
                regs[EVENT] = i
                return reason
            if regs[ROOTS] == 0 or i < settings.emit_from:
                i += 1
                continue
            regs[PHASE] = OUTPUT
        if regs[PHASE] == OUTPUT:
            last = regs[NOTED]
            reason = note_roots(
                store.nodes, regs, active.roots, roots, events, settings.window, settings.width, settings.notes, i
            )
            if reason != DONE:
                regs[EVENT] = i
                return reason
            if settings.log and regs[NOTED] > last:
                roots.at[last, AT_LOG] = parts.table[partition, LOGGED]
            regs[PHASE] = AFTER
            if settings.waits and regs[SEEN] > 0:
                regs[EVENT] = i
                return np.int64(HAND_OVER)
        if regs[SEEN] > 0 and settings.consume > 0:
            regs[ACTIVE] = 0
            if settings.consume == 2:
                regs[EPOCH] += 1
            parts.table[partition, INITIAL] = 0
            parts.table[partition, LOGGED] = -1
            parts.table[partition, SINCE] = regs[EPOCH]
            free_all(active)
        regs[SEEN] = 0
        regs[PHASE] = FRESH
        i += 1
    regs[EVENT] = i
    if regs[BASE] > 0:
        end_substream(store, settings.window, i)
    if not put_back(regs, parts, active):
        return COLLECT
    return DONE


@inlined
def _step(tables: Tables, store: Store, events: Events, settings: Settings, i: int, partition: int) -> int:
    """One event of Algorithm 1: lines 5 to 11. Nothing is changed unless it can be done whole."""
    regs, parts, symbol = store.regs, store.parts.table, events.symbol[i]
    initial = parts[partition, INITIAL]
    starts = tables.next[initial, symbol]
    if starts == MISSING:
        return _hole(regs, initial, symbol)
    after = tables.initial_next[initial, symbol]
    missing, changes, few, moves = _look(tables, regs, store.active, symbol, starts)
    if missing >= 0:
        return _hole(regs, missing, symbol)
    changes = changes or after != initial
    regs[ROOTS] = 0
    if not changes and settings.window == W_GIVEN and not settings.log:
        return DONE
    reason = _room(store, settings, moves)
    if reason != DONE:
        return reason
    able, key, exact, bound, dead = apply_window(
        regs, parts, partition, settings.window, settings.width, events.key[i], events.bound[i]
    )
    if not able:
        return WENT_BACK
    regs[LEAST] = bound
    start = Start(events.position[i], events.time[i] if len(events.time) > 0 else np.int64(0), key, exact)
    if settings.log:
        _log(store, partition, symbol, start)
    if not changes:
        return DONE
    parts[partition, INITIAL] = after
    if exact == NO_KEY:
        starts = DEAD
    if few:
        move_few(tables, store, symbol, starts, start, dead)
    else:
        move_all(tables, store, symbol, starts, start, dead)
    return DONE


@inlined
def _hole(regs: Array, state: int, symbol: int) -> int:
    """Come back for an entry of the table."""
    regs[HOLE_STATE] = state
    regs[HOLE_SYMBOL] = symbol
    return HOLE


@inlined
def _look(tables: Tables, regs: Array, active: Active, symbol: int, starts: int) -> tuple[int, bool, bool, int]:
    """What a symbol does to the active states.

    Returns a state whose entry is missing (-1: none), whether anything changes, whether every state that moves also
    stays, and moves to where nothing else happens, and how many moves there are at the most.
    """
    table, edges = tables.next, tables.edges
    moves = regs[ACTIVE] + 2
    changes = starts != DEAD
    few = True
    if starts >= 0:
        moves += edges[starts]
        few = _moves_apart(tables, starts, np.int64(edges[starts]), symbol)
    for k in range(regs[ACTIVE]):
        state = active.table[STATE, k]
        does = table[state, symbol]
        if does == NO_OP:
            continue
        if does == MISSING:
            return state, changes, few, moves
        changes = True
        if does == DEAD:
            few = False
        else:
            moves += edges[does]
            few = few and edges[does + 1] == 1 and _moves_apart(tables, does, np.int64(edges[does] - 1), symbol)
    return np.int64(-1), changes, few, moves


@inlined
def _room(store: Store, settings: Settings, moves: int) -> int:
    """DONE if there is room for so many moves, else why to come back."""
    regs, active = store.regs, store.active
    count = regs[ACTIVE]
    held = np.int64(0)
    longest = np.int64(0)
    for k in range(count):
        length = active.table[LENGTH, active.table[SLOT, k]]
        held += length
        longest = max(longest, length)
    if regs[NODES] + held + 4 * moves > store.nodes.shape[0]:
        return COLLECT
    if settings.log and regs[LOG] >= store.log.shape[0]:
        return COLLECT
    slots, room = active.lists.shape
    if count + moves > slots or longest + moves > room or held + moves > len(active.roots):
        return GROW
    return DONE


@inlined
def _log(store: Store, partition: int, symbol: int, start: Start) -> None:
    """Log an event of a partition."""
    log, parts, entry = store.log, store.parts.table, store.regs[LOG]
    log[entry, 0] = start.position
    log[entry, 1] = symbol
    log[entry, 2] = start.key
    log[entry, 3] = start.exact
    log[entry, 4] = start.time
    log[entry, 5] = parts[partition, LOGGED]
    parts[partition, LOGGED] = entry
    store.regs[LOG] = entry + 1


@inlined
def _is_unmoved(tables: Tables, regs: Array, parts: Partitions, partition: int, symbol: int) -> bool:
    """Whether an event changes nothing in its partition, by the record alone, which is then not loaded."""
    stale = parts.table[partition, SINCE] != regs[EPOCH]
    initial = np.int64(0) if stale else parts.table[partition, INITIAL]
    if tables.next[initial, symbol] != DEAD or tables.initial_next[initial, symbol] != initial:
        return False
    at = parts.table[partition, RECORD]
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
