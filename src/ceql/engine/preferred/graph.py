"""Nodes of runs; starts whose runs are alike go on as one.

The *group* of a start is what the list has of it. Two groups with the same waits and registers, in the same order, find
the same from there on. They become one: each of its nodes is a *union*, of the older starts and of the newer.

- Under TO NEXT EVENT any two groups become one (`unite_alike`), and each start keeps a match of its own. A node stands
  for a path from each of its starts, and a search goes through those whose starts are wanted (`show`). One more union,
  `STARTS`, is that of the first events alone, so that the oldest start is found however long its path is.
- Under PAST LAST EVENT beside WITHIN two groups in a row do (`unite_neighbours`). Only the oldest start that is still
  in the window counts, since its match ends the others. When a run accepts, this start has its match, which later
  windows cannot take away, and the group is left to it alone (`narrow`).

One start more costs a constant number of nodes, and one of n is found in O(log n): unions are perfect trees in a chain,
the largest first, as in a binary counter. `UNION - 2 r` has two trees of the rank r - 1, and `UNION - 2 r - 1` is a
chain whose last tree has the rank r.
"""

from __future__ import annotations

import numpy as np

from ceql.engine.common.layout import COLLECT, DONE, NODES
from ceql.engine.preferred.layout import (
    ENTRY,
    FOUND,
    GROUP,
    KEY,
    LABEL,
    LATEST,
    MARK,
    NO_NODE,
    NODE,
    OLDEST,
    PARENT,
    POSITION,
    PREVIOUS,
    REACH,
    START,
    STARTS,
    UNION,
    WAIT,
    Work,
)
from ceql.jit import Array, Word, called, inlined, mix

MOST_RANK = 60


@inlined
def new_node(nodes: Array, times: Array, regs: Array, position: Word, parent: Word, label: Word) -> Word:
    """A new node; NO_NODE if the graph is full."""
    node = regs[NODES]
    if node >= len(nodes):
        return NO_NODE
    nodes[node, POSITION] = position
    nodes[node, PARENT] = parent
    nodes[node, LABEL] = label
    if len(times):
        times[node] = 0
    regs[NODES] = node + 1
    return np.int64(node)


@inlined
def is_union(label: Word) -> bool:
    return bool(label <= UNION)


@called
def united(nodes: Array, times: Array, regs: Array, older: Word, newer: Word) -> Word:
    """The union of two nodes; NO_NODE if the graph is full."""
    tree, chain = newer, older
    rank = (UNION + 1 - nodes[newer, LABEL]) >> 1 if is_union(nodes[newer, LABEL]) else np.int64(0)
    while chain != NO_NODE:
        label = nodes[chain, LABEL]
        is_chain = is_union(label) and (UNION - label) & 1 != 0
        last = nodes[chain, PARENT] if is_chain else chain
        own = (UNION - label) >> 1 if is_union(label) else np.int64(0)
        if own > rank:
            return _both(nodes, times, regs, chain, tree, np.int64(UNION - 2 * rank - 1))
        rank = min(rank + 1, MOST_RANK)
        tree = _both(nodes, times, regs, last, tree, np.int64(UNION - 2 * rank))
        if tree == NO_NODE:
            return tree
        chain = nodes[chain, POSITION] if is_chain else np.int64(NO_NODE)
    return tree


@inlined
def _both(nodes: Array, times: Array, regs: Array, older: Word, newer: Word, label: Word) -> Word:
    node = new_node(nodes, times, regs, older, newer, label)
    if node != NO_NODE:
        nodes[node, LATEST] = max(nodes[older, LATEST], nodes[newer, LATEST])
        nodes[node, OLDEST] = min(nodes[older, OLDEST], nodes[newer, OLDEST])
    return node


@inlined
def has(nodes: Array, node: Word, first: Word, last: Word) -> bool:
    """Whether a node may have a start whose key is one of these."""
    return bool(nodes[node, LATEST] >= first and nodes[node, OLDEST] <= last)


@called
def oldest_of(nodes: Array, stack: Array, starts: Word, key: Word) -> Word:
    """The first event of the oldest start whose key is not less; NO_NODE if there is none, NO_NODE - 1 if the stack is
    full."""
    best: Word = np.int64(NO_NODE)
    stack[0] = starts
    height = 1
    while height > 0:
        height -= 1
        node = stack[height]
        if nodes[node, LATEST] < key or (best != NO_NODE and nodes[node, OLDEST] >= nodes[best, OLDEST]):
            continue
        if not is_union(nodes[node, LABEL]):
            best = np.int64(node)
        elif height + 2 > len(stack):
            return np.int64(NO_NODE - 1)
        else:
            stack[height] = nodes[node, PARENT]
            stack[height + 1] = nodes[node, POSITION]
            height += 2
    return best


