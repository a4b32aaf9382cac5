"""One event in a substream where matches skip starts: the ordered list of its runs becomes the next one.

The list has runs, the most preferred first: those of earlier starts before those of later ones. A run that accepts
ends the less preferred runs of its start, and under PAST LAST EVENT all that come after it, since their starts lie
inside the match. In their place stands a *mark*: the match, which is decided once no run is left before it.

Under PAST LAST EVENT without a window, at most one run of all starts is in each wait with the same registers. If the
run of the earlier start accepts, the later start lies inside the match; if a more preferred run ends it, that one's
match has the later start inside as well. With a window, starts that go on alike share their runs (`graph`).

An event that moves none of the runs, and only begins others, leaves the list as it is and adds to it: where many starts
wait for the same event, each costs no more than the first.
"""

from __future__ import annotations

import numpy as np

from ceql.engine.common.layout import COLLECT, DONE, NEVER, NO_KEY
from ceql.engine.groups.layout import Carrier
from ceql.engine.preferred.graph import narrow, new_node, unite_neighbours
from ceql.engine.preferred.layout import (
    AT,
    BOUND,
    COUNT,
    FOUND,
    GROUP,
    GROW,
    JOINED,
    KEPT,
    KEY,
    LABEL,
    LATEST,
    LIST,
    MARK,
    NO_NODE,
    NODE,
    NODE_OF,
    OWN_KEY,
    PARENT,
    PAST_LAST,
    POSITION,
    PREVIOUS,
    READY,
    STAMP,
    START,
    SYMBOL,
    WAIT,
    Automaton,
    Settings,
    Work,
)
from ceql.engine.preferred.runs import ACCEPTED, begin, has_room, keep, lasts, move, note, only_begins, take, target
from ceql.jit import Array, Word, called, inlined


@called
def step(
    auto: Automaton, carrier: Carrier | None, nodes: Array, times: Array, regs: Array, row: Array, pool: Array,
    work: Work, settings: Settings, event: Array,
) -> Word:  # fmt: skip
    """Make the new list of a substream in `work`, and note which matches are decided. Nothing else is changed.

    `row` is that of the substream; `event` has the symbol (-1: time alone has passed), the position, the key, the bound
    and the time; `work.words` has what is read of it, if runs carry registers.
    """
    regs[STAMP] += 1
    reason: Word = _only_begun(auto, carrier, nodes, times, regs, row, work, settings, event)
    if reason >= 0:
        return reason
    symbol, position, bound = event[SYMBOL], event[AT], event[BOUND]
    past = settings.skip == PAST_LAST
    owner: Word = np.int64(NO_KEY)  # the start whose runs are looked at
    alive: Word = np.int64(0)  # what stands before in the new list and may still decide against what comes after it
    died: Word = False  # whether this event ended a run before
    latest: Word = np.int64(NO_KEY)  # the greatest key of a run before whose window has passed
    least: Word = np.int64(NO_KEY)  # starts before this position are skipped
    cut: Word = False  # whether the start has a match, or one before it under PAST LAST EVENT
    for at in range(row[LIST], row[LIST] + row[COUNT]):
        take(work, pool, at)
        wait, own, start = work.run[0, WAIT], work.run[0, KEY], work.run[0, START]
        if past and cut:
            break
        if start != owner:
            owner, cut = start, False
            if settings.unites and unite_neighbours(nodes, times, regs, work) != DONE:
                return np.int64(COLLECT)
            if not settings.shared:
                regs[STAMP] += 1
        if cut or start < least:
            continue
        if not has_room(auto, regs, work):
            return np.int64(GROW)
        if wait != MARK and own < bound:
            latest = max(latest, own)
            if lasts(auto, wait):
                least = _decide_last(auto, nodes, regs, work, work.run[0, NODE], np.int64(-1), own, settings)
                if least < 0:
                    return -least
            continue
        before = regs[FOUND]
        accepted = wait == MARK
        if accepted or symbol < 0:
            keep(regs, work)
        else:
            moved = move(auto, carrier, nodes, times, regs, work, event)
            if moved < 0:
                return np.int64(-moved)
            accepted = cut = moved == ACCEPTED
            if accepted and start < 0:
                own = narrow(nodes, regs, work, bound)
                if settings.counted and own <= bound:  # no run of this start goes on
                    alive -= before - regs[GROUP]
                    before = regs[GROUP]
            if settings.counted and own <= bound:
                least = _ended(auto, nodes, regs, work, settings, event, before, own, accepted, least)
                if least < 0 and least != NO_KEY:
                    return -least
            died = died or regs[FOUND] == before + accepted
        alive += regs[FOUND] - before
        if accepted:
            decided: Word = position if died or wait != MARK else np.int64(-1)
            reason = _settle(nodes, times, regs, work, past, alive, decided, latest)
            if reason != DONE:
                return reason
            if alive > 1:
                continue
            alive = np.int64(0)
            died = died or decided >= 0
            if not past:
                least = target(auto, nodes, regs, work, start, settings.skip)
                if least < 0:
                    return -least
    if symbol < 0 or event[OWN_KEY] == NO_KEY or (past and cut) or position < least:
        return np.int64(DONE)
    reason = _start(auto, carrier, nodes, times, regs, row, work, settings, event, alive)
    return np.int64(unite_neighbours(nodes, times, regs, work)) if reason == DONE and settings.unites else reason


