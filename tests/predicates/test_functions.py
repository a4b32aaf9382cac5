"""Functions over columns as they come: parts of others, whatever their buffers look like."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import ceql

TEXTS = ["xx", "yyy", "aB", "Ab", "zé"]


@pytest.mark.parametrize("rows", [1, 2, 3, 5])
@pytest.mark.parametrize(
    ("condition", "rows_found"),
    [("LOWER(s) = 'ab'", [2, 3]), ("UPPER(s) IN ('AB', 'ZÉ')", [2, 3, 4]), ("LENGTH(s) = 2", [0, 2, 3, 4])],
)
def test_texts_in_pieces(rows: int, condition: str, rows_found: list[int]) -> None:
    """Of a piece without NULL, Arrow's cast leaves offsets that do not begin with zero."""
    table = pa.table({"type": ["A"] * len(TEXTS), "s": TEXTS})
    found = ceql.match(f"SELECT * WHERE A FILTER A[{condition}]", table, batch_rows=rows)
    assert [match.events for match in found] == [(row,) for row in rows_found]


def test_texts_whose_offsets_begin_anywhere() -> None:
    offsets, data = pa.py_buffer(np.array([5, 7, 9], np.int64)), pa.py_buffer(b"xxyyyaBAb")
    texts = pa.Array.from_buffers(pa.large_string(), 2, [None, offsets, data])
    events = pa.table({"type": ["A", "A"], "s": texts})
    assert ceql.match("SELECT * WHERE A FILTER A[LOWER(s) = 'ab'] AND A[UPPER(s) = 'AB']", events).count() == 2
