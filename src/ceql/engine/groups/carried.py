"""Tests groups against an event by what they carry, and fills the registers of the new run.

Most tests compare a register with a value of the event. Others are little programs over several of them, with SQL's
logic: NULL is unknown, and a condition holds where it is true.
"""

from __future__ import annotations

import numpy as np

from ceql.engine.groups.layout import (
    ADD,
    ADD_DIFFERENT,
    ALIVE,
    ALIVE_IN,
    ALIVE_OUT,
    APPEND,
    BEING_ASKED,
    BOUND_AT,
    BOUND_END,
    BY_RANK,
    CASE,
    CASES_AT,
    CELL_HEAD,
    CELL_TAIL,
    CODE,
    CODE_END,
    EQUAL,
    FIRST,
    FIRST_KNOWN,
    GREATER,
    GREATEST,
    GREATEST_KNOWN,
    KEEP,
    KEPT,
    LAST,
    LAST_KNOWN,
    LEFT,
    LESS,
    LESS_EQUAL,
    MEMBER_AT,
    MEMBER_CELL,
    MOVE,
    NOWHERE,
    NULL,
    ONLY,
    OP,
    RANKED,
    READS,
    RIGHT,
    SET_A,
    SET_B,
    SIMPLE,
    SUM_FLOATS,
    SUM_WHOLE,
    TAKE,
    TAKEN,
    TOLD,
    TOLD_FALSE,
    TOO_LARGE,
    UNBOUND,
    UNEQUAL,
    UNKNOWN,
    WORDS_A,
    WORDS_B,
    Carrier,
)
from ceql.engine.groups.programs import (
    ADD_INT,
    FAILED,
    TRUE,
    calculate_int,
    constant,
    rank_of,
    run_program,
    to_float,
    to_key,
)
from ceql.engine.groups.sets import NO_CELL, NO_ROOM, cell_of, with_different, with_last, with_member
from ceql.jit import Array, called, inlined

PASSES, RULED_OUT, CANNOT_TELL = 1, 0, -1


@inlined
def value_of(read: int, values: Array, i: int, entries: Array, g: int, base: int, scratch: Array) -> int:
    """What a read gives: a value of event i, a register of group g, or a word of the member at hand."""
    if read >= 0:
        return np.int64(values[i, read])
    if read <= NOWHERE:
        return constant(read, scratch)
    return entries[g, base - 1 - read]


@inlined
def compare(op: int, a: int, b: int, ranked: bool, rank: Array) -> bool:
    """Whether `a op b`, neither of which is NULL."""
    if op == EQUAL:
        return a == b
    if op == UNEQUAL:
        return a != b
    if ranked:
        a, b = rank_of(a, rank), rank_of(b, rank)
    if op == LESS:
        return a < b
    if op == LESS_EQUAL:
        return a <= b
    if op == GREATER:
        return a > b
    return a >= b


@inlined
def holds(carrier: Carrier, k: int, values: Array, i: int, entries: Array, g: int, base: int) -> int:
    """Whether test k passes; it does where an event that it speaks of is not there."""
    tests = carrier.tests
    if tests[k, TOLD] > 0:
        one = value_of(tests[k, LEFT], values, i, entries, g, base, carrier.scratch)
        return _told(carrier, tests[k, TOLD] - 1, one)
    if tests[k, SIMPLE]:
        a = value_of(tests[k, LEFT], values, i, entries, g, base, carrier.scratch)
        b = value_of(tests[k, RIGHT], values, i, entries, g, base, carrier.scratch)
        if a == UNBOUND or b == UNBOUND:
            return PASSES
        if a == NULL or b == NULL:
            return RULED_OUT
        return PASSES if compare(tests[k, OP], a, b, tests[k, RANKED] != 0, carrier.rank) else RULED_OUT
    for at in range(tests[k, BOUND_AT], tests[k, BOUND_END]):
        if entries[g, base - 1 - carrier.reads[at]] == UNBOUND:
            return PASSES
    found = run_program(carrier, tests[k, CODE], tests[k, CODE_END], tests[k, READS], values, i, entries, g, base)
    if found == FAILED:
        return CANNOT_TELL
    return PASSES if found == TRUE else RULED_OUT


