"""Leaves out events that begin nothing: where `:` joins all events, most starts are given up at the next event.

In: a batch of events for an automaton without waits. Out: those that can change something. An event whose starts all
fail at the event after it, in a substream without partial matches, is passed over: a start, the change of substream and
the end of the run cost far more than this look ahead. Of the last event of a substream in a batch the next one is not
known, so it is kept.
"""

from __future__ import annotations

import numpy as np

from ceql.automata.cea import CEA
from ceql.engine.common.layout import Events
from ceql.jit import Array
from ceql.recognition.lag_kernels import mark_futile

_MOST_SYMBOLS = 256  # whose pairs are tabulated
_FEW = 8  # an eighth of the events is worth leaving out


class Futile:
    """Knows which substreams may have partial matches, and which starts fail."""

    def __init__(self, cea: CEA) -> None:
        self._cea = cea
        self._symbols: list[int] = []
        self._begins: Array = np.zeros(0, np.int8)
        self._goes: Array = np.zeros(0, np.bool_)
        self._follows: Array = np.zeros((0, 0), np.bool_)
        self._alive: Array = np.zeros(1, np.bool_)
        self._next: Array = np.full(1, -1, np.int32)

    def wake(self, partitions: int) -> None:
        """Take so many substreams as having partial matches."""
        self._alive = np.ones(max(1, partitions), np.bool_)
        self._next = np.full(len(self._alive), -1, np.int32)

    def without(self, events: Events, partitions: int, bits: list[int]) -> Events:
        """The events that may change something, of so many substreams; `bits` are the guards of each symbol."""
        if len(bits) > _MOST_SYMBOLS:
            return events
        if len(bits) > len(self._symbols):
            self._learn(bits)
        if partitions > len(self._alive):
            more = max(partitions - len(self._alive), len(self._alive))
            self._alive = np.concatenate([self._alive, np.zeros(more, np.bool_)])
            self._next = np.concatenate([self._next, np.full(more, -1, np.int32)])
        rows: Array = np.empty(len(events.symbol), np.int64)
        tables = self._begins, self._goes, self._follows
        count = mark_futile(events.symbol, events.partition, self._alive, self._next, *tables, rows)
        if _FEW * count > (_FEW - 1) * len(rows):
            return events
        kept = rows[:count]
        return Events(*(array[kept] if len(array) else array for array in events))

    def _learn(self, bits: list[int]) -> None:
        """Work out what each symbol begins, and whether the next one carries that on."""
        cea, self._symbols = self._cea, list(bits)
        rows = [t for row in cea.states for t in row]
        begun = [{t.target for t in cea.initial if t.fires(one)} for one in bits]
        self._goes = np.array([any(t.fires(one) for t in rows) for one in bits], np.bool_)
        # 1: what begins may fail at the next event; 2: it is a match already
        self._begins = np.array([0 if not s else 2 if s & cea.final else 1 for s in begun], np.int8)
        self._follows = np.array(
            [[any(t.fires(two) for s in states for t in cea.states[s]) for two in bits] for states in begun], np.bool_
        ).reshape(len(bits), len(bits))
