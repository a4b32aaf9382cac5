"""A whole statement over frames: MATCH_RECOGNIZE, and the SELECT around it.

Around it stand columns and expressions over one result, WHERE, ORDER BY and LIMIT. The rest of SQL is for a database:
it is refused by its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError

from ceql.errors import QueryError, did_you_mean
from ceql.io.frames import is_lazy, is_pandas
from ceql.io.sources import open_source
from ceql.row_patterns import rows as ordering
from ceql.row_patterns.clauses import read
from ceql.row_patterns.dialects import Dialect, dialect_of
from ceql.row_patterns.expressions import as_array, evaluate
from ceql.row_patterns.navigation import column_named
from ceql.row_patterns.plan import Plan
from ceql.row_patterns.problem import Problems, Refused
from ceql.row_patterns.statement import SortKey, Statement

_WORDS = {"group": "GROUP BY", "joins": "JOIN", "laterals": "LATERAL", "windows": "WINDOW", "with_": "WITH"}
_TAKEN = ("expressions", "from", "from_", "kind", "where", "order", "limit")


def run(sql: str, frames: Any, dialect: str | None = None) -> Any:
    """The rows of a statement, as a frame of the kind that came in."""
    statement = read(sql, dialect_of(dialect))
    around = _checked(statement)
    frame = _frame(frames, statement)
    source = open_source(frame)
    batches = list(source.batches())
    rows = pa.Table.from_batches(batches, source.schema)
    result = Plan(statement.found[0].clause, sql, rows.column_names).run(rows)
    problems = Problems()
    with problems.noted():
        return _as_it_came(_selected(result, around, statement), frame)
    raise problems.error(sql)


def explain(sql: str, frames: Any, dialect: str | None = None) -> str:
    """How a statement is matched, and what bounds its work."""
    statement = read(sql, dialect_of(dialect))
    _checked(statement)
    schema = open_source(_frame(frames, statement)).schema
    return Plan(statement.found[0].clause, sql, schema.names).explain(schema)


def _checked(statement: Statement) -> exp.Select:
    problems = Problems()
    with problems.noted():
        return _around(statement)
    raise problems.error(statement.sql)


def _frame(frames: Any, statement: Statement) -> Any:
    """The table that the statement names."""
    name = statement.found[0].source.name or ""
    if not isinstance(frames, Mapping):
        return frames
    for known in frames:
        if known == name or str(known).lower() == name.lower():
            return frames[known]
    near = did_you_mean(name, [str(known) for known in frames])
    raise QueryError(f"there is no table '{name}' in the dict of frames", statement.sql, None, near)


def _around(statement: Statement) -> exp.Select:
    """The SELECT around the only clause, checked."""
    sources = statement.found
    if len(sources) > 1:
        raise Refused("frames are matched by one MATCH_RECOGNIZE at a time", sources[1].span, _ADVICE)
    if sources[0].source.name is None:
        raise Refused("the rows come from a table, by its name", sources[0].source.span, _ADVICE)
    try:
        parsed = sqlglot.parse_one(statement.around, dialect=statement.dialect.syntax)
    except ParseError as error:
        text = error.errors[0].get("description") if error.errors else str(error)
        raise Refused(f"the SQL around MATCH_RECOGNIZE cannot be read: {text}", None) from None
    if not isinstance(parsed, exp.Select):
        raise Refused("frames are matched by one SELECT … FROM table MATCH_RECOGNIZE (…)", None, _ADVICE)
    others = {name for name, value in parsed.args.items() if value and name not in _TAKEN}
    source = parsed.find(exp.From)
    if source is not None and source.this.args.get("joins"):
        others.add("joins")
    if others:
        words = sorted(_WORDS.get(name, name.strip("_").upper().replace("_", " ")) for name in others)
        raise Refused(f"around MATCH_RECOGNIZE there is {' and '.join(words)}", None, _ADVICE)
    return parsed


_ADVICE = (
    "Over frames there may be SELECT with expressions, WHERE, ORDER BY and LIMIT. ceql.spark.sql runs the whole "
    "statement; or do the rest with the result."
)


def _selected(table: pa.Table, select: exp.Select, statement: Statement) -> pa.Table:
    """The columns and rows that the SELECT around the clause asks for."""
    names = list(table.column_names)

    def values(node: exp.Expr, of: pa.Table) -> pa.Array:
        def leaf(each: exp.Expr) -> Any:
            return ordering._combined(of[_at(each, names)])

        return as_array(evaluate(node, leaf), of.num_rows)

    where = select.args.get("where")
    if where is not None:
        table = table.filter(values(where.this, table))
    order = select.args.get("order")
    columns: list[tuple[str, pa.Array]] = []
    for node in select.expressions:
        if isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star)):
            columns += [(name, table.column(k)) for k, name in enumerate(names)]
        else:
            inner = node.this if isinstance(node, exp.Alias) else node
            name = node.alias_or_name or f"_col{len(columns)}"
            columns.append((name, values(inner, table)))
    result = pa.Table.from_arrays([column for _, column in columns], names=[name for name, _ in columns])
    if order is not None:
        result = result.take(_order(order, table, result, statement.dialect))
    limit = select.args.get("limit")
    return result if limit is None else result.slice(0, int(limit.expression.name))


def _order(order: exp.Expr, table: pa.Table, result: pa.Table, dialect: Dialect) -> pa.Array:
    keys = []
    for each in order.expressions:
        descending = bool(each.args.get("desc"))
        first = each.args.get("nulls_first")
        if first is None:
            first = {"last": False, "large": descending, "small": not descending}[dialect.nulls]
        names = list(result.column_names)
        if isinstance(each.this, exp.Column) and each.this.name in names:
            column = result.column(names.index(each.this.name))
        else:
            column = table.column(_at(each.this, list(table.column_names)))
        keys += ordering._keys(ordering._combined(column), SortKey(each.this, descending, bool(first)))
    return pa.array(np.lexsort(keys[::-1]))


def _at(node: exp.Expr, names: list[str]) -> int:
    """The place of a column in the result; the first of that name."""
    return names.index(column_named(node, names))


def _as_it_came(table: pa.Table, frame: Any) -> Any:
    if is_pandas(frame):
        return table.to_pandas()
    if type(frame).__module__.split(".")[0] == "polars":
        import polars

        made = polars.from_arrow(table)
        return made.lazy() if is_lazy(frame) else made
    return table
