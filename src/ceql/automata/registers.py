"""Registers as data: where their values come from, and what steps test of them (`carrying.py`)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import NamedTuple

from ceql.analysis.cutting import Condition
from ceql.analysis.shape import Claim, Leaves, Shape
from ceql.automata.parallel import Step
from ceql.automata.uses import Term


class Fold(Enum):
    """What a register keeps of its events."""

    LATEST = "latest"
    GREATEST = "greatest"
    LEAST = "least"
    ONLY = "only"
    SET = "set"
    ALIVE = "alive"  # the cases of an OR that have not failed
    # of aggregates, which skip NULL
    SUM = "SUM"
    COUNT = "COUNT"
    MIN = "MIN"
    MAX = "MAX"
    FIRST = "FIRST"
    LAST = "LAST"
    DISTINCT = "DISTINCT"  # the set of different values
    LIST = "LIST"  # all values in order


class Register(NamedTuple):
    """The value of a term at the events of some leaves; of the event before them, if `previous`.

    A SET has a member for each event, which has the values of several terms, some of the event before. DISTINCT is a
    set of the values of one term. A LIST has a member for each event, which has its mark, then the values of terms.
    """

    term: int
    fold: Fold
    leaves: Leaves
    scope: int  # going round an iteration around this node empties it; -1: none does
    previous: bool = False
    claim: int = -1  # ALIVE, LIST: of which claim
    terms: tuple[tuple[int, bool], ...] = ()  # SET, LIST: its terms, and whether they are of the event before
    absence: int = -1  # if it is of forbidden events: of which
    emptied: Leaves = frozenset()  # an event at one of these leaves empties it
    enough: int = 0  # DISTINCT: how many values make it full

    @property
    def is_set(self) -> bool:
        return self.fold in (Fold.SET, Fold.DISTINCT, Fold.LIST)


def resets(shape: Shape, register: Register, step: Step) -> bool:
    """Whether a step goes round an iteration around the node of a register, or empties it by its event."""
    if not step.leaves.isdisjoint(register.emptied):
        return True
    return register.scope >= 0 and not step.loops.isdisjoint(shape.above(register.scope)[1:])


EVENT, CARRIED, NOTHING, NEW, MARK = "event", "carried", "nothing", "new", "mark"


class Source(NamedTuple):
    """Where a value comes from: the event's term, a register of the run, or a term of no event (all is NULL); NEW is
    a register of the run that the step makes; MARK is the number of the step's mark.

    Of a register that is a set, `member` is the number of a value of each member.
    """

    kind: str
    number: int = -1
    member: int = -1


class Evaluation(NamedTuple):
    """A condition, decided for some combinations of events: where its operands come from."""

    condition: int
    sources: tuple[Source, ...]
    bound: tuple[int, ...]
    """The registers without which there is no such combination."""


class Move(NamedTuple):
    """How a register of the target gets its value: kept, taken from `source`, or folded with it.

    A set gets a member with the values of `words`.
    """

    register: int
    kept: bool
    source: Source | None = None
    words: tuple[Source, ...] = ()

    @property
    def sources(self) -> tuple[Source, ...]:
        return self.words if self.source is None else (self.source,)


@dataclass(frozen=True)
class Way:
    """What a step does with the runs of one state."""

    hashed: tuple[tuple[int, int], ...] = ()
    """Registers, and the terms of the event that must be equal to them."""
    tests: tuple[Evaluation, ...] = ()
    moves: tuple[Move, ...] = ()
    """Those of the registers that are live in the target, in order, then those that are only asked for."""
    cases: tuple[int, ...] = ()
    """The registers of ORs whose cases are decided here and were looked at before, in the same round."""
    after: tuple[Evaluation, ...] = field(default=(), repr=False)
    """What is tested of the new run."""
    complete: tuple[Evaluation, ...] = field(default=(), repr=False)
    """What is tested of the new run where it is a match if it ends here."""

    @property
    def every_test(self) -> tuple[Evaluation, ...]:
        return self.tests + self.after + self.complete


class Ending(NamedTuple):
    """How a forbidden event rules out runs that wait to go over its gap: those found by hash that pass all tests.

    With `move`, these runs carry on what the event is like, and go on.
    """

    absence: int
    hashed: tuple[tuple[int, int], ...]
    tests: tuple[Evaluation, ...]
    move: Move | None = None

    def __repr__(self) -> str:  # what fingerprints are made of: as it was before there were moves
        shown = [f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True) if value is not None]
        return f"Ending({', '.join(shown)})"

    @property
    def asked(self) -> set[int]:
        """The registers that it speaks of."""
        found = {register for register, _ in self.hashed}
        if self.move is not None:
            found.add(self.move.register)
        return found | {s.number for test in self.tests for s in test.sources if s.kind == CARRIED}


@dataclass(frozen=True, eq=False)
class Carrying:
    """The registers of an automaton; `live` has those of each state, in order."""

    terms: tuple[Term, ...]
    compares: tuple[tuple[int, int], ...]
    """Pairs of terms that are compared by their numbers."""
    registers: tuple[Register, ...]
    live: tuple[tuple[int, ...], ...]
    sure: tuple[frozenset[int], ...]
    """Of each state, the registers that every run there has a value for."""
    ways: Mapping[tuple[Step, int], Way]
    """Of each step and source state (-1: it begins a run)."""
    conditions: tuple[Condition, ...]
    operands: tuple[tuple[int, ...], ...]
    """Of each condition: the terms of its operands."""
    alive: Mapping[int, int]
    """Of each claim that is an OR: the register of the cases that have not failed."""
    endings: Mapping[tuple[Step, int], tuple[Ending, ...]]
    """Of each step and source state that a gap lies between: what rules out the runs there. Absences without conditions
    on other events are not among them."""

    @property
    def listed(self) -> tuple[Claim, ...]:
        """The claims that are decided on lists of events."""
        return tuple(condition.claim for condition in self.conditions if condition.listed is not None)

    @cached_property
    def carried_on(self) -> Mapping[int, set[int]]:
        """Of each state: the registers that have values of earlier events than the last."""
        found: defaultdict[int, set[int]] = defaultdict(set)
        for (step, _), way in self.ways.items():
            found[step.target].update(move.register for move in way.moves if self.carries_on(move))
        return found

    def is_own(self, state: int, registers: Iterable[int]) -> bool:
        """Whether these registers of a state have values of the last event alone.

        Else each event makes a run of every group it meets, of which many carry the same: these are better united.
        """
        return self.carried_on[state].isdisjoint(registers)

    def carries_on(self, move: Move) -> bool:
        """Whether the register's value depends on the run that is found, and not on the event alone."""
        if self.registers[move.register].fold is Fold.ALIVE:
            return True
        return move.kept or any(source.kind == CARRIED for source in move.sources)
