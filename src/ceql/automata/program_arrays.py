"""An `OrderedProgram` as the arrays of the loop over ordered runs: what its transitions test and carry on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ceql.automata.ordered import ACCEPT
from ceql.automata.ordered_program import How, OrderedProgram, Update
from ceql.automata.preferring import ways
from ceql.automata.registers import CARRIED, EVENT
from ceql.engine.groups.layout import (
    ADD_DIFFERENT,
    FIRST_KNOWN,
    GREATEST_KNOWN,
    KEEP,
    LAST_KNOWN,
    LEAST_KNOWN,
    NO_EVENT,
    NOWHERE,
    SCRATCH,
    SUM_FLOATS,
    SUM_WHOLE,
    TAKE,
    TESTS,
    Carrier,
    no_carrier,
)
from ceql.engine.preferred.carrying import ANYTHING
from ceql.jit import Array

_MOVES = {
    How.LATEST: (TAKE, 0),
    How.FIRST: (TAKE, 0),
    How.FIRST_AFTER: (TAKE, 0),
    How.FIRST_KNOWN: (FIRST_KNOWN, 0),
    How.LAST_KNOWN: (LAST_KNOWN, 0),
    How.SUM: (SUM_WHOLE, 0),
    How.SUM_FLOATS: (SUM_FLOATS, 0),
    How.LEAST: (LEAST_KNOWN, 0),
    How.GREATEST: (GREATEST_KNOWN, 0),
    How.LEAST_BY_RANK: (LEAST_KNOWN, 1),
    How.GREATEST_BY_RANK: (GREATEST_KNOWN, 1),
    How.DIFFERENT: (ADD_DIFFERENT, 0),
}


class ProgramArrays(NamedTuple):
    """What the loop takes of a program besides its automaton."""

    carrier: Carrier
    carried: Array  # int32[waits]: how many registers each wait carries
    once_of: Array
    once: Array
    sets: Array  # bool[waits, registers]: which of them are sets
    ranked: Array  # and which may be numbers of values


def to_arrays(program: OrderedProgram) -> ProgramArrays:
    """The arrays of a program; its transitions are those of `preferring.ways`."""
    return _Work(program).arrays()


class _Work:
    def __init__(self, program: OrderedProgram) -> None:
        self.program = program
        self.code: list[tuple[int, int]] = []
        self.begins: dict[object, int] = {}
        """Where each code begins."""
        self.reads: list[int] = []
        self.tests: list[list[int]] = []
        self.once: list[tuple[int, int, int]] = []

    def arrays(self) -> ProgramArrays:
        program = self.program
        moves: list[list[tuple[int, int, int, int]]] = []
        after, once_of = [], [0]
        for wait, leaf, target in ways(program.ordered):
            first = len(self.tests)
            moves.append(self._moves(wait, leaf, target))
            after.append((first, len(self.tests), 0, 0))
            once_of.append(len(self.once))
        carried = program.carried
        registers = max(map(len, carried), default=0)
        carrier = no_carrier()._replace(
            tests=np.array(self.tests, np.int32).reshape(-1, TESTS),
            tests_of=np.zeros(len(moves) + 1, np.int32),
            reads=np.array(self.reads, np.int32),
            code=np.array(self.code, np.int64).reshape(-1, 2),
            moves=np.array([row for rows in moves for row in rows], np.int32).reshape(-1, 4),
            moves_of=np.cumsum([0, *map(len, moves)]).astype(np.int32),
            after=np.array(after, np.int32).reshape(-1, 4),
            rank=np.zeros(1, np.int64),
            scratch=np.zeros(SCRATCH, np.int64),
            cells=np.zeros((1, 3), np.int64),
            cell_slots=np.zeros(2, np.int64),
        )
        sets = self._chosen(registers, lambda update: update.how is How.DIFFERENT)
        return ProgramArrays(
            carrier,
            np.array(list(map(len, carried)), np.int32),
            np.array(once_of, np.int32) if self.once else np.zeros(1, np.int32),
            np.array(self.once, np.int32).reshape(-1, 3),
            sets,
            ~sets,
        )

    def _chosen(self, registers: int, does: object) -> Array:
        """Of each wait, which of its registers have such an update."""
        updates = [update for reading in self.program.readings for update in reading.updates]
        mine = {update.register for update in updates if does(update)}  # type: ignore[operator]
        found: Array = np.zeros((len(self.program.carried), registers), np.bool_)
        for wait, own in enumerate(self.program.carried):
            for place, register in enumerate(own):
                found[wait, place] = register in mine
        return found

    def _moves(self, wait: int, leaf: int, target: int) -> list[tuple[int, int, int, int]]:
        """How the registers of the new run are made; its tests and `once` are noted on the way."""
        program, reading = self.program, self.program.readings[leaf]
        before = program.carried[wait] if wait >= 0 else ()
        updates = {update.register: update for update in reading.updates}
        asked = [source for test in reading.tests for source in test.reads if source.kind != EVENT]
        new = [source.number for source in asked if source.kind != CARRIED or source.number not in updates]
        made = list(dict.fromkeys([*(program.carried[target] if target != ACCEPT else ()), *new]))
        old = list(dict.fromkeys(s.number for s in asked if s.kind == CARRIED and s.number in updates))
        rows = []
        for place, register in enumerate(made):
            update = updates.get(register)
            if update is None:
                rows.append((KEEP, _carried(before, register), 0, 0))
                continue
            rows.append(self._move(before, update))
            if update.how in (How.FIRST, How.FIRST_AFTER):
                other = ANYTHING if update.how is How.FIRST else _place(before, update.other)
                self.once.append((place, _place(before, register), other))
        rows += [(KEEP, _carried(before, register), 0, 0) for register in old]
        for test in reading.tests:
            reads = [
                source.number
                if source.kind == EVENT
                else -1 - len(made) - old.index(source.number)
                if source.kind == CARRIED and source.number in updates
                else -1 - made.index(source.number)
                for source in test.reads
            ]
            begin = self.begins.get(test.code)
            if begin is None:
                begin = self.begins[test.code] = len(self.code)
                self.code += test.code
            row = [0] * TESTS
            row[5], row[8], row[9] = -1, NOWHERE, -1
            row[10:15] = [begin, begin + len(test.code), len(self.reads), 0, 0]
            self.reads += reads
            self.tests.append(row)
        return rows

    @staticmethod
    def _move(before: Sequence[int], update: Update) -> tuple[int, int, int, int]:
        move, by_rank = _MOVES[update.how]
        source = update.source
        taken = source.number if source.kind == EVENT else _carried(before, source.number)
        if update.how is How.DIFFERENT:
            return move, _carried(before, update.register), taken, update.other
        return move, _carried(before, update.register), taken, by_rank


def _place(before: Sequence[int], register: int) -> int:
    return before.index(register) if register in before else -1


def _carried(before: Sequence[int], register: int) -> int:
    """What is read of the run for a register."""
    return -1 - before.index(register) if register in before else NO_EVENT
