"""Limits on the size of a query, so that no text can make the parser or a later stage run away.

In: text, or a tree. Out: nothing, or a `QueryProblem` at the place where a limit is passed.
"""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation

from ceql.errors import Span
from ceql.syntax.tree import All, Event, Then
from ceql.syntax.walking import nodes, with_depths

MAX_CHARACTERS = 1_000_000
MAX_DEPTH = 200
MAX_EVENTS = 20_000
MAX_CHAIN = 3_000
MAX_DIGITS = 100
MAX_EXPONENT = 400
MAX_COUNT = 2**63 - 1


class QueryProblem(Exception):
    """A problem with a query or rule. The caller, who has the text, turns it into a QueryError."""

    def __init__(self, message: str, span: Span, suggestion: str | None = None):
        super().__init__(message)
        self.message = message
        self.span = span
        self.suggestion = suggestion


_SURROGATE = re.compile("[\ud800-\udfff]")
_QUOTES = {"'": "text", '"': "text", "`": "name"}
_CLOSES = {")": "(", "]": "[", "}": "{"}
_OPENS = {opening: closing for closing, opening in _CLOSES.items()}
# Possessive quantifiers, so that a doubled quote is never taken for a closing one.
_MARKS = re.compile(
    r"""--[^\n]*+ | '(?:[^']++|'')*+' | "(?:[^"]++|"")*+" | `(?:[^`]++|``)*+` | ['"`()\[\]{}]""", re.VERBOSE
)


def check_text(text: str) -> None:
    """Checks size, quotes, brackets and their nesting, for which the grammar's own errors would be less clear."""
    if len(text) > MAX_CHARACTERS:
        place = Span(MAX_CHARACTERS, MAX_CHARACTERS + 1)
        raise QueryProblem(f"The query has {len(text):,} characters; at most {MAX_CHARACTERS:,} are read", place)
    if lone := _SURROGATE.search(text):
        raise QueryProblem("This is half of a character, and no text", Span(lone.start(), lone.end()))
    opened: list[tuple[str, int]] = []
    for mark in _MARKS.finditer(text):
        character, place = mark.group(), Span(mark.start(), mark.end())
        if character in _QUOTES:
            raise QueryProblem(
                f"This {_QUOTES[character]} has no closing {character}",
                place,
                f"A {character} inside a {_QUOTES[character]} is written twice: {character * 2}",
            )
        if character in _OPENS:
            opened.append((character, mark.start()))
            if len(opened) > MAX_DEPTH:
                raise QueryProblem(f"Brackets are nested deeper than {MAX_DEPTH} levels", place)
        elif character in _CLOSES:
            if not opened:
                raise QueryProblem(
                    f"This '{character}' closes nothing", place, f"No '{_CLOSES[character]}' is open here."
                )
            opening, start = opened.pop()
            if _CLOSES[character] != opening:
                line = text.count("\n", 0, start) + 1
                raise QueryProblem(
                    f"Found '{character}' where the '{opening}' of line {line} is still open",
                    place,
                    f"Did you mean '{_OPENS[opening]}'?",
                )
    if opened:
        opening, start = opened[-1]
        raise QueryProblem(f"This '{opening}' is never closed", Span(start, start + 1), f"Add a '{_OPENS[opening]}'.")


def check_depth(root: object) -> None:
    """Refuse a tree (of `tree`'s nodes) deeper than MAX_DEPTH."""
    place = Span(0, 0)
    for node, depth in with_depths(root):
        place = getattr(node, "span", None) or place
        if depth > MAX_DEPTH:
            raise QueryProblem(f"The query is nested deeper than {MAX_DEPTH} levels", place)


def check_size(root: object) -> None:
    """Refuse a formula that is larger than MAX_EVENTS and MAX_CHAIN, since later stages take more than linear time."""
    events = 0
    for node in nodes(root):
        events += isinstance(node, Event)
        if isinstance(node, (Then, All)) and len(node.items) > MAX_CHAIN:
            raise QueryProblem(
                f"This has {len(node.items):,} items one after the other; at most {MAX_CHAIN:,} are compiled",
                node.span or Span(0, 0),
            )
    if events > MAX_EVENTS:
        raise QueryProblem(f"The query names {events:,} events; at most {MAX_EVENTS:,} are compiled", Span(0, 1))


def read_number(text: str, span: Span) -> int | Decimal:
    """An int, or a Decimal where there is a point or an exponent; exact, hence the limit on its size.

    >>> read_number("1e3", Span(0, 3)), read_number("10", Span(0, 2))
    (Decimal('1E+3'), 10)
    """
    if sum(c.isdigit() for c in text) > MAX_DIGITS:
        raise QueryProblem(f"A number has at most {MAX_DIGITS} digits", span)
    if text.isdigit():
        return int(text)
    try:
        value = Decimal(text)
    except InvalidOperation:
        value = Decimal("Infinity")
    if not value.is_finite() or abs(value.adjusted()) > MAX_EXPONENT:
        raise QueryProblem(f"A number's exponent is at most {MAX_EXPONENT}", span)
    return value
