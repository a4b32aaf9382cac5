"""The data structure of pcea-hcq-2024, section 5: products, and unions that are persistent heaps.

A node is a row of `nodes`: int64[capacity, 5]. Children have smaller indices than their parents.

| kind    | MAX       | A        | B               | C         | KIND           |
|---------|-----------|----------|-----------------|-----------|----------------|
| product | max-start | position | factors, or -1  | exact key | mark (>= 0)    |
| factor  | max-start | a union  | further factors | -         | FACTOR         |
| union   | max-start | product  | left, or -1     | right, -1 | UNION - rank   |

A product has an event and one match of each factor; with a single factor, `B` is the union itself. A union is a
product together with two further unions, none of which has a greater max-start; a product can stand for the union
that has it alone. Where the paper keeps its heap balanced with direction bits, this one is leftist: the rank, the
length of the way to the right, is logarithmic, and only that way is copied.
"""

from __future__ import annotations

import numpy as np

from ceql.engine.jit import inlined
from ceql.engine.join.layout import NODES, Array

MAX, A, B, C, KIND = range(5)
FACTOR, UNION = -1, -2
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
    """The union of a heap (-1: none) with a product; both stay what they are. What is before `dead` is left out."""
    if heap < 0 or nodes[heap, MAX] < dead:
        return product
    most = nodes[product, MAX]
    if most >= nodes[heap, MAX]:
        return new_node(nodes, regs, most, product, heap, -1, UNION - 1)
    depth = 0
    n = heap
    while n >= 0 and nodes[n, MAX] > most:
        way[depth] = n
        depth += 1
        n = nodes[n, C] if nodes[n, KIND] < 0 else -1
    result = product
    if n >= 0 and nodes[n, MAX] >= dead:
        result = new_node(nodes, regs, most, product, n, -1, UNION - 1)
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
