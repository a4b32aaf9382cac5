"""LAST: the greatest set of positions when the latest difference decides."""

from __future__ import annotations

from ceql.automata.strategies.rivals import Moves, Rivals, ranked


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
