"""Moves the active states over an event: the procedures EXECTRANS and ADD of Algorithm 1.

Active states stand in the order in which they were first reached, which is one of descending max-start; union-lists
rely on it. `move_all` builds the new table from the old one, as the paper does. Most events move few states, though:
`move_few` changes those in place, for events where every state that moves also stays, and no state is
both left and entered. A state that is accepted and then left by nothing never enters the table: its
nodes go straight to the roots.
"""

from __future__ import annotations

import numpy as np

from ceql.engine.common.graph import MAX
from ceql.engine.common.layout import (
    BASE,
    BOUND,
    FROM,
    KEPT,
    NEVER,
    NODES,
    NOTED,
    ROOTS,
    SPARED,
    SPARED_AT,
    UNTIL,
    W_COUNTED,
)
from ceql.engine.states.graph import extend, insert, merge, new_bottom
from ceql.engine.states.layout import (
    ACTIVE,
    DEAD,
    FREE,
    LENGTH,
    LOADED,
    NEW_SLOT,
    NEW_STATE,
    NO_OP,
    SLOT,
    STATE,
    Active,
    Start,
    Store,
    Tables,
)
from ceql.jit import Array, inlined


@inlined
def move_few(tables: Tables, store: Store, symbol: int, starts: int, start: Start, dead: int) -> None:
    """Move the states that the symbol moves, leaving the others where they are."""
    edges, nodes, regs, active = tables.edges, store.nodes, store.regs, store.active
    position = start.position
    roots = 0
    if starts >= 0:
        bottom = new_bottom(nodes, store.times, regs, start)
        for e in range(edges[starts]):
            label = np.int64(edges[starts + 2 + 2 * e])
            target = np.int64(edges[starts + 3 + 2 * e])
            node = bottom if label < 0 else extend(nodes, regs, bottom, position, label)
            if tables.accept[target] == 2:
                active.roots[roots] = node
                roots += 1
            else:
                _enter(nodes, regs, active, target, node, np.int64(0), dead)
    k = np.int64(0)
    while k < regs[ACTIVE]:
        does = tables.next[active.table[STATE, k], symbol]
        if does == NO_OP:
            k += 1
            continue
        slot = active.table[SLOT, k]
        _drop_dead(nodes, active, slot, dead)
        if active.table[LENGTH, slot] == 0:
            _leave(regs, active, k)
            continue
        merged = merge(nodes, regs, active, slot)
        for e in range(edges[does] - 1):
            target = np.int64(edges[does + 3 + 2 * e])
            node = extend(nodes, regs, merged, position, np.int64(edges[does + 2 + 2 * e]))
            if tables.accept[target] == 2:
                active.roots[roots] = node
                roots += 1
                continue
            at = active.place[target]
            if at < k and active.table[STATE, at] == target:
                insert(nodes, regs, active, active.table[SLOT, at], node)
            else:
                _enter(nodes, regs, active, target, node, k, dead)
                k += 1  # the state that moved now stands behind the one that it reached
        k += 1
    regs[ROOTS] = roots


@inlined
def _enter(nodes: Array, regs: Array, active: Active, target: int, node: int, at: int, dead: int) -> None:
    """Make `node` the head of the list of `target`, which moves (or comes) to place `at`, before its old place."""
    lists, place = active.lists, active.place
    count = regs[ACTIVE]
    old = place[target]
    if old < count and active.table[STATE, old] == target:
        slot = active.table[SLOT, old]
        _drop_dead(nodes, active, slot, dead)
        rest = merge(nodes, regs, active, slot) if active.table[LENGTH, slot] > 0 else -1
    else:
        old = count
        regs[ACTIVE] = count + 1
        slots = lists.shape[0]
        active.table[FREE, slots] -= 1
        slot = active.table[FREE, active.table[FREE, slots]]
        rest = -1
    for k in range(old, at, -1):
        active.table[STATE, k] = active.table[STATE, k - 1]
        active.table[SLOT, k] = active.table[SLOT, k - 1]
        place[active.table[STATE, k]] = k
    active.table[STATE, at] = target
    active.table[SLOT, at] = slot
    place[target] = at
    lists[slot, 0] = node
    active.table[LENGTH, slot] = 1
    if rest >= 0:
        insert(nodes, regs, active, slot, rest)


@inlined
def _leave(regs: Array, active: Active, at: int) -> None:
    """Remove the state at place `at`."""
    _give_back(active, active.table[SLOT, at])
    count = regs[ACTIVE] - 1
    for k in range(at, count):
        active.table[STATE, k] = active.table[STATE, k + 1]
        active.table[SLOT, k] = active.table[SLOT, k + 1]
        active.place[active.table[STATE, k]] = k
    regs[ACTIVE] = count


@inlined
def _give_back(active: Active, slot: int) -> None:
    slots = active.lists.shape[0]
    active.table[FREE, active.table[FREE, slots]] = slot
    active.table[FREE, slots] += 1


