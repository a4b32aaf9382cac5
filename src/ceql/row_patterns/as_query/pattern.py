"""The text of PATTERN to a tree: variables, sequences, alternatives, quantifiers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ceql.errors import Span
from ceql.row_patterns.as_query.dialects import Dialect
from ceql.row_patterns.as_query.problem import Problems, Untranslatable

_TOKEN = re.compile(
    r"""\s+ | --[^\n]* | /\*.*?\*/
    | (?P<word>[^\W\d]\w*) | (?P<quoted>"(?:[^"]|"")+"|`[^`]+`)
    | (?P<count>\{\s*(?P<least>\d*)\s*(?P<comma>,?)\s*(?P<most>\d*)\s*\}\??)
    | (?P<sign>\{-|-\}|[*+?]\??|[()|,^$])""",
    re.VERBOSE | re.DOTALL,
)
_EMPTY = "the empty pattern () has no counterpart: a match has at least one row"
_REFUSED = {
    "{-": ("excluded rows, {- … -}, have no counterpart", "Leave the braces out: ceql shows rows by their variables."),
    "^": ("the anchor ^ has no counterpart", "Leave it out, and keep the matches that begin with the first row."),
    "$": ("the anchor $ has no counterpart", "Leave it out, and keep the matches that end with the last row."),
}


@dataclass(frozen=True, eq=False)
class Leaf:
    """A variable at one place of the pattern. Two leaves of one variable are different places."""

    variable: str
    span: Span


@dataclass(frozen=True, eq=False)
class Sequence:
    items: tuple[Node, ...]


@dataclass(frozen=True, eq=False)
class Choice:
    """Alternatives, the preferred ones first."""

    items: tuple[Node, ...]


@dataclass(frozen=True, eq=False)
class Repeat:
    """`item` from `least` to `most` times (None: without end), as often as possible if `greedy`."""

    item: Node
    least: int
    most: int | None
    greedy: bool
    span: Span


Node = Leaf | Sequence | Choice | Repeat


def read_pattern(sql: str, span: Span, dialect: Dialect, problems: Problems) -> Node:
    """The tree of what stands inside the parentheses of PATTERN, without what is noted as refused."""
    reader = _Reader(sql, span, dialect, problems)
    node = reader.choice()
    if reader.kind is not None:
        raise Untranslatable(f"Found '{reader.text}' in PATTERN", reader.span)
    return node


def leaves(node: Node) -> Iterator[Leaf]:
    """All leaves, from left to right."""
    match node:
        case Leaf():
            yield node
        case Sequence(items) | Choice(items):
            for item in items:
                yield from leaves(item)
        case Repeat(item):
            yield from leaves(item)


class _Reader:
    """Recursive descent over the tokens of a pattern; the current one is in `kind`, `text` and `span`."""

    def __init__(self, sql: str, span: Span, dialect: Dialect, problems: Problems):
        self._sql = sql
        self._end = span.end
        self._next = span.start
        self._dialect = dialect
        self._problems = problems
        self._permuting = False  # PERMUTE was refused, and the commas in it are passed over
        self._advance()

    def _advance(self) -> None:
        self.kind: str | None = None
        self.text = "the end"
        while self._next < self._end:
            found = _TOKEN.match(self._sql, self._next, self._end)
            if found is None:
                place = Span(self._next, self._next + 1)
                raise Untranslatable(f"Found '{self._sql[self._next]}' in PATTERN", place)
            self._next = found.end()
            if found.lastgroup is not None:
                self.found = found
                self.kind, self.text = found.lastgroup, found[0]
                break
        self.span = Span(self.found.start(), self.found.end()) if self.kind else Span(self._end, self._end + 1)
        if self.kind == "most" or self.kind == "comma" or self.kind == "least":
            self.kind = "count"
        if self.kind == "sign" and self._passed_over():
            self._advance()

    def _passed_over(self) -> bool:
        """Notes a sign that is refused, and says whether to go on with what follows it."""
        if self.text in _REFUSED:
            message, advice = _REFUSED[self.text]
            self._problems.append(Untranslatable(message, self.span, advice))
        return self.text in (*_REFUSED, "-}") or (self.text == "," and self._permuting)

    def choice(self) -> Node:
        items = [self._sequence()]
        while self.text == "|" and self.kind:
            self._advance()
            items.append(self._sequence())
        return items[0] if len(items) == 1 else Choice(tuple(items))

    def _sequence(self) -> Node:
        items: list[Node] = []
        while self.kind in ("word", "quoted") or self.text == "(":
            items.append(self._repeated())
        if not items:
            raise Untranslatable(
                f"Found {self.text if self.kind is None else repr(self.text)} in PATTERN, expected a variable",
                self.span,
            )
        return items[0] if len(items) == 1 else Sequence(tuple(items))

    def _repeated(self) -> Node:
        start = self.span.start
        item = self._atom()
        if self.kind == "count" or (self.kind and self.text[0] in "*+?"):
            least, most = self._bounds()
            greedy = not (len(self.text) > 1 and self.text.endswith("?"))
            span = Span(start, self.span.end)
            if most == 0 or (most is not None and most < least):
                raise Untranslatable(f"'{self.text}' matches no rows", self.span, "Leave the variable out.")
            self._advance()
            item = Repeat(item, least, most, greedy, span)
            if self.kind == "count" or (self.kind and self.text[0] in "*+?"):
                raise Untranslatable("two quantifiers stand side by side", self.span, "Use parentheses.")
        return item

    def _bounds(self) -> tuple[int, int | None]:
        if self.kind == "count":
            least, comma, most = self.found["least"], self.found["comma"], self.found["most"]
            if not comma:
                return int(least or 0), int(least or 0)
            return int(least or 0), int(most) if most else None
        return {"*": (0, None), "+": (1, None), "?": (0, 1)}[self.text[0]]

    def _atom(self) -> Node:
        if self.text == "(":
            start = self.span.start
            self._advance()
            if self.text == ")" and self.kind:
                place = Span(start, self.span.end)
                self._problems.append(Untranslatable(_EMPTY, place, "Leave it out; A? says that A may be missing."))
                self._advance()
                return Sequence(())
            inside = self.choice()
            if self.text != ")":
                raise Untranslatable(f"Found {self.text!r} in PATTERN, expected ')'", self.span)
            self._advance()
            return inside
        if self.text.upper() == "PERMUTE":
            advice = "Write the orders as alternatives: (A B | B A)."
            self._problems.append(Untranslatable("PERMUTE has no counterpart", self.span, advice))
            self._permuting = True
            self._advance()
            return self._atom()
        quoted = self.kind == "quoted"
        name = self.text[1:-1].replace('""', '"') if quoted else self.text
        leaf = Leaf(self._dialect.label(name, quoted), self.span)
        self._advance()
        return leaf
