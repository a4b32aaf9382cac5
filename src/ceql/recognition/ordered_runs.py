"""Runs an `OrderedProgram` over arrays: truth values of its guards, words of its events, numbers of substreams.

In: the events of each batch as arrays. Out: chunks of matches, those of a substream in the order in which they are
decided. Who has a query goes through `recognition.preferred`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ceql.automata.ordered_arrays import OrderedArrays
from ceql.automata.ordered_program import OrderedProgram
from ceql.automata.program_arrays import to_arrays
from ceql.engine.common.chunk import Chunk
from ceql.engine.common.layout import ENUMERATE, NO_KEY, NO_VALUES, W_GIVEN, Events
from ceql.engine.preferred.layout import START, Automaton, Settings
from ceql.engine.preferred.machine import ALL_PASSED, PreferredMachine
from ceql.jit import Array
from ceql.syntax import tree as t

_SKIPS = {skip: k for k, skip in enumerate(t.Skip)}


class OrderedRuns:
    """A program at work on a stream; its labels are those of `labels`, and one more for the event of an empty match."""

    def __init__(
        self, program: OrderedProgram, skip: t.Skip, variable: str | None = None, memory: int = 1 << 32,
        windowed: bool = False,
    ) -> None:  # fmt: skip
        self._program = program
        shown = frozenset[str]().union(*(leaf.label for leaf in program.ordered.leaves))
        self._ordered = OrderedArrays(program.ordered, shown, variable)
        self._made = to_arrays(program)
        self._known: dict[bytes, int] = {}
        """The number of each set of guards that events satisfied."""
        self._bits: list[int] = []
        self._windowed = windowed
        self.position = 0
        settings = Settings(
            window=W_GIVEN,
            width=0,
            counted=False,
            mode=ENUMERATE,
            skip=_SKIPS[skip],
            looks_back=False,
            shared=skip is t.Skip.PAST_LAST and not windowed,
            unites=skip is t.Skip.TO_NEXT,
        )
        carrier = self._made.carrier if program.registers else None
        self.machine = PreferredMachine(self._automaton(), settings, False, memory, variable, carrier)
        self.machine.sets = self._made.sets
        self.machine.numbered = self._made.ranked

    @property
    def labels(self) -> list[frozenset[str]]:
        """The variables that each label binds."""
        return self._ordered.labels

    def _automaton(self) -> Automaton:
        made = self._made
        return self._ordered.over(self._bits, carried=made.carried, once_of=made.once_of, once=made.once)

    def feed(
        self,
        holds: Array,
        words: Array | None = None,
        partition: Array | None = None,
        keys: Array | None = None,
        bounds: Array | None = None,
        rank: Array | None = None,
    ) -> Iterator[Chunk]:
        """The matches that these events decide.

        `holds` has a row for each event and a column for each guard, `words` a column for each word. If the program is
        windowed, `keys` and `bounds` say of each event what it is as the first event of a match, and the least key of
        the first event of a match that ends with it; both never fall. `rank` has the rank of each number of a value.
        """
        count = len(holds)
        packed = np.packbits(np.asarray(holds, np.bool_), axis=1, bitorder="little")
        rows, symbol = np.unique(packed, axis=0, return_inverse=True)
        number = np.array([self._number(row) for row in rows], np.int32)
        place = np.zeros(count, np.int32) if partition is None else partition.astype(np.int32)
        positions = np.arange(self.position, self.position + count, dtype=np.int64)
        self.position += count
        self.machine.room_for_partitions(int(place.max(initial=0)) + 1)
        if len(self.machine.auto.holds) < len(self._bits):
            self.machine.auto = self._automaton()
        if rank is not None and self.machine.carrier is not None:
            self.machine.carrier = self.machine.carrier._replace(rank=np.ascontiguousarray(rank, np.int64))
        events = Events(
            symbol=np.ascontiguousarray(number[symbol.ravel()] if count else number[:0]),
            position=positions,
            partition=np.ascontiguousarray(place),
            key=positions if keys is None else np.ascontiguousarray(keys, np.int64),
            bound=np.full(count, NO_KEY, np.int64) if bounds is None else np.ascontiguousarray(bounds, np.int64),
            time=np.zeros(0, np.int64),
            values=NO_VALUES if words is None else np.ascontiguousarray(words, np.int64),
        )
        yield from self.machine.feed(events)
        yield from self.machine.flush()

    def finish(self) -> Iterator[Chunk]:
        """The matches that are left, once no event will come."""
        yield from self.machine.decide(ALL_PASSED)
        yield from self.machine.flush()

    def undecided(self, substreams: int, bound: int = NO_KEY) -> Array:
        """Of each substream, the first position whose match events to come may change: past all positions if there is
        none. Windows of starts with lesser keys than `bound` have passed."""
        first: Array = np.full(substreams, self.position)
        entries, owner = self.machine.entries(np.arange(min(substreams, self.machine.partitions)))
        open = self.machine.latest(entries) >= bound
        np.minimum.at(first, owner[open], entries[open, START])
        return first

    def _number(self, row: Array) -> int:
        number = self._known.setdefault(row.tobytes(), len(self._bits))
        if number == len(self._bits):
            self._bits.append(int.from_bytes(row.tobytes(), "little"))
        return number
