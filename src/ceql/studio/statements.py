"""Runs SQL with MATCH_RECOGNIZE over the events of a session, one statement at a time.

In: a statement and data. Out: its rows as cells for the page, up to a number of them. A statement reads the events
whole and cannot be stopped midway; its work is bounded by the rows and the pattern, so a second one waits for its turn.
"""

from __future__ import annotations

import threading
from typing import Any

import pyarrow as pa

from ceql.errors import DataError
from ceql.results.text import cell, to_python
from ceql.row_patterns import match_recognize
from ceql.studio.data import Data

MOST_ROWS = 1000  # that are sent
_ROOM = 200  # characters of a cell
_turn = threading.Lock()


def answer(sql: str, data: Data, dialect: str | None) -> dict[str, Any]:
    """The columns and the first rows that a statement gives."""
    try:
        with _turn:
            found: pa.Table = match_recognize(sql, dict(data.parts) or data.table, dialect=dialect)
    except ImportError as error:
        raise DataError(str(error)) from error
    shown = found.slice(0, MOST_ROWS)
    columns = [to_python(column, " ") for column in shown.columns]
    numbers = [pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in shown.schema.types]
    return {
        "heads": [{"name": name, "right": right} for name, right in zip(shown.schema.names, numbers, strict=True)],
        "rows": [[cell(value, _ROOM) for value in row] for row in zip(*columns, strict=True)],
        "total": found.num_rows,
    }
