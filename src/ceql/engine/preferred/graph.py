"""Nodes of runs; neighbouring starts whose runs are alike go on as one (PAST LAST EVENT beside WITHIN).

The *group* of a start is what the list has of it. Two groups in a row with the same waits and registers, in the same
order, find the same from there on. They become one: each of its nodes is a *union*, of the older starts and of the
newer. Only the oldest start that is still in the window counts, since its match ends the others. So a node is read
for this start: of a union the older side, if its latest start is in the window.

When a run accepts, the oldest start has its match, which later windows cannot take away. The group is then that
start's alone.
"""

from __future__ import annotations

import numpy as np

from ceql.engine.common.layout import COLLECT, DONE, NODES
from ceql.engine.preferred.layout import (
    FOUND,
    GROUP,
    KEY,
    LABEL,
    LATEST,
    MARK,
    NO_NODE,
    NODE,
    PARENT,
    POSITION,
    PREVIOUS,
    START,
    UNION,
    WAIT,
    Work,
)
from ceql.jit import Array, Word, called, inlined


@inlined
def new_node(nodes: Array, regs: Array, position: Word, parent: Word, label: Word, key: Word) -> Word:
    """A new node, `key` is that of its latest start; NO_NODE if the graph is full."""
    node = regs[NODES]
    if node >= len(nodes):
        return NO_NODE
    nodes[node, POSITION] = position
    nodes[node, PARENT] = parent
    nodes[node, LABEL] = label
    if nodes.shape[1] > LATEST:
        nodes[node, LATEST] = key
    regs[NODES] = node + 1
    return np.int64(node)


@inlined
def before(nodes: Array, node: Word, key: Word) -> Word:
    """The event before this one, for the oldest start whose key is not less; NO_NODE if this is the first."""
    node = nodes[node, PARENT]
    while node != NO_NODE and nodes[node, LABEL] == UNION:
        older = nodes[node, POSITION]
        node = older if nodes[older, LATEST] >= key else nodes[node, PARENT]
    return np.int64(node)


@called
def close_group(nodes: Array, times: Array, regs: Array, work: Work) -> int:
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
        if entries[first + k, WAIT] == MARK:
            return DONE
        for word in range(entries.shape[1]):
            if word != NODE and word != KEY and word != START and entries[first + k, word] != entries[other + k, word]:
                return DONE
    older: Word = np.int64(NO_NODE)
    newer: Word = np.int64(NO_NODE)
    union: Word = np.int64(NO_NODE)
    for k in range(count):
        if entries[other + k, NODE] != older or entries[first + k, NODE] != newer:
            older, newer = entries[other + k, NODE], entries[first + k, NODE]
            union = new_node(nodes, regs, older, newer, np.int64(UNION), entries[first + k, KEY])
            if union == NO_NODE:
                return COLLECT
            if len(times):
                times[union] = 0
        entries[other + k, NODE] = union
        entries[other + k, KEY] = entries[first + k, KEY]
        if entries[other + k, START] >= 0:
            entries[other + k, START] = -1 - entries[other + k, START]
    regs[FOUND] = regs[GROUP] = first
    regs[PREVIOUS] = other
    return DONE


@called
def narrow(nodes: Array, regs: Array, work: Work, bound: Word) -> Word:
    """Leave the group, whose last entry is a new mark, to the oldest start in the window; its key."""
    last = regs[FOUND] - 1
    mark = work.entries[last, NODE]
    first = node = nodes[mark, POSITION]
    while node != NO_NODE:
        first = node
        node = before(nodes, node, bound)
    key: Word = nodes[first, LATEST]
    nodes[mark, LATEST] = key
    for entry in range(regs[GROUP], last + 1):
        work.entries[entry, KEY] = key
        work.entries[entry, START] = nodes[first, POSITION]
    return key
