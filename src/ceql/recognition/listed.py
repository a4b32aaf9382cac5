"""Decides conditions on lists of events that partial matches carry (`engine.groups.told`).

In: lists, as cells. Out: which of them satisfy a condition. A member of a list is the mark of its event, then the
numbers of the values that are listed of it; values are calculated with as they were read, many lists at a time.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ceql.analysis.cutting import Condition
from ceql.automata.correlated import Correlated
from ceql.engine.groups.layout import CELL_HEAD, CELL_TAIL, NULL
from ceql.jit import Array
from ceql.predicates.operands import Operands
from ceql.predicates.values import ValueNumbers
from ceql.recognition.checks import Checks, Look


def satisfied(
    checks: Checks, operands: Operands, values: ValueNumbers, number: int, cells: Array, lists: Array
) -> Array:
    """Tells which of these lists (-1: the empty one) satisfy the condition of this number."""
    auto = operands.auto
    assert auto.carrying is not None
    claim = auto.carrying.listed[number]
    asked = next(condition for condition in auto.carrying.conditions if condition.claim is claim)
    assert asked.listed is not None
    owner, members = _members(cells, lists)
    marks, words = _words(cells, members, len(asked.listed))
    marks = np.clip(marks, 0, len(auto.marks) - 1)  # which a snapshot may have made up
    bare = _bare_mark(auto, asked)
    none = np.setdiff1d(np.arange(len(lists)), owner)
    if bare is not None and len(none):  # a part is there, though of none of its events anything is asked
        owner, marks = np.concatenate([owner, none]), np.concatenate([marks, np.full(len(none), bare)])
        words = np.concatenate([words, np.full((len(none), words.shape[1]), NULL)])
        order = np.argsort(owner, kind="stable")
        owner, marks, words = owner[order], marks[order], words[order]
    offsets = np.searchsorted(owner, np.arange(len(lists) + 1))
    columns = {
        what.name: operands.values_of(what, np.ascontiguousarray(words[:, k]), values)
        for k, what in enumerate(asked.listed)
    }
    rows = pa.record_batch(columns or {"": pa.nulls(len(marks))})
    return Look(checks, marks, offsets, np.arange(len(marks)), rows).satisfied(claim)


def _members(cells: Array, lists: Array) -> tuple[Array, Array]:
    """The members of lists in order, and which list each is of; cells have the last ones first."""
    owners, members = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    owner, at = np.arange(len(lists)), lists
    while len(owner):
        there = at >= 0
        owner, at = owner[there], at[there]
        owners.append(owner)
        members.append(cells[at, CELL_HEAD])
        at = cells[at, CELL_TAIL]
    owner = np.concatenate(owners[::-1])
    order = np.argsort(owner, kind="stable")
    return owner[order], np.concatenate(members[::-1])[order]


def _words(cells: Array, members: Array, width: int) -> tuple[Array, Array]:
    """The mark of each member, and its words; NULL where it has none."""
    words: Array = np.full((len(members), width), NULL)
    at = cells[members, CELL_TAIL]
    for k in range(width):
        more = at >= 0
        words[more, k] = cells[at[more], CELL_HEAD]
        at = np.where(more, cells[at, CELL_TAIL], at)
    return cells[members, CELL_HEAD], words


def _bare_mark(auto: Correlated, asked: Condition) -> int | None:
    """A mark of the filtered part at which nothing is listed of an event."""
    own, valued = auto.shape.below(asked.claim.node), asked.roles[1].leaves
    return next((k for k, m in enumerate(auto.marks) if m.leaves <= own and not m.leaves & valued), None)
