"""Finds automata of correlated queries that may have two runs for one match."""

from __future__ import annotations

from collections.abc import Iterable

from ceql.analysis.shape import Kind, Shape
from ceql.automata.correlated import Correlated, Transition


def is_ambiguous(auto: Correlated, selected: frozenset[str], distinct: bool) -> bool:
    """Whether two runs may give the same match, so that matches must be compared."""
    if auto.is_deterministic:
        return False
    labels = [auto.label(mark) & selected for mark in auto.marks]
    if auto.is_chain:
        return _two_paths(auto, labels, distinct)
    return not _private(auto, selected, distinct)


def _private(auto: Correlated, selected: frozenset[str], distinct: bool) -> bool:
    """Whether the match tells at which leaf each of its events was read."""
    leaves = auto.shape.leaf
    for number, leaf in leaves.items():
        mine = leaf.variables & selected
        alike = [other for k, other in leaves.items() if k != number and other.type == leaf.type]
        if not mine or (alike and (distinct or not mine.difference(*(other.variables for other in alike)))):
            return False
    if any(_counts_rounds(auto.shape, node) for node in range(len(auto.shape.nodes))):
        return False
    ways = [(t.links, auto.marks[t.mark].leaves, t.target) for t in auto.transitions]
    return len(set(ways)) == len(ways)


def _counts_rounds(shape: Shape, node: int) -> bool:
    """Whether a count goes round something that has rounds itself, so that the same events may be other rounds."""
    here = shape.nodes[node]
    if here.kind is not Kind.REPEAT or (here.least == 1 and here.most is None):
        return False
    return any(
        other.kind is Kind.REPEAT and node in shape.above(k)[1:] for k, other in enumerate(shape.nodes) if k != node
    )


def _two_paths(auto: Correlated, labels: list[frozenset[str]], distinct: bool) -> bool:
    """Whether two different runs of a chain may read the same events with the same labels.

    Pairs of runs are followed side by side, whatever their steps compare. So the answer may be yes though a comparison
    keeps the two runs apart. Matches are then compared needlessly.
    """
    leaves = auto.shape.leaf
    final = set(auto.final)
    moves: dict[int, list[tuple[int, Transition]]] = {}
    starts: list[tuple[int, Transition]] = []
    for number, transition in enumerate(auto.transitions):
        if not transition.links:
            starts.append((number, transition))
        else:
            for state in auto.indexes[transition.links[0].where].feeders:
                moves.setdefault(state, []).append((number, transition))

    def letter(transition: Transition) -> object:
        label = labels[transition.mark]
        kind = leaves[min(auto.marks[transition.mark].leaves)].type
        return kind, bool(label) if distinct else label

    for transition in auto.transitions:  # an event in the middle that is not shown may be any
        if (
            transition.links
            and not labels[transition.mark]
            and (transition.target not in final or moves.get(transition.target))
        ):
            return True
    seen: set[tuple[int, int, bool]] = set()
    queue: list[tuple[int, int, bool]] = []

    def follow(one: Iterable[tuple[int, Transition]], two: Iterable[tuple[int, Transition]], differ: bool) -> None:
        two = list(two)
        for a, first in one:
            for b, second in two:
                if letter(first) == letter(second):
                    pair = (first.target, second.target, differ or a != b)
                    if pair not in seen:
                        seen.add(pair)
                        queue.append(pair)

    follow(starts, starts, False)
    while queue:
        p, q, differ = queue.pop()
        if differ and p in final and q in final:
            return True
        follow(moves.get(p, ()), moves.get(q, ()), differ)
    return False
