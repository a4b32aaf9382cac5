"""NEXT, LAST and MAX under a window that rivals do not decide: its events once more, for each position with matches.

Most queries are decided as events come (`plans.Plan.chooses_at_once`); this is for the others.
A strategy compares the matches that are inside the window; a match that the window has left must not suppress one
that it holds. So the main machine finds the positions with matches and keeps a log of the window's
events, and a second machine, whose automaton knows rivals, runs over the log of that window alone.
Linear in the window's events, and only where there is something to report.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ceql.engine.common.chunk import Chunk
from ceql.engine.common.layout import MATCHES, NO_KEY, NO_VALUES, NOTED, PARTITION, READ, Events, Settings
from ceql.engine.common.roots import AT_BOUND, AT_LOG, AT_PARTITION
from ceql.engine.states.machine import StateMachine, Tabled
from ceql.jit import Array, allocating


class ReplayMachine(StateMachine):
    """A machine whose positions with matches `chooser` goes through again, applying the strategy.

    Symbols of the chooser are twice those of the log, plus one where a match may start.
    """

    def __init__(
        self, cache: Tabled, settings: Settings, timed: bool, memory: int, chooser: StateMachine, **buffers: Any
    ) -> None:
        super().__init__(cache, settings, timed, memory, **buffers)
        self.chooser = chooser

    def mute(self, on: bool, count: bool = False) -> None:
        """The chooser enumerates or counts."""
        super().mute(on, count)
        self.chooser.mute(on, count)

    def _read(self) -> Iterator[Chunk]:
        while self.regs[READ] < self.regs[NOTED]:
            yield from self._replay(self.where)
            self.regs[READ] += 1
        self._have_read()

    def _replay(self, where: Array) -> Iterator[Chunk]:
        """The matches that the strategy keeps at this position."""
        if self._in_vain:
            return
        partition, bound = int(where[AT_PARTITION]), int(where[AT_BOUND])
        entries = self.log[read_log(self.log, where[AT_LOG], bound)]
        may_start = entries[:, 3] >= bound
        count = len(entries)
        window = Events(
            (2 * entries[:, 1] + may_start).astype(np.int32),
            np.ascontiguousarray(entries[:, 0]),
            np.zeros(count, np.int32),
            np.ascontiguousarray(entries[:, 0]),
            np.full(count, NO_KEY, np.int64),
            np.ascontiguousarray(entries[:, 4]) if self.timed else np.zeros(0, np.int64),
            NO_VALUES,
        )
        chooser = self.chooser
        chooser.room_for_partitions(1)
        chooser.settings = chooser.settings._replace(emit_from=count - 1)
        chooser.start_over()
        first = int(chooser.regs[MATCHES])  # these wait for others, so that batches are large
        for chunk in chooser.feed(window):
            assert chunk.partition is not None
            chunk.partition[first:] = partition
            first = 0
            yield chunk
        chooser.out.match[PARTITION, first : chooser.regs[MATCHES]] = partition

    def flush(self) -> Iterator[Chunk]:
        """All matches are the chooser's."""
        yield from self.chooser.flush()

    @property
    def counted(self) -> int:
        """Count mode: the chooser counts."""
        return self.chooser.total


@allocating
def read_log(log: Array, last: int, bound: int) -> Array:
    """The entries of a partition's log from the window's start to `last`, in stream order."""
    count = 0
    entry = last
    while entry >= 0 and log[entry, 2] >= bound:
        count += 1
        entry = log[entry, 5]
    entries = np.empty(count, np.int64)
    entry = last
    for k in range(count - 1, -1, -1):
        entries[k] = entry
        entry = log[entry, 5]
    return entries
