"""MAX on the graph: a step that another product fits into is given up.

If there are steps from n to r, from r to q and from n to q, every match that goes from n to q without r is part of one
that goes by r. And if two products have the same event, one of them a start and the other with events before it, every
match that starts here is part of one that goes on. What is left are few matches that are part of others, if any; they
are compared afterwards.
"""

from __future__ import annotations

import numpy as np

from ceql.engine.groups.chosen.before import GIVEN_UP, Ways, add_before, numbered
from ceql.engine.groups.graph import KIND, A, B
from ceql.engine.groups.layout import Carrier
from ceql.jit import Array, allocating

WORD = 64  # bits


@allocating
def ways_of_max(
    carrier: Carrier | None,
    nodes: Array,
    used: int,
    roots: Array,
    shown: Array,
    marks: Array,
    bound: int,
    exact: bool,
    block: int,
    most: int,
) -> Ways:
    """The ways that are left of the matches that end here: all that MAX keeps. Nothing at all, not even a number for
    the complete runs, if it takes more than `most` words to tell."""
    products = np.empty(used, np.int64)
    first, end = np.empty(used, np.int64), np.empty(used, np.int64)
    to, stack = np.empty(64, np.int64), np.empty(64, np.int64)
    count = steps = 0
    for n in roots:
        count += 1
        products[count - 1] = n
        marks[n] = count
    at = 0
    while at < count:
        n = products[at]
        at += 1
        first[n] = steps
        if nodes[n, B] >= 0:
            to, steps, stack = add_before(carrier, nodes, nodes[n, B], bound, block, to, steps, stack)
        end[n] = steps
        for s in range(first[n], steps):
            q = to[s]
            if marks[q] == 0:
                products[count] = q
                count += 1
                marks[q] = count
        if steps > most:
            break
    products = products[:count]
    words = (count + WORD - 1) // WORD
    if steps > most or words * count > most:
        for n in products:
            marks[n] = 0
        return Ways(products[:0], first[:0], to[:0])
    leads = np.zeros((count, words), np.int64)  # of each product, the others to which it has steps
    goes_on = np.zeros(count, np.bool_)  # whether a shown event comes before it
    for k in range(count):
        for s in range(first[products[k]], end[products[k]]):
            m = marks[to[s]] - 1
            leads[k, m // WORD] |= np.int64(1) << (m % WORD)
            goes_on[k] |= shown[nodes[to[s], KIND]] != 0
    place = _places(nodes, products)
    stays = np.full((place.max() + 2 if count else 1, 2), -1, np.int64)
    around = np.zeros(words, np.int64)
    for k in range(count):
        low, high = first[products[k]], end[products[k]]
        around[:] = 0
        for s in range(low, high):
            if shown[nodes[to[s], KIND]] != 0:
                r = marks[to[s]] - 1
                for w in range(words):
                    around[w] |= leads[r, w]
        for s in range(low, high):
            m = marks[to[s]] - 1
            if around[m // WORD] >> (m % WORD) & 1:
                to[s] = GIVEN_UP
        if not exact:
            _give_up_starts(nodes, shown, marks, goes_on, place, stays, to[low:high], k)
    complete = roots.copy()
    if not exact:
        _give_up_starts(nodes, shown, marks, goes_on, place, stays, complete, count)
    for k in range(count):
        marks[products[k]] = 0
    return numbered(products, first, end, to, complete[complete != GIVEN_UP], marks)


@allocating
def _places(nodes: Array, products: Array) -> Array:
    """Of each product a number, the same for those that have the same event."""
    place = np.empty(len(products), np.int64)
    last, position = -1, np.int64(-1)
    for k in np.argsort(products):  # nodes are in order of their events
        if nodes[products[k], A] != position:
            position = nodes[products[k], A]
            last += 1
        place[k] = last
    return place


@allocating
def _give_up_starts(
    nodes: Array, shown: Array, marks: Array, goes_on: Array, place: Array, stays: Array, to: Array, turn: int
) -> None:
    """Give up steps to starts at whose events other runs go on. `stays` has, of each event, the last turn in which a
    run did, and one whose event is shown."""
    for s in range(len(to)):
        if to[s] != GIVEN_UP and goes_on[marks[to[s]] - 1]:
            k = marks[to[s]] - 1
            stays[place[k], 0] = turn
            if shown[nodes[to[s], KIND]] != 0:
                stays[place[k], 1] = turn
    for s in range(len(to)):
        if to[s] != GIVEN_UP and nodes[to[s], B] < 0:
            needs = 1 if shown[nodes[to[s], KIND]] != 0 else 0  # one that shows the event too, if the start does
            if stays[place[marks[to[s]] - 1], needs] == turn:
                to[s] = GIVEN_UP
