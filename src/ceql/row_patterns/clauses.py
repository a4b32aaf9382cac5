"""The SQL to its clauses.

sqlglot cuts the statement into tokens and parses the expressions; MATCH_RECOGNIZE itself is read here, since sqlglot
knows neither SUBSET, nor WITHIN, nor what stands inside PATTERN, and gives no place to AFTER MATCH. Each expression is
parsed with as many spaces before it as the statement has characters there, so that its places are those of the
statement. RUNNING and FINAL become part of the name of the function that follows: `FINAL LAST(x)` is `FINAL_LAST(x)`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC

import sqlglot
from sqlglot import exp
from sqlglot.dialects.trino import Trino
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from ceql.errors import QueryError, Span, did_you_mean
from ceql.row_patterns.dialects import Dialect
from ceql.row_patterns.pattern import Node, exclusions, leaves, read_pattern
from ceql.row_patterns.problem import Problems, Refused
from ceql.row_patterns.statement import (
    CALLED,
    IN_DAYS,
    PAST_LAST,
    TO_FIRST,
    TO_LAST,
    TO_NEXT,
    Found,
    Measure,
    RowPattern,
    Skip,
    SortKey,
    Source,
    Statement,
)

_STARTS = {
    "PARTITION BY": "PARTITION BY",
    "ORDER BY": "ORDER BY",
    "MEASURES": "MEASURES",
    "ONE ROW": "ROWS",
    "ALL ROWS": "ROWS",
    "AFTER MATCH": "AFTER MATCH",
    "PATTERN": "PATTERN",
    "SUBSET": "SUBSET",
    "WITHIN": "WITHIN",
    "DEFINE": "DEFINE",
}
_EMPTY = {
    "ALL ROWS PER MATCH": "show",
    "ALL ROWS PER MATCH SHOW EMPTY MATCHES": "show",
    "ALL ROWS PER MATCH OMIT EMPTY MATCHES": "omit",
    "ALL ROWS PER MATCH WITH UNMATCHED ROWS": "unmatched",
}
_BEFORE_SOURCE = {"FROM", "JOIN", ","}
_FUNCTION = re.compile(r"\s*\(?(?P<names>[\w\s,]*)\)?\s*->(?P<body>.*)", re.DOTALL)
_MODES = re.compile(r"\b(RUNNING|FINAL)(\s+)(?=\w+\s*\()", re.IGNORECASE)


class _Sql(Trino):
    """Standard SQL, with the backticks that Flink has for names."""

    class Tokenizer(Trino.Tokenizer):
        IDENTIFIERS = ['"', "`"]  # noqa: RUF012


def read(sql: str, dialect: Dialect) -> Statement:
    """The clauses of a statement, or a `QueryError` that names all that is wrong."""
    problems = Problems()
    try:
        tokens = _tokens(sql)
        at = [k for k, token in enumerate(tokens) if token.token_type == TokenType.MATCH_RECOGNIZE]
        if not at:
            advice = "Write SELECT * FROM t MATCH_RECOGNIZE (…)."
            raise Refused("there is no MATCH_RECOGNIZE", Span(0, len(sql)), advice)
        found = [_found(sql, tokens, k, dialect, problems) for k in at]
    except Refused as problem:
        problems.append(problem)
    except RecursionError:
        raise QueryError("the SQL is nested too deeply", suggestion="Leave parentheses out.") from None
    if problems:
        raise problems.error(sql)
    kept = [each for each in found if each is not None]
    return Statement(sql, dialect, tuple(kept), tuple(f"match_recognize_{k}" for k in range(1, len(kept) + 1)))


def _tokens(sql: str) -> list[Token]:
    try:
        return list(_Sql().tokenize(sql))
    except TokenError as error:
        raise Refused(f"the SQL cannot be read: {str(error).splitlines()[0]}", None) from None


def _found(sql: str, tokens: list[Token], at: int, dialect: Dialect, problems: Problems) -> Found | None:
    if at + 1 >= len(tokens) or tokens[at + 1].token_type != TokenType.L_PAREN:
        raise Refused("MATCH_RECOGNIZE needs its clauses in parentheses", _place(tokens[at : at + 1]))
    last = _closing(tokens, at + 1)
    begin = _begin_of_source(tokens, at)
    if begin == at:
        raise Refused("MATCH_RECOGNIZE needs rows: FROM t MATCH_RECOGNIZE (…)", _place(tokens[at : at + 1]))
    place = _place(tokens[begin:at])
    text = sql[place.start : place.end]
    name = _table_name(tokens[begin:at])
    clause = _Reader(sql, tokens[at + 2 : last], dialect, problems).clause()
    if clause is None:
        return None
    return Found(clause, Source(text, place, name), Span(place.start, tokens[last].end + 1))


def _begin_of_source(tokens: list[Token], at: int) -> int:
    """The token after the FROM, JOIN or comma that stands before the rows."""
    depth = 0
    for k in range(at - 1, -1, -1):
        depth += {TokenType.R_PAREN: 1, TokenType.L_PAREN: -1}.get(tokens[k].token_type, 0)
        if depth < 0 or (depth == 0 and tokens[k].text.upper() in _BEFORE_SOURCE):
            return k + 1
    return at


def _table_name(tokens: list[Token]) -> str | None:
    """The name, if the tokens are `name`, `schema.name`, or one of these with an alias."""
    if tokens[0].token_type == TokenType.L_PAREN:
        return None
    name = tokens[0].text
    k = 1
    while k + 1 < len(tokens) and tokens[k].token_type == TokenType.DOT:
        name = f"{name}.{tokens[k + 1].text}"
        k += 2
    return name


def _closing(tokens: Sequence[Token], opening: int) -> int:
    depth = 0
    for k in range(opening, len(tokens)):
        depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(tokens[k].token_type, 0)
        if depth == 0:
            return k
    raise Refused("this parenthesis is not closed", _place(tokens[opening : opening + 1]))


def _place(tokens: Sequence[Token]) -> Span:
    return Span(tokens[0].start, tokens[-1].end + 1)


def _words(tokens: Sequence[Token]) -> str:
    return " ".join(token.text.upper() for token in tokens)


_OPEN = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE}
_CLOSE = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END}


class _Reader:
    """Reads the tokens between the parentheses of one MATCH_RECOGNIZE."""

    def __init__(self, sql: str, tokens: list[Token], dialect: Dialect, problems: Problems):
        self._sql = sql
        self._dialect = dialect
        self._syntax = _Sql if dialect.syntax == "trino" else dialect.syntax
        self._problems = problems
        self._parts = self._split(tokens)
        self._end = tokens[-1].end + 1 if tokens else len(sql)

    def _split(self, tokens: list[Token]) -> dict[str, list[Token]]:
        """The tokens of each clause, with the words that begin it."""
        parts: dict[str, list[Token]] = {}
        own: list[Token] | None = None
        depth = 0
        for k, token in enumerate(tokens):
            start = None
            if depth == 0:
                words = token.text.upper(), _words(tokens[k : k + 2])
                start = next((_STARTS[word] for word in words if word in _STARTS), None)
                if own is parts.get("PATTERN") and own is not None and len(own) == 1:
                    start = None
                if start and own is not None and own and own[-1].text.upper() in (".", "AS", ","):
                    start = None  # a column of this name
            depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(token.token_type, 0)
            if start:
                if start in parts:
                    raise Refused(f"{start} stands here twice", _place([token]))
                own = parts[start] = []
            elif own is None:
                raise Refused(f"Found '{token.text}' in MATCH_RECOGNIZE, expected a clause", _place([token]))
            own.append(token)
        return parts

    def clause(self) -> RowPattern | None:
        before = len(self._problems)
        noted = self._problems.noted
        partition: list[exp.Expr] = []
        order: list[SortKey] = []
        measures: list[Measure] = []
        subsets: dict[str, tuple[str, ...]] = {}
        define: dict[str, exp.Expr] = {}
        rows = self._parts.get("ROWS", [])
        all_rows = bool(rows) and rows[0].text.upper() == "ALL"
        empty = "show"
        skip, within, pattern = Skip(PAST_LAST), None, None
        with noted():
            partition = [self._parsed(item) for item in self._list("PARTITION BY")]
        with noted():
            order = [self._sort_key(item) for item in self._list("ORDER BY")]
        with noted():
            empty = self._empty(rows)
        with noted():
            pattern = self._pattern()
        with noted():
            subsets = dict(map(self._subset, self._list("SUBSET")))
        with noted():
            skip = self._skip()
        with noted():
            within = self._within()
        for item in self._list("MEASURES"):
            with noted():
                measures.append(self._measure(item))
        for item in self._list("DEFINE"):
            with noted():
                label, condition = self._defined(item)
                if label in define:
                    raise Refused(f"'{label}' is defined twice", _place(item))
                define[label] = condition
        if pattern is not None and len(self._problems) == before:
            with noted():
                self._check(pattern, subsets, define, skip, all_rows, empty)
        if pattern is None or len(self._problems) > before:
            return None
        variables = tuple(dict.fromkeys(leaf.variable for leaf in leaves(pattern)))
        return RowPattern(
            tuple(partition), tuple(order), tuple(measures), all_rows, empty, skip, pattern, variables,  # type: ignore[arg-type]
            subsets, define, within, self._dialect,
        )  # fmt: skip

    def _list(self, clause: str) -> list[list[Token]]:
        """The tokens between the commas of a clause, without the words that begin it."""
        tokens = self._parts.get(clause, [])
        first = tokens[0].text.upper() if tokens else ""
        items: list[list[Token]] = [[]]
        depth = 0
        for token in tokens[1 if first in _STARTS else 2 :]:
            depth += (token.token_type in _OPEN) - (token.token_type in _CLOSE)
            if depth == 0 and token.token_type == TokenType.COMMA:
                items.append([])
            else:
                items[-1].append(token)
        if tokens and not all(items):
            raise Refused(f"{clause} has an empty part", _place(tokens))
        return [item for item in items if item]

    def _parsed(self, tokens: Sequence[Token]) -> exp.Expr:
        span = _place(tokens)
        text = _MODES.sub(lambda m: m[1].upper() + "_" * len(m[2]), self._sql[span.start : span.end])
        try:
            tree = sqlglot.parse_one(" " * span.start + text, dialect=self._syntax)
        except (ParseError, TokenError) as error:
            found = error.errors[0] if isinstance(error, ParseError) and error.errors else {}
            raise Refused(f"this cannot be read: {found.get('description') or error}", span) from None
        tree = tree.transform(self._told)
        tree.meta["span"] = span
        return tree

    def _told(self, node: exp.Expr) -> exp.Expr:
        """A node with what the dialect and the call say of it: functions of the user's, the time, numbers of days."""
        dialect = self._dialect
        if isinstance(node, exp.Anonymous):
            function = dialect.functions.get(str(node.this).lower())
            if isinstance(function, str):
                return self._written_out(node, function)
            if function is not None:
                node.set(CALLED, function)
        elif isinstance(node, exp.Func) and any(name.lower() in dialect.functions for name in node.sql_names()):
            raise Refused(f"{node.sql_name()} is a function of SQL", span_of(node), "Give your own another name.")
        clock = isinstance(node, exp.Anonymous) and str(node.this).upper() == "PROCTIME"
        if clock or isinstance(node, exp.CurrentTimestamp | exp.CurrentDate):
            if dialect.moment is None:
                raise Refused("the current time is not known here", span_of(node), "Pass now=… to match_recognize.")
            told = dialect.moment
            moment = told.astimezone(UTC) if told.tzinfo is not None else told.replace(tzinfo=UTC)
            if isinstance(node, exp.CurrentDate):
                return exp.cast(exp.Literal.string(moment.date().isoformat()), "DATE", dialect="trino")
            return exp.cast(exp.Literal.string(moment.isoformat()), "TIMESTAMPTZ", dialect="trino")
        if dialect.in_days and isinstance(node, exp.Binary | exp.Between | exp.In):
            node.set(IN_DAYS, True)
        return node

    def _written_out(self, call: exp.Anonymous, function: str) -> exp.Expr:
        """A call of a function that is text, as the expression that it stands for."""
        found = _FUNCTION.fullmatch(function)
        if found is None:
            advice = "Write functions={'name': '(x, y) -> SUM(x * y) / SUM(y)'}."
            raise Refused(f"the function '{call.this}' is no '(x) -> expression'", span_of(call), advice)
        names = [name.strip().lower() for name in found["names"].split(",") if name.strip()]
        if len(names) != len(call.expressions):
            raise Refused(f"'{call.this}' takes {len(names)} arguments, not {len(call.expressions)}", span_of(call))
        try:
            body = sqlglot.parse_one(found["body"], dialect=self._syntax)
        except (ParseError, TokenError):
            raise Refused(f"the expression of the function '{call.this}' cannot be read", span_of(call)) from None
        values = dict(zip(names, call.expressions, strict=True))

        def put(node: exp.Expr) -> exp.Expr:
            node.meta.clear()
            name = node.name.lower() if isinstance(node, exp.Column) and not node.table else ""
            return exp.Paren(this=values[name].copy()) if name in values else node

        return exp.Paren(this=body.transform(put).transform(self._told))

    def _sort_key(self, tokens: list[Token]) -> SortKey:
        words = [token.text.upper() for token in tokens]
        first: bool | None = None
        if len(words) > 2 and words[-2] == "NULLS" and words[-1] in ("FIRST", "LAST"):
            first, tokens, words = words[-1] == "FIRST", tokens[:-2], words[:-2]
        descending = False
        if len(words) > 1 and words[-1] in ("ASC", "DESC"):
            descending, tokens = words[-1] == "DESC", tokens[:-1]
        if first is None:
            first = {"last": False, "large": descending, "small": not descending}[self._dialect.nulls]
        return SortKey(self._parsed(tokens), descending, first)

    def _empty(self, rows: list[Token]) -> str:
        words = _words(rows)
        if words in ("", "ONE ROW PER MATCH"):
            return "show"
        if words not in _EMPTY:
            advice = "Write ONE ROW PER MATCH, or ALL ROWS PER MATCH [SHOW EMPTY MATCHES | OMIT EMPTY MATCHES | …]."
            raise Refused(f"{words} is not known", _place(rows), advice)
        return _EMPTY[words]

    def _pattern(self) -> Node:
        tokens = self._parts.get("PATTERN")
        if tokens is None:
            raise Refused("MATCH_RECOGNIZE has no PATTERN", Span(self._end, self._end + 1), "Write PATTERN (A B+ C).")
        if len(tokens) < 2 or tokens[1].token_type != TokenType.L_PAREN or _closing(tokens, 1) != len(tokens) - 1:
            raise Refused("PATTERN needs parentheses around all of it", _place(tokens), "Write PATTERN (A B+ C).")
        if len(tokens) == 3:
            raise Refused("PATTERN is empty", _place(tokens), "Write PATTERN (A B+ C).")
        return read_pattern(self._sql, Span(tokens[1].end + 1, tokens[-1].start), self._dialect)

    def label(self, token: Token) -> str:
        quoted = self._sql[token.start] in '"`'
        return self._dialect.label(token.text, quoted)

    def _subset(self, tokens: list[Token]) -> tuple[str, tuple[str, ...]]:
        if len(tokens) < 5 or tokens[1].text != "=" or tokens[2].text != "(" or tokens[-1].text != ")":
            raise Refused("SUBSET has another form", _place(tokens), "Write SUBSET S = (A, B).")
        return self.label(tokens[0]), tuple(self.label(t) for t in tokens[3:-1] if t.token_type != TokenType.COMMA)

    def _skip(self) -> Skip:
        tokens = self._parts.get("AFTER MATCH", [])
        words = _words(tokens)
        if not tokens:
            if self._dialect.skip_past is None:
                advice = "Write AFTER MATCH SKIP TO NEXT ROW, or PAST LAST ROW."
                place = Span(self._end, self._end + 1)
                raise Refused("AFTER MATCH is missing, and its default in this dialect is not known", place, advice)
            return Skip(PAST_LAST if self._dialect.skip_past else TO_NEXT)
        for to in (PAST_LAST, TO_NEXT):
            if words == f"AFTER MATCH SKIP {to}":
                return Skip(to)
        for start, to in (
            ("AFTER MATCH SKIP TO FIRST ", TO_FIRST),
            ("AFTER MATCH SKIP TO LAST ", TO_LAST),
            ("AFTER MATCH SKIP TO ", TO_LAST),
        ):
            if words.startswith(start) and len(tokens) == len(start.split()) + 1:
                return Skip(to, self.label(tokens[-1]))
        raise Refused(f"{words} is not known", _place(tokens), "Write AFTER MATCH SKIP PAST LAST ROW, or TO NEXT ROW.")

    def _within(self) -> exp.Expr | None:
        tokens = self._parts.get("WITHIN")
        return None if tokens is None else self._parsed(tokens[1:])

    def _measure(self, tokens: list[Token]) -> Measure:
        depth, at = 0, -1
        for k, token in enumerate(tokens):
            depth += (token.token_type in _OPEN) - (token.token_type in _CLOSE)
            if depth == 0 and token.text.upper() == "AS":
                at = k
        if at == -1 and len(tokens) > 1 and tokens[-1].token_type in (TokenType.VAR, TokenType.IDENTIFIER):
            with suppress(Refused):
                return Measure(tokens[-1].text, self._parsed(tokens[:-1]))
        if at < 1 or at != len(tokens) - 2:
            raise Refused("a measure needs a name", _place(tokens), "Write MEASURES … AS name.")
        return Measure(tokens[-1].text, self._parsed(tokens[:at]))

    def _defined(self, tokens: list[Token]) -> tuple[str, exp.Expr]:
        if len(tokens) < 3 or tokens[1].text.upper() != "AS":
            raise Refused("DEFINE has another form", _place(tokens), "Write DEFINE A AS condition.")
        return self.label(tokens[0]), self._parsed(tokens[2:])

    def _check(
        self,
        pattern: Node,
        subsets: dict[str, tuple[str, ...]],
        define: dict[str, exp.Expr],
        skip: Skip,
        all_rows: bool,
        empty: str,
    ) -> None:
        """That names are those of PATTERN, and what the standard forbids."""
        variables = {leaf.variable for leaf in leaves(pattern)}
        if not variables:
            raise Refused("PATTERN has no variable", _place(self._parts["PATTERN"]))
        for what, names in (*(("SUBSET", m) for m in subsets.values()), ("DEFINE", tuple(define))):
            for name in names:
                if name not in variables:
                    near = did_you_mean(name, sorted(variables))
                    raise Refused(f"{what} names '{name}', and PATTERN has no such variable", self._token(what), near)
        for name in subsets:
            if name in variables:
                raise Refused(f"'{name}' is a variable of PATTERN and a SUBSET", self._token("SUBSET"))
        if skip.variable is not None and skip.variable not in variables | set(subsets):
            near = did_you_mean(skip.variable, sorted(variables | set(subsets)))
            raise Refused(f"PATTERN has no variable '{skip.variable}'", self._token("AFTER MATCH"), near)
        excluded = next(exclusions(pattern), None)
        if excluded is not None and not all_rows:
            advice = "Write ALL ROWS PER MATCH, or leave the braces out."
            raise Refused("{- … -} needs ALL ROWS PER MATCH", excluded.span, advice)
        if excluded is not None and empty == "unmatched":
            raise Refused("{- … -} does not go with WITH UNMATCHED ROWS", excluded.span)

    def _token(self, clause: str) -> Span:
        return _place(self._parts[clause])


def span_of(node: exp.Expr) -> Span | None:
    """The place of an expression: from the first to the last part of it that has one, else of the clause's item."""
    places = [part.meta for part in node.walk() if "start" in part.meta]
    if places:
        return Span(min(p["start"] for p in places), max(p["end"] for p in places) + 1)
    found: Span | None = node.root().meta.get("span")
    return found
