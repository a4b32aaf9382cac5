"""The shards of events by a value that all events of a match share."""

from __future__ import annotations

import numpy as np

from ceql.automata.correlated import Correlated
from ceql.automata.shared_values import SharedValue
from ceql.engine.common.layout import Events
from ceql.engine.common.shares import DROPPED, owner_of
from ceql.engine.groups.layout import INDEX, KEY
from ceql.jit import Array
from ceql.predicates.symbols import SymbolTable
from ceql.predicates.values import ValueNumbers


class ValueOwners:
    """Says whose an event is, by the number of its value. Like the number, it is kept until values are forgotten."""

    def __init__(self, auto: Correlated, value: SharedValue, values: ValueNumbers, symbols: SymbolTable) -> None:
        self._auto = auto
        self._value = value
        self._values = values
        self._symbols = symbols
        self._column: Array = np.zeros(0, np.int64)  # of the events with each symbol
        self._owner: Array = np.zeros(0, np.uint8)  # of each number; DROPPED where it is not known yet

    def __call__(self, events: Events) -> Array:
        """The shard of each event. One without a value can be in no match, so that it may go anywhere."""
        if len(self._column) < len(self._symbols.bits):
            self._column = np.array([self._column_of(bits) for bits in self._symbols.bits], np.int64)
        columns = self._column[events.symbol]
        numbers = events.values[np.arange(len(columns)), columns] if len(columns) else columns
        return self._of_values(numbers)

    def of_entries(self, entries: Array) -> Array:
        """The shard of each entry of the look-up table."""
        words = np.array(self._value.words, np.int64)
        return self._of_values(entries[np.arange(len(entries)), KEY + words[entries[:, INDEX] % len(words)]])

    def forget(self) -> None:
        """Some numbers may be those of other values from now on."""
        self._owner[:] = DROPPED

    def _column_of(self, bits: int) -> int:
        """Where events that satisfy these guards have the value; anywhere, if nothing reads them."""
        read = zip(self._auto.transitions, self._value.columns, strict=True)
        (column,) = {column for transition, column in read if transition.allows(bits)} or {self._value.columns[0]}
        return column

    def _of_values(self, numbers: Array) -> Array:
        most = self._values.most
        if len(self._owner) < most:
            more = np.full(max(most, 2 * len(self._owner)) - len(self._owner), DROPPED, np.uint8)
            self._owner = np.concatenate([self._owner, more])
        there = np.maximum(numbers, 0)
        found = self._owner[there]
        new = np.flatnonzero((found == DROPPED) & (numbers >= 0))
        if len(new):
            found[new] = owner_of(self._values.hashes(there[new]))
            self._owner[there[new]] = found[new]
        found[numbers < 0] = 0
        return np.asarray(found)
