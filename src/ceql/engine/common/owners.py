"""Whose the nodes of a graph are, when a machine is divided."""

from __future__ import annotations

import numpy as np

from ceql.engine.common.graph import KIND, LISTED, ORDERED, OTHERS, UNION, A, B, C
from ceql.jit import Array, kernel

NOBODY = -1


def children_of(nodes: Array) -> Array:
    """A 1 where a node's column names a node below it, or none."""
    kinds = nodes[:, KIND]
    children: Array = np.zeros((len(nodes), 4), np.uint8)
    children[:, A] = (kinds < 0) & (kinds != ORDERED)
    children[:, B] = (kinds != OTHERS) & (kinds > ORDERED)
    children[:, C] = ((kinds < UNION) & (kinds > ORDERED)) | (kinds == LISTED)
    return children


@kernel
def spread_down(nodes: Array, columns: Array, owner: Array) -> None:
    """Give children to the owners of their parents. `columns` has a 1 where a node's column names a child."""
    for n in range(len(owner) - 1, -1, -1):
        if owner[n] < 0:
            continue
        for k in range(columns.shape[1]):
            child = nodes[n, k]
            if columns[n, k] and child >= 0:
                owner[child] = owner[n]


def places(owner: Array, shards: int) -> tuple[list[Array], Array]:
    """The rows of each owner, in their order; and of each row, its place among those of its owner."""
    own = [np.flatnonzero(owner == shard) for shard in range(shards)]
    place: Array = np.full(len(owner), -1, np.int64)
    for rows in own:
        place[rows] = np.arange(len(rows))
    return own, place


def renumber_children(nodes: Array, columns: Array, place: Array) -> None:
    """Let nodes name their children by places; `columns` as above."""
    for k in range(columns.shape[1]):
        rows = np.flatnonzero(columns[:, k])
        nodes[rows, k] = renumbered(nodes[rows, k], place)


def renumbered(numbers: Array, place: Array) -> Array:
    """These numbers of rows as places; those below zero, which are no rows, stay."""
    found = numbers.copy()
    found[numbers >= 0] = place[numbers[numbers >= 0]]
    return found


def power_of_two(least: int) -> int:
    """The least power of two that is not below this."""
    return 1 << max(0, least - 1).bit_length()
