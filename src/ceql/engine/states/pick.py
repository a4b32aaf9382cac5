"""The matches of earliest start, as a graph of their own: what NEXT and LAST keep of those that end at a position.

Under these strategies a run is given up only for rivals that start where it does or later, since these stay in the
window at least as long (`automata.subsets.Rivalled`). Of the runs that are left at a position, those of the earliest
start inside the window are the best. Each node knows the earliest start below it, which is looked for anew when the
window has left it: keys never decrease, so what has left never comes back. Then the part of the graph that leads to the
one start is copied. Readers read the copies, of as many positions as there is room for, as they read any graph.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ceql.engine.common.graph import BOTTOM, KIND, MAX, NODE_WORDS, A, B, C
from ceql.engine.common.layout import LIVE_FROM, NODES, NOTED, NOTED_NODES, PICKED, SUMMED, TO_PICK
from ceql.engine.common.roots import (
    AT_BOUND,
    AT_END,
    AT_FIRST,
    AT_NODES,
    POSITION_COLUMNS,
    Roots,
    make_roots,
)
from ceql.engine.states.layout import BOOKED
from ceql.jit import Array, Word, inlined, kernel, record

# Rows of the book: by node, the bottom of earliest start below it, and the place of its copy (-1: none); then the
# search's stack, and the nodes that have a copy.
FIRST, PLACE, STACK, COPIED = range(4)
BOOK = 4


@record
class Picked(NamedTuple):
    """The copies, and what finds them."""

    nodes: Array  # int64[capacity, NODE_WORDS]
    times: Array  # int64[capacity], or length 0
    book: Array  # int64[BOOK, capacity + 1]
    roots: Roots


def make_picked(capacity: int, timed: bool, roots: int) -> Picked:
    """Room for a graph of so many nodes, and for as many roots as are noted at once."""
    return Picked(
        np.zeros((capacity, NODE_WORDS), np.int64),
        np.zeros(capacity if timed else 0, np.int64),
        np.zeros((BOOK, capacity + 1), np.int64),
        make_roots(roots),
    )


@kernel
def pick(nodes: Array, times: Array, regs: Array, noted: Roots, picked: Picked) -> None:
    """Go on with the positions that are noted: note the copies of their matches of earliest start in `picked`.

    There is room for those of one position, at least: a copy has no more nodes than the graph.
    """
    book, roots = picked.book, picked.roots
    _enter(nodes, regs, book)
    used, end = 0, 0
    regs[NOTED] = regs[SUMMED] = regs[LIVE_FROM] = 0
    while regs[PICKED] < regs[TO_PICK]:
        where, to = noted.at[regs[PICKED]], roots.at[regs[NOTED]]
        begun, begin = used, end
        best = np.int64(regs[NODES])
        for k in range(where[AT_FIRST], where[AT_END]):
            best = min(best, np.int64(_earliest(nodes, book, noted.node[k], where[AT_BOUND])))
        copied = 0
        for k in range(where[AT_FIRST], where[AT_END]):
            root = noted.node[k]
            if used >= 0 and book[FIRST, root] == best:
                used, copied = _copy(nodes, times, picked, root, best, used, copied)
                roots.node[end] = book[PLACE, root]
                end += 1
        for k in range(copied):
            book[PLACE, book[COPIED, k]] = -1
        if used < 0:
            used, end = begun, begin
            break
        for column in range(POSITION_COLUMNS):
            to[column] = where[column]
        to[AT_FIRST], to[AT_END], to[AT_NODES] = begin, end, used
        regs[NOTED] += 1
        regs[PICKED] += 1
    regs[NOTED_NODES] = end


@inlined
def _enter(nodes: Array, regs: Array, book: Array) -> None:
    """Enter the nodes that are new into the book."""
    for n in range(regs[BOOKED], regs[NODES]):
        kind = nodes[n, KIND]
        first = np.int64(n)
        if kind != BOTTOM:
            first = book[FIRST, nodes[n, B]]
            if kind < 0:
                first = min(first, book[FIRST, nodes[n, A]])
        book[FIRST, n] = first
        book[PLACE, n] = -1
    regs[BOOKED] = regs[NODES]


@inlined
def _earliest(nodes: Array, book: Array, root: int, bound: int) -> int:
    """The bottom of earliest start below a node that is inside the window."""
    height = 1
    book[STACK, 0] = root
    while height > 0:
        n = book[STACK, height - 1]
        if nodes[book[FIRST, n], MAX] >= bound:
            height -= 1
            continue
        child = nodes[n, B]
        inside = nodes[child, MAX] >= bound
        if inside and nodes[book[FIRST, child], MAX] < bound:
            book[STACK, height] = child
            height += 1
            continue
        first = book[FIRST, child] if inside else np.int64(nodes.shape[0])
        if nodes[n, KIND] < 0:
            left = nodes[n, A]
            if nodes[book[FIRST, left], MAX] < bound:
                book[STACK, height] = left
                height += 1
                continue
            first = min(first, book[FIRST, left])
        book[FIRST, n] = first
        height -= 1
    return int(book[FIRST, root])


@inlined
def _copy(nodes: Array, times: Array, picked: Picked, root: int, best: Word, used: int, copied: int) -> tuple[int, int]:
    """Copy what leads from a root to the bottom `best`; how many nodes the copies have (-1: there is no room), and how
    many of the graph's have one.

    Where the earliest start below a node is inside the window, that of its children is known: a child that leads to
    `best` says so in the book.
    """
    book, copy = picked.book, picked.nodes
    height = 1
    book[STACK, 0] = root
    while height > 0:
        n = book[STACK, height - 1]
        if book[PLACE, n] >= 0:
            height -= 1
            continue
        kind = nodes[n, KIND]
        place = used
        if kind != BOTTOM:
            child, other = nodes[n, B], np.int64(-1)
            if kind < 0:
                other = nodes[n, A]
                if book[FIRST, child] != best:
                    child, other = other, np.int64(-1)
                elif book[FIRST, other] != best:
                    other = np.int64(-1)
            if book[PLACE, child] < 0:
                book[STACK, height] = child
                height += 1
                continue
            if other >= 0 and book[PLACE, other] < 0:
                book[STACK, height] = other
                height += 1
                continue
            if kind < 0 and other < 0:
                place = book[PLACE, child]
        if place == used:
            if used == len(copy):
                return -1, copied
            copy[used, MAX] = nodes[best, MAX]
            copy[used, C] = nodes[n, C]
            copy[used, KIND] = kind
            copy[used, A] = nodes[n, A]
            copy[used, B] = -1
            if kind != BOTTOM:
                copy[used, B] = book[PLACE, child]
                if kind < 0:
                    copy[used, A] = book[PLACE, other]
            elif len(times) > 0:
                picked.times[used] = times[n]
            used += 1
        book[PLACE, n] = place
        book[COPIED, copied] = n
        copied += 1
        height -= 1
    return used, copied
