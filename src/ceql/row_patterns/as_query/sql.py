"""The SQL to its clauses.

sqlglot parses the statement. It knows neither WITHIN of Flink, nor SUBSET, nor what stands inside PATTERN, and it gives
no place to AFTER MATCH. So these are found among its tokens, and all but PATTERN are taken out of the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sqlglot
from sqlglot import exp
from sqlglot.dialects.trino import Trino
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from ceql.errors import Span
from ceql.row_patterns.dialects import Dialect
from ceql.row_patterns.problem import Problems, Refused

_SKIPS = {"AFTER MATCH SKIP PAST LAST ROW": True, "AFTER MATCH SKIP TO NEXT ROW": False}
_CLAUSES = {"group": "GROUP BY", "order": "ORDER BY", "joins": "JOIN", "laterals": "LATERAL", "windows": "WINDOW"}
_PARENTHESES = {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}
_BRACKETS = {**_PARENTHESES, TokenType.CASE: 1, TokenType.END: -1}  # in expressions; PATTERN may have a label END


class _Sql(Trino):
    """Standard SQL, with the backticks that Flink has for names."""

    class Tokenizer(Trino.Tokenizer):
        IDENTIFIERS = ['"', "`"]  # noqa: RUF012


@dataclass(frozen=True)
class Clauses:
    """What the statement says, with its expressions as sqlglot has them."""

    table: str
    partition: list[exp.Expr]
    order: list[exp.Expr]
    measures: list[exp.Expr]
    define: list[exp.Expr]
    pattern: Span  # inside the parentheses
    all_rows: bool
    skip_past: bool
    within: exp.Expr | None
    columns: list[exp.Expr] | None  # of the SELECT around it; None for *


def read_clauses(sql: str, dialect: Dialect, problems: Problems) -> Clauses:
    """The clauses of the only MATCH_RECOGNIZE of `sql`."""
    try:
        tokens = _Sql().tokenize(sql)
    except TokenError as error:
        raise Refused(f"the SQL cannot be read: {str(error).splitlines()[0]}", None) from None
    _check_only_one(tokens, sql)
    first, last = _pattern(tokens)
    rows = _phrase(tokens[:first], ("ALL", "ROWS"), "AFTER")
    skip = _phrase(tokens[:first], ("AFTER", "MATCH"))
    subset = _phrase(tokens[last + 1 :], ("SUBSET",), "DEFINE", "WITHIN")
    within = _phrase(tokens[last + 1 :], ("WITHIN",), "DEFINE", "SUBSET")
    statement = _parsed(sql, tokens, [rows, skip, subset, within])
    table = _table(statement)
    skip_past, interval = False, None
    with problems.noted():
        _check_rest(statement, table)
    with problems.noted():
        _check_rows(rows)
    with problems.noted():
        skip_past = _skips_past(skip, dialect)
    with problems.noted():
        _check_subset(subset)
    with problems.noted():
        interval = _interval(sql, tokens, within)
    recognize = next(iter(statement.find_all(exp.MatchRecognize)))
    order = recognize.args.get("order")
    return Clauses(
        table=table.name,
        partition=recognize.args.get("partition_by") or [],
        order=order.expressions if order else [],
        measures=recognize.args.get("measures") or [],
        define=recognize.args.get("define") or [],
        pattern=Span(tokens[first + 1].end + 1, tokens[last].start),
        all_rows=bool(rows),
        skip_past=skip_past,
        within=interval,
        columns=None if any(c.find(exp.Star) for c in statement.expressions) else statement.expressions,
    )


def span_of(node: exp.Expr) -> Span | None:
    """The place of an expression: from its first to its last part that has one, with what these open."""
    places = [part.meta for part in node.walk() if "start" in part.meta]
    if not places:
        return None
    start, end = min(p["start"] for p in places), max(p["end"] for p in places)
    tokens: list[Token] = node.root().meta["tokens"]
    first = next(k for k, token in enumerate(tokens) if token.end >= start)
    last = next(k for k, token in enumerate(tokens) if token.end >= end)
    if isinstance(node, exp.Interval):  # the number alone has a place
        first, last = first - 1, min(last + 1, len(tokens) - 1)
    elif isinstance(node, exp.Func) and "start" not in node.meta:
        first = _name_of_call(tokens, first)
    elif isinstance(node, exp.Func) and first == last:  # CLASSIFIER()
        last += _depth(tokens[last + 1 : last + 2])
    while last + 1 < len(tokens) and _depth(tokens[first : last + 1]) > 0:
        last += 1
    return Span(tokens[first].start, tokens[last].end + 1)


def written(node: exp.Expr) -> str:
    """An expression as it stands in the statement."""
    span = span_of(node)
    sql: str = node.root().meta["sql"]
    return node.sql(_Sql) if span is None else sql[span.start : span.end]


def _name_of_call(tokens: list[Token], first: int) -> int:
    """The token at which the call begins whose arguments begin at `first`."""
    for k in range(first - 1, 0, -1):
        if _depth(tokens[k:first]) > 0:
            return k if tokens[k].token_type == TokenType.CASE else k - 1
    return first


def _depth(tokens: Sequence[Token]) -> int:
    return sum(_BRACKETS.get(token.token_type, 0) for token in tokens)


def _place(tokens: Sequence[Token]) -> Span:
    return Span(tokens[0].start, tokens[-1].end + 1)


def _check_only_one(tokens: list[Token], sql: str) -> None:
    found = [token for token in tokens if token.token_type == TokenType.MATCH_RECOGNIZE]
    if not found:
        advice = "Write SELECT * FROM t MATCH_RECOGNIZE (…)."
        raise Refused("there is no MATCH_RECOGNIZE", Span(0, len(sql)), advice)
    if len(found) > 1:
        raise Refused(
            f"the statement has {len(found)} MATCH_RECOGNIZE, and one is translated at a time",
            _place(found[1:2]),
            "Translate each SELECT … FROM table MATCH_RECOGNIZE (…) by itself, and join the results.",
        )


def _pattern(tokens: list[Token]) -> tuple[int, int]:
    """The tokens PATTERN and the parenthesis that closes it, by their numbers."""
    for first, token in enumerate(tokens[:-1]):
        if token.text.upper() == "PATTERN" and tokens[first + 1].token_type == TokenType.L_PAREN:
            break
    else:
        raise Refused("MATCH_RECOGNIZE has no PATTERN", None)
    depth, last = 0, first + 1
    for last in range(first + 1, len(tokens)):
        depth += _PARENTHESES.get(tokens[last].token_type, 0)
        if depth == 0:
            break
    if last == first + 2:
        raise Refused("PATTERN is empty", _place(tokens[first : last + 1]), "Write PATTERN (A B+ C).")
    return first, last


def _phrase(tokens: list[Token], words: tuple[str, ...], *until: str) -> list[Token]:
    """The tokens from the first words to what ends the clause; none if it is missing."""
    texts = [token.text.upper() for token in tokens]
    start = next((k for k in range(len(texts)) if tuple(texts[k : k + len(words)]) == words), len(texts))
    depth, end = 0, start
    for end in range(start, len(tokens)):
        depth += _PARENTHESES.get(tokens[end].token_type, 0)
        if depth < 0 or (depth == 0 and texts[end] in until):
            return tokens[start:end]
    return tokens[start:]


def _parsed(sql: str, tokens: list[Token], cuts: list[list[Token]]) -> exp.Select:
    """The statement without the clauses in `cuts`."""
    text = sql
    for cut in filter(None, cuts):
        start, end = _place(cut)
        text = text[:start] + " " * (end - start) + text[end:]
    try:
        statement = sqlglot.parse_one(text, dialect=_Sql)
    except ParseError as error:
        raise Refused(_first(error), _place_of(error, sql)) from None
    if not isinstance(statement, exp.Select):
        raise Refused(
            "one SELECT … FROM table MATCH_RECOGNIZE (…) is translated, and nothing around it",
            None,
            "Translate that SELECT, and do the rest with the result: matches.to_pandas().",
        )
    statement.meta.update(sql=sql, tokens=tokens)
    return statement


def _table(statement: exp.Select) -> exp.Table:
    source = statement.find(exp.From)
    table = None if source is None else source.this
    if not isinstance(table, exp.Table):
        raise Refused(
            "the rows must come from a table, by its name", None, "Run the query on the rows of the subquery."
        )
    return table


def _check_rest(statement: exp.Select, table: exp.Table) -> None:
    """Refuses clauses beside MATCH_RECOGNIZE."""
    known = ("expressions", "from", "from_", "kind", "match")
    others = {name: value for name, value in statement.args.items() if value and name not in known}
    if table.args.get("joins"):
        others["joins"] = table.args["joins"]
    if not others:
        return
    words = sorted(_CLAUSES.get(name, name.strip("_").upper().replace("_", " ")) for name in others)
    raise Refused(
        f"only SELECT … FROM table MATCH_RECOGNIZE (…) is translated, without {' and '.join(words)}",
        None,
        "Do the rest with the result: matches.to_pandas().",
    )


def _words(tokens: list[Token]) -> str:
    return " ".join(token.text.upper() for token in tokens)


def _check_rows(rows: list[Token]) -> None:
    if _words(rows) not in ("", "ALL ROWS PER MATCH"):
        advice = "Write ONE ROW PER MATCH, or ALL ROWS PER MATCH."
        raise Refused(f"{_words(rows)} is not translated", _place(rows), advice)


def _skips_past(skip: list[Token], dialect: Dialect) -> bool:
    advice = "Write AFTER MATCH SKIP TO NEXT ROW, or PAST LAST ROW."
    if skip and _words(skip) not in _SKIPS:
        raise Refused(f"{_words(skip)} is not translated", _place(skip), advice)
    if not skip and dialect.skip_past is None:
        raise Refused("AFTER MATCH is missing, and its default in this dialect is not known", None, advice)
    return _SKIPS[_words(skip)] if skip else bool(dialect.skip_past)


def _check_subset(subset: list[Token]) -> None:
    if subset:
        advice = "In CEQL, (… : …) AS S names several rows."
        raise Refused("SUBSET is not translated", _place(subset), advice)


def _interval(sql: str, tokens: list[Token], within: list[Token]) -> exp.Expr | None:
    """The interval of `WITHIN INTERVAL …`."""
    if not within:
        return None
    start, end = within[0].end + 1, within[-1].end + 1
    try:
        interval = sqlglot.parse_one(" " * start + sql[start:end], dialect=_Sql)
    except ParseError:
        raise Refused("WITHIN needs an interval", _place(within), "Write WITHIN INTERVAL '1' HOUR.") from None
    interval.meta.update(sql=sql, tokens=tokens)
    return interval


def _first(error: ParseError) -> str:
    found = error.errors[0] if error.errors else {}
    return f"the SQL cannot be read: {found.get('description') or str(error)}"


def _place_of(error: ParseError, sql: str) -> Span | None:
    found = error.errors[0] if error.errors else {}
    line, column, word = found.get("line"), found.get("col"), found.get("highlight") or " "
    if line is None or column is None:
        return None
    start = sum(len(text) for text in sql.splitlines(keepends=True)[: line - 1]) + column - len(word)
    return Span(max(0, start), max(0, start) + len(word))
