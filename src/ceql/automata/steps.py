"""A correlated automaton as the arrays of the loop over groups."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ceql.automata.correlated import Correlated, Index, Transition
from ceql.automata.registers import CARRIED, EVENT, MARK, NEW, Carrying, Evaluation, Fold, Move, Source
from ceql.engine.groups.layout import (
    ADD,
    ADD_DIFFERENT,
    ALIVE,
    APPEND,
    ASKED_AT_ONCE,
    BUCKETS,
    CASES,
    EQUAL,
    FIRST_KNOWN,
    GREATEST,
    GREATEST_KNOWN,
    INDEXES,
    IS_TRUE,
    KEEP,
    LAST_KNOWN,
    LEAST_KNOWN,
    LEAST_OF,
    LEFT,
    MEMBER,
    NO_EVENT,
    NOT_TRUE,
    NOWHERE,
    NUMBER,
    ONLY,
    RANKED,
    ROWS,
    SCRATCH,
    SUM_FLOATS,
    SUM_WHOLE,
    TAKE,
    TESTS,
    TOLD,
    Carrier,
    Steps,
)
from ceql.jit import Array


def to_steps(auto: Correlated, symbols: Sequence[int]) -> Steps:
    """The arrays for these symbols, each the set of guards that hold, as a bit mask."""
    transitions = (*auto.transitions, *auto.endings)
    read = len(auto.transitions)
    allowed = [[k for k, e in enumerate(auto.transitions) if e.allows(bits)] for bits in symbols]
    ending = [k for k, index in enumerate(auto.indexes) if index.ends]
    guards = {watched.number: watched.guards for watched in auto.ends}
    ends = [
        [-1 - n for n, k in enumerate(ending) if any(guards[number] & bits for number in auto.indexes[k].ends)]
        + [read + k for k, e in enumerate(auto.endings) if e.allows(bits)]
        for bits in symbols
    ]
    links = [e.links for e in transitions]
    every = [link for row in links for link in row]
    feeds = [[(k, *auto.indexes[k].feeders[state]) for k in own] for state, own in enumerate(auto.waits_in)]
    fed = [feed for row in feeds for feed in row]
    # what a transition that is allowed surely looks up: its first link, or what it feeds where only it and its like do
    later = {e.target for e in auto.transitions if e.links}
    surely = [
        [e.links[0][:2]] if e.links else [feed[:2] for feed in feeds[e.target] if e.target not in later]
        for e in auto.transitions
    ]
    asked = [list(dict.fromkeys(lookup for k in own for lookup in surely[k])) for own in allowed]
    if auto.carrying is not None:
        asked = [[] for _ in symbols]
    lookups = {lookup: n for n, lookup in enumerate(dict.fromkeys(lookup for own in asked for lookup in own))}
    final = np.zeros(auto.states, np.uint8)
    final[list(auto.final)] = 1
    return Steps(
        by_symbol=_offsets(allowed),
        order=_flat(allowed),
        begins=_ints(
            own[0] if len(own) == 1 and not ended and _just_begins(auto, auto.transitions[own[0]]) else -1
            for own, ended in zip(allowed, ends, strict=True)
        ),
        target=_ints(e.target for e in auto.transitions),
        mark=_ints(e.mark for e in auto.transitions),
        links=_offsets(links),
        link_index=_ints(link.where for link in every),
        link_keys=_offsets([link.key for link in every]),
        link_terms=_flat(link.key for link in every),
        link_unlike=_ints(_only(link.unlike) for link in every),
        link_lookup=_ints(lookups.get(link[:2], -1) if k == 0 else -1 for row in links for k, link in enumerate(row)),
        needs=_offsets([e.needs for e in transitions]),
        need_terms=_flat(e.needs for e in transitions),
        feeds=_offsets(feeds),
        feed_index=_ints(index for index, _, _ in fed),
        feed_keys=_offsets([key for _, key, _ in fed]),
        feed_terms=_flat(key for _, key, _ in fed),
        feed_unlike=_ints(_only(unlike) for _, _, unlike in fed),
        feed_lookup=_ints(
            lookups.get(feed[:2], -1) if state not in later else -1 for state, row in enumerate(feeds) for feed in row
        ),
        lookups=_offsets(asked),
        lookup=_flat([lookups[lookup] for lookup in own] for own in asked),
        lookup_index=_ints(index for index, _ in lookups),
        lookup_keys=_offsets([key for _, key in lookups]),
        lookup_terms=_flat(key for _, key in lookups),
        tight=np.array([index.tight for index in auto.indexes], np.uint8),
        final=final,
        index_terms=_ints(len(next(iter(index.feeders.values()))[0]) for index in auto.indexes),
        ends=_offsets(ends),
        end=_flat(ends),
        index_ended=_ints(ending.index(k) if index.ends else -1 for k, index in enumerate(auto.indexes)),
    )


def _just_begins(auto: Correlated, transition: Transition) -> bool:
    """Whether a transition looks nothing up, and its run waits in one index, in order."""
    way, waits_in = transition.way, auto.waits_in[transition.target]
    taken = all(not move.kept and move.source is not None and move.source.kind == EVENT for move in way.moves)
    asks = transition.links or way.every_test or not taken or transition.target in auto.final
    return not asks and len(waits_in) == 1 and auto.indexes[waits_in[0]].order != 0


class Simple(NamedTuple):
    """A test that compares two operands."""

    op: int
    left: int
    right: int
    ranked: bool


Program = list[tuple[int, int]]
BoundTest = Simple | Program
"""A condition over the columns of a schema: a comparison, or a program (`engine.groups.programs`)."""


class BoundReads(NamedTuple):
    """Of each of `auto.reads`: whether it is compared by rank, whether it is a float, and what it is of no event."""

    ranked: Sequence[bool]
    floating: Sequence[bool]
    absent: Sequence[bool | None]


_FOLDS = {
    Fold.GREATEST: GREATEST,
    Fold.LEAST: LEAST_OF,
    Fold.ONLY: ONLY,
    Fold.SUM: SUM_WHOLE,
    Fold.COUNT: SUM_WHOLE,
    Fold.MIN: LEAST_KNOWN,
    Fold.MAX: GREATEST_KNOWN,
    Fold.FIRST: FIRST_KNOWN,
    Fold.LAST: LAST_KNOWN,
}


def to_carrier(auto: Correlated, tests: Sequence[BoundTest], reads: BoundReads) -> Carrier:
    """The arrays of what runs carry."""
    return _Carriers(auto, tests, reads).build()


def tests_in_order(carrying: Carrying, transition: Transition) -> dict[int, list[Evaluation]]:
    """The tests of a transition as they are asked: those that must hold (-1), then those of each OR, by its claim."""
    found: dict[int, list[Evaluation]] = {-1: []}
    for test in transition.way.tests:
        condition = carrying.conditions[test.condition] if test.condition >= 0 else None
        in_or = condition is not None and condition.case >= 0
        found.setdefault(condition.claim.number if condition is not None and in_or else -1, []).append(test)
    return found


class _Carriers:
    def __init__(self, auto: Correlated, tests: Sequence[BoundTest], reads: BoundReads) -> None:
        assert auto.carrying is not None
        self.ranked, self.floating, self.absent = reads
        self.auto = auto
        self.carrying = auto.carrying
        self.bound = tests
        self.reads: list[int] = []
        self.code: list[tuple[int, int]] = []
        self.begins = [0] * len(tests)
        for k, test in enumerate(tests):
            self.begins[k] = len(self.code)
            if not isinstance(test, Simple):
                self.code += test
        self.slot = {claim: k for k, claim in enumerate(self.carrying.alive)}
        """Where the scratch has the cases of a claim that are left."""

    def build(self) -> Carrier:
        auto, count = self.auto, len(self.auto.indexes)
        keys = [len(next(iter(index.feeders.values()))[0]) for index in auto.indexes]
        hashed = [key + index.hashed for key, index in zip(keys, auto.indexes, strict=True)]
        # what is in order has a value, if it is the same for all
        widths = [
            max(key + len(index.registers), own + abs(index.order))
            for key, own, index in zip(keys, hashed, auto.indexes, strict=True)
        ]
        tests = [self._tests(transition) for transition in (*auto.transitions, *auto.endings)]
        after = [[self._row(e, test) for test in e.way.after] for e in auto.transitions]
        complete = [[self._row(e, test) for test in e.way.complete] for e in auto.transitions]
        by_ranks = {
            transition.links[0].where
            for transition, rows in zip(auto.transitions, tests, strict=False)
            if len(transition.links) == 1 and rows and rows[0][RANKED]
        }
        indexes = [
            (width, own, index.order, count + k if own < width else -1, int(k in by_ranks), index.between)
            for k, (width, own, index) in enumerate(zip(widths, hashed, auto.indexes, strict=True))
        ]
        moves = [
            [self._move(transition, move) for move in transition.way.moves]
            for transition in (*auto.transitions, *auto.endings)
        ]
        feeds = [
            [auto.carried(state).index(register) for register in auto.indexes[k].registers]
            for state, own in enumerate(auto.waits_in)
            for k in own
        ]
        assert len(self.slot) <= CASES
        return Carrier(
            indexes=np.array(indexes, np.int32).reshape(-1, INDEXES),
            tests=np.array([row for rows in (*tests, *after, *complete) for row in rows], np.int32).reshape(-1, TESTS),
            tests_of=_offsets(tests),
            reads=_ints(self.reads),
            code=np.array(self.code, np.int64).reshape(-1, 2),
            moves=np.array([row for rows in moves for row in rows], np.int32).reshape(-1, 4),
            moves_of=_offsets(moves),
            feed_of=_offsets(feeds),
            feed=_flat(feeds),
            each=np.array([any(map(self.carrying.carries_on, e.way.moves)) for e in auto.transitions], np.uint8),
            rank=np.zeros(1, np.int64),
            scratch=np.zeros(SCRATCH, np.int64),
            cells=np.zeros((1, 3), np.int64),
            cell_slots=np.zeros(2, np.int64),
            rows=np.zeros((1, ROWS), np.int64),
            keys=np.zeros((1, 1), np.int64),
            buckets=np.zeros((1, BUCKETS), np.int64),
            died=np.zeros((0, 0), np.int64),
            verdicts=np.zeros((len(self.carrying.listed), 2), np.int8),
            asked=np.zeros((1 + ASKED_AT_ONCE * bool(self.carrying.listed), 2), np.int64),
            after=self._further(tests, after, complete),
            alike=self._alike(),
        )

    def _alike(self) -> Array:
        """Of each state: a number that states share whose runs wait in the same way, and how many registers they have.
        Runs that are found with events between are told apart by their nodes, and alike to no other (-1)."""
        auto = self.auto
        apart = {n for k, index in enumerate(auto.indexes) if index.between >= 0 for n in (k, index.between)}
        numbers: dict[object, int] = {}
        rows = []
        for state, own in enumerate(auto.waits_in):
            how = auto.carried(state), tuple((k, auto.indexes[k].feeders[state]) for k in own)
            single = not own or not apart.isdisjoint(own)
            rows.append((-1 if single else numbers.setdefault(how, len(numbers)), len(auto.carried(state))))
        return np.array(rows, np.int32).reshape(-1, 2)

    @staticmethod
    def _further(tests: list[list[list[int]]], after: list[list[list[int]]], complete: list[list[list[int]]]) -> Array:
        """Where the tests of new runs are, of each transition; nothing if there are none."""
        if not any(after) and not any(complete):
            return np.zeros((0, 4), np.int32)
        first = sum(map(len, tests))
        second = first + sum(map(len, after))
        one, two = first + _offsets(after), second + _offsets(complete)
        return np.stack([one[:-1], one[1:], two[:-1], two[1:]], axis=1).astype(np.int32)

    def _index(self, transition: Transition) -> Index | None:
        return self.auto.indexes[transition.links[0].where] if len(transition.links) == 1 else None

    def _read(self, transition: Transition, source: Source) -> int:
        if source.kind == EVENT:
            return self.auto.column(source.number)
        if source.kind == CARRIED:
            index = self._index(transition)
            assert index is not None
            return -1 - index.registers.index(source.number)
        if source.kind == MARK:
            return NUMBER - transition.mark
        if source.kind == NEW:
            return -1 - [move.register for move in transition.way.moves].index(source.number)
        column = self.auto.column(source.number) if source.number >= 0 else len(self.absent)
        truth = self.absent[column] if column < len(self.absent) else None
        return NOWHERE if truth is None else IS_TRUE if truth else NOT_TRUE

    def _tests(self, transition: Transition) -> list[list[int]]:
        by_claim = tests_in_order(self.carrying, transition)
        rows = [self._row(transition, test) for test in by_claim.pop(-1)]
        for claim, tests in by_claim.items():
            register = self.carrying.alive[claim]
            carried = register in transition.way.cases
            cases = max(c.case for c in self.carrying.conditions if c.claim.number == claim) + 1
            for n, test in enumerate(tests):
                row = self._row(transition, test)
                row[5] = self.carrying.conditions[test.condition].case
                row[6] = cases if n == 0 else 0
                row[7] = int(n == len(tests) - 1)
                row[8] = self._read(transition, Source(CARRIED, register)) if carried else NOWHERE
                row[9] = self.slot[claim]
                rows.append(row)
        return rows

    def _row(self, transition: Transition, test: Evaluation) -> list[int]:
        row = [0] * TESTS
        row[5], row[8], row[9] = -1, NOWHERE, -1
        sets = {source.number: source._replace(member=-1) for source in test.sources if source.member >= 0}
        first: dict[int, int] = {}
        for n, (register, source) in enumerate(sets.items()):
            words = len(self.auto.register(register).terms)
            first[register] = sum(len(self.auto.register(other).terms) for other in list(sets)[:n])
            row[15 + 2 * n : 17 + 2 * n] = [self._read(transition, source), words]
        reads = [
            MEMBER - first[source.number] - source.member if source.member >= 0 else self._read(transition, source)
            for source in test.sources
        ]
        if test.condition < 0:
            row[:5] = [1, EQUAL, *reads, 0]
            return row
        condition = self.carrying.conditions[test.condition]
        if condition.listed is not None:
            row[LEFT], row[TOLD] = reads[0], 1 + self.carrying.listed.index(condition.claim)
            return row
        bound = self.bound[test.condition]
        if isinstance(bound, Simple):
            row[:5] = [1, bound.op, reads[bound.left], reads[bound.right], int(bound.ranked)]
            return row
        begin = self.begins[test.condition]
        row[10:13] = [begin, begin + len(bound), len(self.reads)]
        self.reads += reads
        row[13] = len(self.reads)
        kinds = {source.number: source for source in test.sources if source.kind in (CARRIED, NEW)}
        self.reads += [self._read(transition, kinds[register]) for register in test.bound if register not in sets]
        row[14] = len(self.reads)
        return row

    def _move(self, transition: Transition, move: Move) -> tuple[int, int, int, int]:
        register = self.auto.register(move.register)
        kept = self._read(transition, Source(CARRIED, move.register)) if move.kept else NO_EVENT
        if register.fold is Fold.ALIVE:
            decided = {c.claim.number for t in transition.way.tests if (c := self._condition(t)) is not None}
            return (ALIVE, 0, self.slot[register.claim], 0) if register.claim in decided else (KEEP, kept, 0, 0)
        if register.fold is Fold.DISTINCT and move.words:
            return ADD_DIFFERENT, kept, self._read(transition, move.words[0]), register.enough
        if move.words:
            at = len(self.reads)
            self.reads += [self._read(transition, source) for source in move.words]
            return APPEND if register.fold is Fold.LIST else ADD, kept, at, len(move.words)
        if move.source is None:
            return KEEP, kept, 0, 0
        taken = self._read(transition, move.source)
        if not move.kept:
            return TAKE, NO_EVENT, taken, 0
        column = self.auto.column(register.term)
        by_rank = column < len(self.ranked) and self.ranked[column]
        fold = _FOLDS[register.fold]
        if fold == SUM_WHOLE and column < len(self.floating) and self.floating[column]:
            fold = SUM_FLOATS
        return fold, kept, taken, int(by_rank)

    def _condition(self, test: Evaluation) -> Any:
        return self.carrying.conditions[test.condition] if test.condition >= 0 else None


def _only(unlike: tuple[int, ...]) -> int:
    """The term of a disequality, of which there is one at most."""
    return unlike[0] if unlike else -1


def _ints(values: Iterable[int]) -> Array:
    return np.array(list(values), np.int32)


def _flat(rows: Iterable[Iterable[int]]) -> Array:
    return _ints(value for row in rows for value in row)


def _offsets(rows: Sequence[Sequence[Any]]) -> Array:
    return np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int32)
