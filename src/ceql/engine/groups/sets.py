"""Sets of values, where no single value of many events decides a condition for all of them (`!=`, OR, products).

A set is a list of members, greatest number first; a member is a list of words. Both are lists of *cells*, and equal
lists are the same cell: partial matches with the same values are one group, whatever the order in which they saw them.
"""

from __future__ import annotations

import numpy as np

from ceql.engine.groups.layout import CELL_HEAD, CELL_KIND, CELL_TAIL, CELLS_USED, MEMBER_CELL, NULL, SET_CELL, UNBOUND
from ceql.jit import LOWER, Array, called, inlined, kernel, mix

NO_CELL = -1
NO_ROOM = -2


@inlined
def _hash(head: int, tail: int, kind: int) -> int:
    return mix(mix(np.int64(kind), np.int64(head)), np.int64(tail))


@called
def cell_of(cells: Array, slots: Array, regs: Array, head: int, tail: int, kind: int) -> int:
    """The cell of a head and a tail (NO_CELL: none); NO_ROOM if it is a new one and there is no room for it."""
    h = _hash(head, tail, kind)
    half = (h >> 32) << 32
    mask = len(slots) - 1
    at = (h >> 32) & mask
    while slots[at] != 0:
        if (slots[at] >> 32) << 32 == half:
            cell = (slots[at] & LOWER) - 1
            if cells[cell, CELL_HEAD] == head and cells[cell, CELL_TAIL] == tail and cells[cell, CELL_KIND] == kind:
                return cell
        at = (at + 1) & mask
    cell = regs[CELLS_USED]
    if cell == cells.shape[0]:
        return np.int64(NO_ROOM)
    cells[cell, CELL_HEAD] = head
    cells[cell, CELL_TAIL] = tail
    cells[cell, CELL_KIND] = kind
    regs[CELLS_USED] = cell + 1
    slots[at] = half | np.int64(cell + 1)
    return cell


@called
def with_member(cells: Array, slots: Array, regs: Array, found: int, member: int) -> int:
    """The set with one member more, or as it is; UNBOUND is no set yet."""
    if found == UNBOUND:
        return cell_of(cells, slots, regs, member, np.int64(NO_CELL), np.int64(SET_CELL))
    at = found
    greater = 0
    while at >= 0 and cells[at, CELL_HEAD] > member:
        at = cells[at, CELL_TAIL]
        greater += 1
    if at >= 0 and cells[at, CELL_HEAD] == member:
        return found
    result = cell_of(cells, slots, regs, member, at, np.int64(SET_CELL))
    while greater > 0 and result >= 0:  # those before it, the last first
        greater -= 1
        at = found
        for _ in range(greater):
            at = cells[at, CELL_TAIL]
        result = cell_of(cells, slots, regs, cells[at, CELL_HEAD], result, np.int64(SET_CELL))
    return result


@called
def with_last(cells: Array, slots: Array, regs: Array, found: int, member: int, is_bare: bool) -> int:
    """The list with one member more; a bare one, which only says where it was read, is not repeated."""
    if found == UNBOUND:
        found = np.int64(NO_CELL)
    elif is_bare and cells[found, CELL_HEAD] == member:
        return found
    return cell_of(cells, slots, regs, member, found, np.int64(SET_CELL))


@called
def size_of_set(cells: Array, found: int) -> int:
    """How many members a set has; UNBOUND is no set yet."""
    size = np.int64(0)
    at = np.int64(found)
    while at >= 0:
        at = cells[at, CELL_TAIL]
        size += 1
    return size


@called
def with_different(cells: Array, slots: Array, regs: Array, found: int, value: int, enough: int) -> int:
    """The set with one more value, NULL being none. All sets of `enough` values are one, and take no more."""
    if value == NULL or size_of_set(cells, found) >= enough:
        return found
    member = cell_of(cells, slots, regs, value, np.int64(NO_CELL), np.int64(MEMBER_CELL))
    if member < 0:
        return member
    result = with_member(cells, slots, regs, found, member)
    if result < 0 or size_of_set(cells, result) < enough:
        return result
    member = cell_of(cells, slots, regs, np.int64(0), np.int64(NO_CELL), np.int64(MEMBER_CELL))
    result = np.int64(NO_CELL)
    for _ in range(enough):
        if member < 0 or result == NO_ROOM:
            return np.int64(NO_ROOM)
        result = cell_of(cells, slots, regs, member, result, np.int64(SET_CELL))
    return result


@kernel
def keep_cells(cells: Array, slots: Array, regs: Array, marked: Array) -> None:
    """Keep the cells that are marked and all that they have; `marked` then tells where each went."""
    used = regs[CELLS_USED]
    for c in range(used - 1, -1, -1):
        if marked[c]:
            if cells[c, CELL_TAIL] >= 0:
                marked[cells[c, CELL_TAIL]] = 1
            if cells[c, CELL_KIND] == SET_CELL:
                marked[cells[c, CELL_HEAD]] = 1
    for at in range(len(slots)):
        slots[at] = 0
    top = np.int64(0)
    for c in range(used):
        if not marked[c]:
            continue
        head, tail, kind = cells[c, CELL_HEAD], cells[c, CELL_TAIL], cells[c, CELL_KIND]
        if tail >= 0:
            tail = marked[tail]
        if kind == SET_CELL:
            head = marked[head]
        cells[top, CELL_HEAD], cells[top, CELL_TAIL], cells[top, CELL_KIND] = head, tail, kind
        h = _hash(head, tail, kind)
        mask = len(slots) - 1
        at = (h >> 32) & mask
        while slots[at] != 0:
            at = (at + 1) & mask
        slots[at] = ((h >> 32) << 32) | np.int64(top + 1)
        marked[c] = top
        top += 1
    regs[CELLS_USED] = top