@inlined
def _only_begun(
    auto: Automaton, carrier: Carrier | None, nodes: Array, times: Array, regs: Array, row: Array, work: Work,
    settings: Settings, event: Array,
) -> Word:  # fmt: skip
    """Add the runs that begin at an event, if that is all that it does; -1 if it is not, and the list is to be made."""
    regs[READY] = regs[FOUND] = regs[KEPT] = regs[GROUP] = regs[PREVIOUS] = 0
    if only_begins(auto, settings, event, row):
        reason = _start(auto, carrier, nodes, times, regs, row, work, settings, event, np.int64(0))
        marked = regs[FOUND] > 0 and work.entries[regs[FOUND] - 1, WAIT] == MARK
        if reason != DONE or not (marked or regs[READY] > 0):
            regs[KEPT] = row[COUNT]
            return reason
        regs[STAMP] += 1  # a match is there, which must wait for the runs before it
        regs[READY] = regs[FOUND] = 0
    return np.int64(-1)


@called
def _start(
    auto: Automaton, carrier: Carrier | None, nodes: Array, times: Array, regs: Array, row: Array, work: Work,
    settings: Settings, event: Array, alive: Word,
) -> Word:  # fmt: skip
    """Try an event as a start: its runs are the least preferred ones. `alive` is as in `step`."""
    if settings.unites and unite_neighbours(nodes, times, regs, work) != DONE:
        return np.int64(COLLECT)
    if not has_room(auto, regs, work):
        return np.int64(GROW)
    if not settings.shared:
        regs[STAMP] += 1
    before = regs[FOUND]
    moved = begin(auto, carrier, nodes, times, regs, row, work, settings, event)
    if moved < 0:
        return np.int64(-moved)
    accepted = moved == ACCEPTED
    least: Word = np.int64(NO_KEY)
    if settings.counted and event[OWN_KEY] <= event[BOUND]:
        least = _ended(auto, nodes, regs, work, settings, event, before, event[OWN_KEY], accepted, least)
        if least < 0 and least != NO_KEY:
            return -least
    if not accepted:
        return np.int64(DONE)
    alive += regs[FOUND] - before
    past = settings.skip == PAST_LAST
    reason: Word = _settle(nodes, times, regs, work, past, alive, event[AT], np.int64(NO_KEY))
    if reason == DONE and alive == 1 and not past:
        least = target(auto, nodes, regs, work, event[AT], settings.skip)
        return -least if least < 0 else np.int64(DONE)
    return reason


@called
def _ended(
    auto: Automaton, nodes: Array, regs: Array, work: Work, settings: Settings, event: Array,
    first: Word, key: Word, accepted: bool, least: Word,
) -> Word:  # fmt: skip
    """No event to come is in the window of a start with this key: take out what its run goes on with, which stands in
    the new list from `first` on, and decide the match of a run that lasts. Returns the `least` of `step`; less than 0,
    but `NO_KEY`: why to come back."""
    last = regs[FOUND] - 1
    for entry in range(first, regs[FOUND]):
        if lasts(auto, work.entries[entry, WAIT]):
            least = _decide_last(auto, nodes, regs, work, work.entries[entry, NODE], event[AT], key, settings)
            break
    regs[FOUND] = first
    if accepted:
        for word in range(work.entries.shape[1]):
            work.entries[first, word] = work.entries[last, word]
        regs[FOUND] = first + 1
    return least


@called
def _decide_last(
    auto: Automaton, nodes: Array, regs: Array, work: Work, last: Word, decided: Word, key: Word, settings: Settings
) -> Word:
    """Note the match of a run that lasted; the starts before the result are skipped. Less than 0: why to come back."""
    if not note(nodes, regs, work, last, decided, key, np.int64(NO_KEY), np.int64(NEVER), np.int64(NO_NODE)):
        return -np.int64(GROW)
    if settings.skip == PAST_LAST:
        return nodes[last, POSITION] + 1
    first = last
    while nodes[first, PARENT] != NO_NODE:
        first = nodes[first, PARENT]
    return target(auto, nodes, regs, work, nodes[first, POSITION], settings.skip)


@inlined
def _settle(
    nodes: Array, times: Array, regs: Array, work: Work, joins: bool, alive: Word, decided: Word, latest: Word
) -> Word:
    """Take the mark at the end of the new list out, if its match is decided; else join it with a mark before it."""
    last = regs[FOUND] - 1
    node = work.entries[last, NODE]
    if alive == 1:
        regs[FOUND] = last
        return np.int64(DONE if _decide(nodes, regs, work, node, decided, latest) else GROW)
    if joins and work.entries[last - 1, WAIT] == MARK:
        both = new_node(nodes, times, regs, work.entries[last - 1, NODE], node, np.int64(JOINED))
        if both == NO_NODE:
            return np.int64(COLLECT)
        if nodes.shape[1] > LATEST:
            nodes[both, LATEST] = work.entries[last, KEY]
        work.entries[last - 1, NODE] = both
        regs[FOUND] = last
    return np.int64(DONE)


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
        oldest: Word = nodes[node, LATEST] if nodes.shape[1] > LATEST else np.int64(NO_KEY)
        if not note(nodes, regs, work, node, decided, latest, oldest, np.int64(NEVER), np.int64(NO_NODE)):
            return False
    return True
