"""A whole statement over frames: MATCH_RECOGNIZE, the selection that gives its rows, and the one around it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError

from ceql.errors import QueryError, did_you_mean
from ceql.io.frames import is_lazy, is_pandas
from ceql.io.sources import open_source
from ceql.row_patterns.clauses import read
from ceql.row_patterns.dialects import Function, dialect_of
from ceql.row_patterns.plan import Plan
from ceql.row_patterns.problem import Problems, Refused
from ceql.row_patterns.selection import ADVICE, Load, Sources, check_simple, selected
from ceql.row_patterns.statement import Statement


def run(
    sql: str,
    frames: Any,
    dialect: str | None = None,
    functions: Mapping[str, Function] | None = None,
    now: datetime | None = None,
) -> Any:
    """The rows of a statement, as a frame of the kind that came in."""
    statement = read(sql, dialect_of(dialect, functions, now))
    used: list[Any] = []

    def load(name: str) -> pa.Table:
        used.append(_frame(frames, name, sql))
        source = open_source(used[-1])
        return pa.Table.from_batches(list(source.batches()), source.schema)

    around, rows = _read(statement, load)
    result = Plan(statement.found[0].clause, sql, rows.column_names).run(rows)
    problems = Problems()
    with problems.noted():
        return _as_it_came(selected(result, around, statement.dialect), used[0] if used else None)
    raise problems.error(sql)


def explain(sql: str, frames: Any, dialect: str | None = None) -> str:
    """How a statement is matched, and what bounds its work."""
    statement = read(sql, dialect_of(dialect))
    schema = _read(statement, lambda name: open_source(_frame(frames, name, sql)).schema.empty_table())[1].schema
    return Plan(statement.found[0].clause, sql, schema.names).explain(schema)


def _read(statement: Statement, load: Load) -> tuple[exp.Select, pa.Table]:
    """The SELECT around the only clause, checked, and the rows of the clause."""
    problems = Problems()
    with problems.noted():
        around = _around(statement)
        return around, Sources(around, statement.dialect, load).table(_source(statement))
    raise problems.error(statement.sql)


def _frame(frames: Any, name: str, sql: str) -> Any:
    """The table that the statement names."""
    if not isinstance(frames, Mapping):
        return frames
    for known in frames:
        if known == name or str(known).lower() == name.lower():
            return frames[known]
    near = did_you_mean(name, [str(known) for known in frames])
    raise QueryError(f"there is no table '{name}' in the dict of frames", sql, None, near)


def _around(statement: Statement) -> exp.Select:
    """The SELECT around the only clause, checked."""
    sources = statement.found
    if len(sources) > 1:
        raise Refused("frames are matched by one MATCH_RECOGNIZE at a time", sources[1].span, ADVICE)
    parsed = _parsed(statement.around, statement, "the SQL around MATCH_RECOGNIZE")
    if not isinstance(parsed, exp.Select):
        raise Refused("frames are matched by one SELECT … FROM table MATCH_RECOGNIZE (…)", None, ADVICE)
    return check_simple(parsed, "around MATCH_RECOGNIZE", ("with_",))


def _source(statement: Statement) -> exp.Expr:
    """What gives the rows of the only clause; its places are those of the statement."""
    source = statement.found[0].source
    parsed = _parsed("SELECT * FROM ".ljust(source.span.start) + source.text, statement, "what gives the rows")
    found: exp.Expr = check_simple(parsed, "in what gives the rows").find(exp.From).this  # type: ignore[union-attr]
    return found


def _parsed(text: str, statement: Statement, what: str) -> exp.Expr:
    try:
        return sqlglot.parse_one(text, dialect=statement.dialect.syntax)
    except ParseError as error:
        found = error.errors[0].get("description") if error.errors else str(error)
        raise Refused(f"{what} cannot be read: {found}", None) from None


def _as_it_came(table: pa.Table, frame: Any) -> Any:
    if is_pandas(frame):
        return table.to_pandas()
    if type(frame).__module__.split(".")[0] == "polars":
        import polars

        made = polars.from_arrow(table)
        return made.lazy() if is_lazy(frame) else made
    return table
