"""Whether the kernels of this loop can work on the arrays of a snapshot, whoever wrote it.

Every number that names a row is a row's; children come before their parents, and no list comes back to itself. What the
values mean is not looked at: a snapshot that was changed with care gives other matches, and does no other harm.
"""

from __future__ import annotations

import numpy as np

from ceql.engine.common.check import require, require_between, require_shape
from ceql.engine.groups.enumerate import MOST_FACTORS
from ceql.engine.groups.graph import FACTOR, KIND, LISTED, OTHERS, UNION, WAY, A, B, C
from ceql.engine.groups.layout import (
    CELL_HEAD,
    CELL_KIND,
    CELL_TAIL,
    INDEX,
    KEY,
    LINKS,
    MEMBER_CELL,
    NEXT_LINK,
    NODE,
    OWN_NODE,
    RUN_BEGIN,
    RUN_END,
    RUNS,
    SET_CELL,
    STAMP,
    SUBSTREAM,
    UNLINKED,
    UPTO,
)
from ceql.jit import Array


def check_graph(nodes: Array, marks: int) -> None:
    """The products, factors, unions and lists."""
    wrong = "its graph of partial matches is none"
    own = np.arange(len(nodes))
    kinds = nodes[:, KIND]
    products, factors, unions = kinds >= 0, kinds == FACTOR, (kinds < UNION) & (kinds > UNION - WAY)
    lists, others = kinds == LISTED, kinds == OTHERS
    require_between(kinds, UNION - WAY + 1, marks, wrong)
    require(bool((products | factors | unions | lists | others).all()), wrong)
    for column, rows, least in ((A, ~products, 0), (B, ~others, -1), (C, unions | lists, -1)):
        require_between(nodes[rows, column], least, own[rows], wrong)
    rank = np.where(products, 1, np.where(unions, UNION - kinds, 0))
    right = nodes[unions, C]
    require(bool((rank[unions] == 1 + np.where(right < 0, 0, rank[right])).all()), wrong)
    following = nodes[factors, B]
    for _ in range(MOST_FACTORS - 1):  # no product has more factors than a search has room for
        following = following[following >= 0]
        following = nodes[following[kinds[following] == FACTOR], B]
    require(not (following >= 0).any(), wrong)


def check_entries(
    entries: Array, nodes: int, partitions: int, indexes: int, carried: bool, listed_indexes: Array, links: int
) -> None:
    """The look-up table; with `carried`, groups are in lists, whose heads have indexes of their own."""
    wrong = "its table of partial matches is none"
    require_between(entries[:, INDEX], 0, 2 * indexes if carried else indexes, wrong)
    require_between(entries[:, SUBSTREAM], 0, partitions, wrong)
    heads = entries[:, INDEX] >= indexes
    require_between(entries[~heads, NODE], 0, nodes, wrong)
    if not carried:
        return
    count = len(entries)
    groups = ~heads & listed_indexes[entries[:, INDEX] % indexes]
    require_between(entries[groups, -2], UNLINKED, count, wrong)
    require_between(entries[groups, -1], 0, count, wrong)
    require(bool(heads[entries[groups, -1]].all()), wrong)
    require_between(entries[heads, NODE], -1, count, wrong)
    named = np.concatenate([entries[groups, -2], entries[heads, NODE]])
    named = named[named >= 0]
    require(len(np.unique(named)) == len(named) and bool(groups[named].all()), wrong)
    linked = entries[groups & (entries[:, -2] != UNLINKED), -1]
    require(bool((np.bincount(linked, minlength=count)[heads] == entries[heads, STAMP]).all()), wrong)
    require_between(entries[heads, -1], -1, links, wrong)
    first = entries[heads, -1]
    require(len(np.unique(first[first >= 0])) == int((first >= 0).sum()), wrong)


def check_runs(runs: Array, links: Array, firsts: Array, nodes: int) -> None:
    """The sorted runs of groups; `firsts` are the first runs of heads."""
    wrong = "its runs of groups are none"
    require_between(runs[:, [OWN_NODE, UPTO]], 0, nodes, wrong)
    require_between(links[:, RUN_BEGIN], 0, len(runs) + 1, wrong)
    require(bool(((links[:, RUN_BEGIN] <= links[:, RUN_END]) & (links[:, RUN_END] <= len(runs))).all()), wrong)
    require_between(links[:, NEXT_LINK], -1, len(links), wrong)
    named = np.concatenate([links[:, NEXT_LINK], firsts])
    named = named[named >= 0]
    require(len(np.unique(named)) == len(named), wrong)


def check_cells(cells: Array) -> None:
    """The sets of values."""
    wrong = "its sets of values are none"
    own = np.arange(len(cells))
    require_between(cells[:, CELL_KIND], MEMBER_CELL, SET_CELL + 1, wrong)
    require_between(cells[:, CELL_TAIL], -1, own, wrong)
    sets = cells[:, CELL_KIND] == SET_CELL
    require_between(cells[sets, CELL_HEAD], 0, own[sets], wrong)


def check_sizes(arrays: dict[str, Array], words: int, carried: bool) -> tuple[Array, Array, Array, Array, Array]:
    """The entries, runs, links, cells and capacities of a state."""
    entries = require_shape(arrays, "entries", None, words)
    sizes = require_shape(arrays, "sizes", None)
    require(len(sizes) >= (5 if carried else 2), "it does not say how large its tables are")
    runs, links, cells = (np.zeros((0, k), np.int64) for k in (RUNS, LINKS, 3))
    if carried:
        runs = require_shape(arrays, "runs", None, RUNS)
        links = require_shape(arrays, "links", None, LINKS)
        cells = require_shape(arrays, "cells", None, 3)
    used = (len(arrays["nodes"]), len(entries), len(runs), len(links), len(cells))
    for size, least in zip(sizes.tolist(), used, strict=False):
        require(least <= size < 1 << 40, "its tables are larger than they can be")
    room = int(sizes[1])
    require(room & (room - 1) == 0 and room >= 64, "its tables are larger than they can be")
    require(words >= KEY, "its table of partial matches is none")
    return entries, runs, links, cells, sizes
