"""Notes on what a query means where its author may expect something else: divisions by zero, how far NOT looks back.

In: a plan. Out: a line for each note, with its place in the text.
"""

from __future__ import annotations

from decimal import Decimal

from ceql.analysis.looking_back import looks_back
from ceql.errors import QueryError, Span
from ceql.explain.text import wrapped
from ceql.plans import Plan
from ceql.syntax import tree as t
from ceql.syntax.printer import print_expression
from ceql.syntax.walking import nodes


def note_lines(plan: Plan) -> list[str]:
    """The notes, none for most queries."""
    lines: list[str] = []
    query = plan.query
    found = [node for node in nodes((*query.measures, query.formula)) if isinstance(node, t.Arithmetic)]
    for node in sorted(found, key=lambda node: node.span or Span(0, 0)):
        if node.op in "/%" and not _is_not_zero(node.right):
            place = QueryError("", plan.source, node.span)
            text = f"{print_expression(node)} is NULL where {print_expression(node.right)} is 0, as in SQL"
            lines += wrapped(f"line {place.line or 1}, column {place.column or 1}: {text}", "", "    ")
    back = looks_back(query)
    return lines + (wrapped(back, "", "    ") if back is not None else [])


def _is_not_zero(divisor: t.Expression) -> bool:
    """Whether a divisor is a number other than zero."""
    return isinstance(divisor, t.Literal) and isinstance(divisor.value, int | Decimal) and divisor.value != 0
