"""One position with more matches than the buffers hold: the driver of `blocks.py`.

Starts are cut, latest first, into blocks whose matches fit the buffers; each block is enumerated, sorted and handed
out. A block of a single start may be larger than any buffer, and is handed out as it comes.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ceql.engine.common.chunk import Chunk
from ceql.engine.states import layout as x
from ceql.engine.states.block_kernels import enumerate_block, mark_block, paths_per_start
from ceql.engine.states.count import gather_live
from ceql.engine.states.graph import MAX
from ceql.jit import Array

if TYPE_CHECKING:
    from ceql.engine.states.machine import Machine


def live_nodes(machine: Machine, bound: int) -> Array:
    """The nodes that the current position reaches inside the window, children before parents."""
    seen = int(gather_live(machine.nodes, machine.regs, machine.active.roots, machine.scratch, bound))
    return machine.scratch[2, 1 : seen + 1].copy()


def enumerate_many(machine: Machine, events: x.Events) -> Generator[Chunk, None, None]:
    """All matches that end at the current event (as many as LIMIT wants).

    The few that a LIMIT leaves join those that wait in the buffers; without one the buffers are handed out first.
    """
    regs, room, limit = machine.regs, len(machine.out.start), machine.settings.limit
    if not limit or regs[x.MATCHES] + limit > room:
        yield from machine.flush()
    bound, exact = machine.bound(events), machine.settings.exact
    roots = machine.active.roots[: int(regs[x.ROOTS])]
    live = live_nodes(machine, bound)
    ways, starts, paths = np.zeros(len(machine.nodes)), np.zeros(len(live), np.int64), np.zeros(len(live))
    found = int(paths_per_start(machine.nodes, live, roots, exact, bound, ways, starts, paths))
    order = np.argsort(-starts[:found])
    starts, paths = starts[order], paths[order]
    through: Array = np.full(len(machine.nodes), -1, np.int64)
    regs[x.SEEN] = found
    left: float = limit or np.inf
    at = 0
    while at < found and left > 0:
        block = _Block(int(regs[x.MATCHES]), int(regs[x.ENTRIES]), left)
        upto = _block_end(paths, at, min(room - block.first, left))
        while True:
            mark_block(machine.nodes, live, through, exact, bound, starts[upto - 1], starts[at])
            entered = [int(through[r]) for r in roots if machine.nodes[r, MAX] >= bound and through[r] >= 0]
            fits = yield from _enumerate(machine, events, through, entered, block, streams=upto == at + 1)
            if fits:
                break
            regs[x.MATCHES], regs[x.ENTRIES] = block.first, block.entry  # long matches: empty buffers, a smaller block
            if block.first:
                yield from machine.flush()
                block.first = block.entry = 0
            else:
                upto = at + max(1, (upto - at) // 2)
        if upto > at + 1:
            _sort(machine, block.first)
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

    def cut(self, machine: Machine) -> float:
        """Keep no more than are wanted of those in the buffers; how many may still come, after these."""
        count = int(min(machine.regs[x.MATCHES] - self.first, self.left))
        self.left -= count
        self.first += count
        self.entry = int(machine.out.offsets[self.first])
        machine.regs[x.MATCHES], machine.regs[x.ENTRIES] = self.first, self.entry
        return self.left


def _block_end(paths: Array, at: int, most: float) -> int:
    """The starts from `at` on, at least one, that have no more than `most` matches together; the index after them."""
    return at + max(1, int(np.searchsorted(np.cumsum(paths[at:]), most, side="right")))


def _enumerate(
    machine: Machine, events: x.Events, through: Array, entered: list[int], block: _Block, streams: bool
) -> Generator[Chunk, None, bool]:
    """Search from the nodes `entered`; whether all that is wanted fits.

    With `streams`, full buffers are handed out and the search goes on.
    """
    regs, event = machine.regs, int(machine.regs[x.EVENT])
    while len(entered) + 8 > len(machine.out.stack_node):
        grow_path(machine)
    machine.out.stack_node[: len(entered)] = entered[::-1]
    machine.out.stack_depth[: len(entered)] = 0
    height = len(entered)
    time = int(events.time[event]) if machine.timed else 0
    position, partition = events.position[event], events.partition[event]
    while height > 0:
        out = machine.out
        if streams and block.left < len(out.start) - block.first:
            out = out._replace(start=out.start[: block.first + int(block.left)])  # no more than these
        reason, height = enumerate_block(
            machine.nodes, machine.times, regs, out, through, height, position, time, partition
        )
        if reason == x.GROW_PATH:
            grow_path(machine)
        elif reason == x.FULL and regs[x.MATCHES] == 0:
            _grow_entries(machine)
        elif reason == x.FULL and not streams:
            return False
        elif reason == x.FULL:
            if not block.cut(machine):
                return True
            yield from machine.flush()
            block.first = block.entry = 0
    return True


def _sort(machine: Machine, first: int) -> None:
    """Later starts first, among the matches in the buffers from `first` on."""
    out, m, e = machine.out, int(machine.regs[x.MATCHES]), int(machine.regs[x.ENTRIES])
    base = int(out.offsets[first])
    order = first + np.argsort(-out.start[first:m], kind="stable")
    lengths = np.diff(out.offsets[: m + 1])[order]
    ends = base + np.cumsum(lengths)
    entries = np.arange(base, e) + np.repeat(out.offsets[:m][order] - (ends - lengths), lengths)
    out.position[base:e], out.label[base:e] = out.position[entries], out.label[entries]
    out.start[first:m] = out.start[order]
    out.offsets[first + 1 : m + 1] = ends
    if machine.timed:
        out.start_time[first:m] = out.start_time[order]


def grow_path(machine: Machine) -> None:
    """Room for longer matches and a deeper search."""
    _resize(machine, ("stack_node", "stack_depth", "path_position", "path_label"))


def _grow_entries(machine: Machine) -> None:
    """One match alone is longer than the buffers."""
    _resize(machine, ("position", "label", "spare_position", "spare_label"))


def _resize(machine: Machine, names: tuple[str, ...]) -> None:
    grown = {name: getattr(machine.out, name) for name in names}
    machine.out = machine.out._replace(
        **{name: np.concatenate([old, np.zeros_like(old)]) for name, old in grown.items()}
    )
