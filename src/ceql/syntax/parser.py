"""Text to tree.

In: the text of a query (docs/reference.md, section 2). Out: a `tree.Query`, or a `QueryError` that says what was found,
what was expected, where, and what was probably meant. The parser is LALR(1), so the time is linear in the text. A
hand-written recursive descent was rejected because a deep query would overflow its stack.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from lark import Lark, UnexpectedInput, UnexpectedToken

from ceql.errors import QueryError, Span
from ceql.jit.cache import cache_root
from ceql.syntax import tree
from ceql.syntax.absence import check_absence
from ceql.syntax.clauses import Builder, check_after_match
from ceql.syntax.limits import QueryProblem, check_depth, check_size, check_text
from ceql.syntax.messages import problem_of


def parse(text: str) -> tree.Query:
    """Read a whole query.

    >>> parse("SELECT * WHERE A ; B").formula
    Then(items=(Event(type='A', stream=None), Event(type='B', stream=None)), joints=(<Joint.THEN: ';'>,))
    """
    query: tree.Query = _parse(text, "query")
    return replace(query, span=Span(0, len(text)))


def parse_formula(text: str) -> tree.Formula:
    """Read a formula alone, for tools and tests."""
    formula: tree.Formula = _parse(text, "formula")
    return formula


def parse_aggregate(text: str) -> tree.Expression:
    """Read what is to be combined over all matches.

    >>> parse_aggregate("COUNT(*)")
    Aggregate(function='COUNT', variable='*', operand=None, distinct=False, number=None)
    """
    expression: tree.Expression = _parse(text, "aggregated")
    return expression


@cache
def plain_name() -> re.Pattern[str]:
    """The pattern of names that need no backticks: the grammar's own terminal."""
    return re.compile(grammar().get_terminal("NAME").pattern.to_regexp())


@cache
def grammar() -> Lark:
    """The parser. Its tables are kept beside the compiled kernels: reading them takes 8 ms, making them 70. Lark makes
    them anew if the file is of another grammar or version of Lark, or damaged."""
    text = (Path(__file__).parent / "ceql.lark").read_text(encoding="utf-8")
    with suppress(OSError):  # the folder cannot be written, or the disk is full
        cache_root().mkdir(parents=True, exist_ok=True)
        return _make(text, str(cache_root() / f"grammar-{sha256(text.encode()).hexdigest()[:16]}"))
    return _make(text, False)


def _make(text: str, cache: str | bool) -> Lark:
    return Lark(
        text,
        cache=cache,
        start=["query", "formula", "aggregated"],
        parser="lalr",
        lexer="contextual",
        transformer=Builder(),
        keep_all_tokens=True,
        maybe_placeholders=False,
    )


def read(text: str, start: str) -> Any:
    """The root of what `text` says; a `QueryProblem` if it says nothing."""
    check_text(text)
    try:
        return grammar().parse(text, start=start)
    except UnexpectedInput as error:
        raise problem_of(error, text, _expected(error, text, start)) from None


def _expected(error: UnexpectedInput, text: str, start: str) -> set[str]:
    """The terminals that could have stood where the parser stopped."""
    if isinstance(error, UnexpectedToken):
        return set(error.accepts or error.expected)
    before = grammar().parse_interactive(text[: error.pos_in_stream], start=start)
    before.exhaust_lexer()
    return set(before.accepts())  # type: ignore[no-untyped-call]  # lark has no type for it


def _parse(text: str, start: str) -> Any:
    try:
        root = read(text, start)
        check_depth(root)
        check_size(root)
        check_absence(root)
        check_after_match(root)
        return root
    except QueryProblem as error:
        raise QueryError(error.message, text, error.span, error.suggestion) from None
