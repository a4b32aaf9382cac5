"""NEXT, LAST and MAX under a window: the window's events once more, for each position that has matches.

A strategy compares the matches that are inside the window; a match that the window has left must not suppress one
that it holds. So the main machine finds the positions with matches and keeps a log of the window's
events, and a second machine, whose automaton knows rivals, runs over the log of that window alone.
Linear in the window's events, and only where there is something to report.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ceql.engine.common.chunk import Chunk
from ceql.engine.states import layout as x
from ceql.engine.states.loop import NO_KEY
from ceql.engine.states.machine import Machine, Tabled
from ceql.jit import Array, allocating


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


class ReplayMachine(Machine):
    """A machine that hands each position with matches over to `chooser`, which applies the strategy.

    Symbols of the chooser are twice those of the log, plus one where a match may start.
    """

    def __init__(self, cache: Tabled, settings: x.Settings, timed: bool, memory: int, chooser: Machine) -> None:
        super().__init__(cache, settings, timed, memory)
        self.chooser = chooser

    def replay(self, events: x.Events) -> Iterator[Chunk]:
        event = int(self.regs[x.EVENT])
        partition = int(events.partition[event])
        bound = self.bound(events)
        entries = self.log[read_log(self.log, int(self.parts.log[partition]), bound)]
        may_start = entries[:, 3] >= bound
        count = len(entries)
        window = x.Events(
            (2 * entries[:, 1] + may_start).astype(np.int32),
            np.ascontiguousarray(entries[:, 0]),
            np.zeros(count, np.int32),
            np.ascontiguousarray(entries[:, 0]),
            np.full(count, NO_KEY, np.int64),
            np.ascontiguousarray(entries[:, 4]) if self.timed else np.zeros(0, np.int64),
        )
        chooser = self.chooser
        chooser.room_for_partitions(1)
        chooser.settings = chooser.settings._replace(emit_from=count - 1)
        chooser.start_over()
        first = int(chooser.regs[x.MATCHES])  # those before wait for others, so that batches are large
        for chunk in chooser.feed(window):
            assert chunk.partition is not None
            chunk.partition[first:] = partition
            first = 0
            yield chunk
        chooser.out.partition[first : chooser.regs[x.MATCHES]] = partition

    def flush(self) -> Iterator[Chunk]:
        """All matches are the chooser's."""
        yield from self.chooser.flush()

    @property
    def counted(self) -> int:
        """Count mode: the chooser counts."""
        return self.chooser.total