@called
def _told(carrier: Carrier, condition: int, found: int) -> int:
    """Whether a list satisfies a condition. If that is not known, the list is noted; it passes until the event is read
    again, so that all lists of an event are asked about at once."""
    verdicts, asked = carrier.verdicts, carrier.asked
    at = found if found >= 0 else verdicts.shape[1] - 1
    verdict = verdicts[condition, at]
    if verdict == UNKNOWN and asked[0, 0] < len(asked) - 1:
        verdicts[condition, at] = BEING_ASKED
        asked[0, 0] += 1
        asked[asked[0, 0], 0], asked[asked[0, 0], 1] = condition, at
    return RULED_OUT if verdict == TOLD_FALSE else PASSES


@inlined
def _read_member(cells: Array, one: int, scratch: Array, to: int, words: int) -> None:
    """Put the words of a set's member into the scratch."""
    at = cells[one, CELL_HEAD]
    for n in range(words):
        scratch[to + n] = cells[at, CELL_HEAD]
        at = cells[at, CELL_TAIL]


@called
def holds_for_all(carrier: Carrier, k: int, values: Array, i: int, entries: Array, g: int, base: int) -> int:
    """Whether test k passes with every member of the sets that it speaks of."""
    tests, cells, scratch = carrier.tests, carrier.cells, carrier.scratch
    one = entries[g, base - 1 - tests[k, SET_A]]
    if one == UNBOUND:
        return PASSES
    while one >= 0:
        _read_member(cells, one, scratch, np.int64(MEMBER_AT), tests[k, WORDS_A])
        one = cells[one, CELL_TAIL]
        if tests[k, WORDS_B] == 0:
            found = holds(carrier, k, values, i, entries, g, base)
            if found != PASSES:
                return found
            continue
        two = entries[g, base - 1 - tests[k, SET_B]]
        if two == UNBOUND:
            return PASSES
        while two >= 0:
            _read_member(cells, two, scratch, np.int64(MEMBER_AT + tests[k, WORDS_A]), tests[k, WORDS_B])
            two = cells[two, CELL_TAIL]
            found = holds(carrier, k, values, i, entries, g, base)
            if found != PASSES:
                return found
    return PASSES


@inlined
def passes(carrier: Carrier, e: int, values: Array, i: int, entries: Array, g: int, base: int) -> int:
    """Whether event i may follow the runs of group g by transition e. Leaves the cases of ORs in the scratch."""
    mask = np.int64(0)
    tests = carrier.tests
    for k in range(carrier.tests_of[e], carrier.tests_of[e + 1]):
        if tests[k, WORDS_A] == 0:
            found = holds(carrier, k, values, i, entries, g, base)
        else:
            found = holds_for_all(carrier, k, values, i, entries, g, base)
        if found == CANNOT_TELL:
            return CANNOT_TELL
        case = tests[k, CASE]
        if case < 0:
            if found == RULED_OUT:
                if len(carrier.died) > 0:
                    carrier.died[0, k] += 1
                return RULED_OUT
            continue
        if tests[k, FIRST] > 0:
            mask = (np.int64(1) << np.int64(tests[k, FIRST])) - 1
            if tests[k, ALIVE_IN] != NOWHERE:
                before = value_of(tests[k, ALIVE_IN], values, i, entries, g, base, carrier.scratch)
                if before != UNBOUND:
                    mask = before
        if found == RULED_OUT:
            mask &= ~(np.int64(1) << np.int64(case))
        if tests[k, LAST]:
            if mask == 0:
                if len(carrier.died) > 0:
                    carrier.died[0, k] += 1
                return RULED_OUT
            if tests[k, ALIVE_OUT] >= 0:
                carrier.scratch[CASES_AT + tests[k, ALIVE_OUT]] = mask
    return PASSES


