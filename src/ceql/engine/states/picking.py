"""NEXT and LAST under a window, one event after the other: a machine that shows the matches of earliest start alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ceql.engine.common.chunk import Chunk
from ceql.engine.common.layout import BLOCKS, LEAST, ROOTS, Events, Settings
from ceql.engine.states.machine import StateMachine, Tabled
from ceql.engine.states.pick import ROOT, Picked, make_picked, pick_again
from ceql.jit import Array


class PickingMachine(StateMachine):
    """A machine whose automaton gives runs up for rivals that start later only (`engine.states.pick`)."""

    picked: Picked

    def __init__(self, cache: Tabled, settings: Settings, timed: bool, memory: int, **buffers: Any) -> None:
        super().__init__(cache, settings, timed, memory, **buffers)
        self.picked = make_picked(len(self.nodes), timed)

    def _set_nodes(self, nodes: Array, times: Array, capacity: int) -> None:
        super()._set_nodes(nodes, times, capacity)
        self.picked = make_picked(capacity, self.timed)

    def _sizes(self) -> dict[str, tuple[int, int]]:
        sizes = super()._sizes()
        rows, words = sizes["nodes"]
        return sizes | {"nodes": (rows, words + self.node_words + 1 + len(self.picked.book))}

    def _answer(self, reason: int, events: Events) -> Iterator[Chunk]:
        if reason != BLOCKS:
            yield from super()._answer(reason, events)
            return
        with self._showing_picked():
            yield from super()._answer(reason, events)

    def _exact_count(self) -> int:
        with self._showing_picked():
            return super()._exact_count()

    @contextmanager
    def _showing_picked(self) -> Iterator[None]:
        """Work on the copy of the current position's matches in place of the graph."""
        nodes, times, active, roots = self.nodes, self.times, self.active, int(self.regs[ROOTS])
        found = int(pick_again(nodes, times, self.regs, active.roots, self.picked, int(self.regs[LEAST])))
        self.nodes, self.times = self.picked.nodes, self.picked.times
        self.active = active._replace(roots=self.picked.book[ROOT].copy())
        self.regs[ROOTS] = found
        try:
            yield
        finally:
            self.nodes, self.times, self.active = nodes, times, active
            self.regs[ROOTS] = roots
