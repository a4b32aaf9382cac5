"""How far runs get: the automaton simulated with one number for each state, the greatest start key of its runs.

In: symbols of events, batch by batch. Out: for each state how often a run entered it, first and last where; and at
how many positions a match ends. It needs no determinisation and no arena: whether a match ends at an event inside
the window depends on the latest start alone, and NEXT, LAST, MAX, ANY and LIMIT never leave a position that has
matches without any. So this counts the very positions of the query in constant memory for each substream, for
windows that the engine itself could not do without.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ceql.automata.cea import CEA
from ceql.engine.states.loop import NO_KEY
from ceql.jit import Array, kernel

NONE, OWN, EVERY = range(3)  # what a match makes the simulation forget: nothing, its substream, all


@kernel
def simulate(
    symbols: Array,
    partitions: Array,
    keys: Array,
    bounds: Array,
    width: int,
    times: Array,
    position: int,
    idle: Array,
    fires: Array,
    source: Array,
    target: Array,
    guarded: Array,
    final: Array,
    latest: Array,
    spare: Array,
    counter: Array,
    epoch: Array,
    now: Array,
    entered: Array,
    first: Array,
    last: Array,
    consume: int,
) -> int:
    """Advance over a batch that begins at `position`; at how many of its events a match ends.

    `latest[p, s]` is the greatest start key of the runs in state s of substream p, NO_KEY for no run. With
    `width` >= 0 the window counts the substream's events, else keys and bounds are given.
    """
    ends = 0
    states = len(final)
    for i in range(len(symbols)):
        p = partitions[i]
        if p < 0:
            continue
        symbol = symbols[i]
        counter[p] += 1
        if idle[symbol]:
            continue
        key, bound = keys[i], bounds[i]
        if width >= 0:
            key = counter[p]
            bound = key - width
        runs = latest[p]
        if epoch[p] != now[0]:
            runs[:] = NO_KEY
            epoch[p] = now[0]
        spare[:] = NO_KEY
        for t in range(len(source)):
            if not fires[symbol, t]:
                continue
            start = key if source[t] < 0 else runs[source[t]]
            if start == NO_KEY:
                continue
            s = target[t]
            spare[s] = max(spare[s], start)
            if guarded[t] and start >= bound and last[s, 0] != position + i:
                entered[s] += 1
                last[s, 0] = position + i
                last[s, 1] = times[i]
                if entered[s] == 1:
                    first[s, 0] = position + i
                    first[s, 1] = times[i]
        ended = False
        for s in range(states):
            runs[s] = spare[s]
            if final[s] and spare[s] != NO_KEY and spare[s] >= bound:
                ended = True
        if ended:
            ends += 1
            if consume == OWN:
                runs[:] = NO_KEY
            elif consume == EVERY:
                now[0] += 1
    return ends


class Rows(NamedTuple):
    """The events of a batch, as parallel arrays."""

    symbols: Array
    partitions: Array
    keys: Array  # of the window: of a match that starts here
    bounds: Array  # the least key that a match ending here may have
    times: Array


class Simulation:
    """The runs of one automaton. `width` >= 0 is that of a window over a substream's events."""

    def __init__(self, cea: CEA, width: int = -1, consume: int = NONE) -> None:
        self.cea = cea
        self.width = width
        self.consume = consume
        self.positions = 0
        states = len(cea.states)
        rows = [(-1, t) for t in cea.initial] + [(s, t) for s, row in enumerate(cea.states) for t in row]
        self._guards = [t.guard for _, t in rows]
        self._source: Array = np.array([s for s, _ in rows], np.int64)
        self._target: Array = np.array([t.target for _, t in rows], np.int64)
        self._guarded: Array = np.array([t.guard != 0 for _, t in rows], np.bool_)
        self._final: Array = np.array([s in cea.final for s in range(states)], np.bool_)
        self._skips = cea.skips_safely()
        self._idle: Array = np.zeros(0, np.bool_)
        self._fires: Array = np.zeros((0, len(rows)), np.bool_)
        self._latest: Array = np.zeros((0, states), np.int64)
        self._counter: Array = np.zeros(0, np.int64)
        self._epoch: Array = np.zeros(0, np.int64)
        self._now: Array = np.zeros(1, np.int64)
        self._spare: Array = np.zeros(states, np.int64)
        self.entered: Array = np.zeros(states, np.int64)
        self.first: Array = np.full((states, 2), -1, np.int64)
        self.last: Array = np.full((states, 2), -1, np.int64)

    def feed(self, bits: Sequence[int], rows: Rows, count: int, position: int) -> None:
        """Go on over a batch that begins at `position`.

        `bits[symbol]` are the guards of a symbol; there are `count` substreams so far.
        """
        self._know(bits)
        self._room(count)
        # memory that Arrow lends is read-only, which would be another signature of the kernel
        symbols, partitions, keys, bounds, times = (np.require(a, requirements=["C", "W"]) for a in rows)
        self.positions += int(
            simulate(
                symbols, partitions, keys, bounds, self.width, times, position,
                self._idle, self._fires, self._source, self._target, self._guarded, self._final,
                self._latest, self._spare, self._counter, self._epoch, self._now,
                self.entered, self.first, self.last, self.consume,
            )
        )  # fmt: skip

    def _know(self, bits: Sequence[int]) -> None:
        known = len(self._idle)
        if known == len(bits):
            return
        fires = [[b & guard == guard for guard in self._guards] for b in bits[known:]]
        idle = [self._skips and b == 0 for b in bits[known:]]
        rows: Array = np.array(fires, np.bool_).reshape(len(fires), len(self._guards))
        self._fires = np.concatenate([self._fires, rows])
        self._idle = np.concatenate([self._idle, np.array(idle, np.bool_)])

    def _room(self, count: int) -> None:
        have = len(self._counter)
        if count <= have:
            return
        extra = max(count, 2 * have) - have
        blank: Array = np.full((extra, self._latest.shape[1]), NO_KEY, np.int64)
        self._latest = np.concatenate([self._latest, blank])
        self._counter = np.concatenate([self._counter, np.zeros(extra, np.int64)])
        self._epoch = np.concatenate([self._epoch, np.full(extra, self._now[0], np.int64)])
