"""What an event does to the active states: the procedures EXECTRANS and ADD of Algorithm 1.

Active states stand in the order in which they were first reached, which is one of descending max-start; union-lists
rely on it. `move_all` builds the new table from the old one, as the paper does. Most events move few states, though:
`move_few` changes those in place, for events where every state that moves also stays, and no state is
both left and entered. A state that is accepted and then left by nothing never enters the table: its
nodes go straight to the roots.
"""

from __future__ import annotations

from ceql.engine.states.graph import MAX, extend, insert, merge, new_bottom
from ceql.engine.states.layout import ACTIVE, DEAD, NO_OP, ROOTS, Active, Tables
from ceql.jit import Array, inlined


@inlined
def move_few(
    tables: Tables,
    nodes: Array,
    times: Array,
    regs: Array,
    active: Active,
    symbol: int,
    starts: int,
    key: int,
    exact: int,
    time: int,
    position: int,
    dead: int,
) -> None:
    """Move the states that the symbol moves, leaving the others where they are."""
    edges = tables.edges
    lists, lengths = active.lists, active.lengths
    roots = 0
    if starts >= 0:
        bottom = new_bottom(nodes, regs, key, position, exact)
        if len(times) > 0:
            times[bottom] = time
        for e in range(edges[starts]):
            label = edges[starts + 2 + 2 * e]
            target = edges[starts + 3 + 2 * e]
            node = bottom if label < 0 else extend(nodes, regs, bottom, position, label)
            if tables.accept[target] == 2:
                active.roots[roots] = node
                roots += 1
            else:
                _enter(nodes, regs, active, target, node, 0, dead)
    k = 0
    while k < regs[ACTIVE]:
        does = tables.next[active.state[k], symbol]
        if does == NO_OP:
            k += 1
            continue
        slot = active.slot[k]
        _drop_dead(nodes, lists, lengths, slot, dead)
        if lengths[slot] == 0:
            _leave(regs, active, k)
            continue
        merged = merge(nodes, regs, lists, lengths, slot)
        for e in range(edges[does] - 1):
            target = edges[does + 3 + 2 * e]
            node = extend(nodes, regs, merged, position, edges[does + 2 + 2 * e])
            if tables.accept[target] == 2:
                active.roots[roots] = node
                roots += 1
                continue
            at = active.place[target]
            if at < k and active.state[at] == target:
                insert(nodes, regs, lists, lengths, active.slot[at], node)
            else:
                _enter(nodes, regs, active, target, node, k, dead)
                k += 1  # the state that moved now stands behind the one that it reached
        k += 1
    regs[ROOTS] = roots


@inlined
def _enter(nodes: Array, regs: Array, active: Active, target: int, node: int, at: int, dead: int) -> None:
    """Make `node` the head of the list of `target`, which moves (or comes) to place `at`, before its old place."""
    lists, lengths, place = active.lists, active.lengths, active.place
    count = regs[ACTIVE]
    old = place[target]
    if old < count and active.state[old] == target:
        slot = active.slot[old]
        _drop_dead(nodes, lists, lengths, slot, dead)
        rest = merge(nodes, regs, lists, lengths, slot) if lengths[slot] > 0 else -1
    else:
        old = count
        regs[ACTIVE] = count + 1
        slots = lists.shape[0]
        active.free[slots] -= 1
        slot = active.free[active.free[slots]]
        rest = -1
    for k in range(old, at, -1):
        active.state[k] = active.state[k - 1]
        active.slot[k] = active.slot[k - 1]
        place[active.state[k]] = k
    active.state[at] = target
    active.slot[at] = slot
    place[target] = at
    lists[slot, 0] = node
    lengths[slot] = 1
    if rest >= 0:
        insert(nodes, regs, lists, lengths, slot, rest)


