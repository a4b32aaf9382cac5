"""A program for the loop over ordered runs (`engine.preferred`): an ordered automaton, and what its runs carry.

AFTER MATCH makes one of a formula. Who has no formula, as MATCH_RECOGNIZE, says here what a run does:

- `Ordered` (`automata.ordered`) has the places that read an event, and what may be read after each, the most preferred
  first. A place asks one guard: a truth value that each event brings along. What looks at one event and its neighbours
  is a guard, and so are the first and the last event of a substream (`^` and `$`).
- `Reading` says of each place which registers it updates and what must be true then. A test is a little program
  (`engine.groups.programs`) over words of the event and registers, before the event or with it, in SQL's logic.
- A run is told apart by where it waits and by the registers that something later asks for: `carried` finds out which.

Words are int64: whole numbers, truth values and times as they are, floats in the order-preserving form of
`io.sort_keys`, text and decimals as numbers of values with a rank for each. `NULL` and `UNBOUND` (no event has set
the register) of `engine.groups.layout` are words of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import NamedTuple

from ceql.automata.ordered import ACCEPT, Ordered
from ceql.automata.registers import CARRIED, EVENT, NEW, Source

Code = tuple[tuple[int, int], ...]
"""Operations with their arguments. (READ, k) puts the k-th read of a test on the stack. A register that no event may
have set needs one more operation after it: KNOWN makes NULL of it, COUNTED 0, TOTAL refuses a sum that was too large,
DIFFERENT gives the size of a set."""


class Asked(NamedTuple):
    """A test: a run reads the event only if this is true."""

    code: Code
    reads: tuple[Source, ...]
    """Source(EVENT, word), Source(CARRIED, register) as it was before the event, Source(NEW, register) with it."""


class How(Enum):
    """What an update does with the value of a register and a word."""

    LATEST = "latest"  # takes the word, NULL or not
    FIRST = "first"  # keeps what is there, else takes the word, NULL or not
    FIRST_AFTER = "first after"  # the same, but only once the register `other` was set before this event
    FIRST_KNOWN = "first known"  # these skip NULL
    LAST_KNOWN = "last known"
    SUM = "sum"  # of whole numbers; to count, add a word that is 1, or NULL for what does not count
    SUM_FLOATS = "sum of floats"
    LEAST = "least"
    GREATEST = "greatest"
    LEAST_BY_RANK = "least by rank"
    GREATEST_BY_RANK = "greatest by rank"
    DIFFERENT = "different"  # adds the word to a set; sets of `other` words or more are all the same


class Update(NamedTuple):
    """The new value of a register. All updates of an event read the registers as they were before it.

    The n-th last word of a variable is a register that takes what the (n - 1)-th last was: Update(r1, LATEST,
    Source(CARRIED, r0)) beside Update(r0, LATEST, Source(EVENT, word)).
    """

    register: int
    how: How
    source: Source
    other: int = -1


class Reading(NamedTuple):
    """What a place does besides reading: registers that it does not name stay as they are."""

    updates: tuple[Update, ...] = ()
    tests: tuple[Asked, ...] = ()


@dataclass(frozen=True, eq=False)
class OrderedProgram:
    """An ordered automaton with what each of its leaves does."""

    ordered: Ordered
    readings: tuple[Reading, ...]
    """Of each leaf."""
    registers: int

    @cached_property
    def carried(self) -> tuple[tuple[int, ...], ...]:
        """Of each wait: the registers that something may still ask for."""
        waits = self.ordered.waits
        live: list[set[int]] = [set() for _ in waits]
        grows = True
        while grows:
            grows = False
            for wait, own in zip(waits, live, strict=True):
                before = len(own)
                for leaf in wait.leaves:
                    own |= self.asked(leaf, [r for r in self.ordered.leaves[leaf].after if r != ACCEPT], live)
                grows |= len(own) > before
        return tuple(tuple(sorted(own)) for own in live)

    def asked(self, leaf: int, following: Sequence[int], live: Sequence[set[int]]) -> set[int]:
        """The registers that a leaf asks for, if these are carried on in the waits after it."""
        reading = self.readings[leaf]
        updates = {update.register: update for update in reading.updates}
        found: set[int] = set()
        wanted = set[int]().union(*(live[wait] for wait in following))
        for test in reading.tests:
            found |= {source.number for source in test.reads if source.kind == CARRIED}
            wanted |= {source.number for source in test.reads if source.kind == NEW}
        for register in wanted:
            update = updates.get(register)
            if update is None or update.how is not How.LATEST:
                found.add(register)
            if update is not None and update.source.kind == CARRIED:
                found.add(update.source.number)
            if update is not None and update.how is How.FIRST_AFTER:
                found.add(update.other)
        return found

    @property
    def words(self) -> int:
        """How many words of an event are read."""
        tests = [source for reading in self.readings for test in reading.tests for source in test.reads]
        sources = [*tests, *(update.source for reading in self.readings for update in reading.updates)]
        return max((source.number + 1 for source in sources if source.kind == EVENT), default=0)
