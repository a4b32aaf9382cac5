"""Writes the matches along the ways through the graph that a strategy keeps."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ceql.engine.common.chunk import Chunk
from ceql.engine.common.graph import KIND, A, B, C
from ceql.engine.common.layout import (
    DONE,
    END,
    END_TIME,
    FULL,
    HEIGHT,
    MATCHES,
    NO_KEY,
    OFFSET,
    PARTITION,
    POSITIONS,
    START,
    START_TIME,
    Output,
)
from ceql.engine.common.limits import out_of_memory
from ceql.engine.common.output import grow_positions
from ceql.engine.common.roots import AT_NODES, AT_PARTITION, AT_POSITION, AT_TIME
from ceql.engine.groups.chosen.before import Ways
from ceql.engine.groups.chosen.last import ways_of_last
from ceql.engine.groups.chosen.max import ways_of_max
from ceql.engine.groups.chosen.next import ways_of_next
from ceql.jit import Array, kernel

if TYPE_CHECKING:
    from ceql.engine.groups.machine import GroupMachine

FEW = 64  # matches of a position that are sooner written and compared than chosen on the graph


class Kept(Enum):
    """What is kept of the matches that end at a position; see `automata.strategies`."""

    NEXT = "NEXT"
    LAST = "LAST"
    MAX = "MAX"


class Choosing(NamedTuple):
    """How matches are chosen on the graph: which are kept, and which marks the result shows."""

    kept: Kept
    shown: Array  # uint8, of each mark


def kept_ways(machine: GroupMachine, choosing: Choosing) -> Ways:
    """The ways of the position's matches that are kept, and of MAX perhaps of some that are not."""
    nodes, used, bound, carrier = machine.nodes, int(machine.where[AT_NODES]), machine.bound, machine.carried
    exact, block, marks = machine.settings.exact, machine.settings.block, machine.scratch[0]
    roots = machine.roots
    match choosing.kept:
        case Kept.LAST:
            return ways_of_last(carrier, nodes, used, roots, choosing.shown, marks, bound, block)
        case Kept.MAX:
            most = (machine.memory - machine.used) // 48  # words: steps are held in several arrays at once
            ways = ways_of_max(carrier, nodes, used, roots, choosing.shown, marks, bound, exact, block, most)
            if not len(ways.first):
                raise out_of_memory(machine.memory, "the partial matches that MAX compares at one position")
            return ways
        case Kept.NEXT:
            live = np.sort(machine.live_nodes())
            return ways_of_next(carrier, nodes, used, live, roots, choosing.shown, marks, bound, exact, block)


def write_kept(machine: GroupMachine, ways: Ways) -> bool:
    """Write the complete runs of the position along these ways to the buffers, beside those of other positions;
    nothing is written unless all of them fit."""
    first, position = int(machine.regs[MATCHES]), int(machine.regs[POSITIONS])
    if _follow_on(machine, ways, _begin(machine, ways)) == DONE:
        return True
    machine.regs[[MATCHES, POSITIONS]] = first, position
    return False


def kept_runs(machine: GroupMachine, ways: Ways) -> Iterator[Chunk]:
    """The complete runs of the position along these ways. The buffers are empty."""
    stack = _begin(machine, ways)
    reason = FULL
    while reason != DONE:
        reason = _follow_on(machine, ways, stack)
        if reason == FULL and machine.regs[MATCHES] == 0:
            machine.out = grow_positions(machine.out)
        elif (chunk := machine.hand_out()) is not None:
            yield chunk


def _begin(machine: GroupMachine, ways: Ways) -> Array:
    """A stack, with the complete runs on it."""
    stack: Array = np.empty((len(ways.node) + 2, 2), np.int64)
    stack[0] = len(ways.node), ways.first[-2]
    machine.regs[HEIGHT] = 1
    return stack


def _follow_on(machine: GroupMachine, ways: Ways, stack: Array) -> int:
    end, time, partition = machine.where[[AT_POSITION, AT_TIME, AT_PARTITION]].tolist()
    return int(
        follow(
            ways, stack, machine.nodes, machine.times, machine.regs, machine.out, machine.settings.exact,
            machine.bound, end, time, partition,
        )
    )  # fmt: skip


@kernel
def follow(
    ways: Ways,
    stack: Array,
    nodes: Array,
    times: Array,
    regs: Array,
    out: Output,
    exact: bool,
    bound: int,
    position: int,
    time: int,
    partition: int,
) -> int:
    """Go on with the search on the stack, whose rows are numbers of products and the next step from each."""
    height = regs[HEIGHT]
    m, e = regs[MATCHES], regs[POSITIONS]
    reason = DONE
    while height > 0:
        k, step = stack[height - 1, 0], stack[height - 1, 1]
        if step == ways.first[k + 1]:
            height -= 1
            continue
        n = ways.node[ways.to[step]]
        if nodes[n, B] >= 0:
            stack[height - 1, 1] += 1
            if height == len(stack):  # a circle, which only a snapshot that was made up has
                continue
            stack[height, 0] = ways.to[step]
            stack[height, 1] = ways.first[ways.to[step]]
            height += 1
            continue
        if exact and (nodes[n, C] == NO_KEY or nodes[n, C] < bound):
            stack[height - 1, 1] += 1
            continue
        if m == out.match.shape[1] - 1 or e + height > len(out.position):
            reason = FULL
            break
        stack[height - 1, 1] += 1
        out.match[START, m] = nodes[n, A]
        out.match[END, m] = position
        out.match[PARTITION, m] = partition
        if len(times) > 0:
            out.match[START_TIME, m] = times[n]
            out.match[END_TIME, m] = time
        out.match[OFFSET, m] = e
        out.position[e] = nodes[n, A]
        out.label[e] = nodes[n, KIND]
        for depth in range(1, height):
            n = ways.node[stack[height - depth, 0]]
            out.position[e + depth] = nodes[n, A]
            out.label[e + depth] = nodes[n, KIND]
        e += height
        m += 1
    out.match[OFFSET, m] = e
    regs[HEIGHT] = height
    regs[MATCHES], regs[POSITIONS] = m, e
    return reason