@called
def count_starts(nodes: Array, stack: Array, starts: Word, first: Word, last: Word) -> Word:
    """How many starts have keys from `first` to `last`; -1 if the stack is full."""
    found: Word = np.int64(0)
    stack[0] = starts
    height = 1
    while height > 0:
        height -= 1
        node = stack[height]
        if not has(nodes, node, first, last):
            continue
        if not is_union(nodes[node, LABEL]):
            found += 1
        elif height + 2 > len(stack):
            return np.int64(-1)
        else:
            stack[height] = nodes[node, PARENT]
            stack[height + 1] = nodes[node, POSITION]
            height += 2
    return found


@inlined
def _unite(nodes: Array, times: Array, regs: Array, work: Work, other: Word, first: Word) -> bool:
    """Let the runs of an earlier group stand for those of the new list from `first` on; whether there was room."""
    entries = work.entries
    older: Word = np.int64(NO_NODE)
    newer: Word = np.int64(NO_NODE)
    union: Word = np.int64(NO_NODE)
    for k in range(regs[FOUND] - first):
        if entries[other + k, NODE] != older or entries[first + k, NODE] != newer:
            older, newer = entries[other + k, NODE], entries[first + k, NODE]
            union = united(nodes, times, regs, older, newer)
            if union == NO_NODE:
                return False
        entries[other + k, NODE] = union
    regs[FOUND] = first
    return True


@inlined
def _are_alike(entries: Array, one: Word, two: Word) -> bool:
    """Whether runs wait in the same way and carry the same."""
    same = entries[one, WAIT] == entries[two, WAIT] and entries[one, REACH] == entries[two, REACH]
    for word in range(ENTRY, entries.shape[1]):
        same = same and entries[one, word] == entries[two, word]
    return bool(same)


@called
def unite_neighbours(nodes: Array, times: Array, regs: Array, work: Work) -> int:
    """The runs of a start are in the new list: unite them with those of the start before, if they are alike."""
    first, count = regs[GROUP], regs[FOUND] - regs[GROUP]
    if count == 0:
        return DONE
    other = regs[PREVIOUS]
    regs[PREVIOUS] = first
    regs[GROUP] = regs[FOUND]
    if first - other != count:
        return DONE
    entries = work.entries
    for k in range(count):
        if entries[first + k, WAIT] == MARK or not _are_alike(entries, other + k, first + k):
            return DONE
    key = entries[first, KEY]
    if not _unite(nodes, times, regs, work, other, first):
        return COLLECT
    for entry in range(other, first):
        entries[entry, KEY] = key
        if entries[entry, START] >= 0:
            entries[entry, START] = -1 - entries[entry, START]
    regs[GROUP] = first
    regs[PREVIOUS] = other
    return DONE


@called
def unite_alike(nodes: Array, times: Array, regs: Array, work: Work, stamp: Word, first: Word) -> int:
    """The runs of some starts are in the new list, from `first` on: unite them with those of others that are alike."""
    entries, count = work.entries, regs[FOUND] - first
    h: Word = np.int64(count)
    for entry in range(first, regs[FOUND]):
        h = mix(mix(h, entries[entry, WAIT]), entries[entry, REACH])
        for word in range(ENTRY, entries.shape[1]):
            h = mix(h, entries[entry, word])
    mask = len(work.alike) - 1
    at = (h >> 32) & mask
    while work.alike[at, 0] == stamp:
        other = work.alike[at, 1]
        same = other + count <= first and entries[other, STARTS] == entries[other + count - 1, STARTS]
        same = same and (other + count == first or entries[other, STARTS] != entries[other + count, STARTS])
        for k in range(count):
            same = same and _are_alike(entries, other + k, first + k)
        if same:
            starts = united(nodes, times, regs, entries[other, STARTS], entries[first, STARTS])
            earlier = first if entries[first, KEY] < entries[other, KEY] else other
            key, start = entries[earlier, KEY], entries[earlier, START]
            if starts == NO_NODE or not _unite(nodes, times, regs, work, other, first):
                return COLLECT
            for entry in range(other, other + count):
                entries[entry, STARTS], entries[entry, KEY], entries[entry, START] = starts, key, start
            return DONE
        at = (at + 1) & mask
    work.alike[at, 0] = stamp
    work.alike[at, 1] = first
    return DONE


@called
def narrow(nodes: Array, regs: Array, work: Work, bound: Word) -> Word:
    """Leave the group, whose last entry is a new mark, to the oldest start in the window; its key."""
    last = regs[FOUND] - 1
    mark = work.entries[last, NODE]
    first = node = mark
    while node != NO_NODE:
        first = node
        node = nodes[node, PARENT]
        while node != NO_NODE and is_union(nodes[node, LABEL]):
            older = nodes[node, POSITION]
            node = older if nodes[older, LATEST] >= bound else nodes[node, PARENT]
    key: Word = nodes[first, LATEST]
    nodes[mark, LATEST] = key
    for entry in range(regs[GROUP], last + 1):
        work.entries[entry, KEY] = key
        work.entries[entry, START] = nodes[first, POSITION]
    return key
