"""One run and one event: the run reads it, skips it, or both, and the new list gets what goes on.

At most one run of a start, or of starts that go on as one, is in each wait with the same registers: a less preferred
one could only find what the other finds. `regs[STAMP]` says for which starts that counts.
"""

from __future__ import annotations

import numpy as np

from ceql.engine.common.layout import COLLECT, NO_KEY
from ceql.engine.groups.carried import CANNOT_TELL, PASSES, RULED_OUT
from ceql.engine.groups.layout import ASK, GROW_CELLS, INEXACT, Carrier
from ceql.engine.groups.layout import UNBOUND as NO_VALUE
from ceql.engine.preferred.carrying import UNTOLD, carries_on, is_new, put_registers, stays_on
from ceql.engine.preferred.graph import new_node
from ceql.engine.preferred.layout import (
    AT,
    BOUND,
    COLUMNS,
    COUNT,
    DECIDED,
    ENTRY,
    EXPIRED,
    FOUND,
    FROM,
    KEY,
    LABEL,
    LATEST,
    MARK,
    MET,
    NO_NODE,
    NODE,
    NODE_OF,
    OF_STARTS,
    OLDEST,
    OWN_KEY,
    PARENT,
    POSITION,
    PRESENT,
    REACH,
    READY,
    STAMP,
    STANDS,
    START,
    STARTS,
    SYMBOL,
    TIME,
    TO,
    TO_LAST,
    TO_NEXT,
    UNBOUND,
    WAIT,
    WANTED,
    Automaton,
    Settings,
    Work,
)
from ceql.jit import Array, Word, called, inlined

ACCEPT = -1
PASSED, ACCEPTED = range(2)  # of a run; else the reason to come back, negated
LAST_BIT = 62  # of `moves` and `PRESENT`: waits from this one on, and all else that an event may change


@inlined
def lasts(auto: Automaton, wait: Word) -> bool:
    """Whether a run that waits like this is a match once its window has passed (NOT at the end)."""
    return bool(wait != MARK and auto.waits[wait] == auto.waits[wait + 1])


@inlined
def only_begins(auto: Automaton, settings: Settings, event: Array, row: Array) -> bool:
    """Whether an event moves none of the runs that are there, and those that begin at it do not give way to them."""
    if row[COUNT] == 0 or event[SYMBOL] < 0 or event[OWN_KEY] == NO_KEY:
        return False
    if settings.counted or settings.shared or settings.skip > TO_NEXT:
        return False
    return bool(auto.moves[event[SYMBOL]] & row[PRESENT] == 0)


@inlined
def has_room(auto: Automaton, regs: Array, work: Work) -> bool:
    """Whether the waits of a run, all of them, fit the new list."""
    return bool(regs[FOUND] + len(auto.stays) + 2 <= len(work.entries))


@inlined
def take(work: Work, pool: Array, at: Word) -> None:
    """Take a run, or a mark, in hand."""
    for word in range(ENTRY):
        work.run[0, word] = pool[at, word]
    for word in range(ENTRY, work.run.shape[1]):
        work.run[0, word] = pool[at, word]


@inlined
def keep(regs: Array, work: Work) -> None:
    """Put what is in hand into the new list as it is."""
    entry = regs[FOUND]
    for word in range(ENTRY):
        work.entries[entry, word] = work.run[0, word]
    for word in range(ENTRY, work.run.shape[1]):
        work.entries[entry, word] = work.run[0, word]
    regs[FOUND] = entry + 1


@inlined
def put(regs: Array, work: Work, wait: Word, node: Word) -> None:
    """Put into the new list what the run at hand goes on with."""
    entry = regs[FOUND]
    for word in range(ENTRY):
        work.entries[entry, word] = work.run[0, word]
    work.entries[entry, WAIT] = wait
    work.entries[entry, NODE] = node
    regs[FOUND] = entry + 1


@inlined
def begin(
    auto: Automaton, carrier: Carrier | None, nodes: Array, times: Array, regs: Array, row: Array, work: Work,
    settings: Settings, event: Array,
) -> int:  # fmt: skip
    """Let runs begin at an event; the empty match is less preferred than they are."""
    run = work.run
    run[0, WAIT], run[0, NODE], run[0, KEY], run[0, START] = MARK, NO_NODE, event[OWN_KEY], event[AT]
    run[0, REACH], run[0, STARTS] = NO_KEY, NO_NODE
    if carrier is not None:
        for word in range(ENTRY, run.shape[1]):
            run[0, word] = NO_VALUE
    for k in range(len(auto.initial)):
        leaf = auto.initial[k]
        met = row[MET] & auto.unmet[k]
        if auto.holds[event[SYMBOL], auto.guards[leaf]] != 0 and (met == 0 or settings.looks_back):
            for bit in range(len(auto.forbids)):
                if met >> bit & 1 != 0:
                    run[0, REACH] = max(run[0, REACH], row[COLUMNS + bit])
            read = _read(auto, carrier, nodes, times, regs, work, event, leaf, len(auto.leaves) + k)
            if read != PASSED:
                return read
    if auto.empty < 0:
        return PASSED
    node = _reading(nodes, times, regs, work, event, np.int64(auto.empty))
    if node == NO_NODE:
        return -COLLECT
    put(regs, work, np.int64(MARK), node)
    return ACCEPTED


