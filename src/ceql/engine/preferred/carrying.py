"""Runs that carry registers: they are tested and filled as groups are, and told apart by their values, too.

The run at hand is `work.run`, its event `work.words`, and what it goes on with is made in `work.vector`.
"""

from __future__ import annotations

import numpy as np

from ceql.engine.groups.carried import CANNOT_TELL, PASSES, RULED_OUT, all_hold, carry_on, passes
from ceql.engine.groups.layout import UNBOUND, Carrier
from ceql.engine.preferred.layout import ENTRY, FOUND, STAMP, SYMBOL, WAIT, Automaton, Work
from ceql.jit import Array, Word, called, inlined, mix

NO_CELLS = -2  # there is no room for a set of values
UNTOLD = -3  # the caller must tell whether a list satisfies a condition
ANYTHING = -2  # in place of what must have been set before


@called
def carries_on(auto: Automaton, carrier: Carrier, regs: Array, work: Work, e: int, carried: int) -> Word:
    """Test the run at hand by transition e, and make the registers, as many as `carried`, that it goes on with: PASSES,
    RULED_OUT, CANNOT_TELL, NO_CELLS or UNTOLD."""
    none: Word = np.int64(0)
    base: Word = np.int64(ENTRY)
    found = passes(carrier, e, work.words, none, work.run, none, base)
    if found != PASSES:
        return found
    if not carry_on(carrier, e, work.words, none, work.run, none, base, regs, work.vector, none):
        return np.int64(NO_CELLS)
    if len(auto.once_of) > 1:
        _keep_first(auto, work, e)
    if len(carrier.after) > 0:
        found = all_hold(carrier, carrier.after[e, 0], carrier.after[e, 1], work.words, none, work.vector, none)
        if found != PASSES:
            return found
    if carrier.asked[0, 0] > 0:
        return np.int64(UNTOLD)
    for k in range(carried, work.vector.shape[1]):
        work.vector[0, k] = UNBOUND
    return np.int64(PASSES)


@inlined
def _keep_first(auto: Automaton, work: Work, e: int) -> None:
    """Registers that keep their first value, NULL or not, were made as if they took the latest."""
    for k in range(auto.once_of[e], auto.once_of[e + 1]):
        place, own, other = auto.once[k, 0], auto.once[k, 1], auto.once[k, 2]
        if own >= 0 and work.run[0, ENTRY + own] != UNBOUND:
            work.vector[0, place] = work.run[0, ENTRY + own]
        elif other != ANYTHING and (other < 0 or work.run[0, ENTRY + other] == UNBOUND):
            work.vector[0, place] = UNBOUND


@called
def stays_on(auto: Automaton, carrier: Carrier, regs: Array, work: Work, event: Array, wait: int) -> Word:
    """The same for a run that skips the event: forbidden ones rule it out, or it remembers what they were like."""
    none: Word = np.int64(0)
    base: Word = np.int64(ENTRY)
    for k in range(work.vector.shape[1]):
        work.vector[0, k] = work.run[0, ENTRY + k] if ENTRY + k < work.run.shape[1] else UNBOUND
    for k in range(auto.ends[wait], auto.ends[wait + 1]):
        if auto.holds[event[SYMBOL], auto.end_columns[k]] == 0:
            continue
        e = auto.end_transitions[k]
        if carrier.moves_of[e] < carrier.moves_of[e + 1]:
            found = carries_on(auto, carrier, regs, work, e, auto.carried[wait])
            if found != PASSES and found != RULED_OUT:
                return found
            if found == PASSES:  # else this one is none of those that are remembered
                for k2 in range(auto.carried[wait]):
                    work.run[0, ENTRY + k2] = work.vector[0, k2]
            else:
                for k2 in range(work.run.shape[1] - ENTRY):
                    work.vector[0, k2] = work.run[0, ENTRY + k2]
        else:
            found = passes(carrier, e, work.words, none, work.run, none, base)
            if found == CANNOT_TELL:
                return found
            if found == PASSES:
                return np.int64(RULED_OUT)
    return np.int64(PASSES)


@called
def is_new(regs: Array, work: Work, wait: int) -> bool:
    """Whether no run before waits like this with the values of `work.vector`; the next entry of the new list then
    counts as one that does."""
    registers = work.entries.shape[1] - ENTRY
    zero: Word = np.int64(0)
    h = mix(zero, wait)
    for k in range(registers):
        h = mix(h, work.vector[0, k])
    mask = len(work.slots) - 1
    at = (h >> 32) & mask
    while work.slots[at, 0] == regs[STAMP]:
        entry = work.slots[at, 1]
        same = entry < regs[FOUND] and work.entries[entry, WAIT] == wait
        for k in range(registers):
            same = same and work.entries[entry, ENTRY + k] == work.vector[0, k]
        if same:
            return False
        at = (at + 1) & mask
    work.slots[at, 0] = regs[STAMP]
    work.slots[at, 1] = regs[FOUND]
    return True


@inlined
def put_registers(work: Work, entry: int) -> None:
    """Write the registers that were made into an entry of the new list."""
    for k in range(work.entries.shape[1] - ENTRY):
        work.entries[entry, ENTRY + k] = work.vector[0, k]
