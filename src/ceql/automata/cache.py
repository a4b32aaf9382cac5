"""The tables that the loop reads, filled hole by hole, and bounded.

The automaton is immutable; this is its mutable companion. When more states are known than the limits allow, in number
or in bytes of the tables, all but those in use are forgotten (`forget`), and found again when they are met again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import numpy as np

from ceql.automata.subsets import Determinised, State
from ceql.engine.common.limits import out_of_memory_for_tables
from ceql.engine.states.layout import DEAD, MISSING, NO_OP, Tables
from ceql.errors import ResourceError
from ceql.jit import Array

_log = logging.getLogger(__name__)
_CELL = 8  # bytes that the tables have for a state and a symbol
_FEWEST = 16  # states that there is room for at first


class TableCache:
    """Numbered states of a determinisation and their transitions. State 0 is the initial one."""

    def __init__(self, automaton: Determinised, bits_of: Callable[[int], int], max_states: int = 1 << 16) -> None:
        self.automaton = automaton
        self.bits_of = bits_of
        self.max_states = max_states
        self.max_bytes = 1 << 62
        """What the tables may take. A single entry that is filled may need a little more."""
        self._clear([automaton.initial()])

    def _clear(self, states: list[State], symbols: int = 8) -> None:
        self.states = states
        self.number = {state: k for k, state in enumerate(states)}
        rows = self._rows(2 * len(states), symbols)
        self.tables = Tables(
            np.full((rows, symbols), MISSING, np.int32),
            np.zeros(256, np.int32),
            np.zeros(rows, np.uint8),
            np.zeros((rows, symbols), np.int32),
        )
        self._used = 0
        for k, state in enumerate(states):
            self.tables.accept[k] = self._accepts(state)

    def restore(self, states: list[State]) -> None:
        """Number these states, in this order; their transitions are found when they are met."""
        self._clear(states)

    def copy(self) -> TableCache:
        """Another cache of the same automaton that knows the same states by the same numbers."""
        made = TableCache(self.automaton, self.bits_of, self.max_states)
        made._clear(list(self.states), self.tables.next.shape[1])
        return made

    def _most(self, symbols: int) -> int:
        """How many states there may be."""
        return min(self.max_states, self.max_bytes // (_CELL * symbols))

    def _rows(self, wanted: int, symbols: int) -> int:
        """How many rows the tables get: as many as wanted, if there may be so many, but one for each state."""
        return max(len(self.states) + 1, min(max(_FEWEST, wanted), self._most(symbols)))

    def room_for_symbols(self, count: int) -> bool:
        """Make sure that the tables have a column for each of `count` symbols; whether that is allowed."""
        rows, have = self.tables.next.shape
        if count > have:
            if len(self.states) > self._most(count):
                return False
            symbols = max(count, min(2 * have, self.max_bytes // (_CELL * (len(self.states) + 1))))
            self._resize(self._rows(rows, symbols), symbols)
        return True

    def fill(self, state: int, symbol: int) -> bool:
        """Compute the missing entry for a state and symbol; True if that makes states too many."""
        bits = self.bits_of(symbol)
        known = self.states[state]
        if state == 0 or self._is_initial(known):
            after, edges = self.automaton.start(known, bits)
            following = self._intern(after)
        else:
            edges = self.automaton.step(known, bits)
            following = state
        pairs = [(label, self._intern(target)) for label, target in edges]
        self.tables.initial_next[state, symbol] = following
        stays = bool(pairs) and pairs[-1] == (-1, state) and not self.tables.accept[state]
        if not pairs:
            self.tables.next[state, symbol] = DEAD
        elif stays and len(pairs) == 1:
            self.tables.next[state, symbol] = NO_OP
        else:
            entry = [len(pairs), int(stays), *(word for pair in pairs for word in pair)]
            self.tables.next[state, symbol] = self._append(entry)
        return len(self.states) > self._most(self.tables.next.shape[1])

    def _accepts(self, state: State) -> int:
        if not self.automaton.accepts(state):
            return 0
        return 2 if self.automaton.is_terminal(state) else 1

    @staticmethod
    def _is_initial(state: State) -> bool:
        return isinstance(state, tuple) and state[0] is None

    def _append(self, entry: list[int]) -> int:
        at = self._used
        self._used += len(entry)
        edges = self.tables.edges
        if self._used > len(edges):
            edges = np.concatenate([edges, np.zeros(max(len(edges), len(entry)), np.int32)])
            self.tables = self.tables._replace(edges=edges)
        edges[at : self._used] = entry
        return at

    def _intern(self, state: State) -> int:
        number = self.number.get(state)
        if number is None:
            number = len(self.states)
            self.states.append(state)
            self.number[state] = number
            if number >= self.tables.next.shape[0]:
                symbols = self.tables.next.shape[1]
                self._resize(self._rows(2 * number, symbols), symbols)
            self.tables.accept[number] = self._accepts(state)
        return number

    def _resize(self, rows: int, symbols: int) -> None:
        old = self.tables
        r, c = min(rows, old.next.shape[0]), old.next.shape[1]
        following = np.full((rows, symbols), MISSING, np.int32)
        following[:r, :c] = old.next[:r]
        initial = np.zeros((rows, symbols), np.int32)
        initial[:r, :c] = old.initial_next[:r]
        accept = np.zeros(rows, np.uint8)
        accept[:r] = old.accept[:r]
        self.tables = Tables(following, old.edges, accept, initial)

    def forget(self, in_use: Array) -> Array:
        """Keep the states marked in `in_use` only; the new number of each old state, -1 for the forgotten."""
        in_use[0] = 1
        kept = np.flatnonzero(in_use[: len(self.states)])
        if 2 * len(kept) > self.max_states:  # as many again must fit, or this would be done all the time
            raise ResourceError(
                f"the query needs more than {self.max_states} determinised states at once; "
                "raise max_states, or make the formula simpler (nested + and OR over the same events multiply states)",
                limit="max_states",
            )
        if 2 * len(kept) > self._most(self.tables.next.shape[1]):
            raise out_of_memory_for_tables(self.max_bytes, len(kept), self.tables.next.shape[1])
        _log.debug("of %d determinised states, the %d in use are kept", len(self.states), len(kept))
        renumbered = np.full(len(self.states), -1, np.int64)
        renumbered[kept] = np.arange(len(kept))
        self._clear([self.states[k] for k in kept], self.tables.next.shape[1])
        return renumbered
