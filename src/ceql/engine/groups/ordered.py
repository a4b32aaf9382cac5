"""Groups in order of the one value that they carry, so that those on one side of a bound are found without a scan.

The groups of an ordered index under one key are a list, newest first, and sorted *runs* of doubling size. A list that
gets long becomes a run, together with the runs that are no longer than it (the logarithmic method). In a run the groups
that are easiest to satisfy come first, so that those that pass a test are its first ones; each row has a node with all
that the rows up to it have. So a test costs a scan of a short list and a binary search in each of O(log w) runs, and a
row is written O(log w) times.

The head of the list has the number of its groups in STAMP and its first run in its last word.
"""

from __future__ import annotations

import numpy as np

from ceql.engine.common.layout import COLLECT, DONE, NODES
from ceql.engine.groups.carried import CANNOT_TELL, PASSES, holds
from ceql.engine.groups.graph import MAX, union
from ceql.engine.groups.layout import (
    GROW_RUNS,
    INEXACT,
    LINKED,
    MADE,
    NEXT_LINK,
    NODE,
    OWN_NODE,
    RUN_BEGIN,
    RUN_END,
    RUN_MAX,
    RUN_ROWS,
    SINCE,
    STAMP,
    UNLINKED,
    UPTO,
    VALUE_AT,
    Carrier,
)
from ceql.engine.groups.programs import rank_of
from ceql.jit import Array, called, inlined

SPARE = 128  # nodes that a union may need


@inlined
def before(a: int, b: int, order: int, ranked: bool, rank: Array) -> bool:
    """Whether value a is easier to satisfy than value b."""
    if ranked:
        a, b = rank_of(a, rank), rank_of(b, rank)
    return a < b if order > 0 else a > b


@called
def make_run(
    carrier: Carrier,
    nodes: Array,
    entries: Array,
    regs: Array,
    head: int,
    value_at: int,
    order: int,
    ranked: bool,
    dead: int,
    forgotten: int,
    position: int,
    way: Array,
) -> int:
    """Make the list of a head a run; nothing is changed unless there is room for all of it."""
    runs, links = carrier.runs, carrier.links
    next_at, run_at = entries.shape[1] - 2, entries.shape[1] - 1
    size = entries[head, STAMP]
    merged = entries[head, run_at]
    while merged >= 0 and links[merged, RUN_END] - links[merged, RUN_BEGIN] <= 2 * size:
        size += links[merged, RUN_END] - links[merged, RUN_BEGIN]
        merged = links[merged, NEXT_LINK]
    if regs[RUN_ROWS] + 2 * size + 2 > runs.shape[0] or regs[LINKED] + 1 > links.shape[0]:
        return GROW_RUNS
    first = regs[RUN_ROWS]
    end = first
    g = entries[head, NODE]
    while g >= 0:  # insertion sort
        found = entries[g, NODE]
        if nodes[found, MAX] >= dead and entries[g, SINCE] > forgotten:
            value = entries[g, value_at]
            at = end
            while at > first and before(value, runs[at - 1, VALUE_AT], order, ranked, carrier.rank):
                runs[at, VALUE_AT] = runs[at - 1, VALUE_AT]
                runs[at, OWN_NODE] = runs[at - 1, OWN_NODE]
                at -= 1
            runs[at, VALUE_AT] = value
            runs[at, OWN_NODE] = found
            end += 1
        g = entries[g, next_at]
    run = entries[head, run_at]
    while run != merged:
        if links[run, MADE] > forgotten:
            first, end = _merge(carrier, nodes, first, end, run, order, ranked, dead)
        run = links[run, NEXT_LINK]
    upto = np.int64(-1)
    for k in range(first, end):
        if regs[NODES] + SPARE > nodes.shape[0]:
            return COLLECT
        upto = union(nodes, regs, upto, runs[k, OWN_NODE], dead, way)
        runs[k, UPTO] = upto
    g = entries[head, NODE]
    while g >= 0:
        following = entries[g, next_at]
        entries[g, next_at] = UNLINKED
        entries[g, SINCE] = -1  # nothing is there any more
        g = following
    entries[head, NODE] = -1
    entries[head, STAMP] = 0
    entries[head, run_at] = merged
    if end > first:
        run = regs[LINKED]
        regs[LINKED] = run + 1
        links[run, RUN_BEGIN] = first
        links[run, RUN_END] = end
        links[run, NEXT_LINK] = merged
        links[run, MADE] = position
        links[run, RUN_MAX] = nodes[upto, MAX]
        entries[head, run_at] = run
        regs[RUN_ROWS] = end
    return DONE


@inlined
def _merge(
    carrier: Carrier, nodes: Array, first: int, end: int, run: int, order: int, ranked: bool, dead: int
) -> tuple[int, int]:
    """Merge the rows from `first` to `end`, the last ones, with those of a run; where the result is."""
    runs, links = carrier.runs, carrier.links
    a, b, last, to = first, links[run, RUN_BEGIN], links[run, RUN_END], end
    while a < end or b < last:
        if b < last and nodes[runs[b, OWN_NODE], MAX] < dead:
            b += 1
            continue
        if b >= last or (a < end and before(runs[a, VALUE_AT], runs[b, VALUE_AT], order, ranked, carrier.rank)):
            source = a
            a += 1
        else:
            source = b
            b += 1
        runs[to, VALUE_AT] = runs[source, VALUE_AT]
        runs[to, OWN_NODE] = runs[source, OWN_NODE]
        to += 1
    return end, to


@inlined
def search_runs(
    carrier: Carrier,
    nodes: Array,
    entries: Array,
    head: int,
    test: int,
    hashed: int,
    values: Array,
    i: int,
    dead: int,
    forgotten: int,
    found: Array,
    count: int,
) -> tuple[int, int]:
    """Add, to `found`, the nodes with the rows of a head's runs that pass a test; how many nodes there are then.

    A row stands for a group's registers, of which the first `hashed` are the same for all.
    """
    runs, links = carrier.runs, carrier.links
    run_at = entries.shape[1] - 1
    previous = np.int64(-1)
    run = entries[head, run_at]
    while run >= 0:
        following = links[run, NEXT_LINK]
        if links[run, RUN_MAX] < dead or links[run, MADE] <= forgotten:
            if previous < 0:
                entries[head, run_at] = following
            else:
                links[previous, NEXT_LINK] = following
            run = following
            continue
        previous = run
        low, high = links[run, RUN_BEGIN], links[run, RUN_END]  # rows before `low` pass
        first = low
        while low < high:
            middle = (low + high) >> 1
            tested = holds(carrier, test, values, i, runs, middle, np.int64(VALUE_AT - hashed))
            if tested == CANNOT_TELL:
                return INEXACT, count
            if tested == PASSES:
                low = middle + 1
            else:
                high = middle
        if low > first and nodes[runs[low - 1, UPTO], MAX] >= dead:
            found[count] = runs[low - 1, UPTO]
            count += 1
        run = following
    return DONE, count