@inlined
def _leave(regs: Array, active: Active, at: int) -> None:
    """Remove the state at place `at`."""
    _give_back(active, active.slot[at])
    count = regs[ACTIVE] - 1
    for k in range(at, count):
        active.state[k] = active.state[k + 1]
        active.slot[k] = active.slot[k + 1]
        active.place[active.state[k]] = k
    regs[ACTIVE] = count


@inlined
def _give_back(active: Active, slot: int) -> None:
    slots = active.lists.shape[0]
    active.free[active.free[slots]] = slot
    active.free[slots] += 1


@inlined
def _drop_dead(nodes: Array, lists: Array, lengths: Array, slot: int, dead: int) -> None:
    """Shorten a list by what the window has left: it is sorted by max-start, so that stands at its end."""
    length = lengths[slot]
    while length > 0 and nodes[lists[slot, length - 1], MAX] < dead:
        length -= 1
    lengths[slot] = length


@inlined
def move_all(
    tables: Tables,
    nodes: Array,
    times: Array,
    regs: Array,
    active: Active,
    symbol: int,
    starts: int,
    key: int,
    exact: int,
    time: int,
    position: int,
    dead: int,
) -> None:
    """Build the new table of active states from the old one."""
    edges = tables.edges
    lists, lengths, place = active.lists, active.lengths, active.place
    fresh = 0
    roots = 0
    if starts >= 0:
        bottom = new_bottom(nodes, regs, key, position, exact)
        if len(times) > 0:
            times[bottom] = time
        for e in range(edges[starts]):
            label = edges[starts + 2 + 2 * e]
            target = edges[starts + 3 + 2 * e]
            node = bottom if label < 0 else extend(nodes, regs, bottom, position, label)
            if tables.accept[target] == 2:
                active.roots[roots] = node
                roots += 1
            else:
                fresh = _add(nodes, regs, active, target, node, fresh)
    for k in range(regs[ACTIVE]):
        state = active.state[k]
        slot = active.slot[k]
        _drop_dead(nodes, lists, lengths, slot, dead)
        does = tables.next[state, symbol]
        if lengths[slot] == 0 or does == DEAD:
            _give_back(active, slot)
            continue
        kept = False
        merged = -1
        pairs = 1 if does == NO_OP else edges[does]
        for e in range(pairs):
            label = -1 if does == NO_OP else edges[does + 2 + 2 * e]
            target = state if does == NO_OP else edges[does + 3 + 2 * e]
            at = place[target]
            known = at < fresh and active.new_state[at] == target
            if label < 0 and not known and tables.accept[target] != 2:
                active.new_state[fresh] = target
                active.new_slot[fresh] = slot
                place[target] = fresh
                fresh += 1
                kept = True
                continue
            if merged < 0:
                merged = merge(nodes, regs, lists, lengths, slot)
            node = merged if label < 0 else extend(nodes, regs, merged, position, label)
            if tables.accept[target] == 2:
                active.roots[roots] = node
                roots += 1
            else:
                fresh = _add(nodes, regs, active, target, node, fresh)
        if not kept:
            _give_back(active, slot)
    for k in range(fresh):
        active.state[k] = active.new_state[k]
        active.slot[k] = active.new_slot[k]
        if tables.accept[active.state[k]]:
            slot = active.slot[k]
            for at in range(lengths[slot]):
                active.roots[roots] = lists[slot, at]
                roots += 1
    regs[ACTIVE] = fresh
    regs[ROOTS] = roots


@inlined
def _add(nodes: Array, regs: Array, active: Active, target: int, node: int, fresh: int) -> int:
    """ADD of Algorithm 1, for a node of its own; the number of states in the new table."""
    at = active.place[target]
    if at < fresh and active.new_state[at] == target:
        insert(nodes, regs, active.lists, active.lengths, active.new_slot[at], node)
        return fresh
    slots = active.lists.shape[0]
    active.free[slots] -= 1
    slot = active.free[active.free[slots]]
    active.lists[slot, 0] = node
    active.lengths[slot] = 1
    active.new_state[fresh] = target
    active.new_slot[fresh] = slot
    active.place[target] = fresh
    return fresh + 1
