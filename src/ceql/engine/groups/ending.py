"""Ends the runs that wait to go over a gap in which a forbidden event comes (NOT).

A forbidden event ends all runs of some indexes: their table of partitions says up to which position. Or it is compared
with what runs carry: then it ends the groups that it finds under its values and that pass all tests. What was read at
the event itself does not end, and what has found those runs before keeps them. See `forbidden` for events that are
compared with what comes later.
"""

from __future__ import annotations

import numpy as np

from ceql.engine.common.layout import DONE, Events
from ceql.engine.groups.carried import CANNOT_TELL, PASSES, holds, holds_for_all
from ceql.engine.groups.layout import (
    COLUMNS,
    HEADS,
    INEXACT,
    KEY,
    NODE,
    SINCE,
    STAMP,
    UNLINKED,
    WORDS_A,
    Carrier,
    Steps,
    Store,
    Turn,
)
from ceql.engine.groups.table import are_there, locate, take_key
from ceql.jit import Array, called, inlined

ENDED = -1  # in place of the position at which a group last grew: before all


@inlined
def ended_up_to(steps: Steps, parts: Array, partition: int, index: int, forgotten: int) -> int:
    """The position up to which the runs of an index are ended or forgotten."""
    number = steps.index_ended[index]
    if number < 0:
        return forgotten
    ended: int = parts[partition, COLUMNS + number]
    return ended if ended > forgotten else forgotten


@inlined
def end_all(steps: Steps, parts: Array, partition: int, symbol: int, position: int) -> None:
    """End the runs before the event in the indexes whose runs it ends all at once."""
    for k in range(steps.ends[symbol], steps.ends[symbol + 1]):
        if steps.end[k] < 0:
            parts[partition, COLUMNS - 1 - steps.end[k]] = position - 1


@called
def end_groups(steps: Steps, carrier: Carrier, store: Store, events: Events, turn: Turn) -> int:
    """End what the event ends: DONE, or INEXACT."""
    symbol = events.symbol[turn.i]
    end_all(steps, store.parts, turn.partition, symbol, turn.position)
    for k in range(steps.ends[symbol], steps.ends[symbol + 1]):
        e = steps.end[k]
        if e >= 0 and carrier.moves_of[e] < carrier.moves_of[e + 1]:
            continue  # it ends none, but is remembered (`forbidden`)
        if e >= 0 and not _end(steps, carrier, store, events.values, turn, e):
            return INEXACT
    return DONE


@inlined
def _end(steps: Steps, carrier: Carrier, store: Store, values: Array, turn: Turn, e: int) -> bool:
    """End the groups that ending e finds; whether all its tests could be told."""
    entries, i = store.entries, turn.i
    link = steps.links[e]
    low, high = steps.link_keys[link], steps.link_keys[link + 1]
    if not are_there(values, i, steps.link_terms, low, high):
        return True
    key = store.fresh.key
    width = take_key(key, values, i, steps.link_terms, low, high)
    index = steps.link_index[link]
    heads = carrier.indexes[index, HEADS]
    base: int = KEY + steps.index_terms[index]
    head = locate(store.slots, entries, index if heads < 0 else heads, turn.partition, key, width)
    if head < 0:
        return True
    if heads < 0:  # there are no groups besides the key
        found = all_pass(carrier, e, values, i, entries, head, base)
        if found == PASSES:
            entries[head, SINCE] = ENDED
        return found != CANNOT_TELL
    next_at = entries.shape[1] - 2
    previous = np.int64(-1)
    g = entries[head, NODE]
    while g >= 0:
        following = entries[g, next_at]
        found = all_pass(carrier, e, values, i, entries, g, base)
        if found == CANNOT_TELL:
            return False
        if found == PASSES:
            if previous < 0:
                entries[head, NODE] = following
            else:
                entries[previous, next_at] = following
            entries[g, next_at] = UNLINKED
            entries[g, SINCE] = ENDED
            entries[head, STAMP] -= 1
        else:
            previous = g
        g = following
    return True


@inlined
def all_pass(carrier: Carrier, e: int, values: Array, i: int, entries: Array, g: int, base: int) -> int:
    """Whether group g passes all tests of ending e."""
    for k in range(carrier.tests_of[e], carrier.tests_of[e + 1]):
        if carrier.tests[k, WORDS_A] == 0:
            found = holds(carrier, k, values, i, entries, g, base)
        else:
            found = holds_for_all(carrier, k, values, i, entries, g, base)
        if found != PASSES:
            return found
    return PASSES
