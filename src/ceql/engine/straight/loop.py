"""The loop over straight automata, in which a word of bits is all that a substream has under way.

Bit k says that the latest k + 1 events of the substream make the first k + 1 steps. The positions of the latest events
stand in the substream's row of the table, in a ring. A match is read from there: it ends at the event that makes the
last step.
"""

from __future__ import annotations

from typing import NamedTuple

from ceql.engine.common.layout import (
    COUNT,
    DONE,
    END,
    END_TIME,
    EVENT,
    FULL,
    MATCHES,
    OFFSET,
    OWN_COLUMNS,
    PARTITION,
    POSITIONS,
    START,
    START_TIME,
    TOTAL,
    W_COUNTED,
    Events,
    Output,
)
from ceql.engine.common.window import apply_window
from ceql.jit import Array, kernel, prefetch, record

# Columns of the table of partitions.
UNDER_WAY = OWN_COLUMNS  # the bits
LATEST = OWN_COLUMNS + 1  # where in the ring the latest event is
RING = OWN_COLUMNS + 2  # the positions of the latest events; then their keys, if there is a window; then their times

AHEAD = 8  # events whose rows are asked for before their turn


class Settings(NamedTuple):
    """What does not change while a recogniser lives."""

    window: int
    width: int  # of a W_COUNTED window
    mode: int
    windowed: bool
    consumes: bool  # whether a match ends all that is under way in its substream
    labelled: bool = False


@record
class Steps(NamedTuple):
    """The automaton as arrays."""

    accepts: Array  # int64[symbols]: the steps that an event makes, as bits
    shown: Array  # uint8[steps]: whether the event of a step is part of the match


@kernel
def advance(steps: Steps, regs: Array, table: Array, out: Output, events: Events, settings: Settings, stop: int) -> int:
    """Process the events from `regs[EVENT]` to `stop`; DONE, or the reason to come back."""
    length = len(steps.shown)
    keys, times = RING + length, RING + (2 * length if settings.windowed else length)
    last = length - 1
    matches, room = len(out.match[0]) - 1, len(out.position) - length
    for i in range(regs[EVENT], stop):
        if i + AHEAD < stop:
            prefetch(table, events.partition[i + AHEAD])
        p = events.partition[i]
        if p < 0:
            continue
        if regs[MATCHES] >= matches or regs[POSITIONS] > room:
            regs[EVENT] = i
            return FULL
        row = table[p]
        key, bound = events.key[i], events.bound[i]
        if settings.windowed:
            _, key, _, bound, _ = apply_window(
                regs, table, p, settings.window, settings.width, events.key[i], events.bound[i]
            )
        before = row[UNDER_WAY]
        now = (before << 1 | 1) & steps.accepts[events.symbol[i]]
        if now == 0:
            if before != 0:
                row[UNDER_WAY] = 0
            continue
        at = row[LATEST] + 1
        if at >= length:
            at = 0
        row[UNDER_WAY] = now
        row[LATEST] = at
        row[RING + at] = events.position[i]
        if settings.windowed:
            row[keys + at] = key
        if len(events.time):
            row[times + at] = events.time[i]
        if (now >> last) & 1 == 0:
            continue
        first = at + 1 if at < last else 0
        if settings.windowed and row[keys + first] < bound:
            continue
        if settings.consumes:
            row[UNDER_WAY] = 0
        if settings.mode == COUNT:
            regs[TOTAL] += 1
            continue
        m, written = regs[MATCHES], regs[POSITIONS]
        match = out.match
        match[START, m] = row[RING + first]
        match[END, m] = events.position[i]
        match[PARTITION, m] = p
        if len(events.time):
            match[START_TIME, m] = row[times + first]
            match[END_TIME, m] = events.time[i]
        place = first
        for k in range(length):
            if steps.shown[k]:
                out.position[written] = row[RING + place]
                written += 1
            place = place + 1 if place < last else 0
        match[OFFSET, m + 1] = written
        regs[MATCHES] = m + 1
        regs[POSITIONS] = written
    regs[EVENT] = stop
    return DONE


@kernel
def expire(regs: Array, table: Array, length: int, window: int, horizon: int) -> None:
    """Give up what the window has left: the bits of starts with lower keys than the horizon."""
    keys = RING + length
    for p in range(len(table)):
        row = table[p]
        if row[UNDER_WAY] == 0:
            continue
        least = row[1] if window == W_COUNTED else horizon
        place = row[LATEST]
        for k in range(length):
            if row[keys + place] < least:
                row[UNDER_WAY] &= ~(1 << k)
            place = place - 1 if place > 0 else length - 1
