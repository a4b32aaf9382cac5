"""The words that runs are filed under: which of them are numbers of values or sets, and how they change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from ceql.engine.common.graph import KIND, LISTED, OTHERS, VALUE, B
from ceql.engine.common.layout import NODES
from ceql.engine.common.machine import ascending
from ceql.engine.groups import rows
from ceql.engine.groups.layout import (
    BASE,
    BUCKETS_USED,
    CELL_HEAD,
    CELL_KIND,
    CELLS_USED,
    EASIEST,
    ENTRIES,
    INDEX,
    KEY,
    MEMBER_CELL,
    NULL,
    REACH,
    ROOM,
    UNKNOWN,
)
from ceql.engine.groups.rings import size_of
from ceql.engine.groups.sets import keep_cells
from ceql.jit import Array

if TYPE_CHECKING:
    from ceql.engine.groups.machine import GroupMachine


def _places(machine: GroupMachine, chosen: Array) -> Iterator[tuple[Array, int]]:
    """The entries, and the words in them, that are chosen by index and word and have a value."""
    indexes = machine.entries[: machine.regs[ENTRIES], INDEX]
    for word in np.flatnonzero(chosen.any(axis=0)).tolist():
        found = np.flatnonzero(chosen[indexes, word])
        yield found[machine.entries[found, KEY + word] > NULL], KEY + word


def _keys(machine: GroupMachine, buckets: Array) -> Iterator[Array]:
    """All values in the rings of these buckets and in their blocks."""
    assert machine.carrier is not None
    for base, room, reach in machine.carrier.buckets[buckets][:, [BASE, ROOM, REACH]].tolist():
        yield machine.carrier.keys[base : base + size_of(room, reach, machine.settings.block), 0]


def recode(machine: GroupMachine, chosen: Array, change: Callable[[Array], Array]) -> None:
    """Change the words that are chosen by index and word; the hash table must be made anew."""
    entries, carrier = machine.entries, machine.carrier
    for found, word in _places(machine, chosen):
        entries[found, word] = change(entries[found, word])
    if carrier is not None:
        buckets = rows.buckets_of(machine, chosen)
        for keys in _keys(machine, buckets):
            keys[:] = change(keys)
        carrier.buckets[buckets, EASIEST] = np.iinfo(np.int64).min
        nodes = rows.nodes_of(machine, buckets)
        machine.nodes[nodes, B] = change(machine.nodes[nodes, B])


def keep_sets(machine: GroupMachine) -> None:
    """Keep the sets that groups have."""
    carrier = machine.carrier
    assert carrier is not None
    marked: Array = np.zeros(len(carrier.cells), np.int64)
    places = list(_places(machine, machine.sets))
    for found, word in places:
        marked[machine.entries[found, word]] = 1
    with np.errstate(over="ignore"):
        keep_cells(carrier.cells, carrier.cell_slots, machine.regs, marked)
    carrier.verdicts[:] = UNKNOWN
    for found, word in places:
        machine.entries[found, word] = marked[machine.entries[found, word]]


def used_values(machine: GroupMachine, most: int, sorted_by: bool) -> Array:
    """The numbers, below `most`, of the values that runs are filed under; with `sorted_by`, also of those that the
    window has left and that sorted blocks still have: these stay in order as long as their values do."""
    regs, carrier, widths = machine.regs, machine.carrier, machine.widths
    used = machine.entries[: regs[ENTRIES]]
    wide = widths[used[:, INDEX]]
    found = [used[(wide > k) & machine.numbered[used[:, INDEX], k], KEY + k] for k in range(int(widths.max(initial=0)))]
    if carrier is not None and regs[BUCKETS_USED]:
        buckets = rows.buckets_of(machine, machine.numbered)
        if sorted_by:
            found += _keys(machine, buckets)
        else:
            found += [carrier.keys[rows.ring(carrier, bucket), 0] for bucket in buckets.tolist()]
        found.append(machine.nodes[rows.nodes_of(machine, buckets), B])
    if carrier is not None and regs[CELLS_USED]:
        cells = carrier.cells[: regs[CELLS_USED]]
        found.append(cells[cells[:, CELL_KIND] == MEMBER_CELL, CELL_HEAD])  # some are no numbers of values
    if machine.lists:
        kinds = machine.nodes[: regs[NODES], KIND]
        found.append(machine.extra[np.flatnonzero(kinds == LISTED), VALUE])
        found.append(machine.nodes[np.flatnonzero(kinds == OTHERS), B])
    numbers = np.concatenate([np.zeros(0, np.int64), *found])
    return ascending(numbers[(numbers >= 0) & (numbers < most)])
