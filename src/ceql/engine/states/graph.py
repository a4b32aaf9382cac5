"""The timed enumerable compact set in flat arrays (core-vldb2022, 4.1 and 4.2).

A node is a row of `nodes`: int64[capacity, 4]. Children always have smaller indices than their parents, so
that a pass in index order is a topological order; `collect.py` keeps it so.

| kind   | MAX        | A             | B             | KIND            |
|--------|------------|---------------|---------------|-----------------|
| bottom | start key  | position      | exact key     | BOTTOM          |
| output | max-start  | position      | next          | label id (>= 0) |
| union  | max-start  | left          | right         | UNION           |

Starts are compared by *key*, whatever the window counts: the position, the index in the substream, the time, an
attribute. Keys never decrease along a stream, which is all that the paper's invariants need. For an attribute
that does decrease, the key is its running maximum, and the bottom also has the exact value.

`regs[NODES]` is the number of nodes in use. The caller makes sure of room beforehand.
"""

from __future__ import annotations

from ceql.engine.common.layout import NODES
from ceql.engine.states.layout import LENGTH, Active
from ceql.jit import Array, inlined

MAX, A, B, KIND = 0, 1, 2, 3
BOTTOM, UNION = -1, -2


@inlined
def new_bottom(nodes: Array, regs: Array, key: int, position: int, exact: int) -> int:
    n = regs[NODES]
    nodes[n, MAX] = key
    nodes[n, A] = position
    nodes[n, B] = exact
    nodes[n, KIND] = BOTTOM
    regs[NODES] = n + 1
    return n


@inlined
def extend(nodes: Array, regs: Array, child: int, position: int, label: int) -> int:
    n = regs[NODES]
    nodes[n, MAX] = nodes[child, MAX]
    nodes[n, A] = position
    nodes[n, B] = child
    nodes[n, KIND] = label
    regs[NODES] = n + 1
    return n


@inlined
def _union_node(nodes: Array, regs: Array, left: int, right: int) -> int:
    n = regs[NODES]
    nodes[n, MAX] = nodes[left, MAX]
    nodes[n, A] = left
    nodes[n, B] = right
    nodes[n, KIND] = UNION
    regs[NODES] = n + 1
    return n


@inlined
def union(nodes: Array, regs: Array, first: int, second: int) -> int:
    """The union of two safe nodes of equal max-start: the gadgets of Figure 5 (a) to (d)."""
    if nodes[first, KIND] != UNION:
        return _union_node(nodes, regs, first, second)
    if nodes[second, KIND] != UNION:
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
