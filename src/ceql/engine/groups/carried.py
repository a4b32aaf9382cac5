"""What a run carries, put to use: testing a group against an event, and filling the registers of the new run.

Most tests compare a register with a value of the event. Others are little programs over several of them, with SQL's
logic: NULL is unknown, and a condition holds where it is true.
"""

from __future__ import annotations

import numpy as np

from ceql.engine.groups.layout import (
    ALIVE,
    ALIVE_IN,
    ALIVE_OUT,
    BOUND_AT,
    BOUND_END,
    BY_RANK,
    CASE,
    CODE,
    CODE_END,
    EQUAL,
    FIRST,
    GREATER,
    GREATEST,
    KEEP,
    KEPT,
    LAST,
    LEFT,
    LESS,
    LESS_EQUAL,
    MOVE,
    NOWHERE,
    NULL,
    ONLY,
    OP,
    RANKED,
    READS,
    RIGHT,
    SIMPLE,
    TAKE,
    TAKEN,
    UNBOUND,
    UNEQUAL,
    Carrier,
)
from ceql.engine.groups.programs import FAILED, TRUE, constant, run_program
from ceql.jit import Array, inlined

PASSES, RULED_OUT, CANNOT_TELL = 1, 0, -1
STACK = 64  # words of the scratch that programs use; the cases of ORs come after them
CASES = 32  # ORs that a step may have cases of; a key comes after them
KEY_AT = STACK + CASES


@inlined
def value_of(read: int, values: Array, i: int, entries: Array, g: int, base: int) -> int:
    """What a read gives: a value of event i, or a register of group g."""
    if read >= 0:
        return np.int64(values[i, read])
    if read <= NOWHERE:
        return constant(read)
    return entries[g, base - 1 - read]


@inlined
def compare(op: int, a: int, b: int, ranked: bool, rank: Array) -> bool:
    """Whether `a op b`, neither of which is NULL."""
    if op == EQUAL:
        return a == b
    if op == UNEQUAL:
        return a != b
    if ranked:
        a, b = rank[a], rank[b]
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
    if tests[k, SIMPLE]:
        a = value_of(tests[k, LEFT], values, i, entries, g, base)
        b = value_of(tests[k, RIGHT], values, i, entries, g, base)
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


@inlined
def passes(carrier: Carrier, e: int, values: Array, i: int, entries: Array, g: int, base: int) -> int:
    """Whether event i may follow the runs of group g by transition e. Leaves the cases of ORs in the scratch."""
    mask = np.int64(0)
    tests = carrier.tests
    for k in range(carrier.tests_of[e], carrier.tests_of[e + 1]):
        found = holds(carrier, k, values, i, entries, g, base)
        if found == CANNOT_TELL:
            return CANNOT_TELL
        case = tests[k, CASE]
        if case < 0:
            if found == RULED_OUT:
                if len(carrier.died) > 0:
                    carrier.died[k] += 1
                return RULED_OUT
            continue
        if tests[k, FIRST] > 0:
            mask = (np.int64(1) << np.int64(tests[k, FIRST])) - 1
            if tests[k, ALIVE_IN] != NOWHERE:
                before = value_of(tests[k, ALIVE_IN], values, i, entries, g, base)
                if before != UNBOUND:
                    mask = before
        if found == RULED_OUT:
            mask &= ~(np.int64(1) << np.int64(case))
        if tests[k, LAST]:
            if mask == 0:
                if len(carrier.died) > 0:
                    carrier.died[k] += 1
                return RULED_OUT
            if tests[k, ALIVE_OUT] >= 0:
                carrier.scratch[STACK + tests[k, ALIVE_OUT]] = mask
    return PASSES


@inlined
def carry_on(
    carrier: Carrier, e: int, values: Array, i: int, entries: Array, g: int, base: int, vector: Array, m: int
) -> None:
    """The registers of the run that transition e makes of group g: row m of `vector`."""
    first = carrier.moves_of[e]
    for k in range(first, carrier.moves_of[e + 1]):
        move = carrier.moves[k, MOVE]
        if move == ALIVE:
            vector[m, k - first] = carrier.scratch[STACK + carrier.moves[k, TAKEN]]
            continue
        old = value_of(carrier.moves[k, KEPT], values, i, entries, g, base) if move != TAKE else np.int64(UNBOUND)
        if move == KEEP:
            vector[m, k - first] = old
            continue
        new = value_of(carrier.moves[k, TAKEN], values, i, entries, g, base)
        if old != UNBOUND and move != TAKE:
            if old == NULL or new == NULL:
                new = np.int64(NULL)
            elif move == ONLY:
                new = new if new == old else np.int64(NULL)
            else:
                ranked = carrier.moves[k, BY_RANK] != 0
                keeps = compare(GREATER if move == GREATEST else LESS, old, new, ranked, carrier.rank)
                new = old if keeps else new
        vector[m, k - first] = new
