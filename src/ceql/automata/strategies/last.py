"""LAST keeps the greatest sets of positions C, where C1 <= C2 if C1 = C2 or max(C1 △ C2) is in C2."""

from __future__ import annotations

from ceql.automata.strategies.candidates import Places, greatest
from ceql.automata.strategies.rivals import Moves, Rivals, ranked
from ceql.engine.common.chunk import Chunk
from ceql.jit import Array


def compare(rivals: Rivals, moves: Moves, bound: bool) -> Rivals:
    """Every event that one run binds and the other does not decides anew."""
    anyone = rivals.better | rivals.equal | rivals.worse
    if bound:
        return ranked(
            moves.bound(rivals.better),
            moves.bound(rivals.equal),
            moves.bound(rivals.worse) | moves.unbound(anyone),
        )
    return ranked(
        moves.unbound(rivals.better) | moves.bound(anyone),
        moves.unbound(rivals.equal),
        moves.unbound(rivals.worse),
    )


def choose(found: Chunk, _: Places) -> Array:
    """The candidates that are greatest from the last event on."""
    return greatest(found, last=True)
