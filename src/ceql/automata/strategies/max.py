"""MAX keeps the sets of positions that no other contains strictly."""

from __future__ import annotations

import numpy as np

from ceql.automata.strategies.candidates import Places
from ceql.automata.strategies.rivals import NONE, Moves, Rivals, ranked
from ceql.engine.common.chunk import Chunk
from ceql.engine.common.contained import not_contained
from ceql.jit import Array


def compare(rivals: Rivals, moves: Moves, bound: bool) -> Rivals:
    """A rival stays a superset while it binds all that the run binds, and becomes a strict one by binding more."""
    if bound:
        return ranked(moves.bound(rivals.better), moves.bound(rivals.equal), NONE)
    return ranked(moves.either(rivals.better) | moves.bound(rivals.equal), moves.unbound(rivals.equal), NONE)


def choose(found: Chunk, _: Places) -> Array:
    """The candidates whose events are not a proper part of another's that ends at the same position."""
    different, events = np.unique(found.positions, return_inverse=True)
    return np.flatnonzero(not_contained(found.end, found.offsets, events, len(different)))
