"""Checks that the kernels of this loop can work on the arrays of a snapshot, whoever wrote it.

Every number that names a row is a row's; children come before their parents, and no list comes back to itself. What the
values mean is not looked at: a snapshot that was changed with care gives other matches, and does no other harm.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ceql.engine.common.check import require, require_between, require_shape
from ceql.engine.common.graph import BETWEEN, FACTOR, KIND, LISTED, ORDERED, OTHERS, UNION, A, B, C
from ceql.engine.groups.enumerate import MOST_FACTORS
from ceql.engine.groups.graph import WAY
from ceql.engine.groups.layout import (
    BUCKET_INDEX,
    BUCKETS_STORED,
    CELL_HEAD,
    CELL_KIND,
    CELL_TAIL,
    FIRST_ROW,
    HEADS,
    INDEX,
    KEY,
    MEMBER_CELL,
    NEXT_ROW,
    NODE,
    NULL,
    ORDER,
    ROOM,
    SET_CELL,
    STAMP,
    SUBSTREAM,
    UNLINKED,
)
from ceql.engine.groups.rings import LEAST_ROOM
from ceql.jit import Array

if TYPE_CHECKING:
    from ceql.engine.groups.machine import GroupMachine


def check_graph(nodes: Array, marks: int, listed: bool, carried: bool) -> None:
    """The products, factors and unions; lists, if there may be any; what is found in order, if runs carry registers."""
    wrong = "its graph of partial matches has nodes that lead nowhere"
    own = np.arange(len(nodes))
    kinds = nodes[:, KIND]
    products, factors, unions = kinds >= 0, kinds == FACTOR, (kinds < UNION) & (kinds > UNION - WAY)
    lists, others = kinds == LISTED, kinds == OTHERS
    ordered, between = kinds == ORDERED, kinds == BETWEEN  # whose buckets and rows are looked at with the buckets
    require(bool((kinds < marks).all()), wrong)
    known = products | factors | unions | ((lists | others) & listed) | ((ordered | between) & carried)
    require(bool(known.all()), wrong)
    after = ~(others | ordered | between)
    for column, rows, least in ((A, ~(products | ordered), 0), (B, after, -1), (C, unions | lists, -1)):
        require_between(nodes[rows, column], least, own[rows], wrong)
    require(bool(ordered[nodes[between, A]].all() and lists[nodes[others, A]].all()), wrong)
    require(bool(products[nodes[lists, A]].all()), wrong)
    for column in (B, C):
        before = nodes[lists, column]
        require(bool(lists[before[before >= 0]].all()), wrong)
    rank = np.where(products, 1, np.where(unions, UNION - kinds, 0))
    right = nodes[unions, C]
    require(bool((rank[unions] == 1 + np.where(right < 0, 0, rank[right])).all()), wrong)
    following = nodes[factors, B]
    require(bool(factors[following[following >= 0]].all()), wrong)
    for column, named in ((A, factors | unions), (B, unions), (C, unions)):  # only products have factors
        chosen = nodes[named, column]
        require(not factors[chosen[chosen >= 0]].any(), wrong)
    for _ in range(MOST_FACTORS - 1):  # no product has more factors than a search has room for
        following = nodes[following[following >= 0], B]
    require(not (following >= 0).any(), wrong)


def check_entries(
    entries: Array, nodes: int, partitions: int, indexes: int, carried: bool, listed_indexes: Array, buckets: int
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
    require_between(entries[heads, -1], -1, buckets, wrong)
    first = entries[heads, -1]
    require(len(np.unique(first[first >= 0])) == int((first >= 0).sum()), wrong)


def check_buckets(rows: Array, buckets: Array, heads: Array, ordered: Array, nodes: Array) -> None:
    """The runs in order, one bucket after the other: their nodes ascend, and each bucket has one head at the most."""
    wrong = "its runs in order are none"
    room, first, end, index = (buckets[:, k] for k in (ROOM, FIRST_ROW, NEXT_ROW, BUCKET_INDEX))
    require_between(room, LEAST_ROOM, 1 << 31, wrong)
    require(bool((room & (room - 1) == 0).all()), wrong)
    require_between(first, 0, 1 << 60, wrong)
    require(bool(((first <= end) & (end - first <= room)).all()), wrong)
    require(int((end - first).sum()) == len(rows), wrong)
    require(bool(np.isin(index, ordered).all()), wrong)
    named = heads[heads[:, -1] >= 0, -1]
    require(len(named) <= len(buckets), wrong)
    require_between(rows[:, 1], -1, len(nodes), wrong)
    runs = rows[rows[:, 1] >= 0, 1]
    while len(runs):  # a row has a product, or a union of several that end with one event
        kinds = nodes[runs, KIND]
        require(bool(((kinds >= 0) | ((kinds < UNION) & (kinds > UNION - WAY))).all()), wrong)
        runs = nodes[runs[kinds < 0], A]
    own = np.repeat(np.arange(len(buckets)), end - first) << 40
    places = rows[:, 1] + own
    require(bool((np.diff(places[rows[:, 1] >= 0]) > 0).all()), wrong)
    found = np.flatnonzero(nodes[:, KIND] <= ORDERED)
    bucket, count = np.where(nodes[found, KIND] == ORDERED, nodes[found, A], nodes[found, B]), nodes[found, C]
    require_between(bucket, 0, len(buckets), wrong)
    require(bool(((count >= 0) & (count <= end[bucket])).all()), wrong)
    begins = np.concatenate([[0], np.cumsum(end - first)])
    last = begins[bucket] + np.maximum(count - first[bucket], 0) - 1  # the last row that a node has
    some = last >= begins[bucket]
    upto = np.maximum.accumulate(places) if len(places) else places
    require(bool((upto[last[some]] - own[last[some]] < found[some]).all()), wrong)


def check_cells(cells: Array) -> None:
    """The sets of values."""
    wrong = "its sets of values are none"
    own = np.arange(len(cells))
    require_between(cells[:, CELL_KIND], MEMBER_CELL, SET_CELL + 1, wrong)
    require_between(cells[:, CELL_TAIL], -1, own, wrong)
    sets = cells[:, CELL_KIND] == SET_CELL
    require_between(cells[sets, CELL_HEAD], 0, own[sets], wrong)


def check_sizes(arrays: dict[str, Array], words: int, carried: bool) -> tuple[Array, Array, Array, Array, Array]:
    """The entries, rows, buckets, cells and capacities of a state."""
    entries = require_shape(arrays, "entries", None, words)
    sizes = require_shape(arrays, "sizes", None)
    require(len(sizes) >= (3 if carried else 2), "it does not say how large its tables are")
    rows, buckets, cells = (np.zeros((0, k), np.int64) for k in (2, BUCKETS_STORED, 3))
    if carried:
        rows = require_shape(arrays, "rows", None, 2)
        buckets = require_shape(arrays, "buckets", None, BUCKETS_STORED)
        cells = require_shape(arrays, "cells", None, 3)
    used = (len(arrays["nodes"]), len(entries), len(cells))
    for size, least in zip(sizes.tolist(), used, strict=False):
        require(least <= size < 1 << 40, "its tables are larger than they can be")
    hashed = sizes[1 : 3 if carried else 2]  # of entries and of cells
    for size, least in zip(hashed.tolist(), (64, 1), strict=False):
        require(size & (size - 1) == 0 and size >= least, "its tables are larger than they can be")
    require(words >= KEY, "its table of partial matches is none")
    return entries, rows, buckets, cells, sizes


def check(machine: GroupMachine, arrays: dict[str, Array]) -> Array:
    """Refuse arrays of a state that the kernels of this machine could not work on; the capacities that they ask for."""
    carrier, indexes = machine.carrier, len(machine.steps.tight)
    entries, kept, buckets, cells, sizes = check_sizes(arrays, machine.entries.shape[1], carrier is not None)
    nodes, partitions = arrays["nodes"], len(arrays[f"parts.{machine.columns[0]}"])
    check_graph(nodes, int(machine.steps.mark.max(initial=-1)) + 1, machine.lists, carrier is not None)
    listed = carrier.indexes[:, HEADS] >= 0 if carrier is not None else np.zeros(1, np.bool_)
    check_entries(entries, len(nodes), partitions, indexes, carrier is not None, listed, len(buckets))
    ordered = np.flatnonzero(carrier.indexes[:, ORDER]) if carrier is not None else np.zeros(0, np.int64)
    check_buckets(kept, buckets, entries[entries[:, INDEX] >= indexes], ordered, nodes)
    check_cells(cells)
    for word in np.flatnonzero(machine.sets.any(axis=0)).tolist():
        named = entries[machine.sets[entries[:, INDEX], word], KEY + word]
        require_between(named[named > NULL], 0, len(cells), "its sets of values are none")
    if machine.lists:
        extra = require_shape(arrays, "extra", None)
        require(extra.size == 3 * len(nodes), "its lists of partial matches are none")
    return sizes
