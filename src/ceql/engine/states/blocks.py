"""One position with more matches than the buffers hold: what drives `block_kernels.py`.

Starts are cut, latest first, into blocks whose matches fit the buffers; each block is enumerated, sorted and handed
out. A block of a single start may be larger than any buffer, and is handed out as it comes.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ceql.engine.common.chunk import Chunk
from ceql.engine.common.graph import MAX
from ceql.engine.common.layout import (
    EVENT,
    FULL,
    GROW_PATH,
    LEAST,
    MATCHES,
    OFFSET,
    POSITIONS,
    ROOTS,
    SEEN,
    Events,
)
from ceql.engine.common.order import sort_matches
from ceql.engine.common.output import grow_positions, grow_search
from ceql.engine.states.block_kernels import enumerate_block, mark_block, paths_per_start
from ceql.engine.states.layout import DEPTH, NODE
from ceql.engine.states.live import gather_live
from ceql.jit import Array

if TYPE_CHECKING:
    from ceql.engine.states.machine import StateMachine


def live_nodes(machine: StateMachine, bound: int) -> Array:
    """The nodes that the current position reaches inside the window, children before parents."""
    seen = int(gather_live(machine.nodes, machine.regs, machine.active.roots, machine.scratch, bound))
    return machine.scratch[2, 1 : seen + 1].copy()


def enumerate_many(machine: StateMachine, events: Events) -> Generator[Chunk, None, None]:
    """All matches that end at the current event (as many as LIMIT wants).

    The few that a LIMIT leaves join those that wait in the buffers; without one the buffers are handed out first.
    """
    regs, room, limit = machine.regs, machine.out.match.shape[1] - 1, machine.settings.limit
    if not limit or regs[MATCHES] + limit > room:
        yield from machine.flush()
    bound, exact = int(regs[LEAST]), machine.settings.exact
    roots = machine.active.roots[: int(regs[ROOTS])]
    live = live_nodes(machine, bound)
    ways, starts, paths = np.zeros(len(machine.nodes)), np.zeros(len(live), np.int64), np.zeros(len(live))
    found = int(paths_per_start(machine.nodes, live, roots, exact, bound, ways, starts, paths))
    order = np.argsort(-starts[:found])
    starts, paths = starts[order], paths[order]
    through: Array = np.full(len(machine.nodes), -1, np.int64)
    regs[SEEN] = found
    left: float = limit or np.inf
    at = 0
    while at < found and left > 0:
        block = _Block(int(regs[MATCHES]), int(regs[POSITIONS]), left)
        upto = _block_end(paths, at, min(room - block.first, left))
        while True:
            mark_block(machine.nodes, live, through, exact, bound, starts[upto - 1], starts[at])
            entered = [int(through[r]) for r in roots if machine.nodes[r, MAX] >= bound and through[r] >= 0]
            fits = yield from _enumerate(machine, events, through, entered, block, streams=upto == at + 1)
            if fits:
                break
            regs[MATCHES], regs[POSITIONS] = block.first, block.entry  # long matches: empty buffers, a smaller block
            if block.first:
                yield from machine.flush()
                block.first = block.entry = 0
            else:
                upto = at + max(1, (upto - at) // 2)
        if upto > at + 1:
            sort_matches(machine.out, block.first, int(regs[MATCHES]), machine.timed)
        left = block.cut(machine)
        if not limit:
            yield from machine.flush()
        at = upto


@dataclass
class _Block:
    """Where in the buffers the matches of a block begin, and how many of them are wanted."""

    first: int
    entry: int
    left: float

    def cut(self, machine: StateMachine) -> float:
        """Keep no more than are wanted of those in the buffers; how many may still come, after these."""
        count = int(min(machine.regs[MATCHES] - self.first, self.left))
        self.left -= count
        self.first += count
        self.entry = int(machine.out.match[OFFSET, self.first])
        machine.regs[MATCHES], machine.regs[POSITIONS] = self.first, self.entry
        return self.left


def _block_end(paths: Array, at: int, most: float) -> int:
    """The starts from `at` on, at least one, that have no more than `most` matches together; the index after them."""
    return at + max(1, int(np.searchsorted(np.cumsum(paths[at:]), most, side="right")))


def _enumerate(
    machine: StateMachine, events: Events, through: Array, entered: list[int], block: _Block, streams: bool
) -> Generator[Chunk, None, bool]:
    """Search from the nodes `entered`; whether all that is wanted fits.

    With `streams`, full buffers are handed out and the search goes on.
    """
    regs, event = machine.regs, int(machine.regs[EVENT])
    while len(entered) + 8 > machine.out.stack.shape[0]:
        machine.out = grow_search(machine.out)
    machine.out.stack[: len(entered), NODE] = entered[::-1]
    machine.out.stack[: len(entered), DEPTH] = 0
    height = len(entered)
    time = int(events.time[event]) if machine.timed else 0
    position, partition = events.position[event], events.partition[event]
    while height > 0:
        out = machine.out
        most = out.match.shape[1] - 1
        if streams:
            most = int(min(most, block.first + block.left))
        reason, height = enumerate_block(
            machine.nodes, machine.times, regs, out, through, height, most, position, time, partition
        )
        if reason == GROW_PATH:
            machine.out = grow_search(machine.out)
        elif reason == FULL and regs[MATCHES] == 0:
            machine.out = grow_positions(machine.out)
        elif reason == FULL and not streams:
            return False
        elif reason == FULL:
            if not block.cut(machine):
                return True
            yield from machine.flush()
            block.first = block.entry = 0
    return True
