"""The matches of earliest start, as a graph of their own: what NEXT and LAST keep of those that end at a position.

Under these strategies a run is given up only for rivals that start where it does or later, since these stay in the
window at least as long (`automata.subsets.Rivalled`). Of the runs that are left at a position, those of the earliest
start inside the window are the best. Each node knows the earliest start below it, which is looked for anew when the
window has left it: keys never decrease, so what has left never comes back. Then the part of the graph that leads to the
one start is copied, and enumeration and counting work on the copy as on any graph.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ceql.engine.common.graph import BOTTOM, KIND, MAX, PAIR, A, B, C
from ceql.engine.common.layout import NODES, ROOTS, SUMMED
from ceql.jit import Array, inlined, kernel

# Rows of the book: by node, the bottom of earliest start below it, and the place of its copy (-1: none); then the
# search's stack, the nodes that have a copy, and the roots of the copy.
FIRST, PLACE, STACK, COPIED, ROOT = range(5)


class Picked(NamedTuple):
    """The copy, and what finds it."""

    nodes: Array  # int64[capacity, 4]
    times: Array  # int64[capacity], or length 0
    book: Array  # int64[5, capacity + 1]


def make_picked(capacity: int, timed: bool) -> Picked:
    """Room for a graph of so many nodes."""
    return Picked(
        np.zeros((capacity, 5), np.int64),
        np.zeros(capacity if timed else 0, np.int64),
        np.zeros((5, capacity + 1), np.int64),
    )


@inlined
def pick(nodes: Array, times: Array, regs: Array, roots: Array, picked: Picked, bound: int) -> int:
    """Copy the matches of earliest start below the roots; how many roots the copy has.

    `regs[SUMMED]` nodes have been entered in the book.
    """
    book = picked.book
    for n in range(regs[SUMMED], regs[NODES]):
        kind = nodes[n, KIND]
        first = np.int64(n)
        if kind != BOTTOM:
            first = book[FIRST, nodes[n, B]]
            if kind < 0:
                first = min(first, book[FIRST, nodes[n, A]])
        book[FIRST, n] = first
        book[PLACE, n] = -1
    regs[SUMMED] = regs[NODES]
    best = regs[NODES]
    for k in range(regs[ROOTS]):
        if nodes[roots[k], MAX] >= bound:
            best = min(best, _earliest(nodes, book, roots[k], bound))
    found = 0
    used, copied = 0, 0
    for k in range(regs[ROOTS]):
        root = roots[k]
        if nodes[root, MAX] >= bound and book[FIRST, root] == best:
            used, copied = _copy(nodes, times, picked, root, best, used, copied)
            book[ROOT, found] = book[PLACE, root]
            found += 1
    for k in range(copied):
        book[PLACE, book[COPIED, k]] = -1
    return found


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
        if nodes[n, KIND] == PAIR:
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
def _copy(nodes: Array, times: Array, picked: Picked, root: int, best: int, used: int, copied: int) -> tuple[int, int]:
    """Copy what leads from a root to the bottom `best`; how many nodes the copy has, and how many have one.

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
            if kind == PAIR:
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
            if kind == PAIR and other < 0:
                place = book[PLACE, child]
            else:
                copy[used, B] = book[PLACE, child]
                copy[used, A] = nodes[n, A] if kind >= 0 else book[PLACE, other]
                copy[used, C] = -1
        else:
            copy[used, A] = nodes[n, A]
            copy[used, B] = nodes[n, B]
            copy[used, C] = nodes[n, C]
            if len(times) > 0:
                picked.times[used] = times[n]
        if place == used:
            copy[used, MAX] = nodes[best, MAX]
            copy[used, KIND] = kind
            used += 1
        book[PLACE, n] = place
        book[COPIED, copied] = n
        copied += 1
        height -= 1
    return used, copied


@kernel
def pick_again(nodes: Array, times: Array, regs: Array, roots: Array, picked: Picked, bound: int) -> int:
    """The same, for those who work on the copy outside of the loop."""
    return pick(nodes, times, regs, roots, picked, bound)
