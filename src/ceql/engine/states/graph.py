"""The timed enumerable compact set in flat arrays (core-vldb2022, 4.1 and 4.2): union-lists over `common.graph`.

Output nodes are products with one factor. A union has two sides, the left one with the greater max-start.

`regs[NODES]` is the number of nodes in use. The caller makes sure of room beforehand.
"""

from __future__ import annotations

from ceql.engine.common.graph import BOTTOM, KIND, MAX, PAIR, A, B, C
from ceql.engine.common.layout import NODES
from ceql.engine.states.layout import LENGTH, Active, Start
from ceql.jit import Array, inlined


@inlined
def new_bottom(nodes: Array, times: Array, regs: Array, start: Start) -> int:
    n = regs[NODES]
    nodes[n, MAX] = start.key
    nodes[n, A] = start.position
    nodes[n, B] = -1
    nodes[n, C] = start.exact
    if len(times) > 0:
        times[n] = start.time
    nodes[n, KIND] = BOTTOM
    regs[NODES] = n + 1
    return n


@inlined
def extend(nodes: Array, regs: Array, child: int, position: int, label: int) -> int:
    n = regs[NODES]
    nodes[n, MAX] = nodes[child, MAX]
    nodes[n, A] = position
    nodes[n, B] = child
    nodes[n, C] = -1
    nodes[n, KIND] = label
    regs[NODES] = n + 1
    return n


@inlined
def _union_node(nodes: Array, regs: Array, left: int, right: int) -> int:
    n = regs[NODES]
    nodes[n, MAX] = nodes[left, MAX]
    nodes[n, A] = left
    nodes[n, B] = right
    nodes[n, C] = -1
    nodes[n, KIND] = PAIR
    regs[NODES] = n + 1
    return n


@inlined
def union(nodes: Array, regs: Array, first: int, second: int) -> int:
    """The union of two safe nodes of equal max-start: the gadgets of Figure 5 (a) to (d)."""
    if nodes[first, KIND] != PAIR:
        return _union_node(nodes, regs, first, second)
    if nodes[second, KIND] != PAIR:
        return _union_node(nodes, regs, second, first)
    right1 = nodes[first, B]
    right2 = nodes[second, B]
    if nodes[right1, MAX] >= nodes[right2, MAX]:
        u2 = _union_node(nodes, regs, right1, right2)
    else:
        u2 = _union_node(nodes, regs, right2, right1)
    u1 = _union_node(nodes, regs, nodes[second, A], u2)
    return _union_node(nodes, regs, nodes[first, A], u1)


@inlined
def insert(nodes: Array, regs: Array, active: Active, slot: int, node: int) -> None:
    """Insert a safe node, whose max-start is at most that of the head, into the union-list `slot`."""
    lists = active.lists
    length = active.table[LENGTH, slot]
    key = nodes[node, MAX]
    at = 1
    while at < length and nodes[lists[slot, at], MAX] > key:
        at += 1
    if at < length and nodes[lists[slot, at], MAX] == key:
        lists[slot, at] = union(nodes, regs, lists[slot, at], node)
        return
    for k in range(length, at, -1):
        lists[slot, k] = lists[slot, k - 1]
    lists[slot, at] = node
    active.table[LENGTH, slot] = length + 1


@inlined
def merge(nodes: Array, regs: Array, active: Active, slot: int) -> int:
    """One node for all that the union-list `slot` holds: Figure 5 (e)."""
    lists = active.lists
    at = active.table[LENGTH, slot] - 1
    node = lists[slot, at]
    while at > 0:
        at -= 1
        node = _union_node(nodes, regs, lists[slot, at], node)
    return node
