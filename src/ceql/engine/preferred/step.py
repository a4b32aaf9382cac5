"""One event in a substream: the ordered list of its runs becomes the next one.

The list has runs, the most preferred first: those of earlier starts before those of later ones. A run is a wait, the
node of its last event, and its start. A run that accepts ends the less preferred runs of its start, and under PAST LAST
EVENT all that come after it, since their starts lie inside the match. In their place stands a *mark*: the match, which
is decided once no run is left before it.

At most one run of a start is in each wait with the same registers: a less preferred one could only find what the other
finds. Under PAST LAST EVENT without a window that is so of all starts together. If the run of the earlier start
accepts, the later start lies inside the match; if a more preferred run ends it, that one's match has the later start
inside as well. With a window, starts that go on alike share their runs (`graph`).

An event that moves none of the runs, and only begins others, leaves the list as it is and adds to it: where many starts
wait for the same event, each costs no more than the first.
"""

from __future__ import annotations

import numpy as np

from ceql.engine.common.layout import COLLECT, DONE, NO_KEY
from ceql.engine.groups.carried import CANNOT_TELL, PASSES, RULED_OUT
from ceql.engine.groups.layout import ASK, GROW_CELLS, INEXACT, Carrier
from ceql.engine.groups.layout import UNBOUND as NO_VALUE
from ceql.engine.preferred.carrying import UNTOLD, carries_on, is_new, put_registers, stays_on
from ceql.engine.preferred.graph import close_group, narrow, new_node
from ceql.engine.preferred.layout import (
    AT,
    BOUND,
    COLUMNS,
    COUNT,
    DECIDED,
    ENTRY,
    EXPIRED,
    FOUND,
    GROUP,
    GROW,
    JOINED,
    KEPT,
    KEY,
    LABEL,
    LATEST,
    LINK,
    LIST,
    MARK,
    MET,
    NO_NODE,
    NODE,
    NODE_OF,
    OLDEST,
    OWN_KEY,
    PARENT,
    PAST_LAST,
    POSITION,
    PRESENT,
    PREVIOUS,
    REACH,
    READY,
    STAMP,
    STANDS,
    START,
    SYMBOL,
    TIME,
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


@called
def step(
    auto: Automaton,
    carrier: Carrier | None,
    nodes: Array,
    times: Array,
    regs: Array,
    row: Array,
    pool: Array,
    work: Work,
    settings: Settings,
    event: Array,
) -> Word:
    """Make the new list of a substream in `work`, and say which matches are decided. Nothing else is changed.

    If runs carry registers, `work.words` has what is read of the event.

    `row` is that of the substream; `event` has the symbol (-1: time alone has passed), the position, the key, the bound
    and the time.
    """
    symbol, position, bound = event[SYMBOL], event[AT], event[BOUND]
    past, next = settings.skip == PAST_LAST, settings.skip == TO_NEXT
    regs[STAMP] += 1
    regs[READY] = 0
    regs[FOUND] = 0
    if _only_begins(auto, row, settings, event):
        regs[KEPT] = row[COUNT]
        reason = _start(auto, carrier, nodes, times, regs, row, work, settings, event, np.int64(0))
        marked = regs[FOUND] > 0 and work.entries[regs[FOUND] - 1, WAIT] == MARK
        if next or reason != DONE or not (marked or regs[READY] > 0):
            return reason
        regs[STAMP] += 1  # a match is there, which must wait for the runs before it
        regs[READY] = 0
        regs[FOUND] = 0
    regs[KEPT] = regs[GROUP] = regs[PREVIOUS] = 0
    owner: Word = np.int64(NO_KEY)  # the start whose runs are looked at
    alive: Word = np.int64(0)  # what stands before in the new list and may still decide against what comes after it
    died: Word = False  # whether this event ended a run before
    latest: Word = np.int64(NO_KEY)  # the greatest key of a run before whose window has passed
    least: Word = np.int64(NO_KEY)  # starts before this position are skipped (TO FIRST, TO LAST)
    cut = False
    run = work.run
    for at in range(row[LIST], row[LIST] + row[COUNT]):
        for word in range(ENTRY):
            run[0, word] = pool[at, word]
        if carrier is not None:
            for word in range(ENTRY, run.shape[1]):
                run[0, word] = pool[at, word]
        wait, own, start = run[0, WAIT], run[0, KEY], run[0, START]
        if past and cut:
            break
        if start != owner:
            owner = start
            cut = False
            if settings.unites and close_group(nodes, times, regs, work) != DONE:
                return COLLECT
            if not settings.shared:
                regs[STAMP] += 1
            if next:
                alive, died, latest = np.int64(0), False, np.int64(NO_KEY)
        if cut or start < least:
            continue
        if not _has_room(auto, regs, work):
            return GROW
        if wait != MARK and own < bound:
            latest = max(latest, own)
            if _lasts(auto, wait):
                least = _decide_last(auto, nodes, regs, work, run[0, NODE], np.int64(-1), own, settings)
                if least < 0:
                    return -least
            continue
        before = regs[FOUND]
        if wait == MARK or symbol < 0:
            _append(regs, work, wait, run[0, NODE], own, start)
            if carrier is not None:
                for word in range(ENTRY, run.shape[1]):
                    work.entries[regs[FOUND] - 1, word] = run[0, word]
            accepted = wait == MARK
        else:
            moved = _move(auto, carrier, nodes, times, regs, work, event)
            if moved < 0:
                return -moved
            accepted = moved == ACCEPTED
            cut = accepted
            if accepted and start < 0:
                own = narrow(nodes, regs, work, bound)
                if settings.counted and own <= bound:  # no run of this start goes on
                    alive -= before - regs[GROUP]
                    before = regs[GROUP]
            if settings.counted and own <= bound:
                lasting = _lasting(auto, regs, work, before)
                if lasting >= 0:
                    least = _decide_last(auto, nodes, regs, work, lasting, position, own, settings)
                    if least < 0:
                        return -least
                _leave_mark(regs, work, before, accepted)
            died = died or regs[FOUND] == before + accepted
        alive += regs[FOUND] - before
        if accepted:
            decided: Word = position if died or wait != MARK else np.int64(-1)
            reason = _settle(nodes, regs, work, past, alive, decided, latest)
            if reason != DONE:
                return reason
            if alive > 1:
                continue
            alive = np.int64(0)
            died = died or decided >= 0
            if not past and not next:
                least = _target(auto, nodes, regs, work, start, settings.skip)
                if least < 0:
                    return -least
    if symbol < 0 or event[OWN_KEY] == NO_KEY or (past and cut) or position < least:
        return DONE
    if settings.unites and close_group(nodes, times, regs, work) != DONE:
        return COLLECT
    reason = _start(auto, carrier, nodes, times, regs, row, work, settings, event, np.int64(0) if next else alive)
    return close_group(nodes, times, regs, work) if reason == DONE and settings.unites else reason


@inlined
def _only_begins(auto: Automaton, row: Array, settings: Settings, event: Array) -> bool:
    """Whether an event moves none of the runs that are there, and those that begin at it do not give way to them."""
    if row[COUNT] == 0 or event[SYMBOL] < 0 or event[OWN_KEY] == NO_KEY:
        return False
    if settings.counted or settings.shared or settings.skip > TO_NEXT:
        return False
    return bool(auto.moves[event[SYMBOL]] & row[PRESENT] == 0)


@called
def _start(
    auto: Automaton,
    carrier: Carrier | None,
    nodes: Array,
    times: Array,
    regs: Array,
    row: Array,
    work: Work,
    settings: Settings,
    event: Array,
    alive: Word,
) -> Word:
    """Try an event as a start: its runs are the least preferred ones. `alive` is as in `step`."""
    if not _has_room(auto, regs, work):
        return GROW
    if not settings.shared:
        regs[STAMP] += 1
    before = regs[FOUND]
    moved = _begin(auto, carrier, nodes, times, regs, row, work, settings, event)
    if moved == PASSED and auto.empty >= 0:
        moved = _accept_nothing(auto, nodes, times, regs, work, event)
    if moved < 0:
        return -moved
    if settings.counted and event[OWN_KEY] <= event[BOUND]:
        lasting = _lasting(auto, regs, work, before)
        if lasting >= 0:
            least = _decide_last(auto, nodes, regs, work, lasting, event[AT], event[OWN_KEY], settings)
            if least < 0:
                return -least
        _leave_mark(regs, work, before, moved == ACCEPTED)
    if moved != ACCEPTED:
        return DONE
    alive += regs[FOUND] - before
    reason = _settle(nodes, regs, work, settings.skip == PAST_LAST, alive, event[AT], np.int64(NO_KEY))
    if reason == DONE and alive == 1 and settings.skip > TO_NEXT:
        least = _target(auto, nodes, regs, work, event[AT], settings.skip)
        return -least if least < 0 else DONE
    return reason


@inlined
def _lasts(auto: Automaton, wait: Word) -> bool:
    """Whether a run that waits like this is a match once its window has passed (NOT at the end)."""
    return bool(auto.waits[wait] == auto.waits[wait + 1])


@inlined
def _is_forbidden(work: Work, event: Array) -> bool:
    """Whether an event before the run at hand is in the window of a match that ends here (NOT at the beginning)."""
    return bool(work.run[0, REACH] != NO_KEY and work.run[0, REACH] >= event[BOUND])


@inlined
def _lasting(auto: Automaton, regs: Array, work: Work, first: Word) -> Word:
    """The last event of the first run that lasts, of the new list from this entry on; NO_NODE if there is none."""
    for entry in range(first, regs[FOUND]):
        if work.entries[entry, WAIT] != MARK and _lasts(auto, work.entries[entry, WAIT]):
            return work.entries[entry, NODE]
    return np.int64(NO_NODE)


@called
def _decide_last(
    auto: Automaton, nodes: Array, regs: Array, work: Work, last: Word, decided: Word, key: Word, settings: Settings
) -> Word:
    """Note the match of a run that lasted; the starts before the result are skipped. Less than 0: why to come back."""
    entry = regs[READY]
    if entry + 3 >= len(work.ready):
        return -np.int64(GROW)
    work.ready[entry, NODE_OF] = last
    work.ready[entry, DECIDED] = decided
    work.ready[entry, EXPIRED] = key
    regs[READY] = entry + 1
    if settings.skip == PAST_LAST:
        return nodes[last, POSITION] + 1
    first = last
    while nodes[first, PARENT] != NO_NODE:
        first = nodes[first, PARENT]
    start = nodes[first, POSITION]
    return start + 1 if settings.skip == TO_NEXT else _target(auto, nodes, regs, work, start, settings.skip)


@inlined
def _accept_nothing(auto: Automaton, nodes: Array, times: Array, regs: Array, work: Work, event: Array) -> int:
    """The empty match of a start, which is less preferred than its runs: a node of no variable."""
    node = new_node(nodes, regs, event[AT], NO_NODE, auto.empty, event[OWN_KEY])
    if node == NO_NODE:
        return -COLLECT
    if len(times):
        times[node] = event[TIME]
    link = new_node(nodes, regs, node, NO_NODE, LINK, event[OWN_KEY])
    if link == NO_NODE:
        return -COLLECT
    _append(regs, work, MARK, link, event[OWN_KEY], event[AT])
    return ACCEPTED


@inlined
def _has_room(auto: Automaton, regs: Array, work: Work) -> bool:
    """Whether the waits of a run, all of them, fit the new list."""
    return bool(regs[FOUND] + len(auto.stays) + 2 <= len(work.entries))


@inlined
def _append(regs: Array, work: Work, wait: Word, node: Word, key: Word, start: Word) -> None:
    entry = regs[FOUND]
    work.entries[entry, WAIT] = wait
    work.entries[entry, NODE] = node
    work.entries[entry, KEY] = key
    work.entries[entry, START] = start
    work.entries[entry, REACH] = work.run[0, REACH]
    regs[FOUND] = entry + 1


@inlined
def _leave_mark(regs: Array, work: Work, first: int, accepted: bool) -> None:
    """Take out what a run goes on with, from this entry of the new list on: no event to come is in its window."""
    last = regs[FOUND] - 1
    regs[FOUND] = first
    if accepted:
        _append(regs, work, MARK, work.entries[last, NODE], work.entries[last, KEY], work.entries[last, START])


@inlined
def _begin(
    auto: Automaton, carrier: Carrier | None, nodes: Array, times: Array, regs: Array, row: Array, work: Work,
    settings: Settings, event: Array,
) -> int:  # fmt: skip
    """Let runs begin at an event."""
    run = work.run
    run[0, WAIT], run[0, NODE], run[0, KEY], run[0, START] = MARK, NO_NODE, event[OWN_KEY], event[AT]
    run[0, REACH] = NO_KEY
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
    return PASSED


@inlined
def _move(
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
            _append(regs, work, wait, work.run[0, NODE], work.run[0, KEY], work.run[0, START])
    elif work.stamps[wait] != regs[STAMP]:
        work.stamps[wait] = regs[STAMP]
        _append(regs, work, wait, work.run[0, NODE], work.run[0, KEY], work.run[0, START])
    return PASSED


@inlined
def _left(found: int) -> int:
    """What becomes of a run that does not pass."""
    if found == RULED_OUT:
        return PASSED
    if found == UNTOLD:
        return -ASK
    return -INEXACT if found == CANNOT_TELL else -GROW_CELLS


@called
def _read(
    auto: Automaton, carrier: Carrier | None, nodes: Array, times: Array, regs: Array, work: Work, event: Array,
    leaf: int, reads: int,
) -> int:  # fmt: skip
    """Read an event at a leaf, the `reads`-th of all that are read at: the run at hand goes on in the waits after it
    that have none yet, and may accept."""
    node: Word = np.int64(NO_NODE)
    key, start = work.run[0, KEY], work.run[0, START]
    for k in range(auto.after[leaf], auto.after[leaf + 1]):
        wait = auto.following[k]
        if _is_forbidden(work, event) and (wait == ACCEPT or _lasts(auto, wait)):
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
            node = new_node(nodes, regs, event[AT], work.run[0, NODE], auto.labels[leaf], key)
            if node == NO_NODE:
                return -COLLECT
            if len(times):
                times[node] = event[TIME]
        if wait == ACCEPT:
            link = new_node(nodes, regs, node, NO_NODE, LINK, key)
            if link == NO_NODE:
                return -COLLECT
            _append(regs, work, MARK, link, key, start)
            return ACCEPTED
        if carrier is not None:
            put_registers(work, regs[FOUND])
        _append(regs, work, np.int64(wait), node, key, start)
    return PASSED


@inlined
def _settle(nodes: Array, regs: Array, work: Work, joins: bool, alive: Word, decided: Word, latest: Word) -> int:
    """Take the mark at the end of the new list out, if its match is decided; else join it with a mark before it."""
    last = regs[FOUND] - 1
    node = work.entries[last, NODE]
    if alive == 1:
        regs[FOUND] = last
        return DONE if _decide(nodes, regs, work, node, decided, latest) else GROW
    if joins and work.entries[last - 1, WAIT] == MARK:
        both = new_node(nodes, regs, work.entries[last - 1, NODE], node, JOINED, work.entries[last, KEY])
        if both == NO_NODE:
            return COLLECT
        work.entries[last - 1, NODE] = both
        regs[FOUND] = last
    return DONE


@called
def _decide(nodes: Array, regs: Array, work: Work, mark: int, decided: int, latest: int) -> bool:
    """Note the matches of a mark, in order; whether there was room for them. Those still to come stand at the end."""
    ready = work.ready
    top = len(ready) - 1
    ready[top, NODE_OF] = mark
    while top < len(ready):
        node = ready[top, NODE_OF]
        top += 1
        while nodes[node, LABEL] == JOINED:
            top -= 1
            if top <= regs[READY] + 1:
                return False
            ready[top, NODE_OF] = nodes[node, PARENT]
            node = nodes[node, POSITION]
        if top <= regs[READY] + 2:
            return False
        entry = regs[READY]
        ready[entry, NODE_OF] = nodes[node, POSITION]
        ready[entry, DECIDED] = decided
        ready[entry, EXPIRED] = latest
        if nodes.shape[1] > LATEST:
            ready[entry, OLDEST] = nodes[node, LATEST]
        regs[READY] = entry + 1
    return True


@called
def _target(auto: Automaton, nodes: Array, regs: Array, work: Work, start: int, skip: int) -> Word:
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
