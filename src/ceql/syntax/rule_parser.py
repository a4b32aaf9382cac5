"""Parses the text of a rule into its head and body.

In: text such as `Q(x, y) <- T(x), S(x, y)`. Out: a `Rule` of atoms, or a `QueryProblem`. The parser is written by hand
and does not recurse, since rules do not nest. A second grammar was rejected because its errors could not speak of
atoms, relations and arguments. Names, constants and comments are written as in queries, but only TRUE, FALSE and NULL
are reserved, and only among arguments.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ceql.errors import Span
from ceql.syntax import tree
from ceql.syntax.build import negative
from ceql.syntax.limits import QueryProblem, check_text, read_number


class Variable(NamedTuple):
    """A rule's variable; None is the anonymous one, `_`."""

    name: str | None
    span: Span


@dataclass(frozen=True, slots=True)
class Atom:
    relation: str
    terms: tuple[Variable | tree.Literal, ...]
    name_span: Span
    span: Span


@dataclass(frozen=True, slots=True)
class Rule:
    head: Atom
    body: tuple[Atom, ...]


def read_rule(text: str) -> Rule:
    check_text(text)
    return _Reader(text).rule()


_TOKEN = re.compile(
    r"""(?P<blank>\s+ | --[^\n]*)
    | (?P<arrow><- | :-)
    | (?P<name>[^\W\d]\w* | `(?:[^`]|``)*`)
    | (?P<number>-?(?:[0-9]+(?:\.[0-9]+)? | \.[0-9]+)(?:[eE][+-]?[0-9]+)?)
    | (?P<string>'(?:[^']|'')*' | "(?:[^"]|"")*")
    | (?P<sign>.)""",
    re.VERBOSE | re.DOTALL,
)
_CONSTANTS = {"TRUE": True, "FALSE": False}
_COMPARISONS = ("=", "<", ">", "!")
_EXAMPLE = "A rule looks like this: Q(x, y) <- T(x), S(x, y)."


class _Token(NamedTuple):
    kind: str
    text: str
    span: Span


def _tokens(text: str) -> Iterator[_Token]:
    end = 0
    for found in _TOKEN.finditer(text):
        kind = found.lastgroup or ""
        if kind != "blank":
            end = found.end()
            # the kind of a sign is the sign itself
            yield _Token(found.group() if kind == "sign" else kind, found.group(), Span(*found.span()))
    yield _Token("end", "", Span(end, end + 1))


class _Reader:
    """The tokens of a rule, and the place of the next one."""

    def __init__(self, text: str) -> None:
        self._tokens = list(_tokens(text))
        self._at = 0

    @property
    def _token(self) -> _Token:
        return self._tokens[self._at]

    def _take(self, kind: str) -> _Token | None:
        """The next token, if it is of this kind."""
        token = self._token
        if token.kind != kind:
            return None
        self._at += 1
        return token

    def rule(self) -> Rule:
        if self._token.kind == "end":
            raise QueryProblem("The rule is empty", Span(0, 0), _EXAMPLE)
        head = self._atom("a head such as Q(x, y)")
        if not self._take("arrow"):
            raise self._unexpected("'<-'", _EXAMPLE)
        body = [self._atom("an atom such as T(x)", _EXAMPLE)]
        while self._take(","):
            body.append(self._atom("an atom such as T(x)", "No ',' stands after the last atom."))
        stopped = self._take(".") is not None
        if self._token.kind != "end":
            hint = "There is one rule at a time." if stopped else "The atoms of a body are joined by ','."
            raise self._unexpected("the end of the rule" if stopped else "',' or the end of the rule", hint)
        return Rule(head, tuple(body))

    def _atom(self, expected: str, hint_at_end: str | None = None) -> Atom:
        start = self._take("name")
        if start is None:
            raise self._unexpected(expected, hint_at_end if self._token.kind in ("end", ".") else None)
        if not self._take("("):
            raise self._unexpected("'('", self._hint_after(start))
        terms: list[Variable | tree.Literal] = []
        end = self._take(")")
        while end is None:
            terms.append(self._term())
            end = self._take(")")
            if end is None and not self._take(","):
                raise self._unexpected("',' or ')'")
        return Atom(_name(start), tuple(terms), start.span, Span(start.span.start, end.span.end))

    def _hint_after(self, start: _Token) -> str:
        """Advice about a name without arguments, for those used to Datalog or SQL."""
        if start.text.upper() == "NOT":
            return "Rules have no negation."
        if self._token.kind in _COMPARISONS:
            return "A rule compares by a variable or constant in its place: T(x, x), T(2). For more, write a query."
        return f"A relation has arguments, if only '()': {start.text}(x)."

    def _term(self) -> Variable | tree.Literal:
        token = self._token
        if token.kind not in ("name", "number", "string"):
            raise self._unexpected("a variable, '_' or a constant")
        self._at += 1
        word = token.text.upper()
        if token.kind == "name":
            if word in _CONSTANTS:
                return tree.Literal(_CONSTANTS[word], span=token.span)
            if word == "NULL":
                raise QueryProblem("NULL equals nothing, so no event fits it", token.span, "Write _ for any value.")
            return Variable(None if token.text == "_" else _name(token), token.span)
        if token.kind == "string":
            quote = token.text[0]
            return tree.Literal(token.text[1:-1].replace(quote * 2, quote), span=token.span)
        value = tree.Literal(read_number(token.text.removeprefix("-"), token.span), span=token.span)
        return negative(value, token.span) if token.text.startswith("-") else value

    def _unexpected(self, expected: str, hint: str | None = None) -> QueryProblem:
        token = self._token
        if token.kind == "end":
            return QueryProblem(f"The rule ends too early: expected {expected}", token.span, hint)
        plain = len(token.text) > 1 or token.text.isprintable()
        found = f"'{token.text}'" if plain else f"the character U+{ord(token.text):04X}"
        return QueryProblem(f"Found {found}, expected {expected}", token.span, hint)


def _name(token: _Token) -> str:
    if not token.text.startswith("`"):
        return token.text
    name = token.text[1:-1].replace("``", "`")
    if not name:
        raise QueryProblem("A name cannot be empty", token.span)
    return name
