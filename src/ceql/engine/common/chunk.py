"""A bounded batch of matches as arrays, straight from the engine's buffers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]


class Chunk(NamedTuple):
    """Matches 0 to m-1; match i has the events `positions[offsets[i]:offsets[i + 1]]` with as many `labels`
    (none, where the automaton knows that all matches have the same).

    The arrays are handed over, not lent: results keep them without a copy, so the engine must not write to
    them again. `partition[i]` is a substream's number; times are keys as of `ceql.io.sort_keys.encode`.
    """

    start: Int64s
    end: Int64s
    offsets: Int64s
    positions: Int64s
    labels: Int32s
    partition: Int32s | None = None
    start_time: Int64s | None = None
    end_time: Int64s | None = None
