"""One position with more matches than the buffers hold.

Starts are cut, latest first, into blocks whose matches fit the buffers; each block is enumerated, sorted and handed
out. A block of a single start may be larger than any buffer, and is handed out as it comes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from ceql.engine.common.chunk import Chunk, by_start, head, joined
from ceql.engine.common.graph import KIND, A, B
from ceql.engine.common.layout import DONE, FULL, SEEN
from ceql.engine.groups.count import later_starts
from ceql.jit import Array

if TYPE_CHECKING:
    from ceql.engine.groups.reading import Reading

ALL = np.iinfo(np.int64).max


def enumerate_many(machine: Reading) -> Iterator[Chunk]:
    """All matches of the position that is being read (as many as LIMIT wants). The buffers are empty."""
    regs, limit = machine.regs, machine.settings.limit or ALL
    if len(machine.extra):  # lists are not counted
        found = head(by_start(joined(machine.at_once(machine.all_runs()))), limit)
        regs[SEEN] = len(found.start)
        yield found
        return
    bound, nodes, roots, live = machine.bound, machine.graph[0], machine.roots, machine.live_nodes()
    first = live[(nodes[live, KIND] >= 0) & (nodes[live, B] < 0)]
    starts = np.unique(nodes[first, A])[::-1]
    sums: Array = np.zeros(len(nodes), np.float64)

    def upto(k: int) -> float:
        """Matches that start at the k-th of `starts` or later; `sums` has those of each node."""
        later_starts(machine.carried, nodes, live, sums, bound, starts[k], machine.settings.block)
        return float(sum(sums[r] for r in roots))

    regs[SEEN] = 1
    left, done, at = limit, 0.0, 0  # the matches of the starts before `at` are out
    while at < len(starts) and left > 0:
        fits = min(machine.out.match.shape[1] - 1, left)
        last, total = _block_end(upto, at, len(starts) - 1, done + fits)
        while True:
            machine.begin_search(sums)
            reason, chunk = machine.search_on(sums, int(starts[last]), int(starts[at]))
            if reason != FULL or last == at:
                break
            last = at + (last - at) // 2  # long matches: a smaller block
            total = upto(last)
        while chunk is not None:
            chunk = head(by_start(chunk) if last > at else chunk, left)
            left -= len(chunk.start)
            yield chunk
            if reason == DONE or left <= 0:
                break
            reason, chunk = machine.search_on(sums, int(starts[last]), int(starts[at]))
        done, at = total, last + 1


def _block_end(upto: Callable[[int], float], at: int, end: int, most: float) -> tuple[int, float]:
    """The last start of a block that begins at `at`, and the matches up to there: as far as `most` matches go."""
    low, high = at, end
    while low < high:
        middle = (low + high + 1) // 2
        if upto(middle) <= most:
            low = middle
        else:
            high = middle - 1
    return low, upto(low)
