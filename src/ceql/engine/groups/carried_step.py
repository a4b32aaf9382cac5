"""A step of the loop where runs carry registers: transitions fire, new runs are sifted and filed, NOT ends others."""

from __future__ import annotations

import numpy as np

from ceql.engine.common.graph import MAX, NONE
from ceql.engine.common.layout import (
    BOUND,
    COLLECT,
    COUNTER,
    DONE,
    LEAST,
    NO_KEY,
    NODES,
    ROOTS,
    UNREAD,
    WENT_BACK,
    Events,
    Settings,
)
from ceql.engine.common.reached import Reached, note
from ceql.engine.common.window import apply_window
from ceql.engine.groups.carried import CANNOT_TELL, PASSES, all_hold
from ceql.engine.groups.ending import end_groups
from ceql.engine.groups.filing import file_runs, head_for, key_of, room_to_file, room_under
from ceql.engine.groups.firing import both, fire
from ceql.engine.groups.forbidden import room_to_tell, tell_groups
from ceql.engine.groups.graph import new_node
from ceql.engine.groups.layout import (
    ASK,
    ENTRIES,
    FORGOTTEN,
    FORGOTTEN_HERE,
    GROW_TABLE,
    INEXACT,
    NEED,
    SEEN_EVENTS,
    SINCE,
    TAKEN,
    Carrier,
    Fresh,
    Steps,
    Store,
    Turn,
)
from ceql.engine.groups.rings import append
from ceql.engine.groups.table import are_there
from ceql.jit import called, inlined


@inlined
def step_carried(
    steps: Steps,
    carrier: Carrier,
    store: Store,
    reached: Reached,
    events: Events,
    settings: Settings,
    room: int,
    i: int,
    partition: int,
) -> int:
    """Fire the transitions and update the indexes. Nothing is changed unless it can be done whole."""
    regs, parts = store.regs, store.parts
    symbol = events.symbol[i]
    begin, end = steps.by_symbol[symbol], steps.by_symbol[symbol + 1]
    regs[ROOTS] = 0
    regs[NEED] = 0
    if regs[NODES] + room > store.nodes.shape[0]:
        return COLLECT
    if regs[ENTRIES] + room > store.entries.shape[0]:
        return GROW_TABLE
    counter, last_bound = parts[partition, COUNTER], parts[partition, BOUND]
    able, key, exact, bound, dead = apply_window(
        regs, parts, partition, settings.window, settings.width, events.key[i], events.bound[i]
    )
    if not able:
        return WENT_BACK
    regs[LEAST] = bound
    gone = min(dead, regs[UNREAD])  # of rows: what is still to be read may need them
    forgotten = max(regs[FORGOTTEN], parts[partition, FORGOTTEN_HERE])
    stamp, position = parts[partition, SEEN_EVENTS], events.position[i]
    turn = Turn(
        np.int64(i), np.int64(partition), np.int64(position), np.int64(key), np.int64(exact), np.int64(bound),
        np.int64(dead), np.int64(gone), np.int64(stamp), np.int64(forgotten),
    )  # fmt: skip
    reason = np.int64(DONE)
    made = np.int64(0)
    only = np.int32(-1)
    if len(reached.fired) == 0 and len(carrier.died) == 0:
        only = steps.begins[symbol]
        if only >= 0:
            reason = begin_run(steps, carrier, store, events, settings, turn, only)
    if only < 0 and begin < end:
        for o in range(begin, end):
            reason, made = fire(steps, carrier, store, events, settings, turn, steps.order[o], made)
            if reason != DONE:
                break
        if reason == DONE and made > 0:
            reason, made = _sift(steps, carrier, store, reached, events, turn, made)
        if reason == DONE and carrier.asked[0, 0] > carrier.asked[0, 1]:
            reason = np.int64(ASK)
        if reason == DONE and made > 0:
            reason = room_to_file(steps, carrier, store, events, turn, made, settings.block)
    if reason == DONE and steps.ends[symbol] < steps.ends[symbol + 1]:
        tells = carrier.moves_of[len(steps.target)] < carrier.moves_of[len(carrier.moves_of) - 1]
        if tells:
            reason = room_to_tell(steps, carrier, store, events, turn, made)
        if reason == DONE:
            reason = end_groups(steps, carrier, store, events, turn)
        if tells and reason == DONE:
            tell_groups(steps, carrier, store, events, turn, made)
    if reason == DONE and made > 0:
        file_runs(steps, carrier, store, events, turn, made, settings.block)
    if len(carrier.died) > 0:
        for k in range(carrier.died.shape[1]):  # an event that is read again counts once
            if reason == DONE:
                carrier.died[1, k] = carrier.died[0, k]
            else:
                carrier.died[0, k] = carrier.died[1, k]
    if reason != DONE:  # the event is read again; the nodes that it has made are not reached
        parts[partition, COUNTER] = counter
        parts[partition, BOUND] = last_bound
        return reason
    parts[partition, SEEN_EVENTS] = stamp + 1
    return DONE


