"""MAX: the sets of positions that no other contains."""

from __future__ import annotations

from ceql.automata.strategies.rivals import NONE, Moves, Rivals, ranked


def compare(rivals: Rivals, moves: Moves, bound: bool) -> Rivals:
    """A rival stays a superset while it binds all that the run binds, and becomes a strict one by binding more."""
    if bound:
        return ranked(moves.bound(rivals.better), moves.bound(rivals.equal), NONE)
    return ranked(moves.either(rivals.better) | moves.bound(rivals.equal), moves.unbound(rivals.equal), NONE)
