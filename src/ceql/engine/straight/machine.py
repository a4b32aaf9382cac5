"""One recogniser of a straight automaton: the loop's arrays, which are a row for each substream and no graph."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ceql.engine.common.check import require, require_between
from ceql.engine.common.chunk import Chunk
from ceql.engine.common.layout import BOUND, FULL, W_GIVEN, Events
from ceql.engine.common.layout import REGISTERS as ALL_REGISTERS
from ceql.engine.common.machine import Machine
from ceql.engine.straight.loop import LATEST, RING, UNDER_WAY, Settings, Steps, advance, expire
from ceql.jit import Array


class StraightMachine(Machine):
    """The state of a recogniser and the buffers of its output."""

    node_words = 1
    scratch_rows = 0
    settings: Settings

    def __init__(
        self,
        steps: Steps,
        settings: Settings,
        timed: bool,
        memory: int,
        matches: int = 1 << 15,
        positions: int = 1 << 17,
        nodes: int = 1,
    ) -> None:
        words = ["position", *["key"] * settings.windowed, *["time"] * timed]
        ring = (f"{word}{k}" for word in words for k in range(len(steps.shown)))
        self.columns = ("counter", "bound", "floor", "under_way", "latest", *ring)
        super().__init__(settings, ALL_REGISTERS, 1, timed, memory, matches, max(positions, len(steps.shown)), nodes)
        self.steps = steps
        self.position = 0
        """Of the next event: what a state that is restored may not name."""

    def idle(self, partitions: Array) -> Array:
        """Those of these partitions that hold nothing."""
        idle: Array = partitions[self.table[partitions, UNDER_WAY] == 0]
        return idle

    def _run(self, events: Events) -> Iterator[Chunk]:
        stop = len(events.symbol)
        while int(advance(self.steps, self.regs, self.table, self.out, events, self.settings, stop)) == FULL:
            yield from self.flush()

    # --- memory ---

    def compact(self) -> None:
        """Give back what the window has left."""
        if self.settings.windowed:
            expire(self.regs, self.table, len(self.steps.shown), self.settings.window, self.horizon)
        if len(self.table) > 1:
            self._emptied = None
        self._collected = True
        self.collections += 1

    def _held(self) -> Array:
        length = len(self.steps.shown)
        busy = self.table[self.table[:, UNDER_WAY] > 0]
        bits = busy[:, UNDER_WAY]
        held = []
        for back in range(length):  # the event so many before the latest is held if a match so long is under way
            places = (busy[:, LATEST] - back) % length
            needed = bits >> back > 0
            held.append(busy[needed, RING + places[needed]])
        return np.concatenate(held)

    # --- state ---

    def check(self, arrays: dict[str, Array]) -> None:
        """Refuse arrays of a state that the kernels could not work on."""
        length = len(self.steps.shown)
        column = dict(zip(self.columns, (arrays[f"parts.{name}"] for name in self.columns), strict=True))
        require_between(column["under_way"], 0, 1 << length, "more is under way than the query has steps")
        require_between(column["latest"], 0, length, "the latest event is nowhere")
        restored = np.stack([column[f"position{k}"] for k in range(length)])
        require_between(restored, 0, max(1, self.position), "a match has an event that did not come")
        require(not len(arrays["nodes"]), "it has a graph, and this query has none")
        if self.settings.window == W_GIVEN:
            return
        require((column["bound"] <= column["counter"]).all(), "a bound is greater than all keys")


assert BOUND == 1  # as `expire` has it