@inlined
def end_substream(store: Store, window: int, i: int) -> None:
    """Where events come by key: drop what no later event can be with, once those of the loaded substream are done. Its
    nodes are given back at once, if neither it nor a root of its own that is unread holds them."""
    regs, active = store.regs, store.active
    if regs[LOADED] >= 0:
        until = regs[UNTIL]
        if window == W_COUNTED and until != NEVER:
            until = store.parts.table[regs[LOADED], BOUND]
        k = np.int64(0)
        while k < regs[ACTIVE]:
            slot = active.table[SLOT, k]
            _drop_dead(store.nodes, active, slot, until)
            if active.table[LENGTH, slot] == 0:
                _leave(regs, active, k)
            else:
                k += 1
        if regs[ACTIVE] > 0:
            regs[KEPT] = 1
    if regs[KEPT] > 0:
        return
    if regs[NOTED] == 0:
        regs[NODES] = regs[BASE] - 1
        regs[FROM] = i
    elif regs[NOTED] == regs[SPARED_AT]:
        regs[NODES] = regs[SPARED]
    else:
        regs[SPARED_AT], regs[SPARED] = regs[NOTED], regs[NODES]


@inlined
def _drop_dead(nodes: Array, active: Active, slot: int, dead: int) -> None:
    """Shorten a list by what the window has left: it is sorted by max-start, so that stands at its end."""
    length = active.table[LENGTH, slot]
    while length > 0 and nodes[active.lists[slot, length - 1], MAX] < dead:
        length -= 1
    active.table[LENGTH, slot] = length


@inlined
def move_all(tables: Tables, store: Store, symbol: int, starts: int, start: Start, dead: int) -> None:
    """Build the new table of active states from the old one."""
    edges, nodes, regs, active = tables.edges, store.nodes, store.regs, store.active
    lists, place, position = active.lists, active.place, start.position
    fresh = np.int64(0)
    roots = 0
    if starts >= 0:
        bottom = new_bottom(nodes, store.times, regs, start)
        for e in range(edges[starts]):
            label = np.int64(edges[starts + 2 + 2 * e])
            target = np.int64(edges[starts + 3 + 2 * e])
            node = bottom if label < 0 else extend(nodes, regs, bottom, position, label)
            if tables.accept[target] == 2:
                active.roots[roots] = node
                roots += 1
            else:
                fresh = _add(nodes, regs, active, target, node, fresh)
    for k in range(regs[ACTIVE]):
        state = active.table[STATE, k]
        slot = active.table[SLOT, k]
        _drop_dead(nodes, active, slot, dead)
        does = tables.next[state, symbol]
        if active.table[LENGTH, slot] == 0 or does == DEAD:
            _give_back(active, slot)
            continue
        kept = False
        merged = -1
        pairs = 1 if does == NO_OP else edges[does]
        for e in range(pairs):
            label = np.int64(-1 if does == NO_OP else edges[does + 2 + 2 * e])
            target = np.int64(state if does == NO_OP else edges[does + 3 + 2 * e])
            at = place[target]
            known = at < fresh and active.table[NEW_STATE, at] == target
            if label < 0 and not known and tables.accept[target] != 2:
                active.table[NEW_STATE, fresh] = target
                active.table[NEW_SLOT, fresh] = slot
                place[target] = fresh
                fresh += 1
                kept = True
                continue
            if merged < 0:
                merged = merge(nodes, regs, active, slot)
            node = merged if label < 0 else extend(nodes, regs, merged, position, label)
            if tables.accept[target] == 2:
                active.roots[roots] = node
                roots += 1
            else:
                fresh = _add(nodes, regs, active, target, node, fresh)
        if not kept:
            _give_back(active, slot)
    for k in range(fresh):
        active.table[STATE, k] = active.table[NEW_STATE, k]
        active.table[SLOT, k] = active.table[NEW_SLOT, k]
        if tables.accept[active.table[STATE, k]]:
            slot = active.table[SLOT, k]
            for at in range(active.table[LENGTH, slot]):
                active.roots[roots] = lists[slot, at]
                roots += 1
    regs[ACTIVE] = fresh
    regs[ROOTS] = roots


@inlined
def _add(nodes: Array, regs: Array, active: Active, target: int, node: int, fresh: int) -> int:
    """ADD of Algorithm 1, for a node of its own; the number of states in the new table."""
    at = active.place[target]
    if at < fresh and active.table[NEW_STATE, at] == target:
        insert(nodes, regs, active, active.table[NEW_SLOT, at], node)
        return fresh
    slots = active.lists.shape[0]
    active.table[FREE, slots] -= 1
    slot = active.table[FREE, active.table[FREE, slots]]
    active.lists[slot, 0] = node
    active.table[LENGTH, slot] = 1
    active.table[NEW_STATE, fresh] = target
    active.table[NEW_SLOT, fresh] = slot
    active.place[target] = fresh
    return fresh + 1
