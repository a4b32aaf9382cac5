"""What a random statement with MATCH_RECOGNIZE must satisfy."""

from __future__ import annotations

import pyarrow as pa

import ceql
from row_pattern_cases import Case

SCHEMA = pa.schema({"ts": pa.int64(), "g": pa.int64(), "k": pa.string(), "price": pa.int64()})


def check(case: Case) -> bool:
    """Compares with the rows by the definition; whether the statement was run."""
    table = pa.Table.from_pylist(case.rows, SCHEMA)
    rows: list[tuple[object, ...]] | None = None
    try:
        found = ceql.match_recognize(case.sql, table)
        rows = [tuple(row) for row in zip(*(column.to_pylist() for column in found.columns), strict=True)]
    except ceql.QueryError as error:
        if not case.in_define or "not evaluated" not in str(error):
            raise
        return False
    except ceql.DataError as error:
        if "AFTER MATCH SKIP" not in str(error):
            raise
    told = None if rows is None else sorted(rows, key=repr)
    assert told == (None if case.expected is None else sorted(case.expected, key=repr)), (case.sql, case.rows)
    return True
