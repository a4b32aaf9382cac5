"""One position with more matches than the buffers hold: the driver of `blocks.py`.

Starts are cut, latest first, into blocks whose matches fit the buffers; each block is enumerated, sorted and handed
out. A block of a single start may be larger than any buffer, and is handed out as it comes.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

import numpy as np

from ceql.engine import layout as x
from ceql.engine.arena import MAX, Array
from ceql.engine.blocks import enumerate_block, mark_block, paths_per_start
from ceql.engine.chunk import Chunk
from ceql.engine.counting import gather_live

if TYPE_CHECKING:
    from ceql.engine.machine import Machine


def live_nodes(machine: Machine, bound: int) -> Array:
    """The nodes that the current position reaches inside the window, children before parents."""
    seen = int(gather_live(machine.nodes, machine.regs, machine.active.roots, machine.scratch, bound))
    return machine.scratch[2, 1 : seen + 1].copy()


def enumerate_many(machine: Machine, events: x.Events) -> Generator[Chunk, None, None]:
    """All matches that end at the current event (as many as LIMIT wants)."""
    bound, exact = machine.bound(events), machine.settings.exact
    roots = machine.active.roots[: int(machine.regs[x.ROOTS])]
    live = live_nodes(machine, bound)
    ways, starts, paths = np.zeros(len(machine.nodes)), np.zeros(len(live), np.int64), np.zeros(len(live))
    found = int(paths_per_start(machine.nodes, live, roots, exact, bound, ways, starts, paths))
    order = np.argsort(-starts[:found])
    starts, paths = starts[order], paths[order]
    through: Array = np.full(len(machine.nodes), -1, np.int64)
    machine.regs[x.SEEN] = found
    left: float = machine.settings.limit or np.inf
    at = 0
    while at < found and left > 0:
        upto = _block_end(paths, at, min(len(machine.out.start), left))
        while True:
            mark_block(machine.nodes, live, through, exact, bound, starts[upto - 1], starts[at])
            entered = [int(through[r]) for r in roots if machine.nodes[r, MAX] >= bound and through[r] >= 0]
            left, fits = yield from _enumerate(machine, events, through, entered, left, streams=upto == at + 1)
            if fits:
                break
            machine.regs[x.MATCHES] = machine.regs[x.ENTRIES] = 0  # long matches: a smaller block
            upto = at + max(1, (upto - at) // 2)
        if upto > at + 1:
            _sort(machine)
        left = yield from _hand_out(machine, left)
        at = upto


def _block_end(paths: Array, at: int, most: float) -> int:
    """The starts from `at` on, at least one, that have no more than `most` matches together; the index after them."""
    return at + max(1, int(np.searchsorted(np.cumsum(paths[at:]), most, side="right")))


def _enumerate(
    machine: Machine, events: x.Events, through: Array, entered: list[int], left: float, streams: bool
) -> Generator[Chunk, None, tuple[float, bool]]:
    """Search from the nodes `entered`; how many matches may still come, and whether all of them fit.

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
    while height > 0 and left > 0:
        reason, height = enumerate_block(
            machine.nodes, machine.times, regs, machine.out, through, height, position, time, partition
        )
        if reason == x.GROW_PATH:
            grow_path(machine)
        elif reason == x.FULL and regs[x.MATCHES] == 0:
            _grow_entries(machine)
        elif reason == x.FULL and not streams:
            return left, False
        elif reason == x.FULL:
            left = yield from _hand_out(machine, left)
    return left, True


def _sort(machine: Machine) -> None:
    """Later starts first, among the matches in the buffers."""
    out, m, e = machine.out, int(machine.regs[x.MATCHES]), int(machine.regs[x.ENTRIES])
    order = np.argsort(-out.start[:m], kind="stable")
    lengths = np.diff(out.offsets[: m + 1])[order]
    ends = np.cumsum(lengths)
    entries = np.arange(e) + np.repeat(out.offsets[:m][order] - (ends - lengths), lengths)
    out.position[:e], out.label[:e] = out.position[entries], out.label[entries]
    out.start[:m] = out.start[order]
    out.offsets[1 : m + 1] = ends
    if machine.timed:
        out.start_time[:m] = out.start_time[order]


def _hand_out(machine: Machine, left: float) -> Generator[Chunk, None, float]:
    """Flush, but no more than `left` matches; how many may still come."""
    m = int(min(machine.regs[x.MATCHES], left))
    machine.regs[x.MATCHES] = m
    machine.regs[x.ENTRIES] = machine.out.offsets[m] if m else 0
    yield from machine.flush()
    return left - m


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