@inlined
def move(
    auto: Automaton, carrier: Carrier | None, nodes: Array, times: Array, regs: Array, work: Work, event: Array
) -> int:
    """Let the run at hand read an event, and skip it."""
    symbol, wait = event[SYMBOL], work.run[0, WAIT]
    for k in range(auto.waits[wait], auto.waits[wait + 1]):
        leaf = auto.leaves[k]
        if auto.holds[symbol, auto.guards[leaf]] != 0:
            read = _read(auto, carrier, nodes, times, regs, work, event, leaf, k)
            if read != PASSED:
                return read
    stays = auto.stays[wait]
    if stays < 0 or auto.holds[symbol, stays] != 0:
        return PASSED
    if carrier is not None:
        found = stays_on(auto, carrier, regs, work, event, wait)
        if found != PASSES:
            return _left(found)
        if is_new(regs, work, wait):
            put_registers(work, regs[FOUND])
            put(regs, work, wait, work.run[0, NODE])
    elif work.stamps[wait] != regs[STAMP]:
        work.stamps[wait] = regs[STAMP]
        put(regs, work, wait, work.run[0, NODE])
    return PASSED


@inlined
def _left(found: int) -> int:
    """What becomes of a run that does not pass."""
    if found == RULED_OUT:
        return PASSED
    if found == UNTOLD:
        return -ASK
    return -INEXACT if found == CANNOT_TELL else -GROW_CELLS


@inlined
def _is_forbidden(work: Work, event: Array) -> bool:
    """Whether an event before the run at hand is in the window of a match that ends here (NOT at the beginning)."""
    return bool(work.run[0, REACH] != NO_KEY and work.run[0, REACH] >= event[BOUND])


@inlined
def _reading(nodes: Array, times: Array, regs: Array, work: Work, event: Array, label: Word) -> Word:
    """A node for the event, after those of the run at hand."""
    node = new_node(nodes, times, regs, event[AT], work.run[0, NODE], label)
    if node != NO_NODE:
        if nodes.shape[1] > LATEST:
            starts, key = work.run[0, STARTS], work.run[0, KEY]
            nodes[node, LATEST] = key if starts == NO_NODE else nodes[starts, LATEST]
            nodes[node, OLDEST] = key
        if len(times):
            times[node] = event[TIME]
    return node


@called
def _read(
    auto: Automaton, carrier: Carrier | None, nodes: Array, times: Array, regs: Array, work: Work, event: Array,
    leaf: int, reads: int,
) -> int:  # fmt: skip
    """Read an event at a leaf, the `reads`-th of all that are read at: the run at hand goes on in the waits after it
    that have none yet, and may accept."""
    node: Word = np.int64(NO_NODE)
    for k in range(auto.after[leaf], auto.after[leaf + 1]):
        wait: Word = np.int64(auto.following[k])
        if (wait == ACCEPT or lasts(auto, wait)) and _is_forbidden(work, event):
            continue
        if carrier is not None:
            e: Word = np.int64(auto.first[reads] + k - auto.after[leaf])
            carried: Word = np.int64(auto.carried[wait] if wait != ACCEPT else 0)
            found = carries_on(auto, carrier, regs, work, e, carried)
            if found == RULED_OUT:
                continue
            if found != PASSES:
                return _left(found)
            if wait != ACCEPT and not is_new(regs, work, wait):
                continue
        elif wait != ACCEPT:
            if work.stamps[wait] == regs[STAMP]:
                continue
            work.stamps[wait] = regs[STAMP]
        if node == NO_NODE:
            node = _reading(nodes, times, regs, work, event, np.int64(auto.labels[leaf]))
            if node == NO_NODE:
                return -COLLECT
        if wait == ACCEPT:
            put(regs, work, np.int64(MARK), node)
            return ACCEPTED
        if carrier is not None:
            put_registers(work, regs[FOUND])
        put(regs, work, wait, node)
    return PASSED


# --- matches that are decided ---


@inlined
def note(
    nodes: Array, regs: Array, work: Work, node: Word, decided: Word, expired: Word, first: Word, last: Word, of: Word
) -> bool:
    """Note a match, or those of the starts whose keys are `first` to `last`; whether there was room."""
    entry = regs[READY]
    if entry + 3 >= len(work.ready):
        return False
    ready = work.ready
    ready[entry, NODE_OF], ready[entry, DECIDED], ready[entry, EXPIRED] = node, decided, expired
    ready[entry, FROM], ready[entry, TO], ready[entry, OF_STARTS] = first, last, of
    regs[READY] = entry + 1
    return True


@called
def target(auto: Automaton, nodes: Array, regs: Array, work: Work, start: int, skip: int) -> Word:
    """The start at which to go on after the match that was decided last; less than 0 if there is none."""
    node = work.ready[regs[READY] - 1, NODE_OF]
    found: Word = np.int64(-1)
    if nodes[node, LABEL] == auto.empty:
        return np.int64(start + 1)
    while node != NO_NODE:
        if auto.targets[nodes[node, LABEL]] != 0:
            found = nodes[node, POSITION]
            if skip == TO_LAST:
                break
        node = nodes[node, PARENT]
    if found > start:
        return found
    regs[WANTED] = start
    return -UNBOUND if found < 0 else -STANDS
