"""NEXT: the greatest set of positions when the earliest difference decides."""

from __future__ import annotations

from ceql.automata.strategies.rivals import NONE, Moves, Rivals, ranked


def compare(rivals: Rivals, moves: Moves, bound: bool) -> Rivals:
    """The first event that one run binds and the other does not settles it for good."""
    if bound:
        return ranked(moves.either(rivals.better), moves.bound(rivals.equal), NONE)
    return ranked(moves.either(rivals.better) | moves.bound(rivals.equal), moves.unbound(rivals.equal), NONE)
