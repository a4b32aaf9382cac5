"""MAX keeps the sets of positions that no other contains strictly."""

from __future__ import annotations

import numpy as np

from ceql.automata.strategies.candidates import Places
from ceql.automata.strategies.rivals import NONE, Moves, Rivals, ranked
from ceql.engine.common.chunk import Chunk
from ceql.jit import Array


def compare(rivals: Rivals, moves: Moves, bound: bool) -> Rivals:
    """A rival stays a superset while it binds all that the run binds, and becomes a strict one by binding more."""
    if bound:
        return ranked(moves.bound(rivals.better), moves.bound(rivals.equal), NONE)
    return ranked(moves.either(rivals.better) | moves.bound(rivals.equal), moves.unbound(rivals.equal), NONE)


def choose(found: Chunk, _: Places) -> Array:
    """The candidates whose events are not a proper part of another's that ends at the same position."""
    kept: list[int] = []
    first = np.unique(found.end, return_index=True)[1]
    for begin, end in zip(first, np.append(first[1:], len(found.end)), strict=True):
        sets = [frozenset(found.positions[found.offsets[k] : found.offsets[k + 1]].tolist()) for k in range(begin, end)]
        largest: list[frozenset[int]] = []
        for events in sorted(set(sets), key=len, reverse=True):
            if not any(events < other for other in largest):
                largest.append(events)
        best = set(largest)
        kept += [begin + k for k, events in enumerate(sets) if events in best]
    return np.array(kept, np.int64)
