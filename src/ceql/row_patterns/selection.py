"""Simple selections over tables: SELECT with expressions, FROM one table, WHERE, ORDER BY and LIMIT.

They stand around MATCH_RECOGNIZE, as a subquery that gives its rows, and in WITH. The rest of SQL is for a database: it
is refused by its name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from sqlglot import exp

from ceql.row_patterns import rows as ordering
from ceql.row_patterns.clauses import span_of
from ceql.row_patterns.dialects import Dialect
from ceql.row_patterns.expressions import as_array, evaluate
from ceql.row_patterns.navigation import column_named
from ceql.row_patterns.problem import Refused
from ceql.row_patterns.statement import SortKey

_WORDS = {"group": "GROUP BY", "joins": "JOIN", "laterals": "LATERAL", "windows": "WINDOW", "with_": "WITH"}
_TAKEN = ("expressions", "from", "from_", "kind", "where", "order", "limit")
ADVICE = (
    "Over frames there may be SELECT with expressions, WHERE, ORDER BY and LIMIT, as a subquery and in WITH, too. "
    "ceql.spark.sql runs the whole statement; or do the rest before, or with the result."
)

Load = Callable[[str], pa.Table]
"""The table of a name."""


def check_simple(select: exp.Expr, where: str, taken: tuple[str, ...] = ()) -> exp.Select:
    """A SELECT that has no parts but those that are evaluated here, and those `taken` elsewhere."""
    if not isinstance(select, exp.Select):
        raise Refused(f"{where} there is {select.key.upper()}", span_of(select), ADVICE)
    others = {name for name, value in select.args.items() if value and name not in (*_TAKEN, *taken)}
    source = select.find(exp.From)
    if source is not None and source.this.args.get("joins"):
        others.add("joins")
    if others:
        words = sorted(_WORDS.get(name, name.strip("_").upper().replace("_", " ")) for name in others)
        raise Refused(f"{where} there is {' and '.join(words)}", span_of(select) if select.parent else None, ADVICE)
    return select


class Sources:
    """The tables that FROM may name: those of WITH, and those that `load` gives."""

    def __init__(self, around: exp.Select, dialect: Dialect, load: Load):
        self._dialect = dialect
        self._load = load
        self._with: dict[str, exp.CTE] = {}
        own = around.args.get("with_")
        if own is not None and own.args.get("recursive"):
            raise Refused("WITH RECURSIVE is not evaluated", None, ADVICE)
        for each in own.expressions if own is not None else ():
            self._with[each.alias.lower()] = each

    def table(self, source: exp.Expr, under: tuple[str, ...] = ()) -> pa.Table:
        """The rows of what stands behind FROM; `under` are the names of WITH that ask for it."""
        match source:
            case exp.Table():
                name = ".".join(part.name for part in source.parts)
                if name.lower() in under:
                    raise Refused(f"'{name}' of WITH reads itself", None, ADVICE)
                known = self._with.get(name.lower())
                table = self._load(name) if known is None else self._aliased(known, (*under, name.lower()))
            case exp.Values():
                table = _values(source)
            case exp.Subquery():
                table = self._query(source.this, under)
            case _:
                raise Refused(f"rows of {source.key.upper()} are not read", span_of(source), ADVICE)
        return _renamed(table, source)

    def _aliased(self, known: exp.CTE, under: tuple[str, ...]) -> pa.Table:
        return _renamed(self._query(known.this, under), known)

    def _query(self, query: exp.Expr, under: tuple[str, ...]) -> pa.Table:
        select = check_simple(query, "in the query that gives the rows")
        source = select.find(exp.From)
        if source is None:
            raise Refused("a query that gives rows needs FROM", span_of(select), ADVICE)
        return selected(self.table(source.this, under), select, self._dialect)


def _values(values: exp.Values) -> pa.Table:
    """The rows that VALUES lists."""

    def leaf(node: exp.Expr) -> Any:
        raise Refused(f"'{node.name}' stands in VALUES, which has no columns", span_of(node))

    found = [[evaluate(each, leaf) for each in row.expressions] for row in values.expressions]
    columns = [pa.array([value.as_py() for value in column]) for column in zip(*found, strict=True)]
    return pa.table(columns, names=[f"_col{k}" for k in range(len(columns))])


def _renamed(table: pa.Table, source: exp.Expr) -> pa.Table:
    """With the names that `AS t (a, b)` gives to the columns."""
    alias = source.args.get("alias")
    if alias is None or not alias.columns:
        return table
    names = [each.name for each in alias.columns]
    if len(names) != table.num_columns:
        message = f"'{alias.name}' names {len(names)} columns, and there are {table.num_columns}"
        raise Refused(message, span_of(source))
    return table.rename_columns(names)


def selected(table: pa.Table, select: exp.Select, dialect: Dialect) -> pa.Table:
    """The columns and rows that a SELECT asks for."""
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
        result = result.take(_order(order, table, result, dialect))
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
