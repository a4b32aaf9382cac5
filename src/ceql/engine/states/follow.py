"""The loop without an arena: of each state it keeps the latest start of its runs, and reports how far runs get.

In: symbols of events, batch by batch. Out: what was reached, and at how many positions a match ends. Whether a match
that ends at an event is inside the window depends on the latest start alone, and NEXT, LAST, MAX, ANY and LIMIT never
leave a position that has matches without any. So the number of positions is that of the query, at a constant cost in
memory for each substream, even where the arena of `loop.py` would not fit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ceql.engine.common.layout import NO_KEY, W_COUNTED, Events
from ceql.engine.common.reached import Reached, note, nothing_reached
from ceql.engine.states.layout import Settings
from ceql.jit import Array, kernel


class Moves(NamedTuple):
    """The automaton, not determinised, by its transitions."""

    fires: Array  # bool[symbols, transitions]
    source: Array  # int64, -1 for a transition that begins a run
    target: Array  # int64
    asks: Array  # bool: whether a transition asks anything of its event; the others wait
    final: Array  # bool, of each state


class Runs(NamedTuple):
    """What is kept for each substream."""

    latest: Array  # int64[substreams, states]: the greatest start key of the runs in a state, NO_KEY for no run
    counter: Array  # int64: events seen
    epoch: Array  # int64: CONSUME BY ANY began a new one, if it is not `now`
    now: Array  # int64[1]
    spare: Array  # int64[states]


@kernel
def follow(moves: Moves, runs: Runs, reached: Reached, events: Events, settings: Settings) -> int:
    """Go on over a batch; at how many of its events a match ends."""
    ends = 0
    states = len(moves.final)
    for i in range(len(events.symbol)):
        p = events.partition[i]
        if p < 0:
            continue
        latest = runs.latest[p]
        if runs.epoch[p] != runs.now[0]:
            latest[:] = NO_KEY
            runs.epoch[p] = runs.now[0]
        key, bound = events.key[i], events.bound[i]
        if settings.window == W_COUNTED:
            key = runs.counter[p]
            bound = key - settings.width
        runs.counter[p] += 1
        position = events.position[i]
        time = events.time[i] if len(events.time) > 0 else 0
        runs.spare[:] = NO_KEY
        for t in range(len(moves.source)):
            if not moves.fires[events.symbol[i], t]:
                continue
            start = key if moves.source[t] < 0 else latest[moves.source[t]]
            if start == NO_KEY:
                continue
            s = moves.target[t]
            runs.spare[s] = max(runs.spare[s], start)
            if moves.asks[t] and start >= bound:
                note(reached, t, s, position, time)
        ended = False
        for s in range(states):
            latest[s] = runs.spare[s]
            if moves.final[s] and latest[s] != NO_KEY and latest[s] >= bound:
                ended = True
        if ended:
            ends += 1
            if settings.consume > 0:
                latest[:] = NO_KEY
            if settings.consume == 2:
                runs.now[0] += 1
    return ends


class Follower:
    """The runs of one automaton. `source`, `target` and `asks` are given for each transition."""

    def __init__(self, source: Array, target: Array, asks: Array, final: Array, settings: Settings) -> None:
        self.settings = settings
        self.positions = 0
        self.reached = nothing_reached(len(source), len(final))
        self.moves = Moves(np.zeros((0, len(source)), np.bool_), source, target, asks, final)
        self.runs = Runs(
            latest=np.zeros((0, len(final)), np.int64),
            counter=np.zeros(0, np.int64),
            epoch=np.zeros(0, np.int64),
            now=np.zeros(1, np.int64),
            spare=np.zeros(len(final), np.int64),
        )

    @property
    def symbols(self) -> int:
        """How many symbols are known."""
        return len(self.moves.fires)

    def add_symbols(self, fires: Array) -> None:
        """Know more symbols, by the transitions that each fires."""
        self.moves = self.moves._replace(fires=np.concatenate([self.moves.fires, fires]))

    def room_for_partitions(self, count: int) -> None:
        """Make sure that partitions 0 to count - 1 exist."""
        have = len(self.runs.counter)
        if count > have:
            extra = max(count, 2 * have) - have
            states = self.runs.latest.shape[1]
            self.runs = self.runs._replace(
                latest=np.concatenate([self.runs.latest, np.full((extra, states), NO_KEY, np.int64)]),
                counter=np.concatenate([self.runs.counter, np.zeros(extra, np.int64)]),
                epoch=np.concatenate([self.runs.epoch, np.full(extra, self.runs.now[0], np.int64)]),
            )

    def reuse_partitions(self, partitions: list[int]) -> None:
        """Make emptied partitions as good as new."""
        self.runs.latest[partitions] = NO_KEY
        self.runs.counter[partitions] = 0

    def feed(self, events: Events) -> None:
        """Go on over a batch."""
        self.positions += int(follow(self.moves, self.runs, self.reached, events, self.settings))
