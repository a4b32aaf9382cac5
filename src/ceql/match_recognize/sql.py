"""The SQL to its clauses.

sqlglot parses the statement. It knows neither WITHIN of Flink nor what stands inside PATTERN, so these two are found
among its tokens.
"""

from __future__ import annotations

from dataclasses import dataclass

import sqlglot
from sqlglot import exp
from sqlglot.dialects.trino import Trino
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from ceql.errors import Span
from ceql.match_recognize.problem import Untranslatable


class _Dialect(Trino):
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


def read_clauses(sql: str) -> Clauses:
    """The clauses of the only MATCH_RECOGNIZE of `sql`."""
    try:
        tokens = _Dialect().tokenize(sql)
    except TokenError as error:
        raise Untranslatable(f"the SQL cannot be read: {str(error).splitlines()[0]}", None) from None
    if not any(token.token_type == TokenType.MATCH_RECOGNIZE for token in tokens):
        raise Untranslatable(
            "there is no MATCH_RECOGNIZE", Span(0, len(sql)), "Write SELECT * FROM t MATCH_RECOGNIZE (…)."
        )
    pattern, cut = _pattern(tokens)
    within = None
    text = sql
    if cut is not None:
        within = _interval(sql[: cut.end], cut)
        text = sql[: cut.start] + " " * (cut.end - cut.start) + sql[cut.end :]
    try:
        statement = sqlglot.parse_one(text, dialect=_Dialect)
    except ParseError as error:
        raise Untranslatable(_first(error), _place(error, sql)) from None
    return _clauses(statement, pattern, within)


def span_of(node: exp.Expr) -> Span | None:
    """The place of an expression: from its first to its last part that has one."""
    places = [part.meta for part in node.walk() if "start" in part.meta]
    return Span(min(p["start"] for p in places), max(p["end"] for p in places) + 1) if places else None


def _pattern(tokens: list[Token]) -> tuple[Span, Span | None]:
    """The places inside the parentheses of PATTERN, and of WITHIN with its interval."""
    for k, token in enumerate(tokens[:-1]):
        if token.text.upper() == "PATTERN" and tokens[k + 1].token_type == TokenType.L_PAREN:
            break
    else:
        raise Untranslatable("MATCH_RECOGNIZE has no PATTERN", None)
    depth, last = 0, k + 1
    for last in range(k + 1, len(tokens)):
        kind = tokens[last].token_type
        depth += (kind == TokenType.L_PAREN) - (kind == TokenType.R_PAREN)
        if depth == 0:
            break
    inside = Span(tokens[k + 1].end + 1, tokens[last].start)
    after = tokens[last + 1 :]
    if after and after[0].text.upper() == "SUBSET":
        raise Untranslatable(
            "SUBSET is not translated",
            Span(after[0].start, after[0].end + 1),
            "In CEQL, (… : …) AS S names several rows.",
        )
    if not after or after[0].text.upper() != "WITHIN":
        return inside, None
    end = next((t.start for t in after if t.text.upper() in ("DEFINE", "SUBSET")), after[-1].start)
    return inside, Span(after[0].start, end)


def _interval(text: str, cut: Span) -> exp.Expr:
    """The interval of `WITHIN INTERVAL …`."""
    try:
        start = cut.start + len("WITHIN")
        return sqlglot.parse_one(" " * start + text[start:], dialect=_Dialect)
    except ParseError:
        raise Untranslatable("WITHIN needs an interval", cut, "Write WITHIN INTERVAL '1' HOUR.") from None


def _clauses(statement: exp.Expr, pattern: Span, within: exp.Expr | None) -> Clauses:
    found = list(statement.find_all(exp.MatchRecognize))
    if len(found) != 1 or not isinstance(statement, exp.Select):
        raise Untranslatable("one SELECT with one MATCH_RECOGNIZE is translated at a time", None)
    recognize = found[0]
    source = statement.find(exp.From)
    table = None if source is None else source.this
    known = ("expressions", "from", "from_", "kind", "match")
    others = [name for name, value in statement.args.items() if value and name not in known]
    if not isinstance(table, exp.Table):
        raise Untranslatable(
            "the rows must come from a table, by its name", None, "Run the query on the rows of the subquery."
        )
    if others or table.args.get("joins"):
        raise Untranslatable(
            f"only SELECT … FROM table MATCH_RECOGNIZE (…) is translated, without {(others or ['joins'])[0].upper()}",
            None,
            "Do the rest with the result: matches.to_pandas().",
        )
    rows = _words(recognize.args.get("rows"))
    after = _words(recognize.args.get("after"))
    if rows not in ("", "ONE ROW PER MATCH", "ALL ROWS PER MATCH"):
        raise Untranslatable(f"{rows} is not translated", None, "Write ONE ROW PER MATCH, or ALL ROWS PER MATCH.")
    if after not in ("", "AFTER MATCH SKIP PAST LAST ROW", "AFTER MATCH SKIP TO NEXT ROW"):
        raise Untranslatable(
            f"{after} is not translated", None, "Write AFTER MATCH SKIP TO NEXT ROW, or PAST LAST ROW."
        )
    order = recognize.args.get("order")
    columns = None if any(c.find(exp.Star) for c in statement.expressions) else statement.expressions
    return Clauses(
        table=table.name,
        partition=recognize.args.get("partition_by") or [],
        order=order.expressions if order else [],
        measures=recognize.args.get("measures") or [],
        define=recognize.args.get("define") or [],
        pattern=pattern,
        all_rows=rows == "ALL ROWS PER MATCH",
        skip_past=after != "AFTER MATCH SKIP TO NEXT ROW",
        within=within,
        columns=columns,
    )


def _words(value: exp.Expr | None) -> str:
    return "" if value is None else " ".join(value.name.upper().split())


def _first(error: ParseError) -> str:
    found = error.errors[0] if error.errors else {}
    return f"the SQL cannot be read: {found.get('description') or str(error)}"


def _place(error: ParseError, sql: str) -> Span | None:
    found = error.errors[0] if error.errors else {}
    line, column, word = found.get("line"), found.get("col"), found.get("highlight") or " "
    if line is None or column is None:
        return None
    start = sum(len(text) for text in sql.splitlines(keepends=True)[: line - 1]) + column - len(word)
    return Span(max(0, start), max(0, start) + len(word))