@called
def aggregated(move: int, old: int, new: int, ranked: bool, rank: Array) -> int:
    """An aggregate with one value more; it skips NULL. A sum that does not fit stays so."""
    if new == NULL:
        return old
    if old <= NULL:
        return new
    if move == SUM_WHOLE:
        if old == TOO_LARGE:
            return old
        fits, total = calculate_int(np.int64(ADD_INT), old, new)
        return total if fits else np.int64(TOO_LARGE)
    if move == SUM_FLOATS:
        return to_key(to_float(old) + to_float(new))
    if move == FIRST_KNOWN:
        return old
    if move == LAST_KNOWN:
        return new
    keeps = compare(np.int64(GREATER if move == GREATEST_KNOWN else LESS), old, new, ranked, rank)
    return old if keeps else new


@called
def all_hold(carrier: Carrier, begin: int, end: int, values: Array, i: int, vector: Array, m: int) -> int:
    """Whether the run in row m of `vector`, whose last event is i, passes these tests."""
    for k in range(begin, end):
        if carrier.tests[k, WORDS_A] == 0:
            found = holds(carrier, k, values, i, vector, m, np.int64(0))
        else:
            found = holds_for_all(carrier, k, values, i, vector, m, np.int64(0))
        if found != PASSES:
            if found == RULED_OUT and len(carrier.died) > 0:
                carrier.died[0, k] += 1
            return found
    return PASSES


@inlined
def carry_on(
    carrier: Carrier,
    e: int,
    values: Array,
    i: int,
    entries: Array,
    g: int,
    base: int,
    regs: Array,
    vector: Array,
    m: int,
) -> bool:
    """Fill row m of `vector`: the registers of the run that transition e makes of group g; whether there is room."""
    first = carrier.moves_of[e]
    for k in range(first, carrier.moves_of[e + 1]):
        move = carrier.moves[k, MOVE]
        if move == ALIVE:
            vector[m, k - first] = carrier.scratch[CASES_AT + carrier.moves[k, TAKEN]]
            continue
        old = np.int64(UNBOUND)
        if move != TAKE:
            old = value_of(carrier.moves[k, KEPT], values, i, entries, g, base, carrier.scratch)
        if move in (ADD, APPEND):
            member = np.int64(NO_CELL)
            first_word = carrier.moves[k, TAKEN]
            for n in range(carrier.moves[k, BY_RANK] - 1, -1, -1):
                word = value_of(carrier.reads[first_word + n], values, i, entries, g, base, carrier.scratch)
                member = cell_of(carrier.cells, carrier.cell_slots, regs, word, member, np.int64(MEMBER_CELL))
                if member < 0:
                    return False
            if move == ADD:
                vector[m, k - first] = with_member(carrier.cells, carrier.cell_slots, regs, old, member)
            else:
                is_bare = carrier.moves[k, BY_RANK] == 1
                vector[m, k - first] = with_last(carrier.cells, carrier.cell_slots, regs, old, member, is_bare)
            if vector[m, k - first] < 0:
                return False
            continue
        if move == KEEP:
            vector[m, k - first] = old
            continue
        if move == ADD_DIFFERENT:
            word = value_of(carrier.moves[k, TAKEN], values, i, entries, g, base, carrier.scratch)
            enough = np.int64(carrier.moves[k, BY_RANK])
            vector[m, k - first] = with_different(carrier.cells, carrier.cell_slots, regs, old, word, enough)
            if vector[m, k - first] == NO_ROOM:
                return False
            continue
        new = value_of(carrier.moves[k, TAKEN], values, i, entries, g, base, carrier.scratch)
        if move >= SUM_WHOLE:
            new = aggregated(move, old, new, carrier.moves[k, BY_RANK] != 0, carrier.rank)
        elif old != UNBOUND and move != TAKE:
            if old == NULL or new == NULL:
                new = np.int64(NULL)
            elif move == ONLY:
                new = new if new == old else np.int64(NULL)
            else:
                ranked = carrier.moves[k, BY_RANK] != 0
                keeps = compare(GREATER if move == GREATEST else LESS, old, new, ranked, carrier.rank)
                new = old if keeps else new
        vector[m, k - first] = new
    return True
