"""Unions as pcea-hcq-2024, section 5, has them: persistent heaps. `common.graph` has the nodes.

Where the paper keeps its heap balanced with direction bits, this one is leftist: the rank, the length of the way to the
right, is logarithmic, and only that way is copied.

Runs that a step looks up with a disequality are in a list instead, newest first (chain-cea-icdt2020, section 6): `skip`
leads to the latest one before with another value, so that all runs but those of one value are found without delay.
Each has, in `extra`, its value; and for itself and all before it the value with the greatest max-start and the greatest
max-start of the other values, so that it is known whether the window still has any. `others` is a list without a
value. (With a window, runs in between that it has left are passed over one by one.)

Where a step unites groups, a union has in place of a product what a group has: a union again. `ordered` is what a step
finds in order: of the first `rows` rows of a bucket those that are no harder to satisfy than a value. `between` is each
of these runs with any one event after it, of those in the first `rows` rows of another bucket.
"""

from __future__ import annotations

import numpy as np

from ceql.engine.common.graph import BEST, KIND, LISTED, MAX, NO_START, NONE, SECOND, UNION, VALUE, A, B, C
from ceql.engine.common.layout import NODES
from ceql.jit import Array, inlined

WAY = 64  # ranks are logarithms: no way to the right is longer


@inlined
def new_node(nodes: Array, regs: Array, most: int, a: int, b: int, c: int, kind: int) -> int:
    n = regs[NODES]
    nodes[n, MAX] = most
    nodes[n, A] = a
    nodes[n, B] = b
    nodes[n, C] = c
    nodes[n, KIND] = kind
    regs[NODES] = n + 1
    return n


@inlined
def rank(nodes: Array, n: int) -> int:
    if n < 0:
        return 0
    kind = nodes[n, KIND]
    return 1 if kind >= 0 else UNION - kind


@inlined
def union(nodes: Array, regs: Array, heap: int, product: int, dead: int, way: Array) -> int:
    """The union of a heap (-1: none) with a product, or with a union that stands for one.

    Both stay what they are. What is before `dead` is left out.
    """
    if heap < 0 or nodes[heap, MAX] < dead:
        return product
    most = nodes[product, MAX]
    if most >= nodes[heap, MAX]:
        return new_node(nodes, regs, most, product, heap, NONE, np.int64(UNION - 1))
    depth = 0
    n = heap
    while n >= 0 and nodes[n, MAX] > most:
        way[depth] = n
        depth += 1
        n = nodes[n, C] if nodes[n, KIND] < 0 else -1
    result = product
    if n >= 0 and nodes[n, MAX] >= dead:
        result = new_node(nodes, regs, most, product, n, NONE, np.int64(UNION - 1))
    while depth > 0:
        depth -= 1
        n = way[depth]
        own, left = n, np.int64(-1)
        if nodes[n, KIND] < 0:
            own, left = nodes[n, A], nodes[n, B]
            if left >= 0 and nodes[left, MAX] < dead:
                left = np.int64(-1)
        right = result
        if rank(nodes, left) < rank(nodes, right):
            left, right = right, left
        result = new_node(nodes, regs, nodes[n, MAX], own, left, right, UNION - 1 - rank(nodes, right))
    return result


@inlined
def listed(nodes: Array, extra: Array, regs: Array, before: int, product: int, value: int) -> int:
    """The list `before` (-1: none) with a product more; the list stays what it is."""
    most = nodes[product, MAX]
    skip = np.int64(-1)
    best, first, second = value, most, NO_START
    if before >= 0:
        skip = before if extra[before, VALUE] != value else nodes[before, C]
        best, first, second = extra[before, BEST], nodes[before, MAX], extra[before, SECOND]
        if best == value:
            first = max(first, most)
        elif most >= first:
            best, first, second = value, most, first
        else:
            second = max(second, most)
    n = new_node(nodes, regs, first, product, before, skip, np.int64(LISTED))
    extra[n, VALUE] = value
    extra[n, BEST] = best
    extra[n, SECOND] = second
    return n


@inlined
def most_unlike(nodes: Array, extra: Array, n: int, value: int) -> int:
    """The greatest max-start in a list, runs of a value left out."""
    return nodes[n, MAX] if extra[n, BEST] != value else extra[n, SECOND]
