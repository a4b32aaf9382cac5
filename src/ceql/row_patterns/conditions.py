"""DEFINE to guards: conditions that look at the current row and its neighbours, as truths of each row.

The row at which a variable is tried is the last of its rows, and of all rows. So LAST(A.x), A.x and x in the condition
of A are columns, and PREV and NEXT of them columns that are moved within their partition: the condition is computed for
all rows at once. What looks at other rows of the match depends on how they were matched (`carried`).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from ceql.jit import Array
from ceql.row_patterns import navigation
from ceql.row_patterns.clauses import span_of
from ceql.row_patterns.expressions import Column, as_array, evaluate
from ceql.row_patterns.navigation import Access, Look, Reading
from ceql.row_patterns.problem import Refused
from ceql.row_patterns.rows import Rows


def is_of_row(look: Look, variable: str) -> bool:
    """Whether a look is at the row at which `variable` is tried, or at a neighbour of it."""
    if not isinstance(look, Access):
        return False
    row = look.row
    if not row.last or row.offset or not (row.rows is None or variable in row.rows):
        return False
    named = {navigation.placeholder_of(node) for node in look.tree.walk()}
    return navigation.CLASSIFIER not in named or row.shift >= 0


def row_column(access: Access, variable: str, rows: Rows) -> Column:
    """What a look at the row itself gives, for all rows."""

    def leaf(node: exp.Expr) -> Column:
        if navigation.placeholder_of(node) == navigation.CLASSIFIER:
            return pa.scalar(variable if access.row.shift == 0 else None, pa.string())
        return rows.of_row(node, access.row.shift)

    return evaluate(access.tree, leaf)


def guard(reading: Reading, variable: str, rows: Rows) -> Array | None:
    """Whether each row can be one of `variable`; None if every row can. The looks of the tree are at the row."""

    def leaf(node: exp.Expr) -> Column:
        look = reading.looks[int(navigation.placeholder_of(node) or 0)]
        assert isinstance(look, Access)
        return row_column(look, variable, rows)

    truth = evaluate(reading.tree, leaf)
    if not pa.types.is_boolean(truth.type) and not pa.types.is_null(truth.type):
        raise Refused(f"the condition of '{variable}' is no condition, it is {truth.type}", span_of(reading.tree))
    if isinstance(truth, pa.Scalar):
        if truth.is_valid and truth.as_py():
            return None
        return np.zeros(rows.table.num_rows, bool)
    return np.asarray(pc.fill_null(as_array(truth, rows.table.num_rows), False))
