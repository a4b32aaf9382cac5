"""MAX on the graph: a step that another product fits into is given up.

If there are steps from n to r, from r to q and from n to q, every match that goes from n to q without r is part of one
that goes by r. And if two products have the same event, one of them a start and the other with events before it, every
match that starts here is part of one that goes on. What is left are few matches that are part of others, if any; they
are compared afterwards.

Before that, products with the same event and mark to which the same others have steps become one, with the steps of all
of them: an event that carries several groups on has made a product for each. The ways stay the same.
"""

from __future__ import annotations

import numpy as np

from ceql.engine.common.graph import KIND, A, B
from ceql.engine.groups.chosen.before import GIVEN_UP, Ways, add_steps, numbered
from ceql.engine.groups.layout import Carrier
from ceql.jit import Array, allocating

WORD = 64  # bits


@allocating
def ways_of_max(
    carrier: Carrier,
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
        to, steps, stack = add_steps(carrier, nodes, n, bound, block, first, end, to, steps, stack)
        for s in range(first[n], steps):
            q = to[s]
            if marks[q] == 0:
                products[count] = q
                count += 1
                marks[q] = count
        if steps > most:
            break
    products = products[:count]
    complete = roots.copy()
    if steps <= most and _some_alike(nodes, products):
        products, to, complete = _as_one(nodes, products, first, end, to, roots, marks)
        count = len(products)
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
    if not exact:
        _give_up_starts(nodes, shown, marks, goes_on, place, stays, complete, count)
    for k in range(count):
        marks[products[k]] = 0
    return numbered(products, first, end, to, complete[complete != GIVEN_UP], marks)


@allocating
def _look_alike(nodes: Array, m: int, n: int) -> bool:
    """Whether two products with the same event have the same mark, and both have something before them, or neither."""
    return nodes[m, KIND] == nodes[n, KIND] and (nodes[m, B] < 0) == (nodes[n, B] < 0)


@allocating
def _some_alike(nodes: Array, products: Array) -> bool:
    """Whether any two products may be one."""
    ordered = np.sort(products)  # nodes are in order of their events
    begin = 0
    for k in range(len(ordered)):
        if nodes[ordered[begin], A] != nodes[ordered[k], A]:
            begin = k
        for other in range(begin, k):
            if _look_alike(nodes, ordered[other], ordered[k]):
                return True
    return False


@allocating
def _as_one(
    nodes: Array, products: Array, first: Array, end: Array, to: Array, roots: Array, marks: Array
) -> tuple[Array, Array, Array]:
    """Of products that are alike one each, their steps, and those among them that are complete runs. `first` and `end`
    say where the steps of each are, before and after; `marks` has the number of each product, and then zero for those
    that are left out.

    From the last event on, products are alike if they have the same event and mark, and products that are alike have
    steps to them. So a way that leads to one of them leads, past products that are alike, to each.
    """
    count = len(products)
    begins = np.zeros(count + 2, np.int64)  # of each product, where the steps to it begin
    for k in range(count):
        for s in range(first[products[k]], end[products[k]]):
            begins[marks[to[s]] + 1] += 1
    for n in roots:
        begins[marks[n] + 1] += 1
    for k in range(count + 1):
        begins[k + 1] += begins[k]
    sources = np.empty(begins[count + 1], np.int64)
    fill = begins.copy()
    for n in roots:
        sources[fill[marks[n]]] = count
        fill[marks[n]] += 1
    for k in range(count):
        for s in range(first[products[k]], end[products[k]]):
            sources[fill[marks[to[s]]]] = k
            fill[marks[to[s]]] += 1
    like = np.empty(count + 1, np.int64)  # the number that those that are alike share
    like[count] = count
    one = np.empty(count, np.int64)  # a product of each
    low, high = np.empty(count, np.int64), np.empty(count, np.int64)  # where the numbers stand of what leads to it
    leading = np.empty(len(sources), np.int64)
    likes = here = top = 0  # so far; with the current event from `here` on
    for k in np.argsort(products)[::-1]:  # nodes are in order of their events
        n = products[k]
        if likes > 0 and nodes[one[likes - 1], A] != nodes[n, A]:
            here = likes
        found = np.unique(like[sources[begins[k + 1] : begins[k + 2]]])
        same = -1
        for other in range(here, likes):
            alike = _look_alike(nodes, one[other], n) and len(found) == high[other] - low[other]
            if alike and (found == leading[low[other] : high[other]]).all():
                same = other
                break
        if same < 0:
            same = likes
            one[likes], low[likes], high[likes] = n, top, top + len(found)
            leading[top : top + len(found)] = found
            top += len(found)
            likes += 1
        like[k] = same
    members = np.argsort(like[:count])
    stamp = np.full(likes, -1, np.int64)
    leads = np.empty(len(to), np.int64)
    ends = np.empty(likes, np.int64)
    steps = at = 0
    for c in range(likes):
        while at < count and like[members[at]] == c:
            n = products[members[at]]
            for s in range(first[n], end[n]):
                q = like[marks[to[s]] - 1]
                if stamp[q] != c:
                    stamp[q] = c
                    leads[steps] = one[q]
                    steps += 1
            at += 1
        ends[c] = steps
    complete = one[np.unique(like[marks[roots] - 1])]
    for n in products:
        marks[n] = 0
    for c in range(likes):
        first[one[c]], end[one[c]] = ends[c - 1] if c > 0 else 0, ends[c]
        marks[one[c]] = c + 1
    return one[:likes], leads[:steps], complete


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
