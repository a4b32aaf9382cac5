"""PATTERN to an ordered automaton: what may read the next row, the most preferred first.

The tree becomes a small program of splits and leaves, as Thompson builds it, and the follow list of each leaf is what
a depth-first walk over its splits finds, in order, as backtracking would. PERMUTE shares the places after the same
parts: eight of them have 1,024 places, not 8! ways.

Anchors become two automata in one: what may begin at the first row of a partition, and what may begin elsewhere; and
leaves that accept only at the last row. After a row, `^` fails; before a row, `$` does.
"""

from __future__ import annotations

from dataclasses import dataclass

from ceql.errors import ResourceError
from ceql.row_patterns.pattern import Anchor, Choice, Excluded, Leaf, Node, Permute, Repeat, Sequence

MAX_PLACES = 20_000
MAX_FOLLOWING = 2_000_000
NEVER, ALWAYS, AT_LAST = range(3)


@dataclass(frozen=True)
class Place:
    """Reads a row as `variable`. One of `after` reads the next, the first being preferred, or the match ends."""

    variable: str
    excluded: bool
    after: tuple[int, ...]
    accepts: int
    """NEVER, ALWAYS (less preferred than all of `after`), or AT_LAST: if the row is the last of the partition."""


@dataclass(frozen=True)
class Beginning:
    """What may read the first row of a match, and whether the match may be empty, which is less preferred."""

    places: tuple[int, ...]
    empty: bool


@dataclass(frozen=True)
class OrderedPattern:
    places: tuple[Place, ...]
    first: Beginning
    """At the first row of a partition."""
    other: Beginning


_Split = tuple[int, ...]


class _Builder:
    """The program: for each node a leaf, an anchor, or the nodes to try in order. Node 0 accepts."""

    def __init__(self) -> None:
        self.nodes: list[_Split | Leaf | Anchor] = [()]
        self.next: dict[int, int] = {}
        self.body: dict[int, int] = {}
        """Of each node that goes round a loop: where a round begins."""
        self.excluded: set[int] = set()
        self._depth = 0

    def _add(self, node: _Split | Leaf | Anchor, then: int = 0) -> int:
        if len(self.nodes) > MAX_PLACES:
            raise ResourceError(
                f"PATTERN has more than {MAX_PLACES:,} places once its counts are written out", "places"
            )
        self.nodes.append(node)
        self.next[len(self.nodes) - 1] = then
        return len(self.nodes) - 1

    def build(self, node: Node, then: int) -> int:
        """The node at which `node`, followed by what is at `then`, begins."""
        match node:
            case Leaf() | Anchor():
                place = self._add(node, then)
                if self._depth:
                    self.excluded.add(place)
                return place
            case Sequence(items):
                for item in reversed(items):
                    then = self.build(item, then)
                return then
            case Choice(items):
                return self._add(tuple(self.build(item, then) for item in items))
            case Permute(items):
                return self._permuted(items, then)
            case Excluded(item):
                self._depth += 1
                begin = self.build(item, then)
                self._depth -= 1
                return begin
            case Repeat():
                return self._repeated(node, then)

    def _permuted(self, items: tuple[Node, ...], then: int) -> int:
        """A node for each set of parts that are still to come."""
        known = {0: then}
        for left in range(1, 1 << len(items)):
            ways = [self.build(item, known[left & ~(1 << k)]) for k, item in enumerate(items) if left >> k & 1]
            known[left] = self._add(tuple(ways))
        return known[(1 << len(items)) - 1]

    def _repeated(self, node: Repeat, then: int) -> int:
        least = node.least
        if node.most is None:
            loop = self._add(())
            body = self.build(node.item, loop)
            self.nodes[loop] = (body, then) if node.greedy else (then, body)
            self.body[loop] = body
            begin = loop
            if least and not _may_be_empty(node.item):  # the last of the rounds that must be is the one to come back to
                begin, least = body, least - 1
        else:
            begin = then
            for _ in range(node.most - node.least):
                body = self.build(node.item, begin)
                begin = self._add((body, then) if node.greedy else (then, body))
        for _ in range(least):
            begin = self.build(node.item, begin)
        return begin


def _may_be_empty(node: Node) -> bool:
    match node:
        case Leaf():
            return False
        case Anchor():
            return True
        case Sequence(items) | Permute(items):
            return all(map(_may_be_empty, items))
        case Choice(items):
            return any(map(_may_be_empty, items))
        case Excluded(item):
            return _may_be_empty(item)
        case Repeat(item, least):
            return least == 0 or _may_be_empty(item)


def compile_pattern(pattern: Node) -> OrderedPattern:
    """The automaton of a pattern."""
    builder = _Builder()
    begin = builder.build(pattern, 0)
    numbers: dict[int, int] = {}
    order: list[int] = []

    def number(node: int) -> int:
        if node not in numbers:
            numbers[node] = len(order)
            order.append(node)
        return numbers[node]

    first_leaves, first_end = _closure(builder, begin, at_start=True, is_start=True)
    other_leaves, other_end = _closure(builder, begin, at_start=False, is_start=True)
    first = Beginning(tuple(map(number, first_leaves)), first_end == ALWAYS)
    other = Beginning(tuple(map(number, other_leaves)), other_end == ALWAYS)
    places: list[Place] = []
    known: dict[int, tuple[tuple[int, ...], int]] = {}
    total = 0
    while len(places) < len(order):
        node = order[len(places)]
        leaf = builder.nodes[node]
        assert isinstance(leaf, Leaf)
        then = builder.next[node]
        if then not in known:
            found, end = _closure(builder, then, at_start=False, is_start=False)
            known[then] = tuple(map(number, found)), end
        total += len(known[then][0])
        if total > MAX_FOLLOWING:
            raise ResourceError(f"the places of PATTERN have more than {MAX_FOLLOWING:,} places after them", "places")
        places.append(Place(leaf.variable, node in builder.excluded, *known[then]))
    return OrderedPattern(tuple(places), first, other)


def _closure(builder: _Builder, begin: int, at_start: bool, is_start: bool) -> tuple[list[int], int]:
    """The leaves that may read the next row, in order, and whether the match may end before it.

    A round of a loop reads a row: a way that comes back to the loop at which it began a round without one ends there.
    At a start no row is read: it stands before a row, so `$` fails. Elsewhere `$` says that no row comes: leaves behind
    it read none.
    """
    found: dict[int, None] = {}
    seen: set[tuple[int, bool, frozenset[int]]] = set()
    end = NEVER
    waiting: list[tuple[int, bool, frozenset[int]]] = [(begin, False, frozenset())]
    while waiting:
        node, last, inside = waiting.pop()
        if (node, last, inside) in seen or node in inside:
            continue
        seen.add((node, last, inside))
        if node == 0:
            if not last:
                end = ALWAYS
                break
            end = AT_LAST
            continue
        match builder.nodes[node]:
            case Leaf():
                if not last:
                    found.setdefault(node)
            case Anchor(start):
                if start and at_start:
                    waiting.append((builder.next[node], last, inside))
                elif not start and not is_start:
                    waiting.append((builder.next[node], True, inside))
            case ways:
                body = builder.body.get(node)
                waiting.extend((way, last, inside | {node} if way == body else inside) for way in reversed(ways))
    return list(found), end
