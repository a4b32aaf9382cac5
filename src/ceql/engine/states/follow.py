"""The loop without a graph: of each state it keeps the latest start of its runs, and reports how far runs get.

In: symbols of events, batch by batch. Out: what was reached, and at how many positions a match ends. Whether a match
that ends at an event is inside the window depends on the latest start alone, and NEXT, LAST, MAX, ANY and LIMIT never
leave a position that has matches without any. So the number of positions is that of the query, at a constant cost in
memory for each substream, even where the graph of `loop.py` would not fit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ceql.engine.common.layout import COUNTER, HORIZON, NO_KEY, OWN, OWN_COLUMNS, W_ENVELOPE, Events, Settings
from ceql.engine.common.reached import Reached, note, nothing_reached
from ceql.engine.common.window import apply_window
from ceql.jit import Array, kernel

NOW = OWN  # a register: CONSUME BY ANY begins another epoch
EPOCH = OWN_COLUMNS  # a column of the table of partitions: the epoch of its runs


class Moves(NamedTuple):
    """The automaton, not determinised, by its transitions."""

    fires: Array  # bool[symbols, transitions]
    source: Array  # int64, -1 for a transition that begins a run
    target: Array  # int64
    asks: Array  # bool: whether a transition asks anything of its event; the others wait
    final: Array  # bool, of each state
    barred: Array  # int64, of each transition: it fires while no run is in this state; -1 for any time


class Runs(NamedTuple):
    """What is kept for each substream."""

    latest: Array  # int64[substreams, states]: the greatest start key of the runs in a state, NO_KEY for no run
    table: Array  # int64[substreams, columns]
    regs: Array  # int64
    spare: Array  # int64[states]
    least: Array  # int64[states]: the least key of an event that brought a run there, less that of its start; -1: none


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
        if runs.table[p, EPOCH] != runs.regs[NOW]:
            latest[:] = NO_KEY
            runs.table[p, EPOCH] = runs.regs[NOW]
        _, _, key, bound, _ = apply_window(
            runs.regs, runs.table, p, settings.window, settings.width, events.key[i], events.bound[i]
        )
        position = events.position[i]
        time = events.time[i] if len(events.time) > 0 else 0
        runs.spare[:] = NO_KEY
        for t in range(len(moves.source)):
            if not moves.fires[events.symbol[i], t]:
                continue
            start = key if moves.source[t] < 0 else latest[moves.source[t]]
            if start == NO_KEY or (moves.barred[t] >= 0 and latest[moves.barred[t]] != NO_KEY):
                continue
            s = moves.target[t]
            runs.spare[s] = max(runs.spare[s], start)
            if moves.asks[t] and start >= bound:
                note(reached, t, s, position, time)
                if key != NO_KEY and (runs.least[s] < 0 or key - start < runs.least[s]):
                    runs.least[s] = max(0, key - start)
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
                runs.regs[NOW] += 1
    return ends


class Follower:
    """The runs of one automaton. `source`, `target`, `asks` and `barred` are given for each transition."""

    def __init__(
        self, source: Array, target: Array, asks: Array, final: Array, barred: Array, settings: Settings
    ) -> None:
        self.settings = settings
        self.positions = 0
        self.reached = nothing_reached(len(source), len(final))
        self.moves = Moves(np.zeros((0, len(source)), np.bool_), source, target, asks, final, barred)
        self.runs = Runs(
            latest=np.zeros((0, len(final)), np.int64),
            table=np.zeros((0, EPOCH + 1), np.int64),
            regs=np.zeros(NOW + 1, np.int64),
            spare=np.zeros(len(final), np.int64),
            least=np.full(len(final), -1, np.int64),
        )
        self.runs.regs[HORIZON] = NO_KEY

    @property
    def symbols(self) -> int:
        """How many symbols are known."""
        return len(self.moves.fires)

    def add_symbols(self, fires: Array) -> None:
        """Know more symbols, by the transitions that each fires."""
        self.moves = self.moves._replace(fires=np.concatenate([self.moves.fires, fires]))

    def _blank(self) -> Array:
        """The table's row of a new partition."""
        row: Array = np.full(EPOCH + 1, NO_KEY, np.int64)
        row[COUNTER] = NO_KEY if self.settings.window == W_ENVELOPE else 0
        return row  # no epoch is like this one: the runs are cleared when the first event comes

    def room_for_partitions(self, count: int) -> None:
        """Make sure that partitions 0 to count - 1 exist."""
        have = len(self.runs.table)
        if count > have:
            extra = max(count, 2 * have) - have
            latest = np.zeros((extra, self.runs.latest.shape[1]), np.int64)
            self.runs = self.runs._replace(
                latest=np.concatenate([self.runs.latest, latest]),
                table=np.concatenate([self.runs.table, np.tile(self._blank(), (extra, 1))]),
            )

    def reuse_partitions(self, partitions: list[int]) -> None:
        """Make emptied partitions as good as new."""
        self.runs.table[partitions] = self._blank()

    def feed(self, events: Events) -> None:
        """Go on over a batch."""
        self.positions += int(follow(self.moves, self.runs, self.reached, events, self.settings))
