"""Compares candidates, complete matches that end at the same position, for the strategies.

The loop over groups follows no rivals, so a correlated query chooses afterwards. Candidates come as a chunk, those of
one end next to each other.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ceql.engine.common.chunk import Chunk
from ceql.jit import Array

Places = Callable[[Array], Array]
"""The places of events, given by position, in their substreams."""
Choose = Callable[[Chunk, Places], Array]
"""Returns the numbers of the candidates that stay."""
_FAR = np.iinfo(np.int64).max


def greatest(found: Chunk, last: bool) -> Array:
    """The greatest set of positions of each end, compared event by event, from the first on (from the last on).

    At the first difference the earlier event wins (the later one), and a set that goes on wins over one that has ended.
    """
    lengths = np.diff(found.offsets)
    alive = np.arange(len(lengths))
    for k in range(int(lengths.max(initial=0))):
        ends = found.end[alive]
        has = lengths[alive] > k
        at = found.offsets[alive] + k if not last else found.offsets[alive + 1] - 1 - k
        value = np.full(len(alive), _FAR)
        value[has] = found.positions[at[has]] if not last else -found.positions[at[has]]
        first = np.flatnonzero(np.concatenate([[True], ends[1:] != ends[:-1]]))
        best = np.repeat(np.minimum.reduceat(value, first), np.diff(np.append(first, len(ends))))
        alive = alive[value == best]
    return alive


def sums(values: Array, offsets: Array) -> Array:
    """The sum of each match's entries."""
    total = np.zeros(len(values) + 1, values.dtype)
    np.cumsum(values, out=total[1:])
    return total[offsets[1:]] - total[offsets[:-1]]
