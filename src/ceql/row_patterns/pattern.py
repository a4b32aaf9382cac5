"""The text of PATTERN to a tree: variables, sequences, alternatives, permutations, quantifiers, anchors, exclusions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ceql.errors import Span
from ceql.row_patterns.dialects import Dialect
from ceql.row_patterns.problem import Refused
from ceql.syntax.walking import nodes

_TOKEN = re.compile(
    r"""\s+ | --[^\n]* | /\*.*?\*/
    | (?P<word>[^\W\d]\w*) | (?P<quoted>"(?:[^"]|"")+"|`[^`]+`)
    | (?P<count>\{\s*(?P<least>\d*)\s*(?P<comma>,?)\s*(?P<most>\d*)\s*\}\??)
    | (?P<sign>\{-|-\}|[*+?]\??|[()|,^$])""",
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, eq=False)
class Leaf:
    """A variable at one place of the pattern. Two leaves of one variable are different places."""

    variable: str
    span: Span


@dataclass(frozen=True, eq=False)
class Sequence:
    """Parts one after the other; without parts, the empty pattern, which stands at `span`."""

    items: tuple[Node, ...]
    span: Span | None = None


@dataclass(frozen=True, eq=False)
class Choice:
    """Alternatives, the preferred ones first."""

    items: tuple[Node, ...]


@dataclass(frozen=True, eq=False)
class Permute:
    """Parts in any order; the order in which they are written is preferred, and so on lexicographically."""

    items: tuple[Node, ...]
    span: Span
    """Of the word PERMUTE."""


@dataclass(frozen=True, eq=False)
class Repeat:
    """`item` from `least` to `most` times (None: without end), as often as possible if `greedy`."""

    item: Node
    least: int
    most: int | None
    greedy: bool
    span: Span


@dataclass(frozen=True, eq=False)
class Anchor:
    """The first row of the partition is still to come, or its last one has passed."""

    start: bool
    span: Span


@dataclass(frozen=True, eq=False)
class Excluded:
    """Rows that are matched, and not shown by ALL ROWS PER MATCH."""

    item: Node
    span: Span


Node = Leaf | Sequence | Choice | Permute | Repeat | Anchor | Excluded


def read_pattern(sql: str, span: Span, dialect: Dialect) -> Node:
    """The tree of what stands inside the parentheses of PATTERN."""
    reader = _Reader(sql, span, dialect)
    node = reader.choice()
    if reader.kind is not None:
        raise Refused(f"Found '{reader.text}' in PATTERN", reader.span)
    return node


def leaves(node: Node) -> Iterator[Leaf]:
    """All leaves, from left to right."""
    return (part for part in nodes(node) if isinstance(part, Leaf))


def exclusions(node: Node) -> Iterator[Excluded]:
    return (part for part in nodes(node) if isinstance(part, Excluded))


def anchors(node: Node) -> Iterator[Anchor]:
    return (part for part in nodes(node) if isinstance(part, Anchor))


class _Reader:
    """Recursive descent over the tokens of a pattern; the current one is in `kind`, `text` and `span`."""

    def __init__(self, sql: str, span: Span, dialect: Dialect):
        self._sql = sql
        self._end = span.end
        self._next = span.start
        self._dialect = dialect
        self._advance()

    def _advance(self) -> None:
        self.kind: str | None = None
        self.text = "the end"
        while self._next < self._end:
            found = _TOKEN.match(self._sql, self._next, self._end)
            if found is None:
                place = Span(self._next, self._next + 1)
                raise Refused(f"Found '{self._sql[self._next]}' in PATTERN", place)
            self._next = found.end()
            if found.lastgroup is not None:
                self.found = found
                self.kind, self.text = found.lastgroup, found[0]
                break
        self.span = Span(self.found.start(), self.found.end()) if self.kind else Span(self._end, self._end + 1)
        if self.kind in ("most", "comma", "least"):
            self.kind = "count"

    def _is(self, sign: str) -> bool:
        return self.kind == "sign" and self.text == sign

    def choice(self) -> Node:
        items = [self._sequence()]
        while self._is("|"):
            self._advance()
            items.append(self._sequence())
        return items[0] if len(items) == 1 else Choice(tuple(items))

    def _sequence(self) -> Node:
        items: list[Node] = []
        while self.kind in ("word", "quoted") or any(map(self._is, ("(", "^", "$", "{-"))):
            items.append(self._repeated())
        if not items:
            raise Refused(
                f"Found {self.text if self.kind is None else repr(self.text)} in PATTERN, expected a variable",
                self.span,
            )
        return items[0] if len(items) == 1 else Sequence(tuple(items))

    def _repeated(self) -> Node:
        start = self.span.start
        item = self._atom()
        if self._quantified():
            least, most = self._bounds()
            greedy = not (len(self.text) > 1 and self.text.endswith("?"))
            span = Span(start, self.span.end)
            if most is not None and most < max(least, 1):
                raise Refused(f"'{self.text}' matches no rows", self.span, "Leave the variable out.")
            self._advance()
            item = Repeat(item, least, most, greedy, span)
            if self._quantified():
                raise Refused("two quantifiers stand side by side", self.span, "Use parentheses.")
        return item

    def _quantified(self) -> bool:
        return self.kind == "count" or (self.kind == "sign" and self.text[0] in "*+?")

    def _bounds(self) -> tuple[int, int | None]:
        if self.kind == "count":
            least, comma, most = self.found["least"], self.found["comma"], self.found["most"]
            if not comma:
                return int(least or 0), int(least or 0)
            return int(least or 0), int(most) if most else None
        return {"*": (0, None), "+": (1, None), "?": (0, 1)}[self.text[0]]

    def _atom(self) -> Node:
        start = self.span.start
        if self._is("^") or self._is("$"):
            anchor = Anchor(self.text == "^", self.span)
            self._advance()
            return anchor
        if self._is("{-"):
            self._advance()
            inside = self.choice()
            self._close("-}")
            return Excluded(inside, Span(start, self._closed))
        if self._is("("):
            self._advance()
            if self._is(")"):
                empty = Sequence((), Span(start, self.span.end))
                self._advance()
                return empty
            inside = self.choice()
            self._close(")")
            return inside
        if self.kind == "word" and self.text.upper() == "PERMUTE" and self._sql[self.span.end :].lstrip()[:1] == "(":
            word = self.span
            self._advance()
            self._advance()
            items = [self.choice()]
            while self._is(","):
                self._advance()
                items.append(self.choice())
            self._close(")")
            return Permute(tuple(items), word)
        quoted = self.kind == "quoted"
        name = self.text[1:-1].replace('""', '"') if quoted else self.text
        leaf = Leaf(self._dialect.label(name, quoted), self.span)
        self._advance()
        return leaf

    def _close(self, sign: str) -> None:
        if not self._is(sign):
            found = self.text if self.kind is None else repr(self.text)
            raise Refused(f"Found {found} in PATTERN, expected '{sign}'", self.span)
        self._closed = self.span.end
        self._advance()
