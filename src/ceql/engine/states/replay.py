"""NEXT, LAST and MAX under a window that rivals do not decide: its events once more, for each position with matches.

Most queries are decided as events come (`plan.UnaryPlan.chooses_at_once`); this is for the others.
A strategy compares the matches that are inside the window; a match that the window has left must not suppress one
that it holds. So the main machine finds the positions with matches and keeps a log of the window's
events, and a second machine, whose automaton knows rivals, runs over the log of that window alone.
Linear in the window's events, and only where there is something to report.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ceql.engine.common.chunk import Chunk
from ceql.engine.common.layout import EVENT, LEAST, MATCHES, NO_KEY, NO_VALUES, PARTITION, Events
from ceql.engine.states.layout import LOGGED, Settings
from ceql.engine.states.log import read_log
from ceql.engine.states.machine import StateMachine, Tabled


class ReplayMachine(StateMachine):
    """A machine that hands each position with matches over to `chooser`, which applies the strategy.

    Symbols of the chooser are twice those of the log, plus one where a match may start.
    """

    def __init__(
        self, cache: Tabled, settings: Settings, timed: bool, memory: int, chooser: StateMachine, **buffers: int
    ) -> None:
        super().__init__(cache, settings, timed, memory, **buffers)
        self.chooser = chooser

    def mute(self, on: bool, count: bool = False) -> None:
        """The chooser enumerates or counts; if nobody wants to know, it has nothing to do."""
        self._in_vain = on and not count
        self.chooser.mute(on, count)

    def replay(self, events: Events) -> Iterator[Chunk]:
        if self._in_vain:
            return
        event = int(self.regs[EVENT])
        partition = int(events.partition[event])
        bound = int(self.regs[LEAST])
        entries = self.log[read_log(self.log, int(self.parts.table[partition, LOGGED]), bound)]
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
