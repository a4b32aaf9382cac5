"""The SQL of MEASURES to measures of CEQL: values of a whole match."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from ceql.row_patterns.as_query.conditions import AGGREGATES, Labels, Reader, refuse
from ceql.row_patterns.as_query.sql import span_of
from ceql.row_patterns.problem import Problems
from ceql.syntax import tree

# FIRST or LAST (a word) of a column of a variable; no variable: of all rows of the match
EndOf = Callable[[str | None, str, str, exp.Expr], tree.Expression]


class MeasureReader(Reader):
    """Reads measures. `rows` is the name for all rows of a match, `end_of` the value at a first or last row."""

    def __init__(self, labels: Labels, end_of: EndOf, rows: Callable[[], str], problems: Problems):
        super().__init__(None, labels, lambda variable, *_: variable, problems)
        self._end_of = end_of
        self._rows = rows
        self._over: list[str] | None = None  # inside an aggregate: the variables of its columns

    def _column(self, node: exp.Column) -> tree.Expression:
        variable = self.variable(node)
        if self._over is None:
            return self._end_of(variable, "LAST", node.name, node)
        self._over.append(self._rows() if variable is None else variable)
        return tree.Ref(self._over[-1], node.name)

    def _end(self, node: exp.First | exp.Last) -> tree.Expression:
        variable, column = self._row_of(node)
        return self._end_of(variable, "LAST" if isinstance(node, exp.Last) else "FIRST", column.name, node)

    def _prev(self, node: exp.Anonymous) -> tree.Expression:
        raise refuse(node, "PREV in MEASURES is not translated", "Give the row before a variable of its own.")

    def _aggregate(self, node: exp.Expr) -> tree.Expression:
        operand = node.this
        if isinstance(operand, exp.Star):
            return tree.Aggregate("COUNT", self._rows())
        if isinstance(operand, exp.Column) and isinstance(operand.this, exp.Star):
            return tree.Aggregate("COUNT", self.variable(operand) or self._rows())
        if self._over is not None or isinstance(operand, exp.Distinct):
            raise refuse(node, "this aggregate is not translated")
        self._over, problems = [], len(self._problems)
        value = self.value(operand)
        over, self._over = set(self._over), None
        if len(self._problems) > problems:
            return value
        if len(over) != 1:
            raise refuse(node, "an aggregate is over the rows of one variable")
        return tree.Aggregate(AGGREGATES[type(node)], over.pop(), value, span=span_of(node))