@called
def _sift(
    steps: Steps, carrier: Carrier, store: Store, reached: Reached, events: Events, turn: Turn, made: int
) -> tuple[int, int]:
    """Make nodes of the new runs that pass their tests, and note those that are complete: the reason to come back, and
    how many runs are left."""
    nodes, regs, fresh, i = store.nodes, store.regs, store.fresh, turn.i
    time = events.time[i] if len(events.time) > 0 else np.int64(0)
    if regs[NODES] + 2 * made > nodes.shape[0]:
        return COLLECT, made
    kept = np.int64(0)
    roots = np.int64(0)
    for m in range(made):
        e = fresh.via[m]
        complete = np.int64(PASSES)
        if len(carrier.after) > 0:
            found = all_hold(carrier, carrier.after[e, 0], carrier.after[e, 1], events.values, i, fresh.vector, m)
            if found == PASSES:
                complete = all_hold(
                    carrier, carrier.after[e, 2], carrier.after[e, 3], events.values, i, fresh.vector, m
                )
            if found == CANNOT_TELL or complete == CANNOT_TELL:
                return INEXACT, made
            if found != PASSES:
                continue
        child = fresh.node[m]
        most = turn.key if child < 0 else min(turn.key, nodes[child, MAX])
        n = new_node(nodes, regs, most, turn.position, child, turn.exact, np.int64(steps.mark[e]))
        if len(store.times) > 0:
            store.times[n] = time
        target = steps.target[e]
        if kept > 0 and _waits_with(carrier, fresh, target, kept, np.int64(m)):
            fresh.node[kept - 1] = both(nodes, regs, fresh.node[kept - 1], n)
        else:
            fresh.state[kept] = target
            fresh.node[kept] = n
            if kept < m:
                for k in range(fresh.vector.shape[1]):
                    fresh.vector[kept, k] = fresh.vector[m, k]
            kept += 1
        if len(reached.fired) > 0:
            if nodes[n, MAX] >= turn.bound:
                note(reached, e, target, turn.position, time)
        elif steps.final[target] and complete == PASSES:
            fresh.roots[roots] = n
            roots += 1
    regs[ROOTS] = roots
    return DONE, kept


@inlined
def _waits_with(carrier: Carrier, fresh: Fresh, state: int, kept: int, m: int) -> bool:
    """Whether run m, in this state, waits for the same as the run before it, under the same values: then both are one,
    though only one of them may be complete."""
    if carrier.alike[state, 0] < 0 or carrier.alike[state, 0] != carrier.alike[fresh.state[kept - 1], 0]:
        return False
    same = True
    for k in range(carrier.alike[state, 1]):
        same = same and fresh.vector[m, k] == fresh.vector[kept - 1, k]
    return same


@called
def begin_run(
    steps: Steps, carrier: Carrier, store: Store, events: Events, settings: Settings, turn: Turn, e: int
) -> int:
    """Fire transition e, which looks nothing up, and file its run, which waits in one index, in order; there is room.

    In many queries most events do nothing else, and need none of what `step_carried` does for the others.
    """
    values, entries, i = events.values, store.entries, turn.i
    if settings.chain and turn.exact == NO_KEY:
        return DONE  # cannot start a match
    if not are_there(values, i, steps.need_terms, steps.needs[e], steps.needs[e + 1]):
        return DONE
    first = carrier.moves_of[e]
    for k in range(first, carrier.moves_of[e + 1]):
        store.fresh.vector[0, k - first] = values[i, carrier.moves[k, TAKEN]]
    feed = steps.feeds[steps.target[e]]
    index = steps.feed_index[feed]
    width = key_of(steps, carrier, store, events, i, np.int64(0), feed)
    if width < 0:
        return DONE
    value = store.fresh.key[width - 1]
    head = head_for(carrier, store, index, turn.partition, width - 1)
    reason = room_under(carrier, store, turn, index, head, np.int64(1), settings.block)
    if reason != DONE:
        return reason
    n = new_node(store.nodes, store.regs, turn.key, turn.position, NONE, turn.exact, np.int64(steps.mark[e]))
    if len(store.times) > 0:
        store.times[n] = events.time[i]
    append(carrier, entries[head, entries.shape[1] - 1], value, n, turn.key, turn.position, settings.block)
    entries[head, SINCE] = turn.position
    return DONE
