"""Chain automata (chain-cea-icdt2020, section 4): every state knows where in the formula its last event was read.

That is what Proposition 7's transition-to-state construction is for: an edge between two states can compare the two
events. States are the places of the formula (Glushkov's construction); ALL is a product, whose states also tell which
side read the last event.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from ceql.analysis.shape import Kind, Leaves, Shape
from ceql.errors import ResourceError

NONE: Leaves = frozenset()
MOST_EDGES = 30_000
"""The limit on edges: working out what each of them carries takes a few seconds."""


class Read(NamedTuple):
    """Read an event at these leaves, having gone round these iterations, and be in `target`."""

    leaves: Leaves
    loops: Leaves
    target: int


class Edge(NamedTuple):
    """The same, from the event before; `tight` if that must be the previous event of the (sub)stream."""

    leaves: Leaves
    loops: Leaves
    target: int
    tight: bool


_Key = tuple[tuple[int, bool], ...]  # of a product: the state of each side, and whether it read the last event


class Fragment(NamedTuple):
    entries: tuple[Read, ...]
    final: tuple[int, ...]
    nullable: bool = False  # whether it may be left out


@dataclass(slots=True)
class Chain:
    """`last[s]` has the leaves of the event that was read when state s was entered."""

    last: list[Leaves] = field(default_factory=list)
    edges: list[list[Edge]] = field(default_factory=list)
    made: int = 0
    """States and edges."""

    def state(self, last: Leaves) -> int:
        self.last.append(last)
        self.edges.append([])
        self._count(1)
        return len(self.last) - 1

    def join(self, final: Iterable[int], entries: Iterable[Read], tight: bool, loop: Leaves = NONE) -> None:
        for state in final:
            known = set(self.edges[state])
            for read in entries:
                edge = Edge(read.leaves, read.loops | loop, read.target, tight)
                if edge not in known:
                    self.edges[state].append(edge)
                    self._count(1)

    def _count(self, more: int) -> None:
        self.made += more
        if self.made > MOST_EDGES:
            raise ResourceError(
                f"the automaton has more than {MOST_EDGES:,} states and steps: many parts may be missing, are "
                "alternatives or are joined by ALL, and each can be followed by many; write fewer of them in a row",
                limit="MOST_EDGES",
            )

    def build(self, shape: Shape, node: int) -> Fragment:
        """Add the states and edges of a node."""
        here = shape.nodes[node]
        match here.kind:
            case Kind.LEAF:
                leaf = frozenset([node])
                state = self.state(leaf)
                return Fragment((Read(leaf, NONE, state),), (state,))
            case Kind.SEQUENCE:
                return self.sequence([self.build(shape, item) for item in here.items], here.contiguous)
            case Kind.REPEAT:
                return self._repeat(shape, node)
            case Kind.CHOICE:
                parts = [self.build(shape, item) for item in here.items]
                return Fragment(
                    tuple(read for part in parts for read in part.entries),
                    tuple(s for part in parts for s in part.final),
                    any(part.nullable for part in parts),
                )
            case Kind.ALL:
                sides = []
                for item in here.items:
                    side = Chain()
                    sides.append((side, side.build(shape, item)))
                return self._both(shape, sides)

    def sequence(self, parts: Sequence[Fragment], contiguous: Sequence[bool]) -> Fragment:
        """Join parts one after the other. The neighbours of a part that is left out are joined directly, by `:` if
        both operators around it are."""
        for k, part in enumerate(parts):
            for reads, tight in following(parts, contiguous, k):
                self.join(part.final, reads, tight)
        return Fragment(
            tuple(read for part in until_needed(parts) for read in part.entries),
            tuple(state for part in until_needed(parts[::-1])[::-1] for state in part.final),
            all(part.nullable for part in parts),
        )

    def _repeat(self, shape: Shape, node: int) -> Fragment:
        """A copy of the body's states for each round that is counted; the last one of no upper end goes round."""
        here, loop = shape.nodes[node], frozenset([node])
        nullable = shape.nullable(node)
        if here.most == 0:
            return Fragment((), (), nullable)
        least = 1 if nullable else here.least
        rounds = [self.build(shape, here.items[0]) for _ in range(least if here.most is None else here.most)]
        for before, after in pairwise(rounds):
            self.join(before.final, after.entries, here.contiguous[0], loop)
        if here.most is None:
            self.join(rounds[-1].final, rounds[-1].entries, here.contiguous[0], loop)
        return Fragment(rounds[0].entries, tuple(s for part in rounds[least - 1 :] for s in part.final), nullable)

    def _both(self, shape: Shape, sides: list[tuple[Chain, Fragment]]) -> Fragment:
        """The product. Each side has not started, is in a state, or has finished; an event may serve several."""
        not_started, finished = -1, -2
        numbers: dict[tuple[_Key, Leaves], int] = {}
        queue: list[tuple[_Key, Leaves]] = []

        def moves(side: Chain, part: Fragment, state: int, moved: bool) -> list[tuple[Edge, bool]]:
            """What a side can do with an event, and whether it does anything."""
            stay = [(Edge(NONE, NONE, state, False), False)]
            if state == finished:
                return stay
            edges = [Edge(*read, False) for read in part.entries] if state == not_started else side.edges[state]
            # a contiguous step needs that the side's own last event is the match's last
            able = [edge for edge in edges if moved or not edge.tight]
            ends = [edge._replace(target=finished) for edge in able if edge.target in part.final]
            goes_on = [edge for edge in able if side.edges[edge.target]]
            return stay + [(edge, True) for edge in goes_on + ends]

        def steps(key: _Key) -> list[Edge]:
            found: dict[Edge, None] = {}
            together: list[tuple[tuple[tuple[Edge, bool], ...], Leaves]] = [((), NONE)]
            for side, at in zip(sides, key, strict=True):
                options = moves(*side, *at)
                together = [
                    ((*chosen, option), leaves | option[0].leaves)
                    for chosen, leaves in together
                    for option in options
                    if shape.may_be_one(leaves | option[0].leaves)
                ]
            for chosen, leaves in together:
                moved = [edge for edge, moves_on in chosen if moves_on]
                if not moved:
                    continue
                loops = frozenset().union(*(edge.loops for edge in moved))
                target = number(tuple((edge.target, moves_on) for edge, moves_on in chosen), leaves)
                found[Edge(leaves, loops, target, any(edge.tight for edge in moved))] = None
            self._count(len(found))
            return list(found)

        def number(key: _Key, leaves: Leaves) -> int:
            if (key, leaves) not in numbers:
                numbers[key, leaves] = self.state(leaves)
                queue.append((key, leaves))
            return numbers[key, leaves]

        start = tuple((not_started, False) for _ in sides)
        entries = tuple(Read(edge.leaves, edge.loops, edge.target) for edge in steps(start))
        while queue:
            key, leaves = queue.pop()
            self.edges[numbers[key, leaves]] = [] if all(s == finished for s, _ in key) else steps(key)
        nullable = [part.nullable for _, part in sides]
        final = tuple(
            n
            for (key, _), n in numbers.items()
            if all(s == finished or (s == not_started and empty) for (s, _), empty in zip(key, nullable, strict=True))
        )
        return Fragment(entries, final, all(nullable))


def following(
    parts: Sequence[Fragment], contiguous: Sequence[bool], after: int
) -> Iterator[tuple[tuple[Read, ...], bool]]:
    """What may be read next after a part of a sequence (-1: before the first), and whether in direct succession.

    `contiguous` has the operators between the parts.
    """
    tight = True
    for k in range(after + 1, len(parts)):
        tight = tight and (k == 0 or contiguous[k - 1])
        yield parts[k].entries, tight
        if not parts[k].nullable:
            return


def until_needed(parts: Sequence[Fragment]) -> Sequence[Fragment]:
    """The parts up to the first that cannot be left out."""
    return parts[: next((k for k, part in enumerate(parts) if not part.nullable), len(parts)) + 1]
