"""NEXT keeps the greatest sets of positions C, where C1 <= C2 if C1 = C2 or min(C1 △ C2) is in C2."""

from __future__ import annotations

from ceql.automata.strategies.candidates import Places, greatest
from ceql.automata.strategies.rivals import NONE, Moves, Rivals, ranked
from ceql.engine.common.chunk import Chunk
from ceql.jit import Array


def compare(rivals: Rivals, moves: Moves, bound: bool) -> Rivals:
    """The first event that one run binds and the other does not settles it for good."""
    if bound:
        return ranked(moves.either(rivals.better), moves.bound(rivals.equal), NONE)
    return ranked(moves.either(rivals.better) | moves.bound(rivals.equal), moves.unbound(rivals.equal), NONE)


def choose(found: Chunk, _: Places) -> Array:
    """The candidates that are greatest from the first event on."""
    return greatest(found, last=False)
