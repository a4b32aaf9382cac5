"""Has conditions on lists of events decided, which the loop does not calculate.

A list is a cell (`sets`), so a condition is decided once for all partial matches with equal lists. The loop notes the
lists of an event that it knows nothing of, comes back for them, and reads the event again. A call of Python takes as
long as thousands of events, so that the machine first has the loop go on, as if all lists passed, and takes back all
but the lists that it meets (`look_ahead`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ceql.engine.common.layout import EVENT, Events
from ceql.engine.groups.layout import CELLS_USED, ENTRIES, TOLD_FALSE, TOLD_TRUE, UNKNOWN, Carrier
from ceql.jit import Array

if TYPE_CHECKING:
    from ceql.engine.groups.machine import GroupMachine

AHEAD = 1 << 12  # events whose lists are asked about at once
Tell = Callable[[int, Array, Array], Array]
"""Says for a condition which of these lists, of the cells, satisfy it; -1 is the empty list."""


def look_ahead(machine: GroupMachine, events: Events) -> None:
    """Have all decided that coming events ask about, as if all lists passed; nothing else changes."""
    carrier, regs = machine.carrier, machine.regs
    assert carrier is not None
    assert machine.tell is not None
    changing = [regs, machine.table, machine.slots, machine.entries[: regs[ENTRIES]], machine.fresh.only]
    changing += [*machine.reached, carrier.rows, carrier.keys, carrier.buckets, carrier.died]
    before = [array.copy() for array in changing]
    carrier.asked[0, 1] = len(carrier.asked) - 2
    machine._advance(events, min(len(events.symbol), int(regs[EVENT]) + AHEAD))
    cells = int(regs[CELLS_USED])
    for array, old in zip(changing, before, strict=True):
        array[...] = old
    regs[CELLS_USED] = cells  # where the lists are
    answer(carrier, machine.tell)


def answer(carrier: Carrier, tell: Tell) -> None:
    """Have all decided that was asked."""
    asked = carrier.asked[1 : 1 + int(carrier.asked[0, 0])].copy()
    carrier.asked[0] = 0
    carrier.verdicts[asked[:, 0], asked[:, 1]] = UNKNOWN  # should the caller fail
    empty = carrier.verdicts.shape[1] - 1
    for condition in np.unique(asked[:, 0]).tolist():
        lists = asked[asked[:, 0] == condition, 1]
        holds = tell(condition, carrier.cells, np.where(lists == empty, -1, lists))
        carrier.verdicts[condition, lists] = np.where(holds, TOLD_TRUE, TOLD_FALSE)


def forgotten(carrier: Carrier) -> Carrier:
    """What runs carry, with nothing told of any list, and room for as many as there are cells."""
    verdicts: Array = np.zeros((len(carrier.verdicts), len(carrier.cells) + 1), np.int8)
    return carrier._replace(verdicts=verdicts, asked=np.zeros_like(carrier.asked))
