"""The products right before a product, and the steps to them that a strategy leaves."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ceql.engine.common.graph import KIND, MAX, ORDERED, UNION, A, B, C
from ceql.engine.groups.layout import Carrier
from ceql.engine.groups.ordered import next_in_order
from ceql.jit import Array, allocating

GIVEN_UP = -1  # in place of a step


class Ways(NamedTuple):
    """Steps between products, which are numbered: those from k lead to `to[first[k]:first[k + 1]]`. The last number is
    that of no product; its steps lead to the complete runs."""

    node: Array  # int64, of each number
    first: Array  # int64
    to: Array  # int64: numbers


@allocating
def room_for_one(array: Array, count: int) -> Array:
    """The array with its first entries, and room for one more."""
    if count < len(array):
        return array
    result = np.empty(2 * len(array), np.int64)
    for k in range(count):
        result[k] = array[k]
    return result


@allocating
def add_before(
    carrier: Carrier, nodes: Array, n: int, bound: int, block: int, to: Array, steps: int, stack: Array
) -> tuple[Array, int, Array]:
    """Add the live products of a node that stands before a product: a product, a union, or what is found in order. The
    steps, how many they are, and a stack; both arrays may have grown."""
    stack[0] = n
    height = 1
    while height > 0:
        height -= 1
        n = stack[height]
        if nodes[n, KIND] >= 0:
            to = room_for_one(to, steps)
            to[steps] = n
            steps += 1
        elif nodes[n, KIND] == ORDERED:
            child, cursor = next_in_order(carrier, nodes, n, np.int64(0), bound, block)
            while child >= 0:
                if nodes[child, KIND] >= 0:
                    to = room_for_one(to, steps)
                    to[steps] = child
                    steps += 1
                else:  # several runs that ended with one event
                    stack = room_for_one(stack, height)
                    stack[height] = child
                    height += 1
                child, cursor = next_in_order(carrier, nodes, n, cursor, bound, block)
        elif UNION > nodes[n, KIND] > ORDERED:
            for side in range(A, C + 1):
                child = nodes[n, side]
                if child >= 0 and nodes[child, MAX] >= bound:
                    stack = room_for_one(stack, height)
                    stack[height] = child
                    height += 1
    return to, steps, stack


@allocating
def add_steps(
    carrier: Carrier,
    nodes: Array,
    n: int,
    bound: int,
    block: int,
    first: Array,
    end: Array,
    to: Array,
    steps: int,
    stack: Array,
) -> tuple[Array, int, Array]:
    """Add the steps of product n, and note where they begin and end."""
    first[n] = steps
    if nodes[n, B] >= 0:
        to, steps, stack = add_before(carrier, nodes, nodes[n, B], bound, block, to, steps, stack)
    end[n] = steps
    return to, steps, stack


@allocating
def numbered(products: Array, first: Array, end: Array, to: Array, roots: Array, marks: Array) -> Ways:
    """The steps that are left, between numbers. `first` and `end` say, for each of the products, where its steps are;
    `marks` are zero before and after."""
    count = len(products)
    steps = len(roots)
    for k in range(count):
        marks[products[k]] = k + 1
        for s in range(first[products[k]], end[products[k]]):
            steps += to[s] != GIVEN_UP
    starts = np.empty(count + 2, np.int64)
    leads = np.empty(steps, np.int64)
    top = 0
    for k in range(count):
        starts[k] = top
        for s in range(first[products[k]], end[products[k]]):
            if to[s] != GIVEN_UP:
                leads[top] = marks[to[s]] - 1
                top += 1
    starts[count] = top
    for k in range(len(roots)):
        leads[top] = marks[roots[k]] - 1
        top += 1
    starts[count + 1] = top
    for k in range(count):
        marks[products[k]] = 0
    return Ways(products, starts, leads)
