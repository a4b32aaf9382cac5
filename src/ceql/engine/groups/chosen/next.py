"""NEXT on the graph: the greatest set of positions of every node, children before parents.

Sets are compared from the first event on: at the first difference the earlier event wins, and a set that goes on wins
over one that has ended. An event that comes after two sets leaves their order as it is. So the greatest set of a
product is that of what is before it, with its own event, and the greatest one of a union is one of its parts'.

Sets are nodes of a tree, in which the parent has all events but the last. All sets so far are also in a list, from the
least to the greatest. As events come in order, a new set comes right behind its parent: its event is later than those
of all sets that have the same parent. Sets in the list have labels in the same order, so that two are compared at once.
"""

from __future__ import annotations

import numpy as np

from ceql.engine.common.graph import KIND, MAX, ORDERED, UNION, A, B, C
from ceql.engine.common.layout import NO_KEY
from ceql.engine.groups.chosen.before import Ways, add_steps, numbered
from ceql.engine.groups.layout import Carrier
from ceql.engine.groups.ordered import next_in_order
from ceql.jit import Array, allocating

PARENT, EVENT, LABEL, FOLLOWING, NEWEST = range(5)  # columns of a set; the newest of those that have it as parent
NO_SET, EMPTY = 0, 1
_FAR = 1 << 62  # labels are less


@allocating
def _with_event(sets: Array, parent: int, event: int, count: int) -> tuple[int, int]:
    """The set with an event more than its parent, and how many sets there are."""
    newest = sets[parent, NEWEST]
    if newest != NO_SET and sets[newest, EVENT] == event:
        return newest, count
    after = sets[parent, FOLLOWING]
    label = sets[parent, LABEL]
    above = sets[after, LABEL] if after != NO_SET else _FAR
    if above - label < 2:  # no label is free between the two
        apart = _FAR // (count + 1)
        k, label = EMPTY, np.int64(0)
        while k != NO_SET:
            sets[k, LABEL] = label
            label += apart
            k = sets[k, FOLLOWING]
        label = sets[parent, LABEL]
        above = sets[after, LABEL] if after != NO_SET else _FAR
    sets[count, PARENT] = parent
    sets[count, EVENT] = event
    sets[count, LABEL] = label + (above - label) // 2
    sets[count, FOLLOWING] = after
    sets[count, NEWEST] = NO_SET
    sets[parent, FOLLOWING] = count
    sets[parent, NEWEST] = count
    return count, count + 1


@allocating
def _greater(sets: Array, one: int, other: int) -> int:
    """The greater one of two sets; NO_SET is less than all."""
    return one if sets[one, LABEL] >= sets[other, LABEL] else other


@allocating
def ways_of_next(
    carrier: Carrier,
    nodes: Array,
    used: int,
    live: Array,
    roots: Array,
    shown: Array,
    marks: Array,
    bound: int,
    exact: bool,
    block: int,
) -> Ways:
    """The ways of the matches that NEXT keeps; `live` are the nodes that the roots reach, in order of their numbers."""
    best = np.empty(used, np.int64)  # the greatest set of each node
    products = 0
    for n in live:
        marks[n] = 1
        best[n] = NO_SET
        products += nodes[n, KIND] >= 0
    sets = np.zeros((products + 2, 5), np.int64)
    sets[NO_SET, LABEL] = -1
    count = 2
    for n in live:
        kind = nodes[n, KIND]
        found = np.int64(NO_SET)
        if kind >= 0:
            child = nodes[n, B]
            if child >= 0:
                found = best[child]
            elif not exact or (nodes[n, C] != NO_KEY and nodes[n, C] >= bound):
                found = np.int64(EMPTY)
            if found != NO_SET and shown[kind] != 0:
                found, count = _with_event(sets, found, nodes[n, A], count)
        elif kind == ORDERED:
            child, cursor = next_in_order(carrier, nodes, n, np.int64(0), bound, block)
            while child >= 0:
                if marks[child] != 0:
                    found = _greater(sets, found, best[child])
                child, cursor = next_in_order(carrier, nodes, n, cursor, bound, block)
        elif UNION > kind > ORDERED:
            for side in range(A, C + 1):
                child = nodes[n, side]
                if child >= 0 and marks[child] != 0 and nodes[child, MAX] >= bound:
                    found = _greater(sets, found, best[child])
        best[n] = found
    greatest = np.int64(NO_SET)
    for n in roots:
        greatest = _greater(sets, greatest, best[n])
    first, end = np.empty(used, np.int64), np.empty(used, np.int64)
    kept, complete = np.empty(products, np.int64), np.empty(len(roots), np.int64)
    to, stack = np.empty(64, np.int64), np.empty(64, np.int64)
    top = ends = steps = 0
    for n in roots:
        if greatest != NO_SET and best[n] == greatest:
            complete[ends] = kept[top] = n
            marks[n] = 2
            ends += 1
            top += 1
    at = 0
    while at < top:
        n = kept[at]
        at += 1
        wanted = sets[best[n], PARENT] if shown[nodes[n, KIND]] != 0 else best[n]
        to, steps, stack = add_steps(carrier, nodes, n, bound, block, first, end, to, steps, stack)
        end[n] = first[n]
        for s in range(first[n], steps):
            q = to[s]
            if marks[q] != 0 and best[q] == wanted:
                to[end[n]] = q
                end[n] += 1
                if marks[q] == 1:
                    marks[q] = 2
                    kept[top] = q
                    top += 1
        steps = end[n]
    for n in live:
        marks[n] = 0
    return numbered(kept[:top], first, end, to, complete[:ends], marks)
